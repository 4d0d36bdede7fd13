"""F3-139: all picks in one pass are the picks of the rounds, with the same scores, verdicts and published texts.

The same profile is run twice on random scenarios: as it is, and with its step picker taken away, which leaves one round
of every hook per pick. Both ways of stepping through cells, for few and for many, are driven through all scenarios.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision, Round
from fleet.framework.status import Status
from fleet.framework.types import Component
from fleet.model.keys import PICK_N
from plugins.topology_spread import picker
from tests.oracle.documents import COUNT_ANNOTATION, Json
from tests.strategies import random_scenario
from tests.vectors.engine import decision_input
from tests.vectors.generation.clusters import random_clusters
from tests.vectors.generation.dice import Dice
from tests.vectors.generation.policies import random_constraints

BLOCKS = 5
SEEDS = {"normal": 150, "long": 20_000}
MANY_CELLS = {"normal": 30, "long": 1000}

Seen = dict[str, Any]


def spreading(seed: int, *, many_cells: bool = False) -> Json:
    """A random scenario, made to spread over something."""
    dice = Dice(f"spread {seed}")
    scenario = copy.deepcopy(random_scenario(seed))
    if many_cells:
        scenario["memberClusters"] = in_many_zones(
            dice, random_clusters(dice, count=dice.randint(120, 260), namespaces=False)
        )
        scenario["policySnapshot"]["metadata"].pop("namespace", None)
    policy = scenario["policySnapshot"]["spec"].setdefault("policy", {})
    policy["placementType"] = PICK_N
    while not policy.get("topologySpreadConstraints"):
        policy["topologySpreadConstraints"] = random_constraints(dice)
    if many_cells:
        policy["topologySpreadConstraints"].append({"topologyKey": "zone", "maxSkew": dice.randint(1, 2)})
    most = min(len(scenario["memberClusters"]) + 1, 40)
    scenario["policySnapshot"]["metadata"]["annotations"][COUNT_ANNOTATION] = str(dice.randint(1, max(most, 1)))
    return scenario


def in_many_zones(dice: Dice, clusters: list[Json]) -> list[Json]:
    zones = dice.randint(100, 150)
    for cluster in clusters:
        if dice.chance(0.95):
            cluster["metadata"].setdefault("labels", {})["zone"] = f"z{dice.randrange(zones)}"
    return clusters


# --- what is compared -------------------------------------------------------------------------------------------------


def in_rounds(inp: DecisionInput) -> DecisionInput:
    return replace(inp, profile=replace(inp.profile, step_picker=None))


def seen(decision: Decision) -> Seen:
    """Everything of a decision that somebody may look at, by cluster name."""
    found: Seen = {"digest": decision.digest, "targets": decision.targets, "operations": decision.operations}
    found["rounds"] = decision.round_count
    last = decision.round
    if last is not None:
        names = decision.frame.names
        found["statuses"] = {name: told(last.verdicts.status_by_name(name)) for name in names.ordered}
        found["retained"] = last.verdicts.names(last.verdicts.retained)
        found["picked"] = [names.name(row) for row in last.picked]
        if scored := [names.name(row) for row in last.scores.rows.tolist()]:
            found["scores"] = [dict(zip(scored, values, strict=True)) for values in components(last)]
            found |= {"skipped": decision.skipped, "warnings": set(decision.warnings)}
    if decision.published is not None:
        found["published"] = (decision.published.condition, decision.published.decisions)
    return found


def components(last: Round) -> list[list[int]]:
    columns = (last.scores.component(one) for one in Component)
    return [column.tolist() for column in columns if column is not None]


def told(status: Status | None) -> Any:
    return None if status is None else (status.plugin, status.code, status.reasons, dict(status.details))


def check(
    scenarios: Callable[[int], Json], seeds: range, ways: Mapping[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each way, by the number of cells up to which the loop is used, against the same rounds."""
    wrong = {}
    for seed in seeds:
        inp = decision_input(scenarios(seed))
        rounds = seen(decide(in_rounds(inp)))
        for way, few_cells in ways.items():
            monkeypatch.setattr(picker, "_FEW_CELLS", few_cells)
            one_pass = seen(decide(inp))
            if parts := [part for part in one_pass | rounds if one_pass.get(part) != rounds.get(part)]:
                wrong[seed, way] = parts
    assert not wrong


# --- tests ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", range(BLOCKS))
def test_F3_139_one_pass_picks_what_rounds_pick(block: int, monkeypatch: pytest.MonkeyPatch, *, long: bool) -> None:
    size = SEEDS["long" if long else "normal"] // BLOCKS

    check(spreading, range(block * size, (block + 1) * size), {"arrays": 0, "loops": 10**9}, monkeypatch)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_F3_139_so_it_is_with_many_cells(block: int, monkeypatch: pytest.MonkeyPatch, *, long: bool) -> None:
    size = MANY_CELLS["long" if long else "normal"] // BLOCKS
    seeds = range(block * size, (block + 1) * size)

    check(lambda seed: spreading(seed, many_cells=True), seeds, {"arrays": 96, "loops": 10**9}, monkeypatch)


def test_the_scenarios_are_worth_it() -> None:
    """Some pick many, some find too few, some have more cells than the loop is used for."""
    decisions = [decide(decision_input(spreading(seed))) for seed in range(150)]
    large = decision_input(spreading(0, many_cells=True))
    keys = tuple(one.key for one in large.request.constraints)

    assert all(decision.request.constraints for decision in decisions)
    assert sum(decision.round_count > 3 for decision in decisions) > 40
    assert sum(decision.round_count > len(decision.targets) > 0 for decision in decisions) > 10
    assert large.frame.cells(keys).count > 96
    assert large.profile.step_picker is not None
