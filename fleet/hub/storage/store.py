"""The store: all objects of all resources, their recent changes, and one revision counter that orders all changes.

A change is *accepted* on the event loop, in order, and becomes *visible* once it is durable: readers and watchers never
see a change that a crash could undo. In between, writers see it through `head`, so that optimistic concurrency includes
changes in flight; a response that depends on them has to wait for `settle`. Without a journal a change is visible at
once.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final, Protocol

from fleet.errors import RequestRefused
from fleet.hub.kinds.kind import Document
from fleet.hub.storage.entries import StoredEntry, encode_at_revision, encode_entry

Key = tuple[str, str]

EVENTS_KEPT: Final = 10_000  # per resource; a watch that is further behind gets 410
BYTES_KEPT: Final = 32 * 1024 * 1024  # of changes of all resources; the resource with the most bytes forgets first
LARGEST_OBJECT: Final = 1536 * 1024  # bytes; the limit of etcd
_SNAPSHOTS_KEPT: Final = 4  # per resource; old states for lists with `continue`
_CHANGE_OVERHEAD: Final = 512  # bytes; the objects around the bodies of a change
_BEGINNING: Final[Key] = ("", "")
_get_revision: Final = attrgetter("revision")


@dataclass(slots=True)
class StoreChange:
    """One accepted write, never modified. `current` is None if the object was deleted."""

    resource: str
    revision: int
    current: StoredEntry | None
    previous: StoredEntry | None
    _removed: bytes = field(default=b"", repr=False)  # the body of a deletion, which all watchers share

    @property
    def entry(self) -> StoredEntry:
        entry = self.current or self.previous
        assert entry is not None, "a change has a state before or after it"
        return entry

    @property
    def type(self) -> str:
        if self.current is None:
            return "DELETED"
        return "MODIFIED" if self.previous else "ADDED"

    @property
    def body(self) -> bytes:
        if self.current:
            return self.current.body
        if not self._removed:
            self._removed = encode_at_revision(self.entry, self.revision)
        return self._removed

    @property
    def size(self) -> int:
        """The bytes that keeping the change may keep in memory."""
        before = len(self.previous.body) if self.previous else 0
        return _CHANGE_OVERHEAD + before + (len(self.current.body) if self.current else before)


class ChangeJournal(Protocol):
    """Makes changes durable, in order. `on_durable` is completed on the event loop."""

    def append(self, change: StoreChange, on_durable: asyncio.Future[None]) -> None: ...


class Collection:
    """The objects of one resource."""

    def __init__(self, resource: str, floor: int) -> None:
        self.resource = resource
        self.entries: dict[Key, StoredEntry] = {}
        self.in_flight: dict[Key, StoreChange] = {}  # the latest change in flight of each object
        self.changes: deque[StoreChange] = deque()
        self.bytes_kept = 0  # size of `changes`
        self.floor = floor  # changes after this revision are all in `changes`
        self._keys: list[Key] = []
        self._snapshots: OrderedDict[int, list[StoredEntry]] = OrderedDict()
        self._waiter: asyncio.Future[None] | None = None

    def load(self, entry: StoredEntry) -> None:
        self.entries[entry.key] = entry
        insort(self._keys, entry.key)

    def head(self, key: Key) -> StoredEntry | None:
        """The latest state, durable or in flight. Threads look at it, too, so it asks for each only once."""
        change = self.in_flight.get(key)
        return self.entries.get(key) if change is None else change.current

    def apply(self, change: StoreChange) -> None:
        key = change.entry.key
        if change.current is None:
            if self.entries.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]
        else:
            if key not in self.entries:
                insort(self._keys, key)
            self.entries[key] = change.current
        if len(self.changes) >= EVENTS_KEPT:
            self.forget_oldest()
        self.changes.append(change)
        self.bytes_kept += change.size
        self.wake()

    def forget_oldest(self) -> None:
        """Forgets the oldest change, and states that cannot be listed any more."""
        oldest = self.changes.popleft()
        self.bytes_kept -= oldest.size
        self.floor = oldest.revision
        while self._snapshots and (earliest := min(self._snapshots)) < self.floor:
            del self._snapshots[earliest]

    def settle(self, change: StoreChange) -> None:
        """Clears the in-flight state of the object, unless a newer change of it is in flight."""
        key = change.entry.key
        if self.in_flight.get(key) is change:
            del self.in_flight[key]

    def scan(self, namespace: str = "", after: Key | None = None) -> Iterator[StoredEntry]:
        """Objects sorted by key, optionally only those after a key."""
        start = _find_position(self._keys, namespace, after)
        for key in islice(self._keys, start, None):
            if namespace and key[0] != namespace:
                return
            yield self.entries[key]

    def state_at(self, revision: int) -> list[StoredEntry] | None:
        """All objects as of a revision, or None if it is too old."""
        if revision < self.floor:
            return None
        known = self._snapshots.get(revision)
        if known is None:
            known = self._snapshots[revision] = self._rewind(revision)
            while len(self._snapshots) > _SNAPSHOTS_KEPT:
                self._snapshots.popitem(last=False)
        return known

    def _rewind(self, revision: int) -> list[StoredEntry]:
        state = dict(self.entries)
        for change in reversed(self.changes):
            if change.revision <= revision:
                break
            if change.previous is None:
                state.pop(change.entry.key, None)
            else:
                state[change.entry.key] = change.previous
        return [state[key] for key in sorted(state)]

    def changes_since(self, revision: int, *, most_bytes: int) -> list[StoreChange]:
        """The first changes after a revision, at least one if there are any, but not much more than the given size.

        A watcher that stops reading keeps them in memory until it is disconnected.
        """
        changes: list[StoreChange] = []
        size = 0
        for index in range(bisect_right(self.changes, revision, key=_get_revision), len(self.changes)):
            change = self.changes[index]
            changes.append(change)
            size += change.size
            if size >= most_bytes:
                break
        return changes

    async def wait_for_change(self) -> None:
        """Returns at the next change."""
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiter)

    def wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def __len__(self) -> int:
        return len(self.entries)


class HubStore:
    def __init__(self, *, revision: int = 1) -> None:
        self.revision = revision  # revision of the latest visible change of any resource
        self._last = revision  # revision of the latest accepted change
        self._latest: asyncio.Future[None] | None = None  # of the latest accepted change
        self._bytes_kept = 0  # size of the changes of all collections
        self.journal: ChangeJournal | None = None
        self._collections: dict[str, Collection] = {}
        self.listeners: list[Callable[[StoreChange], None]] = []

    def collection(self, resource: str) -> Collection:
        collection = self._collections.get(resource)
        if collection is None:
            collection = self._collections[resource] = Collection(resource, self.revision)
        return collection

    def find_head(self, resource: str, key: Key) -> StoredEntry | None:
        """For threads: it creates no collection."""
        collection = self._collections.get(resource)
        return collection.head(key) if collection is not None else None

    @property
    def collections(self) -> Sequence[Collection]:
        return tuple(self._collections.values())

    def put(self, resource: str, document: Document) -> tuple[StoredEntry, asyncio.Future[None] | None]:
        """Accepts a new state of an object. It is durable when the future is done; None means at once."""
        collection = self.collection(resource)
        entry = encode_entry(document, self._last + 1)
        previous = collection.head(entry.key)
        _check_size(entry, previous)
        self._last += 1
        return entry, self._accept(collection, StoreChange(resource, self._last, entry, previous))

    def remove(self, resource: str, entry: StoredEntry) -> tuple[int, asyncio.Future[None] | None]:
        """Accepts the deletion of an object, and returns its revision."""
        self._last += 1
        change = StoreChange(resource, self._last, None, entry)
        return self._last, self._accept(self.collection(resource), change)

    def apply(self, changes: Sequence[StoreChange]) -> None:
        """Called by the journal: makes durable changes visible."""
        for change in changes:
            collection = self.collection(change.resource)
            collection.settle(change)
            self._publish(collection, change)

    def discard_in_flight(self) -> None:
        """Called by the journal after a failure: no change in flight will become durable."""
        for collection in self._collections.values():
            collection.in_flight.clear()

    async def settle(self) -> None:
        """Waits until all changes accepted so far are durable. Raises RequestRefused if they will never be.

        Changes become durable in order, and a failed one takes all later ones in flight with it: waiting for the latest
        one is enough.
        """
        if self._latest is not None:
            await asyncio.shield(self._latest)

    def _accept(self, collection: Collection, change: StoreChange) -> asyncio.Future[None] | None:
        if self.journal is None:
            self._publish(collection, change)
            return None
        collection.in_flight[change.entry.key] = change
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._latest = durable
        durable.add_done_callback(self._finish_latest)
        self.journal.append(change, durable)
        return durable

    def _finish_latest(self, durable: asyncio.Future[None]) -> None:
        if self._latest is durable:
            self._latest = None
        if not durable.cancelled():
            durable.exception()  # retrieved, so that it is not logged: requests wait for the latest change only

    def _publish(self, collection: Collection, change: StoreChange) -> None:
        self.revision = change.revision
        self._bytes_kept -= collection.bytes_kept
        collection.apply(change)
        self._bytes_kept += collection.bytes_kept
        self._forget_changes()
        for listener in self.listeners:
            listener(change)

    def _forget_changes(self) -> None:
        while self._bytes_kept > BYTES_KEPT:
            largest = max(self._collections.values(), key=lambda collection: collection.bytes_kept)
            self._bytes_kept -= largest.bytes_kept
            largest.forget_oldest()
            self._bytes_kept += largest.bytes_kept


def durability_error(error: Exception) -> RequestRefused:
    text = f"the write could not be made durable: {error}; check the disk of the data directory"
    return RequestRefused(503, "ServiceUnavailable", text, retry_after=1)


def _check_size(entry: StoredEntry, previous: StoredEntry | None) -> None:
    """Refuses objects beyond the limit. Larger ones that an earlier version stored may shrink and be deleted."""
    size = len(entry.body)
    if size <= LARGEST_OBJECT or (previous is not None and size <= len(previous.body)):
        return
    if previous is not None and entry.terminating and not previous.terminating:
        return
    text = f"the object is too large: it has {size} bytes in its stored form, the limit is {LARGEST_OBJECT}"
    raise RequestRefused(413, "RequestEntityTooLarge", text)


def _find_position(keys: Sequence[Key], namespace: str, after: Key | None) -> int:
    if after is not None:
        position = bisect_left(keys, after)
        return position + 1 if position < len(keys) and keys[position] == after else position
    return bisect_left(keys, (namespace, "")) if namespace else 0
