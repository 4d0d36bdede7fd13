"""The garbage collector: deletes dependents, the content of namespaces and the objects of definitions.

Changes enqueue the affected objects. Each is reconciled from its latest state, so enqueueing it again is harmless.
After a restart, and some time after a failed step, all terminating objects are enqueued again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

from fleet.errors import RequestRefused
from fleet.hub.kinds.builtin import DEFINITIONS, NAMESPACES
from fleet.hub.kinds.kind import Kind
from fleet.hub.kinds.registry import KindRegistry
from fleet.hub.objects.metadata import DEFINITION_CLEANUP, FOREGROUND, NAMESPACE_FINALIZER, ORPHAN
from fleet.hub.objects.objects import AcceptedWrite, ObjectLifecycle
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.storage.store import HubStore, Key, StoreChange
from fleet.hub.wire.options import DeletionOptions, WriteOptions

_LOG: Final = logging.getLogger(__name__)
_WRITE_OPTIONS: Final = WriteOptions(manager="fleet-hub")
_BACKGROUND: Final = DeletionOptions(policy="Background")
_BATCH: Final = 20  # objects processed before yielding to requests
_RETRY_AFTER: Final = 10.0  # seconds until failed steps are retried

Item = tuple[str, Key]  # resource and key


class GarbageCollector:
    def __init__(self, store: HubStore, objects: ObjectLifecycle, registry: KindRegistry) -> None:
        self._store = store
        self._objects = objects
        self._registry = registry
        self._live_uids: set[str] = set()  # uids of all objects
        self._terminating: dict[str, Item] = {}  # terminating objects, by uid
        self._dependents: dict[str, set[Item]] = {}  # by the uid of the owner
        self._queue: dict[Item, None] = {}  # an ordered set
        self._wakeup = asyncio.Event()
        self._failed = False

    # --- event handlers -----------------------------------------------------------------------------------------------

    def load_existing(self) -> None:
        """Indexes and enqueues the objects that were loaded from the database."""
        for collection in self._store.collections:
            for entry in collection.scan():
                self._live_uids.add(entry.uid)
                self._index_owners(collection.resource, entry)
        self._enqueue_all_due()

    def _enqueue_all_due(self) -> None:
        for collection in self._store.collections:
            for entry in collection.scan():
                self._enqueue_if_due((collection.resource, entry.key), entry)

    def on_change(self, change: StoreChange) -> None:
        item = (change.resource, change.entry.key)
        if change.previous is not None:
            for uid in change.previous.owners:
                self._dependents.get(uid, set()).discard(item)
        if change.current is None:
            self._on_removed(change)
        else:
            self._live_uids.add(change.current.uid)
            self._index_owners(change.resource, change.current)
            self._enqueue_if_due(item, change.current)
        for uid in change.previous.owners if change.previous else ():
            if uid in self._terminating:
                self._enqueue(self._terminating[uid])

    def _index_owners(self, resource: str, entry: StoredEntry) -> None:
        for uid in entry.owners:
            self._dependents.setdefault(uid, set()).add((resource, entry.key))

    def _enqueue_if_due(self, item: Item, entry: StoredEntry) -> None:
        if entry.terminating:
            self._terminating[entry.uid] = item
            self._enqueue(item)
        elif any(uid not in self._live_uids for uid in entry.owners):
            self._enqueue(item)

    def _on_removed(self, change: StoreChange) -> None:
        removed = change.entry
        self._live_uids.discard(removed.uid)
        self._terminating.pop(removed.uid, None)
        for item in self._dependents.pop(removed.uid, ()):
            self._enqueue(item)
        for container in ((NAMESPACES, ("", removed.namespace)), (DEFINITIONS, ("", change.resource))):
            entry = self._store.collection(container[0]).entries.get(container[1])
            if entry is not None and entry.terminating:
                self._enqueue(container)

    def _enqueue(self, item: Item) -> None:
        self._queue[item] = None
        self._wakeup.set()

    # --- worker -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        retry: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as tasks:
            while True:
                await self._wakeup.wait()
                self._wakeup.clear()
                self.process_batch()
                while self.has_work:
                    await asyncio.sleep(0)
                    self.process_batch()
                if self._failed and (retry is None or retry.done()):
                    retry = tasks.create_task(self._requeue_failed(), name="fleet-hub-gc-retry")

    async def _requeue_failed(self) -> None:
        await asyncio.sleep(_RETRY_AFTER)
        self._failed = False
        self._enqueue_all_due()

    @property
    def has_work(self) -> bool:
        return bool(self._queue)

    def process_batch(self) -> None:
        """Reconciles a limited number of queued objects."""
        for _ in range(min(_BATCH, len(self._queue))):
            item = next(iter(self._queue))
            del self._queue[item]
            try:
                self._reconcile(item)
            except RequestRefused as refused:
                _LOG.warning("garbage collection of %s %s failed: %s", item[0], "/".join(item[1]).lstrip("/"), refused)
                self._failed = True
            except Exception:  # one object must not stop the hub
                _LOG.exception("garbage collection of %s %s failed", item[0], "/".join(item[1]).lstrip("/"))

    def _watch_durability(self, written: AcceptedWrite) -> None:
        """An accepted write may still fail to become durable."""
        if written.durable is not None:
            written.durable.add_done_callback(self._on_durable)

    def _on_durable(self, durable: asyncio.Future[None]) -> None:
        if not durable.cancelled() and durable.exception() is not None:
            _LOG.warning("a write of the garbage collector was lost: %s", durable.exception())
            self._failed = True
            self._wakeup.set()

    def _reconcile(self, item: Item) -> None:
        resource, key = item
        kind = self._registry.stored_kind(resource)
        entry = self._store.collection(resource).head(key)
        if kind is None or entry is None:
            return
        if not entry.terminating:
            self._collect_dangling(kind, entry)
        elif resource == NAMESPACES:
            self._empty_namespace(kind, entry)
        elif resource == DEFINITIONS:
            self._empty_definition(kind, entry)
        else:
            self._process_finalizers(kind, entry)

    def _collect_dangling(self, kind: Kind, entry: StoredEntry) -> None:
        """Deletes an object without remaining owners; removes references to deleted owners from any other."""
        deleted = [uid for uid in entry.owners if uid not in self._live_uids]
        remaining = [uid for uid in entry.owners if uid in self._live_uids and uid not in self._terminating]
        if not deleted or self._has_unknown_owner(entry):
            return
        if remaining:
            self._remove_owners(kind, entry, deleted)
        else:
            self._watch_durability(self._objects.delete(kind, entry.key, _BACKGROUND))

    def _has_unknown_owner(self, entry: StoredEntry) -> bool:
        """Whether an owner is of a kind that is not served, so that its existence cannot be checked."""
        for owner in entry.metadata()["ownerReferences"]:
            group, _, version = owner["apiVersion"].rpartition("/")
            if not any(kind.kind == owner["kind"] for kind in self._registry.of_version(group, version)):
                return True
        return False

    def _remove_owners(self, kind: Kind, entry: StoredEntry, uids: list[str]) -> None:
        document = entry.document()
        owners = [owner for owner in document["metadata"]["ownerReferences"] if owner.get("uid") not in uids]
        document["metadata"]["ownerReferences"] = owners
        self._watch_durability(self._objects.replace(kind, entry, document, _WRITE_OPTIONS))

    def _process_finalizers(self, kind: Kind, entry: StoredEntry) -> None:
        """Orphans or deletes the dependents as the finalizer demands, then removes the finalizer."""
        if ORPHAN in entry.finalizers:
            for dependent_kind, dependent in list(self._dependents_of(entry)):
                self._remove_owners(dependent_kind, dependent, [entry.uid])
            self._remove_finalizer(kind, entry, ORPHAN)
        elif FOREGROUND in entry.finalizers and not self._delete_dependents(entry):
            self._remove_finalizer(kind, entry, FOREGROUND)

    def _delete_dependents(self, owner: StoredEntry) -> bool:
        """Foreground deletion: deletes the dependents, and returns whether some still block the owner."""
        blocked = False
        for kind, dependent in list(self._dependents_of(owner)):
            others = [uid for uid in dependent.owners if uid in self._live_uids and uid not in self._terminating]
            if others:
                self._remove_owners(kind, dependent, [owner.uid])
                continue
            if not dependent.terminating:
                self._watch_durability(self._objects.delete(kind, dependent.key, DeletionOptions(policy="Foreground")))
            blocked = blocked or _blocks_owner_deletion(dependent, owner.uid)
        return blocked

    def _dependents_of(self, owner: StoredEntry) -> Iterator[tuple[Kind, StoredEntry]]:
        for resource, key in list(self._dependents.get(owner.uid, ())):
            kind, entry = self._registry.stored_kind(resource), self._store.collection(resource).head(key)
            if kind is not None and entry is not None:
                yield kind, entry

    def _remove_finalizer(self, kind: Kind, entry: StoredEntry, name: str) -> None:
        if entry.finalizers == (name,):
            self._watch_durability(self._objects.remove(kind, entry))
            return
        document = entry.document()
        left = [finalizer for finalizer in document["metadata"].get("finalizers") or () if finalizer != name]
        document["metadata"]["finalizers"] = left
        self._watch_durability(self._objects.replace(kind, entry, document, _WRITE_OPTIONS))

    def _empty_namespace(self, kind: Kind, entry: StoredEntry) -> None:
        empty = True
        for collection in self._store.collections:
            inner_kind = self._registry.stored_kind(collection.resource)
            for inner in list(collection.scan(entry.name)):
                empty = False
                if inner_kind is not None and not inner.terminating:
                    self._watch_durability(self._objects.delete(inner_kind, inner.key, _BACKGROUND))
        finalizers = entry.document().get("spec", {}).get("finalizers") or []
        if empty and NAMESPACE_FINALIZER in finalizers:
            document = entry.document()
            document["spec"]["finalizers"] = [name for name in finalizers if name != NAMESPACE_FINALIZER]
            self._watch_durability(self._objects.replace(kind, entry, document, _WRITE_OPTIONS, subresource="finalize"))

    def _empty_definition(self, kind: Kind, entry: StoredEntry) -> None:
        collection = self._store.collection(entry.name)
        inner_kind = self._registry.stored_kind(entry.name)
        for inner in list(collection.scan()):
            if inner_kind is not None and not inner.terminating:
                self._watch_durability(self._objects.delete(inner_kind, inner.key, _BACKGROUND))
        if not len(collection) or inner_kind is None:
            self._remove_finalizer(kind, entry, DEFINITION_CLEANUP)


def _blocks_owner_deletion(entry: StoredEntry, uid: str) -> bool:
    owners = entry.metadata().get("ownerReferences") or ()
    return any(owner.get("uid") == uid and owner.get("blockOwnerDeletion") for owner in owners)
