"""Requests of a placement by row: what is requested per node counts as often as a cluster has nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from fleet.framework.context import HookContext
from fleet.framework.handle import Handle
from fleet.framework.operations import Target
from fleet.framework.policy.quotas import CLUSTERS
from fleet.framework.policy.resource_requests import Needs, OverriddenNeeds
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Status
from fleet.model.keys import NODE_COUNT
from fleet.snapshot.capacity import Room
from fleet.snapshot.columns.bitset import Int64Array, Rows, from_rows, to_rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.row_memo import RowMemo

_MOST_NODES: Final = 2**20


def read_amounts(req: PlacementRequest, frame: Frame) -> dict[str, Int64Array]:
    """By resource, of every row; a cluster that does not report its nodes counts as one."""
    return spread_needs(req.needs, frame)


def read_amounts_or_numbers(req: PlacementRequest, frame: Frame) -> Mapping[str, Int64Array | int]:
    """One number where all clusters need the same."""
    return read_amounts(req, frame) if req.needs.vary else req.needs.fixed


def spread_needs(needs: Needs, frame: Frame) -> dict[str, Int64Array]:
    amounts = {name: np.full(frame.size, amount, dtype=np.int64) for name, amount in needs.fixed.items()}
    if needs.per_node or needs.overridden:
        reported = frame.property(NODE_COUNT).values
        nodes = np.clip(np.where(np.isnan(reported), 1.0, reported), 0, _MOST_NODES).astype(np.int64)
        for name, amount in needs.per_node.items():
            _add(amounts, name, nodes * amount)
        for overridden in needs.overridden:
            _add_overridden(amounts, overridden, frame, nodes)
    return amounts


def read_quota_amounts(req: PlacementRequest, frame: Frame) -> Mapping[str, Int64Array | int]:
    """What a copy takes of each resource of quotas, by row; one number where all clusters need the same."""
    return {**read_amounts_or_numbers(req, frame), CLUSTERS: 1}


def amount_at(amounts: Int64Array | int, row: int) -> int:
    return amounts if isinstance(amounts, int) else int(amounts[row])


def amounts_on(amounts: Int64Array | int, rows: Rows | slice) -> Int64Array | int:
    return amounts if isinstance(amounts, int) else amounts[rows]


def find_largest(amounts: Int64Array | int, frame: Frame) -> int:
    """Of all rows; 0 without rows."""
    if isinstance(amounts, int):
        return amounts if frame.size else 0
    return int(amounts.max(initial=0))


def sum_amounts(amounts: Int64Array | int, rows: int) -> int:
    """Over a set of rows."""
    if isinstance(amounts, int):
        return amounts * rows.bit_count()
    return int(amounts[to_rows(rows, len(amounts))].sum())


def _add(amounts: dict[str, Int64Array], resource: str, more: Int64Array) -> None:
    amounts[resource] = amounts.get(resource, 0) + more


def _add_overridden(
    amounts: dict[str, Int64Array], overridden: OverriddenNeeds, frame: Frame, nodes: Int64Array
) -> None:
    rows = np.flatnonzero(frame.valid_mask).tolist()
    by_row = {row: overridden.read(frame.cluster(row).metadata.labels) for row in rows}
    for needs in {id(needs): needs for needs in by_row.values()}.values():
        mask = np.zeros(frame.size, dtype=np.int64)
        mask[[row for row, of_row in by_row.items() if of_row is needs]] = 1
        for name, amount in needs.fixed.items():
            _add(amounts, name, mask * amount)
        for name, amount in needs.per_node.items():
            _add(amounts, name, mask * nodes * amount)


def read_row(req: PlacementRequest, frame: Frame, row: int | None) -> Mapping[str, int]:
    """Of one row; of a cluster with one node and no labels where there is no row."""
    if row is None or not (req.node_requests or req.overridden_requests):
        return req.needs.on(1)
    return {name: int(amounts[row]) for name, amounts in read_amounts(req, frame).items()}


def read_needed(handle: Handle, placement: PlacementRequest, cluster: str) -> Mapping[str, int]:
    """On a cluster as it is now; for Reserve."""
    if not (placement.node_requests or placement.overridden_requests):
        return placement.requests
    frame = handle.cache_view()
    return read_row(placement, frame, frame.row_of(cluster))


def find_kept(ctx: HookContext, req: PlacementRequest, frame: Frame) -> int:
    """Rows that the placement is on: it has its room there."""
    given_up = from_rows(ctx.bindings.unscheduled) & ~_find_promised(req, frame)
    return ctx.active | ctx.obsolete | given_up


def _find_promised(req: PlacementRequest, frame: Frame) -> int:
    """Rows where room is kept for another placement that comes before this one."""
    rows = (
        frame.row_of(nomination.cluster)
        for nomination in frame.nominations
        if nomination.priority >= req.priority and nomination.placement != req.key
    )
    return from_rows(row for row in rows if row is not None)


RequestedRoom = tuple[Room, Int64Array | int]
"""Of one resource on some rows, and what a placement requests of it."""


class RoomScores:
    """Of clusters, by what they have of some resources, what is free, and what is requested; 0 without resources."""

    def __init__(self, resources: tuple[str, ...], score: Callable[[Sequence[RequestedRoom]], Int64Array]) -> None:
        self._resources, self._score = resources, score
        self._memo = RowMemo[np.int8]()

    def score(self, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        if not self._resources:
            return np.zeros(len(rows), dtype=np.int64)
        amounts = read_amounts_or_numbers(req, frame)
        requested = [(resource, amounts.get(resource, 0)) for resource in self._resources]

        def compute(rows: Rows | slice) -> npt.NDArray[np.int8]:
            rooms = [
                (
                    frame.capacity(resource).room_on(rows, priority=req.priority, placement=req.key),
                    amounts_on(amount, rows),
                )
                for resource, amount in requested
            ]
            return self._score(rooms).astype(np.int8)  # an eighth of what is copied for each decision

        scores = compute(rows) if req.needs.vary else self._memo.at(rows, tuple(requested), frame, compute)
        return scores.astype(np.int64)


class RoomReservation:
    """Reserve and Unreserve of plugins that compare room. The ledger is shared by all of them: what several reserve for
    one placement counts once."""

    _handle: Handle | None

    async def reserve(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None:
        """On the event loop, so that the next decision sees it."""
        del ctx, state
        if self._handle is not None and any(placement.needs):
            needed = read_needed(self._handle, placement, target.cluster)
            self._handle.reserve_room(target.cluster, placement.key, needed)
        return None

    async def unreserve(self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target) -> None:
        del ctx, state
        if self._handle is not None and any(placement.needs):
            self._handle.release_room(target.cluster, placement.key)
