"""What one ledger books or gives back, as the others and their waiting placements see it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Final

from fleet.framework.status import Code, Status
from fleet.kube.scopes import CLUSTER_SCOPED
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING
from tests.faults import test_preemption as preemption
from tests.faults import test_quotas as quotas
from tests.faults import test_workload_requests as workloads
from tests.faults.acting import acting_plugins
from tests.faults.configured import a_scene
from tests.faults.test_room import ONE, join, report_usage
from tests.faults.virtual import virtual

REFUSED: Final = (Status.new(Code.UNSCHEDULABLE, "not here"), timedelta(0))
WAITING: Final = (Status.new(Code.WAIT, "ask"), timedelta(seconds=600))
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
        await soon(lambda: preemption._is_drained(world, "vip"))
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
