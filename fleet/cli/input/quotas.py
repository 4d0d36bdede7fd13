"""Quotas in files: what placements take of them by their bindings, and by what is decided for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet.cli.input.simulation_inputs import PlacementInputs, SimulationInputs
from fleet.framework.cycle.decision import Decision
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.model.placement_key import PlacementKey
from fleet.model.views import MemberCluster
from fleet.scheduler.quotas.quota_sums import Quota, QuotaSums, sum_needs


class QuotaUse:
    def __init__(self, inputs: SimulationInputs) -> None:
        self._sums = QuotaSums()
        for quota in inputs.quotas:
            self._sums.quotas[str(PlacementKey.of(quota.metadata))] = Quota.read(quota)
        self._clusters: Mapping[str, MemberCluster] = {cluster.metadata.name: cluster for cluster in inputs.clusters}
        for placement in inputs.bound if self._sums.quotas else ():
            self._add(placement, _list_held(placement))

    def fill_request(self, placement: PlacementInputs, profile: CompiledProfile) -> PlacementRequest:
        """With what is in use of its quotas, and what else only some profiles read."""
        request = placement.prepare_request(profile)
        if not profile.reads_quotas:
            return request
        shares = (share for name in self._list_names(placement) for share in self._sums.list_shares(name))
        return replace(request, quotas=tuple(shares))

    def add_decision(self, placement: PlacementInputs, decision: Decision) -> None:
        """For the decisions that follow."""
        if self._sums.quotas:
            self._add(placement, {target.cluster for target in decision.newly_chosen} - _list_held(placement))

    def _add(self, placement: PlacementInputs, clusters: Iterable[str]) -> None:
        amounts = sum_needs(placement.request.needs, map(self._clusters.get, clusters))
        self._sums.add(self._list_names(placement), amounts)

    def _list_names(self, placement: PlacementInputs) -> tuple[str, ...]:
        return self._sums.list_names(PlacementKey.parse(placement.request.key), placement.metadata.labels)


def _list_held(placement: PlacementInputs) -> set[str]:
    """A binding counts until it is being deleted."""
    bindings = (binding for binding in placement.bindings if binding.metadata.deletion_timestamp is None)
    return {binding.spec.target_cluster for binding in bindings}
