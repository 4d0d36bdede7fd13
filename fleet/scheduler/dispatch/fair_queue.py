"""A line in which placements take turns, so that one with ten thousand bindings does not hold up one with ten.

Of each placement, whoever has the lowest ticket goes first. A turn is long enough for the usual placement to be through
with it: were it a single call, all placements of a burst would be done only at its end. Whoever enters waits for one
turn of each of the others at most. Pure; what the tickets are for is left to `pending_calls`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

TURN: Final = 16
"""Calls."""


class Turns:
    def __init__(self) -> None:
        self._owners: deque[str] = deque()
        """Whose turn it is, and who follows."""
        self._tickets: dict[str, list[tuple[int, str]]] = {}
        self._taken = 0
        """In the present turn."""

    def enter(self, owner: str, *, ticket: int, key: str) -> None:
        waiting = self._tickets.get(owner)
        if waiting is None:
            self._tickets[owner] = [(ticket, key)]
            self._owners.append(owner)
        else:
            heapq.heappush(waiting, (ticket, key))

    def next(self, take: Callable[[int, str], T | None]) -> T | None:
        """What `take` makes of the next place. One that it finds empty, with None, does not count."""
        while self._owners:
            waiting = self._tickets[self._owners[0]]
            taken = None
            while waiting and taken is None:
                taken = take(*heapq.heappop(waiting))
            self._taken += 1
            if not waiting:
                del self._tickets[self._owners.popleft()]
                self._taken = 0
            elif self._taken >= TURN:
                self._owners.rotate(-1)
                self._taken = 0
            if taken is not None:
                return taken
        return None
