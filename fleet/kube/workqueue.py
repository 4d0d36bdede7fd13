"""Work queues: the queue of keys that controllers work on, and the parts that the scheduling queue is made of, too.

A queue is a state machine without a clock; `QueueDriver` runs it on the event loop. `KeyHeap` orders keys that wait.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from fleet.clock import SECOND, Clock, to_nanoseconds
from fleet.errors import QueueClosed
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.client.rate_limiter import RateLimit, TokenBucket

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

RETRY_BACKOFF: Final = ExponentialBackoff(initial=0.005, maximum=60.0)
_TURNS: Final = 4
RETRY_RATE_LIMIT: Final = RateLimit(rate=10, burst=100)

TOLERANCE: Final = SECOND // 1000
"""Nanoseconds. Event loops round: a timer that fires early by less than this counts as on time."""
_TOLERATED_STALE: Final = 32


class WorkQueue(Generic[K]):
    """A queue of keys, for any number of workers. Belongs to the event loop it is first used in.

    Three promises: a queued key is not queued twice; a key in flight is never given to a second worker; a key that is
    added while it is in flight is queued again when that worker has finished. Failed keys are requeued with exponential
    backoff, and together no faster than a shared rate limit. Adding a delayed key again can only make it come earlier.

    Only keys are queued, never events: workers reconcile the newest state.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        backoff: ExponentialBackoff = RETRY_BACKOFF,
        limit: RateLimit = RETRY_RATE_LIMIT,
        is_preferred: Callable[[K], bool] = lambda _: False,
    ) -> None:
        """Preferred keys are taken before others, but for one in four, so that the others do not starve."""
        self._keys: _KeyQueue[K] = _KeyQueue(is_preferred)
        self._driver = QueueDriver(self._keys, clock=clock)
        self._backoff = backoff
        self._retry_tokens = TokenBucket(limit)
        self._failures: dict[K, int] = {}

    def __len__(self) -> int:
        """Keys that could be taken now."""
        return self._keys.ready

    @property
    def delayed(self) -> int:
        return len(self._keys.delayed)

    @property
    def in_flight(self) -> frozenset[K]:
        return frozenset(self._keys.in_flight)

    def count_failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    # --- putting in ---------------------------------------------------------------------------------------------------

    def add(self, key: K) -> None:
        """Without a delay. Ignored after `close`."""
        if not self._driver.closed:
            self._keys.add(key)
            self._driver.notify()

    def add_after(self, key: K, seconds: float) -> None:
        if seconds <= 0:
            self.add(key)
        elif not self._driver.closed:
            self._keys.add_at(key, self._driver.now() + to_nanoseconds(seconds))
            self._driver.notify()

    def retry(self, key: K) -> float:
        """After a failure: requeues the key after its backoff or when the shared limit allows, whichever is later.

        Returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        tokens = self._retry_tokens.reserve(self._driver.now())
        delay = max(self._backoff.compute_delay(failures), tokens / SECOND)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """After a success: resets the backoff of the key."""
        self._failures.pop(key, None)

    # --- taking out ---------------------------------------------------------------------------------------------------

    async def get(self) -> K:
        """The next key. Call `finish` with it in every case."""
        return await self._driver.get()

    def finish(self, key: K) -> None:
        self._keys.finish(key)
        self._driver.notify()

    async def work(
        self, process: Callable[[K], Awaitable[object]], *, report: Callable[[K, Exception], None] | None = None
    ) -> None:
        """Processes one key after the other, until the queue is closed. With `report`, which is called with what fails,
        a key is retried after an error, and forgotten after a success."""
        with suppress(QueueClosed):
            while True:
                key = await self.get()
                try:
                    await process(key)
                except QueueClosed:
                    raise
                except Exception as error:
                    if report is None:
                        raise
                    report(key, error)
                    self.retry(key)
                else:
                    if report is not None:
                        self.forget(key)
                finally:
                    self.finish(key)

    def close(self) -> None:
        """No key is handed out any more: workers that wait return, workers with a key finish it.

        Queued keys are dropped; the next leader derives them from the state again."""
        self._driver.close()
        self._keys.clear()

    async def wait_until_idle(self) -> None:
        """Returns when no key is in flight."""
        await self._driver.wait_until_idle()


class _KeyQueue(Generic[K]):
    """The state of a work queue: first in, first out, among the preferred keys and among the others."""

    def __init__(self, is_preferred: Callable[[K], bool]) -> None:
        self._is_preferred = is_preferred
        self._preferred: deque[K] = deque()
        self._others: deque[K] = deque()
        self._turn = 0
        self._dirty: set[K] = set()
        """Keys still to be processed: those queued, and those added while in flight."""
        self.in_flight: set[K] = set()
        self.delayed: KeyHeap[K] = KeyHeap()

    @property
    def ready(self) -> int:
        return len(self._preferred) + len(self._others)

    @property
    def is_idle(self) -> bool:
        return not self.in_flight

    def add(self, key: K) -> None:
        self.delayed.discard(key)
        if key not in self._dirty:
            self._dirty.add(key)
            if key not in self.in_flight:
                self._append(key)

    def add_at(self, key: K, due: int) -> None:
        planned = self.delayed.order_of(key)
        if key not in self._dirty and (planned is None or due < planned):
            self.delayed.push(key, due)

    def pop(self, now: int) -> K | None:
        del now  # delayed keys are moved by `tick`
        queued = self._choose()
        if not queued:
            return None
        key = queued.popleft()
        self._dirty.discard(key)
        self.in_flight.add(key)
        return key

    def finish(self, key: K) -> None:
        if key not in self.in_flight:
            raise ValueError(f"{key!r} is not in flight")
        self.in_flight.discard(key)
        if key in self._dirty:
            self._append(key)

    def clear(self) -> None:
        self._preferred.clear()
        self._others.clear()
        self._dirty.clear()
        self.delayed = KeyHeap()

    def tick(self, now: int) -> tuple[()]:
        while (
            (due := self.delayed.first_order()) is not None and due <= now and (key := self.delayed.pop()) is not None
        ):
            self.add(key)
        return ()

    def _append(self, key: K) -> None:
        (self._preferred if self._is_preferred(key) else self._others).append(key)

    def _choose(self) -> deque[K]:
        if not self._preferred or not self._others:
            return self._preferred or self._others
        self._turn = (self._turn + 1) % _TURNS
        return self._preferred if self._turn else self._others

    def next_due(self, now: int) -> int | None:
        due: int | None = self.delayed.first_order()
        return None if due is None else max(now, due)


# --- running a queue --------------------------------------------------------------------------------------------------


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
    """Runs a queue on the event loop: workers that wait for items, the timer, and the end.

    The queue decides which item is next and when one becomes due; the driver passes the time. Belongs to the event loop
    it is used in.
    """

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
        for item in self._queue.tick(max(now, min(self._timer_due, now + TOLERANCE))):
            if self._on_report is not None:
                self._on_report(item)
        self.notify()


# --- waiting keys -----------------------------------------------------------------------------------------------------


class KeyHeap(Generic[K]):
    """Heap of keys from which any key can be removed.

    The smallest order is popped first; among equals, the key that was pushed first. Removing a key from the middle only
    marks it as removed; its entry is dropped when it reaches the top, or when stale entries outnumber the keys. So
    every call is cheap and memory follows the number of keys.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, K]] = []
        self._live: dict[K, tuple[Any, int, K]] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: K) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[K]:
        """In no particular order."""
        return iter(self._live)

    def push(self, key: K, order: Any) -> None:
        """A key that is there already gets the new order."""
        self._pushed += 1
        entry = (order, self._pushed, key)
        self._live[key] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._live) + _TOLERATED_STALE:
            self._sweep()

    def discard(self, key: K) -> None:
        self._live.pop(key, None)
        if len(self._heap) > 2 * len(self._live) + _TOLERATED_STALE:
            self._sweep()

    def order_of(self, key: K) -> Any:
        """None for a key that is not there."""
        entry = self._live.get(key)
        return None if entry is None else entry[0]

    def first_order(self) -> Any:
        """None when there is no key."""
        return self._heap[0][0] if self._has_live_top() else None

    def pop(self) -> K | None:
        if not self._has_live_top():
            return None
        key = heapq.heappop(self._heap)[2]
        del self._live[key]
        return key

    def pop_existing(self) -> K:
        """Of a heap that has a key."""
        key = self.pop()
        assert key is not None
        return key

    def _has_live_top(self) -> bool:
        """Drops stale entries from the top; whether a key is left."""
        heap = self._heap
        while heap:
            entry = heap[0]
            if self._live.get(entry[2]) is entry:
                return True
            heapq.heappop(heap)
        return False

    def _sweep(self) -> None:
        self._heap = list(self._live.values())
        heapq.heapify(self._heap)
