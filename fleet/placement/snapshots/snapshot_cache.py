"""The resource snapshots of all placements, as they are known: watched, and read live where the cache is not enough.

The objects inside are not kept, only their identities; whoever needs them reads them from the API server.
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


class _Whole(View, frozen=True):
    """A snapshot with the objects inside."""

    metadata: Metadata = Metadata()
    spec: _Spec = _Spec()


@dataclass(frozen=True, slots=True)
class StoredSnapshots:
    groups: Sequence[SnapshotGroup]
    """By index, without what is being deleted."""
    next_index: int


@dataclass(frozen=True, slots=True)
class _Kind:
    flavour: PlacementScope
    watched: Informer[SnapshotView]
    whole: Objects[Observed[_Whole]]


class SnapshotCache:
    def __init__(self, access: InformerConfig, flavours: Iterable[PlacementScope]) -> None:
        self._kinds = {flavour.namespaced: _kind(access, flavour) for flavour in flavours}
        self._read: dict[str, tuple[str, str]] = {}
        self._written: set[str] = set()
        self._synced = False
        self._wake: Callable[[str], None] = lambda _: None
        for kind in self._kinds.values():
            kind.watched.store.subscribe(self._changed)

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """`wake` is called with the key of a placement to whose snapshots others did something."""
        self._wake = wake

    async def run(self) -> NoReturn:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds.values():
                name = f"watching {kind.watched.resource.plural}"
                group.create_task(kind.watched.reflector.run(), name=name)
            await self.ready()
            self._synced = True
        raise AssertionError("reflectors do not end")

    async def ready(self) -> None:
        """Returns once every snapshot is known."""
        for kind in self._kinds.values():
            await kind.watched.reflector.wait_for_sync()

    # --- reading ------------------------------------------------------------------------------------------------------

    def all(self) -> Iterator[tuple[Resource, Collection[SnapshotView]]]:
        for kind in self._kinds.values():
            yield kind.watched.resource, kind.watched.store.values()

    def owner(self, placement: Metadata) -> Resource:
        return self._of(placement).flavour.placement

    def objects(self, namespace: str) -> Objects[SnapshotView]:
        """Of placements in namespaces, or of cluster-scoped ones."""
        return self._kinds[bool(namespace)].watched.objects

    def cached(self, placement: Metadata) -> list[SnapshotView]:
        snapshots = self._of(placement).watched.store.by_index(_BY_OWNER, key_of(placement))
        return [snapshot for snapshot in snapshots if snapshot.belongs_to(placement)]

    async def known(self, placement: Metadata, *, reads_live: bool) -> StoredSnapshots:
        ours = await self._live(placement) if reads_live else self.cached(placement)
        groups = group_snapshots(snapshot for snapshot in ours if not snapshot.is_terminating)
        return StoredSnapshots(groups, next_index=max((snapshot.index for snapshot in ours), default=-1) + 1)

    async def get(self, placement: Metadata, name: str) -> SnapshotView:
        """Live; the cache learns of it."""
        key = join_key(placement.namespace, name)
        try:
            snapshot = await self.objects(placement.namespace).get(key)
        except NotFound as error:
            raise StaleInputs(f"resource snapshot {key} was deleted a moment ago") from error
        self._of(placement).watched.store.apply_write(snapshot)
        return snapshot

    async def fingerprint(self, placement: Metadata, group: SnapshotGroup) -> str:
        """Of all objects in a complete group. Read once: groups never change."""
        assert group.master is not None
        key, uid = key_of(placement), group.master.metadata.uid
        known = self._read.get(key)
        if known is None or known[0] != uid:
            objects = [content for part in group.parts() for content in await self.contents(placement, part)]
            known = self._read[key] = uid, fingerprint(objects)
        return known[1]

    async def contents(self, placement: Metadata, part: SnapshotView) -> list[bytes]:
        try:
            whole = await self._of(placement).whole.get(key_of(part.metadata))
        except NotFound as error:
            raise StaleInputs(f"resource snapshot {part.name} was deleted a moment ago") from error
        return [bytes(content) for content in whole.view.spec.selected_resources]

    def forget(self, key: str) -> None:
        """The placement is gone."""
        self._read.pop(key, None)

    # --- changes ------------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, placement: Metadata) -> Iterator[None]:
        """What happens to these snapshots meanwhile is our own doing, and nobody has to be told."""
        key = key_of(placement)
        self._written.add(key)
        try:
            yield
        finally:
            self._written.discard(key)

    def _changed(self, old: SnapshotView | None, new: SnapshotView | None) -> None:
        some = new or old
        owner = None if some is None else owner_key(some.metadata)
        if self._synced and owner is not None and str(owner) not in self._written:
            self._wake(str(owner))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _of(self, placement: Metadata) -> _Kind:
        return self._kinds[bool(placement.namespace)]

    async def _live(self, placement: Metadata) -> list[SnapshotView]:
        kind = self._of(placement)
        labels = f"{PARENT_PLACEMENT}={placement.name}"
        snapshots = await kind.watched.objects.list(namespace=placement.namespace, labels=labels)
        for snapshot in snapshots:
            kind.watched.store.apply_write(snapshot)
        return [snapshot for snapshot in snapshots if snapshot.belongs_to(placement)]


def _kind(access: InformerConfig, flavour: PlacementScope) -> _Kind:
    watched = Informer(access, flavour.resource_snapshot, snapshot_codec())
    watched.store.add_index(_BY_OWNER, _owners)
    whole = Objects(access.reads, flavour.resource_snapshot, build_codec(_Whole))
    return _Kind(flavour, watched, whole)


def _owners(snapshot: SnapshotView) -> tuple[str, ...]:
    owner = owner_key(snapshot.metadata)
    return () if owner is None else (str(owner),)
