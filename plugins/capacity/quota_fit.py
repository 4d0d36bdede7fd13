"""Placements need room in the quotas of their tenants, beside room on clusters.

Each chosen cluster counts in every quota that the placement belongs to, as soon as it is reserved. A cluster that the
placement is on already is paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.explaining import (
    ClusterEvent,
    Edit,
    RejectedClusters,
    Suggestion,
)
from fleet.framework.handle import Handle
from fleet.framework.needs import amount_at, find_largest, read_quota_amounts, read_row, sum_amounts
from fleet.framework.operations import Target
from fleet.framework.policy.quotas import CLUSTERS, QuotaShare, read_taken
from fleet.framework.policy.resource_requests import format_amount
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState, FrozenState, StateData, StateKey
from fleet.framework.status import Code, Status
from fleet.framework.types import Delta, Details, PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.keys import PICK_N
from fleet.model.views import PlacementPolicy
from fleet.snapshot.columns.bitset import Int64Array, Mask, all_rows, from_bools, from_rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import PlacedBinding

_EXCEEDED: Final = 1
_REMOVED: Final = StateKey("filter/QuotaFit")


@dataclass(frozen=True)
class _Removed(FrozenState):
    """Bindings that are taken away for the sake of argument (-1), or added."""

    by_row: Mapping[int, tuple[tuple[int, PlacedBinding], ...]]


def _shorten(details: Details) -> str:
    return f"quota {details['quota']} is used up"


def _describe_lack(details: Details) -> str:
    return f"{details['resource']} {details['short']} in quota {details['quota']}"


class QuotaFit(PluginTraits):
    READS = ("picks", "quotas", "properties", "labels")
    READS_POLICY_ONLY = True
    READS_REQUESTS = True
    RESERVE_REJECTS = False
    APPLIES_TO_FIXED = True
    REASONS = ReasonTable(
        Reason(
            "QuotaExceeded",
            Code.UNSCHEDULABLE,
            "quota {quota}: {resource} {used} of {limit} used{pool}, asked {requested}, {short} short",
            short=_shorten,
            lacks=_describe_lack,
        )
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw
        self._handle = handle

    def name(self) -> str:
        return "QuotaFit"

    # --- deciding -----------------------------------------------------------------------------------------------------

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        del ctx, frame
        if not req.quotas:
            return None, Status.new(Code.SKIP)
        state.write(_REMOVED, _Removed({}))
        return None, None

    def pre_filter_extensions(self) -> QuotaFit:
        return self

    def add(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None:
        """Bindings that leave give back what they count in the placement's own quotas, and what they have borrowed."""
        del ctx, req, frame
        held = state.read(_REMOVED)
        assert isinstance(held, _Removed)
        removed = dict(held.by_row)
        for delta in deltas:
            if delta.binding is not None:
                removed[delta.row] = (*removed.get(delta.row, ()), (delta.sign, delta.binding))
        state.write(_REMOVED, _Removed(removed))
        return None

    remove = add

    def post_batch(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, desired: int
    ) -> tuple[int, Status | None]:
        """As many as fit are picked at once; then Filter rejects the others."""
        del state
        if not req.quotas:
            return desired, Status.new(Code.SKIP)
        amounts = read_quota_amounts(req, frame)
        fitting, given_up = desired, _list_given_up(ctx)
        for share in req.quotas:
            largest = find_largest(amounts.get(share.resource, 0), frame)
            if largest:
                left = share.left + sum_amounts(amounts[share.resource], given_up)
                fitting = min(fitting, max(left // largest, 1))
        return (desired, Status.new(Code.SKIP)) if fitting >= desired else (fitting, None)

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        """For policies that take every cluster, those that come first by name get what is left."""
        if not req.quotas:
            return Verdict(ok=frame.valid)
        removed = state.read(_REMOVED, default=None)
        amounts = read_quota_amounts(req, frame)
        given_up = _list_given_up(ctx)
        shares = [(share, amounts[share.resource]) for share in req.quotas if share.resource in amounts]
        left = [share.left + sum_amounts(amount, given_up) for share, amount in shares]
        ok = ctx.active
        if req.placement_type == PICK_N:
            fits = all_rows(frame.size)
            for place, (share, amount) in enumerate(shares):
                left[place] -= sum_amounts(amount, ctx.picked)
                fits &= _find_fitting(share, amount, left[place], frame.size, removed, at_once=ctx.shortfall or 1)
            ok |= fits
        else:
            rows = frame.sort_by_name(alive & ~ctx.active)
            for row in sorted(rows, key=lambda row: not given_up >> row & 1):
                taken = [amount_at(amount, row) for _, amount in shares]
                if all(amount <= most for amount, most in zip(taken, left, strict=True)):
                    ok |= 1 << row
                    left = [most - amount for amount, most in zip(taken, left, strict=True)]

        def explain(row: int) -> Mapping[str, object]:
            return _describe_shortage(
                req, frame, row, {share: most for (share, _), most in zip(shares, left, strict=True)}
            )

        return Verdict(ok=ok, reason=_EXCEEDED, explain=explain)

    async def reserve(
        self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target
    ) -> Status | None:
        """On the event loop, so that the next decision sees it."""
        del ctx, state
        if self._handle is not None:
            self._handle.reserve_quota(target.cluster, placement.key)
        return None

    async def unreserve(self, ctx: HookContext, state: CycleState, placement: PlacementRequest, target: Target) -> None:
        del ctx, state
        if self._handle is not None:
            self._handle.release_quota(target.cluster, placement.key)

    # --- explaining ---------------------------------------------------------------------------------------------------

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        del reason
        return _describe_shortage(req, frame, row, {share: share.left for share in req.quotas})

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        """No change of a cluster makes room in a quota; what fits one that has changed is requeued by its ledger."""
        return ()

    def suggest(self, rejected: RejectedClusters) -> Iterator[Suggestion]:
        """Requests that fit into what is left, on as many clusters as are missing."""
        req, frame = rejected.request, rejected.frame
        amounts = read_quota_amounts(req, frame)
        edits: dict[str, int] = {}
        for share in req.quotas:
            if share.resource not in amounts or share.resource == CLUSTERS:
                continue
            fitting = max(share.left, 0) // max(rejected.need, 1)
            if fitting < find_largest(amounts[share.resource], frame):
                edits[share.resource] = min(fitting, edits.get(share.resource, fitting))
        if edits and all(edits.values()):
            yield Suggestion([_request(resource, amount) for resource, amount in edits.items()])


def _find_fitting(
    share: QuotaShare, amounts: Int64Array | int, left: int, size: int, removed: StateData | None, *, at_once: int
) -> int:
    """Rows. Where bindings are taken away for the sake of argument, so many clusters have to fit together."""
    fits = all_rows(size) * (amounts <= left) if isinstance(amounts, int) else from_bools(amounts <= left)
    for row, bindings in (removed.by_row if isinstance(removed, _Removed) else {}).items():
        amount = amount_at(amounts, row)
        own = sum(_count_own(share, sign, binding) for sign, binding in bindings)
        gone = own + (_count_borrowed(share, bindings, at_once) if share.may_reclaim(amount * at_once) else 0)
        extra = left - share.left
        own_left, pool_left = share.own_left + extra, share.pool_left + extra
        fits &= ~(1 << row)
        fits |= (amount <= own_left // at_once + own and amount <= pool_left // at_once + gone) << row
    return fits


def _count_own(share: QuotaShare, sign: int, binding: PlacedBinding) -> int:
    return -sign * read_taken(binding, share.resource) if share.quota in binding.quotas else 0


def _count_borrowed(share: QuotaShare, bindings: Sequence[tuple[int, PlacedBinding]], at_once: int) -> int:
    """What is within the guarantee of another quota stays its own."""
    return sum(
        min(
            borrowed // at_once,
            sum(
                -sign * read_taken(binding, share.resource)
                for sign, binding in bindings
                if quota in binding.quotas and share.quota not in binding.quotas
            ),
        )
        for quota, borrowed in share.borrowers
    )


def _list_given_up(ctx: HookContext) -> int:
    """Clusters that the placement leaves unless it chooses them again."""
    return ctx.obsolete | from_rows(ctx.bindings.unscheduled)


def _describe_shortage(
    req: PlacementRequest, frame: Frame, row: int, left: Mapping[QuotaShare, int]
) -> Mapping[str, object]:
    """Of the first quota that the row does not fit."""
    needs = {**read_row(req, frame, row), CLUSTERS: 1}
    for share in req.quotas:
        amount = needs.get(share.resource, 0)
        short = amount - left.get(share, share.left)
        if short > 0:
            return _describe_share(share, amount, short, picked=share.left - left.get(share, share.left))
    return {}


def _describe_share(share: QuotaShare, amount: int, short: int, *, picked: int) -> Mapping[str, object]:
    def write(number: int) -> str:
        return format_amount(share.resource, number)

    is_borrowing = share.pool_left < share.own_left
    limit = share.max if share.max is not None else share.min
    pool = f", {write(share.pool_used + picked)} of {write(share.pool_min)} by all" if is_borrowing else ""
    return {
        "quota": share.quota,
        "resource": share.resource,
        "used": write(share.used + picked),
        "limit": write(limit or 0),
        "requested": write(amount),
        "short": write(short),
        "pool": pool,
    }


def _request(resource: str, amount: int) -> Edit:
    return {"op": "setRequest", "resource": resource, "value": format_amount(resource, amount)}
