"""Everything the scheduler reads: the member clusters, and of each flavour the placements, snapshots and bindings.

The caches are watched from the beginning, so that a standby is warm, and read completely anew when this process begins
to lead (`refresh`): what a former leader wrote a moment ago is then certain to be seen. After that our own writes are
visible at once, because they go through the same objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import msgspec

from fleet.kube.informer.informer import Informer, InformerConfig
from fleet.kube.informer.store import Codec, Store, build_codec
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, NAMESPACED, PlacementScope, find_scope, owner_key
from fleet.model.decoding import decode
from fleet.model.keys import IS_LATEST_SNAPSHOT
from fleet.model.views import Binding, MemberCluster, Observed, Placement, PolicySnapshot

_BY_OWNER: Final = "owner"


@dataclass(frozen=True, slots=True)
class Kinds:
    """The watched kinds of one flavour."""

    flavour: PlacementScope
    placements: Informer[Observed[Placement]]
    policy_snapshots: Informer[Observed[PolicySnapshot]]
    bindings: Informer[Observed[Binding]]

    def __iter__(self) -> Iterator[Informer[Any]]:
        yield from (self.placements, self.policy_snapshots, self.bindings)


class Caches:
    def __init__(self, access: InformerConfig, *, namespaced_placements: bool = True) -> None:
        """Without `namespaced_placements`, the kinds of ResourcePlacements are left alone: a hub may not know them."""
        self.clusters_watched = Informer(access, MEMBER_CLUSTERS, _CLUSTER_CODEC)
        flavours = (CLUSTER_SCOPED, NAMESPACED) if namespaced_placements else (CLUSTER_SCOPED,)
        self.kinds = tuple(_kinds(flavour, access) for flavour in flavours)
        self._by_kind = {kinds.flavour.placement.kind: kinds for kinds in self.kinds}

    @property
    def clusters(self) -> Store[MemberCluster]:
        return self.clusters_watched.store

    def of(self, key: str) -> Kinds:
        """Raises KeyError for a flavour that is switched off."""
        return self._by_kind[find_scope(key).placement.kind]

    def placement(self, key: str) -> Observed[Placement] | None:
        return self.of(key).placements.store.get(key)

    def policy_snapshots(self, key: str) -> list[Observed[PolicySnapshot]]:
        return self.of(key).policy_snapshots.store.by_index(_BY_OWNER, key)

    def latest_snapshots(self, key: str) -> list[Observed[PolicySnapshot]]:
        """One, unless the placement controller is just replacing it (none) or something is wrong (several)."""
        return [one for one in self.policy_snapshots(key) if is_latest(one)]

    def bindings(self, key: str) -> list[Observed[Binding]]:
        """By name."""
        return sorted(self.of(key).bindings.store.by_index(_BY_OWNER, key), key=_name_of)

    # --- upkeep -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watched in self._all():
                group.create_task(watched.reflector.run(), name=f"watching {watched.resource.plural}")

    async def synced(self) -> None:
        for watched in self._all():
            await watched.reflector.synced()

    async def refresh(self) -> None:
        """Returns once everything is at least as new as the moment of the call."""
        async with asyncio.TaskGroup() as group:
            for watched in self._all():
                group.create_task(watched.reflector.refresh())

    def unsynced(self) -> list[str]:
        """The kinds that were never read completely, for whoever asks why nothing happens."""
        return [watched.resource.plural for watched in self._all() if not watched.reflector.is_synced]

    def sizes(self) -> dict[str, int]:
        """Objects by the plural of their kind."""
        return {watched.resource.plural: len(watched.store) for watched in self._all()}

    def _all(self) -> Iterable[Informer[Any]]:
        yield self.clusters_watched
        for kinds in self.kinds:
            yield from kinds


def is_latest(snapshot: Observed[PolicySnapshot]) -> bool:
    return snapshot.view.metadata.label(IS_LATEST_SNAPSHOT) == "true"


def _kinds(flavour: PlacementScope, access: InformerConfig) -> Kinds:
    kinds = Kinds(
        flavour,
        Informer(access, flavour.placement, build_codec(Placement), call_class="bind"),
        Informer(access, flavour.policy_snapshot, build_codec(PolicySnapshot), call_class="status"),
        Informer(access, flavour.binding, build_codec(Binding), call_class="bind"),
    )
    kinds.policy_snapshots.store.index(_BY_OWNER, _owners)
    kinds.bindings.store.index(_BY_OWNER, _owners)
    return kinds


def _owners(observed: Observed[Any]) -> tuple[str, ...]:
    owner = owner_key(observed.view.metadata)
    return () if owner is None else (owner,)


def _name_of(binding: Observed[Binding]) -> str:
    return binding.view.metadata.name


_READ_CLUSTER: Final = msgspec.json.Decoder(MemberCluster).decode


def _read_cluster(document: bytes) -> MemberCluster:
    """Without the document: nobody writes member clusters, and there may be ten thousand of them."""
    try:
        return _READ_CLUSTER(document)
    except msgspec.MsgspecError:
        return decode(document, MemberCluster).view


_CLUSTER_CODEC: Final = Codec(_read_cluster, attrgetter("metadata"))
