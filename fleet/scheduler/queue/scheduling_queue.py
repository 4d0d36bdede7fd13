"""Which placement is tried next, and when one that could not be placed is tried again.

A pure state machine: every verb is told the time, nothing here waits, and the same calls always give the same order.
Waiting for an item, timers and the clock are left to `queue_shell`; what an event means for a placement to `hints`.

An item is in one place: *active* (to be taken now, by rank), *back-off* (soon: one heap for rejected placements, one
for failed attempts), the *pool* (when an event says so) or *in flight* (a worker has it). A key is never in two of
them, and one that is wanted while in flight comes again when it is back. The slow lane holds keys beside all that.

Placements of `DefaultProfile` never back off after a rejection and are never retried without a reason. Failed attempts
back off in every profile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fleet.scheduler.queue.backoff_queue import Describe, Observe, Places, PreEnqueue, Rank
from fleet.scheduler.queue.batching import SlowLane
from fleet.scheduler.queue.hints import QueueEvent, QueueingHints, QueueingStrategy
from fleet.scheduler.queue.in_flight import Flight, InFlight
from fleet.scheduler.queue.item import (
    DEFAULT_POLICY,
    ItemState,
    PlacementTraits,
    QueueCounts,
    QueueItem,
)
from fleet.scheduler.queue.timing import SECOND, Doubling, QueueSettings, TokenBucket, nanoseconds
from plugins.basics import PrioritySort

RETRY: Final = "Retry"
FORCED: Final = "ForceActivate"

DEFAULT_SETTINGS: Final = QueueSettings()


def _plain(key: str) -> PlacementTraits:
    return PlacementTraits(uid=key, policy=DEFAULT_POLICY)


class SchedulingQueue:
    def __init__(
        self,
        *,
        settings: QueueSettings = DEFAULT_SETTINGS,
        hints: QueueingHints | None = None,
        describe: Describe = _plain,
        order: Rank | None = None,
        pre_enqueue: PreEnqueue | None = None,
        observe: Observe | None = None,
    ) -> None:
        """`order` is the key of the profiles' QueueSort; `observe` hears of every item that enters a place, and why."""
        self._hints = hints or QueueingHints()
        rank = order or PrioritySort().key
        self._places = Places(settings, rank=rank, describe=describe, pre_enqueue=pre_enqueue, observe=observe)
        self._items = self._places.items
        self._in_flight = InFlight()
        self._slow = SlowLane(period=nanoseconds(settings.batch_period))
        self._error_waits = Doubling(nanoseconds(settings.base_delay), nanoseconds(settings.max_delay))
        self._error_tokens = TokenBucket(settings.rate, settings.burst)

    # --- what it holds ------------------------------------------------------------------------------------------------

    def __contains__(self, key: str) -> bool:
        return key in self._items or key in self._slow

    @property
    def ready(self) -> int:
        """How many items could be taken now."""
        return self._places.ready

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def recorded_events(self) -> Sequence[QueueEvent]:
        """What somebody in flight may have missed."""
        return self._in_flight.events

    def get(self, key: str) -> QueueItem | None:
        return self._items.get(key)

    def count_items(self) -> QueueCounts:
        places = self._places
        return QueueCounts(
            active=len(places.active),
            backoff=len(places.rejected) + len(places.failed),
            unschedulable=len(places.pool.items) - places.pool.gated,
            gated=places.pool.gated,
            in_flight=len(self._in_flight),
            batched=len(self._slow),
        )

    def count_unschedulable_by_plugin(self) -> Mapping[str, int]:
        """Items in the pool by who has to change their mind; the empty name stands for nobody in particular."""
        return {plugin: len(items) for plugin, items in self._places.pool.by_plugin.items()}

    # --- reasons to run -----------------------------------------------------------------------------------------------

    def add(self, key: str, now: int, *, trigger: str) -> None:
        """The placement itself gives a reason: it runs as soon as a worker is free, whatever it waits for."""
        item = self._items.get(key)
        if item is None:
            self._places.admit(key, now, (trigger,))
        elif item.state is ItemState.IN_FLIGHT:
            self._in_flight.of(key).note(trigger, at_once=True)
        else:
            self._places.refresh(item)
            self._places.hurry(item, now, trigger)

    def requeue(self, keys: Iterable[str], now: int, *, trigger: str, batched: bool = False) -> None:
        """Something changed that these placements read, known from an index. Held ones stay held."""
        if batched and self._slow.open:
            self._slow.add((key for key in keys if not self._coalesced(key, trigger)), now, trigger=trigger)
            return
        for key in keys:
            self._wake(key, now, trigger)

    def handle_event(self, event: QueueEvent, now: int) -> None:
        """Wakes the rejected placements that the event can help, as far as the plugins' hints can tell."""
        if not self._hints.handles(event.kind):
            return
        self._in_flight.record(event)
        for key, wake in self._hints.evaluate(event, self._places.pool.by_plugin).items():
            self._places.stir(self._items[key], now, wake=wake, trigger=str(event))

    def activate(self, keys: Iterable[str], now: int) -> None:
        """Somebody insists: no back-off, no waiting for an event. Unknown keys are nobody's business."""
        for key in keys:
            item = self._items.get(key)
            if item is None:
                if key in self._slow:
                    self._places.admit(key, now, (FORCED,))
            elif item.state is not ItemState.IN_FLIGHT:
                self._places.hurry(item, now, FORCED)
            elif not (flight := self._in_flight.of(key)).deleted or flight.again:
                flight.note(FORCED, at_once=True)

    def flush_batch(self, now: int) -> None:
        """Wakes who waits in the slow lane, before its time if need be."""
        for key, triggers in self._slow.take_batch(now).items():
            for trigger in triggers:
                self._wake(key, now, trigger)

    def delete(self, key: str, now: int) -> None:
        """The placement is gone. A worker that has it may finish; nothing comes of that."""
        del now  # the verbs look alike
        self._slow.take(key)
        item = self._items.get(key)
        if item is None:
            return
        if item.state is ItemState.IN_FLIGHT:
            self._in_flight.of(key).forget()
            self._in_flight.stop_listening(key)
        else:
            self._places.drop(item)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def pop(self, now: int) -> QueueItem | None:
        """The first item. The worker says `succeeded`, `rejected` or `failed` in every case."""
        self._flush(now)
        item = self._places.take(now)
        if item is None:
            return None
        for trigger in self._slow.take(item.key):
            item.add_trigger(trigger)
        self._in_flight.take_off(item)
        return item

    def mark_permitted(self, key: str) -> None:
        """The clusters are settled; from here on events are no concern of this attempt."""
        self._in_flight.stop_listening(key)

    def mark_succeeded(self, key: str, now: int) -> None:
        """Nothing is left to do; the next failure starts over."""
        flight = self._in_flight.land(key)
        self._renew(flight, now)

    def mark_unschedulable(
        self, key: str, now: int, *, rejectors: Iterable[str] = (), pending: Iterable[str] = ()
    ) -> None:
        """Too few clusters qualify: waits in the pool, unless what it missed in flight wakes it."""
        events = self._in_flight.events_since_taken(key)
        flight = self._in_flight.land(key)
        if flight.deleted:
            self._renew(flight, now)
            return
        item = flight.item
        item.unschedulable_count += 1
        item.consecutive_errors_count = 0
        item.rejectors, item.pending = frozenset(rejectors), frozenset(pending)
        self._come_back(flight, now)
        wake = self._meanwhile(flight, events)
        if wake is QueueingStrategy.SKIP:
            self._places.rest(item, now)
        else:
            self._places.requeue(item, now, wake)

    def mark_failed(self, key: str, now: int, *, at_least_seconds: float = 0) -> float:
        """The attempt went wrong: comes back by itself, later after each failure, and together with all others no
        faster than the shared budget. Says in how many seconds."""
        flight = self._in_flight.land(key)
        if flight.deleted:
            self._renew(flight, now)
            return 0.0
        item = flight.item
        item.consecutive_errors_count += 1
        item.rejectors = item.pending = frozenset()
        wait = max(self._error_waits.nth(item.consecutive_errors_count), self._error_tokens.take(now))
        wait = max(wait, nanoseconds(at_least_seconds))
        self._come_back(flight, now)
        if flight.at_once:
            self._places.requeue(item, now, QueueingStrategy.IMMEDIATELY)
            return 0.0
        item.add_trigger(RETRY)
        self._places.retry(item, now, wait=wait)
        return wait / SECOND

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> list[QueueItem]:
        """Moves what is due. Returns items that have been held for so long that their owners should hear of it; each
        reason is returned once."""
        self._flush(now)
        return self._places.long_held(now)

    def next_due(self, now: int) -> int | None:
        """When `tick` has something to do; None if only a call can change anything."""
        moments = self._places.due()
        if self._slow.due is not None:
            moments.append(self._slow.due)
        return max(now, min(moments)) if moments else None

    def _flush(self, now: int) -> None:
        self._places.flush(now)
        if self._slow.due is not None and self._slow.due <= now:
            self.flush_batch(now)

    # --- details ------------------------------------------------------------------------------------------------------

    def _wake(self, key: str, now: int, trigger: str) -> None:
        item = self._items.get(key)
        if item is None:
            self._places.admit(key, now, (trigger,))
        elif item.state is ItemState.IN_FLIGHT:
            self._in_flight.of(key).note(trigger, at_once=item.policy.immediate)
        elif item.gate is not None:
            item.add_trigger(trigger)
        elif item.policy.immediate:
            self._places.hurry(item, now, trigger)
        elif item.state is ItemState.UNSCHEDULABLE:
            self._places.stir(item, now, wake=QueueingStrategy.AFTER_BACKOFF, trigger=trigger)
        else:
            item.add_trigger(trigger)

    def _renew(self, flight: Flight, now: int) -> None:
        """After an attempt that leaves nothing behind."""
        key = flight.item.key
        del self._items[key]
        if flight.again:
            self._places.admit(key, now, flight.again)

    def _come_back(self, flight: Flight, now: int) -> None:
        flight.item.timestamp = now
        flight.item.triggers = flight.again
        if flight.again:
            self._places.refresh(flight.item)

    def _meanwhile(self, flight: Flight, events: list[QueueEvent] | None) -> QueueingStrategy:
        """How much of what happened in flight concerns the item. Items woken by an index were told directly."""
        wake = _wanted_again(flight)
        if events is None and not flight.item.policy.immediate:
            flight.item.add_trigger(RETRY)
            wake = max(wake, QueueingStrategy.AFTER_BACKOFF)
        for event in events or ():
            if wake is QueueingStrategy.IMMEDIATELY:
                break
            judged = self._hints.evaluate_item(event, flight.item)
            if judged:
                flight.item.add_trigger(str(event))
                wake = max(wake, judged)
        return wake

    def _coalesced(self, key: str, trigger: str) -> bool:
        """Whether the key runs so soon that it need not wait for the next batch."""
        item = self._items.get(key)
        if item is None or item.state is not ItemState.ACTIVE:
            return False
        item.add_trigger(trigger)
        return True


def _wanted_again(flight: Flight) -> QueueingStrategy:
    if not flight.again:
        return QueueingStrategy.SKIP
    return QueueingStrategy.IMMEDIATELY if flight.at_once else QueueingStrategy.AFTER_BACKOFF
