"""The scheduling queue for workers: the clock, the timer and the waiting around the pure `queue`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from fleet.clock import Clock
from fleet.errors import QueueClosed
from fleet.scheduler.queue.hints import QueueEvent
from fleet.scheduler.queue.item import QueueCounts, QueueItem
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.scheduler.queue.timing import SECOND, nanoseconds

_LATENESS: Final = 1e-6
"""Seconds. A timer that fires a rounding error too early would find nothing to do and be set again and again."""


class AsyncQueue:
    """Belongs to the event loop it is used in. The verbs are those of `SchedulingQueue`."""

    def __init__(
        self, queue: SchedulingQueue, *, clock: Clock, on_held: Callable[[QueueItem], None] | None = None
    ) -> None:
        """`on_held` is told of placements that have not been allowed into the queue for a while."""
        self._queue = queue
        self._clock = clock
        self._on_held = on_held
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def __len__(self) -> int:
        """Items that could be taken now."""
        return 0 if self._closed else self._queue.ready

    def __contains__(self, key: str) -> bool:
        return key in self._queue

    @property
    def closed(self) -> bool:
        return self._closed

    def peek(self, key: str) -> QueueItem | None:
        """For who only wants to know. None for a key that waits for nothing."""
        item = self._queue.get(key)
        return None if item is None else item.deep_copy()

    def count_items(self) -> QueueCounts:
        return self._queue.count_items()

    def count_unschedulable_by_plugin(self) -> Mapping[str, int]:
        """Rejected placements, by who has to change their mind."""
        return self._queue.count_unschedulable_by_plugin()

    def list_recorded_events(self) -> Sequence[QueueEvent]:
        """What somebody in flight may have missed."""
        return self._queue.recorded_events

    # --- reasons to run -----------------------------------------------------------------------------------------------

    def add(self, key: str, *, trigger: str) -> None:
        if not self._closed:
            self._queue.add(key, self._now(), trigger=trigger)
            self._changed()

    def requeue(self, keys: Iterable[str], *, trigger: str, batched: bool = False) -> None:
        if not self._closed:
            self._queue.requeue(keys, self._now(), trigger=trigger, batched=batched)
            self._changed()

    def handle_event(self, event: QueueEvent) -> None:
        if not self._closed:
            self._queue.handle_event(event, self._now())
            self._changed()

    def activate(self, keys: Iterable[str]) -> None:
        if not self._closed:
            self._queue.activate(keys, self._now())
            self._changed()

    def flush_batch(self) -> None:
        if not self._closed:
            self._queue.flush_batch(self._now())
            self._changed()

    def delete(self, key: str) -> None:
        self._queue.delete(key, self._now())

    # --- attempts -----------------------------------------------------------------------------------------------------

    async def get(self) -> QueueItem:
        """The next item, once there is one. Say how its attempt ended in every case."""
        while not self._closed:
            item = self._queue.pop(self._now())
            if item is not None:
                self._idle.clear()
                return item
            await self._wait_for_item()
        raise QueueClosed("the scheduling queue is closed")

    def mark_permitted(self, key: str) -> None:
        self._queue.mark_permitted(key)

    def mark_succeeded(self, key: str) -> None:
        self._queue.mark_succeeded(key, self._now())
        self._returned()

    def mark_unschedulable(self, key: str, *, rejectors: Iterable[str] = (), pending: Iterable[str] = ()) -> None:
        self._queue.mark_unschedulable(key, self._now(), rejectors=rejectors, pending=pending)
        self._returned()

    def mark_failed(self, key: str, *, at_least_seconds: float = 0) -> float:
        wait = self._queue.mark_failed(key, self._now(), at_least_seconds=at_least_seconds)
        self._returned()
        return wait

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """No item comes out any more, and nothing moves: waiting workers return, the others finish what they have.

        What waits is dropped; whoever starts next derives it from the hub again."""
        self._closed = True
        self._stop_timer()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    async def wait_until_idle(self) -> None:
        """Returns when no item is in work."""
        await self._idle.wait()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return nanoseconds(self._clock.elapsed())

    def _returned(self) -> None:
        if not self._queue.in_flight:
            self._idle.set()
        if not self._closed:
            self._changed()

    def _changed(self) -> None:
        for _ in range(min(self._queue.ready, len(self._getters))):
            self._wake_one()
        self._set_timer()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    async def _wait_for_item(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled() and self._queue.ready:
                self._wake_one()  # it was woken for an item that it will not take
            raise
        finally:
            if getter in self._getters:
                self._getters.remove(getter)

    def _set_timer(self) -> None:
        """A timer that fires too early does no harm, so it is only ever moved forward."""
        now = self._now()
        due = self._queue.next_due(now)
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        self._stop_timer()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later((due - now) / SECOND + _LATENESS, self._tick)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        for item in self._queue.tick(self._now()):
            if self._on_held is not None:
                self._on_held(item)
        self._changed()
