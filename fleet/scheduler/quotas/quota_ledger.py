"""Quota ledger: what the placements of every quota use, by their bindings and by what attempts have reserved.

It follows from the objects on the hub and the reservations of this process, so a new leader derives the same. Sums are
brought up to date when they are read. On a hub without quotas nothing is summed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from fleet.framework.policy.quotas import CLUSTERS, Quotas
from fleet.framework.policy.resource_requests import NO_NEEDS, Needs, format_amount, parse_needs
from fleet.informers.cache import Caches
from fleet.kube.scopes import owner_key
from fleet.model.keys import REQUESTS
from fleet.model.placement_key import PlacementKey
from fleet.model.views import (
    Binding,
    MemberCluster,
    Metadata,
    Observed,
    Placement,
    PlacementOptions,
    PlacementQuota,
    PolicySnapshot,
)
from fleet.scheduler.ledgers.room_ledger import differ_in_needs, needs_on, read_workloads
from fleet.scheduler.quotas.quota_sums import Amounts, Quota, QuotaSums, sum_needs
from fleet.snapshot.sidedata import Nomination, PlacedBinding


@dataclass(frozen=True, slots=True)
class _Usage:
    amounts: Amounts
    quotas: tuple[str, ...]


class QuotaLedger:
    def __init__(
        self,
        caches: Caches,
        requests_of: Callable[[Metadata], str | None],
        *,
        on_change: Callable[[PlacementKey | None], None] = lambda _: None,
    ) -> None:
        """`requests_of` reads what a placement needs. `on_change` is called when there may be more room in a quota, or
        other quotas; with the placement, if it gave back what it had reserved."""
        self._caches, self._requests_of = caches, requests_of
        self.on_change = on_change
        self.on_use: Callable[[], None] = lambda: None
        """Called when what is in use may have changed."""
        self._sums = QuotaSums()
        self._usage: dict[PlacementKey, _Usage] = {}
        self._known: dict[PlacementKey, tuple[Metadata, Needs]] = {}
        """Of the placements that are there, or have left bindings."""
        self._reserved: dict[PlacementKey, set[str]] = {}
        self._held: dict[PlacementKey, set[str]] = {}
        """By placement with writes of unknown outcome, the clusters that are given back once these are read."""
        self._kept: dict[PlacementKey, frozenset[str]] | None = {}
        """What `_read_kept` has read, until that changes."""
        self._nominations: dict[str, tuple[Nomination, ...]] = {}
        """By keeper."""
        self._shares: dict[tuple[str, ...], Quotas] = {}
        """By quotas, as all placements see them that no room is kept for, until anything changes."""
        self._answers: dict[tuple[tuple[str, ...], int], tuple[Needs, bool]] = {}
        """Of `has_room` to the same placements, by quotas and the identity of what they need."""
        self._stale: set[PlacementKey] = set()
        self._is_new = True
        caches.clusters.subscribe(self._on_cluster, when=differ_in_needs)
        for kinds in caches.kinds:
            kinds.quotas.store.subscribe(self._on_quota)
            kinds.placements.store.subscribe(self._on_placement)
            kinds.options.store.subscribe(self._on_options)
            kinds.policy_snapshots.store.subscribe(self._on_policy_snapshot)
            kinds.bindings.store.subscribe(self._on_binding)

    # --- what attempts reserve ----------------------------------------------------------------------------------------

    def reserve_quota(self, cluster: str, placement: str) -> None:
        key = PlacementKey.parse(placement)
        self._reserved.setdefault(key, set()).add(cluster)
        self._note_use(key)

    def release_quota(self, cluster: str, placement: str) -> None:
        key = PlacementKey.parse(placement)
        if key in self._held:
            self._held[key].add(cluster)
        else:
            self._release(key, cluster)

    def hold(self, key: PlacementKey) -> None:
        """Until `end_hold`: a binding may have been written although its write failed."""
        self._held.setdefault(key, set())

    def end_hold(self, key: PlacementKey) -> None:
        """The cache has what was written, or has seen its deletion."""
        for cluster in self._held.pop(key, ()):
            self._release(key, cluster)

    def settle(self, key: PlacementKey) -> None:
        """Its attempt has ended: what it bound counts by its bindings."""
        for cluster in self._reserved.get(key, set()) - self._held.get(key, set()):
            self._release(key, cluster)

    def begin(self) -> None:
        """This process leads from now on. What an earlier leadership had reserved was bound, or will not be."""
        self._stale |= self._reserved.keys()
        self._reserved.clear()
        self._held.clear()

    def _release(self, key: PlacementKey, cluster: str) -> None:
        if self._forget_reservation(key, cluster):
            self._note_use(key)
            if self._sums.quotas and cluster not in self._list_clusters(key):
                self.on_change(key)

    def _forget_reservation(self, key: PlacementKey, cluster: str) -> bool:
        clusters = self._reserved.get(key, set())
        if cluster not in clusters:
            return False
        clusters.discard(cluster)
        if not clusters:
            del self._reserved[key]
        return True

    def keep(self, nominations: Iterable[Nomination], *, keeper: str) -> None:
        """For placements that room is made or kept for: to others, their clusters count as in use. In place of what the
        same keeper kept before."""
        before = self._read_kept() if self._sums.quotas else {}
        self._nominations[keeper] = tuple(nominations)
        self._kept = None
        self._forget_shares()
        if before and any(clusters - self._read_kept().get(key, frozenset()) for key, clusters in before.items()):
            self.on_change(None)

    def _read_kept(self) -> Mapping[PlacementKey, frozenset[str]]:
        """By placement that room is made or kept for, its clusters."""
        if self._kept is None:
            self._kept = {}
            for each in chain.from_iterable(self._nominations.values()):
                key = PlacementKey.parse(each.placement)
                self._kept[key] = self._kept.get(key, frozenset()) | {each.cluster}
        return self._kept

    # --- reading ------------------------------------------------------------------------------------------------------

    def list_shares(self, key: PlacementKey) -> Quotas:
        """What is in use of the quotas that the placement belongs to, or kept for others."""
        return self._list_shares(self.list_quotas(key), beside=key)

    def list_proposed_shares(self, key: PlacementKey, labels: Mapping[str, str] | None) -> Quotas:
        """As of `list_shares`, if the placement had these labels. It need not be there."""
        self._settle()
        return self._list_shares(self._sums.list_names(key, labels), beside=key)

    def _list_shares(self, quotas: tuple[str, ...], *, beside: PlacementKey) -> Quotas:
        if not quotas:
            return ()
        kept_for = self._read_kept()
        shares = None if beside in kept_for else self._shares.get(quotas)
        if shares is None:
            kept = self._count_kept(beside=beside) if kept_for else {}
            shares = tuple(share for name in quotas for share in self._sums.list_shares(name, kept))
            if beside not in kept_for:
                self._shares[quotas] = shares
        return shares

    def _forget_shares(self) -> None:
        self._shares.clear()
        self._answers.clear()

    def list_quotas(self, key: PlacementKey) -> tuple[str, ...]:
        """Those that the placement counts in."""
        self._settle()
        known = self._usage.get(key)
        return () if known is None else known.quotas

    def may_reclaim(self, key: PlacementKey, binding: PlacedBinding) -> bool:
        """Whether the placement may take back what the binding of another one takes, for one cluster more."""
        needs = {**self._read_needs(key).on(1), CLUSTERS: 1}
        return any(
            share.may_reclaim(needs.get(share.resource, 0)) and share.has_lent(binding)
            for share in self.list_shares(key)
        )

    def _count_kept(self, *, beside: PlacementKey) -> dict[str, Counter[str]]:
        """By quota, what is kept and not in use yet."""
        kept: dict[str, Counter[str]] = {}
        for key, clusters in self._read_kept().items():
            known = self._usage.get(key)
            if known is None or key == beside:
                continue
            needs = self._read_needs(key)
            amounts = self._sum_needs(needs, clusters - self._list_clusters(key))
            for name in known.quotas:
                kept.setdefault(name, Counter()).update(amounts)
        return kept

    def has_room(self, key: PlacementKey) -> bool:
        """Whether one more copy of the placement fits, on any cluster."""
        quotas = self.list_quotas(key)
        if not quotas:
            return True
        needs = self._find_needs(key)
        if key in self._read_kept():
            return self._has_room(self.list_shares(key), needs)
        answer = self._answers.get((quotas, id(needs)))
        if answer is None:
            answer = self._answers[quotas, id(needs)] = (needs, self._has_room(self.list_shares(key), needs))
        return answer[1]

    def _has_room(self, shares: Quotas, needs: Needs) -> bool:
        copies = [needs_on(needs, cluster) for cluster in self._caches.clusters.values()] if needs.vary else []
        return any(
            all((1 if share.resource == CLUSTERS else amounts.get(share.resource, 0)) <= share.left for share in shares)
            for amounts in copies or [needs.on(1)]
        )

    def list_used(self) -> dict[tuple[str, str], int]:
        """By quota and resource, of all resources that the quotas name."""
        self._settle()
        return {
            (share.quota, share.resource): share.used
            for name in self._sums.quotas
            for share in self._sums.list_shares(name)
        }

    def build_status(self, name: str) -> dict[str, Any]:
        """Of a quota, as its status tells it."""
        self._settle()
        if name not in self._sums.quotas:
            return {}
        shares = list(self._sums.list_shares(name))
        used = {share.resource: format_amount(share.resource, share.used) for share in shares}
        beyond = {share.resource: share.used - share.min for share in shares if share.min is not None}
        borrowed = {resource: format_amount(resource, max(amount, 0)) for resource, amount in beyond.items()}
        return {key: amounts for key, amounts in (("used", used), ("borrowed", borrowed)) if amounts}

    # --- counting -----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        if not self._sums.quotas:
            return
        if self._is_new:
            self._is_new = False
            self._stale = set(self._list_keys())
        elif not self._stale:
            return
        self._forget_shares()
        for key in self._stale:
            self._count(key)
        self._stale = set()

    def _list_keys(self) -> Iterator[PlacementKey]:
        yield from self._reserved
        yield from self._known
        for kinds in self._caches.kinds:
            yield from (PlacementKey.of(placement.view.metadata) for placement in kinds.placements.store.values())

    def _count(self, key: PlacementKey) -> None:
        before = self._usage.pop(key, None)
        if before is not None:
            self._sums.subtract(before.quotas, before.amounts)
        clusters, needs = self._list_clusters(key), self._read_needs(key)
        if key not in self._known:
            return
        names = self._sums.list_names(key, self._known[key][0].labels)
        self._usage[key] = _Usage(self._sum_needs(needs, clusters), names)
        self._sums.add(names, self._usage[key].amounts)

    def _sum_needs(self, needs: Needs, clusters: Iterable[str]) -> Counter[str]:
        return sum_needs(needs, map(self._caches.clusters.get, clusters))

    def _list_clusters(self, key: PlacementKey) -> set[str]:
        """A binding counts until it is being deleted: its workloads run until then."""
        kinds = self._caches.find_kinds(key)
        bindings = [] if kinds is None else self._caches.bindings(key)
        bound = {each.view.spec.target_cluster for each in bindings if each.view.metadata.deletion_timestamp is None}
        return bound | self._reserved.get(key, set())

    def _read_needs(self, key: PlacementKey) -> Needs:
        """What a placement that is gone has needed counts until its bindings are gone, too."""
        kinds = self._caches.find_kinds(key)
        placement = None if kinds is None else kinds.get_placement(key)
        if placement is not None:
            text = self._requests_of(placement.view.metadata)
            self._known[key] = placement.view.metadata, parse_needs(text or "")
        elif not self._list_clusters(key):
            self._known.pop(key, None)
        return self._find_needs(key)

    def _find_needs(self, key: PlacementKey) -> Needs:
        """Those that are known."""
        return self._known[key][1] if key in self._known else NO_NEEDS

    # --- changes on the hub -------------------------------------------------------------------------------------------

    def _note(self, key: PlacementKey) -> None:
        self._note_use(key)
        if self._sums.quotas:
            self.on_change(None)

    def _note_use(self, key: PlacementKey) -> None:
        self._stale.add(key)
        if self._sums.quotas:
            self.on_use()

    def _on_quota(self, old: Observed[PlacementQuota] | None, new: Observed[PlacementQuota] | None) -> None:
        if old is not None and new is not None and old.view.spec == new.view.spec:
            return
        known = old if new is None else new
        assert known is not None
        name = str(PlacementKey.of(known.view.metadata))
        if new is None:
            self._sums.quotas.pop(name, None)
        else:
            self._sums.quotas[name] = Quota.read(new.view)
        self._usage = {}
        self._sums.forget_use()
        self._is_new = True
        self.on_use()
        self.on_change(None)

    def _on_cluster(self, old: MemberCluster | None, new: MemberCluster | None) -> None:
        """Where needs vary, others may be needed there now."""
        known = old if new is None else new
        if not self._sums.quotas or known is None:
            return
        self._forget_shares()
        cluster = known.metadata.name
        keys = {owner_key(binding.view.metadata) for binding in self._caches.bindings_on(cluster)}
        keys |= {key for key, clusters in self._reserved.items() if cluster in clusters}
        for key in keys:
            if key in self._known and self._known[key][1].vary:
                self._note_use(key)
        self.on_change(None)

    def _on_placement(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        if _read_said(old) != _read_said(new):
            self._note_either(old, new, may_free=old is not None)

    def _on_options(self, old: Observed[PlacementOptions] | None, new: Observed[PlacementOptions] | None) -> None:
        before, after = (None if options is None else options.view.spec.requests for options in (old, new))
        if before != after:
            self._note_either(old, new)

    def _note_either(self, old: Observed[Any] | None, new: Observed[Any] | None, *, may_free: bool = True) -> None:
        known = old if new is None else new
        assert known is not None
        note = self._note if may_free else self._note_use
        note(PlacementKey.of(known.view.metadata))

    def _on_policy_snapshot(self, old: Observed[PolicySnapshot] | None, new: Observed[PolicySnapshot] | None) -> None:
        known = old if new is None else new
        assert known is not None
        key = owner_key(known.view.metadata)
        if key is not None and read_workloads(old) != read_workloads(new):
            (self._note_use if new is None else self._note)(key)

    def _on_binding(self, old: Observed[Binding] | None, new: Observed[Binding] | None) -> None:
        before, after = _read_place(old), _read_place(new)
        if before == after:
            return
        for place in (before, after):
            if place is not None and place.placement is not None:
                self._note_use(place.placement)
        if after is not None and after.placement is not None:
            self._forget_reservation(after.placement, after.cluster)
        if before is not None and self._sums.quotas:
            self.on_change(None)


class _Place(NamedTuple):
    placement: PlacementKey | None
    cluster: str
    is_live: bool


def _read_place(binding: Observed[Binding] | None) -> _Place | None:
    if binding is None:
        return None
    metadata = binding.view.metadata
    return _Place(owner_key(metadata), binding.view.spec.target_cluster, metadata.deletion_timestamp is None)


def _read_said(placement: Observed[Placement] | None) -> tuple[object, ...] | None:
    metadata = None if placement is None else placement.view.metadata
    return None if metadata is None else (metadata.uid, metadata.labels, metadata.annotation(REQUESTS))
