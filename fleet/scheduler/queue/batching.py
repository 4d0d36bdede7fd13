"""Batched requeues: keys that are requeued together at the end of a period.

While many clusters change at once, each placement is requeued once per period and not after every change. Keys are held
outside the sub-queues: a placement may be unschedulable, or in flight, and wait for the next batch as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.item import merge_trigger

BATCH_LIMIT: Final = 20_000
"""Keys in one batch."""


class RequeueBatches:
    def __init__(self, *, period: int) -> None:
        self._period = period
        self._waiting: dict[PlacementKey, tuple[str, ...]] = {}
        self.due: int | None = None
        """When the next batch is requeued; None without keys."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: PlacementKey) -> bool:
        return key in self._waiting

    @property
    def enabled(self) -> bool:
        return self._period > 0

    def add(self, keys: Iterable[PlacementKey], now: int, *, trigger: str) -> None:
        for key in keys:
            self._waiting[key] = merge_trigger(self._waiting.get(key, ()), trigger)
        if self._waiting and self.due is None:
            self.due = self._period_end(now)

    def pop(self, key: PlacementKey) -> tuple[str, ...]:
        """Removes the key; returns its triggers."""
        triggers = self._waiting.pop(key, ())
        if not self._waiting:
            self.due = None
        return triggers

    def pop_batch(self, now: int) -> dict[PlacementKey, tuple[str, ...]]:
        """The oldest keys, up to the limit; the others are in the batch after this one."""
        batch = dict(islice(self._waiting.items(), BATCH_LIMIT))
        for key in batch:
            del self._waiting[key]
        self.due = self._period_end(now) if self._waiting else None
        return batch

    def _period_end(self, now: int) -> int:
        return (now // self._period + 1) * self._period
