"""Placements that PreEnqueue holds, and the order of those that wait for a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from fleet.kube.scopes import CLUSTER_SCOPED, PRIORITY_CLASSES
from fleet.manager.manager import PLACEMENT, SCHEDULER
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.queue.item import PreEnqueueGate
from tests.e2e.hub import soon
from tests.e2e.world import EVENTS
from tests.faults.configured import LatePlacements, Scene, a_scene
from tests.faults.virtual import virtual
from tests.installed import an_installed_package

ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
PLENTY: Final = {"placementType": "PickN", "numberOfClusters": 9}
OFFICE: Final = """
from fleet.framework.status import Code, Status

class OfficeHours:
    calls = 0
    def __init__(self, raw=None, handle=None): ...
    def name(self): return "OfficeHours"
    def pre_enqueue(self, ctx, req):
        OfficeHours.calls += 1
        if req.placement.startswith("broken"):
            raise RuntimeError("no calendar")
        return Status.new(Code.PENDING, "closed") if req.placement.startswith("late") else None
"""
WITH_OFFICE: Final = "profiles: [{plugins: {preEnqueue: {enabled: [{name: OfficeHours}]}}}]\n"


def gate_of(scene: Scene, key: str) -> PreEnqueueGate | None:
    assert scene.controller.scheduler is not None
    item = scene.controller.scheduler.queue.peek(PlacementKey.parse(key))
    return None if item is None else item.gate


async def soon_held(scene: Scene, key: str, plugin: str, message: str) -> None:
    async def look() -> bool:
        return gate_of(scene, key) == PreEnqueueGate(plugin, message)

    await soon(look)


async def define_class(scene: Scene, name: str, value: int) -> None:
    await scene.world.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


@contextmanager
def office_hours(folder: Path) -> Iterator[None]:
    folder.mkdir()
    with an_installed_package(folder, OFFICE, {"OfficeHours": "OfficeHours"}):
        yield


# --- gates ------------------------------------------------------------------------------------------------------------


@virtual
async def test_F3_112_X_06_a_gate_holds_until_it_is_cleared(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await scene.place("web", ONE, gates="review, security")
        await soon_held(scene, "web", "PlacementGates", "review")
        assert scene.sample("fleet_pending_placements", queue="gated") == 1
        assert scene.sample("fleet_unschedulable_placements", plugin="PlacementGates") == 1
        await scene.annotate("web", gates="security")
        await soon_held(scene, "web", "PlacementGates", "security")
        await asyncio.sleep(30)
        assert scene.attempts.of("web") == []
        await scene.annotate("web", gates=None)
        await scene.world.soon_on("web", "ams")
        (attempt,) = scene.attempts.of("web")
        assert attempt.triggers[-1] == "ClusterResourcePlacement/UpdateOptions web"


@virtual
async def test_X_06_gates_hold_a_placement_whose_snapshot_is_seen_before_the_placement_itself(tmp_path: Path) -> None:
    """As beside KubeFleet's controllers, which write the snapshot."""
    async with (
        a_scene(tmp_path, controllers=[PLACEMENT]) as writer,
        a_scene(tmp_path, after=writer, controllers=[SCHEDULER], through=LatePlacements) as scene,
    ):
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await scene.place("web", ONE, gates="review")
        await soon_held(scene, "web", "PlacementGates", "review")
        await asyncio.sleep(30)
        assert await scene.world.in_use("web") == set()
        await scene.place("free", ONE)
        await scene.world.soon_on("free", "ams")
        await scene.annotate("web", gates=None)
        await scene.world.soon_on("web", "ams")


@virtual
async def test_Q_14_a_held_placement_takes_no_part_in_events_of_clusters(tmp_path: Path) -> None:
    with office_hours(tmp_path / "office"):
        async with a_scene(tmp_path, WITH_OFFICE) as scene:
            await scene.place("late", ONE)
            await soon_held(scene, "late", "OfficeHours", "closed")
            await scene.world.join("ams", silent_for=scene.hours_ago(0))
            await scene.world.relabel("ams", region="west")
            await asyncio.sleep(60)
            assert scene.attempts.of("late") == []
            assert scene.sample("fleet_pending_placements", queue="gated") == 1
            await scene.place("early", ONE)
            await scene.world.soon_on("early", "ams")


@virtual
async def test_Q_15_a_hold_is_reported_after_five_seconds_and_a_shorter_one_never(tmp_path: Path) -> None:
    async def list_held() -> list[str]:
        return [event["message"] for event in await scene.world.all(EVENTS) if event["reason"] == "SchedulingGated"]

    async with a_scene(tmp_path) as scene:
        await scene.place("short", ONE, gates="review")
        await asyncio.sleep(3)
        await scene.annotate("short", gates=None)
        await scene.place("long", ONE, gates="review")
        await asyncio.sleep(4)
        assert await list_held() == []
        await asyncio.sleep(20)
        assert await list_held() == ["not scheduled yet: review"]


@virtual
async def test_F3_112_a_plugin_that_fails_holds_its_placement_and_nothing_else(tmp_path: Path) -> None:
    with office_hours(tmp_path / "office"), capture_logs() as logs:
        async with a_scene(tmp_path, WITH_OFFICE) as scene:
            await scene.world.join("ams", silent_for=scene.hours_ago(0))
            await scene.place("broken", ONE)
            await soon_held(scene, "broken", "OfficeHours", "the plugin failed: no calendar")
            await scene.place("web", ONE)
            await scene.world.soon_on("web", "ams")
    assert any("PreEnqueue plugin failed" in line["event"] for line in logs)


@virtual
async def test_a_gate_that_is_put_on_a_waiting_placement_holds_it(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.place("web", ONE)
        await scene.world.soon_scheduled("web", status="False")
        await scene.annotate("web", gates="review")
        await soon_held(scene, "web", "PlacementGates", "review")
        before = len(scene.attempts.of("web"))
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await asyncio.sleep(60)
        assert len(scene.attempts.of("web")) == before


@virtual
async def test_a_held_placement_can_be_deleted(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await scene.place("web", ONE)
        await scene.world.soon_on("web", "ams")
        await scene.annotate("web", gates="review")
        await soon_held(scene, "web", "PlacementGates", "review")
        await scene.world.delete(CLUSTER_SCOPED.placement, "web")

        async def is_gone() -> bool:
            return await scene.world.find(CLUSTER_SCOPED.placement, "web") is None

        await soon(is_gone)


@virtual
@pytest.mark.parametrize("annotations", [{"gates": "Not_A_Name"}, {"options": "wanted"}], ids=["gates", "options"])
async def test_a_bad_value_is_an_input_error(tmp_path: Path, annotations: dict[str, str]) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.place("web", ONE, **annotations)

        async def look() -> bool:
            return any(attempt.result is AttemptResult.BAD_INPUT for attempt in scene.attempts.of("web"))

        await soon(look)
        condition = await scene.world.soon_scheduled("web", status="False")
        (value,) = annotations.values()
        assert value in condition["message"]


@virtual
async def test_X_03_a_placement_is_decided_by_the_profile_it_names_from_its_first_attempt_on(tmp_path: Path) -> None:
    names = [f"web-{number}" for number in range(100)]
    async with a_scene(tmp_path, "profiles: [{schedulerName: DefaultScheduler}, {schedulerName: mine}]\n") as scene:
        for name in names:
            await scene.place(name, ONE, scheduler_name="mine")
        for name in names:
            await scene.world.soon_scheduled(name, status="False")
    inputs = [record.inputs for record in scene.attempts.records if record.decision is not None]
    assert len(inputs) >= 100
    assert {found.profile.scheduler_name for found in inputs if found is not None} == {"mine"}


# --- options ----------------------------------------------------------------------------------------------------------


@virtual
async def test_X_03_a_placement_that_requires_options_is_attempted_once_they_exist(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await scene.place("web", ONE, options="required")
        await soon_held(scene, "web", "PlacementOptions", "OptionsMissing: there is no ClusterPlacementOptions web yet")
        await asyncio.sleep(60)
        assert scene.attempts.of("web") == []
        await scene.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "web"}, "spec": {}})
        await scene.world.soon_on("web", "ams")
        assert len(scene.attempts.of("web")) == 1


@virtual
async def test_X_06_gates_of_the_companion_and_of_the_annotation_all_hold(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        gate = {"name": "review", "message": "ask the owners"}
        await scene.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "web"}, "spec": {"gates": [gate]}})
        await scene.place("web", ONE, gates="review,security")
        await soon_held(scene, "web", "PlacementGates", "review: ask the owners")
        await scene.annotate("web", gates=None)
        await soon_held(scene, "web", "PlacementGates", "review: ask the owners")
        await scene.world.patch(CLUSTER_SCOPED.options, "web", {"spec": {"gates": []}})
        await scene.world.soon_on("web", "ams")


# --- priority ---------------------------------------------------------------------------------------------------------


@virtual
async def test_Q_05_F3_049_higher_priority_first_then_first_come(tmp_path: Path) -> None:
    """The history of a running controller with one worker, which finds all of them waiting."""
    async with a_scene(tmp_path, "", "workers=1") as scene:
        await define_class(scene, "urgent", 10)
        names = ["plain-1", "urgent-1", "plain-2", "urgent-2"]
        for name in names:
            await scene.place(name, PLENTY, **({"priority_class": "urgent"} if "urgent" in name else {}))
        for name in names:
            await scene.world.soon_scheduled(name, status="False")
        await asyncio.sleep(30)
        scene.attempts.records.clear()
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await asyncio.sleep(30)
        order = [str(record.key) for record in scene.attempts.records]
        assert order[:4] == ["urgent-1", "urgent-2", "plain-1", "plain-2"]


@virtual
async def test_X_05_a_missing_class_holds_and_its_creation_wakes(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        assert not any("priorityclasses" in request.path for request in scene.hub.requests)
        await scene.place("web", ONE, priority_class="urgent")
        await soon_held(scene, "web", "PriorityClass", "PriorityClassMissing: there is no PriorityClass urgent")
        await asyncio.sleep(30)
        assert scene.attempts.of("web") == []
        await define_class(scene, "urgent", 10)
        await scene.world.soon_on("web", "ams")
        await scene.place("later", ONE, priority_class="urgent")
        await scene.world.soon_on("later", "ams")
        await scene.world.delete(PRIORITY_CLASSES, "urgent")
        await scene.place("latest", ONE, priority_class="urgent")
        await soon_held(scene, "latest", "PriorityClass", "PriorityClassMissing: there is no PriorityClass urgent")


@virtual
async def test_X_05_a_changed_value_ranks_what_waits_without_an_attempt(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "", "workers=1") as scene:
        for name, value in (("first", 10), ("second", 5)):
            await define_class(scene, name, value)
            await scene.place(name, PLENTY, priority_class=name)
            await scene.world.soon_scheduled(name, status="False")
        await asyncio.sleep(30)
        scene.attempts.records.clear()
        await scene.world.delete(PRIORITY_CLASSES, "second")
        await define_class(scene, "second", 20)
        await asyncio.sleep(30)
        assert scene.attempts.records == []
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await asyncio.sleep(30)
        assert [str(record.key) for record in scene.attempts.records][:2] == ["second", "first"]


@virtual
async def test_X_05_the_companion_wins_and_must_agree_with_its_class(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await define_class(scene, "urgent", 10)
        spec = {"priorityClassName": "urgent", "priority": 3}
        await scene.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "web"}, "spec": spec})
        await scene.place("web", ONE, priority_class="nothing-by-this-name")
        await soon_held(scene, "web", "PriorityClass", "priority 3 contradicts PriorityClass urgent, which says 10")
        await scene.world.patch(CLUSTER_SCOPED.options, "web", {"spec": {"priority": 10}})
        await scene.world.soon_on("web", "ams")


@virtual
async def test_X_05_a_class_of_the_system_is_refused(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await define_class(scene, "huge", 1_000_000_001)
        await scene.place("web", ONE, priority_class="huge")
        await soon_held(scene, "web", "PriorityClass", "PriorityClass huge has the value 1000000001, above 1000000000")


@virtual
async def test_Q_17_Q_02_order_after_backoff_and_no_backoff_that_is_over(tmp_path: Path) -> None:
    """Two placements wake in one window, of which the later one is urgent; a third one has failed more often."""
    profile = "profiles: [{backoffOnRejection: true}]\n"
    async with a_scene(tmp_path, profile, "workers=1", "queue.earlyPop=false") as scene:
        await scene.world.join("ams", labels={"zone": "z0"}, silent_for=scene.hours_ago(0))
        await define_class(scene, "urgent", 10)
        spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        spreading = {**PLENTY, "topologySpreadConstraints": [spread]}
        await scene.place("often", spreading, priority_class="urgent")
        await scene.world.soon_scheduled("often", status="False")
        for number in range(40):
            await scene.world.relabel("ams", zone=f"z{number % 7}")
            await asyncio.sleep(0.5)
        await scene.place("plain", spreading)
        await scene.place("urgent", spreading, priority_class="urgent")
        for name in ("plain", "urgent"):
            await scene.world.soon_scheduled(name, status="False")
        scene.attempts.records.clear()
        for number in range(60):
            await scene.world.relabel("ams", zone=f"y{number % 7}")
            await asyncio.sleep(0.25)
        first = [str(record.key) for record in scene.attempts.records][:5]
        assert first.index("urgent") < first.index("plain") < len(first)
        assert "often" not in first[:2]
        await asyncio.sleep(60)
        scene.attempts.records.clear()
        await scene.world.relabel("ams", zone="z9")
        await asyncio.sleep(0.2)
        assert {str(record.key) for record in scene.attempts.records} == {"often", "plain", "urgent"}
