"""Options beside a placement, on the embedded hub and under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from fleet.errors import NotFound
from fleet.kube.api import Method, Request
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED, RESERVATIONS, find_scope
from fleet.manager.manager import Manager
from fleet.model.keys import SCHEDULING_GROUP
from tests.e2e.hub import soon
from tests.e2e.world import EVENTS, World, configured
from tests.fake_hub import Fault, Faults, FaultyApi, fair
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.scripted import Refuse
from tests.faults.virtual import VirtualClock, no_jitter, virtual

DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
UNUSABLE: Final = {
    "approvals": [{"name": "owners", "clusters": {"matchExpressions": [{"key": "env", "operator": "Equals"}]}}]
}
SCOPES: Final = pytest.mark.parametrize("key", ["web", "shop/web"])


@dataclass
class Scene:
    hub: HubApi
    world: World
    controller: Manager

    async def options(self, key: str, **spec: Any) -> None:
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        await self.world.create(find_scope(key).options, {"metadata": metadata, "spec": spec})

    async def edit_options(self, key: str, **spec: Any) -> None:
        await self.world.patch(find_scope(key).options, key, {"spec": spec})

    async def messages(self, reason: str) -> list[str]:
        return [event["message"] for event in await self.world.all(EVENTS) if event["reason"] == reason]

    async def is_gone(self, key: str) -> bool:
        return await self.world.find(find_scope(key).placement, key) is None

    def counted(self, path_part: str) -> int:
        return sum(path_part in request.path for request in self.hub.requests)


@asynccontextmanager
async def a_scene(
    *assignments: str, without_definitions: bool = False, waits: bool = True, fault: Faults = fair
) -> AsyncIterator[Scene]:
    clock = VirtualClock()
    hub = a_hub(clock=lambda: clock.now().timestamp())
    world = World(hub)
    await world.create(Resource("", "v1", "namespaces", "Namespace", namespaced=False), {"metadata": {"name": "shop"}})
    if without_definitions:
        for resource in _companion_kinds():
            await world.delete(DEFINITIONS, f"{resource.plural}.{resource.group}")
    settings = configured("eligibility.heartbeatTimeout=8760h", *assignments)
    controller = Manager(FaultyApi(hub, fault), settings, elects=False, clock=clock, jitter=no_jitter)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(), name="controller")
        if waits:
            await controller.ready()
        yield Scene(hub, world, controller)
        controller.stop()


def _companion_kinds() -> Iterator[Resource]:
    yield from _watched_kinds()
    for scope in (CLUSTER_SCOPED, NAMESPACED):
        yield from (scope.quota, scope.group)
    yield RESERVATIONS


def _watched_kinds() -> Iterator[Resource]:
    """By every controller: others only where a profile or a setting wants them."""
    for scope in (CLUSTER_SCOPED, NAMESPACED):
        yield from (scope.options, scope.approval)


# --- without the definitions ------------------------------------------------------------------------------------------


@virtual
async def test_X_02_a_hub_without_the_definitions_is_ready_and_schedules() -> None:
    async with a_scene(without_definitions=True) as scene:
        await scene.world.join("ams")
        await scene.world.place("web", ONE)
        await scene.world.soon_on("web", "ams")
        assert not scene.controller.list_unsynced()
        before = scene.counted(SCHEDULING_GROUP)
        await asyncio.sleep(300)
        assert scene.counted(SCHEDULING_GROUP) - before == 4 * 10, "each kind is looked for every 30 s"


def forbid_companions(request: Request) -> Fault:
    """A role from before there were companions."""
    names_kind = request.path.rpartition("/")[2].removeprefix("cluster").startswith("placement")
    return Refuse(403, "Forbidden") if SCHEDULING_GROUP in request.path and names_kind else None


@virtual
async def test_X_02_without_the_definitions_rights_to_them_are_not_needed() -> None:
    async with a_scene(without_definitions=True, fault=forbid_companions) as scene:
        await scene.world.join("ams")
        await scene.world.place("web", ONE)
        await scene.world.soon_on("web", "ams")


@virtual
async def test_options_that_may_not_be_read_are_not_passed_over() -> None:
    async with a_scene(fault=forbid_companions, waits=False) as scene:
        await asyncio.sleep(120)
        assert set(scene.controller.list_unsynced()) == {kind.plural for kind in _watched_kinds()}


@virtual
async def test_X_02_definitions_installed_later_are_picked_up_and_removed_ones_are_forgotten() -> None:
    async with a_scene(without_definitions=True) as scene:
        fresh = World(a_hub())
        await scene.world.join("ams")
        for resource in _companion_kinds():
            name = f"{resource.plural}.{resource.group}"
            document = await fresh.get(DEFINITIONS, name)
            await scene.world.create(DEFINITIONS, {"metadata": {"name": name}, "spec": document["spec"]})
        await scene.options("web", **UNUSABLE)
        await asyncio.sleep(60)
        await scene.world.place("web", ONE)
        await asyncio.sleep(60)
        assert await scene.world.bindings("web") == []
        await scene.world.delete(DEFINITIONS, "clusterplacementoptions.scheduling.fleet.dev")
        await scene.world.soon_on("web", "ams", within=300)


@virtual
async def test_X_02_a_placement_without_options_costs_no_further_request() -> None:
    async with a_scene() as scene:
        await scene.world.join("ams")
        before = scene.counted("/placementoptions") + scene.counted("/clusterplacement")
        await scene.world.place("web", ONE)
        await scene.world.soon_on("web", "ams")
        assert scene.counted("/placementoptions") + scene.counted("/clusterplacement") == before


# --- options that cannot be used --------------------------------------------------------------------------------------


@virtual
@SCOPES
async def test_X_04_unusable_options_hold_the_placement_back_and_mending_them_wakes_it(key: str) -> None:
    async with a_scene() as scene:
        await scene.world.join("ams", namespaces=["shop"])
        await scene.options(key, **UNUSABLE)
        await scene.world.place(key, ONE)
        await asyncio.sleep(10)
        assert await scene.world.bindings(key) == []
        (message,) = await scene.messages("SchedulingGated")
        assert message == (
            "not scheduled yet: its options cannot be used: spec.approvals[0].clusters.matchExpressions[0].operator: "
            "'Equals' is no operator; use In, NotIn, Exists or DoesNotExist"
        )
        await scene.edit_options(key, approvals=None)
        await scene.world.soon_on(key, "ams")


@virtual
async def test_X_04_a_placement_that_is_held_back_keeps_its_bindings_and_can_be_deleted() -> None:
    async with a_scene() as scene:
        await scene.world.join("ams")
        await scene.world.place("web", ONE)
        await scene.world.soon_on("web", "ams")
        await scene.options("web", **UNUSABLE)
        await scene.world.join("bru")
        await scene.world.edit_policy("web", numberOfClusters=2)
        await asyncio.sleep(60)
        assert await scene.world.in_use("web") == {"ams"}
        await scene.world.delete(CLUSTER_SCOPED.placement, "web")
        await soon(lambda: scene.is_gone("web"))
        assert await scene.world.bindings("web") == []


@virtual
async def test_options_with_approvals_are_not_passed_over_by_a_profile_that_does_not_ask() -> None:
    async with a_scene() as scene:
        await scene.world.join("ams")
        await scene.options("web", approvals=[{"name": "owners"}])
        await scene.world.place("web", ONE)
        await asyncio.sleep(10)
        assert await scene.world.bindings("web") == []
        (message,) = await scene.messages("SchedulingGated")
        assert "profile DefaultScheduler has no plugin PlacementApproval" in message
        await scene.edit_options("web", approvals=None)
        await scene.world.soon_on("web", "ams")


@virtual
async def test_options_without_a_placement_are_kept_and_do_nothing() -> None:
    async with a_scene() as scene:
        await scene.options("web", **UNUSABLE)
        await asyncio.sleep(60)
        assert await scene.world.get(CLUSTER_SCOPED.options, "web")
        assert await scene.messages("SchedulingGated") == []


@virtual
@SCOPES
async def test_X_04_options_that_cannot_be_read_hold_the_placement_until_they_are_deleted(key: str) -> None:
    with capture_logs() as entries:
        async with a_scene() as scene:
            await scene.world.join("ams", namespaces=["shop"])
            await accept_everything(scene, find_scope(key).options)
            await scene.options(key, gates="none")
            await scene.world.place(key, ONE)
            await asyncio.sleep(10)
            assert await scene.world.bindings(key) == []
            (message,) = await scene.messages("SchedulingGated")
            await scene.world.delete(find_scope(key).options, key)
            await scene.world.soon_on(key, "ams")
    assert message.startswith("not scheduled yet: its options cannot be used: unreadable: spec.gates: ")
    (error,) = [entry for entry in entries if entry["log_level"] == "error"]
    assert (error["event"], error["object"]) == ("cannot decode object", key)


async def accept_everything(scene: Scene, kind: Resource) -> None:
    """As a hub whose definition was replaced by another one."""
    name = f"{kind.plural}.{kind.group}"
    definition = await scene.world.get(DEFINITIONS, name)
    for version in definition["spec"]["versions"]:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        properties = {"spec": anything, "status": anything}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    await scene.world.replace(DEFINITIONS, name, definition)


# --- gates ------------------------------------------------------------------------------------------------------------


@virtual
async def test_X_06_a_placement_waits_until_its_last_gate_is_cleared_and_says_for_what() -> None:
    async with a_scene() as scene:
        await scene.world.join("ams")
        await scene.options("web", gates=[{"name": "review", "message": "ask the owners"}, {"name": "freeze"}])
        await scene.world.place("web", ONE)
        await asyncio.sleep(10)
        assert await scene.messages("SchedulingGated") == ["not scheduled yet: review: ask the owners"]
        await scene.edit_options("web", gates=[{"name": "freeze"}])
        await asyncio.sleep(10)
        assert await scene.world.bindings("web") == []
        await scene.edit_options("web", gates=None)
        await scene.world.soon_on("web", "ams")


# --- the scheduler's name ---------------------------------------------------------------------------------------------


@virtual
async def test_options_name_the_scheduler_before_the_annotation_does() -> None:
    async with a_scene() as scene:
        await scene.world.join("ams")
        await scene.options("web", schedulerName="of-others")
        await scene.world.place("web", ONE)
        await asyncio.sleep(60)
        assert await scene.world.bindings("web") == []
        await scene.edit_options("web", schedulerName="DefaultScheduler")
        await scene.world.soon_on("web", "ams")


@virtual
async def test_deleting_the_options_gives_the_placement_back() -> None:
    async with a_scene() as scene:
        await scene.world.join("ams")
        await scene.options("web", schedulerName="of-others")
        await scene.world.place("web", ONE)
        await asyncio.sleep(60)
        await scene.world.delete(CLUSTER_SCOPED.options, "web")
        await scene.world.soon_on("web", "ams")


# --- the objects ------------------------------------------------------------------------------------------------------


@pytest.mark.cel
@virtual
async def test_X_01_the_embedded_hub_refuses_a_gate_that_is_added_later() -> None:
    async with a_scene() as scene:
        await scene.options("web", gates=[{"name": "a"}, {"name": "b"}])
        await scene.edit_options("web", gates=[{"name": "b"}])
        with pytest.raises(Exception, match="OP-01: gates can be removed, but not added"):
            await scene.edit_options("web", gates=[{"name": "c"}])


@virtual
async def test_X_01_the_definitions_are_served() -> None:
    hub = a_hub()
    for resource in _companion_kinds():
        assert await hub.list(resource.collection()) == []
    with pytest.raises(NotFound):
        await hub.call(Request(Method.GET, f"/apis/{SCHEDULING_GROUP}/v1/placementoptions"))
