"""Decisions are published once, completely, and not lost to a conflict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from fleet.errors import Conflict, InternalError, StaleInputs
from fleet.framework.cycle.decision import Published
from fleet.model.keys import IS_LATEST_SNAPSHOT, NUMBER_OF_CLUSTERS, PARENT_PLACEMENT, PLACEMENT_GENERATION
from fleet.model.views import ClusterDecision, ClusterScore, Condition, Observed, PolicySnapshot
from fleet.scheduler.dispatch.call_queue import CallResult
from fleet.scheduler.dispatch.status_calls import StatusCall, StatusChange, StatusWriter
from tests.fake_hub import GROUP, INTERNAL, LOST, UNAVAILABLE, FakeHub, Json, Lost, Slow
from tests.faults.virtual import VirtualClock, virtual, within
from tests.unit.scheduler.desk import failing
from tests.unit.scheduler.site import PATIENCE, Site, a_site

PATH = f"{GROUP}/clusterschedulingpolicysnapshots/web-1"
EARLIER = "2025-12-31T00:00:00Z"
"""The clock of these tests starts with 2026."""
THEIRS = {"type": "Theirs", "status": "True", "reason": "R", "message": "", "lastTransitionTime": EARLIER}

C1 = ClusterDecision("c1", True, "picked", ClusterScore(1, 0))
C2 = ClusterDecision("c2", False, "filtered")
C3 = ClusterDecision("c3", True, "fixed", None)


def published(*decisions: ClusterDecision, status: str = "True", generation: int = 7) -> Published:
    condition = Condition("Scheduled", status, "SchedulingPolicyFulfilled", "found", None, 3)
    return Published(generation, condition, decisions)


def a_snapshot(status: Json | None = None, **annotations: str) -> Json:
    notes = {PLACEMENT_GENERATION: "7", NUMBER_OF_CLUSTERS: "2", **annotations}
    labels = {PARENT_PLACEMENT: "web", IS_LATEST_SNAPSHOT: "true"}
    document: Json = {
        "metadata": {"labels": labels, "annotations": notes, "generation": 3},
        "spec": {"policyHash": "aA=="},
    }
    return document if status is None else {**document, "status": status}


@dataclass
class Desk:
    site: Site
    writes: StatusWriter
    told: list[str] = field(default_factory=list)

    @property
    def server(self) -> FakeHub:
        return self.site.server

    @property
    def status(self) -> Json:
        found: Json = self.server.objects[PATH]["status"]
        return found

    @property
    def condition(self) -> Json:
        (found,) = (one for one in self.status["conditions"] if one["type"] == "Scheduled")
        return dict(found)

    async def holds(self, document: Json) -> Observed[PolicySnapshot]:
        self.server.put(PATH, document)
        found = await self.site.kinds.policy_snapshots.objects.get("web-1")
        self.site.kinds.policy_snapshots.store.apply_event(found)
        self.server.requests.clear()
        return found

    async def write(self, snapshot: Observed[PolicySnapshot], what: Published) -> bool:
        return await self.writes.write_status(self.site.kinds, snapshot, what)

    def edits(self, patch: Json) -> None:
        """Somebody else, just before our next write."""
        self.server.before_write.append(lambda: self.server.edit(PATH, **patch))

    def call(self, snapshot: Observed[PolicySnapshot], change: StatusChange) -> StatusCall:
        objects = self.site.kinds.policy_snapshots.objects
        return StatusCall(change, snapshot, objects, PATIENCE, VirtualClock())


@asynccontextmanager
async def a_desk(server: FakeHub | None = None) -> AsyncIterator[Desk]:
    async with a_site(server or FakeHub(), concurrency=1) as site:
        told: list[str] = []
        writes = StatusWriter(
            dispatcher=site.dispatcher, retry_policy=PATIENCE, clock=VirtualClock(), on_write=told.append
        )
        yield Desk(site, writes, told)


# --- content ----------------------------------------------------------------------------------------------------------


@within(a_desk)
async def test_a_status_is_published_with_a_put_that_says_no_more_than_needed(desk: Desk) -> None:
    snapshot = await desk.holds(a_snapshot())
    assert await desk.write(snapshot, published(C1, C2, C3))
    assert desk.server.writes() == ["PUT clusterschedulingpolicysnapshots/web-1/status"]
    assert desk.server.requests[0].call_class == "status"
    (body,) = desk.server.bodies()
    assert body == {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterSchedulingPolicySnapshot",
        "metadata": {"name": "web-1", "uid": "uid-1", "resourceVersion": "101"},
        "status": {
            "observedCRPGeneration": 7,
            "conditions": [
                {
                    "type": "Scheduled",
                    "status": "True",
                    "reason": "SchedulingPolicyFulfilled",
                    "message": "found",
                    "observedGeneration": 3,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            "targetClusters": [
                {
                    "clusterName": "c1",
                    "selected": True,
                    "reason": "picked",
                    "clusterScore": {"affinityScore": 1, "priorityScore": 0},
                },
                {"clusterName": "c2", "selected": False, "reason": "filtered"},
                {"clusterName": "c3", "selected": True, "reason": "fixed"},
            ],
        },
    }
    assert desk.told == ["written"]


@virtual
async def test_a_status_of_a_namespaced_snapshot_goes_into_its_namespace() -> None:
    async with a_site(FakeHub(), namespaced=True) as site:
        path = f"{GROUP}/namespaces/shop/schedulingpolicysnapshots/web-1"
        site.server.put(path, {**a_snapshot(), "metadata": {**a_snapshot()["metadata"], "namespace": "shop"}})
        snapshot = await site.kinds.policy_snapshots.objects.get("shop/web-1")
        writes = StatusWriter(dispatcher=site.dispatcher, retry_policy=PATIENCE, clock=VirtualClock())
        await writes.write_status(site.kinds, snapshot, published(C1))
        assert site.server.writes() == ["PUT namespaces/shop/schedulingpolicysnapshots/web-1/status"]
        assert site.server.bodies()[0]["metadata"]["namespace"] == "shop"


def stored(status: str = "True") -> Json:
    return {
        "observedCRPGeneration": 6,
        "conditions": [{**THEIRS, "type": "Scheduled", "status": status}, THEIRS],
        "targetClusters": [{"clusterName": "c9", "selected": True, "reason": ""}],
        "unknown": {"kept": 1},
    }


@within(a_desk)
async def test_what_we_do_not_know_in_a_status_survives(desk: Desk) -> None:
    await desk.write(await desk.holds(a_snapshot(stored())), published(C1))
    assert desk.status["unknown"] == {"kept": 1}
    assert desk.status["conditions"][1] == THEIRS
    assert [one["type"] for one in desk.status["conditions"]] == ["Scheduled", "Theirs"]


@within(a_desk)
@pytest.mark.parametrize("before, want", [("True", EARLIER), ("False", "2026-01-01T00:00:00Z")])
async def test_the_transition_time_moves_only_when_the_status_changes(desk: Desk, before: str, want: str) -> None:
    await desk.write(await desk.holds(a_snapshot(stored(before))), published(C1))
    assert desk.condition["lastTransitionTime"] == want
    assert desk.condition["message"] == "found"


@within(a_desk)
async def test_published_clusters_are_replaced_as_a_whole(desk: Desk) -> None:
    await desk.write(await desk.holds(a_snapshot(stored())), published(C2))
    assert [one["clusterName"] for one in desk.status["targetClusters"]] == ["c2"]


@within(a_desk)
async def test_D14_without_decisions_no_clusters_are_published(desk: Desk) -> None:
    await desk.write(await desk.holds(a_snapshot(stored())), published())
    assert "targetClusters" not in desk.status


# --- nothing to write -------------------------------------------------------------------------------------------------


@within(a_desk)
async def test_what_is_published_already_is_not_written_again(desk: Desk) -> None:
    await desk.write(await desk.holds(a_snapshot()), published(C1, C2))
    current = desk.site.kinds.policy_snapshots.store.get("web-1")
    assert current is not None
    assert not await desk.write(current, published(C2, C1))
    assert len(desk.server.requests) == 1
    assert desk.told == ["written", "skipped"]


@within(a_desk)
async def test_Q_29_a_waiting_status_that_was_published_meanwhile_is_not_sent(desk: Desk) -> None:
    snapshot = await desk.holds(a_snapshot())
    desk.server.fault = lambda _: Slow(1.0)
    change = StatusChange(7, (published().condition,), (C1,))
    first = desk.site.dispatcher.submit(desk.call(snapshot, change))
    second = desk.site.dispatcher.submit(desk.call(snapshot, change))
    assert [(await first).result, (await second).result] == [CallResult.DONE, CallResult.SKIPPED]
    assert len(desk.server.writes()) == 1


@within(a_desk)
async def test_Q_28_two_waiting_statuses_become_one_with_both_conditions(desk: Desk) -> None:
    snapshot = await desk.holds(a_snapshot(stored()))
    desk.server.fault = lambda _: Slow(1.0)
    progress = Condition("Progressing", "True", "Busy", "", None, 3)
    desk.site.dispatcher.submit(desk.call(snapshot, StatusChange(5, (), ())))
    first = desk.site.dispatcher.submit(desk.call(snapshot, StatusChange(6, (progress,), (C1,))))
    second = desk.site.dispatcher.submit(desk.call(snapshot, StatusChange(7, (published().condition,), (C2,))))
    assert await first == await second
    assert [one["type"] for one in desk.status["conditions"]] == ["Scheduled", "Theirs", "Progressing"]
    assert desk.status["observedCRPGeneration"] == 7
    assert [one["clusterName"] for one in desk.status["targetClusters"]] == ["c2"]
    assert len(desk.server.writes()) == 2


def test_Q_28_of_two_conditions_of_one_type_the_new_one_wins() -> None:
    old, new = published(status="False").condition, published(status="True").condition
    merged = StatusChange(7, (new,), ()).merge(StatusChange(6, (old,), ()))
    assert merged.conditions == (new,)


# --- conflicts --------------------------------------------------------------------------------------------------------


@within(a_desk)
async def test_D7_after_a_conflict_the_computed_status_is_published_on_the_fresh_object(desk: Desk) -> None:
    snapshot = await desk.holds(a_snapshot())
    desk.edits({"metadata": {"labels": {"theirs": "1"}}, "status": {"conditions": [THEIRS], "unknown": 1}})
    assert await desk.write(snapshot, published(C1))
    assert [one["clusterName"] for one in desk.status["targetClusters"]] == ["c1"]
    assert desk.status["conditions"][0] == THEIRS
    assert desk.status["unknown"] == 1
    assert desk.told == ["written"]


@within(a_desk)
@pytest.mark.parametrize(
    "edit",
    [
        {"labels": {IS_LATEST_SNAPSHOT: "false"}},
        {"labels": {IS_LATEST_SNAPSHOT: None}},
        {"annotations": {PLACEMENT_GENERATION: "8"}},
        {"annotations": {NUMBER_OF_CLUSTERS: "3"}},
        {"annotations": {NUMBER_OF_CLUSTERS: None}},
    ],
    ids=["no longer latest", "no label", "generation", "count", "no count"],
)
async def test_a_snapshot_that_asks_for_another_decision_gets_one(desk: Desk, edit: Json) -> None:
    snapshot = await desk.holds(a_snapshot())
    desk.edits({"metadata": edit})
    with pytest.raises(StaleInputs, match="web-1 changed after"):
        await desk.write(snapshot, published(C1))
    assert "status" not in desk.server.objects[PATH]
    assert desk.told == ["conflict"]


@within(a_desk)
async def test_a_snapshot_made_again_under_the_same_name_gets_a_decision_of_its_own(desk: Desk) -> None:
    snapshot = await desk.holds(a_snapshot())
    del desk.server.objects[PATH]
    desk.server.put(PATH, a_snapshot())
    with pytest.raises(StaleInputs):
        await desk.write(snapshot, published(C1))


@within(a_desk)
async def test_a_snapshot_that_is_gone_means_stale_inputs(desk: Desk) -> None:
    snapshot = await desk.holds(a_snapshot())
    desk.server.objects.clear()
    with pytest.raises(StaleInputs, match="was deleted"):
        await desk.write(snapshot, published(C1))


@within(a_desk)
async def test_a_waiting_status_is_rebased_on_a_fresh_object_and_conflicts_with_nothing(desk: Desk) -> None:
    snapshot = await desk.holds(a_snapshot())
    desk.server.fault = lambda _: Slow(1.0)
    desk.site.dispatcher.submit(desk.call(snapshot, StatusChange(5, (), ())))
    waiting = desk.site.dispatcher.submit(desk.call(snapshot, StatusChange(7, (published().condition,), (C1,))))
    assert (await waiting).error is None
    assert [write.split()[0] for write in desk.server.writes()] == ["PUT", "PUT"]
    assert len(desk.server.requests) == 2


@within(a_desk)
async def test_endless_conflicts_end_after_four_attempts(desk: Desk) -> None:
    snapshot = await desk.holds(a_snapshot())
    for number in range(9):
        desk.edits({"metadata": {"labels": {"theirs": str(number)}}})
    with pytest.raises(Conflict):
        await desk.write(snapshot, published(C1))
    assert len(desk.server.writes()) == 4
    assert desk.told == ["conflict"]


# --- failures ---------------------------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize("error", [UNAVAILABLE, LOST])
async def test_a_status_whose_answer_was_lost_is_not_written_twice(error: Exception) -> None:
    async with a_desk(failing(Lost(error))) as desk:
        snapshot = await desk.holds(a_snapshot())
        await desk.write(snapshot, published(C1))
        assert [write.split()[0] for write in desk.server.writes()] == ["PUT", "PUT"]
        assert desk.server.objects[PATH]["metadata"]["resourceVersion"] == "102"
        current = desk.site.kinds.policy_snapshots.store.get("web-1")
        assert current is not None
        assert current.document() == desk.server.objects[PATH]


@virtual
async def test_other_failures_are_told() -> None:
    async with a_desk(FakeHub(lambda request: Lost(INTERNAL) if request.is_write else None)) as desk:
        snapshot = await desk.holds(a_snapshot())
        with pytest.raises(InternalError):
            await desk.write(snapshot, published(C1))
        assert desk.told == ["failed"]
