"""Events are kept for an hour after their last write."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleet.hub.hub import Hub
from fleet.hub.storage.store import HubStore, StoreChange, durability_error
from tests.unit.hub.asking import CONFIG_MAPS, NOON, TOKENS, Asker, a_config_map

EVENTS = "/api/v1/namespaces/default/events"
HOUR = 3600.0


def an_event(name: str, **changes: Any) -> dict[str, Any]:
    about = {"kind": "ConfigMap", "namespace": "default", "name": "a"}
    return {"metadata": {"name": name, **changes}, "involvedObject": about, "reason": "Tested", "message": "m"}


@pytest.fixture
def clocked(runner: asyncio.Runner) -> tuple[Asker, list[float]]:
    """A hub and the seconds that have passed on its clock since noon."""
    passed = [0.0]
    hub = Hub(TOKENS, clock=lambda: NOON + passed[0])
    hub.bootstrap()
    return Asker(hub, runner), passed


def wait(ask: Asker, runner: asyncio.Runner, *, minutes: float) -> None:
    """Lets the expiry run in virtual time."""

    async def run() -> None:
        task = asyncio.create_task(ask.hub.event_expiry.run(), name="expiry")
        await asyncio.sleep(minutes * 60)
        task.cancel()

    runner.run(run())


def test_events_expire_an_hour_after_their_last_write(
    clocked: tuple[Asker, list[float]], runner: asyncio.Runner
) -> None:
    ask, passed = clocked
    ask("POST", CONFIG_MAPS, a_config_map("a"))
    for name in ("old", "repeated"):
        assert ask("POST", EVENTS, an_event(name, finalizers=["example.com/wait"])).code == 201
    passed[0] = HOUR / 2
    ask("PATCH", f"{EVENTS}/repeated", {"count": 2}, media_type="application/merge-patch+json")
    ask("POST", "/apis/events.k8s.io/v1/namespaces/default/events", _newer_event("newer"))
    passed[0] = HOUR - 1
    wait(ask, runner, minutes=2)
    assert ask.names(EVENTS) == ["newer", "old", "repeated"]
    passed[0] = HOUR + 1
    revision = ask.hub.store.revision
    wait(ask, runner, minutes=2)
    assert ask.names(EVENTS) == ["newer", "repeated"]
    (event,) = ask("GET", f"{EVENTS}?watch=1&timeoutSeconds=1&resourceVersion={revision}").events
    assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "old")
    passed[0] = 2 * HOUR
    wait(ask, runner, minutes=2)
    assert (ask.names(EVENTS), ask.names(CONFIG_MAPS)) == ([], ["a"])


def _newer_event(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "regarding": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
        "reason": "Tested",
        "action": "Testing",
        "type": "Normal",
        "eventTime": "2023-11-14T22:13:20.000000Z",
        "reportingController": "tests",
        "reportingInstance": "tests-1",
    }


def test_many_events_expire_in_batches(clocked: tuple[Asker, list[float]], runner: asyncio.Runner) -> None:
    ask, passed = clocked
    for number in range(250):
        ask("POST", EVENTS, an_event(f"e{number}"))
    passed[0] = HOUR + 1
    assert ask.hub.event_expiry.remove_batch() == 100
    wait(ask, runner, minutes=2)
    assert ask.names(EVENTS) == []


def test_after_a_restart_events_expire_by_their_metadata(
    clocked: tuple[Asker, list[float]], runner: asyncio.Runner
) -> None:
    ask, passed = clocked
    ask("POST", EVENTS, an_event("old"))
    ask("POST", EVENTS, an_event("repeated"))
    passed[0] = HOUR / 2
    ask("PATCH", f"{EVENTS}/repeated", {"count": 2}, media_type="application/merge-patch+json")
    stored = [("events", entry) for entry in ask.hub.store.collection("events").scan()]
    restarted = Hub(TOKENS, revision=ask.hub.store.revision, entries=stored, clock=lambda: NOON + HOUR + 1)
    assert restarted.event_expiry.remove_batch() == 1
    assert [entry.name for entry in restarted.store.collection("events").scan()] == ["repeated"]


def test_a_removal_that_fails_is_repeated(clocked: tuple[Asker, list[float]], runner: asyncio.Runner) -> None:
    ask, passed = clocked
    ask("POST", EVENTS, an_event("old"))
    passed[0] = HOUR + 1
    ask.hub.store.journal = _FullDisk(ask.hub.store)
    wait(ask, runner, minutes=2)
    assert ask.names(EVENTS) == ["old"]
    ask.hub.store.journal = None
    wait(ask, runner, minutes=2)
    assert ask.names(EVENTS) == []


class _FullDisk:
    def __init__(self, store: HubStore) -> None:
        self._store = store

    def append(self, change: StoreChange, on_durable: asyncio.Future[None]) -> None:
        self._store.discard_in_flight()
        on_durable.set_exception(durability_error(OSError("disk is full")))
