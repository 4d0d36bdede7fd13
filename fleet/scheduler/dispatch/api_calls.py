"""What the dispatcher sends: calls about one object each, with a rank, and what becomes of them.

A call knows how to send itself, how to take in an earlier call of its rank, and what is left of it when its object
turns out to be newer than thought. When it is sent is left to `pending_calls` and `dispatcher`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


class CallType(enum.IntEnum):
    """By rank: of two calls about one object, the stronger makes the weaker pointless."""

    STATUS = 1
    BIND = 2
    EVICT = 3

    @property
    def call_class(self) -> str:
        """The budget its requests are paid from."""
        return _CALL_CLASSES[self]


_CALL_CLASSES: Final = {one: one.name.lower() for one in CallType}


class Fate(enum.Enum):
    DONE = "done"
    SKIPPED = "skipped"
    """Not sent: a stronger call was there, or nothing is left to change."""
    OVERWRITTEN = "overwritten"
    """Not sent: a stronger call came while this one waited."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What callers are told, errors included: a caller that does not look loses nothing but the answer."""

    fate: Fate
    value: T | None = None
    error: Exception | None = None
    by: CallType | None = None
    """The stronger call; None for a call that was skipped because nothing is left to change."""


class Call(ABC, Generic[T]):
    """Immutable; merging and re-basing make new ones."""

    @property
    @abstractmethod
    def key(self) -> str:
        """The object's UID. Of an object that does not exist yet, its path."""

    @property
    @abstractmethod
    def type(self) -> CallType: ...

    @property
    def owner(self) -> str:
        """Who takes turns with others of this type: the placement. All calls without one are in line as one."""
        return ""

    @abstractmethod
    async def send(self) -> T: ...

    def over(self, earlier: Call[Any]) -> Call[Any]:
        """This call and one of the same type that was still waiting, as one."""
        del earlier
        return self

    def on(self, fresh: Any) -> Call[T]:
        """The same call, meant for the object as it is now."""
        del fresh
        return self

    def changes_nothing(self) -> bool:
        """Whether the object, as far as known, is already what the call would make of it."""
        return False
