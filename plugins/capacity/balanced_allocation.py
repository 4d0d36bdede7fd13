"""Clusters are preferred whose resources would be used evenly, so that none is left with memory and no cpu."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.needs import RequestedRoom, RoomScores
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array
from fleet.framework.state import CycleState
from fleet.framework.status import MAX_CLUSTER_SCORE, Code, Status
from fleet.framework.types import PluginTraits
from fleet.snapshot.columns.bitset import BoolArray, FloatArray, Int64Array, Rows
from fleet.snapshot.frame import Frame


class BalancedAllocationArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    resources: tuple[str, ...] = ("cpu", "memory")


class BalancedAllocation(PluginTraits):
    READS = ("usage", "properties", "labels", "room")
    READS_REQUESTS = True
    ROW_LOCAL = True

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        self._scores = RoomScores(decode_into(raw, BalancedAllocationArgs).resources, _score_rooms)

    def name(self) -> str:
        return "BalancedAllocation"

    def pre_score(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, feasible: Rows, verdicts: object
    ) -> Status | None:
        del ctx, state, frame, feasible, verdicts
        return None if any(req.needs) else Status.new(Code.SKIP)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del ctx, state
        return self._scores.score(req, frame, rows)


def _score_rooms(rooms: Sequence[RequestedRoom]) -> Int64Array:
    """By the spread of the used shares once the placement is there. A resource that a cluster does not report is
    left out; without any, and where one would be overcommitted, the score is 0."""
    size = len(rooms[0][0].alloc)
    count: Int64Array | int = 0
    over: BoolArray = np.zeros(size, dtype=np.bool_)
    mean, squares = np.zeros(size), np.zeros(size)
    used: list[tuple[FloatArray, BoolArray | None]] = []
    for room, requested in rooms:
        taken = room.alloc - room.free
        taken += requested
        share = taken / room.divisor
        if room.some is not None:
            share *= room.some
        mean += share
        count = count + (1 if room.some is None else room.some)
        over |= share > 1
        used.append((share, room.some))
    counted = np.maximum(count, 1)
    mean /= counted
    for share, some in used:
        share -= mean
        share *= share
        if some is not None:
            share *= some
        squares += share
    squares /= counted
    scores = 1 - np.sqrt(squares, out=squares)
    scores *= MAX_CLUSTER_SCORE
    scores[over | (count == 0)] = 0
    return round_half_away_array(np.clip(scores, 0, MAX_CLUSTER_SCORE, out=scores))
