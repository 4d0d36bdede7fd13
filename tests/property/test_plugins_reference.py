"""F3-129: every in-tree Filter and Score equals its per-cluster reference on random fleets of 0 to 400 clusters.

The references are those of the oracle, which looks at one JSON document at a time and shares no code with the product.
Each plugin runs alone, so that no other plugin hides a wrong answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pytest

from fleet.framework.bindings import classify
from fleet.framework.context import HookContext
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.runner import Runner
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.state import CycleState
from fleet.framework.status import message_of
from fleet.framework.verdicts import Verdicts
from fleet.snapshot.columns.bitset import to_rows
from plugins.default_profile import DEFAULT_PLUGINS
from tests.oracle.affinity import Range, affinity_rejection, affinity_score, sorter_ranges
from tests.oracle.documents import Json, labels_of, moment, name_of
from tests.oracle.filters import Problem, eligibility_rejection, namespace_rejection, taint_rejection
from tests.oracle.inputs import InputError, read_inputs
from tests.oracle.reference import new_cycle
from tests.oracle.settings import DEFAULTS
from tests.oracle.spread import Counts, Effect, counts_of, effect_on
from tests.oracle.status import Status
from tests.tiers import in_tiers
from tests.vectors.engine import decision_input
from tests.vectors.generation import vocabulary as words
from tests.vectors.generation.bindings import BindingMaker
from tests.vectors.generation.clusters import random_clusters
from tests.vectors.generation.dice import Dice
from tests.vectors.generation.policies import random_policy
from tests.vectors.generation.scenarios import random_options, random_snapshot

FLEETS = 1000
BLOCKS = 20
IN_MEMORY = 6
"""Blocks of `make test`; the others run with the servers."""
GREATEST = 400
NOTHING = {"cpu": "0", "memory": "0"}


# --- fleets -----------------------------------------------------------------------------------------------------------


def scenario_on_a_fleet(seed: int, *, long: bool) -> Json:
    """Of 0 to 400 clusters; small fleets are more frequent, unless there is time."""
    dice = Dice(f"fleet {seed}")
    size = round(GREATEST * random.Random(seed).random() ** (1 if long else 8))
    clusters = random_fleet(dice, size)
    names = [name_of(cluster) for cluster in clusters]
    snapshot = pick_n_snapshot(dice, names)
    maker = BindingMaker(
        dice,
        placement=labels_of(snapshot)["kubernetes-fleet.io/parent-CRP"],
        namespace=snapshot["metadata"].get("namespace", ""),
        uid="uid",
        snapshot=name_of(snapshot),
        scored=True,
    )
    return {
        "now": words.NOW,
        "options": random_options(dice, snapshot["spec"]["policy"]),
        "memberClusters": clusters,
        "policySnapshot": snapshot,
        "bindings": maker.bindings(names) if dice.chance(0.6) else [],
        "placementUid": "uid",
    }


def random_fleet(dice: Dice, size: int) -> list[Json]:
    clusters = random_clusters(dice, count=size, namespaces=dice.chance(0.5))
    for cluster in clusters:
        if dice.chance(0.1):
            cluster["status"]["resourceUsage"] = dict.fromkeys(words.USAGES.values(), NOTHING)
    if dice.chance(0.2):  # all alike, so that scores are equal
        return [{**clusters[0], "metadata": {**clusters[0]["metadata"], "name": name_of(one)}} for one in clusters]
    return clusters


def pick_n_snapshot(dice: Dice, names: list[str]) -> Json:
    """With a policy that can be evaluated: the type that is asked of every plugin."""
    while True:
        policy = random_policy(dice, names)
        if policy is None or policy.get("placementType") != "PickN":
            continue
        namespace = dice.choice(words.NAMESPACES) if dice.chance(0.4) else ""
        snapshot = random_snapshot(dice, policy, namespace=namespace, fleet_size=len(names))
        try:
            read_inputs(snapshot)
        except InputError:
            continue
        return snapshot


# --- the references ---------------------------------------------------------------------------------------------------


class Case:
    """A scenario as the oracle sees it, with what concerns all clusters computed once."""

    def __init__(self, scenario: Json) -> None:
        now = moment(scenario["now"])
        assert now is not None
        snapshot = scenario["policySnapshot"]
        settings = DEFAULTS.overridden_by(scenario["options"])
        cycle = new_cycle(scenario, read_inputs(snapshot), Status(snapshot, now), settings)
        self.problem: Problem = cycle.problem
        self.holding = cycle.bindings.active_clusters()

    @cached_property
    def counts(self) -> Counts:
        return counts_of(self.problem.policy, self.problem.clusters, self.holding)

    @cached_property
    def ranges(self) -> dict[str, Range]:
        population = self.problem.clusters
        if self.problem.settings.sorter_population == "PassedClusters":
            population = [one for one in population if name_of(one) not in self.holding]
            population = [one for one in population if affinity_rejection(self.problem.policy, one) is None]
        return sorter_ranges(self.problem.policy, population)

    def effect(self, cluster: Json) -> Effect:
        return effect_on(cluster, policy=self.problem.policy, counts=self.counts, settings=self.problem.settings)


@dataclass(frozen=True)
class Reference:
    """What a plugin says of one cluster: why it is rejected, and its score."""

    rejection: Callable[[Case, Json], str | None]
    score: Callable[[Case, Json], int] | None = None


REFERENCES = {
    "ClusterAffinity": Reference(
        lambda case, one: affinity_rejection(case.problem.policy, one),
        lambda case, one: affinity_score(case.problem.policy, one, case.ranges),
    ),
    "ClusterEligibility": Reference(lambda case, one: eligibility_rejection(one, case.problem)),
    "NamespaceAffinity": Reference(lambda case, one: namespace_rejection(one, case.problem.namespace)),
    "TaintToleration": Reference(
        lambda case, one: taint_rejection(one, case.problem.policy.get("tolerations") or []),
    ),
    "SamePlacementAntiAffinity": Reference(
        lambda case, one: "cluster is already selected" if name_of(one) in case.holding else None,
        lambda case, one: int(name_of(one) in case.problem.obsolete),
    ),
    "TopologySpreadConstraints": Reference(
        lambda case, one: case.effect(one).violation,
        lambda case, one: case.effect(one).score,
    ),
}


# --- the plugin alone -------------------------------------------------------------------------------------------------


def alone(profile: CompiledProfile, plugin: str) -> CompiledProfile:
    """Only this plugin, built as it is in the profile."""

    def only(hooked: Any) -> Any:
        return tuple(one for one in hooked if one.name == plugin)

    return replace(
        profile,
        pre_filter=only(profile.pre_filter),
        filters=only(profile.filters),
        judges=tuple(one for one in profile.judges if one.name in (plugin, "Framework")),
        pre_score=only(profile.pre_score),
        scores=only(profile.scores),
        step_picker=None,
    )


def asked_alone(inp: DecisionInput, plugin: str) -> tuple[dict[str, str | None], dict[str, int]]:
    """Per cluster why it is rejected, and per remaining cluster the score."""
    frame, request, profile = inp.frame, inp.request, alone(inp.profile, plugin)
    ctx = HookContext(now=inp.now, bindings=classify(inp.bindings, frame, request), uid=request.uid)
    runner = Runner(profile, ctx, CycleState(), request)
    verdicts = runner.run_filter(frame, runner.run_pre_filter(frame))
    rejections = {name: rejection_by(plugin, verdicts, name) for name in frame.names.ordered}
    rows = to_rows(verdicts.alive, frame.size)
    if not len(rows):
        return rejections, {}
    runner.run_pre_score(frame, rows, verdicts)
    table = runner.run_score(frame, rows)
    scores = table.columns[0].raw.tolist() if table.columns else [0] * len(rows)
    return rejections, dict(zip((frame.name(row) for row in rows.tolist()), scores, strict=True))


def rejection_by(plugin: str, verdicts: Verdicts, cluster: str) -> str | None:
    """The framework sets clusters aside that hold a binding; that is not the plugin's doing."""
    status = verdicts.status_by_name(cluster)
    return None if status is None or status.plugin != plugin else message_of(status)


# --- tests ------------------------------------------------------------------------------------------------------------


def test_every_in_tree_filter_and_score_has_a_reference() -> None:
    assert set(REFERENCES) == {one.name for one in DEFAULT_PLUGINS["filter"]}
    assert {name for name, one in REFERENCES.items() if one.score} == {one.name for one in DEFAULT_PLUGINS["score"]}


@pytest.mark.parametrize("block", in_tiers(BLOCKS, IN_MEMORY))
def test_F3_129_F3_060_every_in_tree_filter_and_score_equals_its_per_cluster_reference(
    block: int, *, long: bool
) -> None:
    for seed in range(block, FLEETS, BLOCKS):
        scenario = scenario_on_a_fleet(seed, long=long)
        inp, case = decision_input(scenario), Case(scenario)
        clusters = {name_of(one): one for one in scenario["memberClusters"]}
        for plugin, reference in REFERENCES.items():
            rejections, scores = asked_alone(inp, plugin)
            assert rejections == {name: reference.rejection(case, one) for name, one in clusters.items()}, (
                seed,
                plugin,
            )
            if reference.score is not None:
                want = {name: reference.score(case, clusters[name]) for name in scores}
                assert scores == want, (seed, plugin)


def test_the_fleets_are_of_every_size_and_have_something_to_say() -> None:
    sizes, rejected, scored = set(), set(), set()
    for seed in range(100):
        scenario = scenario_on_a_fleet(seed, long=False)
        sizes.add(len(scenario["memberClusters"]))
        for plugin in REFERENCES:
            rejections, scores = asked_alone(decision_input(scenario), plugin)
            rejected |= {plugin} if any(rejections.values()) else set()
            scored |= {plugin} if len(set(scores.values())) > 1 else set()

    assert 0 in sizes
    assert max(sizes) > 300
    assert rejected == set(REFERENCES)
    assert scored == {name for name, one in REFERENCES.items() if one.score}
