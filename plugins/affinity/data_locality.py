"""Clusters are preferred that have the data sets and images which a placement reads, so that less has to be copied."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.policy.data_sets import PRESENT_PROPERTY
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array
from fleet.framework.state import CycleState
from fleet.framework.status import MAX_CLUSTER_SCORE, Code, Status
from fleet.framework.types import PluginTraits
from fleet.snapshot.columns.bitset import Int64Array, Rows
from fleet.snapshot.frame import Frame


class DataLocality(PluginTraits):
    READS = ("properties",)
    ROW_LOCAL = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "DataLocality"

    def sign(self, req: PlacementRequest) -> Hashable:
        return tuple(sorted(req.locality.items()))

    def pre_score(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, feasible: Rows, verdicts: object
    ) -> Status | None:
        del ctx, state, frame, feasible, verdicts
        return None if req.locality else Status.new(Code.SKIP)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        """The share of the bytes that is there, in percent. What a cluster does not report is not there."""
        del ctx, state
        present = np.zeros(len(rows))
        for name, size in req.locality.items():
            reported = frame.property(PRESENT_PROPERTY + name).values[rows]
            present += np.clip(np.nan_to_num(reported, nan=0.0), 0, size)
        return round_half_away_array(present * MAX_CLUSTER_SCORE / max(sum(req.locality.values()), 1))
