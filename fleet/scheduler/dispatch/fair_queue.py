"""Fair queue: round robin over placements, so that one with ten thousand bindings does not delay one with ten.

Within a placement the lowest ticket is first. A quantum is long enough for all calls of a typical placement: with
single calls, all placements of a burst would finish only at its end. A new placement waits for one quantum of each of
the others at most. Pure; tickets are assigned by `call_queue`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

QUANTUM: Final = 16
"""Calls that a placement may send before the next has its turn."""


class FairQueue:
    def __init__(self) -> None:
        self._owners: deque[str] = deque()
        """In the order of their turns."""
        self._tickets: dict[str, list[tuple[int, str]]] = {}
        self._taken = 0
        """In the present turn."""

    def push(self, owner: str, *, ticket: int, key: str) -> None:
        waiting = self._tickets.get(owner)
        if waiting is None:
            self._tickets[owner] = [(ticket, key)]
            self._owners.append(owner)
        else:
            heapq.heappush(waiting, (ticket, key))

    def pop(self, take: Callable[[int, str], T | None]) -> T | None:
        """The first result of `take` that is not None. Entries for which it returns None do not count."""
        while self._owners:
            waiting = self._tickets[self._owners[0]]
            taken = None
            while waiting and taken is None:
                taken = take(*heapq.heappop(waiting))
            self._taken += 1
            if not waiting:
                del self._tickets[self._owners.popleft()]
                self._taken = 0
            elif self._taken >= QUANTUM:
                self._owners.rotate(-1)
                self._taken = 0
            if taken is not None:
                return taken
        return None
