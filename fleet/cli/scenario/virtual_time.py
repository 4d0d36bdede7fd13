"""Virtual time: an event loop that moves its time to the next timer instead of waiting for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from time import process_time
from typing import Any, Final, Self, TypeVar

R = TypeVar("R")
T = TypeVar("T")

_SECONDS_FOR_A_THREAD: Final = 10.0
"""Without any processor time, or of processor time: then a thread counts as hanging, and time passes without it. On a
busy machine it has its turn seldom."""
_SECONDS_OF_A_LOOK: Final = 0.05
_SECONDS_TO_LOOK: Final = 0.0005
"""Of processor time, at most: what is more is a thread's."""


@dataclass(slots=True)
class _Call:
    """A call in a thread, which holds the virtual time back."""

    idle: float = 0.0
    """Seconds since any thread has had processor time."""
    used: float = 0.0
    """Processor time of all threads since it began."""

    @property
    def hangs(self) -> bool:
        return max(self.idle, self.used) >= _SECONDS_FOR_A_THREAD

    def look(self, used: float) -> None:
        if not self.hangs:
            self.used += used
            self.idle = 0.0 if used > _SECONDS_TO_LOOK else self.idle + _SECONDS_OF_A_LOOK


class _Selector(selectors.DefaultSelector):
    time = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[asyncio.Future[Any], _Call] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        while not ready and timeout != 0 and not all(call.hangs for call in self.calls.values()):
            begun = process_time()
            ready = super().select(_SECONDS_OF_A_LOOK)
            used = process_time() - begun
            for call in self.calls.values():
                call.look(used)
        if ready:
            return ready
        if timeout is None:
            raise AssertionError("everything waits and nothing will ever happen")
        self.time += max(0.0, timeout)
        return ready


class _Deadline(float):
    """Of a timer. Those of one moment run in the order in which they were set: the heap of an event loop alone would
    let every other timer, also a cancelled one, change that order."""

    __slots__ = ("number",)
    number: int

    def __new__(cls, when: float, number: int) -> Self:
        deadline = super().__new__(cls, when)
        deadline.number = number
        return deadline

    def __lt__(self, other: _Deadline) -> bool:  # type: ignore[override]
        return self.number < other.number if self == other else super().__lt__(other)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Threads work in real time. Time-outs must not pass because a thread has not had its turn on a busy machine."""

    def __init__(self) -> None:
        self._times = _Selector()
        super().__init__(self._times)
        self._numbers = count()

    def time(self) -> float:
        return self._times.time

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(_Deadline(when, next(self._numbers)), callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._hold_time_for(future)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        shutdown: asyncio.Future[None] = self.create_future()
        self._hold_time_for(shutdown)
        try:
            await super().shutdown_default_executor(*args)
        finally:
            shutdown.set_result(None)

    def _hold_time_for(self, call: asyncio.Future[Any]) -> None:
        self._times.calls[call] = _Call()
        call.add_done_callback(self._times.calls.pop)


def run_virtually(main: Coroutine[Any, Any, R]) -> R:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


class VirtualClock:
    """The loop's time, as seconds after a moment."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def no_jitter() -> float:
    return 0.0
