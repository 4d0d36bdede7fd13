"""Room ledger: what was placed on clusters, or reserved there, and is not in the reports of their members yet.

A member reports what is available on its cluster every minute or so. Until a report includes a binding, its requests
count on top of what is reported. The ledger follows from the bindings of the hub and from what attempts of this process
have reserved, so a new leader derives the same from the bindings alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import msgspec

from fleet.framework.policy.resource_requests import NOTHING, Needs, parse_needs
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.resource import key_of
from fleet.kube.scopes import owner_key
from fleet.model.keys import IS_LATEST_SNAPSHOT, NODE_COUNT, WORKLOAD_REQUESTS
from fleet.model.placement_key import PlacementKey
from fleet.model.quantity import quantity_or_none
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import (
    Binding,
    Condition,
    MemberCluster,
    Metadata,
    Observed,
    Placement,
    PlacementOptions,
    PolicySnapshot,
    View,
)
from fleet.scheduler.ledgers.resident_ledger import ResidentLedger
from fleet.snapshot.columns.pools import ALWAYS_FRESH, read_pools

ASSUME_TIMEOUT: Final = 600 * 1_000_000_000
"""Nanoseconds. A report that is younger than a binding by that much includes it, although no agent reports that."""
_APPLIED: Final = "Applied"

BookRoom = Callable[[str, Mapping[str, int]], None]
"""Called with a cluster and all that is booked there, by resource."""
RoomFreed = Callable[[str, Mapping[str, int], Mapping[str, int], PlacementKey], None]
"""Called with a cluster, what was booked there before and after, and the placement that gave room back."""


class Applied(NamedTuple):
    """When a binding was created, and when its agent had applied all of it; None where that is unknown."""

    created_at: int | None = None
    applied_at: int | None = None


class _Unreported(NamedTuple):
    placement: PlacementKey
    applied: Applied
    requests: Mapping[str, int]


@dataclass(slots=True)
class _ClusterRoom:
    """Of one cluster. Its sum is kept with every change: there may be thousands of entries."""

    holders: Counter[PlacementKey] = field(default_factory=Counter)
    """How many bindings each placement has there."""
    unreported: dict[str, _Unreported] = field(default_factory=dict)
    """Bindings by name that count on top of the reports."""
    reserved: dict[PlacementKey, Mapping[str, int]] = field(default_factory=dict)
    """For placements that have no binding there yet."""
    booked: Mapping[str, int] = field(default_factory=lambda: NOTHING)

    @property
    def is_empty(self) -> bool:
        return not (self.holders or self.reserved or self.unreported)

    def add_holder(self, key: PlacementKey) -> None:
        """Its binding takes the place of what is reserved for it."""
        self.holders[key] += 1
        self.release(key)

    def remove_holder(self, key: PlacementKey) -> None:
        self.holders[key] -= 1
        if self.holders[key] <= 0:
            del self.holders[key]

    def reserve(self, key: PlacementKey, requests: Mapping[str, int]) -> None:
        self.release(key)
        self.reserved[key] = requests
        self._count(requests, 1)

    def release(self, key: PlacementKey) -> None:
        self._count(self.reserved.pop(key, NOTHING), -1)

    def put(self, name: str, entry: _Unreported) -> None:
        self.drop(name)
        self.unreported[name] = entry
        self._count(entry.requests, 1)

    def drop(self, name: str) -> None:
        entry = self.unreported.pop(name, None)
        if entry is not None:
            self._count(entry.requests, -1)

    def _count(self, requests: Mapping[str, int], sign: int) -> None:
        if requests:
            booked = {resource: self.booked.get(resource, 0) for resource in (*self.booked, *requests)}
            for resource, amount in requests.items():
                booked[resource] += sign * amount
            self.booked = {resource: amount for resource, amount in booked.items() if amount} or NOTHING


class RoomLedger:
    def __init__(
        self,
        caches: Caches,
        requests_of: Callable[[Metadata], str | None],
        *,
        book: BookRoom,
        on_freed: RoomFreed = lambda *_: None,
        on_given_back: RoomFreed | None = None,
        residents: ResidentLedger | None = None,
    ) -> None:
        """Construct it before the caches are filled. `requests_of` reads what a placement needs; `residents` gets to
        know what is reserved. `on_given_back` is called in place of `on_freed` with what was only reserved."""
        self._caches, self._requests_of, self._book = caches, requests_of, book
        self._residents = residents
        self.on_freed = on_freed
        self._on_given_back = on_given_back or on_freed
        self.on_reservation: Callable[[PlacementKey], None] = lambda _: None
        """Called when an attempt has reserved room, or given it back, before `on_freed`."""
        self._rooms: dict[str, _ClusterRoom] = {}
        self._needs: dict[PlacementKey, Needs] = {}
        """Of the placements that request anything."""
        self._before_report: tuple[str, Mapping[str, int]] = ("", NOTHING)
        self._reserved: dict[PlacementKey, set[str]] = {}
        """By placement with an attempt under way, the clusters that it has reserved."""
        self._held: dict[PlacementKey, set[str]] = {}
        """By placement with writes of unknown outcome, the clusters whose room is given back once these are read."""
        caches.clusters.subscribe(self._on_cluster)
        for kinds in caches.kinds:
            kinds.placements.store.subscribe(self._on_placement)
            kinds.options.store.subscribe(partial(self._on_options, kinds))
            kinds.policy_snapshots.store.subscribe(partial(self._on_policy_snapshot, kinds))
            kinds.bindings.store.subscribe(self._on_binding)

    # --- what attempts reserve ----------------------------------------------------------------------------------------

    def reserve_room(self, cluster: str, placement: str, requests: Mapping[str, int]) -> None:
        """Where the placement has a binding already, its room is taken or reported."""
        key, room = PlacementKey.parse(placement), self._rooms.setdefault(cluster, _ClusterRoom())
        before = room.booked
        if not room.holders[key]:
            room.reserve(key, requests)
        self._reserved.setdefault(key, set()).add(cluster)
        self._settle(cluster, room, before)
        self.on_reservation(key)
        if self._residents is not None:
            self._residents.reserve(key, cluster)

    def release_room(self, cluster: str, placement: str) -> None:
        key = PlacementKey.parse(placement)
        if key in self._held:
            self._held[key].add(cluster)
        else:
            self._release(cluster, key)

    def hold_room(self, key: PlacementKey) -> None:
        """Until `end_hold`: a binding may have been written although its write failed."""
        self._held.setdefault(key, set())

    def end_hold(self, key: PlacementKey) -> None:
        """The cache has what was written, or has seen its deletion."""
        for cluster in self._held.pop(key, ()):
            self._release(cluster, key)

    def settle(self, key: PlacementKey) -> None:
        """Its attempt has ended: a binding that it wrote is in the cache and takes its room, or is gone again, maybe
        without an event."""
        for cluster in self._reserved.pop(key, set()) - self._held.get(key, set()):
            self._release(cluster, key)

    def _release(self, cluster: str, key: PlacementKey) -> None:
        room = self._rooms.get(cluster)
        if room is not None:
            before, was_reserved = room.booked, key in room.reserved
            room.release(key)
            if was_reserved:
                self.on_reservation(key)
            self._settle(cluster, room, before)
            if frees_room(before, room.booked):
                self._on_given_back(cluster, before, room.booked, key)
        if self._residents is not None:
            self._residents.release(key, cluster)

    # --- what other schedulers reserve --------------------------------------------------------------------------------

    def find_reserved(self, cluster: str, key: PlacementKey) -> Mapping[str, int] | None:
        """For a placement that has no binding there yet."""
        room = self._rooms.get(cluster)
        return None if room is None else room.reserved.get(key)

    def reserve_foreign(self, cluster: str, key: PlacementKey, requests: Mapping[str, int]) -> None:
        """Until its binding is known."""
        room = self._rooms.setdefault(cluster, _ClusterRoom())
        before = room.booked
        if not room.holders[key]:
            room.reserve(key, requests)
        self._settle(cluster, room, before)

    def release_foreign(self, cluster: str, key: PlacementKey) -> None:
        if cluster not in self._reserved.get(key, ()):
            self._release(cluster, key)

    def begin(self) -> None:
        """This process leads from now on. What an earlier leadership had reserved was bound, or will not be."""
        self._held.clear()
        self._reserved.clear()
        if self._residents is not None:
            self._residents.begin()
        for cluster, room in list(self._rooms.items()):
            before = room.booked
            for key in list(room.reserved):
                room.release(key)
            self._settle(cluster, room, before)

    # --- what is booked -----------------------------------------------------------------------------------------------

    def find_needs(self, key: PlacementKey) -> Needs:
        return self._needs.get(key, Needs())

    def find_booked(self, cluster: str) -> Mapping[str, int]:
        room = self._rooms.get(cluster)
        return NOTHING if room is None else room.booked

    def sum_booked(self) -> Mapping[str, int]:
        """On all clusters."""
        total: Counter[str] = Counter()
        for room in self._rooms.values():
            total.update(room.booked)
        return total

    def find_booked_before(self, cluster: str) -> Mapping[str, int]:
        """Before the last report of a cluster; as it is now for any other."""
        reported, before = self._before_report
        return before if reported == cluster else self.find_booked(cluster)

    def _settle(self, cluster: str, room: _ClusterRoom, before: Mapping[str, int]) -> None:
        """After a change of what counts there."""
        if room.is_empty:
            del self._rooms[cluster]
        if room.booked != before:
            self._before_report = ("", NOTHING)
            self._book(cluster, room.booked)

    def _settle_freed(self, cluster: str, room: _ClusterRoom, before: Mapping[str, int], key: PlacementKey) -> None:
        self._settle(cluster, room, before)
        if frees_room(before, room.booked):
            self.on_freed(cluster, before, room.booked, key)

    # --- changes on the hub -------------------------------------------------------------------------------------------

    def _on_cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """A report ends what it includes. The event handlers hear of the same change right after this."""
        self._before_report = ("", NOTHING)
        if new is None:
            return
        cluster = new.metadata.name
        room = self._rooms.get(cluster)
        if room is None or not room.unreported:
            return
        reported_at, before = read_report_time(new), room.booked
        for name in [name for name, entry in room.unreported.items() if is_included(entry.applied, reported_at)]:
            room.drop(name)
        if differ_in_needs(old, new):
            for name, entry in list(room.unreported.items()):
                room.put(name, entry._replace(requests=needs_on(self.find_needs(entry.placement), new)))
        self._settle(cluster, room, before)
        self._before_report = (cluster, before)

    def _on_binding(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        key = None if new is None else owner_key(new.view.metadata)
        if old is not None and (new is None or not _is_same_place(old.view, new.view)):
            self._remove(old.view)
            old = None
        if new is None or key is None:
            return
        cluster, name = new.view.spec.target_cluster, key_of(new.view.metadata)
        room = self._rooms.setdefault(cluster, _ClusterRoom())
        before, was_reported = room.booked, old is not None and name not in room.unreported
        if _holds_room(new.view) and not (old is not None and _holds_room(old.view)):
            room.add_holder(key)
        elif old is not None and _holds_room(old.view) and not _holds_room(new.view):
            room.remove_holder(key)
        if not was_reported:
            self._note_unreported(cluster, room, name, key, new)
        self._settle(cluster, room, before)

    def _note_unreported(
        self, cluster: str, room: _ClusterRoom, name: str, key: PlacementKey, binding: Observed[Binding]
    ) -> None:
        """Of placements without requests nothing is noted: most have none."""
        room.drop(name)
        if key not in self._needs:
            return
        applied, member = read_applied(binding.raw), self._caches.clusters.get(cluster)
        if member is None or not is_included(applied, read_report_time(member)):
            room.put(name, _Unreported(key, applied, needs_on(self._needs[key], member)))

    def _remove(self, binding: Binding) -> None:
        key, cluster = owner_key(binding.metadata), binding.spec.target_cluster
        room = self._rooms.get(cluster)
        if key is None or room is None:
            return
        before = room.booked
        if _holds_room(binding):
            room.remove_holder(key)
        room.drop(key_of(binding.metadata))
        self._settle_freed(cluster, room, before, key)
        self._forget_unused(key)

    def _on_placement(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        """What a placement that is gone has needed counts until its bindings are gone, too."""
        if new is not None:
            self._read_needs(PlacementKey.of(new.view.metadata), new.view.metadata)
        elif old is not None:
            self._forget_unused(PlacementKey.of(old.view.metadata))

    def _forget_unused(self, key: PlacementKey) -> None:
        if key in self._needs and self._caches.placement(key) is None and not self._caches.bindings(key):
            del self._needs[key]

    def _on_options(
        self, kinds: PlacementKinds, old: Observed[PlacementOptions] | None, new: Observed[PlacementOptions] | None
    ) -> None:
        known = old if new is None else new
        assert known is not None
        key = PlacementKey.of(known.view.metadata)
        placement = kinds.get_placement(key)
        if placement is not None:
            self._read_needs(key, placement.view.metadata)

    def _on_policy_snapshot(
        self, kinds: PlacementKinds, old: Observed[PolicySnapshot] | None, new: Observed[PolicySnapshot] | None
    ) -> None:
        """It carries what the selected workloads need."""
        key = None if new is None else owner_key(new.view.metadata)
        placement = None if key is None else kinds.get_placement(key)
        if key is not None and placement is not None and read_workloads(old) != read_workloads(new):
            self._read_needs(key, placement.view.metadata)

    def _read_needs(self, key: PlacementKey, placement: Metadata) -> None:
        text = self._requests_of(placement)
        needs = parse_needs(text) if text else Needs()
        if needs == self._needs.get(key, Needs()):
            return
        if any(needs):
            self._needs[key] = needs
        else:
            del self._needs[key]
        for binding in self._caches.bindings(key):
            cluster = binding.view.spec.target_cluster
            room = self._rooms.setdefault(cluster, _ClusterRoom())
            before = room.booked
            self._note_unreported(cluster, room, key_of(binding.view.metadata), key, binding)
            self._settle_freed(cluster, room, before, key)


def needs_on(needs: Needs, cluster: MemberCluster | None) -> Mapping[str, int]:
    labels = None if cluster is None else cluster.metadata.labels
    return needs.on(_count_nodes(cluster) if needs.per_node or needs.overridden else 1, labels)


def _count_nodes(cluster: MemberCluster | None) -> int:
    """1 for a cluster that does not report its nodes."""
    reported = {} if cluster is None else cluster.status.properties or {}
    count = quantity_or_none(reported[NODE_COUNT].value) if NODE_COUNT in reported else None
    return 1 if count is None else max(int(count), 0)


def differ_in_needs(old: MemberCluster | None, new: MemberCluster | None) -> bool:
    """Whether placements may need something else on a cluster than before."""
    if old is None or new is None:
        return old is not new
    return old.metadata.labels != new.metadata.labels or _count_nodes(old) != _count_nodes(new)


def read_workloads(snapshot: Observed[PolicySnapshot] | None) -> tuple[str | None, str | None] | None:
    metadata = None if snapshot is None else snapshot.view.metadata
    return None if metadata is None else (metadata.label(IS_LATEST_SNAPSHOT), metadata.annotation(WORKLOAD_REQUESTS))


def _is_same_place(old: Binding, new: Binding) -> bool:
    return old.spec.target_cluster == new.spec.target_cluster and owner_key(old.metadata) == owner_key(new.metadata)


def _holds_room(binding: Binding) -> bool:
    """For its placement: what is being deleted makes room for nothing new."""
    return binding.metadata.deletion_timestamp is None


def frees_room(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return any(after.get(resource, 0) < amount for resource, amount in before.items())


def is_included(binding: Applied, reported_at: int | None) -> bool:
    """Whether a report includes what the binding has put on its cluster: it is newer than the moment when everything
    was applied, or so much newer than the binding that it must be."""
    if reported_at is None:
        return False
    if binding.applied_at is not None and binding.applied_at < reported_at:
        return True
    return binding.created_at is not None and binding.created_at + ASSUME_TIMEOUT < reported_at


def read_report_time(cluster: MemberCluster) -> int | None:
    """Of the older one where a member reports its pools, too; but pools that are not reported any more do not keep
    bookings for longer than `ASSUME_TIMEOUT`."""
    usage, pools = cluster.status.resource_usage, read_pools(cluster.status.properties)
    of_pools = pools.observed_at if pools.pools and pools.observed_at < ALWAYS_FRESH else None
    if usage is None:
        return of_pools
    reported_at = timestamp_or_none(usage.observation_time)
    if reported_at is None or of_pools is None:
        return reported_at
    return max(min(reported_at, of_pools), reported_at - ASSUME_TIMEOUT)


class _Status(View, frozen=True):
    conditions: tuple[Condition, ...] = ()


class _Binding(View, frozen=True):
    """What bindings tell of their rollout, which decisions do not read."""

    metadata: Metadata = Metadata()
    status: _Status = _Status()


_decode_binding = msgspec.json.Decoder(_Binding).decode


def read_applied(document: bytes) -> Applied:
    """Of the document of a binding. One that cannot be read tells nothing."""
    try:
        binding = _decode_binding(document)
    except msgspec.MsgspecError:
        return Applied()
    applied = (each for each in binding.status.conditions if each.type == _APPLIED and each.status == "True")
    times = [timestamp_or_none(each.last_transition_time) for each in applied]
    return Applied(timestamp_or_none(binding.metadata.creation_timestamp), times[0] if times else None)
