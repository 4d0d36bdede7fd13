"""Room in files: what their bindings take of clusters whose reports do not include them yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from fleet.cli.input.simulation_inputs import PlacementInputs, SimulationInputs
from fleet.framework.cycle.decision import Decision
from fleet.framework.needs import read_row
from fleet.informers.cache import book_room
from fleet.scheduler.ledgers.room_ledger import is_included, needs_on, read_report_time
from fleet.snapshot.capacity import assumed_ledger
from fleet.snapshot.table import Table

Booked = Mapping[str, Mapping[str, int]]
"""By cluster and resource."""


def build_table(inputs: SimulationInputs) -> Table:
    """The clusters, with what is booked there."""
    table = Table(inputs.clusters)
    for cluster, booked in find_booked(inputs).items():
        book_room(table, cluster, booked)
    return table


def find_booked(inputs: SimulationInputs) -> Booked:
    clusters = {cluster.metadata.name: cluster for cluster in inputs.clusters}
    reported_at = {cluster.metadata.name: read_report_time(cluster) for cluster in inputs.clusters}
    booked: dict[str, Counter[str]] = {}
    for placement in inputs.bound if any(any(each.request.needs) for each in inputs.bound) else ():
        for binding, applied in zip(placement.bindings, placement.applied, strict=True):
            cluster = binding.spec.target_cluster
            if cluster in reported_at and not is_included(applied, reported_at[cluster]):
                booked.setdefault(cluster, Counter()).update(needs_on(placement.request.needs, clusters[cluster]))
    return booked


def book_decision(table: Table, placement: PlacementInputs, decision: Decision) -> None:
    """For the decisions that follow. Where the placement has a binding, its room is taken or reported already."""
    request, frame = placement.request, table.freeze()
    known = {binding.spec.target_cluster for binding in placement.bindings}
    for target in decision.newly_chosen if any(request.needs) else ():
        if target.cluster not in known:
            requests = read_row(request, frame, target.row)
            before = {name: int(frame.ledger(assumed_ledger(name))[target.row]) for name in requests}
            total = {name: before[name] + amount for name, amount in requests.items()}
            book_room(table, target.cluster, total, before)
