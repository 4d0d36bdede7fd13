"""Any sequence of calls leaves the scheduling queue where a model is that looks at every key each time.

The model says which item comes next and when something is due, so that no key is lost, doubled or given to two workers
without being noticed. At the end of every run the queue must be as empty as a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.hints import (
    EVERYTHING,
    EventKind,
    EventRegistration,
    QueueEvent,
    QueueingHints,
    QueueingStrategy,
)
from fleet.scheduler.queue.item import ItemState, PlacementTraits, PreEnqueueGate, QueueItem, QueuePolicy
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue
from fleet.scheduler.queue.settings import QueueSettings

SECOND = 1_000_000_000
KEYS = [PlacementKey("", name) for name in "0123"]
PRIORITY = {KEYS[1]: 1, KEYS[3]: 1}
AT_ONCE = KEYS[:2]
"""Keys of a profile that never backs off after a rejection. The others do, and are retried after a while."""

PLUGINS = ("Taints", "Capacity")
KINDS = [EventKind("Cluster", action) for action in ("Add", "Update", "Heartbeat")]
LISTENS = {("Taints", KINDS[0]), ("Taints", KINDS[1]), ("Capacity", KINDS[0]), ("Approval", KINDS[1])}
BATCH = 40 * SECOND

keys = st.sampled_from(KEYS)
some_keys = st.lists(keys, max_size=4)
plugins = st.sets(st.sampled_from(PLUGINS))
pauses = st.one_of(st.integers(0, 3_000), st.integers(0, 400_000)).map(lambda milliseconds: milliseconds * 1_000_000)


def helps(event: QueueEvent, item: QueueItem) -> bool:
    return (int(event.new) + int(item.key.name)) % 3 != 0


def hints() -> QueueingHints:
    named = sorted({plugin for plugin, _ in LISTENS})
    return QueueingHints(
        {name: [EventRegistration(kind, helps) for plugin, kind in LISTENS if plugin == name] for name in named}
    )


@dataclass
class Known:
    key: PlacementKey
    timestamp: int
    place: ItemState = ItemState.UNSCHEDULABLE
    rejections: int = 0
    errors: int = 0
    rejectors: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)
    ready: int = 0
    pooled_at: int = 0
    held_since: int | None = None
    reported: bool = False
    again: QueueingStrategy = QueueingStrategy.SKIP
    deleted: bool = False
    missed: list[QueueEvent] = field(default_factory=list)

    @property
    def at_once(self) -> bool:
        return self.key in AT_ONCE

    @property
    def rank(self) -> tuple[int, int, str]:
        return (-PRIORITY.get(self.key, 0), self.timestamp, str(self.key))

    @property
    def searched_at(self) -> int:
        return ((self.pooled_at + 300 * SECOND) // (30 * SECOND) + 1) * 30 * SECOND

    @property
    def held(self) -> bool:
        return self.held_since is not None

    def verdict(self, event: QueueEvent) -> QueueingStrategy:
        if event.only not in (None, self.key) or event.excluding == self.key:
            return QueueingStrategy.SKIP
        if event.label:
            return QueueingStrategy.AFTER_BACKOFF
        asked = {"Approval"} if self.held else self.rejectors | self.pending
        if not asked:
            return QueueingStrategy.AFTER_BACKOFF
        yes = {
            plugin for plugin in asked if (plugin, event.kind) in LISTENS and (event.new + int(self.key.name)) % 3 != 0
        }
        if yes & self.pending and not self.held:
            return QueueingStrategy.IMMEDIATELY
        return QueueingStrategy.AFTER_BACKOFF if yes else QueueingStrategy.SKIP


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = SchedulingQueue(
            settings=QueueSettings(rate=1e6, burst=1000, batch_period=BATCH / SECOND),
            hints=hints(),
            describe=lambda key: PlacementTraits(
                str(key), PRIORITY.get(key, 0), QueuePolicy(key in AT_ONCE, key not in AT_ONCE)
            ),
            pre_enqueue=lambda item, now: PreEnqueueGate("Approval", "not yet") if item.key in self.holding else None,
        )
        self.now = 0
        self.known: dict[PlacementKey, Known] = {}
        self.slow: dict[PlacementKey, None] = {}
        self.slow_due: int | None = None
        self.holding: set[PlacementKey] = set()

    # --- the model ----------------------------------------------------------------------------------------------------

    def admit(self, key: PlacementKey) -> None:
        self.known[key] = Known(key, self.now)
        self.queue_up(self.known[key], QueueingStrategy.IMMEDIATELY)

    def queue_up(self, one: Known, wake: QueueingStrategy) -> None:
        if self.holds(one):
            return
        wait = min(2 ** (one.rejections - 1), 10) * SECOND if one.rejections else 0
        window = (one.timestamp + wait) // SECOND
        free = wake is QueueingStrategy.IMMEDIATELY or one.at_once or not one.rejections
        one.place = ItemState.ACTIVE if free or window < self.now // SECOND else ItemState.BACKOFF
        one.ready = (window + 1) * SECOND

    def holds(self, one: Known) -> bool:
        if one.key not in self.holding:
            one.held_since = None
            return False
        if one.held_since is None:
            one.held_since, one.reported = self.now, False
        one.place, one.pooled_at = ItemState.UNSCHEDULABLE, self.now
        return True

    def hurry(self, one: Known) -> None:
        if one.place is ItemState.UNSCHEDULABLE:
            self.queue_up(one, QueueingStrategy.IMMEDIATELY)
        else:
            one.place = ItemState.ACTIVE

    def stir(self, key: PlacementKey) -> None:
        one = self.known.get(key)
        if one is None:
            self.admit(key)
        elif one.place is ItemState.IN_FLIGHT:
            one.again = max(one.again, QueueingStrategy.IMMEDIATELY if one.at_once else QueueingStrategy.AFTER_BACKOFF)
        elif one.held:
            pass
        elif one.at_once:
            self.hurry(one)
        elif one.place is ItemState.UNSCHEDULABLE:
            skips = one.pending and not one.rejectors
            self.queue_up(one, QueueingStrategy.IMMEDIATELY if skips else QueueingStrategy.AFTER_BACKOFF)

    def flush(self) -> None:
        for one in self.known.values():
            if one.place in (ItemState.BACKOFF, ItemState.ERROR_BACKOFF) and one.ready <= self.now:
                one.place = ItemState.ACTIVE
            if one.place is ItemState.UNSCHEDULABLE and not one.at_once and one.searched_at <= self.now:
                self.queue_up(one, QueueingStrategy.AFTER_BACKOFF)
        if self.slow_due is not None and self.slow_due <= self.now:
            self.move()

    def move(self) -> None:
        batch, self.slow, self.slow_due = self.slow, {}, None
        for key in batch:
            self.stir(key)

    def unslow(self, key: PlacementKey) -> None:
        self.slow.pop(key, None)
        self.slow_due = self.slow_due if self.slow else None

    def those_in(self, place: ItemState) -> list[Known]:
        return [one for one in self.known.values() if one.place is place]

    def next_key(self) -> PlacementKey | None:
        active = min(self.those_in(ItemState.ACTIVE), key=lambda one: one.rank, default=None)
        early = min(self.those_in(ItemState.BACKOFF), key=lambda one: (one.ready, one.rank), default=None)
        first = active or early
        return first.key if first else None

    def land(self, key: PlacementKey) -> Known | None:
        """The item, unless nothing is left of it."""
        one = self.known[key]
        if one.deleted:
            self.leave(one)
            return None
        one.timestamp = self.now
        return one

    def leave(self, one: Known) -> None:
        del self.known[one.key]
        if one.again:
            self.admit(one.key)

    # --- what may happen ----------------------------------------------------------------------------------------------

    @rule(passed=pauses)
    def time_passes(self, passed: int) -> None:
        self.now += passed

    @rule(key=keys)
    def add(self, key: PlacementKey) -> None:
        self.queue.add(key, self.now, trigger="edited")
        one = self.known.get(key)
        if one is None:
            self.admit(key)
        elif one.place is ItemState.IN_FLIGHT:
            one.again = QueueingStrategy.IMMEDIATELY
        elif one.place is ItemState.UNSCHEDULABLE or not self.holds(one):
            self.hurry(one)

    @rule(keys=some_keys)
    def wake(self, keys: list[PlacementKey]) -> None:
        self.queue.requeue(keys, self.now, trigger="cluster")
        for key in keys:
            self.stir(key)

    @rule(keys=some_keys)
    def wake_slowly(self, keys: list[PlacementKey]) -> None:
        self.queue.requeue(keys, self.now, trigger="cluster", batched=True)
        for key in keys:
            if key not in self.known or self.known[key].place is not ItemState.ACTIVE:
                self.slow[key] = None
        if self.slow and self.slow_due is None:
            self.slow_due = (self.now // BATCH + 1) * BATCH

    @rule()
    def move_batch(self) -> None:
        self.queue.flush_batch(self.now)
        self.move()

    @rule(kind=st.sampled_from(KINDS), number=st.integers(0, 2), excluding=st.none() | keys)
    def happened(self, kind: EventKind, number: int, excluding: PlacementKey | None) -> None:
        self._happened(QueueEvent(kind, new=number, excluding=excluding))

    @rule(only=st.none() | keys)
    def anything_may_have_happened(self, only: PlacementKey | None) -> None:
        self._happened(QueueEvent(EVERYTHING, only=only, label="Reload"))

    def _happened(self, event: QueueEvent) -> None:
        self.queue.handle_event(event, self.now)
        if not event.label and event.kind not in {kind for _, kind in LISTENS}:
            return
        for one in self.known.values():
            if one.place is ItemState.IN_FLIGHT and not one.deleted:
                one.missed.append(event)
            elif one.place is ItemState.UNSCHEDULABLE and (wake := one.verdict(event)):
                self.queue_up(one, wake)

    @rule(keys=some_keys)
    def activate(self, keys: list[PlacementKey]) -> None:
        self.queue.activate(keys, self.now)
        for key in keys:
            one = self.known.get(key)
            if one is None and key in self.slow:
                self.admit(key)
            elif one is not None and one.place is not ItemState.IN_FLIGHT:
                self.hurry(one)
            elif one is not None and (not one.deleted or one.again):
                one.again = QueueingStrategy.IMMEDIATELY

    @rule(key=keys)
    def delete(self, key: PlacementKey) -> None:
        self.queue.delete(key)
        self.unslow(key)
        one = self.known.get(key)
        if one is not None and one.place is ItemState.IN_FLIGHT:
            one.deleted, one.again = True, QueueingStrategy.SKIP
        else:
            self.known.pop(key, None)

    @rule(key=keys)
    def hold(self, key: PlacementKey) -> None:
        self.holding.add(key)

    @rule(key=keys)
    def let_go(self, key: PlacementKey) -> None:
        self.holding.discard(key)

    @rule()
    def tick(self) -> None:
        told = [item.key for item in self.queue.tick(self.now)]
        self.flush()
        want = [
            one
            for one in self.known.values()
            if one.held_since is not None and not one.reported and one.held_since + 5 * SECOND <= self.now
        ]
        assert sorted(told) == sorted(one.key for one in want)
        for one in want:
            one.reported = True

    @rule()
    def pop(self) -> None:
        item = self.queue.pop(self.now)
        self.flush()
        want = self.next_key()
        assert (item.key if item else None) == want
        if want is not None:
            self.known[want].place, self.known[want].missed, self.known[want].again = (
                ItemState.IN_FLIGHT,
                [],
                QueueingStrategy.SKIP,
            )
            self.unslow(want)

    @precondition(lambda self: self.those_in(ItemState.IN_FLIGHT))
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        key = self._worker(data)
        self.queue.mark_succeeded(key, self.now)
        self.leave(self.known[key])

    @precondition(lambda self: self.those_in(ItemState.IN_FLIGHT))
    @rule(data=st.data(), rejectors=plugins, pending=plugins)
    def reject(self, data: st.DataObject, rejectors: set[str], pending: set[str]) -> None:
        key = self._worker(data)
        self.queue.mark_unschedulable(key, self.now, rejectors=rejectors, pending=pending)
        one = self.land(key)
        if one is None:
            return
        one.rejections, one.errors = one.rejections + 1, 0
        one.rejectors, one.pending = rejectors, pending
        wake = max([one.again, *(one.verdict(event) for event in one.missed)])
        if wake:
            self.queue_up(one, wake)
        else:
            one.place, one.pooled_at = ItemState.UNSCHEDULABLE, self.now

    @precondition(lambda self: self.those_in(ItemState.IN_FLIGHT))
    @rule(data=st.data(), at_least=st.sampled_from([0, 7]))
    def fail(self, data: st.DataObject, at_least: int) -> None:
        key = self._worker(data)
        self.queue.mark_failed(key, self.now, at_least_seconds=at_least)
        one = self.land(key)
        if one is None:
            return
        one.errors += 1
        one.rejectors, one.pending = set(), set()
        if one.again is QueueingStrategy.IMMEDIATELY:
            self.queue_up(one, QueueingStrategy.IMMEDIATELY)
        elif not self.holds(one):
            one.place = ItemState.ERROR_BACKOFF
            one.ready = self.now + max(min(5_000_000 * 2 ** (one.errors - 1), 60 * SECOND), at_least * SECOND)

    def _worker(self, data: st.DataObject) -> PlacementKey:
        return data.draw(st.sampled_from(sorted(one.key for one in self.those_in(ItemState.IN_FLIGHT))))

    # --- what must hold -----------------------------------------------------------------------------------------------

    @invariant()
    def every_key_is_where_the_model_says(self) -> None:
        for key in KEYS:
            item, one = self.queue.get(key), self.known.get(key)
            assert (item and (item.state, item.gate is not None)) == (one and (one.place, one.held)), key

    @invariant()
    def the_counts_agree(self) -> None:
        counts = self.queue.count_items()
        assert counts.active == len(self.those_in(ItemState.ACTIVE))
        assert counts.backoff == len(self.those_in(ItemState.BACKOFF)) + len(self.those_in(ItemState.ERROR_BACKOFF))
        assert counts.gated == sum(one.held for one in self.known.values())
        assert counts.unschedulable + counts.gated == len(self.those_in(ItemState.UNSCHEDULABLE))
        assert counts.in_flight == len(self.those_in(ItemState.IN_FLIGHT))
        assert counts.batched == len(self.slow)

    @invariant()
    def the_next_moment_is_known(self) -> None:
        moments = [] if self.slow_due is None else [self.slow_due]
        for one in self.known.values():
            if one.place in (ItemState.BACKOFF, ItemState.ERROR_BACKOFF):
                moments.append(one.ready)
            if one.place is ItemState.UNSCHEDULABLE and not one.at_once:
                moments.append(one.searched_at)
            if one.held_since is not None and not one.reported:
                moments.append(one.held_since + 5 * SECOND)
        assert self.queue.next_due(self.now) == (max(self.now, min(moments)) if moments else None)

    @invariant()
    def events_are_kept_for_those_in_flight_only(self) -> None:
        longest = max((len(one.missed) for one in self.those_in(ItemState.IN_FLIGHT) if not one.deleted), default=0)
        assert len(self.queue.recorded_events) == longest

    def teardown(self) -> None:
        """Nobody in work and every placement gone: nothing is left."""
        for one in self.those_in(ItemState.IN_FLIGHT):
            self.queue.mark_succeeded(one.key, self.now)
        for key in KEYS:
            self.queue.delete(key)
        assert not any(self.queue.count_items())
        assert self.queue.next_due(self.now) is None
        assert self.queue.count_unschedulable_by_plugin() == {}
        assert self.queue.pop(self.now + 10**15) is None


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(stateful_step_count=150)
