"""Events and the gauge: each thing once, when it becomes so."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from fleet.placement.selection.resolution import UnmatchedSelector
from fleet.placement.selection.selectors import SelectorTerm
from tests.faults.virtual import within
from tests.unit.placement.workbench import ROLLED_OUT, RUNNING, WEB, Neighbours, Workbench, a_placement, pick_n

BROKEN: Final = {**RUNNING, "Available": ("False", "NotAllWorkAreAvailable")}
REFUSED: Final = {**RUNNING, "Applied": ("False", "NotAllWorkHaveBeenApplied")}
ALL_NORMAL: Final = [
    "PlacementRolloutStarted",
    "PlacementOverriddenSucceeded",
    "PlacementWorkSynchronized",
    "PlacementApplied",
    "PlacementAvailable",
    "PlacementRolloutCompleted",
]


async def a_running_placement(bench: Workbench) -> Neighbours:
    a_placement(bench.hub, policy=pick_n(1))
    await bench.settle()
    others = Neighbours(bench.hub)
    others.schedule("c1")
    others.report("c1", RUNNING)
    await bench.settle()
    return others


@within(Workbench)
async def test_every_condition_that_becomes_true_is_an_event_and_the_last_makes_it_complete(bench: Workbench) -> None:
    await a_running_placement(bench)
    assert bench.told.reasons() == ALL_NORMAL
    assert {type for type, _, _ in bench.told.events} == {"Normal"}
    assert bench.told.events[0][2] == "rollout started on all 1 cluster(s)"


@within(Workbench)
async def test_nothing_is_told_twice(bench: Workbench) -> None:
    others = await a_running_placement(bench)
    others.report("c1", RUNNING, driftedPlacements=[{"version": "v1", "kind": "ConfigMap", "name": "a"}])
    await bench.settle()
    await bench.pass_over()
    assert bench.told.reasons() == ALL_NORMAL


@within(Workbench)
async def test_another_generation_is_told_again(bench: Workbench) -> None:
    others = await a_running_placement(bench)
    bench.told.events.clear()
    bench.hub.edit(WEB, spec={"revisionHistoryLimit": 5})
    await bench.settle()
    others.schedule("c1")
    await bench.settle()
    assert bench.told.reasons() == ALL_NORMAL


@within(Workbench)
@pytest.mark.parametrize(
    "name, said, reason",
    [
        ("Overridden", "OverriddenFailed", "PlacementOverrideFailed"),
        ("Applied", "NotAllWorkHaveBeenApplied", "PlacementApplyFailed"),
        ("Available", "NotAllWorkAreAvailable", "PlacementNotAvailable"),
    ],
)
async def test_a_condition_that_becomes_false_is_a_warning(bench: Workbench, name: str, said: str, reason: str) -> None:
    others = await a_running_placement(bench)
    bench.told.events.clear()
    others.report("c1", {**RUNNING, name: ("False", said)})
    await bench.settle()
    assert [(type, found) for type, found, _ in bench.told.events] == [("Warning", reason)]


@within(Workbench)
async def test_a_reported_diff_is_an_event(bench: Workbench) -> None:
    strategy = {"applyStrategy": {"type": "ReportDiff"}}
    a_placement(bench.hub, policy=pick_n(1), strategy=strategy)
    await bench.settle()
    others = Neighbours(bench.hub)
    others.schedule("c1")
    others.report("c1", {**ROLLED_OUT, "DiffReported": ("True", "AllWorkHaveDiffReported")})
    await bench.settle()
    assert bench.told.reasons()[-2:] == ["PlacementDiffReported", "PlacementRolloutCompleted"]


@within(Workbench)
async def test_a_wrong_selection_is_a_warning_once(bench: Workbench) -> None:
    a_placement(bench.hub)
    bench.content.reject("PL-13: namespace default is reserved")
    await bench.settle()
    await bench.pass_over()
    assert bench.told.events == [
        ("Warning", "PlacementSelectorInvalid", "PL-13: namespace default is reserved"),
    ]


@within(Workbench)
async def test_a_wrong_selection_is_told_although_scheduling_had_failed_before(bench: Workbench) -> None:
    a_placement(bench.hub, policy=pick_n(1))
    await bench.settle()
    Neighbours(bench.hub).schedule(fulfilled=False)
    await bench.settle()
    assert bench.told.reasons() == []
    bench.content.reject("PL-05: kind is unknown")
    await bench.settle()
    assert bench.told.reasons() == ["PlacementSelectorInvalid"]


@within(Workbench)
async def test_a_selector_that_matches_nothing_is_a_warning_until_it_matches(bench: Workbench) -> None:
    a_placement(bench.hub)
    everything = bench.content.selected
    unmatched = UnmatchedSelector(0, SelectorTerm("", "v1", "Namespace", "shop"))
    bench.content.match_nothing(unmatched)
    await bench.settle()
    await bench.pass_over()
    assert bench.told.reasons() == ["SelectorMatchedNothing"]
    bench.content.selected = everything
    await bench.settle()
    bench.content.match_nothing(unmatched)
    await bench.settle()
    assert bench.told.reasons() == ["SelectorMatchedNothing"] * 2


# --- the gauge --------------------------------------------------------------------------------------------------------


@within(Workbench)
async def test_the_gauge_names_the_first_condition_that_does_not_hold(bench: Workbench) -> None:
    a_placement(bench.hub, policy=pick_n(1))
    await bench.settle()
    assert gauge(bench) == ("ClusterResourcePlacementScheduled", "Unknown", "SchedulePending")
    others = Neighbours(bench.hub)
    others.schedule("c1")
    await bench.settle()
    assert gauge(bench) == ("ClusterResourcePlacementRolloutStarted", "Unknown", "RolloutStartedUnknown")
    others.report("c1", {**RUNNING, "Applied": ("False", "ApplyInProgress")})
    await bench.settle()
    assert gauge(bench) == ("ClusterResourcePlacementApplied", "False", "ApplyFailed")
    others.report("c1", RUNNING)
    await bench.settle()
    assert gauge(bench) == ("Completed", "True", "Completed")


@within(Workbench)
async def test_the_gauge_says_nil_for_a_condition_that_is_missing(bench: Workbench) -> None:
    a_placement(bench.hub)
    await bench.settle()
    Neighbours(bench.hub).schedule()
    await bench.settle()
    assert gauge(bench) == ("ClusterResourcePlacementRolloutStarted", "nil", "nil")


def gauge(bench: Workbench) -> tuple[str, str, str]:
    return bench.told.series["", "web"]


# --- changes ----------------------------------------------------------------------------------------------------------


async def available_again_after(bench: Workbench, others: Neighbours, *, seconds: float) -> None:
    """The content changes, and it takes so long until the new one runs."""
    others.report("c1", BROKEN)
    await bench.settle()
    await asyncio.sleep(seconds)
    others.report("c1", RUNNING)
    await bench.settle()


@within(Workbench)
async def test_a_change_is_measured_until_it_is_available_everywhere(bench: Workbench) -> None:
    others = await a_running_placement(bench)
    bench.told.changes.clear()
    await available_again_after(bench, others, seconds=300)
    ((kind, seconds),) = bench.told.changes
    assert kind == "ClusterResourcePlacement"
    assert 300 <= seconds < 310


@within(Workbench)
async def test_a_new_placement_is_measured_from_its_creation(bench: Workbench) -> None:
    await asyncio.sleep(100)
    bench.hub.now = "2026-01-01T00:01:40Z"
    await a_running_placement(bench)
    ((_, seconds),) = bench.told.changes
    assert 0 < seconds < 10


@within(Workbench)
async def test_a_change_that_began_before_this_process_is_not_measured(bench: Workbench) -> None:
    others = await a_running_placement(bench)
    others.report("c1", BROKEN)
    await bench.settle()
    await bench.stop()
    await asyncio.sleep(100)
    await bench.start()
    bench.told.changes.clear()
    await bench.settle()
    others.report("c1", RUNNING)
    await bench.settle()
    assert bench.condition("Available")[0] == "True"
    assert bench.told.changes == []


@within(Workbench)
async def test_what_is_wrong_with_placed_objects_is_counted_until_it_is_not(bench: Workbench) -> None:
    others = await a_running_placement(bench)
    one, other = ({"version": "v1", "kind": "ConfigMap", "name": name} for name in "ab")
    others.report("c1", REFUSED, failedPlacements=[one], driftedPlacements=[one, other])
    await bench.settle()
    assert bench.troubles() == {"failed": 1, "drifted": 2, "diffed": 0}
    others.report("c1", RUNNING)
    await bench.settle()
    assert bench.troubles() == {"failed": 0, "drifted": 0, "diffed": 0}


@within(Workbench)
async def test_objects_of_a_placement_that_is_gone_are_no_trouble_any_more(bench: Workbench) -> None:
    others = await a_running_placement(bench)
    drifted = [{"version": "v1", "kind": "ConfigMap", "name": "a"}]
    others.report("c1", RUNNING, driftedPlacements=drifted)
    await bench.settle()
    bench.reconciler.forget("", "web")
    assert bench.troubles() == {"failed": 0, "drifted": 0, "diffed": 0}
