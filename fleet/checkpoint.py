"""Checkpoints: long computations ask every few steps whether their result is still wanted.

A thread cannot be cancelled from outside. Loops whose length the author of a policy chooses call `check`, which raises
once the deadline has passed or the caller has gone. It costs nothing worth counting where nothing can be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

T = TypeVar("T")


class Interrupted(BaseException):
    """The result is not wanted any more. No Exception, because those of plugins are handled where they are raised."""


_CALL: Final[ContextVar[Callable[[], None] | None]] = ContextVar("fleet_checkpoint", default=None)


def check() -> None:
    """Raises Interrupted if the computation is to stop."""
    call = _CALL.get()
    if call is not None:
        call()


def split(items: Sequence[T], size: int = 1_000) -> Iterator[Sequence[T]]:
    """For what takes long in one call, in which no other thread runs. Asks before each part."""
    for start in range(0, len(items), size):
        check()
        yield items[start : start + size]


def consume(items: list[T]) -> Iterator[T]:
    """Frees each after its use: tens of thousands at once take milliseconds, in which no other thread runs."""
    items.reverse()
    while items:
        yield items.pop()


@contextmanager
def interruptible(call: Callable[[], None]) -> Iterator[None]:
    """`check` calls it in here; it raises Interrupted to stop the computation."""
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)
