"""Clusters are preferred whose resources would be used evenly, so that none is left with memory and no cpu."""

from __future__ import annotations

import msgspec
import numpy as np

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.needs import read_amounts
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array
from fleet.framework.state import CycleState
from fleet.framework.status import MAX_CLUSTER_SCORE, Code, Status
from fleet.framework.types import PluginTraits
from fleet.snapshot.columns.bitset import Int64Array, Rows
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
        amounts = read_amounts(req, frame)
        used = np.full((len(self._args.resources), len(rows)), np.nan)
        for position, resource in enumerate(self._args.resources):
            room = frame.capacity(resource)
            taken = room.alloc - room.free(priority=req.priority, placement=req.key) + amounts.get(resource, 0)
            has = room.alloc[rows]
            np.divide(taken[rows], has, out=used[position], where=has > 0)
        known = ~np.isnan(used)
        count = known.sum(axis=0)
        shares = np.where(known, used, 0.0)
        mean = np.divide(shares.sum(axis=0), count, out=np.zeros(len(rows)), where=count > 0)
        squares = np.where(known, (used - mean) ** 2, 0.0).sum(axis=0)
        deviation = np.sqrt(np.divide(squares, count, out=np.ones(len(rows)), where=count > 0))
        score = np.where((shares > 1).any(axis=0), 0.0, 1 - deviation) * MAX_CLUSTER_SCORE
        return round_half_away_array(np.clip(score, 0, MAX_CLUSTER_SCORE))
