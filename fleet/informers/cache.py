"""Caches of what the controllers read: member clusters, also as columns, and the objects of each scope of placements.

The informers run from the beginning, so that a standby is warm, and list everything anew when this process begins to
lead (`refresh`), so that the last writes of the former leader are seen. After that our own writes are visible at once,
because they go through the same objects.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec

from fleet.errors import StaleInputs
from fleet.informers.placed_feeds import PlacedLimits, RecentPlacements
from fleet.kube.cache.reflector import ListFilter
from fleet.kube.cache.store import Codec, Store, build_codec
from fleet.kube.informer import Informer, InformerConfig
from fleet.kube.resource import key_of
from fleet.kube.scopes import (
    CLUSTER_SCOPED,
    DISRUPTION_BUDGETS,
    MEMBER_CLUSTERS,
    NAMESPACED,
    PRIORITY_CLASSES,
    RESERVATIONS,
    PlacementScope,
    owner_key,
)
from fleet.model.decoding import decode
from fleet.model.keys import IS_LATEST_SNAPSHOT, NUMBER_OF_CLUSTERS, PLACEMENT_GENERATION
from fleet.model.placement_key import PlacementKey
from fleet.model.views import (
    Binding,
    ClusterReservation,
    DisruptionBudget,
    MemberCluster,
    Observed,
    Placement,
    PlacementApproval,
    PlacementGroup,
    PlacementOptions,
    PlacementQuota,
    PolicySnapshot,
    PriorityClass,
)
from fleet.snapshot.capacity import MOST_BOOKED, assumed_ledger
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import (
    NO_RESIDENTS,
    PLACED_LIMITS,
    RECENT_PLACEMENTS,
    FeedSample,
    Nomination,
    PlacedBinding,
    Residents,
)
from fleet.snapshot.table import Table

_BY_OWNER: Final = "owner"
_BY_CLUSTER: Final = "cluster"
_NAME: Final = attrgetter("view.metadata.name")


@dataclass(frozen=True, slots=True)
class PlacementKinds:
    """The informers of one scope."""

    scope: PlacementScope
    placements: Informer[Observed[Placement]]
    policy_snapshots: Informer[Observed[PolicySnapshot]]
    bindings: Informer[Observed[Binding]]
    options: Informer[Observed[PlacementOptions]]
    approvals: Informer[Observed[PlacementApproval]]
    quotas: Informer[Observed[PlacementQuota]]
    """Not run with the others: few profiles read them."""
    groups: Informer[Observed[PlacementGroup]]
    """Neither."""

    def __iter__(self) -> Iterator[Informer[Any]]:
        yield from (self.placements, self.policy_snapshots, self.bindings, self.options, self.approvals)

    def get_placement(self, key: PlacementKey) -> Observed[Placement] | None:
        return self.placements.store.get(str(key))

    def latest_snapshots(self, key: PlacementKey) -> list[Observed[PolicySnapshot]]:
        """One, except while the placement controller replaces it (none) or after an error (several)."""
        snapshots = self.policy_snapshots.store.by_index(_BY_OWNER, key)
        return [snapshot for snapshot in snapshots if is_latest(snapshot.view)]


class Caches:
    def __init__(
        self,
        access: InformerConfig,
        *,
        namespaced_placements: bool = True,
        watches_reservations: bool = False,
        cluster_selector: str = "",
    ) -> None:
        """Without `namespaced_placements`, ResourcePlacements are not watched: a hub may not have their kinds."""
        self.reservations = Informer(access, RESERVATIONS, build_codec(ClusterReservation), optional=True)
        self._watches_reservations = watches_reservations
        self.selects_clusters: Final = bool(cluster_selector)
        """Whether there may be others, which another scheduler decides about."""
        self.cluster_informer = Informer(
            access, MEMBER_CLUSTERS, _CLUSTER_CODEC, selection=ListFilter(labels=cluster_selector)
        )
        self.priority_classes = Informer(access, PRIORITY_CLASSES, build_codec(PriorityClass), optional=True)
        """Not run with the others: few hubs have placements that name one."""
        self.disruption_budgets = Informer(access, DISRUPTION_BUDGETS, build_codec(DisruptionBudget), optional=True)
        """Not run with the others: few configurations have a profile that evicts."""
        scopes = (CLUSTER_SCOPED, NAMESPACED) if namespaced_placements else (CLUSTER_SCOPED,)
        self.kinds = tuple(_kinds(scope, access) for scope in scopes)
        self._watches_quotas, self._watches_groups = asyncio.Event(), asyncio.Event()
        self._by_scope = {kinds.scope.namespaced: kinds for kinds in self.kinds}

    @property
    def clusters(self) -> Store[MemberCluster]:
        return self.cluster_informer.store

    def kinds_of(self, key: PlacementKey) -> PlacementKinds:
        """Raises KeyError for a scope that is switched off."""
        return self._by_scope[bool(key.namespace)]

    def find_kinds(self, key: PlacementKey) -> PlacementKinds | None:
        """None for a scope that is switched off."""
        return self._by_scope.get(bool(key.namespace))

    def placement(self, key: PlacementKey) -> Observed[Placement] | None:
        return self.kinds_of(key).get_placement(key)

    def policy_snapshots(self, key: PlacementKey) -> list[Observed[PolicySnapshot]]:
        return self.kinds_of(key).policy_snapshots.store.by_index(_BY_OWNER, key)

    def policy_snapshot(self, key: PlacementKey, name: str) -> Observed[PolicySnapshot] | None:
        """Of that name, in the placement's namespace."""
        return self.kinds_of(key).policy_snapshots.store.get(str(PlacementKey(key.namespace, name)))

    def latest_snapshots(self, key: PlacementKey) -> list[Observed[PolicySnapshot]]:
        return self.kinds_of(key).latest_snapshots(key)

    def bindings(self, key: PlacementKey) -> list[Observed[Binding]]:
        """By name."""
        return sorted(self.kinds_of(key).bindings.store.by_index(_BY_OWNER, key), key=_NAME)

    def approvals(self, key: PlacementKey) -> list[Observed[PlacementApproval]]:
        """By name; also those of an earlier placement of that name."""
        return sorted(self.kinds_of(key).approvals.store.by_index(_BY_OWNER, key), key=_NAME)

    def bindings_on(self, cluster: str) -> Iterator[Observed[Binding]]:
        """Of all placements, in no particular order."""
        for kinds in self.kinds:
            yield from kinds.bindings.store.by_index(_BY_CLUSTER, cluster)

    # --- informers ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watched in self._list_always():
                group.create_task(watched.reflector.run(), name=f"watching {watched.resource.plural}")
            for begin, informers in self._list_optional():
                for watched in informers:
                    group.create_task(_run_after(begin, watched), name=f"watching {watched.resource.plural}")

    async def wait_until_synced(self) -> None:
        for watched in self._all():
            await watched.reflector.wait_for_sync()

    async def refresh(self) -> None:
        """Returns once everything is at least as new as the moment of the call."""
        async with asyncio.TaskGroup() as group:
            for watched in self._all():
                group.create_task(watched.reflector.refresh())

    def list_unsynced(self) -> list[str]:
        """The kinds that were never listed completely."""
        return [watched.resource.plural for watched in self._all() if not watched.reflector.is_synced]

    def sizes(self) -> dict[str, int]:
        """Objects by the plural of their kind."""
        return {watched.resource.plural: len(watched.store) for watched in self._all()}

    def watch_quotas(self) -> None:
        """From now on. Without a profile that reads them the hub is not asked."""
        self._watches_quotas.set()

    def watch_groups(self) -> None:
        """From now on, in the same way."""
        self._watches_groups.set()

    @property
    def are_quotas_known(self) -> bool:
        return all(kinds.quotas.reflector.is_synced for kinds in self.kinds)

    def _all(self) -> Iterable[Informer[Any]]:
        yield from self._list_always()
        for begin, informers in self._list_optional():
            if begin.is_set():
                yield from informers

    def _list_always(self) -> Iterable[Informer[Any]]:
        yield self.cluster_informer
        for kinds in self.kinds:
            yield from kinds
        if self._watches_reservations:
            yield self.reservations

    def _list_optional(self) -> Iterable[tuple[asyncio.Event, Iterable[Informer[Any]]]]:
        yield self._watches_quotas, [kinds.quotas for kinds in self.kinds]
        yield self._watches_groups, [kinds.groups for kinds in self.kinds]


class FleetTable:
    """The columns that decisions read, kept equal to the watched member clusters.

    Built at the first call of `frame`, then updated row by row: adding all rows one by one would cost more. Plugins may
    ask for a frame from threads of their own.
    """

    def __init__(
        self,
        clusters: Store[MemberCluster],
        recent: RecentPlacements | None = None,
        limits: PlacedLimits | None = None,
    ) -> None:
        self._clusters = clusters
        self._recent = recent
        self._limits = limits
        self._table: Table | None = None
        self._samples: dict[str, FeedSample] = {}
        self._booked: dict[str, Mapping[str, int]] = {}
        """By cluster, what is booked of each resource."""
        self.read_residents: Callable[[], Residents] = lambda: NO_RESIDENTS
        """Of all clusters. What it returns must not change."""
        self._placed: dict[str, tuple[PlacedBinding, ...]] = {}
        self._nominations: dict[str, tuple[Nomination, ...]] = {}
        self._lock = threading.Lock()
        clusters.subscribe(self._update)

    def frame(self) -> Frame:
        with self._lock:
            if self._table is None:
                table = Table(self._clusters.values())
                for name in self._samples:
                    self._feed(table, name)
                for cluster, booked in self._booked.items():
                    book_room(table, cluster, booked)
                for cluster, bindings in self._placed.items():
                    _set_placed(table, cluster, bindings)
                if self._nominations:
                    table.nominate(self.list_nominations())
                self._table = table
            counts = None if self._recent is None else self._recent.count(self._samples, self._clusters)
            if counts is not None:
                self._table.feed(RECENT_PLACEMENTS, counts, sampled_at={})
            sums = None if self._limits is None else self._limits.sum_up()
            if sums is not None:
                self._table.feed(PLACED_LIMITS, sums, sampled_at={})
            self._table.settle(self.read_residents())
            return self._table.freeze()

    def feed(self, name: str, sample: FeedSample) -> None:
        """From now on decisions read this sample."""
        with self._lock:
            self._samples[name] = sample
            if self._recent is not None:
                self._recent.note_measurement(name)
            if self._table is not None:
                self._feed(self._table, name)

    def book(self, cluster: str, booked: Mapping[str, int]) -> None:
        """All that is taken there beyond what the cluster reports, in whole units by resource. Also for a cluster that
        is not known yet."""
        with self._lock:
            before = self._booked.pop(cluster, {})
            if booked:
                self._booked[cluster] = booked
            if self._table is not None:
                book_room(self._table, cluster, booked, before)

    def set_placed(self, cluster: str, bindings: tuple[PlacedBinding, ...]) -> None:
        """The bindings there that may be evicted, or leave. Also for a cluster that is not known yet."""
        with self._lock:
            if bindings:
                self._placed[cluster] = bindings
            else:
                self._placed.pop(cluster, None)
            if self._table is not None:
                _set_placed(self._table, cluster, bindings)

    def find_placed(self, cluster: str) -> tuple[PlacedBinding, ...]:
        return self._placed.get(cluster, ())

    def list_nominations(self) -> tuple[Nomination, ...]:
        return tuple(chain.from_iterable(self._nominations.values()))

    def nominate(self, nominations: tuple[Nomination, ...], *, keeper: str = "") -> None:
        """All clusters where this keeper keeps room."""
        with self._lock:
            if nominations != self._nominations.get(keeper, ()):
                self._nominations[keeper] = nominations
                if self._table is not None:
                    self._table.nominate(self.list_nominations())

    def _feed(self, table: Table, name: str) -> None:
        sample = self._samples[name]
        times = dict.fromkeys(sample.clusters, sample.sampled_at)
        table.feed(name, sample.columns, sampled_at=times, max_age=sample.max_age, error=sample.error)

    def _update(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        with self._lock:
            if self._table is None:
                return
            if new is not None:
                is_known = new.metadata.name in self._table
                self._table.put(new)
                if not is_known:
                    book_room(self._table, new.metadata.name, self._booked.get(new.metadata.name, {}))
                    _set_placed(self._table, new.metadata.name, self._placed.get(new.metadata.name, ()))
                if self._recent is not None:
                    note = self._recent.note_report if is_known else self._recent.note_joined
                    note(new.metadata.name)
                if self._limits is not None:
                    note = self._limits.note_report if is_known else self._limits.note_joined
                    note(new.metadata.name)
                for name, sample in self._samples.items():
                    if not is_known and new.metadata.name in sample.clusters:
                        self._feed(self._table, name)
            elif old is not None:
                self._table.remove(old.metadata.name)


def book_room(table: Table, cluster: str, booked: Mapping[str, int], before: Mapping[str, int] | None = None) -> None:
    """In place of what was booked before. A cluster that is not there has no room."""
    former = before or {}
    for resource in booked.keys() | former.keys() if cluster in table else ():
        more = min(booked.get(resource, 0), MOST_BOOKED) - min(former.get(resource, 0), MOST_BOOKED)
        if more:
            table.book(assumed_ledger(resource), cluster, more)


def _set_placed(table: Table, cluster: str, bindings: tuple[PlacedBinding, ...]) -> None:
    if cluster in table:
        table.set_placed(cluster, bindings)


def is_latest(snapshot: PolicySnapshot) -> bool:
    return snapshot.metadata.label(IS_LATEST_SNAPSHOT) == "true"


class PolicyVersion(msgspec.Struct, frozen=True):
    """The policy that a decision is about. A snapshot keeps its spec; its annotations and its label change."""

    snapshot: str
    """For messages."""
    uid: str
    generation: str | None
    number_of_clusters: str | None

    @classmethod
    def of(cls, snapshot: PolicySnapshot) -> PolicyVersion:
        metadata = snapshot.metadata
        generation, count = metadata.annotation(PLACEMENT_GENERATION), metadata.annotation(NUMBER_OF_CLUSTERS)
        return cls(key_of(metadata), metadata.uid, generation, count)

    def is_current_in(self, snapshot: PolicySnapshot) -> bool:
        """Whether a decision about this policy is one about that snapshot, too."""
        return is_latest(snapshot) and PolicyVersion.of(snapshot) == self

    def build_error(self) -> StaleInputs:
        return StaleInputs(f"policy snapshot {self.snapshot} changed after the decision")


def _kinds(scope: PlacementScope, access: InformerConfig) -> PlacementKinds:
    kinds = PlacementKinds(
        scope,
        Informer(access, scope.placement, build_codec(Placement)),
        Informer(access, scope.policy_snapshot, build_codec(PolicySnapshot)),
        Informer(access, scope.binding, build_codec(Binding), call_class="bind"),
        Informer(access, scope.options, build_codec(PlacementOptions), optional=True),
        Informer(access, scope.approval, build_codec(PlacementApproval), optional=True),
        Informer(access, scope.quota, build_codec(PlacementQuota), optional=True),
        Informer(access, scope.group, build_codec(PlacementGroup), optional=True),
    )
    kinds.policy_snapshots.store.add_index(_BY_OWNER, _owners)
    kinds.bindings.store.add_index(_BY_OWNER, _owners)
    kinds.bindings.store.add_index(_BY_CLUSTER, _target_clusters)
    kinds.approvals.store.add_index(_BY_OWNER, _approved_placements)
    return kinds


async def _run_after(begin: asyncio.Event, watched: Informer[Any]) -> None:
    await begin.wait()
    await watched.reflector.run()


def _approved_placements(approval: Observed[PlacementApproval]) -> tuple[PlacementKey, ...]:
    return (PlacementKey(approval.view.metadata.namespace, approval.view.spec.placement),)


def _owners(observed: Observed[Any]) -> tuple[PlacementKey, ...]:
    owner = owner_key(observed.view.metadata)
    return () if owner is None else (owner,)


def _target_clusters(binding: Observed[Binding]) -> tuple[str, ...]:
    return (binding.view.spec.target_cluster,)


_READ_CLUSTER: Final = msgspec.json.Decoder(MemberCluster).decode


def _read_cluster(document: bytes) -> MemberCluster:
    """Without the document: member clusters are never written, and there may be ten thousand of them."""
    try:
        return _READ_CLUSTER(document)
    except msgspec.MsgspecError:
        return decode(document, MemberCluster).view


_CLUSTER_CODEC: Final = Codec(_read_cluster, attrgetter("metadata"))
