"""A scheduling queue on a clock that tests turn by hand, in seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet.clock import SECOND, to_nanoseconds
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.queue.hints import EVERYTHING, EventKind, QueueEvent
from fleet.scheduler.queue.item import PlacementTraits, PreEnqueueGate, QueueItem, QueuePolicy
from fleet.scheduler.queue.scheduling_queue import SchedulingQueue

EXTENDED = QueuePolicy(immediate=False, timed_retry=True)

CLUSTER_ADDED = EventKind("MemberCluster", "Add")
CLUSTER_TAINTS = EventKind("MemberCluster", "UpdateTaints")
HEARTBEAT = EventKind("MemberCluster", "Heartbeat")


def cluster_added(*, excluding: str | None = None, **more: Any) -> QueueEvent:
    return QueueEvent(CLUSTER_ADDED, excluding=None if excluding is None else a_key(excluding), **more)


def wildcard(label: str, *, only: str | None = None) -> QueueEvent:
    """Wakes everything, or the key it names, without asking anybody."""
    return QueueEvent(EVERYTHING, only=None if only is None else a_key(only), label=label)


def a_key(text: str | PlacementKey) -> PlacementKey:
    return PlacementKey.parse(str(text))


class Turned:
    """A queue with the time it is told."""

    def __init__(
        self, *, policy: QueuePolicy = EXTENDED, priorities: dict[str, int] | None = None, at: float = 0, **more: Any
    ) -> None:
        self.policy = policy
        self.priorities = priorities if priorities is not None else {}
        self.queue = SchedulingQueue(describe=self._traits, **more)
        self.now = to_nanoseconds(at)

    def _traits(self, key: PlacementKey) -> PlacementTraits:
        return PlacementTraits(uid=str(key), priority=self.priorities.get(str(key), 0), policy=self.policy)

    @property
    def seconds(self) -> float:
        return self.now / SECOND

    def at(self, seconds: float) -> Turned:
        self.now = to_nanoseconds(seconds)
        return self

    def later(self, seconds: float) -> Turned:
        self.now += to_nanoseconds(seconds)
        return self

    def add(self, *keys: str, trigger: str = "created") -> Turned:
        for key in keys:
            self.queue.add(a_key(key), self.now, trigger=trigger)
        return self

    def wake(self, *keys: str, trigger: str = "cluster", batched: bool = False) -> Turned:
        self.queue.requeue(map(a_key, keys), self.now, trigger=trigger, batched=batched)
        return self

    def happened(self, event: QueueEvent) -> Turned:
        self.queue.handle_event(event, self.now)
        return self

    def activate(self, *keys: str) -> Turned:
        self.queue.activate(map(a_key, keys), self.now)
        return self

    def delete(self, key: str) -> Turned:
        self.queue.delete(a_key(key))
        return self

    def pop(self) -> QueueItem:
        item = self.queue.pop(self.now)
        assert item is not None, "nothing to take"
        return item

    def popped(self) -> str | None:
        item = self.queue.pop(self.now)
        return str(item.key) if item else None

    def pop_all(self) -> list[str]:
        found = []
        while (key := self.popped()) is not None:
            found.append(key)
        return found

    def reject(self, key: str | PlacementKey, *rejectors: str, pending: tuple[str, ...] = ()) -> Turned:
        self.queue.mark_unschedulable(a_key(key), self.now, rejectors=rejectors, pending=pending)
        return self

    def fail(self, key: str | PlacementKey, *, at_least_seconds: float = 0) -> float:
        return self.queue.mark_failed(a_key(key), self.now, at_least_seconds=at_least_seconds)

    def succeed(self, key: str | PlacementKey) -> Turned:
        self.queue.mark_succeeded(a_key(key), self.now)
        return self

    def tick(self) -> list[QueueItem]:
        return self.queue.tick(self.now)

    def next_due(self) -> float | None:
        due = self.queue.next_due(self.now)
        return None if due is None else due / SECOND

    def counts(self) -> dict[str, int]:
        """Without the places where nobody is."""
        return {place: count for place, count in self.queue.count_items()._asdict().items() if count}

    def rejected(self, *keys: str, by: str = "Taints") -> Turned:
        """The keys, tried once and in the pool."""
        self.add(*keys)
        for _ in keys:
            self.reject(self.pop().key, by)
        return self


def pooled(*keys: str, by: str = "Taints", **more: Any) -> Turned:
    return Turned(**more).rejected(*keys, by=by)


class Gatekeeper:
    """Holds the keys it is told to hold, and counts how often it is asked."""

    def __init__(self, *held: str, message: Callable[[], str] = lambda: "waits for approval") -> None:
        self.held = set(held)
        self.asked = 0
        self.message = message

    def __call__(self, item: QueueItem, now: int) -> PreEnqueueGate | None:
        self.asked += 1
        return PreEnqueueGate("Approval", self.message()) if str(item.key) in self.held else None
