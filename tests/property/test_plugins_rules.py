"""The rules of columnar plugins on random fleets: who else is alive, the order of rows, corrections and repetitions."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fleet.framework.arguments import PluginFactory
from fleet.framework.bindings import classify
from fleet.framework.context import HookContext
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.runner import Runner
from fleet.framework.state import CycleState
from fleet.framework.testing.conformance import SpecimenOptions, check
from fleet.framework.testing.specimens import Specimen
from fleet.framework.types import Delta
from fleet.framework.verdicts import Verdicts
from fleet.model.keys import PICK_FIXED
from fleet.model.views import MemberCluster
from fleet.snapshot.table import Table
from plugins import IN_TREE
from plugins.default_profile import compile_default, default_profile
from tests.oracle.documents import Json
from tests.strategies import random_scenario
from tests.vectors.engine import decision_input

SEEDS = {"normal": 60, "long": 5000}
FLEETS = {"normal": 24, "long": 2000}


def specimen(seed: int) -> Specimen | None:
    """A random scenario for the conformance kit; PickFixed asks plugins about named clusters only."""
    scenario = random_scenario(seed)
    inp = decision_input(scenario)
    if inp.request.placement_type == PICK_FIXED or inp.request.problems:
        return None
    clusters = tuple(msgspec.convert(scenario["memberClusters"], list[MemberCluster]))
    return Specimen(clusters, tuple(inp.bindings), inp.request, seed, inp.now)


@pytest.fixture(scope="module")
def cases(*, long: bool) -> list[Specimen]:
    found = (specimen(seed) for seed in range(FLEETS["long" if long else "normal"]))
    return [case for case in found if case is not None]


@pytest.mark.parametrize("name, factory", IN_TREE, ids=[name for name, _ in IN_TREE])
def test_F3_124_F3_125_F3_126_F3_127_F3_128_F3_133_F3_136_in_tree_plugins_keep_the_rules_on_random_fleets(
    name: str, factory: PluginFactory, cases: list[Specimen]
) -> None:
    check(factory, options=SpecimenOptions(specimens=cases))


# --- whole decisions --------------------------------------------------------------------------------------------------


def shuffled(scenario: Json, seed: int) -> Json:
    dice, other = random.Random(seed), copy.deepcopy(scenario)
    dice.shuffle(other["memberClusters"])
    dice.shuffle(other["bindings"])
    return other


def with_holes(inp: DecisionInput, seed: int) -> DecisionInput:
    """The same fleet in a table where clusters came and went: other rows, and free ones between them."""
    dice = random.Random(seed)
    table = Table.fork(inp.frame)
    stays = [inp.frame.cluster(row) for row in inp.frame.names.order.tolist()]
    for number in range(dice.randrange(20)):
        table.put(MemberCluster(metadata=msgspec.structs.replace(stays[0].metadata, name=f"passing-{number}")))
    for cluster in dice.sample(stays, len(stays) // 2):
        table.remove(cluster.metadata.name)
        table.put(cluster)
    for name in [one for one in table.freeze().names.ordered if one.startswith("passing-")]:
        table.remove(name)
    return replace(inp, frame=table.freeze())


def test_F3_127_the_order_of_rows_and_bindings_does_not_matter(*, long: bool) -> None:
    for seed in range(SEEDS["long" if long else "normal"]):
        scenario = random_scenario(seed)
        inp, other = decision_input(scenario), decision_input(shuffled(scenario, seed))
        assert shown(inp) == shown(other), seed


def test_F3_127_nor_do_rows_that_were_freed_and_given_away_again(*, long: bool) -> None:
    for seed in range(SEEDS["long" if long else "normal"] // 2):
        inp = decision_input(random_scenario(seed))
        if inp.frame.count:
            assert shown(inp) == shown(with_holes(inp, seed)), seed


@pytest.mark.parametrize("tie_break", ["nameAscending", "hashed"])
def test_F3_127_nor_does_it_matter_under_another_rule_for_ties(tie_break: Any) -> None:
    profile = compile_default(default_profile(tie_break=tie_break))
    for seed in range(SEEDS["normal"]):
        scenario = random_scenario(seed)
        inp, other = decision_input(scenario), decision_input(shuffled(scenario, seed))
        assert shown(replace(inp, profile=profile)) == shown(replace(other, profile=profile)), seed


def shown(inp: DecisionInput) -> Any:
    """The digest, the published status, and everything that can be told of any cluster."""
    decision = decide(inp)
    published, verdicts = decision.published, decision.verdicts
    names = inp.frame.names.ordered
    told = {} if verdicts is None else {name: verdicts.status_by_name(name) for name in names}
    return (
        decision.digest,
        None if published is None else (published.condition, published.decisions),
        {
            name: status and (status.plugin, status.code, status.reasons, dict(status.details))
            for name, status in told.items()
        },
        {(one.kind, one.subject, *sorted(rows_of(inp, one.rows))) for one in decision.warnings},
    )


def rows_of(inp: DecisionInput, rows: int) -> list[str]:
    return [name for row, name in enumerate(inp.frame.names.names) if rows >> row & 1]


# --- corrections ------------------------------------------------------------------------------------------------------


class Corrected:
    """The Filter of all plugins after PreFilter, with corrections in between."""

    def __init__(self, inp: DecisionInput, *, picked: int = 0) -> None:
        self.inp = inp
        ctx = HookContext(now=inp.now, bindings=classify(inp.bindings, inp.frame, inp.request), uid=inp.request.uid)
        ctx.picked = picked
        self.runner = Runner(inp.profile, ctx, CycleState(), inp.request)
        self.narrowing = self.runner.run_pre_filter(inp.frame)

    def add(self, *deltas: Delta) -> None:
        self.runner.run_add_placement(self.inp.frame, deltas)

    def remove(self, *deltas: Delta) -> None:
        self.runner.run_remove_placement(self.inp.frame, [replace(one, sign=-1) for one in deltas])

    def verdicts(self) -> Any:
        return verdict_columns(self.runner.run_filter(self.inp.frame, self.narrowing))


def verdict_columns(verdicts: Verdicts) -> Any:
    return verdicts.first.tolist(), verdicts.reason.tolist(), verdicts.alive


def random_deltas(inp: DecisionInput, dice: random.Random) -> list[Delta]:
    """On rows that hold nothing yet; of this placement and of another."""
    active = classify(inp.bindings, inp.frame, inp.request).active_rows
    free = [row for row in inp.frame.names.order.tolist() if not active >> row & 1]
    rows = dice.sample(free, dice.randrange(len(free) + 1))
    return [Delta(row, dice.choice((inp.request.key, "somebody-else")), 1) for row in rows]


def correctable(seed: int) -> DecisionInput | None:
    inp = decision_input(random_scenario(seed))
    return inp if inp.request.constraints and not inp.request.problems and inp.frame.count else None


def test_F3_053_add_then_remove_gives_the_original_filter_result(*, long: bool) -> None:
    for seed in range(SEEDS["long" if long else "normal"] * 2):
        if (inp := correctable(seed)) is None:
            continue
        deltas = random_deltas(inp, random.Random(seed))
        corrected = Corrected(inp)
        corrected.add(*deltas)
        corrected.remove(*deltas[::-1])
        assert corrected.verdicts() == Corrected(inp).verdicts(), seed


def test_F3_054_many_rows_in_one_call_equal_one_call_per_row(*, long: bool) -> None:
    for seed in range(SEEDS["long" if long else "normal"] * 2):
        if (inp := correctable(seed)) is None:
            continue
        deltas = random_deltas(inp, random.Random(seed))
        together, apart = Corrected(inp), Corrected(inp)
        together.add(*deltas)
        together.remove(*deltas[::2])
        for delta in deltas:
            apart.add(delta)
        for delta in deltas[::2]:
            apart.remove(delta)
        assert together.verdicts() == apart.verdicts(), seed


def test_F3_053_an_added_placement_counts_like_a_picked_cluster(*, long: bool) -> None:
    for seed in range(SEEDS["long" if long else "normal"] * 2):
        if (inp := correctable(seed)) is None:
            continue
        deltas = [one for one in random_deltas(inp, random.Random(seed)) if one.placement == inp.request.key]
        rows = sum(1 << one.row for one in deltas)
        added, picked = Corrected(inp), Corrected(inp, picked=rows)
        added.add(*deltas)
        untouched = ~rows
        assert added.verdicts()[2] & untouched == picked.verdicts()[2] & untouched, seed
