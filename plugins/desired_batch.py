"""The number of clusters an attempt has to find."""

from __future__ import annotations

from collections.abc import Hashable

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.snapshot.frame import Frame


class DesiredBatch:
    """As many clusters as the policy needs and does not have yet."""

    READS = ("picks",)

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "DesiredBatch"

    def sign(self, req: PlacementRequest) -> Hashable:
        return req.wanted

    def batch(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame) -> int:
        del state, frame
        return (req.wanted or 0) - ctx.bindings.present
