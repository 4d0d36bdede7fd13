"""Tainted clusters accept only placements that tolerate each of their taints."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from fleet.framework.arguments import RawArgs
from fleet.framework.context import HookContext
from fleet.framework.explaining import (
    MOST_SUGGESTIONS,
    ClusterEvent,
    ClusterEventKind,
    Edit,
    RejectedClusters,
    Suggestion,
)
from fleet.framework.handle import Handle
from fleet.framework.policy.reads import TaintRead
from fleet.framework.request import TOLERATIONS_FIELD, PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code
from fleet.framework.types import Details, PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.keys import PICK_FIXED
from fleet.model.views import PlacementPolicy, Taint, Toleration, find_untolerated, tolerates
from fleet.snapshot.columns.interned import InternedColumn
from fleet.snapshot.frame import Frame

_EVENTS: Final = (ClusterEvent(ClusterEventKind.UPDATE_TAINTS),)


def _short(details: Details) -> str:
    value = details.get("value")
    return f"untolerated taint {{{details['key']}: {value}}}" if value else f"untolerated taint {{{details['key']}}}"


def _name_taint(details: Details) -> str:
    value = details.get("value")
    return f"{details['key']}{f'={value}' if value else ''}:{details['effect']}"


class TaintToleration(PluginTraits):
    READS = ("taints",)
    READS_POLICY_ONLY = True
    ROW_LOCAL = True
    REASONS = ReasonTable(
        Reason(
            "UntoleratedTaint",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "taint &{{Key:{key} Value:{value} Effect:{effect}}} cannot be tolerated",
            short=_short,
            lacks=_name_taint,
            about_cluster_only=True,
        )
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "TaintToleration"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del ctx, state, alive
        repelled = 0
        for taints, rows in frame.taints.distinct():
            if find_untolerated(taints, req.tolerations) is not None:
                repelled |= rows
        return Verdict(ok=~repelled)

    def sign(self, req: PlacementRequest) -> Hashable:
        return req.tolerations

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        del reason
        taint = find_untolerated(frame.taints.value(row) or (), req.tolerations)
        if taint is None:
            return {}
        return {"key": taint.key, "value": taint.value, "effect": taint.effect}

    # --- explaining ---------------------------------------------------------------------------------------------

    def explanation_columns(self, req: PlacementRequest, frame: Frame) -> Sequence[InternedColumn[Any]]:
        return (frame.taints,)

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        return _EVENTS

    def list_reads(self, req: PlacementRequest) -> Iterator[TaintRead]:
        for position, toleration in enumerate(req.tolerations):
            if toleration.key:
                value = None if toleration.operator == "Exists" else toleration.value
                yield TaintRead(f"{TOLERATIONS_FIELD}[{position}]", toleration.key, value)

    def suggest(self, rejected: RejectedClusters) -> Iterator[Suggestion]:
        """Tolerations for each set of taints that is in the way, the most frequent first; or the taints go."""
        frame, tolerations = rejected.frame, rejected.request.tolerations
        by_taints: dict[tuple[Taint, ...], int] = {}
        for taints, rows in frame.taints.distinct():
            if rows & rejected.rows:
                untolerated = _find_untolerated(taints, tolerations)
                by_taints[untolerated] = by_taints.get(untolerated, 0) | rows & rejected.rows
        ordered = sorted(by_taints, key=lambda taints: (len(taints), -by_taints[taints].bit_count(), repr(taints)))
        if rejected.request.placement_type != PICK_FIXED:
            yield from (Suggestion([_tolerate(taint) for taint in taints]) for taints in ordered[:MOST_SUGGESTIONS])
        by_number: dict[int, int] = {}
        for taints in ordered:
            by_number[len(taints)] = by_number.get(len(taints), 0) | by_taints[taints]
        cheapest = (row for rows in by_number.values() for row in frame.sort_by_name(rows))
        yield from rejected.suggest_per_cluster(
            lambda row: [
                _remove(frame.name(row), taint)
                for taint in _find_untolerated(frame.taints.value(row) or (), tolerations)
            ],
            cheapest,
        )


def _find_untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> tuple[Taint, ...]:
    left = (taint for taint in taints if not any(tolerates(toleration, taint) for toleration in tolerations))
    return tuple(dict.fromkeys(left))


def _tolerate(taint: Taint) -> Edit:
    return {"op": "tolerate", "key": taint.key, "value": taint.value, "effect": taint.effect}


def _remove(cluster: str, taint: Taint) -> Edit:
    return {"op": "removeTaint", "cluster": cluster, "key": taint.key, "value": taint.value, "effect": taint.effect}
