"""Reasons in a few words, also of plugins nobody here has heard of."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fleet.explain.facts.rejections import ClusterRejection, RejectionDetails, describe_lack, describe_reason
from plugins.default_profile import compile_default


def test_a_reason_from_elsewhere_is_told_by_its_name() -> None:
    assert (
        describe_reason(ClusterRejection("Quota", "QuotaExceeded", "quota team-a is used up", {})) == "quota exceeded"
    )


def test_a_plugin_without_reasons_is_told_by_its_message() -> None:
    assert (
        describe_reason(ClusterRejection("Quota", "Unschedulable", "quota team-a is used up", {}))
        == "quota team-a is used up"
    )


@pytest.mark.parametrize(
    "refused, want",
    [
        (
            ClusterRejection(
                "TaintToleration", "UntoleratedTaint", "", {"key": "gpu", "value": "", "effect": "NoSchedule"}
            ),
            "gpu:NoSchedule",
        ),
        (
            ClusterRejection(
                "TaintToleration", "UntoleratedTaint", "", {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
            ),
            "gpu=a100:NoSchedule",
        ),
        (
            ClusterRejection("ClusterEligibility", "AgentSilent", "", {"when": "never received", "check": 3}),
            "agent silent, never received",
        ),
        (
            ClusterRejection("ClusterEligibility", "Unhealthy", "", {"when": "…", "since": "2026-03-10T08:00:00Z"}),
            "unhealthy since 2026-03-10T08:00:00Z",
        ),
        (ClusterRejection("ClusterEligibility", "Left", "", {"check": 1}), "left the fleet"),
        (ClusterRejection("ClusterAffinity", "NoTermMatched", "", {"terms": []}), "no affinity term matched"),
    ],
    ids=["taint", "taint with value", "never heard", "unhealthy", "nothing to add", "no terms"],
)
def test_what_one_cluster_lacks(refused: ClusterRejection, want: str) -> None:
    judge = next(judge for judge in compile_default().judges if judge.name == refused.plugin)

    details = RejectionDetails(refused.details, judge.reasons.find(refused.reason))

    assert describe_lack(replace(refused, details=details)) == want
