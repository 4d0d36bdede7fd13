"""Clusters are preferred whose resources would be used evenly, so that none is left with memory and no cpu."""

from __future__ import annotations

import msgspec
import numpy as np

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.needs import read_amounts_at
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
        self._args = decode_into(raw, BalancedAllocationArgs)

    def name(self) -> str:
        return "BalancedAllocation"

    def pre_score(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, feasible: Rows, verdicts: object
    ) -> Status | None:
        del ctx, state, frame, feasible, verdicts
        return None if any(req.needs) else Status.new(Code.SKIP)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        """By the spread of the used shares once the placement is there. A resource that a cluster does not report is
        left out; without any, and where one would be overcommitted, the score is 0."""
        del ctx, state
        amounts = read_amounts_at(req, frame, rows)
        count: Int64Array | int = 0
        over: BoolArray = np.zeros(len(rows), dtype=np.bool_)
        total, squares = np.zeros(len(rows)), np.zeros(len(rows))
        used: list[tuple[FloatArray, BoolArray | None]] = []
        for resource in self._args.resources:
            room = frame.capacity(resource).room_on(rows, priority=req.priority, placement=req.key)
            taken = room.alloc - room.free
            taken += amounts.get(resource, 0)
            share = taken / room.divisor
            if room.some is not None:
                share *= room.some
            total += share
            count = count + (1 if room.some is None else room.some)
            over |= share > 1
            used.append((share, room.some))
        counted = np.maximum(count, 1)
        total /= counted
        for share, some in used:
            share -= total
            share *= share
            if some is not None:
                share *= some
            squares += share
        squares /= counted
        score = 1 - np.sqrt(squares, out=squares)
        score *= MAX_CLUSTER_SCORE
        score[over | (count == 0)] = 0
        return round_half_away_array(np.clip(score, 0, MAX_CLUSTER_SCORE, out=score))
