"""Call queue: API calls that wait or are in flight, at most one of each per object.

A call concerns one object. It merges with an earlier call of its type, replaces a waiting call of a weaker type, and is
rebased when its object changes. Each type has a fair queue. A call that replaces or takes in another inherits its
ticket, and one whose object has another call in flight joins no fair queue until that is finished. Pure; the
`dispatcher` decides when a call is sent.
"""

from __future__ import annotations

import asyncio
import enum
import heapq
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from fleet.errors import ApiError, ConnectionLost, ServerTimeout, Unavailable, Unreachable

T = TypeVar("T")

RETRIED: Final[tuple[type[ApiError], ...]] = (Unavailable, ServerTimeout, ConnectionLost, Unreachable)
"""Errors after which a call repeats its request. That does no harm even if the request was carried out: creates have
fixed names, all other writes a version or a uid. After deadlines, internal errors and 429 nothing can be gained within
milliseconds: the attempt fails, and the backoff of the placement decides."""

QUANTUM: Final = 16
"""Calls that a placement may send before the next has its turn."""


class CallType(enum.IntEnum):
    """By strength: of two calls about one object, the stronger makes the weaker pointless."""

    STATUS = 1
    BIND = 2
    EVICT = 3

    @property
    def call_class(self) -> str:
        """The rate limit that its requests count against."""
        return _CALL_CLASSES[self]


_CALL_CLASSES: Final = {type: type.name.lower() for type in CallType}


class CallResult(enum.Enum):
    DONE = "done"
    SKIPPED = "skipped"
    """Not sent: a stronger call was queued, or the object is as desired already."""
    OVERWRITTEN = "overwritten"
    """Not sent: a stronger call came while this one waited."""
    FAILED = "failed"


class CallOutcome(Struct, Generic[T], frozen=True):
    """Errors are returned, not raised, so that a caller may ignore the outcome."""

    result: CallResult
    value: T | None = None
    error: Exception | None = None
    by: CallType | None = None
    """The stronger call; None for a call that was skipped as a no-op."""


class Call(ABC, Generic[T]):
    """Immutable: `merge` and `rebase` return a new call."""

    @property
    @abstractmethod
    def key(self) -> str:
        """The object's UID. Of an object that does not exist yet, its path."""

    @property
    @abstractmethod
    def type(self) -> CallType: ...

    @property
    def owner(self) -> str:
        """The placement, which takes turns with others. All calls without an owner share one turn."""
        return ""

    @abstractmethod
    async def send(self) -> T: ...

    def merge(self, earlier: Call[Any]) -> Call[Any]:
        """This call and one of the same type that was still waiting, as one."""
        del earlier
        return self

    def rebase(self, fresh: Any) -> Call[T]:
        """The same call for the newer version of the object."""
        del fresh
        return self

    def is_noop(self) -> bool:
        """Whether the object, as far as known, is already as the call would make it."""
        return False


CallFuture = asyncio.Future[CallOutcome[Any]]


@dataclass(slots=True, eq=False)
class QueuedCall:
    key: str
    call: Call[Any]
    ticket: int
    futures: list[CallFuture]

    def resolve(self, outcome: CallOutcome[Any]) -> None:
        for future in self.futures:
            if not future.done():
                future.set_result(outcome)

    @property
    def is_abandoned(self) -> bool:
        """All callers were cancelled: an attempt that was cut short must not go on writing."""
        return all(future.cancelled() for future in self.futures)


class CallQueue:
    def __init__(self) -> None:
        self._waiting: dict[str, QueuedCall] = {}
        self._in_flight: dict[str, QueuedCall] = {}
        self._queues = {type: FairQueue() for type in CallType}
        self._tickets = itertools.count()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    def count_waiting(self) -> dict[CallType, int]:
        counts = dict.fromkeys(CallType, 0)
        for queued in self._waiting.values():
            counts[queued.call.type] += 1
        return counts

    def add(self, call: Call[Any], future: CallFuture) -> None:
        key = call.key
        stronger = self._find_stronger(call.type, key)
        if stronger is not None:
            future.set_result(CallOutcome(CallResult.SKIPPED, by=stronger))
            return
        waiting = self._waiting.get(key)
        if waiting is None:
            self._push(QueuedCall(key, call, next(self._tickets), [future]))
        elif waiting.call.type < call.type:
            waiting.resolve(CallOutcome(CallResult.OVERWRITTEN, by=call.type))
            self._push(QueuedCall(key, call, waiting.ticket, [future]))
        else:
            waiting.call = call.merge(waiting.call)
            waiting.futures.append(future)
        self._drop_noop(key)

    def pop(self, type: CallType) -> QueuedCall | None:
        """The next call of that type, which is in flight from now on."""
        return self._queues[type].pop(partial(self._take, type))

    def finish(self, queued: QueuedCall) -> CallType | None:
        """The call is no longer in flight: the next one about its object joins its fair queue. Returns its type."""
        del self._in_flight[queued.key]
        successor = self._waiting.get(queued.key)
        if successor is None:
            return None
        self._push(successor)
        self._drop_noop(queued.key)
        return successor.call.type

    def rebase(self, key: str, fresh: object) -> None:
        """The object changed, or our own write to it was answered."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.call = waiting.call.rebase(fresh)
            self._drop_noop(key)

    def clear(self) -> list[QueuedCall]:
        """Removes all waiting calls."""
        dropped = list(self._waiting.values())
        self._waiting.clear()
        return dropped

    # --- inside -------------------------------------------------------------------------------------------------------

    def _take(self, type: CallType, ticket: int, key: str) -> QueuedCall | None:
        queued = self._waiting.get(key)
        if queued is None or queued.ticket != ticket or queued.call.type is not type:
            return None  # dropped or replaced since it was pushed
        del self._waiting[key]
        if queued.is_abandoned:
            return None
        self._in_flight[key] = queued
        return queued

    def _find_stronger(self, type: CallType, key: str) -> CallType | None:
        calls = [queued.call for queued in (self._waiting.get(key), self._in_flight.get(key)) if queued is not None]
        return max((call.type for call in calls if call.type > type), default=None) if calls else None

    def _push(self, queued: QueuedCall) -> None:
        self._waiting[queued.key] = queued
        if queued.key not in self._in_flight:
            self._queues[queued.call.type].push(queued.call.owner, ticket=queued.ticket, key=queued.key)

    def _drop_noop(self, key: str) -> None:
        """Only while no call in flight may change the object."""
        waiting = self._waiting.get(key)
        if waiting is not None and key not in self._in_flight and waiting.call.is_noop():
            del self._waiting[key]
            waiting.resolve(CallOutcome(CallResult.SKIPPED))


class FairQueue:
    """Round robin over placements, so that one with ten thousand bindings does not delay one with ten.

    Within a placement the lowest ticket is first. A quantum is long enough for all calls of a typical placement: with
    single calls, all placements of a burst would finish only at its end. A new placement waits for one quantum of each
    of the others at most.
    """

    def __init__(self) -> None:
        self._owners: deque[str] = deque()
        """In the order of their turns."""
        self._tickets: dict[str, list[tuple[int, str]]] = {}
        self._taken = 0
        """In the present turn."""

    def push(self, owner: str, *, ticket: int, key: str) -> None:
        waiting = self._tickets.get(owner)
        if waiting is None:
            self._tickets[owner] = [(ticket, key)]
            self._owners.append(owner)
        else:
            heapq.heappush(waiting, (ticket, key))

    def pop(self, take: Callable[[int, str], T | None]) -> T | None:
        """The first result of `take` that is not None. Entries for which it returns None do not count."""
        while self._owners:
            waiting = self._tickets[self._owners[0]]
            taken = None
            while waiting and taken is None:
                taken = take(*heapq.heappop(waiting))
            self._taken += 1
            if not waiting:
                del self._tickets[self._owners.popleft()]
                self._taken = 0
            elif self._taken >= QUANTUM:
                self._owners.rotate(-1)
                self._taken = 0
            if taken is not None:
                return taken
        return None
