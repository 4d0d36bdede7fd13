"""Named holds: a placement is not scheduled while a gate is left on it.

Every profile runs this plugin, listed or not: a gate holds wherever it is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.status import Code, Status
from fleet.model.views import Gate


class PlacementGates:
    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "PlacementGates"

    def pre_enqueue(self, ctx: HookContext, req: PlacementRequest) -> Status | None:
        del ctx
        return hold(req.gates)


def hold(gates: Sequence[Gate]) -> Status | None:
    """By the first one that is left."""
    if not gates:
        return None
    first = gates[0]
    return Status.new(Code.UNSCHEDULABLE, f"{first.name}: {first.message}" if first.message else first.name)
