"""What is published: the same situation again says nothing new."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Published
from fleet.framework.request import PlacementRequest, compile_request
from fleet.model.views import Binding, MemberCluster, PolicySnapshot, PolicySnapshotStatus
from fleet.snapshot import Table
from plugins.default_profile import compile_default

PROFILE = compile_default()


def published(policy: dict[str, Any] | None, previous: PolicySnapshotStatus, **annotations: str) -> Published:
    metadata = {
        "name": "web-0",
        "generation": 2,
        "labels": {"kubernetes-fleet.io/parent-CRP": "web"},
        "annotations": {f"kubernetes-fleet.io/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    snapshot = msgspec.convert({"metadata": metadata, "spec": {"policy": policy}}, PolicySnapshot)
    clusters = [msgspec.convert({"metadata": {"name": name}}, MemberCluster) for name in ("a", "b")]
    inputs = DecisionInput(
        frame=Table(clusters).freeze(),
        request=compile_request(snapshot),
        bindings=(),
        profile=PROFILE,
        now=0,
        previous=previous,
    )
    found = decide(inputs).published
    assert found is not None
    return found


def stored(found: Published) -> PolicySnapshotStatus:
    return PolicySnapshotStatus(
        observed_crp_generation=found.observed_generation,
        conditions=(found.condition,),
        target_clusters=found.decisions,
    )


@pytest.mark.parametrize(
    "policy",
    [
        None,
        {"placementType": "PickFixed", "clusterNames": ["a", "nowhere"]},
        {"placementType": "PickSome"},
        {"placementType": "PickFixed", "clusterNames": []},
    ],
    ids=["no policy", "PickFixed", "input error", "scale to zero"],
)
def test_an_unchanged_situation_is_not_written_again(policy: dict[str, Any] | None) -> None:
    first = published(policy, PolicySnapshotStatus(), CRP_generation="3")
    again = published(policy, stored(first), CRP_generation="3")

    assert first.differs_from(PolicySnapshotStatus())
    assert not again.differs_from(stored(first))


def test_a_new_generation_is_written_though_nothing_else_changed() -> None:
    first = published(None, PolicySnapshotStatus(), CRP_generation="3")

    assert published(None, stored(first), CRP_generation="4").differs_from(stored(first))


def test_an_input_error_keeps_the_decisions_and_names_field_value_and_remedy() -> None:
    before = stored(
        published({"placementType": "PickFixed", "clusterNames": ["a"]}, PolicySnapshotStatus(), CRP_generation="1")
    )

    found = published({"placementType": "PickSome"}, before, CRP_generation="2")

    assert found.decisions == before.target_clusters
    assert found.condition.message == (
        "scheduling stopped: spec.policy.placementType: 'PickSome' is no placement type; "
        "use PickAll, PickN or PickFixed"
    )


def test_without_a_readable_generation_nothing_is_published() -> None:
    snapshot = msgspec.convert(
        {"metadata": {"name": "web-0", "labels": {"kubernetes-fleet.io/parent-CRP": "web"}}}, PolicySnapshot
    )
    inputs = DecisionInput(
        frame=Table().freeze(), request=compile_request(snapshot), bindings=(), profile=PROFILE, now=0
    )

    assert decide(inputs).published is None


def test_the_decision_of_an_existing_binding_is_published_as_it_was_read() -> None:
    stored_decision = {
        "clusterName": "a",
        "selected": True,
        "reason": "since then",
        "clusterScore": {"affinityScore": 3},
    }
    binding = {
        "metadata": {"name": "web-a", "labels": {"kubernetes-fleet.io/parent-CRP": "web"}},
        "spec": {
            "state": "Bound",
            "targetCluster": "a",
            "schedulingPolicySnapshotName": "web-0",
            "clusterDecision": stored_decision,
        },
    }
    request = PlacementRequest(placement="web", snapshot="web-0", generation=1, placement_type="PickN", wanted=1)
    inputs = DecisionInput(
        frame=Table([msgspec.convert({"metadata": {"name": "a"}}, MemberCluster)]).freeze(),
        request=request,
        bindings=[msgspec.convert(binding, Binding)],
        profile=PROFILE,
        now=0,
    )

    found = decide(inputs).published

    assert found is not None
    assert list(msgspec.to_builtins(found.decisions)) == [stored_decision]
