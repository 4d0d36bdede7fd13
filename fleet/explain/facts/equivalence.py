"""Rejected clusters that were refused for the very same facts, so that one of them can speak for all.

Words are made per cluster, and a fleet has thousands. What an in-tree plugin says about a cluster depends on a few
values of it only: its taints, its labels. Clusters that share those are told apart by nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fleet.explain.facts.rejections import Gathered
from fleet.framework.request import PlacementRequest
from fleet.snapshot.columns.bitset import from_rows, to_rows
from fleet.snapshot.columns.interned import InternedColumn
from fleet.snapshot.frame import Frame

Sameness = Callable[[Frame, PlacementRequest], list[InternedColumn[Any]]]


def _taints(frame: Frame, request: PlacementRequest) -> list[InternedColumn[Any]]:
    del request
    return [frame.taints]


def _namespace(frame: Frame, request: PlacementRequest) -> list[InternedColumn[Any]]:
    return [frame.namespace(request.namespace)]


def _domains(frame: Frame, request: PlacementRequest) -> list[InternedColumn[Any]]:
    return [frame.labels(one.key) for one in request.constraints]


_COLUMNS: Final[dict[str, Sameness]] = {
    "TaintToleration": _taints,
    "NamespaceAffinity": _namespace,
    "TopologySpreadConstraints": _domains,
}
"""By plugin the columns that decide what it says."""


def alike(frame: Frame, request: PlacementRequest, one: Gathered) -> Iterator[tuple[int, int]]:
    """Sets of rows whose refusals read the same, each with one row of it; together they are all rows of the group."""
    rows = to_rows(one.rows, frame.size)
    columns = _COLUMNS[one.plugin](frame, request) if one.plugin in _COLUMNS else []
    if not columns:
        yield from ((1 << row, row) for row in rows.tolist())
        return
    values = zip(*(column.ids[rows].tolist() for column in columns), strict=True)
    found: dict[tuple[int, ...], list[int]] = {}
    for row, value in zip(rows.tolist(), values, strict=True):
        found.setdefault(value, []).append(row)
    for members in found.values():
        yield from_rows(members), members[0]
