"""Plugins whose PostFilter is the older, informational one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleet.errors import ConfigurationError
from fleet.framework.cycle.decision import Outcome
from fleet.framework.profiles.adapter import LegacyPostFilterAdapter
from fleet.framework.runtime.framework import Framework, with_snapshot_lister
from fleet.framework.scalar import ClusterView
from fleet.framework.status import Code, Status, message_of
from tests.builders import NOW, a_policy, a_table, clusters
from tests.doubles import Rejecting, Scoring
from tests.unit.framework.plugin_fakes import NO_BINDINGS, Scripted, a_profile, a_registry, no


class Informed:
    """Notes what it is told before scoring."""

    def __init__(self, answer: Status | None = None) -> None:
        self.answer = answer
        self.passed: list[str] = []
        self.others: dict[str, str] = {}
        self.size = 0

    def name(self) -> str:
        return "Informed"

    def post_filter(
        self, ctx: Any, state: Any, placement: Any, passed: list[ClusterView], statuses: Mapping[str, Status]
    ) -> Status | None:
        self.passed = [one.name for one in passed]
        self.others = {name: message_of(status) for name, status in statuses.items()}
        self.size = len(statuses)
        assert "nobody" not in statuses
        assert all(name not in statuses for name in self.passed)
        return self.answer


def decided_with(plugin: Informed) -> Any:
    table = a_table(*clusters("a", "b", "c", "d"))
    registry = a_registry(Rejecting("Picky", {"a": 1, "c": 2}), Scoring("Points"), LegacyPostFilterAdapter(plugin))
    profile = a_profile(filter=["Picky"], preScore=["Informed"], score=["Points"])
    framework = Framework.build(registry, profile, with_snapshot_lister(table.freeze))
    return framework.decide(framework.inputs(a_policy().pick_n(1).request(), NO_BINDINGS, now=NOW))


def test_F3_057_a_wrapped_plugin_sees_who_passed_and_why_others_did_not() -> None:
    plugin = Informed()
    assert decided_with(plugin).outcome is Outcome.SELECTED
    assert plugin.passed == ["b", "d"]
    assert plugin.others == {"a": "refused by Picky", "c": "forbidden by Picky"}
    assert plugin.size == 2


def test_F3_057_its_refusal_is_illegal_before_scoring() -> None:
    decision = decided_with(Informed(no()))
    assert message_of(decision.error) == "Informed at preScore: invalid code Unschedulable at PreScore"


def test_F3_057_its_error_ends_the_attempt() -> None:
    decision = decided_with(Informed(no("cache cold", Code.ERROR)))
    assert message_of(decision.error) == "Informed at preScore: cache cold"


def test_F3_057_it_is_no_post_filter_of_today() -> None:
    registry = a_registry(LegacyPostFilterAdapter(Scripted("Old", post_filter=None)))
    with pytest.raises(ConfigurationError, match="plugin Old does not extend postFilter plugin"):
        Framework.build(registry, a_profile(postFilter=["Old"]))
