"""Heap of keys from which any key can be removed.

Removing a key from the middle only marks it as removed; its entry is dropped when it reaches the top, or when stale
entries outnumber the keys. So every call is cheap and memory follows the number of keys.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_TOLERATED_STALE: Final = 32


class KeyHeap(Generic[K]):
    """The smallest order is popped first; among equals, the key that was pushed first."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, K]] = []
        self._live: dict[K, tuple[Any, int, K]] = {}
        self._pushed = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: K) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[K]:
        """In no particular order."""
        return iter(self._live)

    def push(self, key: K, order: Any) -> None:
        """A key that is there already gets the new order."""
        self._pushed += 1
        entry = (order, self._pushed, key)
        self._live[key] = entry
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self._live) + _TOLERATED_STALE:
            self._sweep()

    def discard(self, key: K) -> None:
        self._live.pop(key, None)
        if len(self._heap) > 2 * len(self._live) + _TOLERATED_STALE:
            self._sweep()

    def order_of(self, key: K) -> Any:
        """None for a key that is not there."""
        entry = self._live.get(key)
        return None if entry is None else entry[0]

    def first_order(self) -> Any:
        """None when there is no key."""
        return self._heap[0][0] if self._has_live_top() else None

    def pop(self) -> K | None:
        if not self._has_live_top():
            return None
        key = heapq.heappop(self._heap)[2]
        del self._live[key]
        return key

    def pop_existing(self) -> K:
        """Of a heap that has a key."""
        key = self.pop()
        assert key is not None
        return key

    def _has_live_top(self) -> bool:
        """Drops stale entries from the top; whether a key is left."""
        heap = self._heap
        while heap:
            entry = heap[0]
            if self._live.get(entry[2]) is entry:
                return True
            heapq.heappop(heap)
        return False

    def _sweep(self) -> None:
        self._heap = list(self._live.values())
        heapq.heapify(self._heap)
