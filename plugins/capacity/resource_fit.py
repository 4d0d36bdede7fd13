"""Clusters need room for what a placement requests: beside what their members report as used, and what was placed there
and is not in their reports yet.

Room is booked as soon as a cluster is chosen, so a burst of decisions cannot share the same room, and is given back
when the member's report has caught up. A cluster that the placement is on already has room for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import RESOURCE_UNKNOWN, HookContext
from fleet.framework.explaining import (
    EVERY_LABEL,
    MOST_SUGGESTIONS,
    ClusterEvent,
    ClusterEventKind,
    ClusterTraits,
    Edit,
    RejectedClusters,
    Suggestion,
)
from fleet.framework.handle import Handle
from fleet.framework.needs import (
    RequestedRoom,
    RoomReservation,
    RoomScores,
    amounts_on,
    find_kept,
    read_amounts,
    read_amounts_or_numbers,
    read_row,
)
from fleet.framework.policy.resource_requests import format_amount
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import round_half_away_array
from fleet.framework.state import CycleState
from fleet.framework.status import MAX_CLUSTER_SCORE, Code, Status
from fleet.framework.types import Details, PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.keys import NODE_COUNT
from fleet.model.views import PlacementPolicy
from fleet.snapshot.capacity import MILLI
from fleet.snapshot.columns.bitset import (
    FloatArray,
    Int64Array,
    Mask,
    Rows,
    all_rows,
    from_bools,
    from_rows,
    to_rows,
)
from fleet.snapshot.frame import Frame
from fleet.snapshot.row_memo import ALL_ROWS, RowMemo

GROWTH_PROPERTY: Final = "scaling.fleet.dev/max-"
"""Of a cluster, followed by a resource: how much of it the cluster may have after it has scaled up."""

_INSUFFICIENT, _NEVER, _UNKNOWN = 1, 2, 3
_BANDS: Final = 10
_EVENTS: Final = (
    ClusterEvent(ClusterEventKind.UPDATE_CAPACITY),
    ClusterEvent(ClusterEventKind.UPDATE_LABELS, (EVERY_LABEL,)),
    ClusterEvent(ClusterEventKind.UPDATE_PROPERTIES, (NODE_COUNT,)),
)
"""What is needed per node, and what overrides change, is not part of the policy."""


class ResourceFitArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    resources: tuple[str, ...] = ("cpu", "memory")
    """Those that clusters are ranked by; all that a placement requests count for whether it fits."""
    strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    unknown: Literal["Pass", "Reject"] = "Pass"
    """What becomes of clusters that do not report a requested resource."""


def _shorten(details: Details) -> str:
    return f"too little {details['resource']}"


def _describe_lack(details: Details) -> str:
    if "free" not in details:
        return f"{details['resource']} {details['requested']} (has {details['allocatable']})"
    return f"{details['resource']} {details['requested']} ({details['free']} free)"


def _describe_use(details: Details, now: int) -> Iterator[str]:
    del now
    yield f"used {details['used']}, booked {details['booked']}"
    if "requestedBy" in details:
        yield "requested by the selected workloads"
    if details["alsoShort"]:
        yield f"also too little {', '.join(details['alsoShort'])}"


class ResourceFit(RoomReservation, PluginTraits):
    READS = ("usage", "properties", "labels", "room", "obsolete")
    READS_POLICY_ONLY = True
    ROW_LOCAL = True
    READS_REQUESTS = True
    RESERVE_REJECTS = False
    REASONS = ReasonTable(
        Reason(
            "InsufficientCapacity",
            Code.UNSCHEDULABLE,
            "needs {resource} {requested}, and {free} of {allocatable} is free: {short} is missing{afterwards}",
            short=_shorten,
            lacks=_describe_lack,
            lines=_describe_use,
            about_cluster_only=True,
        ),
        Reason(
            "NeverFits",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "needs {resource} {requested}, and the cluster has {allocatable} in all",
            short=_shorten,
            lacks=_describe_lack,
            lines=_describe_use,
            about_cluster_only=True,
        ),
        Reason(
            "ResourceUnknown",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "needs {resource} {requested}, and the cluster does not report {resource}",
            short="does not report what is requested",
            about_cluster_only=True,
        ),
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        self._args = decode_into(raw, ResourceFitArgs)
        self._reasons = RowMemo[np.uint16]()
        self._scores = RoomScores(self._args.resources, self._score_rooms)
        self._handle = handle

    def name(self) -> str:
        return "ResourceFit"

    # --- deciding -----------------------------------------------------------------------------------------------

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        del ctx, state, frame
        return None, None if any(req.needs) else Status.new(Code.SKIP)

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del state, alive
        amounts = read_amounts_or_numbers(req, frame)
        for resource in amounts if self._args.unknown == "Pass" else ():
            unknown = frame.capacity(resource).unknown & frame.valid
            if unknown:
                ctx.warn(RESOURCE_UNKNOWN, resource, unknown)
        judge = partial(self._judge, req, frame, amounts)
        reason = judge(ALL_ROWS) if req.needs.vary else self._reasons.column(tuple(amounts.items()), frame, judge)
        ok = from_bools(reason == 0) if reason.max(initial=0) else all_rows(frame.size)
        return Verdict(ok=ok | find_kept(ctx, req, frame), reason=reason)

    def _judge(
        self, req: PlacementRequest, frame: Frame, amounts: Mapping[str, Int64Array | int], rows: Rows | slice
    ) -> npt.NDArray[np.uint16]:
        reason = np.zeros(frame.size, dtype=np.uint16)[rows]
        for resource, of_all in amounts.items():
            room, amount = frame.capacity(resource), amounts_on(of_all, rows)
            known, part = room.known[rows], room.room_on(rows, priority=req.priority, placement=req.key)
            is_short = known & (part.free < amount)
            if is_short.any():
                never = is_short & (amount > part.alloc)
                if never.any():
                    never &= ~(_read_growth(frame, resource)[rows] >= room.used[rows] + amount)
                reason[is_short & (reason == 0)] = _INSUFFICIENT
                reason[never & (reason != _UNKNOWN)] = _NEVER
            if self._args.unknown == "Reject":
                reason[frame.valid_mask[rows] & ~known & (reason != _NEVER)] = _UNKNOWN
        return reason

    def pre_score(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, feasible: Rows, verdicts: object
    ) -> Status | None:
        del ctx, state, frame, feasible, verdicts
        return None if any(req.needs) else Status.new(Code.SKIP)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del ctx, state
        return self._scores.score(req, frame, rows)

    def _score_rooms(self, rooms: Sequence[RequestedRoom]) -> Int64Array:
        """By the share that is free once the placement is there; none where a cluster does not have the resource."""
        mean: FloatArray = np.zeros(len(rooms[0][0].alloc))
        for room, requested in rooms:
            share = (room.free - requested) / room.divisor
            if self._args.strategy == "MostAllocated":
                share = 1 - share
            mean += share if room.some is None else share * room.some
        mean /= len(rooms)
        mean *= MAX_CLUSTER_SCORE
        return round_half_away_array(np.clip(mean, 0, MAX_CLUSTER_SCORE, out=mean))

    # --- explaining ---------------------------------------------------------------------------------------------

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        """The numbers of the resource that decided, as quantities, and the other resources that are short."""
        amounts = read_row(req, frame, row)
        resources = [name for name in amounts if _is_reason(req, frame, row, name, reason)]
        if not resources:
            return {}
        resource, amount = resources[0], amounts[resources[0]]
        details: dict[str, object] = {"resource": resource, "requested": format_amount(resource, amount)}
        if req.requested_by == "workloads":
            details["requestedBy"] = req.requested_by
        if reason == _UNKNOWN:
            return details
        room = frame.capacity(resource)
        allocatable, used = int(room.alloc[row]), int(room.used[row])
        details["allocatable"] = format_amount(resource, allocatable)
        if reason == _INSUFFICIENT:
            free = int(room.free(priority=req.priority, placement=req.key)[row])
            grows = amount > allocatable
            details |= {
                "free": format_amount(resource, free),
                "short": format_amount(resource, amount - free),
                "afterwards": ", until it has scaled up" if grows else "",
                "afterScaleUp": grows,
            }
        details |= {
            "used": format_amount(resource, used),
            "booked": format_amount(resource, int(room.assumed[row])),
            "alsoShort": [name for name in amounts if name != resource and _list_short(req, frame, row)[name] > 0],
        }
        return details

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        return _EVENTS

    def split_by_distance(self, req: PlacementRequest, frame: Frame, rows: int) -> list[int]:
        """By the greatest share of a request that is missing: those that lack least, then the others by tenths."""
        members = to_rows(rows, frame.size)
        lacks = np.minimum(_weigh_lacks(req, frame)[members], 1)
        bands = np.where(lacks == lacks.min(initial=np.inf), -1, np.floor(lacks * _BANDS))
        return [from_rows(members[bands == band].tolist()) for band in np.unique(bands)]

    def suggest(self, rejected: RejectedClusters) -> Iterator[Suggestion]:
        """Smaller requests, or more room on the clusters that lack least."""
        if rejected.reason == self.REASONS[_UNKNOWN].name:
            return
        req, frame = rejected.request, rejected.frame
        lacks = _weigh_lacks(req, frame)
        rows = sorted(frame.sort_by_name(rejected.rows), key=lambda row: float(lacks[row]))
        fitting: dict[tuple[tuple[str, int], ...], None] = {}
        for row in rows[max(rejected.need, 1) - 1 :]:
            fitting[tuple(_list_fitting(req, frame, row))] = None
            if len(fitting) == MOST_SUGGESTIONS:
                break
        for amounts in fitting:
            if all(amount > 0 for _, amount in amounts):
                yield Suggestion([_request(resource, amount) for resource, amount in amounts])
        yield from rejected.suggest_per_cluster(lambda row: list(_list_additions(req, frame, row)), rows)

    def list_newcomers(self, req: PlacementRequest, frame: Frame, in_use: int) -> Iterator[ClusterTraits]:
        capacity = {resource: format_amount(resource, amount) for resource, amount in req.needs.on(1).items()}
        yield ClusterTraits({}, {}, capacity)


def _read_growth(frame: Frame, resource: str) -> FloatArray:
    """Whole units; NaN where a cluster does not say."""
    scale = 1000 if resource in MILLI else 1
    values: FloatArray = frame.property(GROWTH_PROPERTY + resource).values * scale
    return values


def _list_short(req: PlacementRequest, frame: Frame, row: int) -> dict[str, int]:
    """How much is missing, by resource; 0 or less if nothing is."""
    return {
        resource: amount - int(room.free(priority=req.priority, placement=req.key)[row]) if room.known[row] else 0
        for resource, amount in read_row(req, frame, row).items()
        for room in (frame.capacity(resource),)
    }


def _is_reason(req: PlacementRequest, frame: Frame, row: int, resource: str, reason: int) -> bool:
    room, amount = frame.capacity(resource), read_row(req, frame, row)[resource]
    if reason == _UNKNOWN:
        return not room.known[row]
    if _list_short(req, frame, row)[resource] <= 0:
        return False
    if reason == _NEVER:
        growth = _read_growth(frame, resource)[row]
        return bool(amount > room.alloc[row] and not growth >= room.used[row] + amount)
    return True


def _weigh_lacks(req: PlacementRequest, frame: Frame) -> FloatArray:
    """By row the greatest share of a request that is missing; 0 or less if nothing is."""
    worst: FloatArray = np.zeros(frame.size)
    for resource, amount in read_amounts(req, frame).items():
        room = frame.capacity(resource)
        short = np.where(room.known, amount - room.free(priority=req.priority, placement=req.key), 0)
        worst = np.maximum(worst, np.divide(short, amount, out=np.zeros(frame.size), where=amount > 0))
    return worst


def _list_fitting(req: PlacementRequest, frame: Frame, row: int) -> Iterator[tuple[str, int]]:
    """The short resources, with what would fit."""
    amounts = read_row(req, frame, row)
    for resource, short in _list_short(req, frame, row).items():
        if short > 0:
            yield resource, max(amounts[resource] - short, 0)


def _list_additions(req: PlacementRequest, frame: Frame, row: int) -> Iterator[Edit]:
    for resource, short in _list_short(req, frame, row).items():
        if short > 0:
            value = format_amount(resource, short)
            yield {"op": "addCapacity", "cluster": frame.name(row), "resource": resource, "value": value}


def _request(resource: str, amount: int) -> Edit:
    return {"op": "setRequest", "resource": resource, "value": format_amount(resource, amount)}
