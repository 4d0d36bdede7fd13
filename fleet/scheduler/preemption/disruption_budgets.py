"""Disruption budgets of the hub, watched from when a profile evicts: how many clusters a placement may lose.

They are KubeFleet's, one per ClusterResourcePlacement and of the same name, and count as they do there: a cluster is
available while its binding says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from fleet.kube.informer import Informer, WatchOnDemand
from fleet.model.keys import NUMBER_OF_CLUSTERS, PICK_N, UNSCHEDULED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import (
    Binding,
    Condition,
    DisruptionBudget,
    DisruptionBudgetSpec,
    Metadata,
    Observed,
    PolicySnapshot,
    View,
)

_AVAILABLE: Final = "Available"


class DisruptionBudgets:
    def __init__(
        self, informer: Informer[Observed[DisruptionBudget]], on_change: Callable[[PlacementKey | None], None]
    ) -> None:
        """`on_change` is called with the placement of a budget that changed; with None once all are known."""
        self._informer: Final = informer
        self._on_change = on_change
        self.watch: Final = WatchOnDemand(informer, lambda: on_change(None))
        """Needed from when a profile evicts."""
        informer.store.subscribe(self._on_event)

    @property
    def are_known(self) -> bool:
        """Before that, nothing may be evicted."""
        return self.watch.is_known

    def describe(self, key: PlacementKey) -> str:
        """As it is written; empty without one."""
        budget = None if key.namespace else self._informer.store.get(key.name)
        spec = DisruptionBudgetSpec() if budget is None else budget.view.spec
        if spec.max_unavailable is not None:
            return f"maxUnavailable {spec.max_unavailable}"
        return "" if spec.min_available is None else f"minAvailable {spec.min_available}"

    def count_disruptions(self, key: PlacementKey, bindings: Iterable[Observed[Binding]], wanted: int | None) -> int:
        """How many of its bindings may be evicted now; `wanted` is the number of clusters that it asks for, if any."""
        known = list(bindings)
        if not self.are_known:
            return 0
        budget = None if key.namespace else self._informer.store.get(key.name)
        if budget is None:
            return len(known)
        available, spec = sum(map(_is_available, known)), budget.view.spec
        if spec.max_unavailable is not None:
            return _scale(spec.max_unavailable, wanted) - (len(known) - available)
        return len(known) if spec.min_available is None else available - _scale(spec.min_available, wanted)

    def _on_event(self, old: Observed[DisruptionBudget] | None, new: Observed[DisruptionBudget] | None) -> None:
        known = old if new is None else new
        assert known is not None
        self._on_change(PlacementKey.of(known.view.metadata))


def read_wanted(snapshot: PolicySnapshot) -> int | None:
    """How many clusters the placement asks for, if it does."""
    policy, count = snapshot.spec.policy, snapshot.metadata.annotation(NUMBER_OF_CLUSTERS) or ""
    return int(count) if policy is not None and policy.placement_type == PICK_N and count.isdecimal() else None


def _scale(limit: int | str, wanted: int | None) -> int:
    """Of a percentage the share of what is wanted, rounded up. One that cannot be read allows nothing."""
    if isinstance(limit, int):
        return limit
    share = limit.removesuffix("%")
    return -(-int(share) * (wanted or 0) // 100) if share.isdecimal() else 0


class _Status(View, frozen=True):
    conditions: tuple[Condition, ...] = ()


class _Binding(View, frozen=True):
    metadata: Metadata = Metadata()
    status: _Status = _Status()


_decode_binding = msgspec.json.Decoder(_Binding).decode


def _is_available(binding: Observed[Binding]) -> bool:
    if binding.view.metadata.deletion_timestamp or binding.view.spec.state == UNSCHEDULED:
        return False
    try:
        conditions = _decode_binding(binding.raw).status.conditions
    except msgspec.MsgspecError:
        return False
    generation = binding.view.metadata.generation
    return any(
        each.type == _AVAILABLE and each.status == "True" and each.observed_generation == generation
        for each in conditions
    )
