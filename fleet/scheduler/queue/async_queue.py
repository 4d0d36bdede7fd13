"""Scheduling queue of a process: with a clock, a timer and workers that wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from fleet.clock import Clock
from fleet.kube.workqueue import QueueDriver
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.hints import QueueEvent
from fleet.scheduler.queue.item import ItemState, QueueCounts, QueueItem
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue


class AsyncQueue:
    """`SchedulingQueue` with a clock, a timer and waiting, for workers. Belongs to the event loop it is used in."""

    def __init__(
        self, queue: SchedulingQueue, *, clock: Clock, on_gated: Callable[[QueueItem], None] | None = None
    ) -> None:
        """`on_gated` is called with placements that PreEnqueue has kept out for a while."""
        self._queue = queue
        self._driver = QueueDriver(queue, clock=clock, on_report=on_gated)

    def __len__(self) -> int:
        """Items that could be taken now."""
        return 0 if self._driver.closed else self._queue.ready

    def __contains__(self, key: PlacementKey) -> bool:
        return key in self._queue

    def peek(self, key: PlacementKey) -> QueueItem | None:
        """A copy; None for a key that is not queued."""
        item = self._queue.get(key)
        return None if item is None else item.deep_copy()

    def is_in_flight(self, key: PlacementKey) -> bool:
        item = self._queue.get(key)
        return item is not None and item.state is ItemState.IN_FLIGHT

    def list_in_flight(self) -> Collection[PlacementKey]:
        return self._queue.in_flight

    def find_rejectors(self, key: PlacementKey) -> frozenset[str] | None:
        """Of its last attempt, with those whose answer is pending; None while it is in flight, and for a key that is
        not queued."""
        item = self._queue.get(key)
        if item is None or item.state is ItemState.IN_FLIGHT:
            return None
        return item.rejectors | item.pending if item.pending else item.rejectors

    def count_active(self) -> int:
        return self._queue.count_active()

    def count_items(self) -> QueueCounts:
        return self._queue.count_items()

    def count_unschedulable_by_plugin(self) -> Mapping[str, int]:
        return self._queue.count_unschedulable_by_plugin()

    def list_recorded_events(self) -> Sequence[QueueEvent]:
        return self._queue.recorded_events

    # --- reasons to run -----------------------------------------------------------------------------------------------

    def add(self, key: PlacementKey, *, trigger: str) -> None:
        if not self._driver.closed:
            self._queue.add(key, self._driver.now(), trigger=trigger)
            self._driver.notify()

    def requeue(self, keys: Iterable[PlacementKey], *, trigger: str, batched: bool = False) -> None:
        if not self._driver.closed:
            self._queue.requeue(keys, self._driver.now(), trigger=trigger, batched=batched)
            self._driver.notify()

    def refresh(self, keys: Iterable[PlacementKey], *, trigger: str) -> None:
        if not self._driver.closed:
            self._queue.refresh(keys, self._driver.now(), trigger=trigger)
            self._driver.notify()

    def handle_event(self, event: QueueEvent) -> None:
        if not self._driver.closed:
            self._queue.handle_event(event, self._driver.now())
            self._driver.notify()

    def leaves_to_hints(self, key: PlacementKey) -> bool:
        return self._queue.leaves_to_hints(key)

    def activate(self, keys: Iterable[PlacementKey]) -> None:
        if not self._driver.closed:
            self._queue.activate(keys, self._driver.now())
            self._driver.notify()

    def flush_batch(self) -> None:
        if not self._driver.closed:
            self._queue.flush_batch(self._driver.now())
            self._driver.notify()

    def delete(self, key: PlacementKey) -> None:
        self._queue.delete(key)

    # --- attempts -----------------------------------------------------------------------------------------------------

    async def get(self) -> QueueItem:
        """The next item, once there is one. Call one of the `mark_` methods that end its attempt in every case."""
        return await self._driver.get()

    def take(self, keys: Iterable[PlacementKey]) -> list[QueueItem]:
        """Further items of the same attempt; each ends with a `mark_` method, too."""
        return self._queue.take(keys, self._driver.now())

    def mark_permitted(self, key: PlacementKey) -> None:
        self._queue.mark_permitted(key)

    def mark_succeeded(self, key: PlacementKey) -> None:
        self._queue.mark_succeeded(key, self._driver.now())
        self._driver.notify()

    def mark_unschedulable(
        self,
        key: PlacementKey,
        *,
        rejectors: Iterable[str] = (),
        pending: Iterable[str] = (),
        keeps_rank: bool = False,
    ) -> None:
        now = self._driver.now()
        self._queue.mark_unschedulable(key, now, rejectors=rejectors, pending=pending, keeps_rank=keeps_rank)
        self._driver.notify()

    def mark_failed(self, key: PlacementKey, *, at_least_seconds: float = 0) -> float:
        delay = self._queue.mark_failed(key, self._driver.now(), at_least_seconds=at_least_seconds)
        self._driver.notify()
        return delay

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """No item is popped or moved any more: waiting workers return, the others finish their items.

        Queued placements are dropped; the next leader derives them from the hub again."""
        self._driver.close()

    async def wait_until_idle(self) -> None:
        """Returns when no item is in flight."""
        await self._driver.wait_until_idle()
