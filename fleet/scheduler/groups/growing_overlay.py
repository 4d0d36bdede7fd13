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
from fleet.framework.policy.quotas import CLUSTERS, Quotas, QuotaShare
from fleet.framework.request import PlacementRequest
from fleet.model.views import MemberCluster
from fleet.scheduler.ledgers.room_ledger import needs_on
from fleet.snapshot.columns.bitset import each_row
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import Nomination, ResidentGroup, Residents
from fleet.snapshot.table import Table

ABOVE_ALL: Final = 2**31
"""Above every priority: the room of a group that is being bound is taken for all others."""


def keep_room(request: PlacementRequest, cluster: str, known: MemberCluster | None) -> Nomination:
    return Nomination(cluster, request.key, ABOVE_ALL, dict(needs_on(request.needs, known)))


@dataclass(slots=True)
class Overlay:
    allowed: frozenset[str] | None = None
    """The only clusters that members may get; None for all."""
    _nominations: list[Nomination] = field(default_factory=list)
    _residents: list[tuple[ResidentGroup, str, str]] = field(default_factory=list)
    """Group, cluster and placement."""
    _usage: list[tuple[Quotas, Mapping[str, int]]] = field(default_factory=list)
    """The quotas of each member, and what it takes of them."""

    def add(self, inputs: DecisionInput, decision: Decision, planned: Collection[str] = ()) -> None:
        """A member that fits. Of quotas, `planned` clusters are kept for it already."""
        request, frame = inputs.request, inputs.frame
        used: Counter[str] = Counter()
        for target in decision.newly_chosen:
            nomination = keep_room(request, target.cluster, frame.cluster(target.row))
            self._nominations.append(nomination)
            self._residents.append((request.resident_group, target.cluster, request.key))
            if target.cluster not in planned:
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
            if inputs.profile.reads_residents:
                table.settle(self._add_residents(frame.residents))
            frame = table.freeze()
        request = inputs.request
        if request.quotas and self._usage:
            request = replace(request, quotas=tuple(map(self._add_usage, request.quotas)))
        first = tuple(dict.fromkeys((*inputs.nominated, *nominated)))
        return replace(inputs, frame=self._narrow(frame), request=request, nominated=first)

    def _narrow(self, frame: Frame) -> Frame:
        if self.allowed is None:
            return frame
        return frame.exclude(row for row in each_row(frame.valid) if frame.name(row) not in self.allowed)

    def _add_residents(self, residents: Residents) -> Residents:
        added = {group: dict(on) for group, on in residents.items()}
        for group, cluster, placement in self._residents:
            on = added.setdefault(group, {})
            on[cluster] = on.get(cluster, frozenset()) | {placement}
        return added

    def _add_usage(self, share: QuotaShare) -> QuotaShare:
        own = lent = 0
        for quotas, used in self._usage:
            of_resource = [each for each in quotas if each.resource == share.resource]
            own += sum(used[share.resource] for each in of_resource if each.quota == share.quota)
            lent += sum(used[share.resource] for each in of_resource if each.min is not None)
        return msgspec.structs.replace(share, used=share.used + own, pool_used=share.pool_used + lent)
