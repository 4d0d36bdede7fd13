"""Watches: all changes of the selected objects since a revision, then changes as they happen.

A watcher has no queue of its own. It keeps its position in the collection's list of changes, and sends new changes in
one chunk. A watcher that falls behind the oldest kept change gets 410 Expired and has to list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
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

_MIN_TIMEOUT: Final = 1800.0  # seconds; timeout of a watch without timeoutSeconds, randomized up to twice as long
_GRACE: Final = 0.05  # seconds; clients that measure take a watch that ends early for a broken connection
_BOOKMARK_EVERY: Final = 60.0  # seconds
_RANDOM: Final = Random()  # not the shared generator, which other code may seed
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
        if first := self._initial_events():
            yield first
        bookmark = loop.time() + _BOOKMARK_EVERY
        while (now := loop.time()) < deadline:
            if self._revision < self._collection.floor:
                text = f"too old resource version: {self._revision} ({self._collection.floor})"
                yield _encode_event("ERROR", encode(build_status(resource_expired(text))))
                return
            if chunk := self._next_chunk():
                yield chunk
                continue
            if now >= bookmark:
                bookmark = now + _BOOKMARK_EVERY
                if self._options.bookmarks:
                    yield self._encode_bookmark({})
            await self._wait_for_change(min(deadline, bookmark) - now)
        if self._options.bookmarks and timeout > 1:
            yield self._encode_bookmark({})

    async def _wait_for_change(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._collection.wait_for_change()
        except TimeoutError:
            pass

    def _initial_events(self) -> bytes:
        if self._revision:
            return b""
        entries = self._collection.scan(self._selection.namespace)
        lines = [self._encode_selected("ADDED", entry.body) for entry in entries if self._selection.matches(entry)]
        self._revision = self._store.revision
        if self._options.initial_events:
            lines.append(self._encode_bookmark(_INITIAL_EVENTS_END))
        return b"".join(lines)

    def _next_chunk(self) -> bytes:
        changes = self._collection.changes_since(self._revision)
        # Changes of other resources advance the revision too: bookmarks report it, and clients reconnect from there.
        self._revision = changes[-1].revision if changes else max(self._revision, self._store.revision)
        if self._is_unfiltered:
            return b"".join([self._encode_change(change) for change in changes])
        return b"".join(event for change in changes for event in self._selected_events(change))

    def _encode_change(self, change: StoreChange) -> bytes:
        return _encode_event(change.type, versioned_body(self._kind, change.body))

    def _selected_events(self, change: StoreChange) -> Iterator[bytes]:
        """The events of a change for a watcher that sees only the selected objects."""
        now = change.current is not None and self._selection.matches(change.current)
        before = change.previous is not None and self._selection.matches(change.previous)
        if now:
            yield self._encode_selected("MODIFIED" if before else "ADDED", change.body)
        elif before:
            yield self._encode_selected("DELETED", self._last_selected_body(change))

    def _last_selected_body(self, change: StoreChange) -> bytes:
        """An object that left the selection is shown in its last selected state, at the revision of the change."""
        if change.current is None or change.previous is None:
            return change.body
        return StoreChange(change.resource, change.revision, None, change.previous).body

    def _encode_selected(self, type: str, body: bytes) -> bytes:
        return _encode_event(type, self._render(versioned_body(self._kind, body)))

    def _encode_bookmark(self, annotations: dict[str, str]) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self._revision)}
        if annotations:
            metadata["annotations"] = annotations
        body = {"kind": self._kind.kind, "apiVersion": self._kind.api_version, "metadata": metadata}
        return _encode_event("BOOKMARK", encode(body))


def _encode_event(type: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type.encode(), body)
