"""Limits of one process: evaluations in flight, open streams, time until an answer begins.

Evaluations run on the event loop one at a time and yield between two of them: they are short, and what they read
(frames, compiled policies, plugins) belongs to the loop. Where the scheduler shares the loop, it has priority: each
evaluation is followed by a cooldown, as long as the evaluation while the scheduler is idle, and many times as long
while placements wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from statistics import median
from typing import Final

import structlog
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import ProblemError, busy, unavailable
from fleet.clock import Clock

EVALUATIONS: Final = 8
STREAMS: Final = 64
ANSWER_TIMEOUT: Final = 30.0
"""Seconds until an answer has to begin."""
_IDLE_FACTOR: Final = 1
_BUSY_FACTOR: Final = 32
"""Cooldown in multiples of the evaluation while placements wait: evaluations then take three percent of the time."""
_MAX_COOLDOWN: Final = 5.0
"""Seconds: an answer takes up to four turns, and times out after 30 seconds."""
_IDLE_AFTER: Final = 0.25
"""Seconds without work until the scheduler counts as idle: within a burst its queue is also empty while the hub
answers."""
_POLL_INTERVAL: Final = 0.05
_FIRST_ESTIMATE: Final = 1.0
"""Assumed seconds of an evaluation before any has ended."""
_SAMPLES: Final = 8

_ticket: Final[ContextVar[int]] = ContextVar("ticket")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTiming:
    """In seconds."""

    poll_interval: float = 0.5
    heartbeat: float = 15.0
    longest: float = 600.0
    """Then the client has to reconnect: resuming is cheap, and rights are checked again."""


class ConcurrencyLimit:
    """At most `limit` at a time; further ones are refused with an estimate of when to retry."""

    def __init__(self, limit: int, kind: str, clock: Clock, *, estimate: float) -> None:
        """`estimate`: the seconds that one takes, until some have ended."""
        self._limit = limit
        self._kind = kind
        self._clock = clock
        self._started: list[float] = []
        self._durations = deque([estimate], _SAMPLES)

    @property
    def in_flight(self) -> int:
        return len(self._started)

    def require_slot(self) -> None:
        if self.in_flight >= self._limit:
            raise busy(self._limit, self._kind, seconds=self._estimate_wait())

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        started = self._clock.monotonic()
        self._started.append(started)
        try:
            yield
        finally:
            self._started.remove(started)
            self._durations.append(self._clock.monotonic() - started)

    def _estimate_wait(self) -> float:
        """Until the first is likely to end: each takes the usual time, and one that has exceeded it is half done."""
        now, usual = self._clock.monotonic(), median(self._durations)
        ages = [now - started for started in self._started]
        return min(usual - age if age < usual else age for age in ages)


class CountedStream(StreamingResponse):
    """Checks for a slot and takes it in one step when the response starts, so that simultaneous requests cannot exceed
    the limit."""

    def __init__(
        self, streams: ConcurrencyLimit, content: AsyncIterator[bytes], *, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._streams.require_slot()
        except ProblemError as refused:
            await refused.response()(scope, receive, send)
            return
        async with self._streams.slot():
            await super().__call__(scope, receive, send)


class EvaluationLimiter:
    def __init__(self, clock: Clock, *, limit: int = EVALUATIONS, yields_to: Callable[[], bool] | None = None) -> None:
        """`yields_to` returns whether a scheduler on the same loop has work."""
        self._clock = clock
        self._requests = ConcurrencyLimit(limit, "evaluations", clock, estimate=_FIRST_ESTIMATE)
        self._lock = FairLock()
        self._cooldown = None if yields_to is None else Cooldown(clock, yields_to)

    @property
    def in_flight(self) -> int:
        return self._requests.in_flight

    @asynccontextmanager
    async def admit(self) -> AsyncIterator[None]:
        """Admits one request. It computes within `turn`."""
        self._requests.require_slot()
        self._lock.take_ticket()
        async with self._requests.slot():
            yield

    @asynccontextmanager
    async def turn(self, *, requeue: bool = False) -> AsyncIterator[None]:
        """The right to compute, without awaiting anything else, until it is released. Turns go to requests in the order
        of their admission; `requeue` puts a request that needs many turns behind the others each time."""
        if requeue:
            self._lock.take_ticket()
        await self._acquire()
        try:
            with nullcontext() if self._cooldown is None else self._cooldown.measure():
                yield
        finally:
            self._lock.release()

    async def _acquire(self) -> None:
        """During a cooldown a request with an earlier ticket may have returned."""
        is_first = False
        while not is_first:
            await self._lock.acquire()
            try:
                await (self._clock.sleep(0) if self._cooldown is None else self._cooldown.wait())
                is_first = self._lock.is_first()
            finally:
                if not is_first:
                    self._lock.release()


class Cooldown:
    """The pause after an evaluation on the scheduler's event loop."""

    def __init__(self, clock: Clock, has_work: Callable[[], bool]) -> None:
        self._clock = clock
        self._has_work = has_work
        self._last_work = -_IDLE_AFTER
        self._ended = 0.0
        self._spent = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        started = self._clock.monotonic()
        try:
            yield
        finally:
            self._ended = self._clock.monotonic()
            self._spent = self._ended - started

    async def wait(self) -> None:
        """Polls, because the cooldown gets shorter as soon as the scheduler is idle."""
        await self._clock.sleep(0)
        while (remaining := self._remaining()) > 0:
            await self._clock.sleep(min(remaining, _POLL_INTERVAL))

    def _remaining(self) -> float:
        now = self._clock.monotonic()
        if self._has_work():
            self._last_work = now
        factor = _IDLE_FACTOR if now - self._last_work >= _IDLE_AFTER else _BUSY_FACTOR
        return self._ended + min(factor * self._spent, _MAX_COOLDOWN) - now


class Deadlines:
    """Middleware: a response has to start in time; one that has started may continue."""

    def __init__(self, app: ASGIApp, *, seconds: float = ANSWER_TIMEOUT) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        try:
            async with asyncio.timeout(self._seconds) as deadline:

                async def send_in_time(message: Message) -> None:
                    nonlocal started
                    started = True
                    deadline.reschedule(None)
                    await send(message)

                await self._app(scope, receive, send_in_time)
        except TimeoutError:
            if started:
                raise
            log.warning("an answer took too long", path=scope["path"], seconds=self._seconds)
            late = unavailable(f"the answer was not ready after {self._seconds:g} s", "ask for less, or try again")
            await late.response()(scope, receive, send)


class FairLock:
    def __init__(self) -> None:
        self._numbers = count()
        self._is_held = False
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []

    def take_ticket(self) -> None:
        """Queues the running task behind all others, for as many acquisitions as it needs."""
        _ticket.set(next(self._numbers))

    async def acquire(self) -> None:
        if not self._is_held:
            self._is_held = True
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiters, (_ticket.get(), next(self._numbers), granted))
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():
                self.release()  # granted and cancelled at the same time
            raise

    def release(self) -> None:
        self._drop_cancelled()
        if self._waiters:
            heappop(self._waiters)[-1].set_result(None)
        else:
            self._is_held = False

    def is_first(self) -> bool:
        """Whether no waiter has a lower ticket than the running task, which holds the lock."""
        self._drop_cancelled()
        return not self._waiters or self._waiters[0][0] >= _ticket.get()

    def _drop_cancelled(self) -> None:
        while self._waiters and self._waiters[0][-1].done():
            heappop(self._waiters)
