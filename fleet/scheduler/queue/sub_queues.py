"""Sub-queues of the scheduling queue (active, backoff, unschedulable), the moves between them, and items in flight.

An item is in exactly one sub-queue, or in flight. Which call or event causes a move is left to
`scheduling_queue`; this module applies backoff, rank and PreEnqueue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from fleet.clock import SECOND, to_nanoseconds
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.workqueue import KeyHeap
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.hints import NO_PLUGIN, QueueEvent, QueueingStrategy
from fleet.scheduler.queue.item import ItemState, PlacementTraits, PreEnqueueGate, QueueItem, merge_trigger
from fleet.scheduler.queue.settings import QueueSettings

TIMEOUT: Final = "UnschedulableTimeout"
REJECTED: Final = "AttemptRejected"

GATE_REPORT_DELAY: Final = 5 * SECOND
"""Gates that open sooner are not reported."""

FLUSH_PERIOD: Final = 30 * SECOND
"""How often the pool is flushed of placements that have been in it for too long."""

Rank = Callable[[Any], Any]
"""The sort key of an item, from the profiles' QueueSort."""
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
        self._rank = rank
        self.active: KeyHeap[PlacementKey] = KeyHeap()
        """Items that a worker may take now, by rank."""
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
            self.active.push(item.key, self._rank(item))

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

    def take(self, item: QueueItem, now: int) -> bool:
        """Beside the first item, whatever its rank. Not one that is gated, or whose attempt failed a moment ago."""
        if item.gate is not None or item.state in (ItemState.IN_FLIGHT, ItemState.ERROR_BACKOFF):
            return False
        if item.state is not ItemState.ACTIVE:
            item.active_since = now
        self._leave(item)
        item.state = ItemState.IN_FLIGHT
        item.attempts += 1
        item.popped_at = now
        return True

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

    def hold_if_gated(self, item: QueueItem, now: int, trigger: str) -> bool:
        """Runs PreEnqueue for an item that was let into a queue before. Those of the pool go through it on their way
        out."""
        if item.state is ItemState.UNSCHEDULABLE or not self._finds_gate(item, now):
            return False
        item.add_trigger(trigger)
        self._leave(item)
        self.add_unschedulable(item, now)
        return True

    def requeue_unschedulable(self, item: QueueItem, now: int, *, strategy: QueueingStrategy, trigger: str) -> None:
        """Out of the pool; the time spent there counts as backoff."""
        item.add_trigger(trigger)
        self.unschedulable.remove(item)
        self.move_to_active_or_backoff(item, now, strategy)

    def move_to_active_or_backoff(self, item: QueueItem, now: int, strategy: QueueingStrategy) -> None:
        """An item that is in no sub-queue: it was taken from the pool, or returned by an attempt."""
        if self._is_gated(item, now):
            return
        if strategy is QueueingStrategy.AFTER_FULL_BACKOFF and self.backoff.add_refused(item, now):
            self._observe_entry(item)
            return
        skips_backoff = (
            strategy is not QueueingStrategy.AFTER_BACKOFF or item.policy.immediate or not item.unschedulable_count
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
        item.state = ItemState.ACTIVE
        item.active_since = now
        if item.initial_attempt_timestamp is None:
            item.initial_attempt_timestamp = now
        self.active.push(item.key, self._rank(item))
        self._observe_entry(item)

    def _observe_entry(self, item: QueueItem) -> None:
        if self._observe is not None:
            self._observe(item.state, item.triggers[-1] if item.triggers else REJECTED)

    def _leave(self, item: QueueItem) -> None:
        if item.state is ItemState.UNSCHEDULABLE:
            self.unschedulable.remove(item)
        elif item.state is ItemState.ACTIVE:
            self.active.discard(item.key)
        else:
            self.backoff.discard(item)

    def _is_gated(self, item: QueueItem, now: int) -> bool:
        """Runs PreEnqueue. A gated item is in the unschedulable pool afterwards."""
        if not self._finds_gate(item, now):
            return False
        self.add_unschedulable(item, now)
        return True

    def _finds_gate(self, item: QueueItem, now: int) -> bool:
        before, item.gate = item.gate, self._pre_enqueue(item, now) if self._pre_enqueue else None
        if item.gate is None:
            if before is not None:
                self._unreported.discard(item.key)
            return False
        if item.gate != before:
            self._unreported.push(item.key, now)
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


# --- backoff ----------------------------------------------------------------------------------------------------------


def backoff_window(item: QueueItem, backoff: ExponentialBackoff) -> int:
    """The whole second in which the backoff of an unschedulable item ends. Items of one window are ordered by rank."""
    return compute_backoff_end(item, backoff) // SECOND


def compute_backoff_end(item: QueueItem, backoff: ExponentialBackoff) -> int:
    return item.returned_at + to_nanoseconds(backoff.compute_delay(item.unschedulable_count - 1))


def window_end(window: int) -> int:
    """When all items of the window become active: a backoff takes at most a second more than its delay."""
    return (window + 1) * SECOND


class BackoffQueue:
    """Items that become active again when their backoff ends.

    Unschedulable and failed items wait in separate heaps, because only the first kind may be popped early: after a
    failed attempt the delay protects the hub.
    """

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

    def add_refused(self, item: QueueItem, now: int) -> bool:
        """Until the very end of its backoff. False if that is over."""
        due = compute_backoff_end(item, self._backoff)
        if due <= now:
            return False
        self.add_failed(item, due)
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


# --- unschedulable ----------------------------------------------------------------------------------------------------


def flush_time(pooled_at: int, max_time: int) -> int:
    """The first flush at which an item has been in the pool for longer than that."""
    return ((pooled_at + max_time) // FLUSH_PERIOD + 1) * FLUSH_PERIOD


class UnschedulablePool:
    """Placements that only an event can help, and those that PreEnqueue plugins keep out."""

    def __init__(self, *, max_time: int) -> None:
        """Items with a timed retry are flushed after `max_time` in the pool; 0 for never."""
        self.items: dict[PlacementKey, QueueItem] = {}
        self.by_plugin: dict[str, dict[PlacementKey, QueueItem]] = {}
        """Items by the plugins that rejected them, or by the one that gates them."""
        self.gated = 0
        self._max_time = max_time
        self._timed: KeyHeap[PlacementKey] = KeyHeap()
        """By the time at which they entered the pool."""

    def add(self, item: QueueItem, now: int) -> None:
        item.state = ItemState.UNSCHEDULABLE
        item.pooled_at = now
        self.items[item.key] = item
        self.gated += item.gate is not None
        for plugin in _plugins_of(item):
            self.by_plugin.setdefault(plugin, {})[item.key] = item
        if item.policy.timed_retry and self._max_time:
            self._timed.push(item.key, now)

    def remove(self, item: QueueItem) -> None:
        """Before anything about the item changes."""
        key = item.key
        del self.items[key]
        self.gated -= item.gate is not None
        for plugin in _plugins_of(item):
            items = self.by_plugin[plugin]
            del items[key]
            if not items:
                del self.by_plugin[plugin]
        self._timed.discard(key)

    def next_flush(self) -> int | None:
        since: int | None = self._timed.first_order()
        return None if since is None else flush_time(since, self._max_time)

    def list_overdue(self, now: int) -> Iterator[QueueItem]:
        """Items to flush. They stay in the pool until they are removed."""
        while (due := self.next_flush()) is not None and due <= now:
            yield self.items[self._timed.pop_existing()]


def _plugins_of(item: QueueItem) -> Collection[str]:
    if item.gate is not None:
        return (item.gate.plugin,)
    if item.pending:
        return item.rejectors | item.pending
    return item.rejectors or (NO_PLUGIN,)


# --- in flight --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class InFlightPlacement:
    item: QueueItem
    triggers: tuple[str, ...] = ()
    """Why it has to run once more after this attempt."""
    immediate: bool = False
    """One of them skips backoff."""
    deleted: bool = False
    """The placement is gone; later triggers are about a new one of the same name."""

    def add_trigger(self, trigger: str, *, immediate: bool) -> None:
        self.triggers = merge_trigger(self.triggers, trigger)
        self.immediate |= immediate

    def mark_deleted(self) -> None:
        self.deleted = True
        self.triggers = ()
        self.immediate = False


class InFlightPlacements:
    """In-flight placements, and the events recorded while they are being scheduled.

    An attempt may reject a placement for a reason that an event removes during the attempt. So an event is recorded as
    long as an item is in flight that was popped before it, and an item that is returned to the queue gets the events it
    missed.
    """

    def __init__(self) -> None:
        self.placements: dict[PlacementKey, InFlightPlacement] = {}
        self._recording: dict[PlacementKey, int] = {}
        """How many events there had been when the item was popped; oldest first."""
        self._events: deque[QueueEvent] = deque()
        self._trimmed = 0
        """How many events have been dropped."""

    @property
    def events(self) -> Sequence[QueueEvent]:
        """Those that an item in flight may have missed."""
        return self._events

    def get(self, key: PlacementKey) -> InFlightPlacement:
        return self.placements[key]

    def start(self, item: QueueItem) -> None:
        self.placements[item.key] = InFlightPlacement(item)
        self._recording[item.key] = self._trimmed + len(self._events)

    def record(self, event: QueueEvent) -> None:
        if self._recording:
            self._events.append(event)

    def stop_recording(self, key: PlacementKey) -> None:
        """From here on events are irrelevant for the item."""
        if self._recording.pop(key, None) is not None:
            self._trim()

    def list_missed_events(self, key: PlacementKey) -> list[QueueEvent] | None:
        """The events since the item was popped; None after `stop_recording`."""
        since = self._recording.get(key)
        return None if since is None else list(islice(self._events, since - self._trimmed, None))

    def finish(self, key: PlacementKey) -> InFlightPlacement:
        placement = self.placements.pop(key, None)
        if placement is None:
            raise ValueError(f"{str(key)!r} is not in flight")
        self.stop_recording(key)
        return placement

    def _trim(self) -> None:
        oldest = next(iter(self._recording.values()), self._trimmed + len(self._events))
        while self._trimmed < oldest:
            self._events.popleft()
            self._trimmed += 1
