"""How long room is kept for the members of a group, and when it is given up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.preemption.placed_bindings import PlacedBindings, Standing
from tests.e2e.hub import soon
from tests.faults.configured import Scene, a_scene
from tests.faults.test_group_preemption import VIP, are_members_bound, place_members
from tests.faults.test_groups import a_group, are_bound, read_condition
from tests.faults.test_preemption import (
    EVICTING,
    count_evictions,
    fill,
    find_bindings,
    is_given_up,
    place,
    read_preemptions,
    roll_out,
)
from tests.faults.test_room import join, list_bound_by, report_usage
from tests.faults.virtual import virtual

GROUP = CLUSTER_SCOPED.group


def list_kept(scene: Scene) -> list[tuple[str, str]]:
    assert scene.controller.scheduler is not None
    frame = scene.controller.scheduler.table.frame()
    return sorted((each.placement, each.cluster) for each in frame.nominations)


async def are_given_up(scene: Scene, *victims: str) -> None:
    for victim in victims:
        await is_given_up(scene.world, victim)


@virtual
async def test_room_that_is_free_is_kept_as_long_as_others_leave_for_the_siblings(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await join(world, "free", cpu="3")
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2")
        await are_given_up(scene, "on-ams")
        await asyncio.sleep(500)
        await place(world, "late", cpu=3)
        await asyncio.sleep(400)
        assert await find_bindings(world, "late") == []
        await roll_out(world, "on-ams")
        await soon(lambda: are_members_bound(world, 2))
        await asyncio.sleep(900)
        assert list_kept(scene) == []
        assert count_evictions(scene.hub.requests) == 1


@virtual
async def test_room_that_does_not_come_is_given_up_for_all_ten_minutes_after_the_last_victim(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        await a_group(scene, minCount=2, scheduleTimeoutSeconds=60)
        await place_members(world, "p1", "p2")
        await are_given_up(scene, "on-ams", "on-dub")
        for cluster in ("ams", "dub"):
            await report_usage(world, cluster, cpu="4", free="0")
        await roll_out(world, "on-ams")
        await asyncio.sleep(500)
        await roll_out(world, "on-dub")
        await asyncio.sleep(500)
        assert [placement for placement, _ in list_kept(scene)] == ["p1", "p2"]
        assert "room is being made" not in (await read_condition(scene))[2]
        await asyncio.sleep(200)
        assert list_kept(scene) == []
        assert [await read_preemptions(world, name) for name in ("p1", "p2")] == [[], []]
        assert (await read_condition(scene))[:2] == ("False", "TimedOut")
        assert count_evictions(scene.hub.requests) == 2


@virtual
async def test_a_group_does_not_time_out_while_room_is_made_for_it(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        await a_group(scene, minCount=2, scheduleTimeoutSeconds=60)
        await place_members(world, "p1", "p2")
        await are_given_up(scene, "on-ams", "on-dub")
        await asyncio.sleep(90)
        assert (await read_condition(scene))[1] == "GroupInfeasible"
        await roll_out(world, "on-ams", "on-dub")
        await are_bound(scene, 2)


@virtual
async def test_when_a_group_times_out_it_names_no_room_that_is_made(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        await a_group(scene, minCount=2, scheduleTimeoutSeconds=60)
        await place_members(world, "p1", "p2")
        await are_given_up(scene, "on-ams", "on-dub")
        await asyncio.sleep(90)
        await world.delete(CLUSTER_SCOPED.placement, "p2")
        await asyncio.sleep(30)
        status, reason, message = await read_condition(scene)
        assert (status, reason) == ("False", "TimedOut")
        assert "room" not in message


@pytest.mark.parametrize("what", ["member", "group"])
def test_room_is_given_up_at_once_when_the_member_or_the_group_is_deleted(tmp_path: Path, what: str) -> None:
    @virtual
    async def play() -> None:
        async with a_scene(tmp_path, EVICTING) as scene:
            world = scene.world
            await fill(world, "ams", "dub")
            await a_group(scene, minCount=2)
            await place_members(world, "p1", "p2")
            await are_given_up(scene, "on-ams", "on-dub")
            kinds = {"member": (CLUSTER_SCOPED.placement, "p2"), "group": (GROUP, "web")}
            await world.delete(*kinds[what])
            await asyncio.sleep(30)
            assert list_kept(scene) == []
            assert await read_preemptions(world, "p1") == []
            await roll_out(world, "on-ams", "on-dub")
            await asyncio.sleep(30)
            assert {"on-ams", "on-dub"} == {*(await list_bound_by(world))}

    play()


@virtual
async def test_room_is_given_up_when_a_sibling_has_lost_its_own_and_gets_no_other(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        await a_group(scene, minCount=2)
        await place_members(world, "p1")
        await place_members(world, "p2", priority=5)
        await are_given_up(scene, "on-ams", "on-dub")
        await place(world, "middle", cpu=3, priority=VIP // 2)
        await asyncio.sleep(30)
        assert [placement for placement, _ in list_kept(scene)] == ["middle"]
        assert await read_preemptions(world, "p1") == []


@virtual
async def test_nothing_leaves_for_a_group_once_one_of_its_victims_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision still counts on it: it is not repeated without end."""
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        find = PlacedBindings.find_standing

        def find_closed(placed: PlacedBindings, key: PlacementKey) -> Standing | None:
            standing = find(placed, key)
            is_begun = any(victim for victim, _ in list_kept(scene))
            return standing._replace(disruptions=0) if standing and is_begun and key.name == "on-dub" else standing

        monkeypatch.setattr(PlacedBindings, "find_standing", find_closed)
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2")
        await asyncio.sleep(120)
        assert count_evictions(scene.hub.requests) == 0
        assert len(scene.attempts.of("p1")) < 60
        monkeypatch.undo()
        await are_given_up(scene, "on-ams", "on-dub")


@virtual
async def test_members_that_were_refused_seek_no_room_once_they_are_bound(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world, scheduler = scene.world, scene.controller.scheduler
        assert scheduler is not None
        await fill(world, "ams", priority=VIP)
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2")
        await asyncio.sleep(60)
        assert all(scheduler._preemptions.seeks_room(PlacementKey("", name)) for name in ("p1", "p2"))
        for cluster in ("oslo", "rome"):
            await join(world, cluster, cpu="3")
        await soon(lambda: are_members_bound(world, 2))
        await asyncio.sleep(10)
        assert scheduler._preemptions.list_seeking() == []
