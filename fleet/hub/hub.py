"""The hub: wires its components, loads stored objects and creates the initial ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from fleet.hub.access.authentication import Tokens
from fleet.hub.access.authorization import Authorizer
from fleet.hub.access.reviews import Reviews
from fleet.hub.discovery.openapi import OpenAPI
from fleet.hub.kinds.builtin import DEFINITIONS, KINDS, NAMESPACES, REVIEWS
from fleet.hub.kinds.kind import Document, Kind
from fleet.hub.kinds.registry import KindRegistry
from fleet.hub.objects.definitions import Definitions
from fleet.hub.objects.event_expiry import EventExpiry
from fleet.hub.objects.garbage_collector import GarbageCollector
from fleet.hub.objects.metadata import Clock, new_uid
from fleet.hub.objects.objects import ObjectLifecycle
from fleet.hub.objects.patching import Patcher
from fleet.hub.storage.conversion import stored_resource
from fleet.hub.storage.entries import StoredEntry
from fleet.hub.storage.store import HubStore
from fleet.hub.storage.transaction import StoreTransaction
from fleet.hub.wire.options import WriteOptions
from fleet.model.catalog import CATALOG
from fleet.model.crd_generator import build_crd
from fleet.worker_thread import WorkerThread

FIRST_NAMESPACES: Final = ("default", "fleet-system", "kube-node-lease", "kube-public", "kube-system")
_WRITE_OPTIONS: Final = WriteOptions(manager="fleet-hub")


@dataclass(frozen=True, slots=True)
class Writers:
    """What writes objects, to the store or in a transaction of it."""

    objects: ObjectLifecycle
    patcher: Patcher


class Hub:
    """All components of one API server. Used from one event loop only, except for the writers of a transaction."""

    def __init__(
        self,
        tokens: Tokens,
        *,
        revision: int = 1,
        entries: Iterable[tuple[str, StoredEntry]] = (),
        clock: Clock = time.time,
        new_uid: Callable[[], str] = new_uid,
    ) -> None:
        self.registry = KindRegistry((*KINDS, *REVIEWS))
        self.store = HubStore(revision=revision)
        self.definitions = Definitions(self.registry, clock=clock)
        self._clock, self._new_uid = clock, new_uid
        self.writers = self.write_to(self.store)
        self.objects = self.writers.objects
        self.large_writes = WorkerThread("fleet-hub-large-writes")
        self.openapi = OpenAPI(self.registry)
        self.tokens = tokens
        self.authorizer = Authorizer(self.store)
        self.reviews = Reviews(tokens, self.authorizer, clock=clock)
        self.garbage_collector = GarbageCollector(self.store, self.objects, self.registry)
        self.event_expiry = EventExpiry(self.store, clock=clock)
        self._load(entries)
        self.store.listeners += [
            self.definitions.on_change,
            self.garbage_collector.on_change,
            self.event_expiry.on_change,
        ]

    def write_to(self, store: HubStore | StoreTransaction) -> Writers:
        objects = ObjectLifecycle(store, clock=self._clock, definitions=self.definitions, new_uid=self._new_uid)
        return Writers(objects, Patcher(objects, clock=self._clock))

    def bootstrap(self) -> None:
        """Creates the initial namespaces, and creates or updates Fleet's own CustomResourceDefinitions."""
        namespaces = self._kind("", "v1", NAMESPACES)
        for name in FIRST_NAMESPACES:
            if self.objects.head(namespaces, ("", name)) is None:
                self.objects.create(namespaces, "", {"metadata": {"name": name}}, _WRITE_OPTIONS)
        definitions = self._kind("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        for resource in CATALOG:
            if not resource.on_member:
                self._apply_definition(definitions, build_crd(resource))

    def _apply_definition(self, kind: Kind, document: Document) -> None:
        old = self.objects.head(kind, ("", document["metadata"]["name"]))
        if old is None:
            self.objects.create(kind, "", document, _WRITE_OPTIONS)
        elif not old.terminating:
            before = old.document()
            desired = before | {"spec": document["spec"]}
            self.objects.replace(kind, old, desired, _WRITE_OPTIONS)

    def _load(self, entries: Iterable[tuple[str, StoredEntry]]) -> None:
        for kind in KINDS:
            self.store.collection(stored_resource(kind))
        for resource, entry in entries:
            self.store.collection(resource).load(entry)
        self.definitions.load(self.store.collection(DEFINITIONS).scan())
        self.garbage_collector.load_existing()
        self.event_expiry.load_existing()

    def _kind(self, group: str, version: str, plural: str) -> Kind:
        kind = self.registry.find(group, version, plural)
        assert kind is not None, "built-in kinds are always served"
        return kind
