"""Who is next: of those who wait for a turn, whoever came first, however many turns they had before.

An answer takes several turns. If all took them in rotation, all would be answered late, and under load nobody in time.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count
from typing import Final

_own: Final[ContextVar[int]] = ContextVar("place")


class Line:
    def __init__(self) -> None:
        self._numbers = count()
        self._is_taken = False
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def join(self) -> None:
        """Gives the running task its place, behind all others."""
        _own.set(next(self._numbers))

    async def enter(self) -> None:
        """Returns when it is one's turn. Then `leave`."""
        if not self._is_taken:
            self._is_taken = True
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (_own.get(), next(self._numbers), called))
        try:
            await called
        except asyncio.CancelledError:
            if not called.cancelled():
                self.leave()  # it was called and cancelled at once
            raise

    def leave(self) -> None:
        self._forget_gone()
        if self._waiting:
            heappop(self._waiting)[-1].set_result(None)
        else:
            self._is_taken = False

    def is_first(self) -> bool:
        """Whether nobody with a better place waits behind the one whose turn it is."""
        self._forget_gone()
        return not self._waiting or self._waiting[0][0] >= _own.get()

    def _forget_gone(self) -> None:
        while self._waiting and self._waiting[0][-1].done():
            heappop(self._waiting)
