"""The hub as it is now: watched objects, the columns and the framework that decide, and the queue where there is one.

In `fleet up` all of it belongs to the controller. `fleet api` watches for itself, with the same settings, and writes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from prometheus_client import CollectorRegistry

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import InvalidKey
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.request import compile_request
from fleet.framework.runtime.framework import Framework
from fleet.framework.runtime.options import with_snapshot_lister
from fleet.informers.cache import Caches
from fleet.informers.cluster_table import FleetTable
from fleet.kube.api import Api
from fleet.kube.backoff import Jitter
from fleet.kube.informer.informer import InformerConfig, WriteGate
from fleet.kube.resource import key_of
from fleet.model.views import Binding, Observed, Placement, PolicySnapshot
from fleet.scheduler.attempt import RequestCache
from fleet.scheduler.profiles import build_framework
from fleet.scheduler.queue.item import QueueCounts, QueueItem
from fleet.scheduler.telemetry.metrics import new_registry
from fleet.settings import Settings
from fleet.snapshot.frame import Frame


class Queue(Protocol):
    """What is told of the scheduling queue."""

    def peek(self, key: str) -> QueueItem | None: ...

    def count_items(self) -> QueueCounts: ...


@dataclass(frozen=True, slots=True)
class Subject:
    """What is known of one placement now. Without a latest snapshot there is nothing to decide on yet."""

    key: str
    placement: Observed[Placement]
    snapshot: Observed[PolicySnapshot] | None
    bindings: tuple[Binding, ...]


class Live:
    def __init__(
        self,
        caches: Caches,
        framework: Framework,
        frame: Callable[[], Frame],
        *,
        clock: Clock,
        registry: CollectorRegistry,
        queue: Queue | None = None,
    ) -> None:
        self.caches = caches
        self.framework = framework
        self._frame = frame
        self.clock = clock
        self.registry = registry
        self.queue = queue
        self._requests = RequestCache()
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(self._forget)

    @classmethod
    def alone(cls, api: Api, settings: Settings, *, clock: Clock, jitter: Jitter) -> Self:
        """With watches of its own: run `caches`. The gate stays closed, so nothing can be written by mistake."""
        access = InformerConfig(reads=api, writes=WriteGate(api, clock=clock), clock=clock, jitter=jitter)
        caches = Caches(access, namespaced_placements=settings.resource_placements.enabled)
        table = FleetTable(caches.clusters)
        framework = build_framework(settings, with_snapshot_lister(table.frame))
        return cls(caches, framework, table.frame, clock=clock, registry=new_registry())

    def frame(self) -> Frame:
        """Of the fleet as it is. What somebody asks leaves nothing in the scheduler's table."""
        return self._frame().apart()

    def now(self) -> int:
        return epoch_nanoseconds(self.clock)

    def is_scheduling(self) -> bool:
        """Whether the scheduler of this process, if there is one, has something to do."""
        counts = None if self.queue is None else self.queue.count_items()
        return counts is not None and counts.active + counts.in_flight > 0

    def unsynced(self) -> list[str]:
        return self.caches.list_unsynced()

    # --- placements ---------------------------------------------------------------------------------------------------

    def placement_keys(self) -> list[str]:
        """Of all placements, sorted."""
        return sorted(key for kinds in self.caches.kinds for key in kinds.placements.store)

    def subject(self, key: str) -> Subject | None:
        placement = self._placement(key)
        if placement is None:
            return None
        latest = self.caches.latest_snapshots(key)
        bindings = tuple(one.view for one in self.caches.bindings(key))
        return Subject(key, placement, latest[0] if len(latest) == 1 else None, bindings)

    def world(self, subject: Subject) -> Scenario | None:
        """The question the scheduler would ask now; None while there is no policy snapshot."""
        return None if subject.snapshot is None else self.world_of(subject, subject.snapshot.view)

    def world_of(self, subject: Subject, snapshot: PolicySnapshot) -> Scenario:
        uid = subject.placement.view.metadata.uid
        is_own = subject.snapshot is not None and subject.snapshot.view is snapshot
        request = (
            self._requests.get(subject.snapshot, placement_uid=uid)
            if subject.snapshot is not None and is_own
            else compile_request(snapshot, placement_uid=uid)
        )
        question = DecisionInput(
            frame=self.frame(),
            request=request,
            bindings=subject.bindings,
            profile=self.framework.profile,
            now=self.now(),
            previous=snapshot.status,
        )
        return Scenario(question, snapshot)

    def worlds(self, keys: Iterable[str]) -> list[Scenario]:
        subjects = (self.subject(key) for key in keys)
        worlds = (self.world(one) for one in subjects if one is not None)
        return [one for one in worlds if one is not None]

    def cluster_names(self) -> list[str]:
        """Sorted."""
        return sorted(self.caches.clusters)

    def _placement(self, key: str) -> Observed[Placement] | None:
        try:
            return self.caches.placement(key)
        except (KeyError, InvalidKey):
            return None  # a flavour that is switched off

    def _forget(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        if old is not None and new is None:
            self._requests.forget(key_of(old.view.metadata))
