"""Backoff queue: items that become active again when their backoff ends.

Unschedulable and failed items wait in separate heaps, because only the first kind may be popped early: after a failed
attempt the delay protects the hub.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.clock import SECOND, to_nanoseconds
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.heap import KeyHeap
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.active_queue import Rank
from fleet.scheduler.queue.item import ItemState, QueueItem


def backoff_window(item: QueueItem, backoff: ExponentialBackoff) -> int:
    """The whole second in which the backoff of an unschedulable item ends. Items of one window are ordered by rank."""
    return (item.timestamp + to_nanoseconds(backoff.compute_delay(item.unschedulable_count - 1))) // SECOND


def window_end(window: int) -> int:
    """When all items of the window become active: a backoff takes at most a second more than its delay."""
    return (window + 1) * SECOND


class BackoffQueue:
    def __init__(self, backoff: ExponentialBackoff, *, rank: Rank) -> None:
        """`backoff` is that of unschedulable items; the delay of a failed item is part of its failure."""
        self._backoff = backoff
        self._rank = rank
        self._unschedulable: KeyHeap[PlacementKey] = KeyHeap()
        """By (window in which the backoff ends, rank)."""
        self._failed: KeyHeap[PlacementKey] = KeyHeap()
        """By (end of the delay, rank)."""

    def __len__(self) -> int:
        return len(self._unschedulable) + len(self._failed)

    @property
    def unschedulable(self) -> int:
        """How many items may be popped early."""
        return len(self._unschedulable)

    def add_unschedulable(self, item: QueueItem, now: int) -> bool:
        """False if the backoff of the item is over."""
        window = backoff_window(item, self._backoff)
        if window < now // SECOND:
            return False
        item.state = ItemState.BACKOFF
        self._unschedulable.push(item.key, (window, self._rank(item)))
        return True

    def add_failed(self, item: QueueItem, due: int) -> None:
        item.state = ItemState.ERROR_BACKOFF
        self._failed.push(item.key, (due, self._rank(item)))

    def discard(self, item: QueueItem) -> None:
        self._unschedulable.discard(item.key)
        self._failed.discard(item.key)

    def pop_early(self) -> PlacementKey | None:
        """Failed items are never popped before their time."""
        return self._unschedulable.pop()

    def pop_due(self, now: int) -> Iterator[PlacementKey]:
        """Keys of the items whose backoff is over."""
        while self._failed and self._failed.first_order()[0] <= now:
            yield self._failed.pop_existing()
        while self._unschedulable and self._unschedulable.first_order()[0] < now // SECOND:
            yield self._unschedulable.pop_existing()

    def due_times(self) -> Iterator[int]:
        """When `pop_due` has something to return."""
        if self._failed:
            yield self._failed.first_order()[0]
        if self._unschedulable:
            yield window_end(self._unschedulable.first_order()[0])
