"""One write that a thread prepares beside the event loop.

The thread reads the heads of objects as they are. What it writes is accepted on the event loop, and only if every head
that it has read is still the head: then the outcome is the same as if all of it had been one turn of the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from fleet.hub.kinds.kind import Document
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.storage.store import HubStore, Key

_LOOK_EVERY: Final = 1.0
"""Seconds, after which a thread looks whether the loop that it waits for still exists."""

T = TypeVar("T")
Written = asyncio.Future[None] | None


class Overtaken(Exception):
    """By another write, on which the outcome may depend: it has to be prepared again."""


class StoreTransaction:
    """Created on the event loop, used by one thread, for one write."""

    def __init__(self, store: HubStore, *, holds: Callable[[], bool]) -> None:
        """`holds` tells on the event loop whether everything else that the write relies on is still true."""
        self._store = store
        self._holds = holds
        self._loop = asyncio.get_running_loop()
        self._read: dict[tuple[str, Key], StoredEntry | None] = {}
        self._is_accepted = False

    def find_head(self, resource: str, key: Key) -> StoredEntry | None:
        """What was read once is read the same again."""
        return self._read.setdefault((resource, key), self._store.find_head(resource, key))

    def put(self, resource: str, document: Document) -> tuple[StoredEntry, Written]:
        return self._accept(lambda: self._store.put(resource, document))

    def remove(self, resource: str, entry: StoredEntry) -> tuple[int, Written]:
        return self._accept(lambda: self._store.remove(resource, entry))

    def check(self) -> None:
        """Called on the event loop at the end: what was refused or changed nothing may depend on it, too."""
        if not self._is_accepted and not self._is_current():
            raise Overtaken

    def _is_current(self) -> bool:
        return self._holds() and all(
            self._store.find_head(resource, key) is entry for (resource, key), entry in self._read.items()
        )

    def _accept(self, write: Callable[[], T]) -> T:
        """The thread waits for the loop: only the loop assigns revisions."""
        accepted: Future[T] = Future()

        def accept() -> None:
            try:
                if not self._is_current():
                    raise Overtaken
                accepted.set_result(write())
                self._is_accepted = True
            except BaseException as error:  # of the thread, which would wait for ever
                accepted.set_exception(error)

        self._loop.call_soon_threadsafe(accept)
        while True:
            try:
                return accepted.result(timeout=_LOOK_EVERY)
            except TimeoutError:
                if accepted.done():
                    raise
                if self._loop.is_closed():  # before its turn came
                    raise Overtaken from None
