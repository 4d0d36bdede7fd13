"""A cluster joins while thousands of placements wait for one: in this process, on a hub that only remembers.

All of them want a label that no cluster has, the new one included: each is decided anew, and nothing changes.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import uvloop

from fleet.clock import SystemClock
from fleet.informers.cache import Caches
from fleet.kube.api import Request
from fleet.kube.cache.store import Store
from fleet.kube.events import EventRecorder
from fleet.kube.informer import InformerConfig
from fleet.manager.logs import configure
from fleet.model.keys import SCHEDULER_CLEANUP
from fleet.scheduler.attempt_record import NoRecorder
from fleet.scheduler.scheduler import Scheduler
from fleet.scheduler.telemetry.metrics import SchedulerMetrics, new_registry
from fleet.settings.loading import load_settings
from tests.bench.controller.documents import PLAIN, member_cluster, names, placement, snapshot
from tests.bench.controller.workers import SETTINGS

CLUSTERS: Final = 1_000
_LOOK_EVERY: Final = 0.01


@dataclass(frozen=True, slots=True)
class Joined:
    """In seconds of this process's CPU."""

    placements: int
    waking: float
    """From the event until everybody is in the queue."""
    deciding: float
    """From then until everybody has been decided about."""


def join_one(placements: int) -> Joined:
    configure("warning", "json")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_join_one(placements))


async def _join_one(placements: int) -> Joined:
    clock, hub = SystemClock(), _RememberingHub()
    access = InformerConfig(reads=hub, writes=hub, clock=clock, jitter=lambda: 0.0)
    caches, metrics = Caches(access, namespaced_placements=False), SchedulerMetrics(new_registry(), clock=clock)
    settings = load_settings(None, {}, list(SETTINGS)).settings
    scheduler = Scheduler(
        caches,
        settings,
        events=EventRecorder(hub, clock=clock),
        metrics=metrics,
        recorder=NoRecorder(),
        clock=clock,
        jitter=lambda: 0.0,
    )
    _furnish(caches, hub, placements)
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(scheduler.run(stopping))
        await _until(lambda: scheduler.queue.count_items().unschedulable == placements)
        gc.collect()
        gc.freeze()
        begun = time.process_time()
        _saw(caches.clusters, _cluster(CLUSTERS, version=hub.next_version()))
        woken = time.process_time()
        assert len(scheduler.queue) == placements, "somebody was not woken"
        await _until(lambda: scheduler.queue.count_items().unschedulable == placements)
        decided = time.process_time()
        gc.unfreeze()
        stopping.set()
    return Joined(placements, woken - begun, decided - woken)


def _furnish(caches: Caches, hub: _RememberingHub, placements: int) -> None:
    kinds = caches.kinds[0]
    for number in range(CLUSTERS):
        _saw(caches.clusters, _cluster(number, version=hub.next_version()))
    for name in names("waiting", placements):
        held = placement(name, run="waiting", form=PLAIN)
        held["metadata"]["finalizers"] = [SCHEDULER_CLEANUP]
        _saw(kinds.placements.store, hub.remember(kinds.placements.resource.item(name), held))
        wanted = snapshot(name, run="waiting", form=PLAIN)
        path = kinds.policy_snapshots.resource.item(wanted["metadata"]["name"])
        _saw(kinds.policy_snapshots.store, hub.remember(path, wanted))


def _cluster(number: int, *, version: str) -> bytes:
    document = member_cluster(number)
    document["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": version}
    document["metadata"]["labels"]["env"] = "canary"
    return msgspec.json.encode(document)


def _saw(store: Store[Any], document: bytes) -> None:
    store.apply_event(store.codec.read(document))


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(_LOOK_EVERY)


class _RememberingHub:
    """Objects by path; all it can do is to replace a status."""

    def __init__(self) -> None:
        self._documents: dict[str, dict[str, Any]] = {}
        self._version = 0

    def next_version(self) -> str:
        self._version += 1
        return str(self._version)

    def remember(self, path: str, document: dict[str, Any]) -> bytes:
        metadata = {"uid": f"uid-of-{path}", **document["metadata"], "resourceVersion": self.next_version()}
        self._documents[path] = {**document, "metadata": metadata}
        return msgspec.json.encode(self._documents[path])

    async def call(self, request: Request) -> bytes:
        path = request.path.removesuffix("/status")
        status = msgspec.json.decode(request.body or b"{}")["status"]
        return self.remember(path, {**self._documents[path], "status": status})

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(request.path)
