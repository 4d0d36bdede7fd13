"""What the Score plugins said, column by column, and what follows from it for ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fleet.framework.hooks import Component
from fleet.snapshot.columns.bitset import Int64Array, Rows


@dataclass(frozen=True, slots=True)
class ClusterScore:
    name: str
    score: int


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    plugin: str
    component: Component
    weight: int
    raw: Int64Array
    normalized: Int64Array
    """Equal to `raw` under lexicographic ranking, which neither normalises nor weighs."""
    final: Int64Array


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Columns are index-aligned with `rows`, the feasible rows."""

    rows: Rows
    columns: tuple[ScoreColumn, ...] = ()

    def totals(self) -> Int64Array:
        """Sum of the weighted columns; 1 for every row where nothing scores."""
        if not self.columns:
            return np.ones(len(self.rows), dtype=np.int64)
        return _sum([column.final for column in self.columns])

    def component(self, component: Component) -> Int64Array | None:
        """Sum of the columns that count there; None where no plugin has an opinion."""
        parts = [column.final for column in self.columns if column.component is component]
        return _sum(parts) if parts else None

    def components(self, position: int) -> tuple[int, int, int]:
        """Topology, affinity and obsolete bonus of one row."""
        topology, affinity, obsolete = (self.component(one) for one in Component)
        return (_at(topology, position), _at(affinity, position), _at(obsolete, position))

    def as_dict(self) -> Mapping[str, list[int]]:
        return {column.plugin: column.final.tolist() for column in self.columns}


def _sum(parts: Sequence[Int64Array]) -> Int64Array:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _at(column: Int64Array | None, position: int) -> int:
    return 0 if column is None else int(column[position])
