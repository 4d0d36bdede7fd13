"""Tainted clusters accept only placements that tolerate each of their taints."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.tolerations import find_untolerated
from fleet.snapshot.frame import Frame


class TaintToleration(PluginTraits):
    READS = ("taints",)
    ROW_LOCAL = True
    REASONS = ReasonTable(
        Reason(
            "UntoleratedTaint",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "taint &{{Key:{key} Value:{value} Effect:{effect}}} cannot be tolerated",
        )
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "TaintToleration"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del ctx, state, alive
        repelled = 0
        for taints, rows in frame.taints.distinct():
            if find_untolerated(taints, req.tolerations) is not None:
                repelled |= rows
        return Verdict(ok=~repelled)

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        del reason
        taint = find_untolerated(frame.taints.value(row) or (), req.tolerations)
        if taint is None:
            return {}
        return {"key": taint.key, "value": taint.value, "effect": taint.effect}
