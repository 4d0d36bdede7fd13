"""Writes bindings of chosen targets to the hub."""

from __future__ import annotations

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.operations import Target
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Status
from fleet.framework.types import PluginTraits


class HubBindingBinder(PluginTraits):
    """Writes a target's operation to the hub."""

    IS_WRITE_PATH = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "HubBindingBinder"

    async def bind(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None:
        del state, placement
        return None if target.operation is None else await ctx.write(target.operation)
