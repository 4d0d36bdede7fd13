"""Clusters are preferred that draw the least additional power for the placement, by models of their power."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.feeds import CpuEstimate, DefaultRequests, describe_load, read_capacity, read_load
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array, round_to_grid
from fleet.framework.state import CycleState
from fleet.framework.status import MAX_CLUSTER_SCORE
from fleet.framework.types import PluginTraits
from fleet.snapshot.columns.bitset import FloatArray, Int64Array, Rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import REPORTED

_CPU: Final = "cpu"
_GREATEST_LOAD: Final = 10.0
_GREATEST: Final = {"k1": 1e6, "k2": 30.0}
"""So that no power is infinite."""


class PowerModel(msgspec.Struct, frozen=True, rename="camel"):
    """The power at a load of u, from 0 to 1, is k1 times e to the k2 u, and a constant."""

    k1: float = 1.0
    k2: float = 1.0


class PeaksArgs(msgspec.Struct, frozen=True, rename="camel"):
    feed: str = REPORTED
    power_model: PowerModel = PowerModel()
    cluster_power_models: dict[str, PowerModel] = {}
    """Of single clusters, by name."""
    default_requests: DefaultRequests = DefaultRequests()
    default_requests_multiplier: str | int | float = "1.5"


class Peaks(PluginTraits):
    """From 100 for the feasible cluster with the least additional power to 0 for the one with the most, and where the
    load is not known."""

    READS_REQUESTS = True
    READS_LIMITS = True
    READS = ("feeds", "usage", "properties", "labels")
    FEEDS_OPTIONAL = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        args = decode_into(raw, PeaksArgs)
        _check_model("powerModel", args.power_model)
        for name, model in args.cluster_power_models.items():
            _check_model(f"clusterPowerModels.{name}", model)
        self._feed, self._model, self._models = args.feed, args.power_model, args.cluster_power_models
        self._estimate = CpuEstimate("PeaksArgs", args.default_requests, args.default_requests_multiplier)

    def name(self) -> str:
        return "Peaks"

    def list_feeds(self) -> tuple[str, ...]:
        return (self._feed,) if self._feed else ()

    def list_loads(self) -> tuple[str, ...]:
        return (self._feed,)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del state
        jumps = self._compute_jumps(frame, rows, *self._predict(ctx.now, req, frame, rows))
        known = ~np.isnan(jumps)
        low, high = (jumps[known].min(), jumps[known].max()) if known.any() else (0.0, 0.0)
        share = (high - jumps) / (high - low) if high > low else np.ones(len(rows))
        return round_half_away_array(np.where(known, round_to_grid(share * MAX_CLUSTER_SCORE), 0.0))

    def explain_score(self, req: PlacementRequest, frame: Frame, row: int, now: int) -> str:
        rows, source = np.array([row]), describe_load(frame, self._feed, _CPU, row, now)
        before, after = self._predict(now, req, frame, rows)
        if np.isnan(read_load(frame, self._feed, _CPU, rows, now)[0]):
            return source
        if np.isnan(before[0]):
            return "the member reports no cpu capacity"
        jump = self._compute_jumps(frame, rows, before, after)[0]
        return f"power rises by {jump:.4f}: cpu load {100 * before[0]:.1f}% to {100 * after[0]:.1f}% ({source})"

    def _predict(self, now: int, req: PlacementRequest, frame: Frame, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Loads from 0 to 1, without and with the placement; NaN where they are not known."""
        capacity = read_capacity(frame, _CPU, rows)
        load = read_load(frame, self._feed, _CPU, rows, now) / 100.0
        per_core = 1.0 / np.where(capacity > 0, capacity, np.nan)
        missing = self._estimate.of_recent(frame, self._feed, rows)
        before = np.minimum(load + missing * per_core, _GREATEST_LOAD)
        return before, before + np.minimum(self._estimate.of(req, frame, rows) * per_core, _GREATEST_LOAD)

    def _compute_jumps(self, frame: Frame, rows: Rows, before: FloatArray, after: FloatArray) -> FloatArray:
        k1, k2 = np.full(len(rows), self._model.k1), np.full(len(rows), self._model.k2)
        if self._models:
            for place, row in enumerate(rows.tolist()):
                model = self._models.get(frame.name(row), self._model)
                k1[place], k2[place] = model.k1, model.k2
        return round_to_grid(k1 * (np.exp(k2 * after) - np.exp(k2 * before)))


def _check_model(path: str, model: PowerModel) -> None:
    for name, value in (("k1", model.k1), ("k2", model.k2)):
        if not 0 < value <= _GREATEST[name]:
            expected = f"more than 0 and at most {_GREATEST[name]:g}"
            raise ConfigurationError(f"PeaksArgs.{path}.{name}: {value:g} should be {expected}")
