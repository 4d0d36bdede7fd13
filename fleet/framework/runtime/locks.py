"""Read-write lock for states that several threads share. The decision core never imports this module."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """Many readers or one writer; waiting writers go before new readers.

    Not re-entrant: a thread that takes it twice would wait for itself, so that raises an error. A hold belongs to the
    thread that took it, and only that thread can end it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers: set[int] = set()
        self._writer: int | None = None
        self._writers_waiting = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._acquire_for_writing()
        try:
            yield
        finally:
            self._release_if_held()

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._acquire_for_reading()
        try:
            yield
        finally:
            self._release_if_held()

    def release(self) -> None:
        if not self._release_if_held():
            raise RuntimeError("unlock of a state that this thread has not locked")

    def _acquire_for_writing(self) -> None:
        with self._changed:
            self._require_not_held_by(me := threading.get_ident())
            self._writers_waiting += 1
            try:
                self._changed.wait_for(lambda: self._writer is None and not self._readers)
            finally:
                self._writers_waiting -= 1
            self._writer = me

    def _acquire_for_reading(self) -> None:
        with self._changed:
            self._require_not_held_by(me := threading.get_ident())
            self._changed.wait_for(lambda: self._writer is None and not self._writers_waiting)
            self._readers.add(me)

    def _release_if_held(self) -> bool:
        """False if the thread does not hold the lock, for example because it unlocked inside its own block."""
        me = threading.get_ident()
        with self._changed:
            if self._writer == me:
                self._writer = None
            elif me in self._readers:
                self._readers.remove(me)
            else:
                return False
            self._changed.notify_all()
            return True

    def _require_not_held_by(self, thread: int) -> None:
        if self._writer == thread or thread in self._readers:
            raise RuntimeError("this thread has locked the state already; inside the block use peek and poke")
