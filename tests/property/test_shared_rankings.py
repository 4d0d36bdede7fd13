"""F3-116, P-08: a placement that shares the ranking of an equal one is decided as if all hooks had run for it.

Fleets change, time passes, bindings come and go. Of the decision everything is compared that is published, recorded or
explained.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest

from fleet.clock import SECOND
from fleet.framework.cycle.cycle import DecisionInput, decide
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.rankings import Rankings
from fleet.framework.cycle.rounds import Picked
from fleet.framework.cycle.runner import Runner
from fleet.framework.request import PlacementRequest
from fleet.framework.types import Component
from fleet.model.keys import PICK_N
from fleet.model.timestamps import format_timestamp
from fleet.model.views import AgentStatus, Binding, MemberCluster, PropertyValue, Taint
from fleet.snapshot import Frame, Table
from fleet.snapshot.sidedata import Nomination, PlacedBinding
from tests.builders import a_binding
from tests.oracle.documents import COUNT_ANNOTATION, Json
from tests.strategies import random_scenario
from tests.vectors.engine import decision_input
from tests.vectors.generation.clusters import random_clusters
from tests.vectors.generation.dice import Dice

BLOCKS: Final = 5
SEEDS: Final = {"normal": 60, "long": 5_000}
STEPS: Final = 25
MOST_FOUND: Final = 3
VICTIMS: Final = tuple(f"p{step}" for step in range(STEPS))


def a_burst(seed: int) -> DecisionInput:
    """A placement without bindings that picks a few of some clusters."""
    dice = Dice(f"burst {seed}")
    scenario: Json = copy.deepcopy(random_scenario(seed))
    snapshot = scenario["policySnapshot"]
    namespaced = "namespace" in snapshot["metadata"]
    scenario["memberClusters"] = random_clusters(dice, count=dice.randint(8, 30), namespaces=namespaced)
    snapshot["spec"].setdefault("policy", {})["placementType"] = PICK_N
    snapshot["metadata"]["annotations"][COUNT_ANNOTATION] = str(dice.randint(1, MOST_FOUND))
    scenario["bindings"] = []
    return decision_input(scenario)


def list_inputs(seed: int) -> Iterator[DecisionInput]:
    """One after the other, of several placements, of which most are equal."""
    dice, first = random.Random(seed), a_burst(seed)
    table, now = Table(first.frame.cluster(row) for row in first.frame.names.order.tolist()), first.now
    for step in range(STEPS):
        for _ in range(dice.choice((0, 0, 1, 3))):
            change(table, dice, now)
        now += dice.choice((0, SECOND, SECOND, 200 * SECOND))
        frame = table.freeze()
        if dice.random() < 0.1:
            frame = frame.exclude([dice.randrange(frame.size)])
        nominated = (dice.choice(list(frame.names.ordered)),) if dice.random() < 0.05 else ()
        request = rename(first.request, dice, step)
        bindings = [bind(request, dice.choice(list(frame.names.ordered)))] if dice.random() < 0.05 else []
        yield replace(first, frame=frame, request=request, bindings=bindings, now=now, nominated=nominated)


def bind(request: PlacementRequest, cluster: str) -> Binding:
    binding = a_binding(cluster).of_placement(request.placement).of_snapshot(request.snapshot)
    return binding.build()


def rename(request: PlacementRequest, dice: random.Random, step: int) -> PlacementRequest:
    """Of another placement, which in some cases wants something else."""
    other = replace(request, placement=f"p{step}", uid=f"uid-{step}", snapshot=f"p{step}-0")
    what = dice.random()
    if what < 0.1:
        return replace(other, wanted=dice.randint(1, MOST_FOUND))
    if what < 0.2:
        return replace(other, tolerations=())
    if what < 0.3:
        return replace(other, preferred=other.preferred[:1])
    if what < 0.35:
        return replace(other, min_targets=min(2, other.wanted or 0) or None)
    return replace(other, required=()) if what < 0.4 else other


def change(table: Table, dice: random.Random, now: int) -> None:
    frame = table.freeze()
    name = dice.choice(list(frame.names.ordered))
    row = frame.row_of(name)
    assert row is not None
    cluster, what = frame.cluster(row), dice.randrange(20)
    if what < 8:
        table.put(report(cluster, now))
    elif what < 14:
        table.place(name, PlacedBinding(f"other-{dice.randrange(5)}"))
    elif what == 14:
        labels = {**(cluster.metadata.labels or {}), "env": dice.choice(("prod", "dev"))}
        table.put(edit(cluster, "metadata", labels=labels))
    elif what == 15:
        table.put(edit(cluster, "spec", taints=() if cluster.spec.taints else (Taint("a", "", "NoSchedule"),)))
    elif what == 16:
        counted = {"kubernetes-fleet.io/node-count": PropertyValue(str(dice.randint(1, 9)), "")}
        table.put(edit(cluster, "status", properties={**(cluster.status.properties or {}), **counted}))
    elif what == 17 and frame.count > MOST_FOUND:
        table.remove(name)
        if dice.random() < 0.7:  # its twin gets its row
            table.put(edit(cluster, "metadata", name=f"{name[:9]}-{dice.randrange(99)}"))
    elif what == 18:
        table.put(edit(cluster, "metadata", name=f"new-{dice.randrange(9)}"))
    else:
        table.nominate([Nomination(name, "other", 5, requests={}, victims=VICTIMS)] if dice.random() < 0.3 else [])


def report(cluster: MemberCluster, now: int) -> MemberCluster:
    agents: tuple[AgentStatus, ...] = tuple(
        msgspec.structs.replace(agent, last_received_heartbeat=format_timestamp(now))
        for agent in cluster.status.agent_status
    )
    return edit(cluster, "status", agent_status=agents)


def edit(cluster: MemberCluster, part: str, **changes: Any) -> MemberCluster:
    return msgspec.structs.replace(cluster, **{part: msgspec.structs.replace(getattr(cluster, part), **changes)})


def describe(decision: Decision) -> dict[str, Any]:
    parts: dict[str, Any] = {"digest": decision.digest, "published": decision.published}
    parts |= {"targets": decision.targets, "operations": decision.operations, "skipped": decision.skipped}
    parts |= {"warnings": decision.warnings, "notes": decision.notes, "count": decision.round_count}
    for number, each in enumerate(decision.rounds):
        verdicts, scores = each.verdicts, each.scores
        parts |= {
            f"{number} statuses": [verdicts.status_by_name(name) for name in decision.frame.names.ordered],
            f"{number} rejectors": verdicts.rejectors(),
            f"{number} rows": (verdicts.alive, verdicts.retained, verdicts.examined),
            f"{number} order": (scores.rows.tolist(), each.order.tolist(), each.picked),
            f"{number} scores": scores.as_dict(),
            f"{number} components": [
                None if (column := scores.component(component)) is None else column.tolist() for component in Component
            ],
            f"{number} about": (verdicts.request, verdicts.frame),
        }
    return parts


class CountedRankings(Rankings):
    def __init__(self) -> None:
        super().__init__()
        self.ran = 0

    def rank(self, runner: Runner, frame: Frame, run_hooks: Callable[[], Picked]) -> Picked:
        def run() -> Picked:
            self.ran += 1
            return run_hooks()

        return super().rank(runner, frame, run)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_F3_116_shared_rankings_decide_as_all_hooks_do(block: int, *, long: bool) -> None:
    size = SEEDS["long" if long else "normal"] // BLOCKS
    decided = ran = 0
    for seed in range(block * size, (block + 1) * size):
        rankings = CountedRankings()
        for inp in list_inputs(seed):
            decision, anew = decide(replace(inp, rankings=rankings)), decide(inp)
            assert describe(decision) == describe(anew), seed
            decided += 1
        ran += rankings.ran
    assert ran < decided * 0.9
