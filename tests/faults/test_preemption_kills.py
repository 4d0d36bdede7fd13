"""A controller that makes room is killed at each of its writes: the next one ends where none had died."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.e2e.hub import soon
from tests.e2e.world import World
from tests.faults.acting import list_deaths, live_until_killed, running
from tests.faults.configured import HEAD
from tests.faults.controller.line import Fault, at
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.test_preemption import (
    EVICTING,
    QUIET,
    fill,
    find_bindings,
    is_drained,
    is_given_up,
    is_placed,
    place,
    read_preemptions,
    roll_out,
)
from tests.faults.test_room import report_usage
from tests.faults.virtual import EPOCH, virtual

pytestmark = pytest.mark.timeout(600)

CONFIG: Final = HEAD + EVICTING
VICTIMS: Final = ("on-ams", "on-dub")
_WRITES: Final = re.compile(r"bindings|options|resourceplacements/[^/]+$")
_GROUP_WRITES: Final = re.compile(r"bindings|options|placementgroups|resourceplacements/[^/]+$")


def a_copy(hub: HubApi) -> tuple[HubApi, World]:
    copy = hub.copy(clock=EPOCH.timestamp)
    return copy, World(copy)


async def a_full_fleet(file: Path) -> HubApi:
    """And a placement for which one of two has to leave."""
    hub = a_hub(clock=EPOCH.timestamp)  # both began at the same time
    world = World(hub)
    async with running(hub, file, CONFIG, QUIET):
        await fill(world, "ams", "dub")
    await place(world, "vip", cpu=3, priority=100)
    return hub


@asynccontextmanager
async def rolled_out(world: World, both: list[str]) -> AsyncIterator[None]:
    """Meanwhile what is given up is deleted after some seconds. `both` gets the clusters with two bindings at once."""

    async def roll() -> None:
        while True:
            await asyncio.sleep(3)
            for cluster in await world.in_use("vip"):
                for victim in VICTIMS:
                    held = await find_bindings(world, victim)
                    both.extend(cluster for each in held if each["spec"]["targetCluster"] == cluster)
            await roll_out(world, *VICTIMS)

    rolling = asyncio.create_task(roll(), name="rolling out")
    try:
        yield
    finally:
        rolling.cancel()
        with suppress(asyncio.CancelledError):
            await rolling


@virtual
async def test_kills_in_every_phase_lose_no_room_and_evict_only_one(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    full = await a_full_fleet(file)
    hub, world = a_copy(full)
    both: list[str] = []
    async with rolled_out(world, both):
        undisturbed = await live_until_killed(hub, file, CONFIG, QUIET)
    assert both == []
    written = [request for request in undisturbed.requests if request.is_write]
    told = next(place for place, request in enumerate(written) if b'"preemptions"' in (request.body or b""))
    evicted = next(place for place, request in enumerate(written) if "bindings/on-ams" in request.path)
    assert told < evicted, "a binding was evicted before the status had for which placement"
    deaths = list_deaths(undisturbed, _WRITES)
    assert len(deaths) > 5
    for number, fault in deaths:
        await one_death(full, file, number, fault)


async def one_death(full: HubApi, file: Path, number: int, fault: Fault) -> None:
    hub, world = a_copy(full)
    both: list[str] = []
    async with rolled_out(world, both):
        line = await live_until_killed(hub, file, CONFIG, QUIET, faults=at(number, fault))
        assert [met for _, met in line.met] == [fault]
        async with running(hub, file, CONFIG, QUIET):
            await is_placed(world, "vip", "ams")
            await asyncio.sleep(60)
            assert await read_preemptions(world, "vip") == []
            await is_placed(world, "on-dub", "dub")
            assert await find_bindings(world, "on-ams") == []
    assert both == []


@virtual
async def test_the_next_leader_keeps_the_room_and_waits_for_the_same_victims(tmp_path: Path) -> None:
    """It leads for a while before they have gone, and others of equal priority ask for the room."""
    file = tmp_path / "fleet.yaml"
    hub = await a_full_fleet(file)
    world = World(hub)
    await live_until_killed(hub, file, CONFIG, QUIET)
    assert await read_preemptions(world, "vip") == [("ams", "Evicting", ["on-ams"])]
    async with running(hub, file, CONFIG, QUIET) as site:
        await place(world, "equal", cpu=4, priority=100, preemptionPolicy="Never")
        await asyncio.sleep(600)
        assert await find_bindings(world, "equal") == []
        assert [each for each in site.of("vip") if each.decision and each.decision.nomination] == []
        await roll_out(world, "on-ams")
        await is_placed(world, "vip", "ams")


@virtual
async def test_the_next_leader_keeps_room_that_does_not_come_no_longer_than_one_would(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    hub = a_hub(clock=EPOCH.timestamp)
    world = World(hub)
    async with running(hub, file, CONFIG, QUIET):
        await fill(world, "ams")
        await place(world, "vip", cpu=4, priority=100)
        await is_given_up(world, "on-ams")
        await report_usage(world, "ams", cpu="4", free="0")
        await roll_out(world, "on-ams")
        await soon(lambda: is_drained(world, "vip"))
        await asyncio.sleep(400)
    async with running(hub, file, CONFIG, QUIET):
        await asyncio.sleep(100)
        assert await is_drained(world, "vip")
        await asyncio.sleep(200)
        assert await read_preemptions(world, "vip") == []


# --- groups -----------------------------------------------------------------------------------------------------------


async def a_full_fleet_for_two(file: Path) -> HubApi:
    """And a group, for both members of which one has to leave."""
    hub = a_hub(clock=EPOCH.timestamp)
    world = World(hub)
    async with running(hub, file, CONFIG, QUIET):
        await fill(world, "ams", "dub")
    await world.create(CLUSTER_SCOPED.group, {"metadata": {"name": "web"}, "spec": {"minCount": 2}})
    for name in ("p1", "p2"):
        await place(world, name, cpu=3, priority=100, group="web")
    return hub


@virtual
async def test_X_18_kills_in_every_phase_lose_no_room_of_a_group(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    full = await a_full_fleet_for_two(file)
    hub, world = a_copy(full)
    async with rolled_out(world, []):
        undisturbed = await live_until_killed(hub, file, CONFIG, QUIET)
    deaths = list_deaths(undisturbed, _GROUP_WRITES)
    assert len(deaths) > 8
    for number, fault in deaths:
        await one_death_of_a_group(full, file, number, fault)


async def one_death_of_a_group(full: HubApi, file: Path, number: int, fault: Fault) -> None:
    hub, world = a_copy(full)
    async with rolled_out(world, []):
        line = await live_until_killed(hub, file, CONFIG, QUIET, faults=at(number, fault))
        assert [met for _, met in line.met] == [fault]
        async with running(hub, file, CONFIG, QUIET):
            await soon(lambda: are_on_both(world))
            await asyncio.sleep(60)
            for name in ("p1", "p2"):
                assert await read_preemptions(world, name) == []
            for victim in VICTIMS:
                assert await find_bindings(world, victim) == []


async def are_on_both(world: World) -> bool:
    return await world.in_use("p1") | await world.in_use("p2") == {"ams", "dub"}
