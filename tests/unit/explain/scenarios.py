"""Worlds to change: the questions of `questions`, together with the policy snapshot they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from fleet.explain.facts.outcomes import Effect, build_effect, list_clusters_in_use, name_outcome
from fleet.explain.fixes.fixes import Fix
from fleet.explain.whatif.edits import Edit
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.profiles.profile import CompiledProfile
from fleet.model.views import PolicySnapshot
from tests.builders import BindingBuilder, ClusterBuilder, PolicyBuilder
from tests.strategies import random_scenario
from tests.unit.explain.questions import DEFAULT, ask
from tests.vectors.engine import decision_input


def a_scenario(
    fleet: Sequence[ClusterBuilder],
    policy: PolicyBuilder,
    *bindings: BindingBuilder,
    profile: CompiledProfile = DEFAULT,
) -> Scenario:
    return Scenario(ask(fleet, policy, *bindings, profile=profile).inp, policy.snapshot())


def a_random_scenario(seed: int) -> Scenario:
    scenario = random_scenario(seed)
    return Scenario(decision_input(scenario), msgspec.convert(scenario["policySnapshot"], PolicySnapshot))


def targets(scenario: Scenario, *edits: Edit) -> list[str]:
    """The clusters the placement is on after the edits."""
    return list_clusters_in_use(scenario.apply(edits).decide())


def effect(scenario: Scenario, edits: Sequence[Edit], *, before: str) -> Effect:
    decision = scenario.apply(edits).decide()
    return build_effect(before, name_outcome(decision), decision)


def one_unit_less(fix: Fix) -> list[tuple[Edit, ...]]:
    """Every way of doing a little less than a fix says."""
    if fix.turned is None:
        return [(*fix.edits[:at], *fix.edits[at + 1 :]) for at in range(len(fix.edits))]
    back = 1 if fix.turned.start > fix.turned.value else -1
    documents = msgspec.to_builtins(fix.edits)
    less = [_with_number(one, fix.turned.field, fix.turned.value + back) for one in documents]
    return [tuple(msgspec.convert(less, list[Edit]))]


def _with_number(document: dict[str, Any], field: str, value: int) -> dict[str, Any]:
    match document["op"]:
        case "setCount":
            return {**document, "value": value}
        case "relaxSpread":
            return {**document, "maxSkew": value}
    preferred = document["patch"]["affinity"]["clusterAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    preferred[int(field.rpartition(" ")[2]) - 1]["weight"] = value
    return document
