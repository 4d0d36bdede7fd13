"""Limits of one process and of each caller: evaluations in flight, open streams, and reviews that the hub does for the
API, so that no caller waits for the reviews of others.

Evaluations take turns, those on large policies among themselves. Where the scheduler shares the loop, it has priority:
each evaluation is followed by a cooldown, as long as the evaluation while the scheduler is idle, and many times as long
while placements wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from statistics import median
from typing import Final, Generic, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.http.problems import ProblemError, busy
from fleet.clock import Clock

EVALUATIONS: Final = 8
STREAMS: Final = 64
STREAMS_OF_A_CALLER: Final = 16
REVIEWS_OF_A_CALLER: Final = 32
"""Access reviews in flight; further ones of the same caller wait."""
UNKNOWN_TOKENS: Final = 16
"""Reviews in flight of tokens that the hub has not accepted before."""
UNKNOWN_TOKENS_WAITING: Final = 512
_MOST_ACCEPTED: Final = 10_000
_MOST_TIMES: Final = 4
"""Of the limit, with one each of callers who have none under way."""
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

K = TypeVar("K", bound=Hashable)
_Ticket = tuple[int, int]
"""How many requests of the same caller were in flight before, and a rising number."""

_ticket: Final[ContextVar[_Ticket]] = ContextVar("ticket")
_caller: Final[ContextVar[str]] = ContextVar("caller")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTiming:
    """In seconds."""

    poll_interval: float = 0.5
    heartbeat: float = 15.0
    longest: float = 600.0
    """Then the client has to reconnect: resuming is cheap, and rights are checked again."""


class ConcurrencyLimit:
    """At most `limit` at a time; further ones are refused with an estimate of when to retry. A caller with none in
    flight is admitted beyond the limit, so that callers with many cannot keep others out."""

    def __init__(self, limit: int, kind: str, clock: Clock, *, estimate: float, of_a_caller: int | None = None) -> None:
        """`estimate`: the seconds that one takes, until some have ended. `of_a_caller`: the limit of each."""
        self._limit = limit
        self._share = limit if of_a_caller is None else of_a_caller
        self._callers: Counter[str] = Counter()
        self._kind = kind
        self._clock = clock
        self._started: list[float] = []
        self._durations = deque([estimate], _SAMPLES)

    @property
    def in_flight(self) -> int:
        return len(self._started)

    def count_of(self, caller: str) -> int:
        return self._callers[caller]

    def require_slot(self, caller: str = "") -> None:
        own = self.count_of(caller)
        if own >= self._share:
            raise busy(own, f"{self._kind} of yours", seconds=self._estimate_wait())
        if self.in_flight >= (self._limit if own else self._limit * _MOST_TIMES):
            raise busy(self.in_flight, self._kind, seconds=self._estimate_wait())

    @asynccontextmanager
    async def slot(self, caller: str = "") -> AsyncIterator[None]:
        started = self._clock.monotonic()
        self._started.append(started)
        self._callers[caller] += 1
        try:
            yield
        finally:
            self._started.remove(started)
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]
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
        self,
        streams: ConcurrencyLimit,
        content: AsyncIterator[bytes],
        *,
        media_type: str,
        headers: Mapping[str, str],
        caller: str = "",
    ) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._streams.require_slot(self._caller)
        except ProblemError as refused:
            await refused.response()(scope, receive, send)
            return
        async with self._streams.slot(self._caller):
            await super().__call__(scope, receive, send)


class EvaluationLimiter:
    """Evaluations on large policies take turns among themselves: no others wait for them."""

    def __init__(self, clock: Clock, *, limit: int = EVALUATIONS, yields_to: Callable[[], bool] | None = None) -> None:
        """`yields_to` returns whether a scheduler on the same loop has work."""
        self._requests = ConcurrencyLimit(limit, "evaluations", clock, estimate=_FIRST_ESTIMATE)
        self._numbers = count()
        self._turns, self._turns_of_large = (
            _Turns(clock, self._numbers, None if yields_to is None else Cooldown(clock, yields_to)) for _ in range(2)
        )

    @property
    def in_flight(self) -> int:
        return self._requests.in_flight

    @asynccontextmanager
    async def admit(self, caller: str = "") -> AsyncIterator[None]:
        """Admits one request. It computes within `turn`, after those of callers who have fewer in flight."""
        self._requests.require_slot(caller)
        self._take_ticket(self._requests.count_of(caller))
        _caller.set(caller)
        async with self._requests.slot(caller):
            yield

    def turn(self, *, is_large: bool = False, requeue: bool = False) -> AbstractAsyncContextManager[None]:
        """The right to compute until it is released. Turns go to requests in the order of their admission; `requeue`
        puts a request that needs many turns behind the others each time."""
        if requeue:
            self._take_ticket(self._requests.count_of(_caller.get()) - 1)
        return (self._turns_of_large if is_large else self._turns).take()

    def _take_ticket(self, rank: int) -> None:
        """Queues the running task behind all others of this rank, for as many turns as it needs."""
        _ticket.set((rank, next(self._numbers)))


class _Turns:
    def __init__(self, clock: Clock, numbers: Iterator[int], cooldown: Cooldown | None) -> None:
        self._clock = clock
        self._lock = _FairLock(numbers)
        self._cooldown = cooldown

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
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


class _FairLock:
    """Serves waiters by tickets: a caller's first request before the further ones of others."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._is_held = False
        self._waiters: list[tuple[_Ticket, int, asyncio.Future[None]]] = []

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


# --- reviews ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Share:
    slots: asyncio.Semaphore
    users: int = 0


class KeyedLimit(Generic[K]):
    """At most `limit` in flight for each key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shares: dict[K, _Share] = {}

    @asynccontextmanager
    async def slot(self, key: K) -> AsyncIterator[None]:
        share = self._shares.setdefault(key, _Share(asyncio.Semaphore(self._limit)))
        share.users += 1
        try:
            async with share.slots:
                yield
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[key]


@dataclass(slots=True)
class TokenLanes:
    """Tokens that were accepted before never wait for unknown ones, which anybody can send any number of."""

    limit: int = UNKNOWN_TOKENS
    most_waiting: int = UNKNOWN_TOKENS_WAITING
    _accepted: OrderedDict[bytes, None] = field(default_factory=OrderedDict, init=False)
    _unknown: KeyedLimit[None] = field(init=False)
    _under_way: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._unknown = KeyedLimit(self.limit)

    def note_result(self, digest: bytes, *, is_accepted: bool) -> None:
        self._accepted.pop(digest, None)
        if is_accepted:
            self._accepted[digest] = None
            if len(self._accepted) > _MOST_ACCEPTED:
                self._accepted.popitem(last=False)

    @asynccontextmanager
    async def slot(self, digest: bytes) -> AsyncIterator[None]:
        """Refuses an unknown token when too many others wait."""
        if digest in self._accepted:
            yield
            return
        if self._under_way >= self.limit + self.most_waiting:
            raise busy(self._under_way, "reviews of unknown tokens", seconds=1)
        self._under_way += 1
        try:
            async with self._unknown.slot(None):
                yield
        finally:
            self._under_way -= 1
