"""How one attempt goes about its inputs, and what it says about its failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleet.clock import SECOND
from fleet.errors import DeadlineExceeded, InternalError
from fleet.kube.api import Method, Request
from fleet.manager.manager import Manager
from fleet.model.keys import IS_LATEST_SNAPSHOT, NUMBER_OF_CLUSTERS, PARENT_PLACEMENT, PLACEMENT_GENERATION
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.queue.item import ItemState, QueueItem
from fleet.settings.loading import load_settings
from plugins.taint_toleration import TaintToleration
from tests.fake_hub import Faults, FaultyApi, Lost, Slow, fair, in_turn
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import VirtualClock, no_jitter, virtual

GROUP = "placement.kubernetes-fleet.io/v1beta1"
PLACEMENTS = f"/apis/{GROUP}/clusterresourceplacements"
SNAPSHOTS = f"/apis/{GROUP}/clusterschedulingpolicysnapshots"
BINDINGS = f"/apis/{GROUP}/clusterresourcebindings"
EVENTS = "/api/v1/events"
CLUSTERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
NOW = "2026-01-01T00:00:00Z"


def creates_binding(request: Request) -> bool:
    return (request.method, request.path) == (Method.POST, BINDINGS)


@dataclass
class Records:
    all: list[AttemptRecord] = field(default_factory=list)
    caches: Any = None
    item: Callable[[PlacementKey], QueueItem | None] = lambda _: None
    """What the queue holds of a placement."""

    def record(self, attempt: AttemptRecord) -> None:
        self.all.append(attempt)

    @property
    def endings(self) -> list[AttemptResult]:
        return [one.result for one in self.all]


async def a_fleet(hub: HubApi, *names: str) -> None:
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": NOW}
        for kind in ("Joined", "Healthy")
    ]
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": NOW, "conditions": conditions}
    for name in names:
        typed = {"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster"}
        spec = {"identity": {"kind": "User", "name": name}}
        await hub.create(CLUSTERS, {**typed, "metadata": {"name": name}, "spec": spec})
        await hub.patch(f"{CLUSTERS}/{name}/status", {"status": {"agentStatus": [agent]}})


async def a_placement(
    hub: HubApi, *, clusters: int = 1, snapshots: int = 1, annotations: Any = None, name: str = "web"
) -> None:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing"}
    policy = {"placementType": "PickN", "numberOfClusters": clusters}
    placement = {"apiVersion": GROUP, "kind": "ClusterResourcePlacement", "metadata": {"name": name}}
    await hub.create(PLACEMENTS, {**placement, "spec": {"resourceSelectors": [selector], "policy": policy}})
    said = annotations or {NUMBER_OF_CLUSTERS: str(clusters), PLACEMENT_GENERATION: "1"}
    for number in range(snapshots):
        labels = {PARENT_PLACEMENT: name, IS_LATEST_SNAPSHOT: "true"}
        snapshot = {"apiVersion": GROUP, "kind": "ClusterSchedulingPolicySnapshot"}
        metadata = {"name": f"{name}-{number}", "labels": labels, "annotations": said}
        await hub.create(
            SNAPSHOTS, {**snapshot, "metadata": metadata, "spec": {"policyHash": "YQ==", "policy": policy}}
        )


@asynccontextmanager
async def scheduling(hub: HubApi, *assignments: str, fault: Faults = fair) -> AsyncIterator[Records]:
    """The scheduler alone, on what is there now; the requests it makes are counted from here."""
    records = Records()
    settings = load_settings(None, {}, assignments).settings
    controller = Manager(
        FaultyApi(hub, fault),
        settings,
        controllers={"scheduler"},
        elects=False,
        recorder=records,
        clock=VirtualClock(),
        jitter=no_jitter,
    )
    records.caches = controller.caches
    assert controller.scheduler is not None
    records.item = controller.scheduler.queue.peek
    hub.requests.clear()
    task = asyncio.create_task(controller.run())
    try:
        await asyncio.sleep(10)
        yield records
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, BaseExceptionGroup):
            await task


def live_lists(hub: HubApi) -> int:
    return sum(
        one.path == BINDINGS and one.method is Method.GET and any(name == "labelSelector" for name, _ in one.query)
        for one in hub.requests
    )


@virtual
async def test_a_decision_is_logged_with_the_placement_its_clusters_and_its_digest() -> None:
    hub = a_hub()
    await a_fleet(hub, "a", "b")
    await a_placement(hub, clusters=2)
    with capture_logs() as said:
        async with scheduling(hub) as records:
            decision = records.all[0].decision
    assert decision is not None
    (line,) = [one for one in said if one["event"] == "decided"]
    assert (line["placement"], line["decision"]) == ("web", decision.digest)
    assert line["writes"] == {"create": ["a", "b"]}


@virtual
async def test_bindings_come_from_the_cache() -> None:
    hub = a_hub()
    await a_fleet(hub, "a", "b")
    await a_placement(hub)
    async with scheduling(hub) as records:
        assert records.endings == [AttemptResult.DECIDED]
        assert live_lists(hub) == 0


@virtual
async def test_bindings_are_listed_in_every_attempt_if_so_configured() -> None:
    hub = a_hub()
    await a_fleet(hub, "a", "b")
    await a_placement(hub)
    async with scheduling(hub, "bindings.read=List") as records:
        assert live_lists(hub) == len(records.all) == 1


@virtual
async def test_after_a_write_of_unknown_outcome_bindings_are_listed_once_and_found() -> None:
    for error in (DeadlineExceeded("scripted"), InternalError("scripted")):
        hub = a_hub()
        await a_fleet(hub, "a", "b", "c")
        await a_placement(hub, clusters=2)
        async with scheduling(hub, fault=in_turn(Lost(error), to=creates_binding)) as records:
            assert records.endings == [AttemptResult.TRANSIENT, AttemptResult.DECIDED]
            assert live_lists(hub) == 1
            assert len(await hub.list(BINDINGS)) == 2


@virtual
async def test_an_attempt_that_changes_nothing_asks_for_nothing() -> None:
    hub = a_hub()
    await a_fleet(hub, "a", "b")
    await a_placement(hub)
    async with scheduling(hub):
        pass
    async with scheduling(hub) as records:
        assert records.endings == [AttemptResult.DECIDED]
        assert [one for one in hub.requests if one.is_write] == []
        assert live_lists(hub) == 0


@virtual
async def test_a_placement_without_a_snapshot_waits_for_one() -> None:
    hub = a_hub()
    await a_fleet(hub, "a")
    await a_placement(hub, snapshots=0)
    async with scheduling(hub) as records:
        assert records.all == []
        assert [one for one in hub.requests if one.is_write] == []


@virtual
async def test_bindings_stay_where_only_the_cache_does_not_know_their_placement() -> None:
    hub = a_hub()
    await a_fleet(hub, "a")
    await a_placement(hub)
    async with scheduling(hub) as records:
        hub.requests.clear()
        records.caches.kinds[0].placements.store.apply_delete_event("web", uid="", version="999999")
        await asyncio.sleep(5)
        assert records.endings[0] is AttemptResult.DECIDED
        assert set(records.endings[1:]) == {AttemptResult.TRANSIENT}, "what may hold it is not known"
        assert len(await hub.list(BINDINGS)) == 1
        assert [one for one in hub.requests if one.is_write] == []


@virtual
async def test_several_latest_snapshots_are_reported_and_tried_again() -> None:
    hub = a_hub()
    await a_fleet(hub, "a")
    await a_placement(hub, snapshots=2)
    async with scheduling(hub) as records:
        assert set(records.endings) == {AttemptResult.TRANSIENT}
        assert len(records.all) > 1
        assert await hub.list(BINDINGS) == []
        (event,) = await hub.list(EVENTS)
        assert event["reason"] == "SchedulingInputInvalid"
        assert "web-0, web-1" in event["message"]
        assert event["count"] == 1
        await hub.patch(f"{SNAPSHOTS}/web-0", {"metadata": {"labels": {IS_LATEST_SNAPSHOT: "false"}}})
        await asyncio.sleep(120)
        assert records.endings[-1] is AttemptResult.DECIDED


@virtual
async def test_a_policy_that_cannot_be_evaluated_is_published_and_nothing_else_is_touched() -> None:
    hub = a_hub()
    await a_fleet(hub, "a")
    await a_placement(hub, annotations={NUMBER_OF_CLUSTERS: "many", PLACEMENT_GENERATION: "1"})
    async with scheduling(hub) as records:
        assert records.endings == [AttemptResult.BAD_INPUT]
        (snapshot,) = await hub.list(SNAPSHOTS)
        (condition,) = snapshot["status"]["conditions"]
        assert condition["status"] == "False"
        assert condition["message"].startswith("scheduling stopped: ")
        (placement,) = await hub.list(PLACEMENTS)
        assert "finalizers" not in placement["metadata"]
        (event,) = await hub.list(EVENTS)
        assert event["reason"] == "SchedulingInputInvalid"


@virtual
async def test_F3_095_what_is_decided_is_what_the_placement_asks_for_when_it_is_taken() -> None:
    """Edited twice while others write and the only worker has no slot for its own: the first edit queues it, the second
    counts."""
    hub = a_hub()
    await a_fleet(hub, "a", "b", "c")
    await a_placement(hub, clusters=1)
    narrow = ("workers=1", "api.writeConcurrency=1")
    async with scheduling(hub, *narrow, fault=lambda one: Slow(5.0) if creates_binding(one) else None) as records:
        for name in ("first", "second", "third"):
            await a_placement(hub, clusters=1, name=name)
        for clusters in (2, 3):
            await asyncio.sleep(0.1)
            await hub.patch(f"{SNAPSHOTS}/web-0", {"metadata": {"annotations": {NUMBER_OF_CLUSTERS: str(clusters)}}})
        queued = records.item(PlacementKey.parse("web"))
        await asyncio.sleep(60)
        wanted = [(str(one.key), one.decision.request.wanted) for one in records.all if one.decision is not None]
    assert queued is not None
    assert queued.state is ItemState.ACTIVE
    assert wanted == [("web", 1), ("first", 1), ("second", 1), ("third", 1), ("web", 3)]


@virtual
async def test_deciding_does_not_wait_for_writes() -> None:
    """Twenty placements, one worker, two seconds for every write."""
    hub = a_hub()
    await a_fleet(hub, "a", "b")
    for number in range(20):
        await a_placement(hub, clusters=2, name=f"web-{number}")
    async with scheduling(hub, "workers=1", fault=lambda one: Slow(2.0) if one.is_write else None) as records:
        await asyncio.sleep(60)
        decided = {str(one.key): one.started for one in records.all if one.writes}
    assert len(decided) == 20
    assert max(decided.values()) - min(decided.values()) < 3 * SECOND


# --- failures of the scheduler itself ---------------------------------------------------------------------------------


class Breaking:
    """A plugin of the profile that breaks so many times before it answers."""

    def __init__(self) -> None:
        self.times, self._answers = 0, TaintToleration.filter

    def filter(self, plugin: TaintToleration, *args: Any) -> Any:
        if not self.times:
            return self._answers(plugin, *args)
        self.times -= 1
        raise ZeroDivisionError("division by zero")


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Breaking]:
    plugin = Breaking()
    monkeypatch.setattr(TaintToleration, "filter", lambda *args: plugin.filter(*args))
    with capture_logs():
        yield plugin


@virtual
async def test_F3_007_a_plugin_that_breaks_rejects_nothing_and_is_tried_again(breaking: Breaking) -> None:
    hub = a_hub()
    await a_fleet(hub, "a")
    await a_placement(hub)
    breaking.times = 2
    async with scheduling(hub, "queue.baseDelay=40s", "queue.maxDelay=60s") as records:
        item = records.item(PlacementKey.parse("web"))
        assert records.endings == [AttemptResult.INTERNAL]
        assert item is not None
        assert (item.state, item.rejectors, item.consecutive_errors_count) == (ItemState.ERROR_BACKOFF, frozenset(), 1)
        await asyncio.sleep(120)
        assert records.endings == [AttemptResult.INTERNAL, AttemptResult.INTERNAL, AttemptResult.DECIDED]


@virtual
async def test_F3_007_the_event_of_an_error_is_told_once_and_does_not_speak_of_clusters_that_are_unfit(
    breaking: Breaking,
) -> None:
    hub = a_hub()
    await a_fleet(hub, "a")
    await a_placement(hub)
    breaking.times = 3
    async with scheduling(hub) as records:
        await asyncio.sleep(60)
        assert records.endings[-1] is AttemptResult.DECIDED
        events = {(one["type"], one["reason"], one["message"], one["count"]) for one in await hub.list(EVENTS)}
    message = "the attempt failed and is tried again: TaintToleration at filter: ZeroDivisionError: division by zero"
    assert events == {("Warning", "SchedulerError", message, 1), ("Normal", "SchedulingChanged", "added a", 1)}


@virtual
async def test_F3_007_an_error_that_comes_back_after_a_success_is_told_again(breaking: Breaking) -> None:
    hub = a_hub()
    await a_fleet(hub, "a", "b")
    await a_placement(hub)
    breaking.times = 1
    async with scheduling(hub):
        await asyncio.sleep(60)
        breaking.times = 1
        await hub.patch(f"{SNAPSHOTS}/web-0", {"metadata": {"annotations": {NUMBER_OF_CLUSTERS: "2"}}})
        await asyncio.sleep(60)
        counts = [one["count"] for one in await hub.list(EVENTS) if one["reason"] == "SchedulerError"]
    assert counts == [2]


@virtual
async def test_what_the_hub_refuses_is_no_error_of_the_scheduler() -> None:
    hub = a_hub()
    await a_fleet(hub, "a")
    await a_placement(hub)
    async with scheduling(hub, fault=in_turn(Lost(InternalError("scripted")), to=creates_binding)) as records:
        await asyncio.sleep(60)
        assert records.endings == [AttemptResult.TRANSIENT, AttemptResult.DECIDED]
        assert "SchedulerError" not in {one["reason"] for one in await hub.list(EVENTS)}
