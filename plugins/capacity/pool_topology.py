"""Clusters need one pool, a zone or node pool, with room for all that a placement requests.

Members report what each pool has and has left. Which pool a copy will land in is up to its cluster, so what is booked
there, and not in the member's report yet, counts against every pool. What no pool of a cluster reports is left to other
plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from fleet.errors import ConfigurationError
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import RESOURCE_UNKNOWN, HookContext
from fleet.framework.explaining import (
    EVERY_LABEL,
    MOST_SUGGESTIONS,
    ClusterEvent,
    ClusterEventKind,
    RejectedClusters,
    Suggestion,
)
from fleet.framework.handle import Handle
from fleet.framework.needs import RoomReservation, find_kept, read_amounts
from fleet.framework.policy.resource_requests import format_amount
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array, round_to_grid
from fleet.framework.state import CycleState
from fleet.framework.status import MAX_CLUSTER_SCORE, Code, Status
from fleet.framework.types import Details, PluginTraits, Reason, ReasonArray, ReasonTable, Verdict
from fleet.model.keys import NODE_COUNT
from fleet.model.timestamps import SECOND
from fleet.model.views import PlacementPolicy
from fleet.snapshot.columns.bitset import BoolArray, FloatArray, Int64Array, Mask, Rows, from_bools
from fleet.snapshot.columns.pools import POOLS, read_pools
from fleet.snapshot.frame import Frame

_SHORTEST_AGE: Final = 60
"""Seconds: members report about once a minute."""
_NO_POOL, _STALE, _UNKNOWN = 1, 2, 3
_EVENTS: Final = (
    ClusterEvent(ClusterEventKind.UPDATE_HEALTH),
    ClusterEvent(ClusterEventKind.UPDATE_CAPACITY),
    ClusterEvent(ClusterEventKind.UPDATE_LABELS, (EVERY_LABEL,)),
    ClusterEvent(ClusterEventKind.UPDATE_PROPERTIES, (POOLS, NODE_COUNT)),
)
_ALL: Final = slice(None)

_Places = Rows | slice


class PoolTopologyMatchArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    strategy: Literal["LeastAllocated", "MostAllocated", "BalancedAllocation"] = "LeastAllocated"
    max_age_seconds: int = 300
    """Of a report of pools; 0: it counts at any age."""
    unknown: Literal["Pass", "Reject"] = "Pass"
    """What becomes of clusters that report no pools."""


class _PoolRoom(NamedTuple):
    """Of one requested resource; arrays by row, and by pool where they have two dimensions."""

    resource: str
    amount: Int64Array
    has: Int64Array
    free: Int64Array
    known: BoolArray
    is_reported: BoolArray
    """Whether any pool of the cluster reports the resource."""

    @property
    def fits(self) -> BoolArray:
        fits: BoolArray = (self.known & (self.free >= self.amount[:, None])) | ~self.is_reported[:, None]
        return fits

    @property
    def used_shares(self) -> FloatArray:
        """With the placement there; NaN where nothing is known."""
        is_counted = self.known & (self.has > 0)
        taken = self.has - self.free + self.amount[:, None]
        shares: FloatArray = np.divide(taken, self.has, out=np.full(self.has.shape, np.nan), where=is_counted)
        return shares


def _shorten(details: Details) -> str:
    return f"no pool for {details['resource']}"


def _describe_lack(details: Details) -> str:
    return (
        f"{details['resource']} {details['requested']} in a pool ({details['free']} free in {details['largestPool']})"
    )


def _describe_pools(details: Details, now: int) -> Iterator[str]:
    del now
    for pool in details["pools"]:
        short = f": {pool['short']} is missing" if pool["short"] else ""
        yield f"pool {pool['pool']} has {pool['free']} of {pool['allocatable']} {pool['resource']} free{short}"


class PoolTopologyMatch(RoomReservation, PluginTraits):
    READS = ("usage", "properties", "labels", "room", "obsolete")
    READS_POLICY_ONLY = True
    ROW_LOCAL = True
    READS_REQUESTS = True
    ONLY_EXPIRES = True
    RESERVE_REJECTS = False
    REASONS = ReasonTable(
        Reason(
            "NoSinglePool",
            Code.UNSCHEDULABLE,
            "needs {resource} {requested} in one pool, and {largestPool}, which lacks least, has {free} of "
            "{allocatable} free: {short} is missing",
            short=_shorten,
            lacks=_describe_lack,
            lines=_describe_pools,
            about_cluster_only=True,
        ),
        Reason(
            "StaleTopology",
            Code.UNSCHEDULABLE,
            "reported its pools {ageSeconds}s ago, and that counts for {limitSeconds}s",
            short="pools not reported lately",
        ),
        Reason(
            "PoolsUnknown",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "reports no pools",
            short="reports no pools",
            about_cluster_only=True,
        ),
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        self._args = decode_into(raw, PoolTopologyMatchArgs)
        age = self._args.max_age_seconds
        if age and age < _SHORTEST_AGE:
            expected = f"at least {_SHORTEST_AGE}, or 0: at any age"
            raise ConfigurationError(f"PoolTopologyMatchArgs.maxAgeSeconds: {age} should be {expected}")
        self._handle = handle

    def name(self) -> str:
        return "PoolTopologyMatch"

    @property
    def longest_report(self) -> int:
        """Nanoseconds after which a report of pools is stale; 0: never."""
        return self._args.max_age_seconds * SECOND

    # --- deciding -----------------------------------------------------------------------------------------------

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        del ctx, state, frame
        return None, None if any(req.needs) else Status.new(Code.SKIP)

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del state, alive
        reason = np.zeros(frame.size, dtype=np.uint16)
        has_pools = frame.pools.counts > 0
        reason[has_pools & ~_find_fitting(req, frame, _ALL).any(axis=1)] = _NO_POOL
        reason[self._find_stale(frame, ctx.now)] = _STALE
        unknown = ~has_pools & frame.valid_mask
        if self._args.unknown == "Reject":
            reason[unknown] = _UNKNOWN
        elif unknown.any():
            ctx.warn(RESOURCE_UNKNOWN, f"{', '.join(read_amounts(req, frame))} by pool", from_bools(unknown))
        ok = from_bools(reason == 0) | find_kept(ctx, req, frame)
        return Verdict(ok=ok, reason=reason, explain=partial(self._explain, req, frame, reason, ctx.now))

    def pre_score(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, feasible: Rows, verdicts: object
    ) -> Status | None:
        del ctx, state, frame, feasible, verdicts
        return None if any(req.needs) else Status.new(Code.SKIP)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        """That of the worst pool among those where everything fits; 0 where none is known."""
        del state
        rooms = _list_rooms(req, frame, rows)
        if not rooms:
            return np.zeros(len(rows), dtype=np.int64)
        shares = np.stack([room.used_shares for room in rooms])
        known = ~np.isnan(shares)
        count = known.sum(axis=0)
        mean = _divide(np.where(known, shares, 0.0).sum(axis=0), count)
        match self._args.strategy:
            case "LeastAllocated":
                scores = 1 - mean
            case "MostAllocated":
                scores = mean
            case _:
                scores = 1 - np.sqrt(_divide(np.where(known, (shares - mean) ** 2, 0.0).sum(axis=0), count))
        is_counted = _find_fitting(req, frame, rows) & (count > 0) & ~self._find_stale(frame, ctx.now)[rows][:, None]
        least = np.where(is_counted, scores, np.inf).min(axis=1, initial=np.inf)
        score = np.where(np.isinf(least), 0.0, np.clip(least, 0, 1) * MAX_CLUSTER_SCORE)
        return round_half_away_array(round_to_grid(score))

    def _find_stale(self, frame: Frame, now: int) -> BoolArray:
        pools = frame.pools
        if not self.longest_report:
            return np.zeros(frame.size, dtype=np.bool_)
        stale: BoolArray = (pools.counts > 0) & (pools.observed_at < now - self.longest_report)
        return stale

    # --- explaining ---------------------------------------------------------------------------------------------

    def _explain(
        self, req: PlacementRequest, frame: Frame, reasons: ReasonArray, now: int, row: int
    ) -> Mapping[str, object]:
        if reasons[row] == _NO_POOL:
            return _explain_pools(req, frame, row)
        if reasons[row] == _STALE:
            age = (now - int(frame.pools.observed_at[row])) // SECOND
            return {"ageSeconds": age, "limitSeconds": self._args.max_age_seconds}
        return {}

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        return _EVENTS

    def suggest(self, rejected: RejectedClusters) -> Iterator[Suggestion]:
        """Requests that fit into the pools that lack least."""
        if rejected.reason != self.REASONS[_NO_POOL].name:
            return
        req, frame = rejected.request, rejected.frame
        lacks = [_find_nearest(req, frame, row) for row in frame.sort_by_name(rejected.rows)]
        fitting: dict[tuple[tuple[str, int], ...], None] = {}
        for lack in sorted(lacks, key=lambda lack: lack.share)[max(rejected.need, 1) - 1 :]:
            fitting[tuple((room.resource, room.free) for room in lack.rooms if room.short > 0)] = None
            if len(fitting) == MOST_SUGGESTIONS:
                break
        for amounts in fitting:
            if all(amount > 0 for _, amount in amounts):
                yield Suggestion(
                    [
                        {"op": "setRequest", "resource": resource, "value": format_amount(resource, amount)}
                        for resource, amount in amounts
                    ]
                )


class _Lack(NamedTuple):
    """Of one resource in a pool."""

    resource: str
    requested: int
    has: int
    free: int

    @property
    def short(self) -> int:
        """0 or less if nothing is missing."""
        return self.requested - self.free


class _PoolLack(NamedTuple):
    pool: str
    rooms: tuple[_Lack, ...]

    @property
    def share(self) -> float:
        """The greatest part of a request that is missing."""
        return max((room.short / room.requested for room in self.rooms if room.requested), default=0.0)

    @property
    def worst(self) -> _Lack:
        return max(self.rooms, key=lambda room: room.short / room.requested if room.requested else 0.0)


def _list_rooms(req: PlacementRequest, frame: Frame, rows: _Places) -> list[_PoolRoom]:
    """Of the requested resources that clusters report by pool."""
    rooms = []
    for resource, amount in read_amounts(req, frame).items():
        reported = frame.pool_room(resource)
        if reported is None:
            continue
        whole = frame.capacity(resource)
        booked = whole.alloc - whole.used - whole.free(priority=req.priority, placement=req.key)
        taken = np.maximum(booked, 0)[rows][:, None]  # what evictions would give back is of no known pool
        known: BoolArray = reported.known[rows]
        is_reported: BoolArray = np.any(known, axis=1)
        free = reported.alloc[rows] - reported.used[rows] - taken
        rooms.append(_PoolRoom(resource, amount[rows], reported.alloc[rows], free, known, is_reported))
    return rooms


def _find_fitting(req: PlacementRequest, frame: Frame, rows: _Places) -> BoolArray:
    """By row, the pools where everything fits that is reported by pool."""
    fitting: BoolArray = frame.pools.exists[rows]
    for room in _list_rooms(req, frame, rows):
        fitting = fitting & room.fits
    return fitting


def _divide(total: FloatArray, count: Int64Array) -> FloatArray:
    quotient: FloatArray = np.divide(total, count, out=np.zeros(total.shape), where=count > 0)
    return quotient


def _list_lacks(req: PlacementRequest, frame: Frame, row: int) -> list[_PoolLack]:
    rooms = _list_rooms(req, frame, np.array([row]))
    return [
        _PoolLack(
            pool,
            tuple(
                _Lack(room.resource, int(room.amount[0]), int(room.has[0, position]), int(room.free[0, position]))
                for room in rooms
                if room.is_reported[0]
            ),
        )
        for position, pool in enumerate(read_pools(frame.cluster(row).status.properties).pools)
    ]


def _find_nearest(req: PlacementRequest, frame: Frame, row: int) -> _PoolLack:
    return min(_list_lacks(req, frame, row), key=lambda lack: lack.share)


def _explain_pools(req: PlacementRequest, frame: Frame, row: int) -> Mapping[str, object]:
    lacks = _list_lacks(req, frame, row)
    nearest = min(lacks, key=lambda lack: lack.share)
    return {
        "resource": nearest.worst.resource,
        "requested": format_amount(nearest.worst.resource, nearest.worst.requested),
        "largestPool": nearest.pool,
        **_describe_room(nearest.worst),
        "pools": [{"pool": lack.pool, "resource": lack.worst.resource, **_describe_room(lack.worst)} for lack in lacks],
    }


def _describe_room(room: _Lack) -> dict[str, str]:
    amounts = {"free": max(room.free, 0), "allocatable": room.has}
    short = format_amount(room.resource, room.short) if room.short > 0 else ""
    return {**{name: format_amount(room.resource, amount) for name, amount in amounts.items()}, "short": short}
