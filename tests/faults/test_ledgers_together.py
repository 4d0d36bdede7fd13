"""What one ledger books or gives back, as the others and their waiting placements see it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from fleet.framework.status import Code, Status
from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING, EVENTS
from tests.faults import test_preemption as preemption
from tests.faults import test_quotas as quotas
from tests.faults import test_workload_requests as workloads
from tests.faults.acting import acting_plugins
from tests.faults.configured import Scene, a_scene
from tests.faults.test_room import ONE, join, report_usage
from tests.faults.virtual import virtual

REFUSED: Final = (Status.new(Code.UNSCHEDULABLE, "not here"), timedelta(0))
WAITING: Final = (Status.new(Code.WAIT, "ask"), timedelta(seconds=600))
LONG_AGO: Final = "2026-03-10T09:00:00Z"
WITH_PERMIT: Final = """
profiles:
- base: ExtendedProfile
  plugins: {permit: {enabled: [{name: First}]}}
"""
WITH_PERMIT_AND_QUOTAS: Final = """
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: QuotaFit}]}, permit: {enabled: [{name: First}]}}
"""
WITH_PRE_BIND: Final = preemption.EVICTING.replace(
    "plugins: {multiPoint: {enabled: [{name: DefaultPreemption}]}}",
    "plugins: {multiPoint: {enabled: [{name: DefaultPreemption}]}, preBind: {enabled: [{name: First}]}}",
)


@virtual
async def test_X_12_workloads_on_every_node_are_booked_whatever_else_looks_at_room(tmp_path: Path) -> None:
    """PlacementAffinity reserves after ResourceFit."""
    async with a_scene(tmp_path, workloads.EXTENDED) as scene:
        await workloads.join(scene, "wide", "8", nodes=4)
        for number in range(6):
            spec = workloads.replicated(workloads.pods(workloads.container(cpu="1")))
            await workloads.own(scene, "DaemonSet", "agent", spec, namespace=f"shop{number}")
        for number in range(6):
            await workloads.place(scene, f"agents{number}", namespace=f"shop{number}")
        await asyncio.sleep(30)
        assert len([number for number in range(6) if await scene.world.in_use(f"agents{number}")]) == 2


@virtual
async def test_a_placement_that_waits_is_not_kept_out_by_the_room_that_it_has_reserved(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "permit"] = WAITING
        async with a_scene(tmp_path, WITH_PERMIT) as scene:
            await join(scene.world, "ams", cpu="4")
            await scene.place("web", ONE, requests="cpu=3")
            await asyncio.sleep(60)
            assert len(scene.attempts.of("web")) <= 1, "it waits"
            script.answers.clear()


@virtual
async def test_X_20_what_an_attempt_gives_back_itself_does_not_wake_its_placement(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "permit"] = REFUSED
        async with a_scene(tmp_path, WITH_PERMIT_AND_QUOTAS) as scene:
            await quotas.join(scene, "ams", "dub", "lon")
            await quotas.allow(scene, "team-a", max={"clusters": "2"}, team="a")
            await quotas.place(scene, "wide", policy=quotas.pick(3), team="a")
            await asyncio.sleep(60)
            assert len(scene.attempts.of("wide")) <= 2
            script.answers.clear()


@virtual
async def test_X_20_placements_of_no_quota_are_not_woken_by_others(tmp_path: Path) -> None:
    async with a_scene(tmp_path, quotas.QUOTAS) as scene:
        await quotas.join(scene, "ams", "dub")
        await quotas.allow(scene, "team-x", max={"cpu": "30"}, team="x")
        for number in range(5):
            await quotas.place(scene, f"all-{number}", "cpu=1", {"placementType": "PickAll"}, team="none")
        await asyncio.sleep(60)
        before = len(scene.attempts.records)
        await quotas.place(scene, "another", "cpu=1", team="none")
        await asyncio.sleep(60)
        assert {str(record.key) for record in scene.attempts.records[before:]} == {"another"}


@virtual
async def test_room_that_is_kept_is_not_lost_to_what_requests_nothing(tmp_path: Path) -> None:
    async with a_scene(tmp_path, preemption.EVICTING) as scene:
        world = scene.world
        await preemption.fill(world, "ams")
        await preemption.fill(world, "dub", priority=10)
        await preemption.place(world, "vip", cpu=3, priority=100)
        await preemption.is_given_up(world, "on-ams")
        await report_usage(world, "ams", cpu="4", free="0.5")  # as it was before the victim left
        await preemption.roll_out(world, "on-ams")
        await soon(lambda: preemption.is_drained(world, "vip"))
        await asyncio.sleep(20)
        policy = preemption.only_on("ams")
        spec = {"resourceSelectors": [ANYTHING], "policy": policy}
        await world.create(CLUSTER_SCOPED.placement, {"metadata": {"name": "tiny"}, "spec": spec})
        await preemption.is_placed(world, "tiny", "ams")
        await report_usage(world, "ams", cpu="4", free="0.6")
        await asyncio.sleep(30)
        assert preemption.count_evictions(scene.hub.requests) == 1


@virtual
async def test_room_beside_what_was_kept_is_found_once_it_is_claimed(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        async with a_scene(tmp_path, WITH_PRE_BIND) as scene:
            world = scene.world
            await join(world, "ams", cpu="10")
            await preemption.place(world, "low", cpu=10)
            await preemption.is_placed(world, "low", "ams")
            await preemption.place(world, "vip", cpu=4, priority=100)
            await preemption.is_given_up(world, "low")
            script.answers["First", "pre_bind"] = lambda _: asyncio.sleep(20)
            await preemption.roll_out(world, "low")
            await world.delete(CLUSTER_SCOPED.placement, "low")
            await asyncio.sleep(5)
            await preemption.place(world, "beside", cpu=5, by="roomy")
            await preemption.is_placed(world, "vip", "ams")
            await preemption.is_placed(world, "beside", "ams")
            script.answers.clear()


# --- what is needed changes with the cluster --------------------------------------------------------------------------

PLAIN_ROOM: Final = """
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {disabled: [{name: PlacementAffinity}], enabled: [{name: QuotaFit}]}}
"""


async def own_agents(scene: Scene, name: str = "agents", cpu: str = "1") -> None:
    """A placement of workloads that run on each node."""
    spec = workloads.replicated(workloads.pods(workloads.container(cpu=cpu)))
    await workloads.own(scene, "DaemonSet", "agent", spec, namespace=name)
    await workloads.place(scene, name, name)


async def count_nodes(scene: Scene, cluster: str, nodes: int) -> None:
    counted = {"value": str(nodes), "observationTime": "2026-03-10T09:00:00Z"}
    status: dict[str, Any] = {"properties": {"kubernetes-fleet.io/node-count": counted}}
    await scene.world.patch(MEMBER_CLUSTERS, cluster, {"status": status}, subresource=STATUS)


async def override_web_in_labs(scene: Scene) -> None:
    spec = workloads.replicated(workloads.pods(workloads.container(cpu="1")), 3)
    await workloads.own(scene, "Deployment", "web", spec)
    await workloads.override_web(scene, "fewer", workloads.rule("replace", workloads.REPLICAS, 1, env="lab"))


@virtual
async def test_X_12_a_label_that_overrides_select_and_the_number_of_nodes_wake_what_fits(tmp_path: Path) -> None:
    """Also in a profile in which no other plugin reads labels."""
    async with a_scene(tmp_path, PLAIN_ROOM) as scene:
        await workloads.join(scene, "ams", "2", nodes=4)
        await override_web_in_labs(scene)
        await workloads.place(scene, "shop")
        await own_agents(scene)
        await asyncio.sleep(60)
        assert await scene.world.in_use("shop") == await scene.world.in_use("agents") == set()
        await scene.world.relabel("ams", env="lab")
        await soon(lambda: workloads._is_on(scene, "shop", "ams"), within=20)
        await count_nodes(scene, "ams", 1)
        await soon(lambda: workloads._is_on(scene, "agents", "ams"), within=20)


@virtual
async def test_X_12_what_is_booked_follows_the_labels_and_nodes_of_the_cluster(tmp_path: Path) -> None:
    async with a_scene(tmp_path, workloads.EXTENDED) as scene:
        await workloads.join(scene, "ams", "16", nodes=2)
        await override_web_in_labs(scene)
        await workloads.place(scene, "shop")
        await own_agents(scene)
        await soon(lambda: workloads._is_on(scene, "shop", "ams"))
        await soon(lambda: workloads._is_on(scene, "agents", "ams"))
        assert workloads.read_booked(scene, "ams") == 5000
        await scene.world.relabel("ams", env="lab")
        await soon(lambda: _has_booked(scene, "ams", 3000))
        await count_nodes(scene, "ams", 4)
        await soon(lambda: _has_booked(scene, "ams", 5000))


async def _has_booked(scene: Scene, cluster: str, milli: int) -> bool:
    return workloads.read_booked(scene, cluster) == milli


@virtual
async def test_X_20_what_is_in_use_of_a_quota_follows_the_nodes_of_the_cluster(tmp_path: Path) -> None:
    async with a_scene(tmp_path, quotas.QUOTAS) as scene:
        await workloads.join(scene, "ams", "16", nodes=3)
        await quotas.allow(scene, "all", max={"cpu": "4"})
        await own_agents(scene)
        await soon(lambda: workloads._is_on(scene, "agents", "ams"))
        await quotas.place(scene, "second", "cpu=2")
        await asyncio.sleep(60)
        assert await scene.world.in_use("second") == set()
        await count_nodes(scene, "ams", 2)
        await soon(lambda: workloads._is_on(scene, "second", "ams"), within=20)
        await count_nodes(scene, "ams", 5)
        await soon(lambda: _is_used(scene, 7))


async def _is_used(scene: Scene, cores: float) -> bool:
    return scene.sample("fleet_quota_used", quota="all", resource="cpu") == cores


@virtual
async def test_X_20_a_placement_that_fits_a_quota_on_some_clusters_only_is_woken(tmp_path: Path) -> None:
    async with a_scene(tmp_path, quotas.QUOTAS) as scene:
        await workloads.join_labelled(scene, "lab", "16", env="lab")
        await workloads.join(scene, "ams", "16")
        await quotas.allow(scene, "all", max={"cpu": "2"})
        await override_web_in_labs(scene)
        await quotas.place(scene, "first", "cpu=2")
        await soon(lambda: _is_used(scene, 2))
        await workloads.place(scene, "shop")
        await asyncio.sleep(60)
        await scene.world.delete(CLUSTER_SCOPED.placement, "first")
        await soon(lambda: workloads._is_on(scene, "shop", "lab"), within=20)


@virtual
async def test_room_that_is_kept_follows_the_nodes_of_the_cluster(tmp_path: Path) -> None:
    async with a_scene(tmp_path, preemption.EVICTING) as scene:
        await preemption.fill(scene.world, "ams", cpu=8)
        await count_nodes(scene, "ams", 2)
        await scene.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "agents"}, "spec": {"priority": 100}})
        await own_agents(scene)
        await preemption.is_given_up(scene.world, "on-ams")
        assert _read_kept(scene) == {"ams": 2000}
        await count_nodes(scene, "ams", 5)
        await soon(lambda: _is_kept(scene, 5000))


def _read_kept(scene: Scene) -> dict[str, int]:
    assert scene.controller.scheduler is not None
    return {each.cluster: each.requests["cpu"] for each in scene.controller.scheduler.table.frame().nominations}


async def _is_kept(scene: Scene, milli: int) -> bool:
    return _read_kept(scene) == {"ams": milli}


# --- what belongs to others -------------------------------------------------------------------------------------------


@virtual
async def test_room_of_a_placement_that_another_scheduler_decides_is_left_to_it(tmp_path: Path) -> None:
    async with a_scene(tmp_path, preemption.EVICTING) as scene:
        world = scene.world
        await preemption.fill(world, "ams")
        await preemption.place(world, "theirs", cpu=3, priority=100, by="elsewhere")
        placement = await world.get(CLUSTER_SCOPED.placement, "theirs")
        plan = {"cluster": "ams", "priority": 100, "phase": "Evicting", "victims": ["on-ams"], "since": LONG_AGO}
        status = {"placementUID": placement["metadata"]["uid"], "preemptions": [plan]}
        await world.patch(CLUSTER_SCOPED.options, "theirs", {"status": status}, subresource=STATUS)
    async with a_scene(tmp_path, preemption.EVICTING, after=scene) as again:
        await asyncio.sleep(120)
        assert preemption.count_evictions(again.hub.requests) == 0
        assert await preemption.read_preemptions(again.world, "theirs") == [("ams", "Evicting", ["on-ams"])]


@virtual
async def test_events_and_conditions_name_no_victims_of_other_namespaces(tmp_path: Path) -> None:
    async with a_scene(tmp_path, preemption.EVICTING) as scene:
        world = scene.world
        await preemption.fill(world, "ams")
        await world.create(workloads.NAMESPACE, {"metadata": {"name": "shop"}})
        metadata = {"name": "vip", "namespace": "shop"}
        options = {"metadata": metadata, "spec": {"priority": 100, "requests": {"cpu": "3"}}}
        await world.create(NAMESPACED.options, options)
        spec = {"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "a"}], "policy": ONE}
        await world.create(NAMESPACED.placement, {"metadata": metadata, "spec": spec})
        await preemption.is_given_up(world, "on-ams")
        await asyncio.sleep(30)
        notes = {
            each["reason"]: each["message"]
            for each in await world.all(EVENTS)
            if each["reason"] in ("Preempting", "Preempted")
        }
        assert notes == {
            "Preempting": "room is made for the placement: 1 of other namespaces will leave ams",
            "Preempted": "leaves cluster ams, where room is needed for a more important placement",
        }
        conditions = (await world.get(NAMESPACED.options, "shop/vip"))["status"]["conditions"]
        assert "on-ams" not in next(each["message"] for each in conditions if each["type"] == "Preempting")
