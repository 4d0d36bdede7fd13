"""A heap of keys from which any key can be taken out.

Taking one out of the middle only forgets it; what is left of it goes when it comes to the top, or when leftovers
outnumber the keys. So every call is cheap and memory follows the number of keys.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Final

_TOLERATED_LEFTOVERS: Final = 32

_Entry = tuple[Any, int, str]


class KeyHeap:
    """The smallest order comes first; among equals, whoever was pushed first."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._live: dict[str, _Entry] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: str) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[str]:
        """In no particular order."""
        return iter(self._live)

    def push(self, key: str, order: Any) -> None:
        """A key that is there already gets the new order."""
        self._pushed += 1
        entry = (order, self._pushed, key)
        self._live[key] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._live) + _TOLERATED_LEFTOVERS:
            self._sweep()

    def discard(self, key: str) -> None:
        self._live.pop(key, None)
        if len(self._heap) > 2 * len(self._live) + _TOLERATED_LEFTOVERS:
            self._sweep()

    def first(self) -> str | None:
        heap = self._heap
        while heap:
            entry = heap[0]
            if self._live.get(entry[2]) is entry:
                return entry[2]
            heapq.heappop(heap)
        return None

    def first_order(self) -> Any:
        """None when there is no key."""
        return None if self.first() is None else self._heap[0][0]

    def pop(self) -> str | None:
        key = self.first()
        if key is not None:
            heapq.heappop(self._heap)
            del self._live[key]
        return key

    def _sweep(self) -> None:
        self._heap = list(self._live.values())
        heapq.heapify(self._heap)
