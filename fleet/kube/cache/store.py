"""Store: the cache of an informer, with the newest state of all objects of a kind from the watch and own writes.

Handlers are called exactly once for every change, with *(old, new)*: `(None, new)` was added, `(old, None)` deleted.
Applying all calls in order always gives the store's content. Reading from the API server is left to `reflector`; this
module decides which of two states is the newer one.

That decision rests on resourceVersions. Kubernetes promises that those of one resource type are decimal numbers that
grow with every write (a conformance rule of Kubernetes 1.35, kept by every API server on etcd before), so they are
compared as numbers, and only within this one resource. A version that is not a number cannot be compared; then the
watch counts, and own writes become visible with their watch events.

Reading own writes. The answer to a write is put into the store at once. From then on the watch may have older states of
the object, which are dropped, and lists that were made before the write may lack it, which does not mean that it was
deleted. An object whose deletion was confirmed leaves a tombstone, so that older events do not restore it. Conversely,
an answer that arrives after the watch has passed its version is dropped: the object may have been changed or deleted
since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

import msgspec

from fleet.kube.cache.large_documents import LARGE, find_span, read_around_spec, read_metadata
from fleet.kube.cache.stepwise import Steps, decode_fields, read_fields, take_turns
from fleet.kube.resource import key_of
from fleet.model.decoding import decode
from fleet.model.views import Metadata, Observed, View

T = TypeVar("T")
V = TypeVar("V", bound=View)

Handler = Callable[[T | None, T | None], None]
ChangeFilter = Callable[[T | None, T | None], bool]
IndexFunction = Callable[[T], Iterable[Hashable]]


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Decodes an object and accesses its metadata."""

    read: Callable[[bytes], T]
    metadata_of: Callable[[T], Metadata]
    read_large: Callable[[bytes, T | None], Steps[T]] | None = None
    """In steps, and only what differs from the known object. None for what is read at once, however large."""


def build_codec(view_type: type[V]) -> Codec[Observed[V]]:
    """Decodes documents into a view and keeps the document with it."""
    read_fast = msgspec.json.Decoder(view_type).decode

    def read(document: bytes) -> Observed[V]:
        try:
            return Observed(read_fast(document), document)
        except msgspec.MsgspecError:
            return decode(document, view_type)  # tolerates nulls, and has better error messages

    def read_large(document: bytes, known: Observed[V] | None) -> Steps[Observed[V]]:
        try:
            changed = None if known is None else read_around_spec(document, known, read_fast)
            if changed is not None:
                return changed
            texts = read_fields(document)
            view = yield from decode_fields(texts, view_type)
            return Observed(view, document, find_span(document, texts.get("spec", msgspec.Raw())))
        except Exception:
            return read(document)  # names what is wrong

    has_spec = "spec" in view_type.__struct_fields__
    return Codec(read, attrgetter("view.metadata"), read_large if has_spec else None)


def _report_to_loop(error: Exception) -> None:
    context = {"message": "a handler of a store raised", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)


def adds_or_deletes(old: object, new: object) -> bool:
    """For `when`."""
    return old is None or new is None


def is_older(version: str, other: str) -> bool:
    """Whether a resourceVersion certainly precedes another of the same resource."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


class Store(Generic[T]):
    def __init__(self, codec: Codec[T], *, on_handler_error: Callable[[Exception], None] | None = None) -> None:
        """A handler that raises, or whose filter does, does not affect the other handlers and the store."""
        self.codec = codec
        self.version = ""
        """The version that the watch has reached."""
        self._objects: dict[str, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._handlers: list[tuple[Handler[T], ChangeFilter[T] | None]] = []
        self._on_handler_error = on_handler_error or _report_to_loop
        self._tombstones: dict[str, _Tombstone] = {}
        self._lists_begun = 0

    # --- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: object) -> bool:
        return key in self._objects

    def __iter__(self) -> Iterator[str]:
        return iter(self._objects)

    def get(self, key: str) -> T | None:
        return self._objects.get(key)

    def values(self) -> list[T]:
        return list(self._objects.values())

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """The objects with that value, in no particular order."""
        return [self._objects[key] for key in self._indexes[index].keys_of(value)]

    async def read(self, document: bytes) -> T:
        """A large document takes several turns of the event loop, unless only its status differs from that of the
        present object."""
        if len(document) < LARGE or self.codec.read_large is None:
            return self.codec.read(document)
        metadata = read_metadata(document)
        known = None if metadata is None else self._objects.get(key_of(metadata))
        return await take_turns(self.codec.read_large(document, known))

    # --- setup --------------------------------------------------------------------------------------------------------

    def add_index(self, name: str, values_of: IndexFunction[T]) -> None:
        if name in self._indexes:
            raise ValueError(f"an index named {name} already exists")
        index = self._indexes[name] = _Index(values_of)
        for key, held in self._objects.items():
            index.move(key, *index.prepare(None, held))

    def subscribe(self, handler: Handler[T], *, when: ChangeFilter[T] | None = None) -> None:
        """The handler is called for all present objects, and from now on for every change, or for those of which `when`
        is true: it is computed once for all handlers that have it."""
        self._handlers.append((handler, when))
        for held in list(self._objects.values()):
            try:
                handler(None, held)
            except Exception as error:
                self._on_handler_error(error)

    # --- our own writes -----------------------------------------------------------------------------------------------

    def apply_write(self, written: T) -> None:
        """The API server answered an own write with this object."""
        metadata = self.codec.metadata_of(written)
        if is_older(self.version, metadata.resource_version) and not self._is_buried(metadata):
            self._put_newer(written, metadata)

    def apply_delete(self, key: str, uid: str) -> None:
        """The API server confirmed the deletion of this object. Not for objects that are only being deleted."""
        held = self._objects.get(key)
        if held is None or self.codec.metadata_of(held).uid != uid:
            return
        self._tombstones[key] = _Tombstone(uid, self._lists_begun)
        self._change(key, held, None)

    # --- the watch ----------------------------------------------------------------------------------------------------

    def apply_event(self, seen: T) -> None:
        """The watch has an added or modified object."""
        metadata = self.codec.metadata_of(seen)
        if not self._tombstones or not self._is_buried(metadata):
            self._put_newer(seen, metadata)
        self.advance_version(metadata.resource_version)

    def apply_delete_event(self, key: str, *, uid: str, version: str) -> None:
        """The object was deleted, or is no longer selected by the watch."""
        buried = self._tombstones.get(key)
        if buried is not None and buried.uid == uid:
            del self._tombstones[key]
        held = self._objects.get(key)
        if held is not None and not is_older(version, self.codec.metadata_of(held).resource_version):
            self._change(key, held, None)
        self.advance_version(version)

    def advance_version(self, version: str) -> None:
        """The watch has reached this version."""
        if version and not is_older(version, self.version):
            self.version = version

    # --- lists --------------------------------------------------------------------------------------------------------

    def relist(self) -> Relist[T]:
        self._lists_begun += 1
        return Relist(self, number=self._lists_begun)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _is_buried(self, metadata: Metadata) -> bool:
        buried = self._tombstones.get(key_of(metadata))
        return buried is not None and buried.uid == metadata.uid

    def _put_newer(self, new: T, fresh: Metadata) -> None:
        key = key_of(fresh)
        held = self._objects.get(key)
        if held is None:
            self._change(key, None, new)
            return
        old = self.codec.metadata_of(held)
        if old.resource_version == fresh.resource_version or is_older(fresh.resource_version, old.resource_version):
            return
        self._replace(key, held, new, same=old.uid == fresh.uid)

    def _replace(self, key: str, old: T, new: T, *, same: bool) -> None:
        """Another object under an old name is not a change of the old one."""
        if same:
            self._change(key, old, new)
        else:
            self._change(key, old, None)
            self._change(key, None, new)

    def _change(self, key: str, old: T | None, new: T | None) -> None:
        if self._indexes:
            self._reindex(key, old, new)  # may raise: nothing has changed yet
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        selects: dict[ChangeFilter[T], bool] = {}
        for handler, when in self._handlers:
            if when is not None:
                if when not in selects:
                    selects[when] = self._selects(when, old, new)
                if not selects[when]:
                    continue
            try:
                handler(old, new)
            except Exception as error:
                self._on_handler_error(error)

    def _reindex(self, key: str, old: T | None, new: T | None) -> None:
        moves = [(index, *index.prepare(old, new)) for index in self._indexes.values()]
        for index, leave, enter in moves:
            if leave or enter:
                index.move(key, leave, enter)

    def _selects(self, when: ChangeFilter[T], old: T | None, new: T | None) -> bool:
        try:
            return when(old, new)
        except Exception as error:
            self._on_handler_error(error)
            return True  # to be called in vain does less harm than to miss a change


class Relist(Generic[T]):
    """One list that is put into the store, page by page.

    A list with a lower version than the watch has reached means that the server was restored from a backup. Then
    earlier versions cannot be compared, and the list replaces everything.
    """

    def __init__(self, store: Store[T], *, number: int) -> None:
        self._store = store
        self._number = number
        self._listed: set[str] = set()
        self._version = ""

    @property
    def _is_set_back(self) -> bool:
        return is_older(self._version, self._store.version)

    def begin(self, version: str) -> None:
        """All pages of a list have the version of the first."""
        self._version = version

    def add(self, listed: T) -> None:
        store = self._store
        metadata = store.codec.metadata_of(listed)
        key = key_of(metadata)
        self._listed.add(key)
        if self._is_buried(key, metadata.uid):
            return
        held = store.get(key)
        if held is None or not self._is_set_back:
            store._put_newer(listed, metadata)
        elif held != listed:
            store._replace(key, held, listed, same=store.codec.metadata_of(held).uid == metadata.uid)

    def has(self, key: str) -> bool:
        return key in self._listed

    def keep(self, key: str) -> None:
        """For an object that cannot be read: its present state stays in the store."""
        self._listed.add(key)

    def end(self) -> None:
        """Deletes objects that the list lacks, unless they were written after the list was made."""
        store = self._store
        for key in [key for key in store if key not in self._listed]:
            held = store._objects[key]
            if self._is_set_back or not is_older(self._version, store.codec.metadata_of(held).resource_version):
                store._change(key, held, None)
        store._tombstones = {
            key: buried for key, buried in store._tombstones.items() if buried.list_number >= self._number
        }
        store.version = self._version

    def _is_buried(self, key: str, uid: str) -> bool:
        """Deleted by an own write after this list was requested, so the list may still contain it."""
        buried = self._store._tombstones.get(key)
        return buried is not None and buried.uid == uid and buried.list_number >= self._number


@dataclass(frozen=True, slots=True)
class _Tombstone:
    uid: str
    list_number: int


class _Index(Generic[T]):
    def __init__(self, values_of: IndexFunction[T]) -> None:
        self._values_of = values_of
        self._keys: dict[Hashable, set[str]] = {}

    def keys_of(self, value: Hashable) -> Iterable[str]:
        return self._keys.get(value, ())

    def prepare(self, old: T | None, new: T | None) -> tuple[Collection[Hashable], Collection[Hashable]]:
        """The values to leave and to enter. Most changes leave them as they are."""
        before = () if old is None else tuple(self._values_of(old))
        after = () if new is None else tuple(self._values_of(new))
        if before == after:
            return (), ()
        return set(before).difference(after), set(after).difference(before)

    def move(self, key: str, leave: Iterable[Hashable], enter: Iterable[Hashable]) -> None:
        for value in leave:
            keys = self._keys[value]
            keys.discard(key)
            if not keys:
                del self._keys[value]
        for value in enter:
            if (held := self._keys.get(value)) is None:
                self._keys[value] = {key}
            else:
                held.add(key)
