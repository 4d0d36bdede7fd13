"""At most one binding of a placement per cluster, with a preference for the clusters of its earlier policy."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import min_max
from fleet.framework.state import CycleState
from fleet.framework.status import Code
from fleet.framework.types import Component, PluginTraits, Reason, ReasonTable, Verdict
from fleet.snapshot.columns.bitset import Int64Array, Rows, to_bools
from fleet.snapshot.frame import Frame


class SamePlacementAntiAffinity(PluginTraits):
    READS = ("picks",)
    READS_POLICY_ONLY = True
    ROW_LOCAL = True
    SCORE_COMPONENT = Component.OBSOLETE
    REASONS = ReasonTable(
        Reason("AlreadySelected", Code.UNSCHEDULABLE, "cluster is already selected", already_selected=True)
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "SamePlacementAntiAffinity"

    def sign(self, req: PlacementRequest) -> Hashable:
        """A placement without bindings has none on any cluster."""
        del req
        return ()

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del state, req, frame, alive
        return Verdict(ok=~ctx.placed)

    def normalize(self, ctx: HookContext, state: CycleState, req: PlacementRequest, raw: Int64Array) -> Int64Array:
        """Under weighted ranking only."""
        del ctx, state, req
        return min_max(raw)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del state, req
        if not ctx.obsolete:
            return np.zeros(len(rows), dtype=np.int64)
        return to_bools(ctx.obsolete, frame.size)[rows].astype(np.int64)
