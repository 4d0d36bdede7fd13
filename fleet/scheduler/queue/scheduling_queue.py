"""Scheduling queue: decides which placement is tried next, and when one that could not be placed is retried.

`SchedulingQueue` is a pure state machine: every method gets the time, no method waits, and the same calls always give
the same order. `async_queue` adds the clock, a timer and waiting. What an event means for a placement is decided in
`hints`.

An item is in one sub-queue, *active* (to be popped now, by rank), *backoff* (soon: one heap for unschedulable
placements, one for failed attempts) or the *unschedulable* pool (until an event), or it is *in flight* (a worker has
it). A key that is requeued while in flight is queued again after the attempt. Batched requeues hold keys in addition.

Placements of `DefaultProfile` have no backoff after a rejection and are never retried without an event. Failed attempts
back off in every profile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from fleet.clock import SECOND, to_nanoseconds
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.client.rate_limiter import RateLimit, TokenBucket
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.batching import RequeueBatches
from fleet.scheduler.queue.hints import QueueEvent, QueueingHints, QueueingStrategy
from fleet.scheduler.queue.item import DEFAULT_POLICY, ItemState, PlacementTraits, QueueCounts, QueueItem
from fleet.scheduler.queue.settings import QueueSettings
from fleet.scheduler.queue.sub_queues import (
    Describe,
    InFlightPlacement,
    InFlightPlacements,
    Observe,
    PreEnqueue,
    Rank,
    SubQueues,
)
from plugins.priority_sort import PrioritySort

RETRY: Final = "Retry"
FORCED: Final = "ForceActivate"

DEFAULT_SETTINGS: Final = QueueSettings()


def _describe_default(key: PlacementKey) -> PlacementTraits:
    return PlacementTraits(uid=str(key), policy=DEFAULT_POLICY)


class SchedulingQueue:
    def __init__(
        self,
        *,
        settings: QueueSettings = DEFAULT_SETTINGS,
        hints: QueueingHints | None = None,
        describe: Describe = _describe_default,
        order: Rank | None = None,
        pre_enqueue: PreEnqueue | None = None,
        observe: Observe | None = None,
    ) -> None:
        """`order` is the key of the profiles' QueueSort; `observe` gets every item that enters a sub-queue, and why."""
        self._hints = hints or QueueingHints()
        rank = order or PrioritySort().key
        self._queues = SubQueues(settings, rank=rank, describe=describe, pre_enqueue=pre_enqueue, observe=observe)
        self._items = self._queues.items
        self._in_flight = InFlightPlacements()
        self._batches = RequeueBatches(period=to_nanoseconds(settings.batch_period))
        self._error_backoff = ExponentialBackoff(settings.base_delay, settings.max_delay)
        self._error_tokens = TokenBucket(RateLimit(settings.rate, settings.burst))

    # --- content ------------------------------------------------------------------------------------------------------

    def __contains__(self, key: PlacementKey) -> bool:
        return key in self._items or key in self._batches

    @property
    def ready(self) -> int:
        """How many items could be popped now."""
        return self._queues.ready

    @property
    def is_idle(self) -> bool:
        """Whether no item is in flight."""
        return not self._in_flight.placements

    @property
    def in_flight(self) -> Collection[PlacementKey]:
        return self._in_flight.placements.keys()

    @property
    def recorded_events(self) -> Sequence[QueueEvent]:
        """Those that an item in flight may have missed."""
        return self._in_flight.events

    def get(self, key: PlacementKey) -> QueueItem | None:
        return self._items.get(key)

    def count_active(self) -> int:
        return len(self._queues.active)

    def count_items(self) -> QueueCounts:
        queues, pool = self._queues, self._queues.unschedulable
        return QueueCounts(
            active=len(queues.active),
            backoff=len(queues.backoff),
            unschedulable=len(pool.items) - pool.gated,
            gated=pool.gated,
            in_flight=len(self._in_flight.placements),
            batched=len(self._batches),
        )

    def count_unschedulable_by_plugin(self) -> Mapping[str, int]:
        """Items of the unschedulable pool by the plugin that rejects or gates them; "" for those without one."""
        return {plugin: len(items) for plugin, items in self._queues.unschedulable.by_plugin.items()}

    # --- reasons to run -----------------------------------------------------------------------------------------------

    def add(self, key: PlacementKey, now: int, *, trigger: str) -> None:
        """For a change of the placement itself: it runs as soon as a worker is free, without backoff."""
        item = self._items.get(key)
        if item is None:
            self._queues.add_new(key, now, (trigger,))
        elif item.state is ItemState.IN_FLIGHT:
            self._in_flight.get(key).add_trigger(trigger, immediate=True)
        else:
            self._queues.update_traits(item)
            if not self._queues.hold_if_gated(item, now, trigger):
                self._queues.activate(item, now, trigger)

    def refresh(self, keys: Iterable[PlacementKey], now: int, *, trigger: str) -> None:
        """For a change of what ranks or holds these placements, and of nothing that an attempt reads."""
        for key in keys:
            item = self._items.get(key)
            if item is None or item.state is ItemState.IN_FLIGHT:
                continue
            self._queues.update_traits(item)
            if item.gate is not None:
                self._queues.activate(item, now, trigger)
            else:
                self._queues.hold_if_gated(item, now, trigger)

    def requeue(self, keys: Iterable[PlacementKey], now: int, *, trigger: str, batched: bool = False) -> None:
        """For a change of something that these placements read, known from an index. Gated ones stay gated."""
        if batched and self._batches.enabled:
            keys = (key for key in keys if not self._add_trigger_if_active(key, trigger))
            self._batches.add(keys, now, trigger=trigger)
            return
        for key in keys:
            self._requeue(key, now, trigger)

    def handle_event(self, event: QueueEvent, now: int) -> None:
        """Requeues the unschedulable placements that the event may help, according to the plugins' hints."""
        if not self._hints.handles(event.kind):
            return
        self._in_flight.record(event)
        for key, strategy in self._hints.evaluate(event, self._queues.unschedulable.by_plugin).items():
            self._queues.requeue_unschedulable(self._items[key], now, strategy=strategy, trigger=str(event))

    def leaves_to_hints(self, key: PlacementKey) -> bool:
        """Whether the hints of plugins decide what an event means for the key: it was rejected, or may still be."""
        item = self._items.get(key)
        if item is None or item.state is not ItemState.IN_FLIGHT:
            return item is not None and item.state is ItemState.UNSCHEDULABLE and item.gate is None
        return self._in_flight.list_missed_events(key) is not None

    def activate(self, keys: Iterable[PlacementKey], now: int) -> None:
        """Moves the keys to the active queue, skipping backoff. Unknown keys are ignored."""
        for key in keys:
            item = self._items.get(key)
            if item is None:
                if key in self._batches:
                    self._queues.add_new(key, now, (FORCED,))
            elif item.state is not ItemState.IN_FLIGHT:
                self._queues.activate(item, now, FORCED)
            elif not (placement := self._in_flight.get(key)).deleted or placement.triggers:
                placement.add_trigger(FORCED, immediate=True)

    def flush_batch(self, now: int) -> None:
        """Requeues the next batch, also before its time."""
        for key, triggers in self._batches.pop_batch(now).items():
            for trigger in triggers:
                self._requeue(key, now, trigger)

    def delete(self, key: PlacementKey) -> None:
        """The placement is gone. An attempt in flight may finish, without consequences."""
        self._batches.pop(key)
        item = self._items.get(key)
        if item is None:
            return
        if item.state is ItemState.IN_FLIGHT:
            self._in_flight.get(key).mark_deleted()
            self._in_flight.stop_recording(key)
        else:
            self._queues.remove(item)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def pop(self, now: int) -> QueueItem | None:
        """The first item. The worker calls `mark_succeeded`, `mark_unschedulable` or `mark_failed` in every case."""
        self._flush(now)
        item = self._queues.pop(now)
        if item is None:
            return None
        self._start(item)
        return item

    def take(self, keys: Iterable[PlacementKey], now: int) -> list[QueueItem]:
        """Those of these items that may be popped together with another one."""
        items = [item for key in keys if (item := self._items.get(key)) is not None and self._queues.take(item, now)]
        for item in items:
            self._start(item)
        return items

    def _start(self, item: QueueItem) -> None:
        if self._batches.due is not None:
            for trigger in self._batches.pop(item.key):
                item.add_trigger(trigger)
        self._in_flight.start(item)

    def mark_permitted(self, key: PlacementKey) -> None:
        """The clusters are settled: no hint is asked about this attempt any more."""
        self._note_missed(key)
        self._in_flight.stop_recording(key)

    def mark_succeeded(self, key: PlacementKey, now: int) -> None:
        """The placement is done; its next failure starts with the initial backoff."""
        self._note_missed(key)
        self._forget(self._in_flight.finish(key), now)

    def mark_unschedulable(
        self,
        key: PlacementKey,
        now: int,
        *,
        rejectors: Iterable[str] = (),
        pending: Iterable[str] = (),
        keeps_rank: bool = False,
    ) -> None:
        """Too few clusters qualify: to the unschedulable pool, unless an event during the attempt requeues it. With
        `keeps_rank` it stays before those that came later."""
        events = self._in_flight.list_missed_events(key)
        placement = self._in_flight.finish(key)
        if placement.deleted:
            self._forget(placement, now)
            return
        item = placement.item
        item.unschedulable_count += 1
        item.consecutive_errors_count = 0
        item.rejectors, item.pending = frozenset(rejectors), frozenset(pending)
        self._prepare_requeue(placement, now, keeps_rank=keeps_rank)
        strategy = self._evaluate_missed(placement, events)
        if strategy is QueueingStrategy.SKIP:
            self._queues.add_unschedulable(item, now)
        else:
            self._queues.move_to_active_or_backoff(item, now, strategy)

    def mark_failed(self, key: PlacementKey, now: int, *, at_least_seconds: float = 0) -> float:
        """Retries the placement after its backoff, and all failed ones together no faster than the rate limit.

        Returns the delay in seconds."""
        placement = self._in_flight.finish(key)
        if placement.deleted:
            self._forget(placement, now)
            return 0.0
        item = placement.item
        backoff = self._error_backoff.compute_delay(item.consecutive_errors_count)
        item.consecutive_errors_count += 1
        item.rejectors = item.pending = frozenset()
        delay = max(to_nanoseconds(backoff), self._error_tokens.reserve(now), to_nanoseconds(at_least_seconds))
        self._prepare_requeue(placement, now)
        if placement.immediate:
            self._queues.move_to_active_or_backoff(item, now, QueueingStrategy.IMMEDIATELY)
            return 0.0
        item.add_trigger(RETRY)
        self._queues.add_failed(item, now, delay=delay)
        return delay / SECOND

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> list[QueueItem]:
        """Moves what is due. Returns items that have been gated for long enough to be reported; each gate once."""
        self._flush(now)
        return self._queues.pop_unreported(now)

    def next_due(self, now: int) -> int | None:
        """When `tick` has something to do; None if only a call can change anything."""
        times = self._queues.due_times()
        if self._batches.due is not None:
            times.append(self._batches.due)
        return max(now, min(times)) if times else None

    def _flush(self, now: int) -> None:
        self._queues.flush(now)
        if self._batches.due is not None and self._batches.due <= now:
            self.flush_batch(now)

    # --- details ------------------------------------------------------------------------------------------------------

    def _requeue(self, key: PlacementKey, now: int, trigger: str) -> None:
        item = self._items.get(key)
        if item is None:
            self._queues.add_new(key, now, (trigger,))
        elif item.state is ItemState.IN_FLIGHT:
            self._in_flight.get(key).add_trigger(trigger, immediate=item.policy.immediate)
        elif item.gate is not None:
            item.add_trigger(trigger)
        elif item.policy.immediate:
            self._queues.activate(item, now, trigger)
        elif item.state is ItemState.UNSCHEDULABLE:
            skips = item.pending and not item.rejectors
            strategy = QueueingStrategy.IMMEDIATELY if skips else QueueingStrategy.AFTER_BACKOFF
            self._queues.requeue_unschedulable(item, now, strategy=strategy, trigger=trigger)
        else:
            item.add_trigger(trigger)

    def _note_missed(self, key: PlacementKey) -> None:
        """The attempt was not rejected, so no hint can be asked: what an index selected runs once more."""
        for event in self._in_flight.list_missed_events(key) or ():
            if event.among is not None and event.plugins is None and event.concerns(key):
                placement = self._in_flight.get(key)
                placement.add_trigger(str(event), immediate=placement.item.policy.immediate)

    def _forget(self, placement: InFlightPlacement, now: int) -> None:
        """After an attempt that is not retried: only triggers since it began make a new item."""
        key = placement.item.key
        del self._items[key]
        if placement.triggers:
            self._queues.add_new(key, now, placement.triggers)

    def _prepare_requeue(self, placement: InFlightPlacement, now: int, *, keeps_rank: bool = False) -> None:
        placement.item.returned_at = now
        if not keeps_rank:
            placement.item.timestamp = now
        placement.item.triggers = placement.triggers
        self._queues.update_traits(placement.item)

    def _evaluate_missed(self, placement: InFlightPlacement, events: list[QueueEvent] | None) -> QueueingStrategy:
        """The strategy for triggers and events of the time in flight. `events` is None if none were recorded."""
        item, strategy = placement.item, _strategy_of_triggers(placement)
        if events is None and not item.policy.immediate:
            item.add_trigger(RETRY)
            strategy = max(strategy, QueueingStrategy.AFTER_BACKOFF)
        for event in events or ():
            if strategy is QueueingStrategy.IMMEDIATELY:
                break
            hinted = self._hints.evaluate_item(event, item)
            if hinted:
                item.add_trigger(str(event))
                strategy = max(strategy, hinted)
        return strategy

    def _add_trigger_if_active(self, key: PlacementKey, trigger: str) -> bool:
        """An active item runs so soon that it need not wait for the next batch."""
        item = self._items.get(key)
        if item is None or item.state is not ItemState.ACTIVE:
            return False
        item.add_trigger(trigger)
        return True


def _strategy_of_triggers(placement: InFlightPlacement) -> QueueingStrategy:
    if not placement.triggers:
        return QueueingStrategy.SKIP
    return QueueingStrategy.IMMEDIATELY if placement.immediate else QueueingStrategy.AFTER_BACKOFF
