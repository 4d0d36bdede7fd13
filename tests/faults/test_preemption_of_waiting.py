"""Room is made by placements that wait in Permit: they are refused, nothing is evicted."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED, DISRUPTION_BUDGETS
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.binding.companion_status import CompanionStatus
from tests.e2e.hub import soon
from tests.e2e.world import World
from tests.faults.configured import Scene, a_scene
from tests.faults.test_approvals import OWNERS, Desk
from tests.faults.test_groups import GROUP
from tests.faults.test_preemption import (
    FIXED,
    count_evictions,
    is_given_up,
    is_placed,
    place,
    read_preemptions,
    roll_out,
)
from tests.faults.test_room import join, list_bound_by
from tests.faults.virtual import virtual

APPROVED: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  backoffOnRejection: false
  plugins:
    multiPoint: {enabled: [{name: DefaultPreemption}]}
    permit: {enabled: [{name: PlacementApproval}]}
"""
PARTIAL: Final = APPROVED.replace("- schedulerName", "- partialPermit: true\n  schedulerName")
HOLD: Final = {**OWNERS, "holdSeconds": 900}
"""Without it no cluster is reserved until the answer."""
TWO: Final = {"placementType": "PickN", "numberOfClusters": 2}


async def place_waiting(world: World, name: str, *clusters: str, **more: Any) -> None:
    """Reserved on the clusters, where an approval is missing."""
    await place(world, name, approvals=[HOLD], **more)
    await soon(lambda: _waits_on(world, name, set(clusters)))


async def _waits_on(world: World, name: str, clusters: set[str]) -> bool:
    status = (await world.get(CLUSTER_SCOPED.options, name)).get("status", {})
    return {entry["cluster"] for entry in status.get("waiting", ())} == clusters


def list_results(scene: Scene, name: str) -> list[AttemptResult]:
    return [record.result for record in scene.attempts.of(name)]


@virtual
async def test_Q_24_a_victim_that_waits_is_refused_and_no_budget_is_spent(tmp_path: Path) -> None:
    async with a_scene(tmp_path, APPROVED) as scene:
        world = scene.world
        await join(world, "ams", cpu="4")
        await world.create(DISRUPTION_BUDGETS, {"metadata": {"name": "low"}, "spec": {"maxUnavailable": 0}})
        await place_waiting(world, "low", "ams", cpu=3)
        await place(world, "vip", cpu=3, priority=100)
        await is_placed(world, "vip", "ams")
        await asyncio.sleep(300)
        assert await list_bound_by(world) == {"vip": "ams"}
        assert count_evictions(scene.hub.requests) == 0
        assert scene.sample("fleet_preemption_victims_sum") == 1
        assert AttemptResult.REJECTED in list_results(scene, "low")
        assert await _waits_on(world, "low", set())
        assert await read_preemptions(world, "vip") == []
        await join(world, "dub", cpu="4")
        await soon(lambda: _waits_on(world, "low", {"dub"}))
        await Desk(scene).answer("low", "dub")
        await is_placed(world, "low", "dub")


@virtual
async def test_Q_24_who_is_as_important_or_named_its_cluster_goes_on_waiting(tmp_path: Path) -> None:
    async with a_scene(tmp_path, APPROVED) as scene:
        world = scene.world
        await join(world, "ams", cpu="4")
        await join(world, "dub", cpu="4")
        await place_waiting(world, "named", "ams", cpu=3, policy=FIXED)
        await place_waiting(world, "equal", "dub", cpu=3, priority=100)
        await place(world, "vip", cpu=3, priority=100)
        await asyncio.sleep(300)
        assert await list_bound_by(world) == {}
        assert AttemptResult.REJECTED not in list_results(scene, "equal") + list_results(scene, "named")


@virtual
async def test_Q_24_of_victims_that_run_and_that_wait_the_least_important_lose_their_room(tmp_path: Path) -> None:
    async with a_scene(tmp_path, APPROVED) as scene:
        world = scene.world
        await join(world, "ams", cpu="4")
        await place(world, "running", cpu=2, priority=1)
        await is_placed(world, "running", "ams")
        await place_waiting(world, "waiting", "ams", cpu=2, priority=2)
        await place(world, "vip", cpu=2, priority=100)
        await is_given_up(world, "running")
        assert await _waits_on(world, "waiting", {"ams"})
        await place(world, "other", cpu=2, priority=50)
        await roll_out(world, "running")
        await is_placed(world, "vip", "ams")
        await is_placed(world, "other", "ams")
        assert count_evictions(scene.hub.requests) == 1


@pytest.mark.parametrize("text,kept", [(APPROVED, set()), (PARTIAL, {"dub"})], ids=["whole", "partial"])
def test_Q_24_a_partial_wait_loses_only_the_cluster(tmp_path: Path, text: str, kept: set[str]) -> None:
    @virtual
    async def run() -> None:
        async with a_scene(tmp_path, text) as scene:
            world = scene.world
            await join(world, "ams", cpu="4")
            await join(world, "dub", cpu="2")
            await place_waiting(world, "low", "ams", "dub", cpu=2, policy=TWO)
            await place(world, "vip", cpu=4, priority=100)
            await is_placed(world, "vip", "ams")
            await soon(lambda: _waits_on(world, "low", {"dub"}))
            ended = AttemptResult.REJECTED in list_results(scene, "low")
            assert ended is not bool(kept)
            await Desk(scene).answer("low", "dub")
            await is_placed(world, "low", "dub")

    run()


def test_Q_24_a_wait_that_is_allowed_before_it_is_refused_ends_with_an_eviction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has become a binding leaves as bindings do."""
    publish = CompanionStatus.publish_preemptions

    async def publish_late(self: CompanionStatus, key: PlacementKey) -> None:
        await asyncio.sleep(30)
        await publish(self, key)

    monkeypatch.setattr(CompanionStatus, "publish_preemptions", publish_late)

    @virtual
    async def run() -> None:
        async with a_scene(tmp_path, APPROVED) as scene:
            world = scene.world
            await join(world, "ams", cpu="4")
            await place_waiting(world, "low", "ams", cpu=3)
            await place(world, "vip", cpu=3, priority=100)
            await asyncio.sleep(10)
            await Desk(scene).answer("low", "ams")
            await is_placed(world, "low", "ams")
            await is_given_up(world, "low")
            await roll_out(world, "low")
            await is_placed(world, "vip", "ams")

    run()


GROUPED: Final = APPROVED.replace("[{name: DefaultPreemption}]", "[{name: DefaultPreemption}, {name: GangPlacement}]")


@virtual
async def test_Q_24_X_18_of_a_group_that_waits_one_member_is_refused_and_the_others_give_back_their_room(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, GROUPED) as scene:
        world = scene.world
        await join(world, "ams", cpu="4")
        await world.create(GROUP, {"metadata": {"name": "web"}, "spec": {}})
        for name in ("m1", "m2"):
            await place(world, name, cpu=2, approvals=[HOLD], group="web")
        for name in ("m1", "m2"):
            await soon(partial(_waits_on, world, name, {"ams"}))
        await place(world, "vip", cpu=2, priority=100)
        await is_placed(world, "vip", "ams")
        await soon(partial(_waits_on, world, "m1", set()))
        await soon(partial(_waits_on, world, "m2", set()))
        await join(world, "dub", cpu="4")
        desk = Desk(scene)
        for name in ("m1", "m2"):
            await soon(partial(_waits_somewhere, world, name))
            (entry,) = (await world.get(CLUSTER_SCOPED.options, name))["status"]["waiting"]
            await desk.answer(name, entry["cluster"])
        await soon(lambda: _are_placed(world, {"m1", "m2", "vip"}))


async def _waits_somewhere(world: World, name: str) -> bool:
    return bool((await world.get(CLUSTER_SCOPED.options, name)).get("status", {}).get("waiting"))


async def _are_placed(world: World, names: set[str]) -> bool:
    return (await list_bound_by(world)).keys() == names


@virtual
async def test_Q_24_what_waits_to_take_back_its_cluster_counts_once(tmp_path: Path) -> None:
    """Its old binding is there still, and vip would need as much again."""
    async with a_scene(tmp_path, APPROVED) as scene:
        world = scene.world
        await join(world, "ams", cpu="6")
        await place(world, "other", cpu=3, priority=200)
        await place(world, "low", cpu=3)
        await is_placed(world, "other", "ams")
        await is_placed(world, "low", "ams")
        await world.edit_policy("low", numberOfClusters=0)
        await is_given_up(world, "low")
        await world.patch(CLUSTER_SCOPED.options, "low", {"spec": {"approvals": [HOLD]}})
        await world.edit_policy("low", numberOfClusters=1)
        await soon(lambda: _waits_on(world, "low", {"ams"}))
        await place(world, "vip", cpu=6, priority=100)
        await asyncio.sleep(60)
        assert await read_preemptions(world, "vip") == []
        assert await _waits_on(world, "low", {"ams"})
