"""Fixes hold what they promise, on fleets nobody thought of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from fleet.explain.answer.simulate import simulate
from fleet.explain.facts.outcomes import Effect
from fleet.explain.fixes.evaluator import ClusterChosen
from fleet.explain.fixes.fixes import Fix, find_fixes, find_fixes_for_cluster
from fleet.explain.whatif.edits import Edit, parse_edits, to_documents
from fleet.explain.whatif.scenario import Scenario
from tests.tiers import in_tiers
from tests.unit.explain.scenarios import a_random_scenario, one_unit_less

BLOCKS: Final = 5
FLEETS: Final = 100
"""Of each block; all but the first run with the servers."""

_OUTCOMES = ("ERROR", "UNSCHEDULABLE", "PARTIAL", "SELECTED")
_STANDINGS = ("rejected", "fit-not-selected", "selected")


def simulated(scenario: Scenario, edits: Sequence[Edit], *, before: str) -> Effect:
    """What anybody who simulates the edits is told of them."""
    found = simulate(scenario, edits, limit=0)
    assert found.compare is not None
    counts, after = found.answer.verdict.counts, found.compare.after
    return Effect(
        before=before,
        after=found.answer.verdict.outcome,
        fit=counts.fit + counts.selected + counts.already_selected,
        selected=after.selected,
        targets=after.targets,
        more=after.selected - len(after.targets),
    )


def does_as_well(less: Effect, fix: Fix) -> bool:
    """Whether the outcome is as good; where a fix only lets more clusters qualify, whether as many do."""
    rank = _OUTCOMES.index
    if rank(fix.effect.after) > rank(fix.effect.before):
        return rank(less.after) >= rank(fix.effect.after)
    return (rank(less.after), less.fit) >= (rank(fix.effect.after), fix.effect.fit)


@pytest.mark.parametrize("block", in_tiers(BLOCKS, 1))
def test_W_06_every_fix_has_exactly_the_stated_effect_and_one_unit_less_has_not(block: int) -> None:
    checked = 0
    for seed in range(block * FLEETS, (block + 1) * FLEETS):
        scenario = a_random_scenario(seed)
        for fix in find_fixes(scenario, scenario.decide(), mode="deep" if seed % 4 == 0 else "fast").fixes:
            edits = parse_edits(to_documents(fix.edits))
            assert simulated(scenario, edits, before=fix.effect.before) == fix.effect, (seed, fix.text)
            for less in one_unit_less(fix):
                assert not does_as_well(simulated(scenario, less, before=fix.effect.before), fix), (seed, fix.text)
            checked += 1

    assert checked > FLEETS // 4


def chosen(scenario: Scenario, fix: Fix, cluster: str) -> int:
    """2 for a cluster in use, 1 for one that fits, else 0."""
    return ClusterChosen(cluster).measure(scenario.apply(fix.edits).decide())[0]


@pytest.mark.parametrize("block", in_tiers(BLOCKS, 1))
def test_W_06_every_fix_for_one_cluster_brings_it_where_it_says_and_one_unit_less_does_not(block: int) -> None:
    checked = 0
    for seed in range(block * FLEETS, (block + 1) * FLEETS):
        scenario = a_random_scenario(seed)
        decision = scenario.decide()
        for name in decision.frame.names.ordered[:: max(decision.frame.count // 3, 1)]:
            for fix in find_fixes_for_cluster(scenario, decision, name).fixes:
                assert chosen(scenario, fix, name) == _STANDINGS.index(fix.effect.after), (seed, name, fix.text)
                for edits in one_unit_less(fix):
                    less = Fix(edits=edits, scope=fix.scope, text=fix.text, effect=fix.effect)
                    assert chosen(scenario, less, name) < _STANDINGS.index(fix.effect.after), (seed, name, fix.text)
                checked += 1

    assert checked > FLEETS // 4
