"""The extended profile: quotas and groups are there for those who ask for them, and nothing is evicted. With a plugin
that evicts, as without it, a change wakes only whom it helps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from fleet.kube.api import Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED, DISRUPTION_BUDGETS, PRIORITY_CLASSES
from fleet.scheduler.attempt_record import AttemptResult
from tests.e2e.hub import soon
from tests.fake_hub import Fault, Slow
from tests.faults.acting import running
from tests.faults.configured import HEAD, Scene, a_scene
from tests.faults.hub_api import a_hub
from tests.faults.test_preemption import (
    BINDING,
    OPTIONS,
    QUIET,
    count_evictions,
    fill,
    find_bindings,
    has_state,
    is_given_up,
    is_placed,
    only_on,
    place,
    read_preemptions,
    roll_out,
)
from tests.faults.test_room import ONE, join, list_bound_by, report_usage
from tests.faults.virtual import virtual
from tests.installed import an_installed_package

EXTENDED: Final = "profiles: [{base: ExtendedProfile}]\n"
EVICTING: Final = "profiles: [{base: ExtendedProfile, plugins: {multiPoint: {enabled: [{name: DefaultPreemption}]}}}]\n"
UNTIMED: Final = EVICTING.replace("base", "backoffOnRejection: false, base")
"""Nothing is tried again but for an event."""


def list_triggers(scene: Scene, name: str) -> Sequence[str]:
    return [trigger.split()[0] for record in scene.attempts.of(name) for trigger in record.triggers]


# --- who asks for it --------------------------------------------------------------------------------------------------


@virtual
async def test_a_placement_without_a_priority_evicts_nothing_and_gets_no_companion(tmp_path: Path) -> None:
    """Not even what matters less than that, and not what is leaving in any case."""
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", priority=-5)
        await scene.place("plain", ONE, requests="cpu=2")
        await asyncio.sleep(900)
        assert await has_state(world, "on-ams", "Scheduled")
        await world.edit_policy("on-ams", numberOfClusters=0)
        await is_given_up(world, "on-ams")
        await asyncio.sleep(900)
        assert count_evictions(scene.hub.requests) == 1
        assert [each["metadata"]["name"] for each in await world.all(OPTIONS)] == ["on-ams"]
        assert [record.decision.nomination for record in scene.attempts.of("plain") if record.decision] != []
        assert all(not record.decision.nomination for record in scene.attempts.of("plain") if record.decision)
        await roll_out(world, "on-ams")
        await is_placed(world, "plain", "ams")


@virtual
async def test_quotas_and_groups_count_where_there_are_such_objects(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        world = scene.world
        await join(world, "ams", cpu="8")
        quota = {"metadata": {"name": "all"}, "spec": {"max": {"cpu": "3"}}}
        await world.create(CLUSTER_SCOPED.quota, quota)
        await world.create(CLUSTER_SCOPED.group, {"metadata": {"name": "web"}, "spec": {"minCount": 2}})
        await scene.place("p1", ONE, requests="cpu=2", group="web")
        await scene.place("p2", ONE, requests="cpu=2", group="web")
        await asyncio.sleep(60)
        assert await list_bound_by(world) == {}
        await world.patch(CLUSTER_SCOPED.quota, "all", {"spec": {"max": {"cpu": "4"}}})
        await soon(lambda: _are_bound(scene, "p1", "p2"))


async def _are_bound(scene: Scene, *names: str) -> bool:
    return set(await list_bound_by(scene.world)) == set(names)


# --- whom a change wakes ----------------------------------------------------------------------------------------------


@virtual
async def test_a_change_of_a_cluster_wakes_whom_it_helps_also_those_that_could_evict_there(tmp_path: Path) -> None:
    async with a_scene(tmp_path, UNTIMED) as scene:
        world = scene.world
        await fill(world, "ams", priority=50)
        await scene.place("plain", ONE, requests="cpu=6")
        await place(world, "vip", cpu=6, priority=100)
        await place(world, "meek", cpu=6, priority=100, preemptionPolicy="Never")
        await place(world, "picky", cpu=6, priority=100, policy=only_on("dub"))
        await asyncio.sleep(60)
        waiting = ("plain", "vip", "meek", "picky")
        attempts = {name: len(scene.attempts.of(name)) for name in waiting}
        await world.relabel("ams", any="label")
        await world.taint("ams", {"key": "gpu", "effect": "NoSchedule"})
        await world.taint("ams")
        await report_usage(world, "ams", cpu="5")
        await world.join("osl", available={"cpu": "1"})
        await asyncio.sleep(60)
        assert {name: len(scene.attempts.of(name)) for name in waiting} == attempts
        await report_usage(world, "ams", cpu="6")
        await is_given_up(world, "on-ams")
        await asyncio.sleep(60)
        assert {name: len(scene.attempts.of(name)) for name in waiting} == {**attempts, "vip": attempts["vip"] + 1}
        assert list_triggers(scene, "vip")[-1] == "MemberCluster/UpdateCapacity"
        await join(world, "dub", cpu="6")
        await world.relabel("dub", place="dub")
        await soon(lambda: _has_one_of(scene, "plain", "meek", "picky"))


@virtual
async def test_where_a_plugin_from_elsewhere_makes_room_every_change_that_is_read_wakes(tmp_path: Path) -> None:
    """It is not known for whom it would."""
    source = """
from fleet.framework.status import Code, Status
from fleet.framework.types import PluginTraits


class Searching(PluginTraits):
    READS, ROW_LOCAL, READS_POLICY_ONLY = ("labels",), True, True
    def __init__(self, raw=None, handle=None): ...
    def name(self): return "Searching"
    def post_filter(self, ctx, state, req, frame, verdicts): return None, Status.new(Code.UNSCHEDULABLE, "no room")
"""
    document = UNTIMED.replace("DefaultPreemption", "Searching")
    folder = tmp_path / "searching"
    folder.mkdir()
    with an_installed_package(folder, source, {"Searching": "Searching"}):
        async with a_scene(tmp_path, document) as scene:
            await fill(scene.world, "ams")
            await scene.place("web", {**ONE, **only_on("dub")}, requests="cpu=1")
            await asyncio.sleep(60)
            attempts = len(scene.attempts.of("web"))
            await scene.world.relabel("ams", place="osl")
            await asyncio.sleep(60)
            assert len(scene.attempts.of("web")) == attempts + 1


async def _has_one_of(scene: Scene, *names: str) -> bool:
    return any([await find_bindings(scene.world, name) for name in names])


@virtual
async def test_a_cluster_wakes_only_the_groups_with_a_member_that_it_fits(tmp_path: Path) -> None:
    async with a_scene(tmp_path, UNTIMED) as scene:
        world = scene.world
        await join(world, "ams", cpu="2")
        for group, cpu in (("small", 2), ("large", 6)):
            await world.create(CLUSTER_SCOPED.group, {"metadata": {"name": group}, "spec": {}})
            for number in range(2):
                await scene.place(f"{group}{number}", ONE, requests=f"cpu={cpu}", group=group)
        await asyncio.sleep(60)
        assert await list_bound_by(world) == {}
        attempts = {name: len(scene.attempts.of(name)) for name in ("small0", "large0")}
        await world.relabel("ams", any="label")
        await world.join("osl", available={"cpu": "1"})
        await asyncio.sleep(60)
        assert len(scene.attempts.of("large0")) == attempts["large0"]
        before = len(scene.attempts.of("large0"))
        await report_usage(world, "ams", cpu="4")
        await soon(lambda: _are_bound(scene, "small0", "small1"))
        assert len(scene.attempts.of("large0")) == before


# --- what may be evicted from now on ----------------------------------------------------------------------------------


@virtual
async def test_a_preemptor_wakes_when_its_victim_is_bound_at_last(tmp_path: Path) -> None:
    """Between permission and binding there is nothing to evict, and no room either."""
    hub = a_hub()

    def fault(request: Request) -> Fault:
        is_bind = request.method is Method.POST and request.path.endswith(f"/{BINDING.plural}")
        return Slow(before=5) if is_bind else None

    async with running(hub, tmp_path / "fleet.yaml", HEAD + UNTIMED, QUIET, fault=fault) as process:
        world = process.world
        await join(world, "ams", cpu="4")
        await place(world, "low", cpu=4)
        await asyncio.sleep(1)
        await place(world, "vip", cpu=4, priority=100)
        await asyncio.sleep(1)
        assert [record.result for record in process.of("vip")] == [AttemptResult.SHORT]
        assert await world.all(BINDING) == []
        await is_given_up(world, "low")
        await roll_out(world, "low")
        await is_placed(world, "vip", "ams")


@virtual
async def test_a_class_that_sinks_wakes_those_above(tmp_path: Path) -> None:
    async with a_scene(tmp_path, UNTIMED) as scene:
        world = scene.world
        await world.create(PRIORITY_CLASSES, {"metadata": {"name": "gold"}, "value": 1000})
        await join(world, "ams", cpu="4")
        await scene.place("on-ams", ONE, requests="cpu=4", priority_class="gold")
        await is_placed(world, "on-ams", "ams")
        await place(world, "vip", cpu=4, priority=100)
        await place(world, "lower", cpu=4, priority=5)
        await asyncio.sleep(60)
        assert await read_preemptions(world, "vip") == []
        attempts = len(scene.attempts.of("lower"))
        await world.delete(PRIORITY_CLASSES, "gold")
        await world.create(PRIORITY_CLASSES, {"metadata": {"name": "gold"}, "value": 10})
        await is_given_up(world, "on-ams")
        await asyncio.sleep(60)
        assert await read_preemptions(world, "vip") == [("ams", "Evicting", ["on-ams"])]
        assert await read_preemptions(world, "lower") == []
        assert len(scene.attempts.of("lower")) <= attempts + 1


@virtual
async def test_a_budget_that_grows_wakes_only_those_that_may_evict_by_it(tmp_path: Path) -> None:
    async with a_scene(tmp_path, UNTIMED) as scene:
        world = scene.world
        await world.create(DISRUPTION_BUDGETS, {"metadata": {"name": "on-ams"}, "spec": {"minAvailable": 1}})
        await fill(world, "ams", priority=50)
        waiting: dict[str, dict[str, Any]] = {"vip": {"priority": 100}, "equal": {"priority": 50}, "plain": {}}
        for name, options in waiting.items():
            await place(world, name, cpu=4, **options)
        await asyncio.sleep(60)
        attempts = {name: len(scene.attempts.of(name)) for name in waiting}
        await world.delete(DISRUPTION_BUDGETS, "on-ams")
        await is_given_up(world, "on-ams")
        assert len(scene.attempts.of("plain")) == attempts["plain"]
        assert list_triggers(scene, "vip")[-1] == "Binding/Evictable"


# --- what is left of placements that are gone -------------------------------------------------------------------------


@virtual
async def test_nothing_is_kept_of_rejections_of_placements_that_are_gone(tmp_path: Path) -> None:
    """For want of quota, of room, and of others beside it; also if finalizers of others keep them for long."""
    async with a_scene(tmp_path, EXTENDED) as scene:
        world = scene.world
        await join(world, "ams", cpu="4")
        await world.create(CLUSTER_SCOPED.quota, {"metadata": {"name": "all"}, "spec": {"max": {"cpu": "2"}}})
        lonely = {"required": [{"placements": {"matchLabels": {"app": "db"}}, "topologyKey": "region"}]}
        await place(world, "lonely", cpu=1, affinity=lonely)
        await place(world, "poor", cpu=3)
        await place(world, "large", cpu=5)
        await asyncio.sleep(60)
        scheduler = scene.controller.scheduler
        assert scheduler is not None
        kept = (scheduler._short_of_quota, scheduler._short_of_room, scheduler._resident_hints._rejected)
        assert [sorted(key.name for key in keys) for keys in kept] == [["poor"], ["large"], ["lonely"]]
        for name in ("lonely", "large"):
            finalizers = (await world.placement(name))["metadata"]["finalizers"]
            others = {"metadata": {"finalizers": [*finalizers, "example.com/other"]}}
            await world.patch(CLUSTER_SCOPED.placement, name, others)
        for name in ("lonely", "poor", "large"):
            await world.delete(CLUSTER_SCOPED.placement, name)
        await asyncio.sleep(60)
        for name in ("lonely", "large"):
            assert (await world.placement(name))["metadata"]["finalizers"] == ["example.com/other"]
            await world.patch(CLUSTER_SCOPED.placement, name, {"metadata": {"finalizers": []}})
        await asyncio.sleep(60)
        assert await world.all(CLUSTER_SCOPED.placement) == []
        assert kept == (set(), set(), set())
        assert scheduler._loop.attempts._requests._entries == {}
