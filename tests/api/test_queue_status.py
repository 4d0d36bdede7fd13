"""W-04: the state of a placement in the scheduling queue, one test per state."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from structlog.testing import capture_logs

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.live.live import LiveState
from api.live.queue_status import compute_present_state
from api.text.why import render_next_step
from api.why_models import QueueModel
from fleet.clock import SystemClock, to_nanoseconds
from fleet.history import History, HistoryAttempt
from fleet.history.entries import RecordedWrite
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import HOUR
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.hints import EVERYTHING, EventKind, EventRegistration, QueueEvent, QueueingHints
from fleet.scheduler.queue.item import PlacementTraits, PreEnqueueGate, QueuePolicy
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.scheduler.queue.settings import QueueSettings
from fleet.scheduler.telemetry.metrics import new_registry
from fleet.settings import load_settings
from plugins.taint_toleration import TaintToleration
from tests.api.stage import ADMIN, AUTHOR, READER, Json, Stage, a_stage, alone, staged
from tests.e2e.hub import soon

STARTED: Final = 600.0
"""On the clock of the queue; by day it is 09:10:00 then."""
PATIENT: Final = QueuePolicy(immediate=False, timed_retry=True)
SETTINGS: Final = ["queue.baseDelay=20s", "queue.maxDelay=60s"]
TIMES: Final = QueueSettings(base_delay=20.0, max_delay=60.0)


class StoppedClock(SystemClock):
    """Three seconds after the last thing happened in the queue."""

    def now(self) -> datetime:
        return datetime(2026, 3, 2, 9, 10, 3, tzinfo=UTC)

    def monotonic(self) -> float:
        return STARTED + 3.0


@dataclass
class Turned:
    """A queue that is turned by hand, at one moment."""

    hold: PreEnqueueGate | None = None
    policy: QueuePolicy = PATIENT
    priorities: dict[str, int] = field(default_factory=dict)
    hints: QueueingHints | None = None

    def __post_init__(self) -> None:
        self.now = to_nanoseconds(STARTED)
        self.queue = SchedulingQueue(
            settings=TIMES, hints=self.hints, describe=self._traits, pre_enqueue=lambda *_: self.hold
        )

    def _traits(self, key: PlacementKey) -> PlacementTraits:
        return PlacementTraits(uid=str(key), priority=self.priorities.get(str(key), 0), policy=self.policy)

    def added(self, *keys: str) -> Turned:
        for key in keys:
            self.queue.add(PlacementKey.parse(key), self.now, trigger="created")
        return self

    def taken(self) -> Turned:
        self.queue.pop(self.now)
        return self

    def rejected(self) -> Turned:
        self.queue.mark_unschedulable(PlacementKey.parse("big"), self.now, rejectors=["TaintToleration"])
        return self


async def asked_of(stage: Stage, turned: Turned | None, *, key: str = "big", token: str = ADMIN) -> Json:
    """What the API says of a placement that stands so in the queue, or has none."""
    scheduler = stage.controller.scheduler
    assert scheduler is not None
    clock = StoppedClock()
    live = LiveState(
        stage.controller.caches,
        scheduler.frameworks,
        scheduler.table.frame,
        clock=clock,
        registry=new_registry(),
        queue=None if turned is None else AsyncQueue(turned.queue, clock=clock),
    )
    access = HubAuthorizer(stage.hub, clock=SystemClock())
    app = create_app(live, None, access, load_settings(None, {}, SETTINGS))
    return await Stage(stage.hub, stage.world, app, None, stage.controller).json(f"/v1/placements/-/{key}/why", token)


# --- in the queue -----------------------------------------------------------------------------------------------------


@staged
async def test_W_04_a_queued_placement_is_told_its_place_in_line(stage: Stage) -> None:
    found = await asked_of(stage, Turned(priorities={"web": 5}).added("big", "web", "shop/cache"))

    queue = found["queue"]
    assert queue["space"] == "active"
    assert (queue["ready"], queue["ahead"], queue["aheadOfHigherPriority"], queue["priority"]) == (3, 1, 1, 0)


@staged
async def test_W_04_a_placement_being_decided_is_told_its_attempt_and_since_when(stage: Stage) -> None:
    found = await asked_of(stage, Turned().added("big").taken())

    assert found["verdict"]["state"] == "InFlight"
    assert (found["queue"]["attempts"], found["queue"]["since"]) == (1, "2026-03-02T09:10:00Z")


@staged
async def test_W_04_a_gated_placement_is_told_who_holds_it_why_and_since_when(stage: Stage) -> None:
    found = await asked_of(stage, Turned(PreEnqueueGate("PlacementGates", "gate review is closed")).added("big"))

    queue = found["queue"]
    assert found["verdict"]["state"] == "Gated"
    assert (queue["gatedBy"], queue["gateMessage"]) == ("PlacementGates", "gate review is closed")
    assert queue["since"] == "2026-03-02T09:10:00Z"


@staged
async def test_W_10_a_plugin_that_gates_names_no_cluster_that_the_caller_may_not_read(stage: Stage) -> None:
    said = "ams-1 and dub-1 are upgraded, not osl-9"
    held = Turned(PreEnqueueGate("MaintenanceWindow", said)).added("web")

    redacted, whole = [await asked_of(stage, held, key="web", token=token) for token in (READER, ADMIN)]

    message = "ams-1 and (hidden) are upgraded, not osl-9"
    assert (redacted["queue"]["gateMessage"], redacted["gate"]["message"]) == (message, message)
    assert "dub-1" not in json.dumps(redacted)
    assert (whole["queue"]["gateMessage"], whole["gate"]["message"]) == (said, said)


@alone
async def test_W_10_nor_does_a_gate_that_another_process_has_written_into_the_status(stage: Stage) -> None:
    """The gate itself is part of the placement's own options, which the caller may read."""
    gates = {"metadata": {"name": "held"}, "spec": {"gates": [{"name": "dub-1"}]}}
    await stage.world.create(CLUSTER_SCOPED.options, gates)
    await stage.world.place("held", {"placementType": "PickAll"})

    async def is_written() -> bool:
        return bool((await asked_of(stage, None, key="held"))["gate"]["since"])

    await soon(is_written)
    redacted, whole = [await asked_of(stage, None, key="held", token=token) for token in (AUTHOR, ADMIN)]

    assert redacted["gate"] == {**whole["gate"], "message": "(hidden)", "clearable": []}
    assert whole["gate"]["message"] == "dub-1"


@staged
async def test_W_04_a_rejected_placement_that_backs_off_is_told_until_when(stage: Stage) -> None:
    turned = Turned().added("big").taken().rejected()
    turned.queue.requeue([PlacementKey.parse("big")], turned.now, trigger="MemberCluster/Add")
    found = await asked_of(stage, turned)

    queue = found["queue"]
    assert (found["verdict"]["state"], queue["space"]) == ("BackingOff", "backoff")
    assert (queue["backoffUntil"], queue["earlyPop"]) == ("2026-03-02T09:10:02Z", True)


@staged
async def test_W_04_a_placement_that_waits_for_what_others_give_back_is_not_taken_early(stage: Stage) -> None:
    hints = QueueingHints({"TaintToleration": [EventRegistration(EVERYTHING)]})
    turned = Turned(hints=hints).added("big").taken().rejected()
    turned.queue.handle_event(QueueEvent(EventKind("Binding", "Delete"), backs_off=True), turned.now)
    queue = (await asked_of(stage, turned))["queue"]

    assert (queue["space"], queue["consecutiveErrors"]) == ("backoff", 0)
    assert (queue["backoffUntil"], queue["earlyPop"]) == ("2026-03-02T09:10:01Z", False)


@staged
async def test_W_04_a_failed_attempt_backs_off_and_is_not_taken_early(stage: Stage) -> None:
    turned = Turned().added("big").taken()
    turned.queue.mark_failed(PlacementKey.parse("big"), turned.now)
    found = await asked_of(stage, turned)

    queue = found["queue"]
    assert (found["verdict"]["state"], queue["space"], queue["consecutiveErrors"]) == ("BackingOff", "error", 1)
    assert (queue["backoffUntil"], queue["earlyPop"]) == ("2026-03-02T09:10:20Z", False)


@staged
async def test_W_04_an_unschedulable_placement_is_told_who_rejected_it_and_what_wakes_it(stage: Stage) -> None:
    found = await asked_of(stage, Turned().added("big").taken().rejected())

    queue = found["queue"]
    assert (queue["space"], queue["rejectors"]) == ("unschedulable", ["TaintToleration"])
    assert queue["flushBy"] == "2026-03-02T09:15:30Z"
    assert {"MemberCluster/Add", "MemberCluster/UpdateTaints"} <= {one["event"] for one in queue["wakesOn"]}
    assert found["fixes"]


@staged
async def test_W_12_without_a_timed_retry_only_events_wake_it(stage: Stage) -> None:
    found = await asked_of(stage, Turned(policy=QueuePolicy()).added("big").taken().rejected())

    assert (found["queue"]["space"], found["queue"]["flushBy"]) == ("unschedulable", None)


@pytest.mark.parametrize("space", ["in_flight", "gated", "active", "none", "unschedulable", "unknown"])
def test_W_04_a_state_of_the_queue_that_nothing_was_decided_in_is_queued_or_more(space: str) -> None:
    want = {"in_flight": "InFlight", "gated": "Gated"}.get(space, "Queued")
    assert compute_present_state(QueueModel(space=space), None, was_decided=False) == want


# --- failed attempts --------------------------------------------------------------------------------------------------

BOUND: Final = RecordedWrite(
    action="create", cluster="ams-1", binding="big-ams-1", result="failed", error="the hub is full"
)


@pytest.mark.parametrize(
    "ending, writes, want",
    [
        ("Transient", (BOUND,), "BindFailed"),
        ("Transient", (), "SchedulerError"),
        ("Internal", (), "SchedulerError"),
        ("BadInput", (), None),
        ("Short", (), "BackingOff"),
    ],
)
def test_W_04_what_failed_is_more_telling_than_that_it_waits(
    ending: str, writes: tuple[RecordedWrite, ...], want: str | None
) -> None:
    """A policy that cannot be evaluated is an InputError by its decision."""
    attempt = HistoryAttempt(id="a-1", key="big", started=0, ending=ending, writes=writes)

    assert compute_present_state(QueueModel(space="error"), attempt, was_decided=True) == want


class Failing(History):
    """Its newest attempt could not write a binding."""

    def attempts(self, *args: Any, **more: Any) -> list[HistoryAttempt]:
        found = super().attempts(*args, **more)
        failed = {"ending": "Transient", "error": "ams-1: the hub is full", "writes": (BOUND,)}
        return [msgspec.structs.replace(one, **failed) for one in found]


@alone
async def test_W_04_a_failed_binding_is_told_with_its_target_and_what_was_in_the_way(stage: Stage) -> None:
    assert stage.history is not None
    stage.history.__class__ = Failing
    found = await stage.json("/v1/placements/-/big/why?fixes=none")
    limited = await stage.json("/v1/placements/-/big/why?fixes=none", AUTHOR)
    stage.history.__class__ = History

    failed = {"cluster": "ams-1", "action": "create", "result": "failed", "error": "the hub is full"}
    assert found["verdict"]["state"] == "BindFailed"
    assert found["attempt"]["writes"] == [failed]
    assert found["recorded"]["error"] == "ams-1: the hub is full"
    assert limited["attempt"]["writes"] == [failed | {"error": ""}]


def test_F3_007_W_04_a_plugin_that_breaks_is_an_error_of_the_scheduler_and_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = TaintToleration.filter

    def broken(plugin: TaintToleration, ctx: Any, state: Any, req: Any, *args: Any) -> Any:
        if req.placement == "broken":
            raise ZeroDivisionError("division by zero")
        return judged(plugin, ctx, state, req, *args)

    async def main() -> Json:
        async with a_stage(tmp_path) as stage:
            await stage.world.place("broken", {"placementType": "PickN", "numberOfClusters": 2})

            async def is_told() -> Json | None:
                await stage.wait_until_recorded()
                answer = await stage.get("/v1/placements/-/broken/why")
                if answer.status_code == 404:  # the watch has not brought it yet
                    return None
                found: Json = answer.json()
                return found if (found["queue"] or {}).get("space") == "error" and found["recorded"] else None

            told: Json = await soon(is_told)
            return told

    monkeypatch.setattr(TaintToleration, "filter", broken)
    with capture_logs():
        found = asyncio.run(main())

    assert found["verdict"]["state"] == "SchedulerError"
    assert found["recorded"]["error"] == "PluginError: TaintToleration at filter: ZeroDivisionError: division by zero"
    assert (found["queue"]["space"], found["queue"]["earlyPop"]) == ("error", False)
    assert found["queue"]["backoffUntil"]
    assert (found["queue"]["rejectors"], found["attempt"]["groups"]) == ([], [])


class Afterwards(History):
    """The end of a placement came an hour after its other attempts."""

    def attempts(self, *args: Any, **more: Any) -> list[HistoryAttempt]:
        found = super().attempts(*args, **more)
        return [
            msgspec.structs.replace(one, started=one.started + HOUR) if one.ending in ("CleanedUp", "Gone") else one
            for one in found
        ]


@alone
async def test_W_04_a_deleted_placement_is_told_from_its_record_with_the_moment_of_its_end(stage: Stage) -> None:
    assert stage.history is not None
    before = await stage.json("/v1/placements/-/web/why")
    stage.history.__class__ = Afterwards

    async def is_told() -> Json | None:
        await stage.wait_until_recorded()
        found = await stage.json("/v1/placements/-/web/why")
        has_ended = found["history"][0]["outcome"] in ("CleanedUp", "Gone")
        return found if found["verdict"]["state"] == "Deleted" and has_ended else None

    await stage.world.delete(CLUSTER_SCOPED.placement, "web")
    found = await soon(is_told)
    stage.history.__class__ = History

    assert found["verdict"]["outcome"] == before["verdict"]["outcome"] == "SELECTED"
    assert found["verdict"]["since"] == found["history"][0]["at"]
    assert found["recorded"] == before["recorded"]
    assert found["queue"] is None


# --- events -----------------------------------------------------------------------------------------------------------


@alone
async def test_W_12_a_listed_event_requeues_the_placement_and_an_unlisted_one_does_not(stage: Stage) -> None:
    """`big` lacks a cluster, reads no label and tolerates no taint."""
    world = stage.world
    found = await stage.json("/v1/placements/-/big/why?fixes=none")
    listed = {one["event"] for one in found["queue"]["wakesOn"]}
    assert "MemberCluster/UpdateTaints" in listed
    assert not {"MemberCluster/UpdateLabels", "MemberCluster/UpdateProperties", "MemberCluster/UpdateCapacity"} & listed

    await world.relabel("osl-1", region="arn")
    await world.report("osl-1", properties={"cost": "1"})
    await world.report("osl-1", properties={"cost": "1"}, available={"cpu": "5"})
    await world.taint("osl-1")
    await world.soon_scheduled("big")
    await stage.wait_until_recorded()

    (newest, before, *_) = (await stage.json("/v1/placements/-/big/history"))["items"]
    assert newest["triggers"] == ["MemberCluster/UpdateTaints osl-1"]
    assert (before["id"], before["repeats"]) == (found["recorded"]["id"], found["recorded"]["repeats"])


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "queue, want",
    [
        ({"space": "active"}, "is tried as soon as a worker is free"),
        ({"space": "active", "ahead": 2}, "is tried as soon as a worker is free, after 2 others"),
        ({"space": "in_flight"}, "an attempt is under way"),
        ({"space": "backoff", "backoff_until": "2026-03-02T09:10:02Z"}, "is tried again at 2026-03-02 09:10:02 UTC"),
        (
            {"space": "backoff", "backoff_until": "2026-03-02T09:10:02Z", "early_pop": True},
            "is tried again at 2026-03-02 09:10:02 UTC, or earlier if a worker is idle",
        ),
        ({"space": "gated", "gated_by": "G", "gate_message": "wait"}, "waits until G lets it in: wait"),
        ({"space": "unschedulable"}, "tried again when the placement is edited"),
        ({"space": "unknown", "note": "Ask elsewhere."}, ""),
        ({"space": "none"}, ""),
    ],
)
def test_the_next_step_is_told_in_one_line(queue: dict[str, Any], want: str) -> None:
    assert render_next_step(QueueModel(**queue)) == want
