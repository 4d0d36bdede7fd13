"""Tests under virtual time: hours of waiting pass at once, and in the same order on every machine."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Concatenate, ParamSpec, TypeVar

from fleet.cli.scenario.virtual_time import VirtualLoop, no_jitter, run_virtually

__all__ = ["EPOCH", "VirtualClock", "VirtualLoop", "no_jitter", "run_virtually", "virtual", "within"]

P = ParamSpec("P")
T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


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
