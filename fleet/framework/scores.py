"""Scores: columns per plugin, their sums, the arithmetic on them, and the ranking.

On the arithmetic all implementations must agree bit for bit. The ranking is one int64 key per row from its scores, no
two equal, greater is better.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fleet.framework.status import MAX_CLUSTER_SCORE
from fleet.framework.types import Component, TieBreak
from fleet.snapshot.columns.bitset import FloatArray, Int64Array, Rows
from fleet.snapshot.frame import Frame

if TYPE_CHECKING:
    import numpy.typing as npt

    from fleet.framework.context import HookContext


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

    def component(self, component: Component, positions: Rows | slice = slice(None)) -> Int64Array | None:
        """Sum of the columns that count there; None where no plugin scores it."""
        parts = [column.final[positions] for column in self.columns if column.component is component]
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
_GRID: Final = 2.0**30


def round_half_away(value: float) -> int:
    """Nearest integer; halves are rounded away from zero (2.5 is 3, -0.5 is -1)."""
    whole = math.trunc(value)
    rest = value - whole
    return whole + (rest >= 0.5) - (rest <= -0.5)


def round_half_away_array(values: FloatArray) -> Int64Array:
    """`round_half_away` over an array."""
    whole = np.trunc(values)
    doubled = values - whole
    doubled += doubled  # exact, and with an integral part from a half on
    np.trunc(doubled, out=doubled)
    doubled += whole
    rounded: Int64Array = doubled.astype(np.int64)
    return rounded


def round_to_grid(values: FloatArray) -> FloatArray:
    """Nearest multiples of 2^-30, halves away from zero. Results of powers and exponentials differ between machines in
    their last bits, which must not decide how a score is rounded."""
    scaled = np.abs(values) * _GRID
    whole = np.trunc(scaled)
    nearest: FloatArray = np.copysign((whole + (scaled - whole >= 0.5)) / _GRID, values)
    return nearest


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
    if high - low < len(raw):  # fewer values than rows: each is scaled once
        return _spread(np.arange(high - low + 1), high - low, maximum)[raw - low]
    above = (raw - np.int64(low)).view(np.uint64)  # what wraps around is right again when read without a sign
    return _spread(above, high - low, maximum)


def _spread(above: npt.NDArray[np.integer[Any]], span: int, maximum: int) -> Int64Array:
    return round_half_away_array(above / float(span) * maximum)


def clamp(raw: Int64Array, *, maximum: int = MAX_CLUSTER_SCORE) -> Int64Array:
    """Cut unbounded scores to 0 … maximum."""
    return np.clip(raw, 0, maximum)


# --- ranking ----------------------------------------------------------------------------------------------------------


_KEY_LIMIT: Final = 1 << 62
_FEW: Final = 64


def ranking_keys(frame: Frame, scores: ScoreTable, ctx: HookContext, *, without: Component | None = None) -> Int64Array:
    """Keys for `scores.rows`. `without` leaves a component out, for a caller that ranks by it separately."""
    ties = tie_ranks(frame, ctx.tie_break, ctx.uid)[scores.rows]
    if ctx.ranking == "weighted":
        return compose([scores.totals()], ties, bound=frame.size)
    columns = [scores.component(component) for component in Component if component is not without]
    return compose([column for column in columns if column is not None], ties, bound=frame.size)


def compose(columns: Sequence[Int64Array], ties: Int64Array, *, bound: int) -> Int64Array:
    """One key out of several columns, most significant first; `ties` are below `bound` and decide the rest."""
    if not len(ties):
        return ties
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    if _product(spans) * bound >= _KEY_LIMIT:
        return _dense_keys(columns, ties)
    keys: Int64Array | None = None
    for column, low, span in zip(columns, lows, spans, strict=True):
        if span > 1:
            keys = column - low if keys is None else keys * span + (column - low)
    return ties if keys is None else keys * bound + ties


def best_first(keys: Int64Array, need: int) -> Rows:
    """Positions of the `need` greatest keys, greatest first."""
    count = len(keys)
    if need <= 0:
        return np.empty(0, dtype=np.intp)
    if need >= count or count <= _FEW:
        return np.argsort(keys)[::-1][:need]
    best = np.argpartition(keys, count - need)[count - need :]
    return best[np.argsort(keys[best])[::-1]]


def tie_ranks(frame: Frame, tie_break: TieBreak, uid: str) -> Int64Array:
    """Per row, its rank among equals: the greatest is first. Values of free rows have no meaning."""
    if tie_break == "nameAscending":
        return frame.names.ascending
    if tie_break == "hashed":
        return _hashed_ranks(frame, uid)
    return frame.names.rank.astype(np.int64)


def _hashed_ranks(frame: Frame, uid: str) -> Int64Array:
    salt = np.frombuffer(hashlib.blake2b(uid.encode(), digest_size=8).digest(), dtype="<u8").astype(np.uint64)
    order = frame.names.order
    mixed: npt.NDArray[np.uint64] = (frame.names.hash[order] ^ salt) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    ranks = np.zeros(frame.size, dtype=np.int64)
    ranks[order[np.argsort(mixed, kind="stable")]] = np.arange(len(order))
    return ranks


def _dense_keys(columns: Sequence[Int64Array], ties: Int64Array) -> Int64Array:
    order = np.lexsort((ties, *reversed(columns)))
    keys = np.empty(len(ties), dtype=np.int64)
    keys[order] = np.arange(len(ties))
    return keys


def _product(spans: Sequence[int]) -> int:
    product = 1
    for span in spans:
        product *= span
    return product
