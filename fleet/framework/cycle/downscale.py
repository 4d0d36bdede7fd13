"""Downscaling: the clusters to give up when a placement needs fewer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.framework.bindings import PlacementBindings, stored_rank
from fleet.framework.request import PlacementRequest
from fleet.framework.types import DownscaleOrder
from fleet.snapshot.frame import Frame

if TYPE_CHECKING:
    pass


def surplus_clusters(
    bindings: PlacementBindings,
    count: int,
    *,
    frame: Frame,
    request: PlacementRequest,
    order: DownscaleOrder,
) -> list[int]:
    """Rows to give up: those only scheduled before those bound, low stored scores first, then smaller names."""
    spread = order == "SpreadAware" and bool(request.constraints)
    domains = _domains(frame, request.constraints[0].key, bindings) if spread else {}
    left = {row: (False, *stored_rank(binding)) for row, binding in bindings.scheduled.items()}
    left |= {row: (True, *stored_rank(binding)) for row, binding in bindings.bound.items()}
    rows: list[int] = []
    while len(rows) < count:
        row = min(left, key=lambda candidate: (-_crowd(candidate, domains), left[candidate]))
        del left[row]
        domains.pop(row, None)
        rows.append(row)
    return rows


def _domains(frame: Frame, key: str, bindings: PlacementBindings) -> dict[int, str | None]:
    column = frame.labels(key)
    return {row: column.value(row) for row in (*bindings.scheduled, *bindings.bound)}


def _crowd(row: int, domains: dict[int, str | None]) -> int:
    """How many of the placement's clusters share the row's domain; 0 without one."""
    domain = domains.get(row)
    return 0 if domain is None else sum(1 for other in domains.values() if other == domain)
