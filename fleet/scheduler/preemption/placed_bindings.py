"""Placed bindings: the column of what clusters hold and could lose, kept for profiles that evict.

A binding may be evicted if its placement is scheduled here, by a profile that looks at room: any other would take the
cluster again at once. So would PickFixed, which takes what it names. What is given up already is in the column, too:
its room comes back without anything being done. So are clusters that are reserved for placements that wait in Permit:
these are refused, which no budget counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from fleet.errors import InputError
from fleet.framework.policy.resource_requests import Needs
from fleet.informers.cache import Caches, FleetTable
from fleet.kube.resource import key_of
from fleet.kube.scopes import owner_key
from fleet.model.keys import PICK_FIXED, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, MemberCluster, Metadata, Observed
from fleet.scheduler.companions import Companions
from fleet.scheduler.ledgers.room_ledger import RoomLedger, differ_in_needs, needs_on, read_applied
from fleet.scheduler.preemption.disruption_budgets import DisruptionBudgets, read_wanted
from fleet.scheduler.priority_classes import PriorityClasses
from fleet.scheduler.quotas.quota_ledger import QuotaLedger
from fleet.snapshot.sidedata import LEAVING, WAITING, Nomination, PlacedBinding

Amounts = tuple[tuple[str, int], ...]
"""By resource, sorted."""
OnPlaced = Callable[[str, tuple[PlacedBinding, ...], PlacementKey | None], None]
"""Called with a cluster where other bindings than before may be evicted, or leave, with those of before, and with the
placement of the attempt that has looked, if one has."""

_UNLIMITED: Final = 2**31 - 1


class Standing(NamedTuple):
    """What a placement's bindings have in common."""

    priority: int = 0
    disruptions: int = 0
    may_leave: bool = False
    """Whether it may lose a cluster at all."""


class Waits(Protocol):
    """Placements that wait in Permit, with clusters reserved."""

    def list_waits(self, key: PlacementKey) -> dict[str, int]:
        """The clusters whose room a placement has while it waits, with the moment since when."""

    def holds(self, key: PlacementKey, cluster: str) -> bool: ...

    def refuse(self, key: PlacementKey, cluster: str, *, plugin: str, message: str) -> bool: ...


class PlacedBindings:
    def __init__(
        self,
        caches: Caches,
        table: FleetTable,
        *,
        companions: Companions,
        classes: PriorityClasses,
        room: RoomLedger,
        quotas: QuotaLedger,
        waits: Waits,
        compares_room: Callable[[Metadata], bool],
    ) -> None:
        """`compares_room`: whether the placement is scheduled here, by a profile that looks at room."""
        self._caches, self._table, self._companions, self._classes = caches, table, companions, classes
        self._room, self._quotas, self._compares_room = room, quotas, compares_room
        self.waits = waits
        self.budgets = DisruptionBudgets(caches.disruption_budgets, self._on_budget)
        self.is_needed = False
        """Whether a profile evicts: until then nothing is kept."""
        self.on_budget: Callable[[], None] = lambda: None
        """Called when budgets are known, or have changed."""
        self.on_change: OnPlaced = lambda *_: None
        self.call_soon: Callable[[Callable[[], None]], None] = lambda _: None
        """Calls it once the present event is handled."""
        self.is_awaited: Callable[[], bool] = lambda: False
        """Whether a change may help a placement: if not, it is read before the next decision."""
        self._changed: set[PlacementKey] = set()
        """Placements whose bindings are read anew at the next `flush`."""
        self._is_called = False
        self._placed: dict[str, dict[str, PlacedBinding]] = {}
        """By cluster and key of the binding."""
        self._clusters_of: dict[PlacementKey, set[tuple[str, str]]] = {}
        caches.clusters.subscribe(self._on_cluster, when=differ_in_needs)
        for kinds in caches.kinds:
            kinds.bindings.store.subscribe(self._on_owned)
            kinds.placements.store.subscribe(self._on_named)
            kinds.options.store.subscribe(self._on_named)
            kinds.policy_snapshots.store.subscribe(self._on_owned)
            kinds.quotas.store.subscribe(lambda *_: self.read_all())

    def need(self, *, is_needed: bool) -> None:
        """Profiles were exchanged."""
        self.is_needed = is_needed
        if is_needed:
            self.budgets.watch.need()
        self.read_all()

    def read_all(self) -> None:
        for kinds in self._caches.kinds:
            owners = (owner_key(binding.view.metadata) for binding in kinds.bindings.store.values())
            self.note(key for key in owners if key is not None)
        self.note(self._clusters_of)

    def note(self, keys: Iterable[PlacementKey]) -> None:
        """What their bindings are to others may have changed."""
        if self.is_needed:
            self._changed.update(keys)
            self.flush_soon()

    def flush_soon(self) -> None:
        if self._changed and not self._is_called and self.is_awaited():
            self._is_called = True
            self.call_soon(self.flush)

    def flush(self, *, for_attempt: PlacementKey | None = None) -> None:
        """The column is that of the caches. An attempt reads it after that, and needs no other for the change."""
        self._is_called = False
        clusters: set[str] = set()
        for key in self._changed:
            clusters |= self._read(key)
        self._changed.clear()
        for cluster in sorted(clusters):
            before, after = self._table.find_placed(cluster), tuple(self._placed.get(cluster, {}).values())
            self._table.set_placed(cluster, after)
            if not set(before).issuperset(after):
                self.on_change(cluster, before, for_attempt)

    def find_needs(self, key: PlacementKey) -> Needs:
        return self._room.find_needs(key)

    def find_standing(self, key: PlacementKey) -> Standing | None:
        """As of now. None if it is not known yet: after a start, budgets and classes are read later."""
        if not self.budgets.are_known:
            return None
        placement, snapshots = self._caches.placement(key), self._caches.latest_snapshots(key)
        if placement is None or len(snapshots) != 1:
            return Standing()
        metadata, policy = placement.view.metadata, snapshots[0].view.spec.policy
        kind = None if policy is None else policy.placement_type
        if metadata.deletion_timestamp or kind == PICK_FIXED or not self._compares_room(metadata):
            return Standing()
        try:
            priority = self._classes.find_priority(self._companions.find(key), metadata)
        except InputError:
            return Standing() if self._classes.are_known else None
        wanted, bindings = read_wanted(snapshots[0].view), self._caches.bindings(key)
        return Standing(priority, self.budgets.count_disruptions(key, bindings, wanted), may_leave=True)

    def may_reclaim(self, key: PlacementKey, victim: PlacementKey, cluster: str) -> bool:
        """Whether it has borrowed there what the quota of the placement guarantees."""
        needs, quotas = self._room.find_needs(victim), self._quotas.list_quotas(victim)
        amounts = needs_on(needs, self._caches.clusters.get(cluster))
        binding = PlacedBinding(str(victim), requests=tuple(sorted(amounts.items())), quotas=quotas)
        return self._quotas.may_reclaim(key, binding)

    def keep_quota(self, nominations: Iterable[Nomination]) -> None:
        self._quotas.keep(nominations, keeper="preemptions")

    def takes_room(self, key: PlacementKey, priority: int) -> bool:
        """Whether it may have come where room was kept with this priority."""
        placement = self._caches.placement(key)
        if not any(self._room.find_needs(key)):
            return False
        if placement is None or not self._compares_room(placement.view.metadata):
            return True
        try:
            return self._classes.find_priority(self._companions.find(key), placement.view.metadata) > priority
        except InputError:
            return True

    # --- inside -------------------------------------------------------------------------------------------------------

    def _read(self, key: PlacementKey) -> set[str]:
        """The clusters that it was or is on."""
        former = self._clusters_of.pop(key, set())
        for cluster, name in former:
            del self._placed[cluster][name]
        needs, quotas = self._room.find_needs(key), self._quotas.list_quotas(key)
        takes_room = bool(any(needs) or quotas)
        bindings = self._caches.bindings(key) if takes_room else []
        waits = self.waits.list_waits(key) if takes_room else {}
        present = self._clusters_of[key] = set()
        if bindings or waits:
            standing = self.find_standing(key) or Standing()

            def put(cluster: str, name: str, describe: Callable[[Amounts], PlacedBinding | None]) -> None:
                amounts = needs_on(needs, self._caches.clusters.get(cluster))
                placed = describe(tuple(sorted(amounts.items())))
                if placed is not None:
                    self._placed.setdefault(cluster, {})[name] = placed
                    present.add((cluster, name))

            for binding in bindings:
                cluster, name = binding.view.spec.target_cluster, key_of(binding.view.metadata)
                if cluster in waits:
                    continue  # it waits to take back what it has given up there: its room counts once
                put(cluster, name, partial(_describe, binding, str(key), standing, quotas))
            for cluster, since in waits.items():
                put(cluster, f"{WAITING} {key}", partial(_describe_wait, str(key), since, standing, quotas))
        if not present:
            del self._clusters_of[key]
        return {cluster for cluster, _ in former | present}

    def _on_owned(self, old: Observed[Any] | None, new: Observed[Any] | None) -> None:
        owners = (owner_key(each.view.metadata) for each in (old, new) if each is not None)
        self.note(key for key in owners if key is not None)

    def _on_named(self, old: Observed[Any] | None, new: Observed[Any] | None) -> None:
        known = old if new is None else new
        if known is not None:
            self.note((PlacementKey.of(known.view.metadata),))

    def _on_cluster(self, _: MemberCluster | None, new: MemberCluster | None) -> None:
        if self.is_needed and new is not None:
            held = self._placed.get(new.metadata.name, {})
            owners = {PlacementKey.parse(each.placement) for each in held.values()}
            self.note(key for key in owners if self._room.find_needs(key).vary)

    def _on_budget(self, key: PlacementKey | None) -> None:
        if key is None:
            self.read_all()
        else:
            self.note((key,))
        if self.is_needed:
            self.on_budget()


def _describe(
    binding: Observed[Binding], placement: str, standing: Standing, quotas: tuple[str, ...], needs: Amounts
) -> PlacedBinding | None:
    started = read_applied(binding.raw).created_at or 0
    if is_leaving(binding.view):
        counted = () if binding.view.metadata.deletion_timestamp else quotas
        return PlacedBinding(placement, standing.priority, started, LEAVING, needs, quotas=counted)
    if standing.disruptions <= 0:
        return None
    return PlacedBinding(placement, standing.priority, started, "", needs, standing.disruptions, quotas)


def _describe_wait(
    placement: str, since: int, standing: Standing, quotas: tuple[str, ...], needs: Amounts
) -> PlacedBinding | None:
    if not standing.may_leave:
        return None
    return PlacedBinding(placement, standing.priority, since, WAITING, needs, _UNLIMITED, quotas)


def is_leaving(binding: Binding) -> bool:
    return bool(binding.metadata.deletion_timestamp) or binding.spec.state == UNSCHEDULED
