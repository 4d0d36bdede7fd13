"""Clusters are filled up to a target load of their cpu, and beyond it the emptiest are preferred."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.feeds import CpuEstimate, DefaultRequests, count_recent, describe_load, read_capacity, read_load
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array
from fleet.framework.state import CycleState
from fleet.framework.types import PluginTraits
from fleet.snapshot.columns.bitset import FloatArray, Int64Array, Rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import REPORTED

_CPU: Final = "cpu"
_DEFAULT_TARGET: Final = 40.0
_FULL: Final = 100.0


class TargetLoadPackingArgs(msgspec.Struct, frozen=True, rename="camel"):
    feed: str = REPORTED
    target_utilization: float = _DEFAULT_TARGET
    """Percent; 0 and less stand for the default."""
    default_requests: DefaultRequests = DefaultRequests()
    """Of a placement whose requests are not known."""
    default_requests_multiplier: str | int | float = "1.5"
    """Of requests that are known."""


class TargetLoadPacking(PluginTraits):
    """From the target at no load up to 100 at the target; above it from the target down to 0."""

    READS = ("feeds", "usage", "properties", "labels")
    READS_REQUESTS = True
    READS_LIMITS = True
    ROW_LOCAL = True
    FEEDS_OPTIONAL = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        args = decode_into(raw, TargetLoadPackingArgs)
        if args.target_utilization > _FULL:
            raise ConfigurationError(
                f"TargetLoadPackingArgs.targetUtilization: {args.target_utilization:g} should be at most 100"
            )
        self._feed = args.feed
        self._target = args.target_utilization if args.target_utilization > 0 else _DEFAULT_TARGET
        self._estimate = CpuEstimate("TargetLoadPackingArgs", args.default_requests, args.default_requests_multiplier)

    def name(self) -> str:
        return "TargetLoadPacking"

    def list_feeds(self) -> tuple[str, ...]:
        return (self._feed,) if self._feed else ()

    def list_loads(self) -> tuple[str, ...]:
        """The loads that its scores complete by recent placements."""
        return (self._feed,)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del state
        load, target = self._predict(ctx.now, req, frame, rows), self._target
        below = (_FULL - target) * load / target + target
        above = target * (_FULL - load) / (_FULL - target) if target < _FULL else np.zeros(len(rows))
        is_usable = load <= _FULL  # false for a load that is not known
        return round_half_away_array(np.where(is_usable, np.where(load > target, above, below), 0.0))

    def explain_score(self, req: PlacementRequest, frame: Frame, row: int, now: int) -> str:
        rows = np.array([row])
        source = describe_load(frame, self._feed, _CPU, row, now)
        load, capacity = read_load(frame, self._feed, _CPU, rows, now)[0], read_capacity(frame, _CPU, rows)[0]
        if np.isnan(load):
            return source
        if np.isnan(capacity):
            return "the member reports no cpu capacity"
        recent = count_recent(frame, self._feed, rows)[0]
        since = f", {recent:g} placed since" if recent else ""
        predicted = self._predict(now, req, frame, rows)[0]
        return f"cpu load {load:.1f}% ({source}){since}; {predicted:.1f}% with this placement, target {self._target:g}%"

    def _predict(self, now: int, req: PlacementRequest, frame: Frame, rows: Rows) -> FloatArray:
        """Percent of the capacity in use once the placement is there; NaN where the load is not known."""
        capacity = read_capacity(frame, _CPU, rows)
        load = read_load(frame, self._feed, _CPU, rows, now)
        missing = self._estimate.of_recent(frame, self._feed, rows)
        need = load * capacity / 100.0 + self._estimate.of(req, frame, rows) + missing
        return np.where(capacity == 0, 0.0 * load, 100.0 * need / np.where(capacity == 0, 1.0, capacity))
