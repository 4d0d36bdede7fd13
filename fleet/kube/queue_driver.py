"""Runs a pure queue on the event loop: workers that wait for items, the timer, and the end.

The queue decides which item is next and when one becomes due; the driver passes the time. `fleet.kube.workqueue`
and the scheduling queue differ only in the queue they give to it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from fleet.clock import SECOND, Clock, to_nanoseconds
from fleet.errors import QueueClosed

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_TOLERANCE: Final = SECOND // 1000
"""Event loops round: a timer that fires early by less than this counts as on time."""


class DrivenQueue(Protocol[T_co]):
    """A state machine without a clock. All moments are nanoseconds."""

    @property
    def ready(self) -> int:
        """How many items `pop` would return now."""

    @property
    def is_idle(self) -> bool:
        """Whether no item is in flight."""

    def pop(self, now: int) -> T_co | None: ...

    def tick(self, now: int) -> Iterable[T_co]:
        """Moves what is due. Returns items to report."""

    def next_due(self, now: int) -> int | None:
        """When `tick` has something to do; None if only a call can change anything."""


class QueueDriver(Generic[T]):
    """Belongs to the event loop it is used in."""

    def __init__(self, queue: DrivenQueue[T], *, clock: Clock, on_report: Callable[[T], None] | None = None) -> None:
        self.closed = False
        self._queue = queue
        self._clock = clock
        self._on_report = on_report
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def now(self) -> int:
        return to_nanoseconds(self._clock.monotonic())

    async def get(self) -> T:
        """The next item, once there is one."""
        while not self.closed:
            item = self._queue.pop(self.now())
            if item is not None:
                self._idle.clear()
                return item
            await self._wait_for_item()
        raise QueueClosed("the queue is closed")

    def notify(self) -> None:
        """After every change of the queue."""
        if self._queue.is_idle:
            self._idle.set()
        if self.closed:
            return
        for _ in range(min(self._queue.ready, len(self._waiters))):
            self._wake_waiter()
        self._set_timer()

    def close(self) -> None:
        """No item is handed out any more: waiting workers get `QueueClosed`, the others finish what they have."""
        self.closed = True
        self._stop_timer()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_until_idle(self) -> None:
        """Returns when no item is in flight."""
        await self._idle.wait()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _wait_for_item(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and self._queue.ready:
                self._wake_waiter()  # this one was woken for an item that it will not take
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _wake_waiter(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _set_timer(self) -> None:
        """A timer that fires too early does no harm, so it is only ever moved forward."""
        now = self.now()
        due = self._queue.next_due(now)
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        self._stop_timer()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later((due - now) / SECOND, self._tick)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        now = self.now()
        for item in self._queue.tick(max(now, min(self._timer_due, now + _TOLERANCE))):
            if self._on_report is not None:
                self._on_report(item)
        self.notify()
