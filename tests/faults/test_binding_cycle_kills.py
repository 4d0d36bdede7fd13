"""A controller with plugins that act is killed at each of its writes: the next one ends where none had died."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from fleet.kube.scopes import find_scope
from tests.e2e.world import World
from tests.faults.acting import TWO, Script, acting_plugins, at_every_hook, list_deaths, live_until_killed, running
from tests.faults.controller.guard import Guard
from tests.faults.controller.line import Fault, at
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import virtual

pytestmark = pytest.mark.timeout(600)

PLACEMENT: Final = find_scope("web").placement
BY_SCHEDULER: Final = re.compile(r"bindings|policysnapshots/[^/]+/status|resourceplacements/[^/]+$")
CONFIG: Final = at_every_hook("First", "Second")


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with acting_plugins(tmp_path) as script:
        yield script


async def a_placement() -> tuple[HubApi, World, Guard]:
    hub = a_hub()
    world, guard = World(hub), Guard()
    for name in ("ams", "dub", "osl"):
        await world.join(name)
    await world.place("web", TWO)
    guard.watch(hub.hub.store)
    return hub, world, guard


def count_reserved(journal: list[str]) -> set[str]:
    """What is reserved and neither bound nor given back, by plugin and cluster."""
    reserved = set()
    for call in journal:
        who, _, rest = call.partition(".")
        hook, _, cluster = rest.partition("(")
        if hook == "reserve":
            reserved.add((who, cluster))
        elif hook in ("unreserve", "post_bind"):
            reserved.discard((who, cluster))
    return {f"{who} {cluster}" for who, cluster in reserved}


@virtual
async def test_kills_at_every_write_leave_one_binding_for_each_cluster(script: Script, tmp_path: Path) -> None:
    hub, _, _ = await a_placement()
    undisturbed = await live_until_killed(hub, tmp_path / "fleet.yaml", CONFIG)
    assert len([one for one in undisturbed.requests if one.is_write and one.path.endswith("bindings")]) == 2
    for number, fault in list_deaths(undisturbed, BY_SCHEDULER):
        await one_death(script, tmp_path / "fleet.yaml", number, fault)


async def one_death(script: Script, file: Path, number: int, fault: Fault) -> None:
    hub, world, guard = await a_placement()
    line = await live_until_killed(hub, file, CONFIG, faults=at(number, fault))
    assert [met for _, met in line.met] == [fault]
    script.journal.clear()  # what is reserved is in the memory of a process
    async with running(hub, file, CONFIG) as site:
        await world.soon_scheduled("web")
        await asyncio.sleep(10)
        in_use = await world.in_use("web")
        assert len(in_use) == len(await world.bindings("web")) == 2
        assert count_reserved(script.journal) == set()
        await world.delete(PLACEMENT, "web")
        await asyncio.sleep(10)
        assert await world.find(PLACEMENT, "web") is None
        assert await world.bindings("web") == []
        assert len(site.scheduler.parked) == 0
    assert guard.broken == []
