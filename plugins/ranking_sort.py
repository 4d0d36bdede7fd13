"""Ranks rows by the profile's ranking and tie-break."""

from __future__ import annotations

from collections.abc import Hashable

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import ScoreTable, best_first, ranking_keys
from fleet.framework.state import CycleState
from fleet.snapshot.columns.bitset import Rows
from fleet.snapshot.frame import Frame


class RankingSort:
    """Best first, by the profile's ranking and tie-break."""

    READS = ()
    RANKS_BY_PROFILE = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "RankingSort"

    def sign(self, req: PlacementRequest) -> Hashable:
        del req
        return ()

    def sort(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows, scores: ScoreTable
    ) -> Rows:
        del state, req
        return rows[best_first(ranking_keys(frame, scores, ctx), ctx.need)]
