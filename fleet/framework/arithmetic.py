"""Score arithmetic that every implementation must agree on, bit for bit."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fleet.framework.status import MAX_CLUSTER_SCORE
from fleet.snapshot.columns.bitset import FloatArray, Int64Array

_GREATEST: Final = 2**63 - 1


def round_half_away(value: float) -> int:
    """Nearest integer; a half goes away from zero (2.5 is 3, -0.5 is -1)."""
    whole = math.trunc(value)
    rest = value - whole
    return whole + (rest >= 0.5) - (rest <= -0.5)


def rounded_half_away(values: FloatArray) -> Int64Array:
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
    return rounded_half_away(above / float(high - low) * maximum)


def clamp(raw: Int64Array, *, maximum: int = MAX_CLUSTER_SCORE) -> Int64Array:
    """Cut unbounded scores to 0 … maximum."""
    return np.clip(raw, 0, maximum)
