"""Threads for computations that take too long for the event loop.

The interpreter gives the event loop its turn several times in a millisecond. A task that is cancelled, because its
deadline has passed or its caller has gone, ends its computation at the next checkpoint. There a computation also pauses
for what has precedence.
"""

from __future__ import annotations

import asyncio
import threading
import time
import types
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from fleet.checkpoint import Interrupted, interruptible

P = ParamSpec("P")
T = TypeVar("T")

_LONGEST_PAUSE: Final = 0.02


class Precedence:
    """Of coroutines on the event loop over computations in threads. In turns with one of these, a step of a few
    milliseconds would take twice as long."""

    def __init__(self) -> None:
        self._at_rest = threading.Event()
        self._at_rest.set()

    @property
    def is_claimed(self) -> bool:
        """Whether a step is being taken: not while the coroutine waits."""
        return not self._at_rest.is_set()

    def wait(self, seconds: float) -> None:
        """Until the step is done, but not longer."""
        self._at_rest.wait(seconds)

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await self._run_in_steps(coroutine)

    @types.coroutine
    def _run_in_steps(self, coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        step = partial(coroutine.send, None)
        while True:
            self._at_rest.clear()
            try:
                awaited = step()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                del step  # with what it was thrown, it would keep this frame, and all that the coroutine held
                self._at_rest.set()
            try:
                step = partial(coroutine.send, (yield awaited))
            except BaseException as error:
                step = partial(coroutine.throw, error)


class WorkerThread:
    """Starts with the first computation. They are carried out one after the other, or so many side by side."""

    def __init__(self, name: str, precedence: Precedence | None = None, *, side_by_side: int = 1) -> None:
        """With what computations pause for."""
        self._executor = ThreadPoolExecutor(side_by_side, name)
        self._precedence = precedence

    def close(self) -> None:
        """The thread ends with the computation under way; nothing can be run any more."""
        self._executor.shutdown(wait=False)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """When cancelled, it returns once the computation has stopped, if it has begun: the next one would only
        compete with it."""
        computation = Computation(self._precedence)
        call = partial(copy_context().run, computation.run, partial(function, *args, **kwargs))
        running = asyncio.get_running_loop().run_in_executor(self._executor, call)
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            computation.is_stopped = True
            running.add_done_callback(_ignore_result)
            if computation.has_begun:
                await asyncio.wait((running,))
            raise
        result: T = running.result()
        return result


class Computation:
    """It pauses for as long as it has computed before, so that endless precedence halves its speed at most."""

    has_begun = False
    is_stopped = False

    def __init__(self, precedence: Precedence | None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._precedence, self._monotonic = precedence, monotonic
        self._resumed = 0.0
        self._owed = 0.0
        """Seconds that it may pause."""

    def run(self, function: Callable[[], T]) -> T:
        self.has_begun = True
        self._resumed = self._monotonic()
        with interruptible(self.check):
            self.check()  # it may have waited for its turn
            return function()

    def check(self) -> None:
        if self.is_stopped:
            raise Interrupted
        if self._precedence is not None and self._precedence.is_claimed:
            self._pause(self._precedence)

    def _pause(self, precedence: Precedence) -> None:
        """A wait takes longer than asked for; what it took too long is computed before the next one."""
        begun = self._monotonic()
        self._owed = min(self._owed + begun - self._resumed, _LONGEST_PAUSE)
        self._resumed = begun
        if self._owed > 0:
            precedence.wait(self._owed)
            self._resumed = self._monotonic()
            self._owed -= self._resumed - begun


def _ignore_result(future: asyncio.Future[T]) -> None:
    if not future.cancelled():
        future.exception()
