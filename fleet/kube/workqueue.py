"""Work queue of keys, for any number of workers.

Three promises: a queued key is not queued twice; a key in flight is never given to a second worker; a key that is added
while it is in flight is queued again when that worker has finished. Failed keys are requeued with exponential backoff,
and together no faster than a shared rate limit. Adding a delayed key again can only make it come earlier.

Only keys are queued, never events: workers reconcile the newest state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from fleet.clock import SECOND, Clock, to_nanoseconds
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.client.rate_limiter import RateLimit, TokenBucket
from fleet.kube.heap import KeyHeap
from fleet.kube.queue_driver import QueueDriver

K = TypeVar("K", bound=Hashable)

RETRY_BACKOFF: Final = ExponentialBackoff(initial=0.005, maximum=60.0)
RETRY_RATE_LIMIT: Final = RateLimit(rate=10, burst=100)


class WorkQueue(Generic[K]):
    """Belongs to the event loop it is first used in."""

    def __init__(
        self, *, clock: Clock, backoff: ExponentialBackoff = RETRY_BACKOFF, limit: RateLimit = RETRY_RATE_LIMIT
    ) -> None:
        self._keys: _KeyQueue[K] = _KeyQueue()
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

    def close(self) -> None:
        """No key is handed out any more: workers that wait return, workers with a key finish it.

        Queued keys are dropped; the next leader derives them from the state again."""
        self._driver.close()
        self._keys.clear()

    async def wait_until_idle(self) -> None:
        """Returns when no key is in flight."""
        await self._driver.wait_until_idle()


class _KeyQueue(Generic[K]):
    """The state of a work queue: first in, first out."""

    def __init__(self) -> None:
        self._queued: deque[K] = deque()
        self._dirty: set[K] = set()
        """Keys still to be processed: those queued, and those added while in flight."""
        self.in_flight: set[K] = set()
        self.delayed: KeyHeap[K] = KeyHeap()

    @property
    def ready(self) -> int:
        return len(self._queued)

    @property
    def is_idle(self) -> bool:
        return not self.in_flight

    def add(self, key: K) -> None:
        self.delayed.discard(key)
        if key not in self._dirty:
            self._dirty.add(key)
            if key not in self.in_flight:
                self._queued.append(key)

    def add_at(self, key: K, due: int) -> None:
        planned = self.delayed.order_of(key)
        if key not in self._dirty and (planned is None or due < planned):
            self.delayed.push(key, due)

    def pop(self, now: int) -> K | None:
        del now  # delayed keys are moved by `tick`
        if not self._queued:
            return None
        key = self._queued.popleft()
        self._dirty.discard(key)
        self.in_flight.add(key)
        return key

    def finish(self, key: K) -> None:
        if key not in self.in_flight:
            raise ValueError(f"{key!r} is not in flight")
        self.in_flight.discard(key)
        if key in self._dirty:
            self._queued.append(key)

    def clear(self) -> None:
        self._queued.clear()
        self._dirty.clear()
        self.delayed = KeyHeap()

    def tick(self, now: int) -> tuple[()]:
        while (
            (due := self.delayed.first_order()) is not None and due <= now and (key := self.delayed.pop()) is not None
        ):
            self.add(key)
        return ()

    def next_due(self, now: int) -> int | None:
        due: int | None = self.delayed.first_order()
        return None if due is None else max(now, due)
