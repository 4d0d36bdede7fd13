"""Virtual time: hours of waiting pass at once, and in the same order on every machine."""

from __future__ import annotations

import asyncio
import functools
import inspect
import selectors
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_SECONDS_FOR_A_THREAD: Final = 10.0
"""A test may make a thread hang, and see what becomes of it when time passes."""

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class _Selector(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the time to it. Waiting for nothing at all is a mistake in the test."""

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

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._times.patience[future] = monotonic() + _SECONDS_FOR_A_THREAD
        future.add_done_callback(self._times.patience.pop)
        return future

    def time(self) -> float:
        return self._times.time


def run_virtually(main: Coroutine[Any, Any, R]) -> R:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def virtual(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes a test of a coroutine that runs under virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_virtually(test(*args, **kwargs))

    return run


def within(
    scene: Callable[[], AbstractAsyncContextManager[T]],
) -> Callable[[Callable[Concatenate[T, P], Coroutine[Any, Any, None]]], Callable[P, None]]:
    """The same for a test that takes place in a scene, which is its first argument."""

    def decorate(test: Callable[Concatenate[T, P], Coroutine[Any, Any, None]]) -> Callable[P, None]:
        async def play(*args: P.args, **kwargs: P.kwargs) -> None:
            async with scene() as opened:
                await test(opened, *args, **kwargs)

        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            run_virtually(play(*args, **kwargs))

        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])  # type: ignore[attr-defined]
        return run

    return decorate


class VirtualClock:
    """The loop's time, plus what the machine slept; the time of day can be set."""

    def __init__(self) -> None:
        self.set_by = timedelta(0)
        self.slept = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.monotonic()) + self.set_by

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.slept

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def no_jitter() -> float:
    return 0.0
