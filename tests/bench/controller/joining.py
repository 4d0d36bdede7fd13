"""Clusters join while thousands of placements wait: in this process, on a hub that only remembers.

Each placement has a policy of its own, which wants a label that no cluster has. The first cluster that joins has none
of these labels either, the second has one of them.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec
import uvloop

from fleet.clock import SystemClock
from fleet.informers.cache import Caches
from fleet.kube.api import Method, Request
from fleet.kube.cache.store import Store
from fleet.kube.events import EventRecorder
from fleet.kube.informer import InformerConfig
from fleet.manager.logs import configure
from fleet.model.keys import SCHEDULER_CLEANUP
from fleet.scheduler.attempt_record import AttemptRecord
from fleet.scheduler.scheduler import Scheduler
from fleet.scheduler.telemetry.metrics import SchedulerMetrics, new_registry
from fleet.settings.loading import load_settings
from tests.bench.controller.documents import PLAIN, member_cluster, names, placement, snapshot
from tests.bench.controller.workers import SETTINGS

CLUSTERS: Final = 1_000
SLOT: Final = "slot"
_LOOK_EVERY: Final = 0.01


@dataclass(frozen=True, slots=True)
class Joined:
    """What followed from one cluster that joined."""

    waking: float
    """Seconds of this process's CPU until all are in the queue that will be attempted."""
    attempting: float
    """From then until all is quiet."""
    attempts: int


@dataclass(frozen=True, slots=True)
class JoinedTwo:
    placements: int
    useless: Joined
    """The cluster that no placement can use."""
    useful: Joined
    """The one that one placement can use."""


def join_two(placements: int, *, hints: bool = True) -> JoinedTwo:
    configure("warning", "json")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_join_two(placements, hints=hints))


async def _join_two(placements: int, *, hints: bool) -> JoinedTwo:
    clock, hub = SystemClock(), _RememberingHub()
    access = InformerConfig(reads=hub, writes=hub, clock=clock, jitter=lambda: 0.0)
    caches, metrics = Caches(access, namespaced_placements=False), SchedulerMetrics(new_registry(), clock=clock)
    settings = load_settings(None, {}, [*SETTINGS, f"queue.hints={str(hints).lower()}"]).settings
    counting = _Counting()
    scheduler = Scheduler(
        caches,
        settings,
        hub=hub,
        events=EventRecorder(hub, clock=clock),
        metrics=metrics,
        recorder=counting,
        clock=clock,
        jitter=lambda: 0.0,
    )
    _furnish(caches, hub, placements)
    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(scheduler.run(stopping))
        await _until(lambda: scheduler.queue.count_items().unschedulable == placements)
        clusters = [_cluster(CLUSTERS + 1, version=hub.next_version())]
        clusters.append(_cluster(CLUSTERS + 2, version=hub.next_version(), labels={"env": "prod", SLOT: "slot-0"}))
        useless, useful = [await _join(one, caches, scheduler, counting, placements) for one in clusters]
        stopping.set()
    return JoinedTwo(placements, useless, useful)


async def _join(cluster: bytes, caches: Caches, scheduler: Scheduler, counting: _Counting, placements: int) -> Joined:
    gc.collect()
    gc.freeze()
    before, begun = counting.attempts, time.process_time()
    _saw(caches.clusters, cluster)
    woken = time.process_time()
    await _until(lambda: scheduler.queue.count_items().unschedulable == placements)
    quiet = time.process_time()
    gc.unfreeze()
    return Joined(woken - begun, quiet - woken, counting.attempts - before)


class _Counting:
    def __init__(self) -> None:
        self.attempts = 0

    def record(self, attempt: AttemptRecord) -> None:
        self.attempts += 1


def _furnish(caches: Caches, hub: _RememberingHub, placements: int) -> None:
    kinds = caches.kinds[0]
    for number in range(CLUSTERS):
        _saw(caches.clusters, _cluster(number, version=hub.next_version()))
    for name in names("waiting", placements):
        held = placement(name, run="waiting", form=PLAIN)
        held["metadata"]["finalizers"] = [SCHEDULER_CLEANUP]
        _saw(kinds.placements.store, hub.remember(kinds.placements.resource.item(name), held))
        wanted = snapshot(name, run="waiting", form=PLAIN)
        affinity = wanted["spec"]["policy"]["affinity"]["clusterAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["clusterSelectorTerms"]
        term["labelSelector"]["matchLabels"] |= {SLOT: f"slot-{int(name.rpartition('-')[2])}"}
        path = kinds.policy_snapshots.resource.item(wanted["metadata"]["name"])
        _saw(kinds.policy_snapshots.store, hub.remember(path, wanted))


def _cluster(number: int, *, version: str, labels: Mapping[str, str] = MappingProxyType({})) -> bytes:
    document = member_cluster(number)
    document["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": version}
    document["metadata"]["labels"] |= labels
    return msgspec.json.encode(document)


def _saw(store: Store[Any], document: bytes) -> None:
    store.apply_event(store.codec.read(document))


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(_LOOK_EVERY)


class _RememberingHub:
    """Objects by path; all it can do is to create objects and to replace a status."""

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
        path, body = request.path.removesuffix("/status"), msgspec.json.decode(request.body or b"{}")
        if request.method is Method.POST:
            return self.remember(f"{path}/{body['metadata']['name']}", body)
        status = body["status"]
        return self.remember(path, {**self._documents[path], "status": status})

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(request.path)
