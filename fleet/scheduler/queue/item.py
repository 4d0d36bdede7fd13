"""Queue items: a placement's key, and the state of its attempts so far.

An item never holds the placement itself. Workers read the newest state, so only the order in which items come out can
be out of date.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from fleet.model.placement_key import PlacementKey

_MAX_TRIGGERS: Final = 16
AND_MORE: Final = "and more"
"""Ends a list of triggers that is too long to be kept."""


def merge_trigger(triggers: tuple[str, ...], trigger: str) -> tuple[str, ...]:
    """Bounded: a busy fleet may give thousands of triggers before a worker is free."""
    if trigger in triggers or len(triggers) > _MAX_TRIGGERS:
        return triggers
    return (*triggers, trigger if len(triggers) < _MAX_TRIGGERS else AND_MORE)


class ItemState(enum.Enum):
    """Where an item is: in one sub-queue, or in flight."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    """Rejected by plugins; waits for the end of its backoff."""
    ERROR_BACKOFF = "error"
    """Its attempt failed, or waits for what other refused attempts give back."""
    UNSCHEDULABLE = "unschedulable"
    """Waits for an event; gated items are here as well."""
    IN_FLIGHT = "in_flight"
    """A worker has it."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How a profile's placements are requeued. The defaults are those of `DefaultProfile`."""

    immediate: bool = True
    """An event that helps an unschedulable placement requeues it without backoff."""
    timed_retry: bool = False
    """A placement that no event has requeued for long is retried anyway."""


DEFAULT_POLICY = QueuePolicy()
BACKOFF_POLICY = QueuePolicy(immediate=False, timed_retry=True)
"""Of profiles with `backoffOnRejection`."""


class PlacementTraits(NamedTuple):
    """What the queue reads of a placement when it is added, and again when it has changed."""

    uid: str
    priority: int = 0
    policy: QueuePolicy = DEFAULT_POLICY


@dataclass(frozen=True, slots=True)
class PreEnqueueGate:
    """Why a placement may not be queued yet."""

    plugin: str
    message: str


@dataclass(slots=True, eq=False)
class QueueItem:
    """Does not change while it is in flight. All times are nanoseconds of the queue's clock."""

    key: PlacementKey
    uid: str
    priority: int
    policy: QueuePolicy
    added_at: int
    timestamp: int
    """When it was added, or came back from its last attempt. Part of the rank."""
    state: ItemState
    triggers: tuple[str, ...] = ()
    """Why it runs: what has requeued it since it was last popped, in order, each once, up to a limit."""
    attempts: int = 0
    """Since it last succeeded."""
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    initial_attempt_timestamp: int | None = None
    """When it could first have been popped. Time in which it was gated does not count."""
    active_since: int = 0
    """Since when it could have been popped, early pops aside."""
    popped_at: int = 0
    returned_at: int = 0
    """When its last attempt ended: the start of the backoff."""
    pooled_at: int = 0
    rejectors: frozenset[str] = frozenset()
    """Plugins that rejected the last attempt."""
    pending: frozenset[str] = frozenset()
    """Plugins that rejected it although progress was made; a hint of one of them requeues it immediately."""
    gate: PreEnqueueGate | None = None
    is_unseen: bool = False
    """The cache lacked the placement when PreEnqueue ran last: what holds, ranks or groups it was unknown."""

    def add_trigger(self, trigger: str) -> None:
        self.triggers = merge_trigger(self.triggers, trigger)

    def deep_copy(self) -> QueueItem:
        return replace(self)  # every field is immutable


class QueueCounts(NamedTuple):
    active: int
    backoff: int
    """Of both kinds."""
    unschedulable: int
    """Without those that are gated."""
    gated: int
    in_flight: int
    batched: int
    """Keys that wait for the next batch; they may be unschedulable or in flight as well."""
