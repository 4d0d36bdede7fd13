"""DefaultPreemption: makes room for a placement by the bindings of less important ones.

It searches for a placement with a priority, where no cluster qualifies, and only among clusters that another one's
departure can help; without a priority, a placement takes back at most what its quotas guarantee. All removable
bindings are taken away for the sake of argument, and put back one by one, the most important first, as long as the
placement still fits. While a placement waits for those that leave, its cluster is kept for it, and it waits for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import HookContext
from fleet.framework.explaining import ClusterEvent
from fleet.framework.handle import Handle
from fleet.framework.needs import find_largest, read_quota_amounts
from fleet.framework.policy.quotas import QuotaShare
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import (
    EvictionPlan,
    PluginTraits,
    PostFilterResult,
    Reason,
    ReasonTable,
    Verdict,
)
from fleet.framework.verdicts import Verdicts
from fleet.model.views import PlacementPolicy
from fleet.snapshot.columns.bitset import from_rows, to_bools
from fleet.snapshot.frame import Frame
from fleet.snapshot.removals import Removals
from fleet.snapshot.sidedata import LEAVING, WAITING, PlacedBinding

_FEWEST_CANDIDATES: Final = 100
"""Clusters are examined so many at a time, in a large fleet a tenth of them, until enough of these have room."""
_BEGUN: Final = attrgetter("started", "placement")
_PRIORITY: Final = attrgetter("priority")
_OFFSET: Final = 2**31
"""Makes all priorities positive: two victims are more than one, whatever theirs are."""


class DefaultPreemptionArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """There are none."""


Victims = dict[int, tuple[PlacedBinding, ...]]
"""By row."""


class DefaultPreemption(PluginTraits):
    READS = ("room", "bindings", "labels", "properties")
    READS_POLICY_ONLY = True
    ROW_LOCAL = True
    REASONS = ReasonTable(
        Reason(
            "VictimsLeaving",
            Code.UNSCHEDULABLE,
            "room is being made for the placement: bindings that have to leave first: {victims}",
            short="room is being made",
        ),
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        decode_into(raw, DefaultPreemptionArgs)

    def name(self) -> str:
        return "DefaultPreemption"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del ctx, state, alive
        waiting = (frame.row_of(own.cluster) for own in frame.nominations if own.placement == req.key and own.remaining)
        return Verdict(ok=~from_rows(row for row in waiting if row is not None))

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        """No change of a cluster ends the wait for those that leave."""
        return ()

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        del reason
        name = frame.name(row)
        own = (each for each in frame.nominations if each.placement == req.key and each.cluster == name)
        return {"victims": sum(len(each.remaining) for each in own)}

    def post_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, verdicts: Verdicts
    ) -> tuple[PostFilterResult | None, Status | None]:
        del state
        if req.never_preempts:
            return _refuse(ctx, "the placement is not to evict anything by itself")
        if not req.may_evict:
            return _refuse(ctx, "the placement has no priority")
        if any(nomination.placement == req.key for nomination in frame.nominations):
            return _refuse(ctx, "room is being made already")
        if verdicts.refusals:
            return _refuse(ctx, "the placement as a whole was refused")
        lent = _find_lent(ctx, req, frame)
        if not (req.priority or lent):
            return _refuse(ctx, "the placement has no priority, and nothing of its quotas is lent to others")
        victims: Victims = {}
        chosen: list[int] = []
        candidates, examined = _find_removable(ctx, req, frame, verdicts, lent), 0
        while len(chosen) < ctx.shortfall:
            removable = Removals(dict(islice(candidates, max(frame.count // 10, _FEWEST_CANDIDATES))))
            if not removable:
                return _refuse(
                    ctx,
                    f"of {frame.count} clusters, {examined} have bindings that could leave, and "
                    f"{len(victims)} would have room then",
                )
            examined += len(removable)
            fits = to_bools(ctx.judge_without(removable), frame.size)[removable.rows]
            victims |= _spare(ctx, removable.select(fits), frame.size)
            chosen = _choose(frame, victims, ctx.shortfall)
        pairs = tuple((frame.name(row), victim.placement) for row in chosen for victim in victims[row])
        nomination = tuple(frame.name(row) for row in chosen)
        ctx.note(
            "preemption", f"room is made on {len(chosen)} of {frame.count} clusters: bindings to leave: {len(pairs)}"
        )
        return PostFilterResult(nomination, EvictionPlan(pairs)), None


def _refuse(ctx: HookContext, why: str) -> tuple[None, Status]:
    ctx.note("preemption", f"nothing is evicted: {why}")
    return None, Status.new(Code.UNSCHEDULABLE, why)


def _find_removable(
    ctx: HookContext, req: PlacementRequest, frame: Frame, verdicts: Verdicts, lent: Sequence[QuotaShare]
) -> Iterator[tuple[int, list[PlacedBinding]]]:
    """Rows where eviction may help, from the cursor on, with what may be removed there."""
    order, codes = frame.scan_order(), verdicts.codes()
    own, priority = req.key, req.priority

    def matters_less(binding: PlacedBinding) -> bool:
        return bool(priority) and binding.priority < priority

    start = ctx.cursor % len(order) if len(order) else 0
    order = np.concatenate((order[start:], order[:start]))
    for row in order[codes[order] == int(Code.UNSCHEDULABLE)].tolist():
        removable = [
            binding
            for binding in frame.placed[row]
            if (
                binding.state == LEAVING
                or (binding.disruptions > 0 and (matters_less(binding) or (lent and _is_borrowed(binding, lent))))
            )
            and binding.placement != own
        ]
        if removable:
            _rank(removable, lent)
            yield row, removable


def _find_lent(ctx: HookContext, req: PlacementRequest, frame: Frame) -> list[QuotaShare]:
    """Of its quotas those that lack what others have borrowed, and would stay within their guarantees."""
    amounts = read_quota_amounts(req, frame) if req.quotas else {}
    most = {resource: find_largest(of_all, frame) * ctx.shortfall for resource, of_all in amounts.items()}
    return [
        share
        for share in req.quotas
        if share.pool_left < most.get(share.resource, 0) and share.may_reclaim(most[share.resource])
    ]


def _is_borrowed(binding: PlacedBinding, lent: Sequence[QuotaShare]) -> int:
    """2 for what is borrowed as a whole, 1 for what is in part."""
    return max(share.has_lent(binding) + share.has_lent(binding, wholly=True) for share in lent)


def _rank(bindings: list[PlacedBinding], lent: Sequence[QuotaShare]) -> None:
    """The most important first, then what is borrowed; what leaves in any case is last."""
    bindings.sort(key=_BEGUN)
    bindings.sort(key=_PRIORITY, reverse=True)  # the order of equals stays
    if lent:
        bindings.sort(key=lambda binding: _is_borrowed(binding, lent))
    bindings.sort(key=lambda binding: binding.state == LEAVING)


def _spare(ctx: HookContext, removed: Removals, size: int) -> Victims:
    """Those that have to leave. The others are put back in waves: of each row the next one, all rows at once."""
    gone, everywhere = removed.gone.copy(), np.ones(len(removed), dtype=np.bool_)
    for turn in range(gone.shape[1]):
        present, trial = gone[:, turn], gone.copy()
        trial[:, turn] = False
        fitting = ctx.judge_without(removed.select(present, trial))
        gone[present & to_bools(fitting, size)[removed.rows], turn] = False
    return removed.select(everywhere, gone).to_dict()


def _choose(frame: Frame, victims: Victims, most: int) -> list[int]:
    """The rows where least is lost, without more bindings of a placement than its budget allows."""
    chosen: list[int] = []
    evicted: Counter[str] = Counter()
    for row in sorted(victims, key=lambda row: _weigh(frame, row, victims[row])):
        live = [victim for victim in victims[row] if victim.state != LEAVING]
        if len(chosen) < most and all(evicted[victim.placement] < victim.disruptions for victim in live):
            chosen.append(row)
            evicted.update(victim.placement for victim in live if victim.state != WAITING)
    return chosen


def _weigh(frame: Frame, row: int, victims: tuple[PlacedBinding, ...]) -> tuple[int, int, int, int, str]:
    """The smallest is the least loss. Placements that began last lose least."""
    live = [victim for victim in victims if victim.state != LEAVING]
    highest = max((victim.priority for victim in live), default=-_OFFSET)
    total = sum(victim.priority + _OFFSET for victim in live)
    return highest, total, len(live), -min((victim.started for victim in live), default=0), frame.name(row)
