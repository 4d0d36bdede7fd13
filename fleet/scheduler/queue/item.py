"""What waits in the scheduling queue: a placement's key, and what the queue knows about its attempts so far.

An item never holds the placement itself. Whoever takes one reads the newest state, so that nothing here can be out of
date except the order in which items come out.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

_MOST_TRIGGERS: Final = 16
AND_MORE: Final = "and more"
"""Ends a list of triggers that got too long to be kept."""


def coalesced(triggers: tuple[str, ...], trigger: str) -> tuple[str, ...]:
    """A fleet in motion may give thousands of reasons before a worker is free."""
    if trigger in triggers or len(triggers) > _MOST_TRIGGERS:
        return triggers
    return (*triggers, trigger if len(triggers) < _MOST_TRIGGERS else AND_MORE)


class ItemState(enum.Enum):
    """Where an item is. It is in one place only."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    """Rejected by plugins; worth another attempt, but not yet."""
    ERROR_BACKOFF = "error"
    """Its attempt failed."""
    UNSCHEDULABLE = "unschedulable"
    """Waits for an event; held items are here as well."""
    IN_FLIGHT = "in_flight"
    """A worker has it."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """How a profile's placements are treated between attempts. The defaults are those of `DefaultProfile`."""

    immediate: bool = True
    """A hit makes a rejected placement run at once; otherwise it first sits out its back-off."""
    timed_retry: bool = False
    """A placement that no event woke for long is tried again anyway."""


DEFAULT_POLICY = QueuePolicy()


class PlacementTraits(NamedTuple):
    """What the queue has to know of a placement. Asked for when it enters, and again when it changed."""

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
    """While a worker has it, nothing about it changes. All times are nanoseconds of the queue's clock."""

    key: str
    uid: str
    priority: int
    policy: QueuePolicy
    added_at: int
    timestamp: int
    """When it was added, or came back from its last attempt. Decides who goes first, and starts the back-off."""
    state: ItemState
    triggers: tuple[str, ...] = ()
    """Why it runs: what has woken it since it was last taken, in order, each once, up to a limit."""
    attempts: int = 0
    """How often it was taken since it last succeeded."""
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    initial_attempt_timestamp: int | None = None
    """When it could first have been taken. Time during which it was held does not count."""
    active_since: int = 0
    """Since when it could have been taken, without being early."""
    popped_at: int = 0
    pooled_at: int = 0
    rejectors: frozenset[str] = frozenset()
    """Plugins that rejected the last attempt."""
    pending: frozenset[str] = frozenset()
    """Plugins that rejected it although progress was made; when one of them says so it runs at once."""
    gate: PreEnqueueGate | None = None

    def add_trigger(self, trigger: str) -> None:
        self.triggers = coalesced(self.triggers, trigger)

    def deep_copy(self) -> QueueItem:
        return replace(self)  # every field is immutable


class QueueCounts(NamedTuple):
    active: int
    backoff: int
    """Of both kinds."""
    unschedulable: int
    """Without those that are held."""
    gated: int
    in_flight: int
    batched: int
    """Keys that wait for the next batch; they may be in the pool or in flight as well."""
