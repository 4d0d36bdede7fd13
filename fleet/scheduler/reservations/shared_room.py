"""Room that schedulers of one fleet reserve from each other, with one ClusterReservation per member cluster.

A scheduler adds its request by compare-and-swap before it binds, after it has compared the room with everything that
the version it replaces has. What others have reserved is booked in the room ledger, until their bindings are known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from weakref import WeakValueDictionary

import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import AlreadyExists, ApiError, Conflict, NotFound, StaleInputs
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import Caches
from fleet.kube.objects import Objects
from fleet.model.keys import PICK_FIXED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import ClusterReservation, MemberCluster, Observed, ReservationEntry
from fleet.scheduler.ledgers.room_ledger import RoomLedger
from fleet.scheduler.reservations.entries import (
    LIFETIME,
    SETTLING,
    Claim,
    build_entry,
    build_reservation,
    get_age,
    is_expired,
    list_entries,
    read_requests,
)
from fleet.snapshot.frame import Frame

SWEEP: Final = 5.0
"""Seconds between two looks for entries that are no longer needed."""
_ATTEMPTS: Final = 20
"""Each conflict means that another scheduler has reserved."""

log = structlog.get_logger(__name__)


class SharedRoom:
    """Without definition of the kind nothing is reserved."""

    def __init__(
        self, caches: Caches, ledger: RoomLedger, *, owner: str, frame: Callable[[], Frame], clock: Clock
    ) -> None:
        """`owner` is the same for all replicas of a scheduler."""
        self._caches, self._ledger = caches, ledger
        self._owner, self._frame, self._clock = owner, frame, clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """While they are held or waited for."""
        self._joined: set[str] = set()
        """Clusters that this process has decided about."""
        caches.reservations.store.subscribe(self._on_reservation)
        if caches.selects_clusters:
            caches.clusters.subscribe(self._on_cluster)

    @property
    def _objects(self) -> Objects[Observed[ClusterReservation]]:
        return self._caches.reservations.objects

    def begin(self) -> None:
        """The ledger has forgotten what is reserved."""
        for reservation in self._caches.reservations.store.values():
            self._on_reservation(None, reservation)

    # --- claims -------------------------------------------------------------------------------------------------------

    async def claim(self, request: PlacementRequest, clusters: Iterable[str]) -> str | None:
        """Room on these clusters, as far as the placement has reserved it in this process. Returns the first cluster
        where others have taken it."""
        for cluster in sorted(clusters):
            requests = self._ledger.find_reserved(cluster, PlacementKey.parse(request.key))
            if requests is None:
                continue
            async with self._lock(cluster):
                if not await self._claim_on(cluster, request, Claim(request.key, request.uid, requests)):
                    return cluster
        return None

    def _lock(self, cluster: str) -> asyncio.Lock:
        return self._locks.setdefault(cluster, asyncio.Lock())

    async def _claim_on(self, cluster: str, request: PlacementRequest, claim: Claim) -> bool:
        for _ in range(_ATTEMPTS):
            known, now = self._caches.reservations.store.get(cluster), epoch_nanoseconds(self._clock)
            if request.placement_type != PICK_FIXED and self._is_short(cluster, request, claim.requests):
                return False
            kept = [
                entry
                for entry in list_entries(known)
                if not is_expired(entry, now) and (entry.owner, entry.uid) != (self._owner, claim.uid)
            ]
            document = build_reservation(cluster, known, [*kept, build_entry(self._owner, claim, now)])
            try:
                await (self._objects.create(document) if known is None else self._objects.replace(document))
            except NotFound:
                if known is None:
                    return True
                await self._refresh(cluster)
            except (Conflict, AlreadyExists):
                await self._refresh(cluster)
            else:
                return True
        raise StaleInputs(f"ClusterReservation {cluster} changed {_ATTEMPTS} times in a row")

    def _is_short(self, cluster: str, request: PlacementRequest, requests: Mapping[str, int]) -> bool:
        """Whether less than nothing is left. What is claimed is booked already."""
        frame = self._frame()
        row = frame.row_of(cluster)
        if row is None:
            return True
        for resource in requests:
            room = frame.capacity(resource)
            if room.known[row] and room.free(priority=request.priority, placement=request.key)[row] < 0:
                return True
        return False

    async def _refresh(self, cluster: str) -> None:
        if await self._objects.refresh(cluster) is None:
            known = self._caches.reservations.store.get(cluster)
            if known is not None:
                self._caches.reservations.store.apply_delete(cluster, known.view.metadata.uid)

    # --- what others have reserved ------------------------------------------------------------------------------------

    def _on_reservation(
        self, old: Observed[ClusterReservation] | None, new: Observed[ClusterReservation] | None
    ) -> None:
        known = old if new is None else new
        assert known is not None
        now = epoch_nanoseconds(self._clock)
        before, after = self._sum_foreign(old, now=now), self._sum_foreign(new, now=now)
        cluster = known.view.metadata.name
        for key in self._sum_foreign(old, now=0).keys() - after.keys():
            self._ledger.release_foreign(cluster, key)
        for key, requests in after.items():
            if before.get(key) != requests:
                self._ledger.reserve_foreign(cluster, key, requests)

    def _sum_foreign(
        self, reservation: Observed[ClusterReservation] | None, *, now: int
    ) -> dict[PlacementKey, dict[str, int]]:
        """By placement, which two schedulers may reserve room for when one hands it to the other: it will have one
        binding, so the larger amounts count."""
        reserved: dict[PlacementKey, dict[str, int]] = {}
        for entry in list_entries(reservation):
            if entry.owner != self._owner and not is_expired(entry, now):
                requests = reserved.setdefault(PlacementKey.parse(entry.placement), {})
                for resource, amount in read_requests(entry).items():
                    requests[resource] = max(amount, requests.get(resource, 0))
        return reserved

    # --- entries that are no longer needed ----------------------------------------------------------------------------

    async def run(self) -> None:
        """While this process leads, until cancelled."""
        while True:
            await self._clock.sleep(SWEEP)
            for cluster in list(self._caches.reservations.store):
                async with self._lock(cluster):
                    try:
                        await self._sweep(cluster)
                    except (Conflict, NotFound):
                        continue  # the next one finds what is left
                    except ApiError as error:
                        log.warning("reservations could not be swept", cluster=cluster, error=str(error))

    async def _sweep(self, cluster: str) -> None:
        known, now = self._caches.reservations.store.get(cluster), epoch_nanoseconds(self._clock)
        entries = list_entries(known)
        kept = [self._renew(cluster, entry, now) for entry in entries if self._is_needed(cluster, entry, now)]
        if known is None:
            return
        if not kept and self._is_gone(cluster):
            metadata = known.view.metadata
            await self._objects.delete(cluster, uid=metadata.uid, version=metadata.resource_version)
            self._joined.discard(cluster)
        elif kept != list(entries):
            await self._objects.replace(build_reservation(cluster, known, kept))

    def _is_gone(self, cluster: str) -> bool:
        """One that was never known here may be another scheduler's."""
        is_ours = not self._caches.selects_clusters or cluster in self._joined
        return is_ours and self._frame().row_of(cluster) is None

    def _on_cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        if old is None and new is not None:
            self._joined.add(new.metadata.name)

    def _is_needed(self, cluster: str, entry: ReservationEntry, now: int) -> bool:
        if entry.owner != self._owner:
            return not is_expired(entry, now)
        key = PlacementKey.parse(entry.placement)
        if self._find_kept(cluster, key) is not None:
            return True
        is_bound = any(each.view.spec.target_cluster == cluster for each in self._caches.bindings(key))
        return is_bound and get_age(entry, now) < SETTLING

    def _find_kept(self, cluster: str, key: PlacementKey) -> Mapping[str, int] | None:
        """What is reserved in this process, or kept for a plan that is not completed."""
        reserved = self._ledger.find_reserved(cluster, key)
        if reserved is not None:
            return reserved
        nominations = self._frame().nominations
        kept = (each.requests for each in nominations if (each.cluster, each.placement) == (cluster, str(key)))
        return next(kept, None)

    def _renew(self, cluster: str, entry: ReservationEntry, now: int) -> ReservationEntry:
        """Of a write that is still uncertain."""
        requests = self._find_kept(cluster, PlacementKey.parse(entry.placement))
        if entry.owner != self._owner or requests is None or get_age(entry, now) < LIFETIME // 2:
            return entry
        return build_entry(self._owner, Claim(entry.placement, entry.uid, requests), now)
