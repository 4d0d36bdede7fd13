"""Asynchronous reads of the decision history, which blocks, and the time since which it does not answer.

Its threads are its own: a database that hangs may occupy them all, and nothing else waits for them. A query that takes
too long is given up, and until the history answers again the next ones are refused at once.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from api.http.problems import refusal
from fleet.history import History

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = 4
_PATIENCE: Final = 10.0
"""Seconds for a query."""


class HistoryReader:
    def __init__(self, history: History | None) -> None:
        self.history = history
        self._outage_began: int | None = None
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="fleet-history-reader")

    def require(self) -> History:
        if self.history is None:
            raise refusal(
                503,
                "this process has no history of decisions",
                field="history.url",
                next="start it with --set history.url=URL; the present state can be explained without a history",
            )
        return self.history

    @property
    def revision(self) -> tuple[object, ...]:
        """Differs after every change of the history that is known in this process."""
        return () if self.history is None else (*self.history.revision, self._outage_began)

    async def call(self, query: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a query of the history in a thread."""
        work = functools.partial(contextvars.copy_context().run, query, *args, **kwargs)
        try:
            async with asyncio.timeout(_PATIENCE):
                result: T = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except TimeoutError as error:
            raise self.require().report_timeout(_PATIENCE) from error
        self.end_outage()
        return result

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    @property
    def may_lag(self) -> bool:
        """Whether the newest decisions may not be in the history, as far as this process knows."""
        return self.history is not None and (self.history.known_since or self._outage_began) is not None

    def begin_outage(self, now: int) -> int:
        """The start of the present outage, as the history or this process noticed it first."""
        if self._outage_began is None:
            self._outage_began = now
        return self.require().known_since or self._outage_began

    def end_outage(self) -> None:
        self._outage_began = None
