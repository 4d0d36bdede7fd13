"""The places of the scheduling queue, and the moves between them that only time, rank and holds decide.

Rejected and failed items back off in heaps of their own, because only the first kind may be taken early: for failed
attempts the wait is what protects the hub. Which verb moves what is left to `queue`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fleet.scheduler.queue.heap import KeyHeap
from fleet.scheduler.queue.hints import QueueingStrategy
from fleet.scheduler.queue.item import ItemState, PlacementTraits, PreEnqueueGate, QueueItem
from fleet.scheduler.queue.timing import (
    HOLD_REPORT_DELAY,
    Doubling,
    QueueSettings,
    nanoseconds,
    window_end,
    window_of,
)
from fleet.scheduler.queue.unschedulable import Pool

TIMEOUT: Final = "UnschedulableTimeout"
REJECTED: Final = "AttemptRejected"

Rank = Callable[[Any], Any]
Describe = Callable[[str], PlacementTraits]
PreEnqueue = Callable[[QueueItem, int], PreEnqueueGate | None]
Observe = Callable[[ItemState, str], None]


class Places:
    def __init__(
        self,
        settings: QueueSettings,
        *,
        rank: Rank,
        describe: Describe,
        pre_enqueue: PreEnqueue | None,
        observe: Observe | None,
    ) -> None:
        self._rank = rank
        self._describe = describe
        self._pre_enqueue = pre_enqueue
        self._observe = observe
        self._early_pop = settings.early_pop
        self._rejection_waits = Doubling(nanoseconds(settings.initial_backoff), nanoseconds(settings.max_backoff))

        self.items: dict[str, QueueItem] = {}
        """All of them, also those in flight."""
        self.active = KeyHeap()
        self.rejected = KeyHeap()
        """By (window in which the back-off ends, rank)."""
        self.failed = KeyHeap()
        """By (end of the wait, rank)."""
        self.pool = Pool(longest=nanoseconds(settings.max_in_unschedulable))
        self._unreported = KeyHeap()
        """Held items by the moment their hold began, until somebody is told."""

    # --- in and out ---------------------------------------------------------------------------------------------------

    def admit(self, key: str, now: int, triggers: tuple[str, ...]) -> None:
        uid, priority, policy = self._describe(key)
        item = QueueItem(
            key, uid, priority, policy, added_at=now, timestamp=now, state=ItemState.UNSCHEDULABLE, triggers=triggers
        )
        self.items[key] = item
        if not self._is_held(item, now):
            self._activate(item, now)

    def refresh(self, item: QueueItem) -> None:
        """The placement may have changed."""
        traits = self._describe(item.key)
        if (item.uid, item.priority, item.policy) == traits:
            return
        item.uid, item.priority, item.policy = traits
        if item.state is ItemState.ACTIVE:
            self.active.push(item.key, self._rank(item))

    def drop(self, item: QueueItem) -> None:
        """An item that is not in flight."""
        self._leave(item)
        self._unreported.discard(item.key)
        del self.items[item.key]

    @property
    def ready(self) -> int:
        return len(self.active) + (len(self.rejected) if self._early_pop else 0)

    def take(self, now: int) -> QueueItem | None:
        """The first one, which is in flight from now on. Failed items are never taken before their time."""
        key = self.active.pop()
        if key is None and self._early_pop:
            key = self.rejected.pop()
        if key is None:
            return None
        item = self.items[key]
        if item.state is not ItemState.ACTIVE:
            item.active_since = now
        item.state = ItemState.IN_FLIGHT
        item.attempts += 1
        item.popped_at = now
        return item

    # --- moves --------------------------------------------------------------------------------------------------------

    def hurry(self, item: QueueItem, now: int, trigger: str) -> None:
        """Without regard to back-off. Who sat out a back-off was found free of holds before."""
        item.add_trigger(trigger)
        place = item.state
        if place is ItemState.ACTIVE:
            return
        self._leave(item)
        if place is not ItemState.UNSCHEDULABLE or not self._is_held(item, now):
            self._activate(item, now)

    def stir(self, item: QueueItem, now: int, *, wake: QueueingStrategy, trigger: str) -> None:
        """Out of the pool; the time spent there counts as back-off."""
        item.add_trigger(trigger)
        self.pool.take(item)
        self.requeue(item, now, wake)

    def requeue(self, item: QueueItem, now: int, wake: QueueingStrategy) -> None:
        """An item that is nowhere: it comes from the pool or from an attempt."""
        if self._is_held(item, now):
            return
        window = window_of(item.timestamp + self._rejection_waits.nth(item.unschedulable_count))
        free = wake is QueueingStrategy.IMMEDIATELY or item.policy.immediate or item.unschedulable_count == 0
        if free or window < window_of(now):
            self._activate(item, now)
        else:
            self.rejected.push(item.key, (window, self._rank(item)))
            self._enter(item, ItemState.BACKOFF)

    def retry(self, item: QueueItem, now: int, *, wait: int) -> None:
        if not self._is_held(item, now):
            self.failed.push(item.key, (now + wait, self._rank(item)))
            self._enter(item, ItemState.ERROR_BACKOFF)

    def rest(self, item: QueueItem, now: int) -> None:
        self.pool.put(item, now)
        self._enter(item, ItemState.UNSCHEDULABLE)

    def _activate(self, item: QueueItem, now: int) -> None:
        item.active_since = now
        if item.initial_attempt_timestamp is None:
            item.initial_attempt_timestamp = now
        self.active.push(item.key, self._rank(item))
        self._enter(item, ItemState.ACTIVE)

    def _enter(self, item: QueueItem, place: ItemState) -> None:
        item.state = place
        if self._observe is not None:
            self._observe(place, item.triggers[-1] if item.triggers else REJECTED)

    def _leave(self, item: QueueItem) -> None:
        if item.state is ItemState.UNSCHEDULABLE:
            self.pool.take(item)
        elif item.state is ItemState.ACTIVE:
            self.active.discard(item.key)
        elif item.state is ItemState.BACKOFF:
            self.rejected.discard(item.key)
        else:
            self.failed.discard(item.key)

    def _is_held(self, item: QueueItem, now: int) -> bool:
        """Asks whether the item may be queued; if not, it is in the pool afterwards."""
        before, item.gate = item.gate, self._pre_enqueue(item, now) if self._pre_enqueue else None
        if item.gate is None:
            if before is not None:
                self._unreported.discard(item.key)
            return False
        if item.gate != before:
            self._unreported.push(item.key, now)
        self.rest(item, now)
        return True

    # --- time ---------------------------------------------------------------------------------------------------------

    def flush(self, now: int) -> None:
        """Moves whose wait is over."""
        while self.failed and self.failed.first_order()[0] <= now:
            self._activate(self.items[self.failed.pop() or ""], now)
        while self.rejected and self.rejected.first_order()[0] < window_of(now):
            self._activate(self.items[self.rejected.pop() or ""], now)
        for key in self.pool.overdue(now):
            self.stir(self.items[key], now, wake=QueueingStrategy.AFTER_BACKOFF, trigger=TIMEOUT)

    def long_held(self, now: int) -> list[QueueItem]:
        """Each hold is in it once."""
        found = []
        while (since := self._unreported.first_order()) is not None and since + HOLD_REPORT_DELAY <= now:
            found.append(self.items[self._unreported.pop() or ""])
        return found

    def due(self) -> list[int]:
        """Moments at which `flush` or `long_held` finds something."""
        moments = []
        if self.failed:
            moments.append(self.failed.first_order()[0])
        if self.rejected:
            moments.append(window_end(self.rejected.first_order()[0]))
        if self._unreported:
            moments.append(self._unreported.first_order() + HOLD_REPORT_DELAY)
        flush = self.pool.next_flush()
        return moments if flush is None else [*moments, flush]
