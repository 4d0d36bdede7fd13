"""Clusters are preferred whose load is low and steady: the mean and its deviation count alike."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.feeds import describe_load, read_capacity, read_load
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array, round_to_grid
from fleet.framework.state import CycleState
from fleet.framework.types import PluginTraits
from fleet.snapshot.columns.bitset import FloatArray, Int64Array, Rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import REPORTED

_DEVIATIONS: Final = {"cpu": "cpuDeviation", "memory": "memoryDeviation"}


class LoadVariationRiskBalancingArgs(msgspec.Struct, frozen=True, rename="camel"):
    feed: str = REPORTED
    safe_variance_margin: float = 1.0
    """Times the deviation."""
    safe_variance_sensitivity: float = 1.0
    """The deviation counts with the power of 1 over this."""


class LoadVariationRiskBalancing(PluginTraits):
    """From 100 without load and deviation to 0, by the worse of cpu and memory; 0 where neither is known."""

    READS = ("feeds", "usage")
    READS_REQUESTS = True
    ROW_LOCAL = True
    FEEDS_OPTIONAL = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        args = decode_into(raw, LoadVariationRiskBalancingArgs)
        if args.safe_variance_margin < 0:
            raise _build_error("safeVarianceMargin", args.safe_variance_margin, "0 or more")
        if args.safe_variance_sensitivity <= 0:
            raise _build_error("safeVarianceSensitivity", args.safe_variance_sensitivity, "more than 0")
        self._feed = args.feed
        self._margin, self._power = args.safe_variance_margin, 1.0 / args.safe_variance_sensitivity

    def name(self) -> str:
        return "LoadVariationRiskBalancing"

    def list_feeds(self) -> tuple[str, ...]:
        return (self._feed,) if self._feed else ()

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del state
        scores = [self._score_resource(resource, ctx.now, req, frame, rows) for resource in _DEVIATIONS]
        return round_half_away_array(np.nan_to_num(np.fmin(*scores)))

    def explain_score(self, req: PlacementRequest, frame: Frame, row: int, now: int) -> str:
        rows, known = np.array([row]), {}
        for resource in _DEVIATIONS:
            mean, deviation = self._read_risk(resource, now, req, frame, rows)
            if not np.isnan(mean[0]):
                known[resource] = (
                    f"{resource} load {100.0 * mean[0]:.1f}%, weighed deviation {100.0 * deviation[0]:.1f}%"
                )
        source = describe_load(frame, self._feed, next(iter(known), "cpu"), row, now)
        return f"{', '.join(known.values())} ({source})" if known else source

    def _score_resource(self, resource: str, now: int, req: PlacementRequest, frame: Frame, rows: Rows) -> FloatArray:
        mean, deviation = self._read_risk(resource, now, req, frame, rows)
        return round_to_grid((1.0 - (mean + deviation) / 2.0) * 100.0)

    def _read_risk(
        self, resource: str, now: int, req: PlacementRequest, frame: Frame, rows: Rows
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and weighed deviation, both from 0 to 1; a mean that is not known is NaN."""
        mean = read_load(frame, self._feed, resource, rows, now) / 100.0
        request = req.requests.get(resource, 0)
        if request:
            mean = mean + request / np.maximum(read_capacity(frame, resource, rows), 1.0)
        deviation = np.nan_to_num(read_load(frame, self._feed, _DEVIATIONS[resource], rows, now)) / 100.0
        weighed = round_to_grid(self._margin * deviation**self._power)
        return np.clip(mean, 0.0, 1.0), np.clip(weighed, 0.0, 1.0)


def _build_error(name: str, value: float, expected: str) -> ConfigurationError:
    return ConfigurationError(f"LoadVariationRiskBalancingArgs.{name}: {value:g} should be {expected}")
