"""The placement controller: a work queue of placement keys, the event handlers that fill it, and its workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

import structlog

from fleet.clock import Clock
from fleet.errors import ApiError, LeadershipLost, NotLeading, StaleInputs
from fleet.informers.cache import Caches
from fleet.kube.scopes import find_scope
from fleet.kube.workqueue import WorkQueue
from fleet.model.placement_key import PlacementKey
from fleet.placement.event_handlers import PlacementEventHandlers
from fleet.placement.reconciler import PlacementReconciler
from fleet.placement.status.namespaced_status import NamespacedStatuses

RECHECK: Final = 1800.0
"""Resync period in seconds: every placement is reconciled at least this often."""
WORKERS: Final = 16

SUCCESS: Final = "success"
REQUEUE_AFTER: Final = "requeue_after"
"""Success, with a request to requeue the placement after a certain time."""
ERROR: Final = "error"

_STOPPING: Final = (NotLeading, LeadershipLost)

log = structlog.get_logger(__name__)


class KeySource(Protocol):
    """Informers for selected objects or resource snapshots; they run as long as the controller."""

    def subscribe(self, enqueue: Callable[[str], None]) -> None: ...

    async def run(self) -> Any: ...


class ReconcileMetrics(Protocol):
    def observe_reconcile(self, *, controller: str, result: str, seconds: float) -> None: ...

    def track_worker(self, controller: str) -> AbstractContextManager[None]: ...

    def set_workers(self, controller: str, count: int) -> None: ...


class PlacementController:
    def __init__(
        self,
        caches: Caches,
        reconciler: PlacementReconciler,
        namespaced: NamespacedStatuses,
        *sources: KeySource,
        metrics: ReconcileMetrics,
        clock: Clock,
        workers: int = WORKERS,
    ) -> None:
        self._caches = caches
        self._reconciler = reconciler
        self._copies = namespaced.copies
        self._sources = sources
        self._metrics = metrics
        self._clock = clock
        self._workers = workers
        self._begun_keys: set[str] = set()
        """Reconciled before: what was begun is finished before more is begun."""
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, is_preferred=self._begun_keys.__contains__)
        self._live_keys: set[str] = set()
        """To be read live next time: the caches may lack some of our own writes."""
        self._handlers = PlacementEventHandlers(
            self._queue, on_gone=reconciler.forget, on_vanished=self._enqueue_vanished
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Runs until `stopping` is set and the keys in flight are finished; cancellation cuts them off. Requires synced
        caches."""
        for source in self._sources:
            source.subscribe(self._handlers.enqueue_soon)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._copies.reflector.run(), name="watching status copies")]
            tasks += [group.create_task(source.run(), name="watching selected objects") for source in self._sources]
            self._handlers.subscribe(self._caches, self._copies.store)
            try:
                await self._run_workers(stopping)
            finally:
                self._queue.close()
                for task in tasks:
                    task.cancel()

    def enqueue(self, key: str) -> None:
        """Enqueues a placement without delay."""
        self._queue.add(key)

    def in_flight(self) -> Set[str]:
        return self._queue.in_flight

    async def _run_workers(self, stopping: asyncio.Event) -> None:
        for kinds in self._caches.kinds:
            self._metrics.set_workers(kinds.scope.placement.plural, self._workers)
        async with asyncio.TaskGroup() as group:
            for position in range(self._workers):
                group.create_task(self._queue.work(self._reconcile), name=f"placement worker {position}")
            await stopping.wait()
            self._queue.close()

    def _enqueue_vanished(self, key: str) -> None:
        self._live_keys.add(key)
        self._queue.add(key)

    async def _reconcile(self, key: str) -> None:
        started, controller = self._clock.monotonic(), find_scope(key).placement.plural
        with self._metrics.track_worker(controller):
            result = await self._reconcile_once(key)
        self._metrics.observe_reconcile(controller=controller, result=result, seconds=self._clock.monotonic() - started)

    async def _reconcile_once(self, key: str) -> str:
        reads_live = key in self._live_keys
        self._live_keys.discard(key)
        try:
            wait = await self._reconciler.reconcile(key, reads_live=reads_live)
        except _STOPPING:
            raise
        except Exception as error:
            self._handle_error(key, error)
            return ERROR
        self._handle_success(key, wait)
        return SUCCESS if wait is None else REQUEUE_AFTER

    def _handle_success(self, key: str, wait: float | None) -> None:
        self._queue.forget(key)
        if self._caches.placement(PlacementKey.parse(key)) is None:
            self._begun_keys.discard(key)
        else:
            self._begun_keys.add(key)
            self._queue.add_after(key, RECHECK if wait is None else min(wait, RECHECK))

    def _handle_error(self, key: str, error: Exception) -> None:
        self._live_keys.add(key)
        wait = self._queue.retry(key)
        if isinstance(error, ApiError | StaleInputs):
            log.warning("reconcile failed", placement=key, error=str(error), retry_in=wait)
        else:
            log.error("reconcile failed", placement=key, exc_info=error, retry_in=wait)
