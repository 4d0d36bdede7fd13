"""Clusters are preferred whose limits and load are least likely to exceed what they have."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import msgspec
import numpy as np

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.beta import compute_probability
from fleet.framework.context import HookContext
from fleet.framework.feeds import describe_load, read_capacity, read_load
from fleet.framework.handle import Handle
from fleet.framework.needs import read_amounts, spread_needs
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array, round_to_grid
from fleet.framework.state import CycleState
from fleet.framework.types import PluginTraits
from fleet.snapshot.columns.bitset import FloatArray, Int64Array, Rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import PLACED_LIMITS, REPORTED

_DEVIATIONS: Final = {"cpu": "cpuDeviation", "memory": "memoryDeviation"}
_DEFAULT_WINDOW: Final = 5
_SHARPEST: Final = 1e6
"""Sum of alpha and beta: a load that varies less than this tells is constant."""


class RiskWeights(msgspec.Struct, frozen=True):
    """Of the limits, beside the load; from 0 to 1."""

    cpu: float = 0.5
    memory: float = 0.5


class LowRiskOverCommitmentArgs(msgspec.Struct, frozen=True, rename="camel"):
    feed: str = REPORTED
    smoothing_window_size: int = _DEFAULT_WINDOW
    """The deviation counts times the square root of it."""
    risk_limit_weights: RiskWeights = RiskWeights()


class _Risk(NamedTuple):
    """By row, NaN where capacity or load are not known."""

    by_limits: FloatArray
    by_load: FloatArray
    total: FloatArray
    limit: FloatArray
    """Percent of the capacity, with the placement."""
    allocated: FloatArray


class LowRiskOverCommitment(PluginTraits):
    """From 100 without a risk to 0, by the worse of cpu and memory; 0 where neither is known, and for a placement with
    neither requests nor limits."""

    READS = ("feeds", "usage", "room", "properties", "labels", "limits")
    READS_REQUESTS = True
    READS_LIMITS = True
    ROW_LOCAL = True
    FEEDS_OPTIONAL = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        args = decode_into(raw, LowRiskOverCommitmentArgs)
        if args.smoothing_window_size < 1:
            raise _build_error("smoothingWindowSize", f"{args.smoothing_window_size}", "1 or more")
        self._weights = msgspec.structs.asdict(args.risk_limit_weights)
        for resource, weight in self._weights.items():
            if not 0 <= weight <= 1:
                raise _build_error(f"riskLimitWeights.{resource}", f"{weight:g}", "from 0 to 1")
        self._feed, self._window = args.feed, args.smoothing_window_size

    def name(self) -> str:
        return "LowRiskOverCommitment"

    def list_feeds(self) -> tuple[str, ...]:
        return (self._feed,) if self._feed else ()

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del state
        risks = [self._assess(resource, ctx.now, req, frame, rows).total for resource in _DEVIATIONS]
        score = round_to_grid((1.0 - np.fmax(*risks)) * 100.0)
        is_sized = sum(amounts for needs in _list_amounts(req, frame) for amounts in needs.values())
        sized = np.broadcast_to(np.asarray(is_sized) > 0, frame.size)[rows]
        return round_half_away_array(np.where(sized, np.nan_to_num(score), 0.0))

    def explain_score(self, req: PlacementRequest, frame: Frame, row: int, now: int) -> str:
        rows = np.array([row])
        if not any(amounts[row] for needs in _list_amounts(req, frame) for amounts in needs.values()):
            return "the placement has no requests and limits"
        by_resource = {resource: self._assess(resource, now, req, frame, rows) for resource in _DEVIATIONS}
        known = {resource: risk for resource, risk in by_resource.items() if not np.isnan(risk.total[0])}
        if not known:
            if not np.isnan(read_load(frame, self._feed, "cpu", rows, now)[0]):
                return "the member reports no cpu capacity"
            return describe_load(frame, self._feed, "cpu", row, now)
        resource, risk = max(known.items(), key=lambda entry: float(entry[1].total[0]))
        return (
            f"{resource} limits {100.0 * risk.limit[0]:.0f}%, risk {100.0 * risk.by_limits[0]:.1f}%; requests "
            f"{100.0 * risk.allocated[0]:.0f}%, risk of a higher load {100.0 * risk.by_load[0]:.1f}% "
            f"({describe_load(frame, self._feed, resource, row, now)})"
        )

    def _assess(self, resource: str, now: int, req: PlacementRequest, frame: Frame, rows: Rows) -> _Risk:
        requested, limited = (amounts.get(resource) for amounts in _list_amounts(req, frame))
        own = np.zeros(len(rows)) if requested is None else requested[rows].astype(np.float64)
        limit_of_own = own if limited is None else np.maximum(limited[rows], own)
        room, capacity = frame.capacity(resource), read_capacity(frame, resource, rows)
        request = (room.used + room.assumed)[rows] + own
        limit = request + _read_excess(frame, resource, rows) + limit_of_own - own
        has = np.where(capacity > 0, capacity, np.nan)
        excess = np.where(limit > request, limit - request, 1.0)
        by_limits = np.where(
            limit > has, np.where(limit > request, np.clip((limit - has) / excess, 0.0, 1.0), 1.0), has * 0.0
        )
        mean = read_load(frame, self._feed, resource, rows, now) / 100.0
        deviation = np.nan_to_num(read_load(frame, self._feed, _DEVIATIONS[resource], rows, now)) / 100.0
        allocated = np.minimum(request / has, 1.0)
        by_load = _compute_load_risk(mean, deviation * math.sqrt(self._window), allocated)
        weight = self._weights[resource]
        return _Risk(by_limits, by_load, weight * by_limits + (1.0 - weight) * by_load, limit / has, allocated)


def _list_amounts(req: PlacementRequest, frame: Frame) -> tuple[dict[str, Int64Array], dict[str, Int64Array]]:
    """Requests and limits, of the resources that count."""
    amounts = read_amounts(req, frame), spread_needs(req.limits, frame)
    requests, limits = ({name: each[name] for name in _DEVIATIONS if name in each} for each in amounts)
    return requests, limits


def _read_excess(frame: Frame, resource: str, rows: Rows) -> FloatArray:
    feed = frame.feeds.get(PLACED_LIMITS)
    values = None if feed is None else feed.columns.get(resource)
    return np.zeros(len(rows)) if values is None else np.nan_to_num(values[rows])


def _compute_load_risk(mean: FloatArray, deviation: FloatArray, allocated: FloatArray) -> FloatArray:
    """That the load is higher than what is allocated, of a beta distribution; NaN for what is not known. A deviation
    that no such distribution has leaves all or nothing."""
    within = np.clip(mean, 0.0, 1.0)
    spread = within * (1.0 - within)
    sharpness = spread / np.where(deviation > 0, deviation**2, np.nan) - 1.0
    is_constant = ~(sharpness <= _SHARPEST)
    is_beta = (sharpness > 0.0) & ~is_constant
    alpha, beta = (np.where(is_beta, part * sharpness, 1.0) for part in (within, 1.0 - within))
    probability = compute_probability(alpha, beta, np.nan_to_num(allocated))
    risk = np.where(is_beta, 1.0 - probability, np.where(is_constant, within > allocated, within))
    exceeds: FloatArray = round_to_grid(np.where(allocated >= 1.0, 0.0, risk) + 0.0 * mean + 0.0 * allocated)
    return exceeds


def _build_error(name: str, value: str, expected: str) -> ConfigurationError:
    return ConfigurationError(f"LowRiskOverCommitmentArgs.{name}: {value} should be {expected}")
