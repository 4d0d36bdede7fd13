"""Writes bindings of chosen targets to the hub."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.operations import Operation, Target
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status


class HubWriter(Protocol):
    def write(self, operation: Operation, document: Mapping[str, Any]) -> Status | None: ...


class HubBindingBinder:
    """Writes a target's operation to the hub."""

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw
        self._handle = handle

    def name(self) -> str:
        return "HubBindingBinder"

    def bind(self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target) -> Status | None:
        del ctx, state
        if target.operation is None:
            return None
        if self._handle is None:
            return Status.new(Code.ERROR, "there is no hub to write to")
        writer: HubWriter = self._handle.hub()
        return writer.write(target.operation, target.operation.document(placement))
