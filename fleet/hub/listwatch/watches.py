"""Watches: all changes of the selected objects since a revision, then changes as they happen.

A watcher has no queue of its own. It keeps its position in the collection's list of changes, and sends the encoded
objects that all watchers share, in small chunks: a watcher that does not read costs little more than its connection. A
watcher that falls behind the oldest kept change gets 410 Expired and has to list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import chain
from random import Random
from typing import Final

from fleet.hub.kinds.kind import Kind
from fleet.hub.listwatch.lists import check_revision
from fleet.hub.listwatch.selectors import ObjectSelector
from fleet.hub.storage.conversion import stored_resource, versioned_body
from fleet.hub.storage.store import HubStore, StoreChange
from fleet.hub.wire.bodies import encode
from fleet.hub.wire.options import ListOptions
from fleet.hub.wire.statuses import build_status, resource_expired

Render = Callable[[bytes], bytes]
Line = tuple[bytes, bytes, bytes]

_MIN_TIMEOUT: Final = 1800.0  # seconds; timeout of a watch without timeoutSeconds, randomized up to twice as long
_GRACE: Final = 0.05  # seconds; clients that measure take a watch that ends early for a broken connection
_BOOKMARK_EVERY: Final = 60.0  # seconds
_RANDOM: Final = Random()  # not the shared generator, which other code may seed
_LARGEST_CHUNK: Final = 32 * 1024  # bytes; this much, and as much of the connection, waits for each slow watcher
_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}


class Watch:
    def __init__(
        self,
        store: HubStore,
        kind: Kind,
        selection: ObjectSelector,
        options: ListOptions,
        *,
        render: Render | None = None,
    ) -> None:
        self._store = store
        self._kind = kind
        self._selection = selection
        self._options = options
        self._render = render or (lambda body: body)
        self._collection = store.collection(stored_resource(kind))
        self._is_unfiltered = selection.is_everything and render is None
        self._revision = self._start_revision()

    def _start_revision(self) -> int:
        """Without a revision, or from `0`, a watch begins with the current state."""
        revision = check_revision(self._store, self._options.revision)
        return 0 if self._options.initial_events else revision

    async def chunks(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        timeout = self._options.timeout or _MIN_TIMEOUT * (1 + _RANDOM.random())
        deadline = loop.time() + timeout + _GRACE
        for chunk in _pack(self._initial_events()):
            yield chunk
            await _pause_after(chunk)
        bookmark = loop.time() + _BOOKMARK_EVERY
        while (now := loop.time()) < deadline:
            if self._revision < self._collection.floor:
                text = f"too old resource version: {self._revision} ({self._collection.floor})"
                yield b"".join(_frame("ERROR", encode(build_status(resource_expired(text)))))
                return
            changes = self._take_changes()
            for chunk in _pack(self._selected_events(changes)):
                yield chunk
                await _pause_after(chunk)
            if now >= bookmark:
                bookmark = now + _BOOKMARK_EVERY
                if self._options.bookmarks:
                    yield b"".join(self._build_bookmark({}))
                    continue  # there may be changes since
            if not changes:
                await self._wait_for_change(min(deadline, bookmark) - now)
        if self._options.bookmarks and timeout > 1:
            yield b"".join(self._build_bookmark({}))

    async def _wait_for_change(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._collection.wait_for_change()
        except TimeoutError:
            pass

    def _initial_events(self) -> Iterable[Line]:
        if self._revision:
            return ()
        entries = self._collection.scan(self._selection.namespace)
        bodies = [entry.body for entry in entries if self._selection.matches(entry)]
        self._revision = self._store.revision
        bookmark = [self._build_bookmark(_INITIAL_EVENTS_END)] if self._options.initial_events else []
        return chain((self._frame_object("ADDED", body) for body in bodies), bookmark)

    def _take_changes(self) -> list[StoreChange]:
        changes = self._collection.changes_since(self._revision, most_bytes=_LARGEST_CHUNK)
        # Changes of other resources advance the revision too: bookmarks report it, and clients reconnect from there.
        self._revision = changes[-1].revision if changes else max(self._revision, self._store.revision)
        return changes

    def _selected_events(self, changes: Iterable[StoreChange]) -> Iterator[Line]:
        """The events of changes for a watcher that sees only the selected objects."""
        for change in changes:
            if self._is_unfiltered:
                yield self._frame_object(change.type, change.body)
                continue
            now = change.current is not None and self._selection.matches(change.current)
            before = change.previous is not None and self._selection.matches(change.previous)
            if now:
                yield self._frame_object("MODIFIED" if before else "ADDED", change.body)
            elif before:
                yield self._frame_object("DELETED", self._last_selected_body(change))

    def _last_selected_body(self, change: StoreChange) -> bytes:
        """An object that left the selection is shown in its last selected state, at the revision of the change."""
        if change.current is None or change.previous is None:
            return change.body
        return StoreChange(change.resource, change.revision, None, change.previous).body

    def _frame_object(self, type: str, body: bytes) -> Line:
        return _frame(type, self._render(versioned_body(self._kind, body)))

    def _build_bookmark(self, annotations: dict[str, str]) -> Line:
        metadata: dict[str, object] = {"resourceVersion": str(self._revision)}
        if annotations:
            metadata["annotations"] = annotations
        body = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        return _frame("BOOKMARK", encode(body))


def _frame(type: str, body: bytes) -> Line:
    """The line of an event in three parts, so that the body is not copied for every watcher."""
    return b'{"type":"%b","object":' % type.encode(), body, b"}\n"


def _pack(lines: Iterable[Line]) -> Iterator[bytes]:
    """Joins lines to chunks of limited size. Only longer lines are cut."""
    pending: list[bytes] = []
    size = 0
    for line in lines:
        length = sum(map(len, line))
        if pending and size + length > _LARGEST_CHUNK:
            yield b"".join(pending)
            pending, size = [], 0
        if length > _LARGEST_CHUNK:
            yield from _cut(line)
        else:
            pending += line
            size += length
    if pending:
        yield b"".join(pending)


async def _pause_after(chunk: bytes) -> None:
    """Connections take several megabytes without waiting: many watchers would get all of a large object in one turn of
    the event loop."""
    if len(chunk) == _LARGEST_CHUNK:
        await asyncio.sleep(0)


def _cut(line: Line) -> Iterator[bytes]:
    for part in line:
        for start in range(0, len(part), _LARGEST_CHUNK):
            yield part[start : start + _LARGEST_CHUNK]
