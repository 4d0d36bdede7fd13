"""When a controller may work, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleet.errors import LeadershipLost
from fleet.kube.api import Api, Request
from fleet.manager import manager
from fleet.manager.manager import Manager
from fleet.settings import Settings
from fleet.settings.loading import load_settings
from plugins.affinity.cluster_affinity import ClusterAffinityPlugin
from plugins.affinity.namespace_affinity import NamespaceAffinity
from plugins.cluster_eligibility import ClusterEligibility
from plugins.taint_toleration import TaintToleration
from tests.fake_hub import Faults, FaultyApi
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.scripted import Refuse
from tests.faults.virtual import VirtualClock, no_jitter, virtual

LEASES = "/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases"
SNAPSHOTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterschedulingpolicysnapshots"
RESOURCE_SNAPSHOTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcesnapshots"
PLACEMENTS = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements"
KINDS_WATCHED = 11


def settings() -> Settings:
    return load_settings(None, {}, []).settings


def a_controller(hub: Api, name: str = "one", **options: Any) -> Manager:
    return Manager(hub, settings(), clock=VirtualClock(), jitter=no_jitter, identity=name, **options)


@asynccontextmanager
async def running(controller: Manager) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(controller.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, BaseExceptionGroup):
            await task


def lists_of(hub: HubApi, path: str) -> list[Request]:
    return [one for one in hub.requests if one.path == path and ("watch", "1") not in one.query]


async def until(holds: Callable[[], bool], *, within: float = 300.0) -> None:
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.5)


async def a_placement(hub: HubApi, name: str = "web", **spec: Any) -> None:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing"}
    typed = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement"}
    await hub.create(
        PLACEMENTS, {**typed, "metadata": {"name": name}, "spec": {"resourceSelectors": [selector], **spec}}
    )


def figure(controller: Manager, name: str, **labels: str) -> float | None:
    return controller.registry.get_sample_value(name, labels)


async def is_scheduled(hub: HubApi) -> bool:
    found = await hub.list(SNAPSHOTS)
    return bool(found) and bool(found[0].get("status", {}).get("conditions"))


@virtual
async def test_alone_it_works_without_a_lease() -> None:
    hub = a_hub()
    await a_placement(hub)
    async with running(a_controller(hub, elects=False)):
        await asyncio.sleep(5)
        assert await is_scheduled(hub)
    assert await hub.list(LEASES) == []


@virtual
async def test_a_standby_reads_everything_and_writes_nothing() -> None:
    hub = a_hub()
    leader, standby = a_controller(hub, "leader"), a_controller(hub, "standby")
    async with running(leader):
        await leader.ready()
        async with running(standby):
            await until(lambda: not standby.list_unsynced())
            hub.requests.clear()
            await asyncio.sleep(200)
            assert not standby.is_working
            writes = [one for one in hub.requests if one.is_write and not one.path.startswith(LEASES)]
            assert writes == []


@virtual
async def test_whoever_takes_over_reads_everything_anew_before_it_works() -> None:
    hub = a_hub()
    leader, standby = a_controller(hub, "leader"), a_controller(hub, "standby")
    async with running(leader):
        await leader.ready()
        async with running(standby):
            await until(lambda: not standby.list_unsynced())
            hub.requests.clear()
            leader.stop()
            await standby.ready()
            assert len(lists_of(hub, SNAPSHOTS)) == 1
            await a_placement(hub)
            await asyncio.sleep(5)
            assert await is_scheduled(hub)


@virtual
async def test_what_a_leader_has_read_is_left_out_of_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    """With garbage of the days that it may have waited as a standby."""
    controller, unsynced = a_controller(a_hub()), list[list[str]]()

    def note(*, completely: bool) -> None:
        assert completely
        unsynced.append(controller.list_unsynced())

    monkeypatch.setattr(manager, "leave_out_present_objects", note)
    async with running(controller):
        await controller.ready()
    assert unsynced == [[]]


@virtual
async def test_a_stop_ends_the_wait_for_the_lease() -> None:
    hub = a_hub()
    leader, standby = a_controller(hub, "leader"), a_controller(hub, "standby")
    async with running(leader), running(standby) as task:
        await leader.ready()
        await until(lambda: not standby.list_unsynced())
        standby.stop()
        async with asyncio.timeout(1):
            await task


@virtual
async def test_a_stop_gives_the_lease_back() -> None:
    hub = a_hub()
    controller = a_controller(hub)
    async with running(controller) as task:
        await controller.ready()
        controller.stop()
        async with asyncio.timeout(10):
            await task
    (lease,) = await hub.list(LEASES)
    assert lease["spec"]["holderIdentity"] == ""


def unreadable(path: str) -> Faults:
    """Nobody may list the objects of one kind."""
    return lambda request: Refuse(403, "Forbidden") if request.path == path and not request.is_write else None


@virtual
async def test_a_stop_does_not_wait_for_a_kind_that_nobody_may_read() -> None:
    hub = a_hub()
    await a_placement(hub)
    controller = a_controller(FaultyApi(hub, unreadable(RESOURCE_SNAPSHOTS)))
    async with running(controller) as task:
        await controller.ready()
        await asyncio.sleep(1)
        controller.stop()
        async with asyncio.timeout(30):
            await task


@virtual
async def test_a_lease_that_is_taken_away_ends_the_process() -> None:
    hub = a_hub()
    controller = a_controller(hub)
    async with running(controller) as task:
        await controller.ready()
        (lease,) = await hub.list(LEASES)
        await hub.patch(f"{LEASES}/{lease['metadata']['name']}", {"spec": {"holderIdentity": "somebody else"}})
        with pytest.raises(ExceptionGroup) as caught:
            await asyncio.wait_for(task, 60)
    assert caught.group_contains(LeadershipLost)
    assert not controller.is_working


@virtual
async def test_the_scheduler_alone_makes_no_snapshots() -> None:
    hub = a_hub()
    await a_placement(hub)
    async with running(a_controller(hub, elects=False, controllers={"scheduler"})) as task:
        await asyncio.sleep(30)
        assert not task.done()
    assert await hub.list(SNAPSHOTS) == []
    (placement,) = await hub.list(PLACEMENTS)
    assert "finalizers" not in placement["metadata"]


@virtual
async def test_it_says_what_it_could_not_read_yet() -> None:
    controller = a_controller(a_hub())
    assert len(controller.list_unsynced()) == KINDS_WATCHED
    assert "memberclusters" in controller.list_unsynced()


@virtual
async def test_events_say_which_controller_they_come_from() -> None:
    hub = a_hub()
    await a_placement(hub, policy={"placementType": "PickN", "numberOfClusters": 2})
    async with running(a_controller(hub, elects=False)):
        await asyncio.sleep(30)
        assert {one["reason"]: one["source"]["component"] for one in await hub.list("/api/v1/events")} == {
            "SelectorMatchedNothing": "fleet-placement-controller",
            "SchedulingIncomplete": "fleet-scheduler",
        }


# --- figures ----------------------------------------------------------------------------------------------------------

LEASE = "fleet-system/136224848560.hub.fleet.azure.com"


@virtual
async def test_of_two_controllers_one_leads_and_the_figures_tell_which() -> None:
    hub = a_hub()
    first, second = a_controller(hub, "one"), a_controller(hub, "two")
    assert figure(first, "fleet_leader", lease=LEASE) == figure(first, "fleet_working") == 0
    async with running(first) as task:
        await first.ready()
        async with running(second):
            await asyncio.sleep(30)
            leading = [
                (figure(one, "fleet_leader", lease=LEASE), figure(one, "fleet_working")) for one in (first, second)
            ]
            assert leading == [(1, 1), (0, 0)]
            first.stop()
            await task
            await second.ready()
            leading = [
                (figure(one, "fleet_leader", lease=LEASE), figure(one, "fleet_working")) for one in (first, second)
            ]
            assert leading == [(0, 0), (1, 1)]


@virtual
async def test_a_scheduler_alone_tells_that_it_leads_as_well() -> None:
    controller = a_controller(a_hub(), controllers={"scheduler"})
    async with running(controller):
        await controller.ready()
        assert figure(controller, "fleet_leader", lease=LEASE) == figure(controller, "fleet_working") == 1


@virtual
async def test_a_leader_that_cannot_read_everything_has_the_lease_and_does_not_work() -> None:
    controller = a_controller(FaultyApi(a_hub(), unreadable(SNAPSHOTS)))
    async with running(controller):
        await asyncio.sleep(30)
        assert figure(controller, "fleet_leader", lease=LEASE) == 1
        assert figure(controller, "fleet_working") == 0


@virtual
async def test_without_an_election_there_is_no_lease_to_tell_of() -> None:
    controller = a_controller(a_hub(), elects=False)
    async with running(controller):
        await controller.ready()
        assert figure(controller, "fleet_leader", lease=LEASE) is None
        assert figure(controller, "fleet_working") == 1


@virtual
async def test_changes_and_refusals_are_counted_from_0() -> None:
    controller = a_controller(a_hub())
    for kind in ("MemberCluster", "ClusterSchedulingPolicySnapshot", "ResourceBinding", "ResourcePlacement"):
        assert figure(controller, "fleet_scheduler_triggers_total", source=kind, woken="true") == 0
    for plugin in ("ClusterAffinity", "TaintToleration", "TopologySpreadConstraints"):
        assert figure(controller, "fleet_scheduler_filtered_clusters_total", plugin=plugin) == 0


# --- plugins ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Plugins of the profile that want to be closed, once they are."""
    found: list[str] = []
    for kind in (ClusterAffinityPlugin, TaintToleration):
        monkeypatch.setattr(kind, "close", lambda plugin: found.append(plugin.name()), raising=False)
    return found


@virtual
async def test_F3_119_plugins_are_closed_when_the_process_ends_and_not_before(closed: list[str]) -> None:
    hub = a_hub()
    controller = a_controller(hub)
    async with running(controller) as task:
        await controller.ready()
        await a_placement(hub)
        await asyncio.sleep(5)
        assert await is_scheduled(hub)
        assert closed == []
        controller.stop()
        await task
    assert sorted(closed) == ["ClusterAffinity", "TaintToleration"]


@virtual
async def test_F3_119_plugins_of_a_process_that_loses_its_lease_are_closed(closed: list[str]) -> None:
    hub = a_hub()
    controller = a_controller(hub)
    async with running(controller) as task:
        await controller.ready()
        (lease,) = await hub.list(LEASES)
        await hub.patch(f"{LEASES}/{lease['metadata']['name']}", {"spec": {"holderIdentity": "somebody else"}})
        with pytest.RaisesGroup(LeadershipLost):
            await task
    assert sorted(closed) == ["ClusterAffinity", "TaintToleration"]


@virtual
async def test_F3_119_plugins_of_a_standby_are_closed(closed: list[str]) -> None:
    hub = a_hub()
    leader, standby = a_controller(hub, "leader", controllers={"placement"}), a_controller(hub, "standby")
    async with running(leader), running(standby) as task:
        await leader.ready()
        standby.stop()
        await task
    assert sorted(closed) == ["ClusterAffinity", "TaintToleration"]


@virtual
async def test_F3_119_what_plugins_say_when_they_are_closed_is_logged_together(
    closed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, kind in enumerate((ClusterEligibility, NamespaceAffinity)):
        monkeypatch.setattr(kind, "close", raising(OSError(f"socket {number}")), raising=False)
    controller = a_controller(a_hub())
    with capture_logs() as said:
        async with running(controller) as task:
            await controller.ready()
            controller.stop()
            await task
    (line,) = [one for one in said if one["log_level"] == "error"]
    assert line["event"] == "plugins could not be closed"
    assert {str(one) for one in line["exc_info"].exceptions} == {"socket 0", "socket 1"}
    assert sorted(closed) == ["ClusterAffinity", "TaintToleration"]


def raising(error: Exception) -> Callable[[Any], None]:
    def close(_: Any) -> None:
        raise error

    return close
