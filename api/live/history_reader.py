"""Asynchronous reads of the decision history, which blocks, and the time since which it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from api.http.problems import refusal
from fleet.history import History

P = ParamSpec("P")
T = TypeVar("T")


class HistoryReader:
    def __init__(self, history: History | None) -> None:
        self.history = history
        self._outage_began: int | None = None

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
        result = await asyncio.to_thread(query, *args, **kwargs)
        self.end_outage()
        return result

    def begin_outage(self, now: int) -> int:
        """The start of the present outage, as the history or this process noticed it first."""
        if self._outage_began is None:
            self._outage_began = now
        return self.require().known_since or self._outage_began

    def end_outage(self) -> None:
        self._outage_began = None
