"""A queue of keys to work on, for any number of workers.

Three promises: a key that waits is not queued twice; a key in work is never given to a second worker; a key that is
added while it is in work comes again when that worker is done. Failed keys come back after a wait that grows with each
failure, and together no faster than a shared budget allows. Adding a waiting key again can only make it come earlier.

Keys alone are queued, never what happened to them: whoever takes one looks at the newest state.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from fleet.clock import Clock
from fleet.errors import QueueClosed
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.client.rate_limiter import RateLimit, TokenBucket

K = TypeVar("K", bound=Hashable)

RETRY_BACKOFF: Final = ExponentialBackoff(initial=0.005, maximum=60.0)
RETRY_RATE_LIMIT: Final = RateLimit(rate=10, burst=100)


class WorkQueue(Generic[K]):
    """Belongs to the event loop it is first used in."""

    def __init__(
        self, *, clock: Clock, pace: ExponentialBackoff = RETRY_BACKOFF, budget: RateLimit = RETRY_RATE_LIMIT
    ) -> None:
        self._pace = pace
        self._retry_tokens = TokenBucket(budget, clock)
        self._waiting: deque[K] = deque()
        self._dirty: set[K] = set()
        self._in_work: set[K] = set()
        self._later: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def __len__(self) -> int:
        """Keys that could be taken now."""
        return len(self._waiting)

    @property
    def delayed(self) -> int:
        return len(self._later)

    @property
    def in_flight(self) -> frozenset[K]:
        return frozenset(self._in_work)

    def count_failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    # --- putting in ---------------------------------------------------------------------------------------------------

    def add(self, key: K) -> None:
        """At once. After `close` nothing is taken in."""
        if self._closed:
            return
        self._hurry(key)
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._in_work:
            self._waiting.append(key)
            self._wake_one()

    def add_after(self, key: K, seconds: float) -> None:
        if seconds <= 0:
            self.add(key)
            return
        if self._closed or key in self._dirty:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        planned = self._later.get(key)
        if planned is not None and planned.when() <= due:
            return
        self._hurry(key)
        self._later[key] = loop.call_at(due, self.add, key)

    def retry(self, key: K) -> float:
        """After a failure: comes back after its back-off or when the shared budget allows, whichever is later.

        Says how long that is."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        wait = max(self._pace.compute_delay(failures), self._retry_tokens.reserve())
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """After a success: the next failure starts over."""
        self._failures.pop(key, None)

    # --- taking out ---------------------------------------------------------------------------------------------------

    async def get(self) -> K:
        """The next key. Call `done` with it in every case."""
        while not self._waiting:
            if self._closed:
                raise QueueClosed("the queue is closed")
            await self._wait_for_key()
        key = self._waiting.popleft()
        self._dirty.discard(key)
        self._in_work.add(key)
        self._idle.clear()
        return key

    def finish(self, key: K) -> None:
        if key not in self._in_work:
            raise ValueError(f"{key!r} is not in work")
        self._in_work.discard(key)
        if key in self._dirty:
            self._waiting.append(key)
            self._wake_one()
        if not self._in_work:
            self._idle.set()

    def close(self) -> None:
        """No key comes out any more: workers that wait return, workers with a key finish it.

        What waits is dropped; whoever starts next derives it from the state again."""
        self._closed = True
        for handle in self._later.values():
            handle.cancel()
        self._later.clear()
        self._waiting.clear()
        self._dirty.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    async def wait_until_idle(self) -> None:
        """Returns when no key is in work."""
        await self._idle.wait()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _hurry(self, key: K) -> None:
        handle = self._later.pop(key, None)
        if handle is not None:
            handle.cancel()

    async def _wait_for_key(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter.done() and not getter.cancelled() and self._waiting:
                self._wake_one()  # it was woken for a key that it will not take
            raise
        finally:
            if getter in self._getters:
                self._getters.remove(getter)

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return
