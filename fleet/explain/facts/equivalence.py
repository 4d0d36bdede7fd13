"""Equivalence classes of rejected clusters: one representative explains all members.

Messages are built per cluster, and a fleet has thousands. The message of an in-tree plugin depends on few columns of a
cluster only, such as its taints or one label; clusters equal in these get the same message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from fleet.explain.facts.rejections import RejectionGroup
from fleet.framework.request import PlacementRequest
from fleet.snapshot.columns.bitset import from_rows, to_rows
from fleet.snapshot.columns.interned import InternedColumn
from fleet.snapshot.frame import Frame

ClassColumns = Callable[[Frame, PlacementRequest], list[InternedColumn[Any]]]


def _list_taint_columns(frame: Frame, request: PlacementRequest) -> list[InternedColumn[Any]]:
    del request
    return [frame.taints]


def _list_namespace_columns(frame: Frame, request: PlacementRequest) -> list[InternedColumn[Any]]:
    return [frame.namespace(request.namespace)]


def _list_domain_columns(frame: Frame, request: PlacementRequest) -> list[InternedColumn[Any]]:
    return [frame.labels(constraint.key) for constraint in request.constraints]


_COLUMNS: Final[dict[str, ClassColumns]] = {
    "TaintToleration": _list_taint_columns,
    "NamespaceAffinity": _list_namespace_columns,
    "TopologySpreadConstraints": _list_domain_columns,
}
"""By plugin the columns that determine its message."""


def find_equivalence_classes(
    frame: Frame, request: PlacementRequest, group: RejectionGroup
) -> Iterator[tuple[int, int]]:
    """Sets of rows with the same message, each with one of its rows; together they are all rows of the group."""
    rows = to_rows(group.rows, frame.size)
    columns = _COLUMNS[group.plugin](frame, request) if group.plugin in _COLUMNS else []
    if not columns:
        yield from ((1 << row, row) for row in rows.tolist())
        return
    values = zip(*(column.ids[rows].tolist() for column in columns), strict=True)
    classes: dict[tuple[int, ...], list[int]] = {}
    for row, value in zip(rows.tolist(), values, strict=True):
        classes.setdefault(value, []).append(row)
    for members in classes.values():
        yield from_rows(members), members[0]
