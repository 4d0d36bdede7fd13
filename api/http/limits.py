"""How much one process is asked at a time: sizes of requests, time for an answer, evaluations under way.

Evaluations run on the event loop, one after the other, and give it back between two of them: they are short, and what
they read (frames, compiled policies, plugins) belongs to the loop. Where the scheduler shares the loop, it comes first:
after an evaluation there is a rest, as long as itself where the scheduler is idle, and many times as long while
placements wait for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.fair_lock import Line
from api.http.problems import Refused, busy, refused, unavailable
from fleet.clock import Clock

EVALUATIONS: Final = 8
STREAMS: Final = 64
LARGEST_BODY: Final = 4 * 1024 * 1024
LARGEST_SNAPSHOT: Final = 256 * 1024 * 1024
PATIENCE: Final = 30.0
"""Seconds until an answer has to begin."""
_REST: Final = 1
_REST_FROM_WORK: Final = 32
"""How many times as long as an evaluation: while placements wait, questions get three hundredths of the time."""
_LONGEST_REST: Final = 5.0
"""Seconds: an answer takes up to four turns, and is given up after 30 seconds."""
_LULL: Final = 0.25
"""Seconds without anything to schedule until the scheduler counts as idle: within a burst the queue is empty, too, for
as long as the hub takes to answer."""
_LOOK_EVERY: Final = 0.05
_FIRST_STAY: Final = 1.0
"""Seconds that a question is taken to need before any has been answered."""
_STAYS: Final = 8

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Of streams, in seconds."""

    look_every: float = 0.5
    sign_of_life: float = 15.0
    longest: float = 600.0
    """Then the reader is to come again: resuming costs nothing, and rights are checked anew."""


class Budget:
    """So many at once; whoever comes beyond that is told when to come again."""

    def __init__(self, most: int, what: str, clock: Clock, *, stay: float) -> None:
        """`stay`: the seconds that one takes, until there is experience."""
        self._most = most
        self._what = what
        self._clock = clock
        self._begun: list[float] = []
        self._stays = deque([stay], _STAYS)

    @property
    def under_way(self) -> int:
        return len(self._begun)

    def require_room(self) -> None:
        if self.under_way >= self._most:
            raise busy(self._most, self._what, seconds=self._until_room())

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        begun = self._clock.elapsed()
        self._begun.append(begun)
        try:
            yield
        finally:
            self._begun.remove(begun)
            self._stays.append(self._clock.elapsed() - begun)

    def _until_room(self) -> float:
        """Until the first is likely to end: each takes as long as usual, and what has taken longer already is half
        done."""
        now, usual = self._clock.elapsed(), median(self._stays)
        ages = [now - begun for begun in self._begun]
        return min(usual - age if age < usual else age for age in ages)


class CountedStream(StreamingResponse):
    """Finds room and takes it in one step when it begins, so that of many who come at once only so many get in."""

    def __init__(
        self, streams: Budget, content: AsyncIterator[bytes], *, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(content, media_type=media_type, headers=headers)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._streams.require_room()
        except Refused as refusal:
            await refusal.response()(scope, receive, send)
            return
        async with self._streams.one():
            await super().__call__(scope, receive, send)


class Evaluations:
    def __init__(
        self, clock: Clock, *, most: int = EVALUATIONS, gives_way_to: Callable[[], bool] | None = None
    ) -> None:
        """`gives_way_to` says whether a scheduler on the same loop has something to do."""
        self._clock = clock
        self._budget = Budget(most, "evaluations", clock, stay=_FIRST_STAY)
        self._line = Line()
        self._rests = None if gives_way_to is None else Rests(clock, gives_way_to)

    @property
    def under_way(self) -> int:
        return self._budget.under_way

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """For one question. Work within `turn`."""
        self._budget.require_room()
        self._line.join()
        async with self._budget.one():
            yield

    @asynccontextmanager
    async def turn(self, *, anew: bool = False) -> AsyncIterator[None]:
        """The right to compute, without waiting for anything, until it is given back. It comes in the order of the
        questions; `anew` is for one that needs many turns, and goes to the end of the line for each."""
        if anew:
            self._line.join()
        await self._come_first()
        try:
            with nullcontext() if self._rests is None else self._rests.after():
                yield
        finally:
            self._line.leave()

    async def _come_first(self) -> None:
        """During a rest somebody may have come back who was there before."""
        is_first = False
        while not is_first:
            await self._line.enter()
            try:
                await (self._clock.sleep(0) if self._rests is None else self._rests.over())
                is_first = self._line.is_first()
            finally:
                if not is_first:
                    self._line.leave()


class Rests:
    """Between evaluations beside a scheduler."""

    def __init__(self, clock: Clock, has_work: Callable[[], bool]) -> None:
        self._clock = clock
        self._has_work = has_work
        self._worked = -_LULL
        self._ended = 0.0
        self._spent = 0.0

    @contextmanager
    def after(self) -> Iterator[None]:
        started = self._clock.elapsed()
        try:
            yield
        finally:
            self._ended = self._clock.elapsed()
            self._spent = self._ended - started

    async def over(self) -> None:
        """Looks again and again: a rest gets shorter as soon as there is nothing to schedule any more."""
        await self._clock.sleep(0)
        while (left := self._left()) > 0:
            await self._clock.sleep(min(left, _LOOK_EVERY))

    def _left(self) -> float:
        now = self._clock.elapsed()
        if self._has_work():
            self._worked = now
        times = _REST if now - self._worked >= _LULL else _REST_FROM_WORK
        return self._ended + min(times * self._spent, _LONGEST_REST) - now


async def body_of(request: Request, *, largest: int = LARGEST_BODY) -> bytes:
    """The whole body, unless it is larger than that."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > largest:
        raise _too_large(largest)
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > largest:
            raise _too_large(largest)
        pieces.append(piece)
    return b"".join(pieces)


def _too_large(largest: int) -> Exception:
    return refused(
        413, f"the body is larger than {largest} bytes", field="body", next=f"send at most {largest} bytes at a time"
    )


class Deadlines:
    """Every answer begins in time; one that has begun may go on."""

    def __init__(self, app: ASGIApp, *, seconds: float = PATIENCE) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False
        try:
            async with asyncio.timeout(self._seconds) as deadline:

                async def send_in_time(message: Message) -> None:
                    nonlocal began
                    began = True
                    deadline.reschedule(None)
                    await send(message)

                await self._app(scope, receive, send_in_time)
        except TimeoutError:
            if began:
                raise
            log.warning("an answer took too long", path=scope["path"], seconds=self._seconds)
            late = unavailable(f"the answer was not ready after {self._seconds:g} s", "ask for less, or try again")
            await late.response()(scope, receive, send)
