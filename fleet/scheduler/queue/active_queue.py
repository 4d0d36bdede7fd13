"""Active queue: items that a worker may take now, ordered by rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.kube.heap import KeyHeap
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.item import ItemState, QueueItem

Rank = Callable[[Any], Any]
"""The sort key of an item, from the profiles' QueueSort."""


class ActiveQueue:
    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self._heap: KeyHeap[PlacementKey] = KeyHeap()

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: QueueItem, now: int) -> None:
        item.state = ItemState.ACTIVE
        item.active_since = now
        if item.initial_attempt_timestamp is None:
            item.initial_attempt_timestamp = now
        self._heap.push(item.key, self._rank(item))

    def update_rank(self, item: QueueItem) -> None:
        self._heap.push(item.key, self._rank(item))

    def discard(self, item: QueueItem) -> None:
        self._heap.discard(item.key)

    def pop(self) -> PlacementKey | None:
        return self._heap.pop()
