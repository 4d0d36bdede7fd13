"""Distribution function of the beta distribution over arrays, by the continued fraction of the incomplete function."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from fleet.snapshot.columns.bitset import FloatArray

_MOST_STEPS: Final = 2_000
_TINY: Final = 1e-300
_EXACT: Final = 1e-15


def compute_probability(alpha: FloatArray, beta: FloatArray, x: FloatArray) -> FloatArray:
    """That a number is at most `x`, from 0 to 1. `alpha` and `beta` are greater than 0."""
    inside = np.clip(x, _EXACT, 1.0 - _EXACT)
    is_mirrored = inside > (alpha + 1.0) / (alpha + beta + 2.0)
    a, b = np.where(is_mirrored, beta, alpha), np.where(is_mirrored, alpha, beta)
    at = np.where(is_mirrored, 1.0 - inside, inside)
    front = np.exp(a * np.log(at) + b * np.log1p(-at) - _log_beta(a, b)) / a
    part = np.clip(front * _sum_fraction(a, b, at), 0.0, 1.0)
    probability: FloatArray = np.where(is_mirrored, 1.0 - part, part)
    return np.where(x <= 0.0, 0.0, np.where(x >= 1.0, 1.0, probability))


def _log_beta(a: FloatArray, b: FloatArray) -> FloatArray:
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return np.array([math.lgamma(p) + math.lgamma(q) - math.lgamma(p + q) for p, q in pairs], dtype=np.float64)


def _sum_fraction(a: FloatArray, b: FloatArray, x: FloatArray) -> FloatArray:
    """By the method of Lentz; it converges fast for x below the mean."""
    c = np.ones_like(x)
    d = 1.0 / _keep_from_zero(1.0 - (a + b) * x / (a + 1.0))
    total = d.copy()
    for step in range(1, _MOST_STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1.0) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1.0))
        for factor in (even, odd):
            d = 1.0 / _keep_from_zero(1.0 + factor * d)
            c = _keep_from_zero(1.0 + factor / c)
            total *= c * d
        if np.all(np.abs(c * d - 1.0) < _EXACT):
            break
    return total


def _keep_from_zero(values: FloatArray) -> FloatArray:
    kept: FloatArray = np.where(np.abs(values) < _TINY, _TINY, values)
    return kept
