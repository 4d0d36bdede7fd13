"""Events: emitting costs nothing and never fails, repeats are counted, floods end, losses are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from fleet.errors import NotLeading
from fleet.kube.api import Method
from fleet.kube.events import CALL_CLASS, NORMAL, WARNING, EventRecorder, ObjectReference
from fleet.kube.resource import Resource
from fleet.model.views import Metadata
from tests.fake_hub import FakeHub, Fault, Lost, Refused, in_turn
from tests.faults.scripted import Down, Refuse
from tests.faults.virtual import VirtualClock, virtual

PLACEMENTS = Resource(
    "placement.kubernetes-fleet.io", "v1beta1", "resourceplacements", "ResourcePlacement", namespaced=True
)
WEB = ObjectReference.of(PLACEMENTS, Metadata(name="web", namespace="shop", uid="u1", resource_version="7"))
CLUSTER_WIDE = ObjectReference("placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacement", "", "web", "u2")


def writes(server: FakeHub) -> list[str]:
    return [request.method.value for request in server.requests]


def stored(server: FakeHub) -> list[dict[str, Any]]:
    return list(server.objects.values())


@asynccontextmanager
async def a_recorder(server: FakeHub) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(server, clock=VirtualClock())
    running = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@virtual
async def test_an_event_says_what_happened_to_what() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        recorder.emit(WEB, NORMAL, "SchedulingChanged", "added c1")
        await recorder.flush()
    ((path, event),) = server.objects.items()
    name = event["metadata"]["name"]
    assert path == f"/api/v1/namespaces/shop/events/{name}"
    assert name.startswith("web.")
    assert {key: event[key] for key in event if key != "metadata"} == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ResourcePlacement",
            "name": "web",
            "namespace": "shop",
            "uid": "u1",
            "resourceVersion": "7",
        },
        "type": "Normal",
        "reason": "SchedulingChanged",
        "message": "added c1",
        "source": {"component": "fleet-scheduler"},
        "reportingComponent": "fleet-scheduler",
        "reportingInstance": "",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }


@virtual
async def test_events_about_cluster_scoped_objects_live_in_default() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        recorder.emit(CLUSTER_WIDE, WARNING, "SchedulingIncomplete", "none fits")
        await recorder.flush()
    (event,) = stored(server)
    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]


@virtual
async def test_events_pay_from_their_own_budget() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        recorder.emit(WEB, NORMAL, "A", "a")
        await recorder.flush()
    assert [request.call_class for request in server.requests] == [CALL_CLASS]


# --- repeats ----------------------------------------------------------------------------------------------------------


@virtual
async def test_a_repeat_within_ten_minutes_raises_the_count() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        for _ in range(2):
            recorder.emit(WEB, WARNING, "SchedulingIncomplete", "none fits")
            await recorder.flush()
            await asyncio.sleep(600)
    (event,) = stored(server)
    assert (event["count"], event["firstTimestamp"][11:19], event["lastTimestamp"][11:19]) == (
        2,
        "00:00:00",
        "00:10:00",
    )
    assert writes(server) == [Method.POST, Method.PATCH]


@virtual
async def test_a_repeat_after_more_than_ten_minutes_is_a_new_event() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        for _ in range(2):
            recorder.emit(WEB, WARNING, "SchedulingIncomplete", "none fits")
            await recorder.flush()
            await asyncio.sleep(601)
    assert [event["count"] for event in stored(server)] == [1, 1]


@virtual
async def test_repeats_that_wait_to_be_sent_cost_one_request() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        for _ in range(5):
            recorder.emit(WEB, NORMAL, "A", "a")
        await recorder.flush()
    assert [event["count"] for event in stored(server)] == [5]
    assert writes(server) == [Method.POST]


@pytest.mark.parametrize(
    "other",
    [
        (CLUSTER_WIDE, NORMAL, "A", "a"),
        (WEB._replace(uid="u9"), NORMAL, "A", "a"),
        (WEB, WARNING, "A", "a"),
        (WEB, NORMAL, "B", "a"),
        (WEB, NORMAL, "A", "b"),
    ],
    ids=["object", "successor", "type", "reason", "message"],
)
def test_what_differs_is_another_event(other: tuple[ObjectReference, str, str, str]) -> None:
    @virtual
    async def test() -> None:
        server = FakeHub()
        async with a_recorder(server) as recorder:
            recorder.emit(WEB, NORMAL, "A", "a")
            recorder.emit(*other)
            await recorder.flush()
        assert [event["count"] for event in stored(server)] == [1, 1]

    test()


@virtual
async def test_a_newer_version_of_the_object_is_the_same_object() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        recorder.emit(WEB, NORMAL, "A", "a")
        recorder.emit(WEB._replace(resource_version="8"), NORMAL, "A", "a")
        await recorder.flush()
    assert [event["count"] for event in stored(server)] == [2]


@virtual
async def test_an_event_that_the_hub_has_forgotten_is_created_again() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        recorder.emit(WEB, NORMAL, "A", "a")
        await recorder.flush()
        server.objects.clear()
        recorder.emit(WEB, NORMAL, "A", "a")
        await recorder.flush()
    assert [event["count"] for event in stored(server)] == [2]
    assert writes(server) == [Method.POST, Method.PATCH, Method.POST]


# --- floods -----------------------------------------------------------------------------------------------------------


@virtual
async def test_an_object_that_causes_too_many_events_falls_silent() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        for number in range(30):
            recorder.emit(WEB, NORMAL, "A", str(number))
        recorder.emit(CLUSTER_WIDE, NORMAL, "A", "another object")
        await recorder.flush()
    assert len(server.objects) == 26
    assert recorder.dropped == 5


@virtual
async def test_it_may_speak_again_once_in_five_minutes() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        for number in range(25):
            recorder.emit(WEB, NORMAL, "A", str(number))
        await asyncio.sleep(299)
        recorder.emit(WEB, NORMAL, "A", "too early")
        await asyncio.sleep(2)
        recorder.emit(WEB, NORMAL, "A", "just right")
        recorder.emit(WEB, NORMAL, "A", "too many")
        await recorder.flush()
    assert [event["message"] for event in stored(server)][25:] == ["just right"]
    assert recorder.dropped == 2


@virtual
async def test_while_nobody_sends_events_wait_in_bounded_memory() -> None:
    recorder = EventRecorder(FakeHub(), clock=VirtualClock())
    for number in range(1001):
        recorder.emit(WEB._replace(name=f"p{number}", uid=f"u{number}"), NORMAL, "A", "a")
    assert recorder.dropped == 1


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weather", [Down(), Refuse(503), Refuse(429, retry_after=1), Lost()], ids=repr)
def test_a_failure_that_may_pass_is_tried_again(weather: Fault) -> None:
    @virtual
    async def test() -> None:
        server = FakeHub(in_turn(*[weather] * 3))
        async with a_recorder(server) as recorder:
            recorder.emit(WEB, NORMAL, "A", "a")
            await recorder.flush()
        assert [event["count"] for event in stored(server)] == [1]
        assert recorder.dropped == 0

    test()


@pytest.mark.parametrize(
    "weather", [Refuse(403, "Forbidden"), Refuse(404, "NotFound"), Refuse(422, "Invalid")], ids=repr
)
def test_what_the_hub_does_not_want_is_dropped_and_the_next_one_sent(weather: Fault) -> None:
    @virtual
    async def test() -> None:
        server = FakeHub(in_turn(weather))
        async with a_recorder(server) as recorder:
            recorder.emit(WEB, NORMAL, "A", "unwanted")
            recorder.emit(WEB, NORMAL, "A", "wanted")
            await recorder.flush()
        assert [event["message"] for event in stored(server)] == ["wanted"]
        assert recorder.dropped == 1

    test()


@virtual
async def test_a_dropped_event_is_created_when_it_happens_again() -> None:
    server = FakeHub(in_turn(Refuse(403, "Forbidden")))
    async with a_recorder(server) as recorder:
        recorder.emit(WEB, NORMAL, "A", "a")
        await recorder.flush()
        recorder.emit(WEB, NORMAL, "A", "a")
        await recorder.flush()
    assert [event["count"] for event in stored(server)] == [1]


@virtual
async def test_who_does_not_lead_tells_nothing() -> None:
    async with a_recorder(FakeHub(lambda _: Refused(NotLeading("scripted")))) as recorder:
        recorder.emit(WEB, NORMAL, "A", "a")
        await recorder.flush()
        assert recorder.dropped == 1


@virtual
async def test_flushing_does_not_wait_for_ever() -> None:
    server = FakeHub(lambda _: Refuse(503, retry_after=3600))
    started = asyncio.get_running_loop().time()
    async with a_recorder(server) as recorder:
        recorder.emit(WEB, NORMAL, "A", "a")
        await recorder.flush()
    assert asyncio.get_running_loop().time() - started == 5


# --- limits of what is stored -----------------------------------------------------------------------------------------


@virtual
async def test_long_messages_are_cut_between_characters() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        recorder.emit(WEB, NORMAL, "A", "ä" * 1000)
        await recorder.flush()
    (event,) = stored(server)
    assert len(event["message"].encode()) <= 1024
    assert event["message"].strip("ä") == "…"


@virtual
async def test_names_stay_within_what_kubernetes_allows() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        recorder.emit(WEB._replace(name="a" * 235 + ".b"), NORMAL, "A", "a")
        await recorder.flush()
    (event,) = stored(server)
    assert len(event["metadata"]["name"]) <= 253
    assert ".." not in event["metadata"]["name"]


@virtual
async def test_a_message_that_is_no_text_harms_nobody() -> None:
    server = FakeHub()
    async with a_recorder(server) as recorder:
        recorder.emit(WEB, NORMAL, "A", "half a character: \ud800")
        await recorder.flush()
    assert [event["message"] for event in stored(server)] == ["half a character: ?"]
