"""Queue order, batch size, ranking, and writing to the hub: plugins that every profile needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.operations import Operation, Target
from fleet.framework.ranking import best_first, ranking_keys
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import ScoreTable
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.snapshot.columns.bitset import Rows
from fleet.snapshot.frame import Frame


class QueuedPlacement(Protocol):
    """A queued placement, as the queue passes it to QueueSort."""

    @property
    def priority(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def uid(self) -> str: ...


class PrioritySort:
    """Higher priority first, then the longest wait, then by UID."""

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "PrioritySort"

    def key(self, item: QueuedPlacement) -> tuple[int, int, str]:
        return (-item.priority, item.timestamp, item.uid)


class DesiredBatch:
    """As many clusters as the policy wants and does not have yet."""

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "DesiredBatch"

    def batch(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame) -> int:
        del state, frame
        return (req.wanted or 0) - ctx.bindings.present


class RankingSort:
    """Best first, by the profile's ranking and tie-break."""

    RANKS_BY_PROFILE = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "RankingSort"

    def sort(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows, scores: ScoreTable
    ) -> Rows:
        del state, req
        return rows[best_first(ranking_keys(frame, scores, ctx), ctx.need)]


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
