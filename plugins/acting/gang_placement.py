"""GangPlacement: the members of a placement group are bound together, or none of them is.

The scheduler decides all members of a group in one attempt, each as if those before it were placed already. This plugin
holds them while there is no such attempt to be made, and says when the rest cannot reach the minimum any more.
"""

from __future__ import annotations

import msgspec

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.status import Code, Status
from fleet.framework.types import GroupState, PluginTraits


class GangPlacementArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """There are none."""


class GangPlacement(PluginTraits):
    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        decode_into(raw, GangPlacementArgs)
        del handle

    def name(self) -> str:
        return "GangPlacement"

    def pre_enqueue(self, ctx: HookContext, req: PlacementRequest) -> Status | None:
        del ctx
        return Status.new(Code.UNSCHEDULABLE, req.held_by_group) if req.held_by_group else None

    def placement_feasible(self, state: GroupState) -> Status | None:
        """After each member. Wait: the rest may still reach what is needed."""
        if state.fitting >= state.needed:
            return None
        if state.fitting + state.remaining >= state.needed:
            return Status.new(Code.WAIT, f"{state.fitting} of {state.needed} fit so far")
        return Status.new(Code.UNSCHEDULABLE, f"{state.fitting + state.remaining} of {state.needed} can fit at most")
