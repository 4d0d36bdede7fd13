"""A lock whose waiters are served by tickets: a caller's first request before the further ones of others."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from heapq import heappop, heappush
from itertools import count
from typing import Final

Ticket = tuple[int, int]
"""How many requests of the same caller were in flight before, and a rising number."""

_ticket: Final[ContextVar[Ticket]] = ContextVar("ticket")


class FairLock:
    def __init__(self) -> None:
        self._numbers = count()
        self._is_held = False
        self._waiters: list[tuple[Ticket, int, asyncio.Future[None]]] = []

    def take_ticket(self, rank: int = 0) -> None:
        """Queues the running task behind all others of this rank, for as many acquisitions as it needs."""
        _ticket.set((rank, next(self._numbers)))

    async def acquire(self) -> None:
        if not self._is_held:
            self._is_held = True
            return
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiters, (_ticket.get(), next(self._numbers), granted))
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():
                self.release()  # granted and cancelled at the same time
            raise

    def release(self) -> None:
        self._drop_cancelled()
        if self._waiters:
            heappop(self._waiters)[-1].set_result(None)
        else:
            self._is_held = False

    def is_first(self) -> bool:
        """Whether no waiter has a lower ticket than the running task, which holds the lock."""
        self._drop_cancelled()
        return not self._waiters or self._waiters[0][0] >= _ticket.get()

    def _drop_cancelled(self) -> None:
        while self._waiters and self._waiters[0][-1].done():
            heappop(self._waiters)
