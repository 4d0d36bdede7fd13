"""What the deletion of an object does to others: dependents, the content of a namespace, the objects of a definition.

Works through a list of objects that changes put there, each from its newest state; so it does not matter how often one
comes up. After a restart, and some time after a step that failed, everything that is being deleted comes up once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from fleet.errors import RequestRefused
from fleet.hub.http.options import DeleteOptions, WriteOptions
from fleet.hub.kinds.builtin import DEFINITIONS, NAMESPACES
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.kinds.registry import Registry
from fleet.hub.objects.metadata import DEFINITION_CLEANUP, FOREGROUND, NAMESPACE_FINALIZER, ORPHAN
from fleet.hub.objects.objects import Objects, Written
from fleet.hub.storage.encoding import Entry
from fleet.hub.storage.store import Change, Key, Store

_LOG: Final = logging.getLogger(__name__)
_OWN: Final = WriteOptions(manager="fleet-hub")
_BACKGROUND: Final = DeleteOptions(policy="Background")
_BEFORE_YIELDING: Final = 20  # objects handled before requests get their turn
_RETRY_AFTER: Final = 10.0  # seconds after which a step that failed is tried again

Item = tuple[str, Key]  # resource and key


class Teardown:
    def __init__(self, store: Store, objects: Objects, registry: Registry) -> None:
        self._store = store
        self._objects = objects
        self._registry = registry
        self._living: set[str] = set()  # uids of all objects
        self._leaving: dict[str, Item] = {}  # those that are being deleted, by uid
        self._dependents: dict[str, set[Item]] = {}  # by the uid of an owner
        self._todo: dict[Item, None] = {}  # a set that keeps its order
        self._news = asyncio.Event()
        self._failed = False

    # --- noticing -----------------------------------------------------------------------------------------------------

    def prime(self) -> None:
        """Takes stock of what was loaded."""
        for collection in self._store.collections:
            for entry in collection.scan():
                self._living.add(entry.uid)
                self._note(collection.resource, entry)
        self._consider_everything()

    def _consider_everything(self) -> None:
        for collection in self._store.collections:
            for entry in collection.scan():
                self._consider((collection.resource, entry.key), entry)

    def on_change(self, change: Change) -> None:
        item = (change.resource, change.entry.key)
        if change.previous is not None:
            for uid in change.previous.owners:
                self._dependents.get(uid, set()).discard(item)
        if change.current is None:
            self._on_gone(change)
        else:
            self._living.add(change.current.uid)
            self._note(change.resource, change.current)
            self._consider(item, change.current)
        for uid in change.previous.owners if change.previous else ():
            if uid in self._leaving:
                self._enqueue(self._leaving[uid])

    def _note(self, resource: str, entry: Entry) -> None:
        for uid in entry.owners:
            self._dependents.setdefault(uid, set()).add((resource, entry.key))

    def _consider(self, item: Item, entry: Entry) -> None:
        if entry.terminating:
            self._leaving[entry.uid] = item
            self._enqueue(item)
        elif any(uid not in self._living for uid in entry.owners):
            self._enqueue(item)

    def _on_gone(self, change: Change) -> None:
        gone = change.entry
        self._living.discard(gone.uid)
        self._leaving.pop(gone.uid, None)
        for item in self._dependents.pop(gone.uid, ()):
            self._enqueue(item)
        for container in ((NAMESPACES, ("", gone.namespace)), (DEFINITIONS, ("", change.resource))):
            entry = self._store.collection(container[0]).entries.get(container[1])
            if entry is not None and entry.terminating:
                self._enqueue(container)

    def _enqueue(self, item: Item) -> None:
        self._todo[item] = None
        self._news.set()

    # --- acting -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        again: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._news.wait()
                self._news.clear()
                self.work()
                while self.has_work:
                    await asyncio.sleep(0)
                    self.work()
                if self._failed and (again is None or again.done()):
                    again = tasks.create_task(self._try_again(), name="fleet-hub-teardown-again")

    async def _try_again(self) -> None:
        await asyncio.sleep(_RETRY_AFTER)
        self._failed = False
        self._consider_everything()

    @property
    def has_work(self) -> bool:
        return bool(self._todo)

    def work(self) -> None:
        """Handles some of the list."""
        for _ in range(min(_BEFORE_YIELDING, len(self._todo))):
            item = next(iter(self._todo))
            del self._todo[item]
            try:
                self._handle(item)
            except RequestRefused as refused:
                _LOG.warning("cannot tear down %s %s: %s", item[0], "/".join(item[1]).lstrip("/"), refused)
                self._failed = True
            except Exception:  # one odd object must not end the hub
                _LOG.exception("tearing down %s %s failed", item[0], "/".join(item[1]).lstrip("/"))

    def _follow(self, written: Written) -> None:
        """A write that was accepted may still turn out not to be durable."""
        if written.durable is not None:
            written.durable.add_done_callback(self._on_settled)

    def _on_settled(self, durable: asyncio.Future[None]) -> None:
        if not durable.cancelled() and durable.exception() is not None:
            _LOG.warning("a step of a deletion was lost: %s", durable.exception())
            self._failed = True
            self._news.set()

    def _handle(self, item: Item) -> None:
        resource, key = item
        kind = self._registry.stored_kind(resource)
        entry = self._store.collection(resource).head(key)
        if kind is None or entry is None:
            return
        if not entry.terminating:
            self._collect(kind, entry)
        elif resource == NAMESPACES:
            self._empty_namespace(kind, entry)
        elif resource == DEFINITIONS:
            self._empty_definition(kind, entry)
        else:
            self._release(kind, entry)

    def _collect(self, kind: Kind, entry: Entry) -> None:
        """An object none of whose owners is left goes with them; one with some owners left forgets the others."""
        gone = [uid for uid in entry.owners if uid not in self._living]
        staying = [uid for uid in entry.owners if uid in self._living and uid not in self._leaving]
        if not gone or self._has_foreign_owner(entry):
            return
        if staying:
            self._disown(kind, entry, gone)
        else:
            self._follow(self._objects.delete(kind, entry.key, _BACKGROUND))

    def _has_foreign_owner(self, entry: Entry) -> bool:
        """Whether an owner is of a kind that is not served here, so that nobody can say whether it lives."""
        for owner in entry.document()["metadata"]["ownerReferences"]:
            group, _, version = owner["apiVersion"].rpartition("/")
            if not any(kind.kind == owner["kind"] for kind in self._registry.of_version(group, version)):
                return True
        return False

    def _disown(self, kind: Kind, entry: Entry, uids: list[str]) -> None:
        document = entry.document()
        owners = [owner for owner in document["metadata"]["ownerReferences"] if owner.get("uid") not in uids]
        document["metadata"]["ownerReferences"] = owners
        self._follow(self._objects.replace(kind, entry, document, _OWN))

    def _release(self, kind: Kind, entry: Entry) -> None:
        """Does for the dependents what the deletion asked for, then takes that finalizer away."""
        finalizers = entry.document()["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            for dependent_kind, dependent in list(self._dependents_of(entry)):
                self._disown(dependent_kind, dependent, [entry.uid])
            self._remove_finalizer(kind, entry, ORPHAN)
        elif FOREGROUND in finalizers and not self._is_blocked(entry):
            self._remove_finalizer(kind, entry, FOREGROUND)

    def _is_blocked(self, owner: Entry) -> bool:
        """Deletes the dependents of an object that waits for them; whether there are some to wait for."""
        blocked = False
        for kind, dependent in list(self._dependents_of(owner)):
            others = [uid for uid in dependent.owners if uid in self._living and uid not in self._leaving]
            if others:
                self._disown(kind, dependent, [owner.uid])
                continue
            if not dependent.terminating:
                self._follow(self._objects.delete(kind, dependent.key, DeleteOptions(policy="Foreground")))
            blocked = blocked or _blocks(dependent.document(), owner.uid)
        return blocked

    def _dependents_of(self, owner: Entry) -> Iterator[tuple[Kind, Entry]]:
        for resource, key in list(self._dependents.get(owner.uid, ())):
            kind, entry = self._registry.stored_kind(resource), self._store.collection(resource).head(key)
            if kind is not None and entry is not None:
                yield kind, entry

    def _remove_finalizer(self, kind: Kind, entry: Entry, name: str) -> None:
        document = entry.document()
        left = [finalizer for finalizer in document["metadata"].get("finalizers") or () if finalizer != name]
        document["metadata"]["finalizers"] = left
        self._follow(self._objects.replace(kind, entry, document, _OWN))

    def _empty_namespace(self, kind: Kind, entry: Entry) -> None:
        empty = True
        for collection in self._store.collections:
            inner_kind = self._registry.stored_kind(collection.resource)
            for inner in list(collection.scan(entry.name)):
                empty = False
                if inner_kind is not None and not inner.terminating:
                    self._follow(self._objects.delete(inner_kind, inner.key, _BACKGROUND))
        finalizers = entry.document().get("spec", {}).get("finalizers") or []
        if empty and NAMESPACE_FINALIZER in finalizers:
            document = entry.document()
            document["spec"]["finalizers"] = [name for name in finalizers if name != NAMESPACE_FINALIZER]
            self._follow(self._objects.replace(kind, entry, document, _OWN, subresource="finalize"))

    def _empty_definition(self, kind: Kind, entry: Entry) -> None:
        collection = self._store.collection(entry.name)
        inner_kind = self._registry.stored_kind(entry.name)
        for inner in list(collection.scan()):
            if inner_kind is not None and not inner.terminating:
                self._follow(self._objects.delete(inner_kind, inner.key, _BACKGROUND))
        if not len(collection) or inner_kind is None:
            self._remove_finalizer(kind, entry, DEFINITION_CLEANUP)


def _blocks(document: Document, uid: str) -> bool:
    owners = document["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in owners)
