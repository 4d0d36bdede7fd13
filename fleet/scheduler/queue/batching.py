"""The slow lane: keys whose waking is put off, so that a fleet in motion wakes everybody once and not all the time.

It holds keys beside the queue's items, because a placement may have been rejected, or be in work, and wait for the next
batch all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from fleet.scheduler.queue.item import coalesced
from fleet.scheduler.queue.timing import BATCH_LIMIT


class SlowLane:
    def __init__(self, *, period: int) -> None:
        self._period = period
        self._waiting: dict[str, tuple[str, ...]] = {}
        self.due: int | None = None
        """When the next batch is moved; None with nobody waiting."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting

    @property
    def open(self) -> bool:
        return self._period > 0

    def add(self, keys: Iterable[str], now: int, *, trigger: str) -> None:
        for key in keys:
            self._waiting[key] = coalesced(self._waiting.get(key, ()), trigger)
        if self._waiting and self.due is None:
            self.due = (now // self._period + 1) * self._period

    def take(self, key: str) -> tuple[str, ...]:
        """The key waits no longer; says what for it did."""
        triggers = self._waiting.pop(key, ())
        if not self._waiting:
            self.due = None
        return triggers

    def take_batch(self, now: int) -> dict[str, tuple[str, ...]]:
        """Whoever waits longest, up to the limit; the others wait for the batch after this one."""
        batch = dict(islice(self._waiting.items(), BATCH_LIMIT))
        for key in batch:
            del self._waiting[key]
        self.due = (now // self._period + 1) * self._period if self._waiting else None
        return batch
