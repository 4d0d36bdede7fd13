"""A controller that binds a group is killed at each of its writes: the next one binds all of it, or nothing."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

import pytest

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import GATES
from tests.e2e.world import ANYTHING, World
from tests.faults.acting import list_deaths, live_until_killed, running
from tests.faults.configured import HEAD
from tests.faults.controller.line import Fault, at
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.test_groups import GROUP, GROUPS
from tests.faults.test_room import ONE, join, list_bound_by
from tests.faults.virtual import EPOCH, virtual

pytestmark = pytest.mark.timeout(600)

MEMBERS: Final = ("p1", "p2", "p3")
_WRITES: Final = re.compile(r"bindings|groups|resourceplacements/[^/]+$")
_LONG_ENOUGH: Final = 30.0


async def place(world: World, name: str, **annotations: str) -> None:
    given = {f"scheduling.fleet.dev/{key}": text for key, text in {"requests": "cpu=1", **annotations}.items()}
    metadata = {"name": name, "annotations": given}
    spec = {"resourceSelectors": [ANYTHING], "policy": ONE}
    await world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})


async def a_group() -> tuple[HubApi, World]:
    """And room for no more than its three members; what is held matters more, and would take some of it."""
    hub = a_hub(clock=EPOCH.timestamp)
    world = World(hub)
    await join(world, "ams", cpu="2")
    await join(world, "dub", cpu="1")
    await world.create(GROUP, {"metadata": {"name": "web"}, "spec": {}})
    for name in MEMBERS:
        await place(world, name, group="web")
    await place(world, "a-single", priority="100", gates="review")
    return hub, world


@virtual
async def test_X_18_kills_at_every_write_leave_no_half_group(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    hub, world = await a_group()
    undisturbed = await live_until_killed(hub, file, HEAD + GROUPS, seconds=_LONG_ENOUGH)
    assert set(await list_bound_by(world)) == {*MEMBERS}
    deaths = list_deaths(undisturbed, _WRITES)
    assert len(deaths) > 5
    ends = {await one_death(file, number, fault) for number, fault in deaths}
    assert ends == {True, False}


async def one_death(file: Path, number: int, fault: Fault) -> bool:
    """Whether the group was bound in the end: a placement that is tried before it has only the room that is left."""
    hub, world = await a_group()
    line = await live_until_killed(hub, file, HEAD + GROUPS, faults=at(number, fault), seconds=_LONG_ENOUGH)
    assert [met for _, met in line.met] == [fault]
    before = {*await list_bound_by(world)}
    await world.patch(CLUSTER_SCOPED.placement, "a-single", {"metadata": {"annotations": {GATES: None}}})
    async with running(hub, file, HEAD + GROUPS):
        await asyncio.sleep(60)
        bound = {*await list_bound_by(world)}
        assert bound in ({*MEMBERS}, {"a-single"}), (number, fault, before, bound)
        status = (await world.get(GROUP, "web"))["status"]
        assert ("targets" in status, status["placed"]) == (False, len(bound & {*MEMBERS}))
    return "p1" in bound


@virtual
async def test_X_18_the_next_leader_keeps_the_quota_of_what_was_begun(tmp_path: Path) -> None:
    """A more important placement that comes first does not get it."""
    hub = a_hub(clock=EPOCH.timestamp)
    world = World(hub)
    await join(world, "ams", cpu="9")
    await world.create(CLUSTER_SCOPED.quota, {"metadata": {"name": "team"}, "spec": {"max": {"cpu": "2"}}})
    await world.create(GROUP, {"metadata": {"name": "web"}, "spec": {}})
    await place(world, "a-single", priority="100")
    targets = []
    for name in ("p1", "p2"):
        await place(world, name, group="web")
        uid = (await world.get(CLUSTER_SCOPED.placement, name))["metadata"]["uid"]
        targets.append({"placement": name, "placementUID": uid, "clusters": ["ams"]})
    await world.patch(GROUP, "web", {"status": {"targets": targets}}, subresource=STATUS)

    async with running(hub, tmp_path / "fleet.yaml", HEAD + GROUPS):
        await asyncio.sleep(300)

    assert set(await list_bound_by(world)) == {"p1", "p2"}
