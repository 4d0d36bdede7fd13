"""The placement controller at work: a queue of placements, the changes that fill it, and the workers that empty it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, Protocol

import structlog

from fleet.clock import Clock
from fleet.errors import ApiError, LeadershipLost, NotLeading, QueueClosed, StaleInputs
from fleet.informers.cache import Caches
from fleet.kube.scopes import find_scope
from fleet.kube.workqueue import WorkQueue
from fleet.model.placement_key import PlacementKey
from fleet.placement.event_handlers import PlacementEventHandlers
from fleet.placement.reconciler import PlacementReconciler
from fleet.placement.status.namespaced_status import NamespacedStatuses

RECHECK: Final = 1800.0
"""Seconds after which every placement is looked at, whether anything seems to have changed or not."""
WORKERS: Final = 16

SUCCESS: Final = "success"
REQUEUE_AFTER: Final = "requeue_after"
"""A success after which the pass itself asked for another look at a certain time."""
ERROR: Final = "error"

_STOPPING: Final = (NotLeading, LeadershipLost)

log = structlog.get_logger(__name__)


class Watches(Protocol):
    """Selected objects, or snapshots of them: watched as long as the controller runs."""

    def subscribe(self, wake: Callable[[str], None]) -> None: ...

    async def run(self) -> Any: ...


class Metrics(Protocol):
    def reconciled(self, *, controller: str, result: str, seconds: float) -> None: ...

    def working(self, controller: str) -> AbstractContextManager[None]: ...

    def set_workers(self, controller: str, count: int) -> None: ...


class PlacementController:
    def __init__(
        self,
        caches: Caches,
        passes: PlacementReconciler,
        visible: NamespacedStatuses,
        *watches: Watches,
        metrics: Metrics,
        clock: Clock,
        workers: int = WORKERS,
    ) -> None:
        self._caches = caches
        self._passes = passes
        self._copies = visible.copies
        self._watches = watches
        self._metrics = metrics
        self._clock = clock
        self._workers = workers
        self._queue: WorkQueue[str] = WorkQueue(clock=clock)
        self._doubtful: set[str] = set()
        self._sources = PlacementEventHandlers(self._queue, on_gone=passes.forget)

    async def run(self, stopping: asyncio.Event) -> None:
        """Until `stopping` is set and what was begun is finished; cancel it, and that is cut off. The caches are synced
        when this is called."""
        for watch in self._watches:
            watch.subscribe(self._sources.content)
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(self._copies.reflector.run(), name="watching visible statuses")]
            beside += [group.create_task(watch.run(), name="watching content") for watch in self._watches]
            self._sources.subscribe(self._caches, self._copies.store)
            try:
                await self._work_until(stopping)
            finally:
                self._queue.close()
                for task in beside:
                    task.cancel()

    def wake(self, key: str) -> None:
        """Look at this placement at once."""
        self._queue.add(key)

    def in_flight(self) -> Set[str]:
        return self._queue.in_flight

    async def _work_until(self, stopping: asyncio.Event) -> None:
        for kinds in self._caches.kinds:
            self._metrics.set_workers(kinds.flavour.placement.plural, self._workers)
        async with asyncio.TaskGroup() as group:
            for position in range(self._workers):
                group.create_task(self._work(), name=f"placement worker {position}")
            await stopping.wait()
            self._queue.close()

    async def _work(self) -> None:
        with suppress(QueueClosed):
            while True:
                key = await self._queue.get()
                try:
                    await self._pass(key)
                finally:
                    self._queue.finish(key)

    async def _pass(self, key: str) -> None:
        started, controller = self._clock.elapsed(), find_scope(key).placement.plural
        with self._metrics.working(controller):
            result = await self._outcome(key)
        self._metrics.reconciled(controller=controller, result=result, seconds=self._clock.elapsed() - started)

    async def _outcome(self, key: str) -> str:
        try:
            wait = await self._passes.run(key, reads_live=key in self._doubtful)
        except _STOPPING:
            raise
        except Exception as error:
            self._put_off(key, error)
            return ERROR
        self._settle(key, wait)
        return SUCCESS if wait is None else REQUEUE_AFTER

    def _settle(self, key: str, wait: float | None) -> None:
        self._doubtful.discard(key)
        self._queue.forget(key)
        if self._caches.placement(PlacementKey.parse(key)) is not None:
            self._queue.add_after(key, RECHECK if wait is None else min(wait, RECHECK))

    def _put_off(self, key: str, error: Exception) -> None:
        self._doubtful.add(key)
        wait = self._queue.retry(key)
        if isinstance(error, ApiError | StaleInputs):
            log.warning("the pass failed", placement=key, error=str(error), retry_in=wait)
        else:
            log.error("the pass failed", placement=key, exc_info=error, retry_in=wait)
