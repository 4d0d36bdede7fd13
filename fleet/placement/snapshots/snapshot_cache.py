"""Cache of the resource snapshots of all placements: informers, with live reads where the cache may be stale.

Only the identities of the objects inside are cached; their content is read from the API server on demand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import msgspec

from fleet.errors import NotFound, StaleInputs
from fleet.kube.cache.store import build_codec
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.objects import Objects
from fleet.kube.resource import Resource, join_key, key_of
from fleet.kube.scopes import PlacementScope, owner_key
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.views import Metadata, Observed, View
from fleet.placement.snapshots.hashing import fingerprint
from fleet.placement.snapshots.snapshot_group import SnapshotGroup, SnapshotView, group_snapshots, snapshot_codec

_BY_OWNER: Final = "owner"

Json = dict[str, Any]


class _Spec(View, frozen=True):
    selected_resources: tuple[msgspec.Raw, ...] = ()


class _FullSnapshot(View, frozen=True):
    """A snapshot with the content of its objects."""

    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()


@dataclass(frozen=True, slots=True)
class StoredSnapshots:
    groups: Sequence[SnapshotGroup]
    """By index, without terminating snapshots."""
    next_index: int


@dataclass(frozen=True, slots=True)
class _SnapshotKind:
    scope: PlacementScope
    informer: Informer[SnapshotView]
    full: Objects[Observed[_FullSnapshot]]


class SnapshotCache:
    def __init__(self, access: InformerConfig, scopes: Iterable[PlacementScope]) -> None:
        self._kinds = {scope.namespaced: _build_kind(access, scope) for scope in scopes}
        self._fingerprints: dict[str, tuple[str, str]] = {}
        self._own_writes: set[str] = set()
        self._synced = False
        self._enqueue: Callable[[str], None] = lambda _: None
        for kind in self._kinds.values():
            kind.informer.store.subscribe(self._on_change)

    def subscribe(self, enqueue: Callable[[str], None]) -> None:
        """`enqueue` is called with the key of a placement when another client changed its snapshots."""
        self._enqueue = enqueue

    async def run(self) -> NoReturn:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds.values():
                name = f"watching {kind.informer.resource.plural}"
                group.create_task(kind.informer.reflector.run(), name=name)
            await self.wait_for_sync()
            self._synced = True
        raise AssertionError("reflectors do not end")

    async def wait_for_sync(self) -> None:
        """Returns once all informers are synced."""
        for kind in self._kinds.values():
            await kind.informer.reflector.wait_for_sync()

    # --- reading ------------------------------------------------------------------------------------------------------

    def all(self) -> Iterator[tuple[Resource, Collection[SnapshotView]]]:
        for kind in self._kinds.values():
            yield kind.informer.resource, kind.informer.store.values()

    def owner_resource(self, placement: Metadata) -> Resource:
        return self._kind_for(placement).scope.placement

    def objects(self, namespace: str) -> Objects[SnapshotView]:
        """Of placements in namespaces, or of cluster-scoped ones."""
        return self._kinds[bool(namespace)].informer.objects

    def list_cached(self, placement: Metadata) -> list[SnapshotView]:
        snapshots = self._kind_for(placement).informer.store.by_index(_BY_OWNER, key_of(placement))
        return [snapshot for snapshot in snapshots if snapshot.belongs_to(placement)]

    async def load_groups(self, placement: Metadata, *, reads_live: bool) -> StoredSnapshots:
        ours = await self._list_live(placement) if reads_live else self.list_cached(placement)
        groups = group_snapshots(snapshot for snapshot in ours if not snapshot.is_terminating)
        return StoredSnapshots(groups, next_index=max((snapshot.index for snapshot in ours), default=-1) + 1)

    async def get(self, placement: Metadata, name: str) -> SnapshotView:
        """Reads live and updates the cache."""
        key = join_key(placement.namespace, name)
        try:
            snapshot = await self.objects(placement.namespace).get(key)
        except NotFound as error:
            raise StaleInputs(f"resource snapshot {key} was deleted a moment ago") from error
        self._kind_for(placement).informer.store.apply_write(snapshot)
        return snapshot

    async def fingerprint(self, placement: Metadata, group: SnapshotGroup) -> str:
        """Of all objects in a complete group. Read once, because groups are immutable."""
        assert group.master is not None
        key, uid = key_of(placement), group.master.metadata.uid
        known = self._fingerprints.get(key)
        if known is None or known[0] != uid:
            objects = [content for part in group.parts() for content in await self.contents(placement, part)]
            known = self._fingerprints[key] = uid, fingerprint(objects)
        return known[1]

    async def contents(self, placement: Metadata, part: SnapshotView) -> list[bytes]:
        try:
            full = await self._kind_for(placement).full.get(key_of(part.metadata))
        except NotFound as error:
            raise StaleInputs(f"resource snapshot {part.name} was deleted a moment ago") from error
        return [bytes(content) for content in full.view.spec.selected_resources]

    def forget(self, key: str) -> None:
        """The placement is gone."""
        self._fingerprints.pop(key, None)

    # --- changes ------------------------------------------------------------------------------------------------------

    @contextmanager
    def ignore_own_changes(self, placement: Metadata) -> Iterator[None]:
        """Enqueues no events of these snapshots meanwhile: the changes are our own writes."""
        key = key_of(placement)
        self._own_writes.add(key)
        try:
            yield
        finally:
            self._own_writes.discard(key)

    def _on_change(self, old: SnapshotView | None, new: SnapshotView | None) -> None:
        current = new or old
        owner = None if current is None else owner_key(current.metadata)
        if self._synced and owner is not None and str(owner) not in self._own_writes:
            self._enqueue(str(owner))

    # --- internals ----------------------------------------------------------------------------------------------------

    def _kind_for(self, placement: Metadata) -> _SnapshotKind:
        return self._kinds[bool(placement.namespace)]

    async def _list_live(self, placement: Metadata) -> list[SnapshotView]:
        kind = self._kind_for(placement)
        labels = f"{PARENT_PLACEMENT}={placement.name}"
        snapshots = await kind.informer.objects.list(namespace=placement.namespace, labels=labels)
        for snapshot in snapshots:
            kind.informer.store.apply_write(snapshot)
        return [snapshot for snapshot in snapshots if snapshot.belongs_to(placement)]


def _build_kind(access: InformerConfig, scope: PlacementScope) -> _SnapshotKind:
    informer = Informer(access, scope.resource_snapshot, snapshot_codec())
    informer.store.add_index(_BY_OWNER, _index_owner)
    full = Objects(access.reads, scope.resource_snapshot, build_codec(_FullSnapshot))
    return _SnapshotKind(scope, informer, full)


def _index_owner(snapshot: SnapshotView) -> tuple[str, ...]:
    owner = owner_key(snapshot.metadata)
    return () if owner is None else (str(owner),)
