"""Residents in files: the placements that are on each cluster by their bindings."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.cli.input.simulation_inputs import PlacementInputs
from fleet.framework.cycle.decision import Decision
from fleet.model.keys import UNSCHEDULED
from fleet.snapshot.sidedata import ResidentGroup, Residents
from fleet.snapshot.table import Table


def find_residents(placements: Iterable[PlacementInputs]) -> Residents:
    residents: dict[ResidentGroup, dict[str, frozenset[str]]] = {}
    for placement in placements:
        bindings = (binding for binding in placement.bindings if binding.metadata.deletion_timestamp is None)
        clusters = {binding.spec.target_cluster for binding in bindings if binding.spec.state != UNSCHEDULED}
        _add(residents, placement, clusters)
    return residents


def settle_decision(table: Table, placement: PlacementInputs, decision: Decision) -> None:
    """For the decisions that follow."""
    residents = {group: dict(on) for group, on in table.freeze().residents.items()}
    _add(residents, placement, {target.cluster for target in decision.newly_chosen})
    table.settle(residents)


def _add(
    residents: dict[ResidentGroup, dict[str, frozenset[str]]], placement: PlacementInputs, clusters: Iterable[str]
) -> None:
    request = placement.request
    for cluster in clusters:
        on = residents.setdefault(request.resident_group, {})
        on[cluster] = on.get(cluster, frozenset()) | {request.key}
