"""Overlay of a group attempt: the fleet as if the members before were placed already.

It grows with each member that fits. Nothing is booked for it, so that a group that does not fit wakes no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.policy.quotas import CLUSTERS, Quotas, QuotaShare, read_taken
from fleet.framework.request import PlacementRequest
from fleet.model.views import MemberCluster
from fleet.scheduler.ledgers.room_ledger import needs_on
from fleet.snapshot.columns.bitset import each_row
from fleet.snapshot.frame import Frame
from fleet.snapshot.removals import Removals
from fleet.snapshot.sidedata import LEAVING, WAITING, Nomination, PlacedBinding, ResidentGroup, Residents
from fleet.snapshot.table import Table

ABOVE_ALL: Final = 2**31
"""Above every priority: the room of a group that is being bound is taken for all others."""


def keep_room(request: PlacementRequest, cluster: str, known: MemberCluster | None) -> Nomination:
    return Nomination(cluster, request.key, ABOVE_ALL, dict(needs_on(request.needs, known)))


@dataclass(slots=True)
class Overlay:
    allowed: frozenset[str] | None = None
    """The only clusters that members may get; None for all."""
    evicts: bool = True
    """Whether decisions look for placements that could leave."""
    _nominations: list[Nomination] = field(default_factory=list)
    _residents: list[tuple[ResidentGroup, str, str]] = field(default_factory=list)
    """Group, cluster and placement."""
    _usage: list[tuple[Quotas, Mapping[str, int]]] = field(default_factory=list)
    """The quotas of each member, and what it takes of them."""
    _evicted: dict[str, dict[str, None]] = field(default_factory=dict)
    """By cluster, the placements that leave it for members."""
    _given_back: list[PlacedBinding] = field(default_factory=list)
    """What they take of quotas until then."""
    _beyond: dict[tuple[str, str], int] = field(default_factory=dict)
    """By quota of a member and resource, how much more than its guarantee was in use before all this."""

    def add(self, inputs: DecisionInput, decision: Decision, planned: Collection[str] = ()) -> None:
        """A member that fits. Of quotas, `planned` clusters are kept for it already, and those nominated for it."""
        self._add(inputs, [(target.cluster, target.row) for target in decision.newly_chosen], planned)

    def add_evicting(self, inputs: DecisionInput, decision: Decision) -> None:
        """A member that fits when those have left that its decision names."""
        rows = {cluster: row for cluster in decision.nomination if (row := inputs.frame.row_of(cluster)) is not None}
        for cluster, placement in () if decision.evictions is None else decision.evictions.victims:
            self._evicted.setdefault(cluster, {})[placement] = None
            self._given_back += (each for each in inputs.frame.placed[rows[cluster]] if each.placement == placement)
        self._add(inputs, rows.items(), ())

    def list_evicted(self, cluster: str) -> tuple[str, ...]:
        """The placements that leave it."""
        return tuple(self._evicted.get(cluster, ()))

    def _add(self, inputs: DecisionInput, clusters: Iterable[tuple[str, int]], planned: Collection[str]) -> None:
        request, used = inputs.request, Counter[str]()
        kept = {*planned, *(own.cluster for own in inputs.frame.nominations if own.placement == request.key)}
        for cluster, row in clusters:
            nomination = keep_room(request, cluster, inputs.frame.cluster(row))
            self._nominations.append(nomination)
            self._residents.append((request.resident_group, cluster, request.key))
            if cluster not in kept:
                used.update({**nomination.requests, CLUSTERS: 1})
        self._usage.append((request.quotas, used))

    def apply(self, inputs: DecisionInput, nominated: Iterable[str]) -> DecisionInput:
        """The inputs of the next member, which picks the nominated clusters first."""
        frame = inputs.frame
        if self._nominations:
            table = Table.fork(frame)
            own = {nomination.placement for nomination in self._nominations}
            others = (nomination for nomination in frame.nominations if nomination.placement not in own)
            table.nominate((*others, *self._nominations))
            self._evict(table, frame)
            if inputs.profile.reads_residents:
                table.settle(self._add_residents(frame.residents))
            frame = table.freeze()
        request = inputs.request
        for share in request.quotas:
            if share.min is not None:
                self._beyond.setdefault((share.quota, share.resource), share.used - share.min)
        if request.quotas and self._usage:
            request = replace(request, quotas=tuple(map(self._add_usage, request.quotas)))
        if not self.evicts and inputs.profile.evicts:
            request = replace(request, never_preempts=True)
        first = tuple(dict.fromkeys((*inputs.nominated, *nominated)))
        return replace(inputs, frame=self._narrow(frame), request=request, nominated=first)

    def _evict(self, table: Table, frame: Frame) -> None:
        """Room is free where bindings leave. Each of them counts in the disruption budget of its placement."""
        rows = {row: on for name, on in self._evicted.items() if (row := frame.row_of(name)) is not None}
        gone = {row: [each for each in frame.placed[row] if each.placement in on] for row, on in rows.items()}
        if not gone:
            return
        table.give_back(Removals(gone))
        table.leave_out(gone)
        live = Counter(each.placement for on in gone.values() for each in on if each.state not in (LEAVING, WAITING))
        for row in each_row(frame.valid) if live else ():
            if any(each.placement in live for each in frame.placed[row]):
                left = (each for each in frame.placed[row] if each.placement not in rows.get(row, ()))
                counted = (each._replace(disruptions=each.disruptions - live[each.placement]) for each in left)
                table.set_placed(frame.name(row), counted)

    def _narrow(self, frame: Frame) -> Frame:
        if self.allowed is None:
            return frame
        return frame.exclude(row for row in each_row(frame.valid) if frame.name(row) not in self.allowed)

    def _add_residents(self, residents: Residents) -> Residents:
        added = {group: dict(on) for group, on in residents.items()}
        for group, cluster, placement in self._residents:
            on = added.setdefault(group, {})
            on[cluster] = on.get(cluster, frozenset()) | {placement}
        for on in added.values():
            for cluster in self._evicted.keys() & on.keys():
                on[cluster] -= self._evicted[cluster].keys()
        return added

    def _add_usage(self, share: QuotaShare) -> QuotaShare:
        """What leaves is given back to its own quotas. What is within the guarantee of another one stays with that."""
        change = self._count_change(share.resource)
        own, lent, beyond = change[share.quota], change[share.quota], dict(share.borrowers)
        for quota in change.keys() - {share.quota}:
            excess = beyond.get(quota, self._beyond.get((quota, share.resource)))
            if excess is not None:
                lent += max(change[quota], -max(excess, 0))
                beyond[quota] = excess + change[quota]
        return msgspec.structs.replace(
            share,
            used=share.used + own,
            pool_used=share.pool_used + lent,
            borrowers=tuple(sorted((quota, amount) for quota, amount in beyond.items() if amount > 0)),
        )

    def _count_change(self, resource: str) -> Counter[str]:
        """By quota, how much more of the resource is in use."""
        change = Counter[str]()
        for quotas, used in self._usage:
            change.update({each.quota: used[resource] for each in quotas if each.resource == resource})
        for binding in self._given_back:
            change.subtract(dict.fromkeys(binding.quotas, read_taken(binding, resource)))
        return change
