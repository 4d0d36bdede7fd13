"""Virtual time: an event loop that moves its time to the next timer instead of waiting for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final, TypeVar

R = TypeVar("R")
T = TypeVar("T")

_SECONDS_FOR_A_THREAD: Final = 10.0
"""After this a thread counts as hanging, and time passes without it."""


class _Selector(selectors.DefaultSelector):
    time = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.patience: dict[asyncio.Future[Any], float] = {}
        """Of calls in threads: the real time until which each holds the virtual one back."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        while not ready and timeout != 0 and (left := self._patience_left()) > 0:
            ready = super().select(left)
        if ready:
            return ready
        if timeout is None:
            raise AssertionError("everything waits and nothing will ever happen")
        self.time += max(0.0, timeout)
        return ready

    def _patience_left(self) -> float:
        return max(self.patience.values(), default=0.0) - monotonic()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Threads work in real time. Time-outs must not pass because a thread has not had its turn on a busy machine."""

    def __init__(self) -> None:
        self._times = _Selector()
        super().__init__(self._times)

    def time(self) -> float:
        return self._times.time

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._times.patience[future] = monotonic() + _SECONDS_FOR_A_THREAD
        future.add_done_callback(self._times.patience.pop)
        return future


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
