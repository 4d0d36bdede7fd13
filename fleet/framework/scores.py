"""Scores: columns per plugin, their sums, and the arithmetic on which all implementations must agree bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleet.framework.status import MAX_CLUSTER_SCORE
from fleet.framework.types import Component
from fleet.snapshot.columns.bitset import FloatArray, Int64Array, Rows


@dataclass(frozen=True, slots=True)
class NamedScore:
    name: str
    score: int


@dataclass(frozen=True, slots=True)
class PluginScores:
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
    columns: tuple[PluginScores, ...] = ()

    def totals(self) -> Int64Array:
        """Sum of the weighted columns; 1 for every row if no plugin scores."""
        if not self.columns:
            return np.ones(len(self.rows), dtype=np.int64)
        return _sum([column.final for column in self.columns])

    def component(self, component: Component) -> Int64Array | None:
        """Sum of the columns that count there; None where no plugin scores it."""
        parts = [column.final for column in self.columns if column.component is component]
        return _sum(parts) if parts else None

    def components(self, position: int) -> tuple[int, int, int]:
        """Topology, affinity and obsolete bonus of one row."""
        topology, affinity, obsolete = (self.component(component) for component in Component)
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


# --- arithmetic -------------------------------------------------------------------------------------------------------


_GREATEST: Final = 2**63 - 1


def round_half_away(value: float) -> int:
    """Nearest integer; halves are rounded away from zero (2.5 is 3, -0.5 is -1)."""
    whole = math.trunc(value)
    rest = value - whole
    return whole + (rest >= 0.5) - (rest <= -0.5)


def round_half_away_array(values: FloatArray) -> Int64Array:
    """`round_half_away` over an array."""
    whole = np.trunc(values)
    rest = values - whole
    rounded: Int64Array = (whole + (rest >= 0.5) - (rest <= -0.5)).astype(np.int64)
    return rounded


def default_normalize(raw: Int64Array, *, maximum: int = MAX_CLUSTER_SCORE, reverse: bool = False) -> Int64Array:
    """Scale so that the best raw score becomes `maximum`; with `reverse`, the best is the smallest."""
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(len(raw), maximum if reverse else 0, dtype=np.int64)
    if highest > _GREATEST // maximum or int(raw.min()) < -_GREATEST // maximum:
        scaled = np.array([score * maximum // highest for score in raw.tolist()], dtype=np.int64)
    else:
        scaled = raw * maximum // highest
    return maximum - scaled if reverse else scaled


def min_max(raw: Int64Array, *, maximum: int = MAX_CLUSTER_SCORE) -> Int64Array:
    """Spread unbounded scores over 0 … maximum; all equal scores become 0."""
    if not len(raw):
        return raw.astype(np.int64)
    low, high = int(raw.min()), int(raw.max())
    if low == high:
        return np.zeros(len(raw), dtype=np.int64)
    above = (raw - np.int64(low)).view(np.uint64)  # what wraps around is right again when read without a sign
    return round_half_away_array(above / float(high - low) * maximum)


def clamp(raw: Int64Array, *, maximum: int = MAX_CLUSTER_SCORE) -> Int64Array:
    """Cut unbounded scores to 0 … maximum."""
    return np.clip(raw, 0, maximum)
