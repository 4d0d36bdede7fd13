"""Ranking: one int64 key per row from its scores, no two equal, greater is better."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from fleet.framework.scores import ScoreTable
from fleet.framework.types import Component, TieBreak
from fleet.snapshot.columns.bitset import Int64Array, Rows
from fleet.snapshot.frame import Frame

if TYPE_CHECKING:
    import numpy.typing as npt

    from fleet.framework.context import HookContext

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
    rank = frame.names.rank.astype(np.int64)
    if tie_break == "nameAscending":
        return frame.size - 1 - rank
    if tie_break == "hashed":
        return _hashed_ranks(frame, uid)
    return rank


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
