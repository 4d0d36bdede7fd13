"""A thread for computations that take too long for the event loop, one after the other.

The interpreter gives the event loop its turn every few milliseconds. A task that is cancelled, because its deadline has
passed or its caller has gone, ends its computation at the next checkpoint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from fleet.checkpoint import Interrupted, interruptible

P = ParamSpec("P")
T = TypeVar("T")


class WorkerThread:
    """Starts with the first computation."""

    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name)

    def close(self) -> None:
        """The thread ends with the computation under way; nothing can be run any more."""
        self._executor.shutdown(wait=False)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """When cancelled, it returns after the computation has stopped: the next one would only compete with it."""
        stop = _Stop()
        call = partial(copy_context().run, _run_interruptibly, stop, partial(function, *args, **kwargs))
        running = asyncio.get_running_loop().run_in_executor(self._executor, call)
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            stop.is_set = True
            running.add_done_callback(_ignore_result)
            await asyncio.wait((running,))
            raise
        result: T = running.result()
        return result


class _Stop:
    is_set = False

    def check(self) -> None:
        if self.is_set:
            raise Interrupted


def _run_interruptibly(stop: _Stop, function: Callable[[], T]) -> T:
    with interruptible(stop.check):
        stop.check()  # it may have waited for its turn
        return function()


def _ignore_result(future: asyncio.Future[T]) -> None:
    if not future.cancelled():
        future.exception()
