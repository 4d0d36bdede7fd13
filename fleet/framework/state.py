"""Data that the hooks of one attempt share, from PreFilter to PostBind.

A decision runs on one thread and needs no lock. Binding cycles may run on several threads; their states are built with
a real lock (`runtime.locks`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NewType, Protocol, Self, TypeVar, overload, runtime_checkable

from fleet.errors import StateExpired, StateNotFound
from fleet.framework.status import NOT_FOUND

StateKey = NewType("StateKey", str)
"""By convention `<hook>/<plugin>`."""


@runtime_checkable
class StateData(Protocol):
    def clone(self) -> StateData: ...


class FrozenState:
    """For values that are never edited: a clone is the value itself."""

    def clone(self) -> Self:
        return self


class Lock(Protocol):
    """Many readers or one writer; not re-entrant."""

    def writing(self) -> AbstractContextManager[None]: ...
    def reading(self) -> AbstractContextManager[None]: ...
    def release(self) -> None: ...


class _SingleThread:
    def writing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    def release(self) -> None:
        raise RuntimeError("unlock of a state that is not locked")


_SINGLE_THREAD = _SingleThread()


def _no_lock() -> Lock:
    return _SINGLE_THREAD


_Default = TypeVar("_Default")
_MISSING: Any = object()


class CycleState:
    """One per attempt, and per member of a group attempt."""

    __slots__ = ("_expired", "_lock", "_new_lock", "_values", "record_metrics")

    def __init__(self, *, new_lock: Callable[[], Lock] = _no_lock, record_metrics: bool = False) -> None:
        self._values: dict[StateKey, StateData] = {}
        self._new_lock, self._lock = new_lock, new_lock()
        self._expired = False
        self.record_metrics = record_metrics

    def write(self, key: StateKey, value: StateData) -> None:
        if not callable(getattr(value, "clone", None)):
            raise TypeError(f"state value for {key} has no clone(): {type(value).__name__}")
        with self._lock.writing():
            self._alive()[key] = value

    @overload
    def read(self, key: StateKey) -> StateData: ...
    @overload
    def read(self, key: StateKey, *, default: _Default) -> StateData | _Default: ...
    def read(self, key: StateKey, *, default: Any = _MISSING) -> Any:
        with self._lock.reading():
            return self.peek(key, default=default)

    def peek(self, key: StateKey, *, default: Any = _MISSING) -> Any:
        """Like `read`, for callers that already hold the lock."""
        value = self._alive().get(key, default)
        if value is _MISSING:
            raise StateNotFound(NOT_FOUND)
        return value

    def poke(self, key: StateKey, value: StateData) -> None:
        """Like `write`, for callers that already hold the lock for writing."""
        self._alive()[key] = value

    def delete(self, key: StateKey) -> None:
        with self._lock.writing():
            self._alive().pop(key, None)

    def lock(self) -> AbstractContextManager[None]:
        """For read-modify-write with `peek` and `poke`."""
        return self._lock.writing()

    def rlock(self) -> AbstractContextManager[None]:
        return self._lock.reading()

    def unlock(self) -> None:
        self._lock.release()

    def clone(self) -> CycleState:
        """A state of its own, with a lock of its own. Whether metrics are recorded is not inherited."""
        copy = CycleState(new_lock=self._new_lock)
        with self._lock.reading():
            copy._values = {key: value.clone() for key, value in self._alive().items()}
        return copy

    def expire(self) -> None:
        """Ends the attempt's use of the state: any later access is an error."""
        self._expired = True

    def _alive(self) -> dict[StateKey, StateData]:
        if self._expired:
            raise StateExpired("this cycle state belongs to an attempt that has ended")
        return self._values


def clone_state(state: CycleState | None) -> CycleState | None:
    return None if state is None else state.clone()


def should_record_metrics(state: CycleState | None) -> bool:
    return state is not None and state.record_metrics
