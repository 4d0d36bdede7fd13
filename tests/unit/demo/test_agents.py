"""The stand-in for rollout and work agents, beside a test that acts as the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fleet.demo.agents import NO_DELAYS, AgentDelays, RolloutSimulator
from fleet.demo.usage import WorkloadUsage
from fleet.kube.scopes import CLUSTER_SCOPED
from tests.e2e.world import ANYTHING, World
from tests.fake_hub import Faults, FaultyApi, fair, in_turn
from tests.faults.hub_api import Document, HubApi, a_hub
from tests.faults.scripted import Refuse
from tests.faults.virtual import VirtualClock, no_jitter, virtual

PLACEMENT_API = "/apis/placement.kubernetes-fleet.io/v1beta1"
BINDINGS = f"{PLACEMENT_API}/clusterresourcebindings"
SNAPSHOTS = f"{PLACEMENT_API}/clusterresourcesnapshots"
WEB = f"{BINDINGS}/web-c1"
EPOCH_TEXT = "2026-01-01T00:00:00Z"
OURS = "kubernetes-fleet.io/scheduler-crb-cleanup"
CHAIN = ["RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]
REASONS = ["RolloutStarted", "NoOverrideSpecified", "AllWorkSynced", "AllWorkHaveBeenApplied", "AllWorkAreAvailable"]


def a_binding(name: str = "web-c1", *, state: str = "Scheduled", **metadata: Any) -> Document:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceBinding" if "namespace" in metadata else "ClusterResourceBinding",
        "metadata": {"name": name, "labels": {"kubernetes-fleet.io/parent-CRP": "web"}, **metadata},
        "spec": {
            "state": state,
            "targetCluster": "c1",
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": "web-0",
            "clusterDecision": {"clusterName": "c1", "selected": True, "reason": "picked"},
        },
    }


def a_snapshot(index: int, *, latest: bool = True, master: bool = True, namespace: str = "shop") -> Document:
    labels = {
        "kubernetes-fleet.io/parent-CRP": "web",
        "kubernetes-fleet.io/is-latest-snapshot": str(latest).lower(),
        "kubernetes-fleet.io/resource-index": str(index),
    }
    selected = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourceSnapshot",
        "metadata": {
            "name": f"web-{index}-snapshot" if master else f"web-{index}-0",
            "labels": labels,
            "annotations": {"kubernetes-fleet.io/resource-hash": "abc"} if master else {},
        },
        "spec": {"selectedResources": [selected]},
    }


@asynccontextmanager
async def a_stand_in(
    api: HubApi | None = None, *, pace: AgentDelays = NO_DELAYS, fault: Faults = fair
) -> AsyncIterator[tuple[HubApi, RolloutSimulator]]:
    api = api or a_hub()
    stand_in = RolloutSimulator(FaultyApi(api, fault), clock=VirtualClock(), jitter=no_jitter, pace=pace)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(stand_in.run(), name="stand-in")
        await stand_in.wait_for_sync()
        yield api, stand_in
        running.cancel()


def conditions(binding: Document) -> list[tuple[str, str, str]]:
    found = binding.get("status", {}).get("conditions", ())
    return [(one["type"], one["status"], one["reason"]) for one in found]


def is_current(binding: Document) -> bool:
    generations = {one["observedGeneration"] for one in binding["status"]["conditions"]}
    return generations == {binding["metadata"]["generation"]}


DONE = [(type, "True", reason) for type, reason in zip(CHAIN, REASONS, strict=True)]


# --- bound ------------------------------------------------------------------------------------------------------------


@virtual
async def test_a_scheduled_binding_is_bound_to_the_latest_resource_snapshot_and_becomes_available() -> None:
    async with a_stand_in() as (api, _):
        await api.create(SNAPSHOTS, a_snapshot(9, latest=False))
        await api.create(SNAPSHOTS, a_snapshot(10))
        await api.create(SNAPSHOTS, a_snapshot(10, master=False))
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1)
        binding = await api.get(WEB)

        assert binding["spec"]["state"] == "Bound"
        assert binding["spec"]["resourceSnapshotName"] == "web-10-snapshot"
        assert conditions(binding) == DONE
        assert is_current(binding)


@virtual
async def test_without_a_resource_snapshot_a_binding_is_bound_to_none() -> None:
    async with a_stand_in() as (api, _):
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1)
        binding = await api.get(WEB)

        assert (binding["spec"]["state"], binding["spec"]["resourceSnapshotName"]) == ("Bound", "")
        assert conditions(binding) == DONE


@virtual
async def test_a_new_resource_snapshot_is_rolled_out() -> None:
    async with a_stand_in() as (api, _):
        await api.create(SNAPSHOTS, a_snapshot(9))
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1)
        await api.create(SNAPSHOTS, a_snapshot(10))  # for a moment both say that they are the latest
        await asyncio.sleep(1)
        binding = await api.get(WEB)

        assert binding["spec"]["resourceSnapshotName"] == "web-10-snapshot"
        assert is_current(binding)


@virtual
async def test_what_others_wrote_into_a_binding_stays() -> None:
    async with a_stand_in() as (api, _):
        await api.create(BINDINGS, a_binding(finalizers=[OURS, "example.com/theirs"], annotations={"a": "b"}))
        await asyncio.sleep(1)
        binding = await api.get(WEB)

        assert binding["metadata"]["finalizers"] == [OURS, "example.com/theirs"]
        assert binding["metadata"]["annotations"] == {"a": "b"}
        assert binding["spec"]["clusterDecision"]["reason"] == "picked"


@virtual
async def test_conditions_of_others_stay_in_the_status() -> None:
    async with a_stand_in() as (api, _):
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1)
        theirs = {"type": "Theirs", "status": "True", "reason": "R", "message": "", "lastTransitionTime": EPOCH_TEXT}
        kept = (await api.get(WEB))["status"]["conditions"]
        await api.patch(f"{WEB}/status", {"status": {"conditions": [*kept[:2], theirs]}})
        await asyncio.sleep(1)

        assert conditions(await api.get(WEB)) == [*DONE, ("Theirs", "True", "R")]


@virtual
async def test_a_change_of_the_spec_is_reported_with_its_generation_and_old_transition_times() -> None:
    async with a_stand_in() as (api, _):
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1)
        before = await api.get(WEB)
        await asyncio.sleep(60)
        await api.patch(WEB, {"spec": {"schedulingPolicySnapshotName": "web-1"}})
        await asyncio.sleep(1)
        after = await api.get(WEB)

        assert after["metadata"]["generation"] > before["metadata"]["generation"]
        assert is_current(after)
        assert [one["lastTransitionTime"] for one in after["status"]["conditions"]] == [
            one["lastTransitionTime"] for one in before["status"]["conditions"]
        ]


@virtual
async def test_bindings_of_namespaced_placements_are_served_too() -> None:
    async with a_stand_in() as (api, _):
        path = f"{PLACEMENT_API}/namespaces/default/resourcebindings"
        await api.create(path, a_binding(namespace="default"))
        await asyncio.sleep(1)
        binding = await api.get(f"{path}/web-c1")

        assert binding["spec"]["state"] == "Bound"
        assert conditions(binding) == DONE


@virtual
async def test_bindings_that_were_there_before_are_taken_over() -> None:
    api = a_hub()
    await api.create(BINDINGS, a_binding())
    async with a_stand_in(api):
        await asyncio.sleep(1)

        assert conditions(await api.get(WEB)) == DONE


@virtual
async def test_once_everything_is_available_nothing_is_written() -> None:
    async with a_stand_in() as (api, _):
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1)
        api.requests.clear()
        await asyncio.sleep(3600)

        assert [request.path for request in api.requests if request.is_write] == []


# --- gone -------------------------------------------------------------------------------------------------------------


@virtual
async def test_an_unscheduled_binding_is_deleted() -> None:
    async with a_stand_in() as (api, _):
        await api.create(BINDINGS, a_binding(state="Unscheduled"))
        await asyncio.sleep(1)

        assert not await api.exists(WEB)


@virtual
async def test_finalizers_of_others_hold_a_deleted_binding() -> None:
    async with a_stand_in() as (api, _):
        await api.create(BINDINGS, a_binding(state="Unscheduled", finalizers=[OURS]))
        await asyncio.sleep(1)
        binding = await api.get(WEB)

        assert binding["metadata"]["deletionTimestamp"]
        assert binding["metadata"]["finalizers"] == [OURS]


@virtual
async def test_a_terminating_binding_is_left_alone() -> None:
    async with a_stand_in() as (api, _):
        await api.create(BINDINGS, a_binding(finalizers=[OURS]))
        await api.delete(WEB)
        api.requests.clear()
        await asyncio.sleep(60)

        assert (await api.get(WEB))["spec"]["state"] == "Scheduled"
        assert [request.path for request in api.requests if request.is_write] == []


# --- pace -------------------------------------------------------------------------------------------------------------


@virtual
async def test_binding_applying_and_removing_take_their_time() -> None:
    async with a_stand_in(pace=AgentDelays(binding=2, applying=3, removing=4)) as (api, _):
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1.5)
        assert (await api.get(WEB))["spec"]["state"] == "Scheduled"
        await asyncio.sleep(1)
        assert conditions(await api.get(WEB)) == DONE[:3]
        await asyncio.sleep(3)
        assert conditions(await api.get(WEB)) == DONE
        await api.patch(WEB, {"spec": {"state": "Unscheduled"}})
        await asyncio.sleep(3.5)
        assert await api.exists(WEB)
        await asyncio.sleep(1)
        assert not await api.exists(WEB)


@virtual
async def test_a_binding_that_comes_back_in_time_is_not_removed() -> None:
    async with a_stand_in(pace=AgentDelays(removing=4)) as (api, _):
        await api.create(BINDINGS, a_binding(state="Unscheduled"))
        await asyncio.sleep(2)
        await api.patch(WEB, {"spec": {"state": "Scheduled"}})
        await asyncio.sleep(10)

        assert (await api.get(WEB))["spec"]["state"] == "Bound"


# --- what arrives on the members --------------------------------------------------------------------------------------


@virtual
async def test_a_namespace_is_on_a_cluster_once_it_is_applied_and_until_the_binding_is_gone() -> None:
    async with a_stand_in(pace=AgentDelays(applying=2)) as (api, stand_in):
        await api.create(SNAPSHOTS, a_snapshot(0))
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1)
        early = stand_in.namespaces_on("c1")
        await asyncio.sleep(2)
        then = stand_in.namespaces_on("c1")
        await api.delete(WEB)
        await asyncio.sleep(1)

        assert (early, then, stand_in.namespaces_on("c1")) == ({}, {"shop": "web-work"}, {})
        assert stand_in.namespaces_on("c2") == {}


@virtual
async def test_workloads_use_what_their_placements_request_once_they_are_applied() -> None:
    async with a_stand_in(pace=AgentDelays(applying=2)) as (api, stand_in):
        usage = WorkloadUsage(api, clock=VirtualClock(), jitter=no_jitter, list_applied=stand_in.list_applied)
        watching = asyncio.create_task(usage.run())
        requests = {"scheduling.fleet.dev/requests": "cpu=2,memory=1Gi"}
        placement = {"metadata": {"name": "web", "annotations": requests}, "spec": {"resourceSelectors": [ANYTHING]}}
        await World(api).create(CLUSTER_SCOPED.placement, placement)
        await api.create(BINDINGS, a_binding())
        await asyncio.sleep(1)
        early = dict(usage.measure("c1"))
        await asyncio.sleep(3)

        assert (early, usage.measure("c1"), usage.measure("c2")) == ({}, {"cpu": 2000, "memory": 1 << 30}, {})
        watching.cancel()


# --- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [409, 500, 503])
def test_a_write_that_fails_is_done_again(code: int) -> None:
    @virtual
    async def run() -> None:
        fault = in_turn(*[Refuse(code)] * 3, to=lambda request: request.method == "PUT")
        async with a_stand_in(fault=fault) as (api, _):
            await api.create(BINDINGS, a_binding())
            await asyncio.sleep(10)

            assert conditions(await api.get(WEB)) == DONE

    run()
