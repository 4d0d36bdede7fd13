"""Concurrency of writes: follows the server's latency and its refusals, and finishes first what was begun first.

The server's Priority and Fairness is the limit, not a fixed rate: a 429, a timeout or a slow response reduces the
number of writes in flight to seven tenths, at most once per round trip, and each good response while all slots are
taken adds a fraction of a slot. Latency alone leaves a few slots: a distant server is slow however little it gets.

Writes wait here rather than in the server, in the order of their classes: the status that completes a placement, then
bindings, then the snapshots of a placement that has just been created. One slot in eight goes to the write that has
waited longest, so that none starves.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from fleet.clock import Clock
from fleet.errors import ServerTimeout, TooManyRequests, Unavailable
from fleet.kube.api import LEASE_CLASS, READ_CLASS

CONCURRENCY: Final = 32
ORDER: Final = ("status", "evict", "bind")
"""Classes by priority; every other class follows."""
SLOW_SECONDS: Final = 1.0
"""The API server's own objective for a write."""
FEWEST_BY_LATENCY: Final = 8
_DECREASE: Final = 0.7
_TURNS: Final = 8
_UNLIMITED: Final = frozenset({LEASE_CLASS, READ_CLASS})
_OVERLOAD: Final = (TooManyRequests, Unavailable, ServerTimeout)


class _Waiter(NamedTuple):
    ticket: int
    admitted: asyncio.Future[None]


class WriteLimiter:
    """Belongs to one server."""

    def __init__(self, clock: Clock, *, ceiling: int = CONCURRENCY) -> None:
        self._clock = clock
        self._ceiling = ceiling
        self._limit = float(ceiling)
        self._in_flight = 0
        self._waiting: tuple[deque[_Waiter], ...] = tuple(deque() for _ in range(len(ORDER) + 1))
        self._tickets = itertools.count()
        self._turn = 0
        self._reduced_at = float("-inf")

    @property
    def limit(self) -> int:
        """Writes that may be in flight now."""
        return max(1, int(self._limit))

    @property
    def in_flight(self) -> int:
        return self._in_flight

    @asynccontextmanager
    async def slot(self, call_class: str) -> AsyncIterator[None]:
        """Entered when the write may be sent. The limit follows how the body ends and how long it takes."""
        if call_class in _UNLIMITED:
            yield
            return
        await self._acquire(call_class)
        sent, overloaded = self._clock.monotonic(), False
        try:
            yield
        except _OVERLOAD:
            overloaded = True
            raise
        finally:  # a deadline ends the body with a cancellation
            self._adapt(sent, overloaded=overloaded)
            self._in_flight -= 1
            self._admit()

    # --- slots --------------------------------------------------------------------------------------------------------

    async def _acquire(self, call_class: str) -> None:
        if self._in_flight < self.limit and not any(self._waiting):
            self._in_flight += 1
            return
        waiting = self._waiting[ORDER.index(call_class) if call_class in ORDER else len(ORDER)]
        waiter = _Waiter(next(self._tickets), asyncio.get_running_loop().create_future())
        waiting.append(waiter)
        try:
            await waiter.admitted
        except asyncio.CancelledError:
            if not waiter.admitted.cancelled():  # admitted and cancelled at the same time
                self._in_flight -= 1
            self._admit()
            raise

    def _admit(self) -> None:
        while self._in_flight < self.limit and (waiter := self._pop()) is not None:
            self._in_flight += 1
            waiter.admitted.set_result(None)

    def _pop(self) -> _Waiter | None:
        for waiting in self._waiting:
            while waiting and waiting[0].admitted.done():  # cancelled
                waiting.popleft()
        classes = [waiting for waiting in self._waiting if waiting]
        if not classes:
            return None
        self._turn = (self._turn + 1) % _TURNS
        return (classes[0] if self._turn else min(classes, key=lambda waiting: waiting[0].ticket)).popleft()

    # --- the limit ----------------------------------------------------------------------------------------------------

    def _adapt(self, sent: float, *, overloaded: bool) -> None:
        if overloaded:
            self._reduce(sent, fewest=1)
        elif self._clock.monotonic() - sent > SLOW_SECONDS:
            self._reduce(sent, fewest=FEWEST_BY_LATENCY)
        elif self._in_flight >= self.limit:
            self._limit = min(float(self._ceiling), self._limit + 1 / self._limit)

    def _reduce(self, sent: float, *, fewest: int) -> None:
        """Once for all writes that were in flight together."""
        if sent >= self._reduced_at:
            self._limit = min(self._limit, max(fewest, self._limit * _DECREASE))
            self._reduced_at = self._clock.monotonic()
