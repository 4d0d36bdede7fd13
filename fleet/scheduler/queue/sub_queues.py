"""Sub-queues of the scheduling queue (active, backoff, unschedulable) and the moves between them.

An item that is not in flight is in exactly one of them. Which call or event causes a move is left to
`scheduling_queue`; this module applies backoff, rank and PreEnqueue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fleet.clock import SECOND, to_nanoseconds
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.heap import KeyHeap
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.active_queue import ActiveQueue, Rank
from fleet.scheduler.queue.backoff_queue import BackoffQueue
from fleet.scheduler.queue.hints import QueueingStrategy
from fleet.scheduler.queue.item import ItemState, PlacementTraits, PreEnqueueGate, QueueItem
from fleet.scheduler.queue.settings import QueueSettings
from fleet.scheduler.queue.unschedulable import UnschedulablePool

TIMEOUT: Final = "UnschedulableTimeout"
REJECTED: Final = "AttemptRejected"

GATE_REPORT_DELAY: Final = 5 * SECOND
"""Gates that open sooner are not reported."""

Describe = Callable[[PlacementKey], PlacementTraits]
PreEnqueue = Callable[[QueueItem, int], PreEnqueueGate | None]
Observe = Callable[[ItemState, str], None]


class SubQueues:
    def __init__(
        self,
        settings: QueueSettings,
        *,
        rank: Rank,
        describe: Describe,
        pre_enqueue: PreEnqueue | None,
        observe: Observe | None,
    ) -> None:
        self._describe = describe
        self._pre_enqueue = pre_enqueue
        self._observe = observe
        self._early_pop = settings.early_pop
        self.items: dict[PlacementKey, QueueItem] = {}
        """All of them, also those in flight."""
        self.active = ActiveQueue(rank)
        self.backoff = BackoffQueue(ExponentialBackoff(settings.initial_backoff, settings.max_backoff), rank=rank)
        self.unschedulable = UnschedulablePool(max_time=to_nanoseconds(settings.max_in_unschedulable))
        self._unreported: KeyHeap[PlacementKey] = KeyHeap()
        """Gated items by the moment at which their gate was closed, until they are reported."""

    # --- in and out ---------------------------------------------------------------------------------------------------

    def add_new(self, key: PlacementKey, now: int, triggers: tuple[str, ...]) -> None:
        uid, priority, policy = self._describe(key)
        item = QueueItem(
            key, uid, priority, policy, added_at=now, timestamp=now, state=ItemState.UNSCHEDULABLE, triggers=triggers
        )
        self.items[key] = item
        if not self._is_gated(item, now):
            self._add_active(item, now)

    def update_traits(self, item: QueueItem) -> None:
        """After a change of the placement."""
        traits = self._describe(item.key)
        if (item.uid, item.priority, item.policy) == traits:
            return
        item.uid, item.priority, item.policy = traits
        if item.state is ItemState.ACTIVE:
            self.active.update_rank(item)

    def remove(self, item: QueueItem) -> None:
        """An item that is not in flight."""
        self._leave(item)
        self._unreported.discard(item.key)
        del self.items[item.key]

    @property
    def ready(self) -> int:
        return len(self.active) + (self.backoff.unschedulable if self._early_pop else 0)

    def pop(self, now: int) -> QueueItem | None:
        """The first item, which is in flight from now on."""
        key = self.active.pop()
        if key is None and self._early_pop:
            key = self.backoff.pop_early()
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

    def activate(self, item: QueueItem, now: int, trigger: str) -> None:
        """Skips backoff. PreEnqueue runs only for items of the pool: backoff is entered after it."""
        item.add_trigger(trigger)
        state = item.state
        if state is ItemState.ACTIVE:
            return
        self._leave(item)
        if state is not ItemState.UNSCHEDULABLE or not self._is_gated(item, now):
            self._add_active(item, now)

    def requeue_unschedulable(self, item: QueueItem, now: int, *, strategy: QueueingStrategy, trigger: str) -> None:
        """Out of the pool; the time spent there counts as backoff."""
        item.add_trigger(trigger)
        self.unschedulable.remove(item)
        self.move_to_active_or_backoff(item, now, strategy)

    def move_to_active_or_backoff(self, item: QueueItem, now: int, strategy: QueueingStrategy) -> None:
        """An item that is in no sub-queue: it was taken from the pool, or returned by an attempt."""
        if self._is_gated(item, now):
            return
        skips_backoff = (
            strategy is QueueingStrategy.IMMEDIATELY or item.policy.immediate or not item.unschedulable_count
        )
        if skips_backoff or not self.backoff.add_unschedulable(item, now):
            self._add_active(item, now)
        else:
            self._observe_entry(item)

    def add_failed(self, item: QueueItem, now: int, *, delay: int) -> None:
        if not self._is_gated(item, now):
            self.backoff.add_failed(item, now + delay)
            self._observe_entry(item)

    def add_unschedulable(self, item: QueueItem, now: int) -> None:
        self.unschedulable.add(item, now)
        self._observe_entry(item)

    def _add_active(self, item: QueueItem, now: int) -> None:
        self.active.add(item, now)
        self._observe_entry(item)

    def _observe_entry(self, item: QueueItem) -> None:
        if self._observe is not None:
            self._observe(item.state, item.triggers[-1] if item.triggers else REJECTED)

    def _leave(self, item: QueueItem) -> None:
        if item.state is ItemState.UNSCHEDULABLE:
            self.unschedulable.remove(item)
        elif item.state is ItemState.ACTIVE:
            self.active.discard(item)
        else:
            self.backoff.discard(item)

    def _is_gated(self, item: QueueItem, now: int) -> bool:
        """Runs PreEnqueue. A gated item is in the unschedulable pool afterwards."""
        before, item.gate = item.gate, self._pre_enqueue(item, now) if self._pre_enqueue else None
        if item.gate is None:
            if before is not None:
                self._unreported.discard(item.key)
            return False
        if item.gate != before:
            self._unreported.push(item.key, now)
        self.add_unschedulable(item, now)
        return True

    # --- time ---------------------------------------------------------------------------------------------------------

    def flush(self, now: int) -> None:
        """Moves items whose backoff or timeout has expired."""
        for key in self.backoff.pop_due(now):
            self._add_active(self.items[key], now)
        for item in self.unschedulable.list_overdue(now):
            self.requeue_unschedulable(item, now, strategy=QueueingStrategy.AFTER_BACKOFF, trigger=TIMEOUT)

    def pop_unreported(self, now: int) -> list[QueueItem]:
        """Items that have been gated for long; each gate is returned once."""
        items = []
        while (since := self._unreported.first_order()) is not None and since + GATE_REPORT_DELAY <= now:
            items.append(self.items[self._unreported.pop_existing()])
        return items

    def due_times(self) -> list[int]:
        """When `flush` or `pop_unreported` has something to do."""
        times = [*self.backoff.due_times()]
        if self._unreported:
            times.append(self._unreported.first_order() + GATE_REPORT_DELAY)
        flush = self.unschedulable.next_flush()
        return times if flush is None else [*times, flush]
