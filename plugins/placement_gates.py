"""Named holds: a placement is not scheduled while a gate is left on it.

Every profile runs this plugin, listed or not: a gate holds wherever it is read.
"""

from __future__ import annotations

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.status import Code, Status


class PlacementGates:
    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "PlacementGates"

    def pre_enqueue(self, ctx: HookContext, req: PlacementRequest) -> Status | None:
        del ctx
        if not req.gates:
            return None
        first = req.gates[0]
        return Status.new(Code.UNSCHEDULABLE, f"{first.name}: {first.message}" if first.message else first.name)
