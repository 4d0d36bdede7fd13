"""The lock for states that several threads share. Part of the shell: the decision core never imports it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """Many readers or one writer. Not re-entrant; waiting writers go before new readers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writing = False
        self._writers_waiting = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        self._take_for_writing()
        try:
            yield
        finally:
            if self._writing:
                self.release()

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._take_for_reading()
        try:
            yield
        finally:
            if self._readers:
                self.release()

    def release(self) -> None:
        with self._changed:
            if self._writing:
                self._writing = False
            elif self._readers:
                self._readers -= 1
            else:
                raise RuntimeError("unlock of a state that is not locked")
            self._changed.notify_all()

    def _take_for_writing(self) -> None:
        with self._changed:
            self._writers_waiting += 1
            self._changed.wait_for(lambda: not self._writing and not self._readers)
            self._writers_waiting -= 1
            self._writing = True

    def _take_for_reading(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._writing and not self._writers_waiting)
            self._readers += 1
