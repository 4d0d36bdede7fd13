"""Namespaced placements go only to clusters that have their namespace.

A member reports its namespaces in a list that may be cut. A truncated list does not prove that a name is missing, so
such a cluster passes, with a warning.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from fleet.framework.arguments import RawArgs
from fleet.framework.context import NAMESPACE_UNCONFIRMED as UNCONFIRMED_WARNING
from fleet.framework.context import HookContext
from fleet.framework.explaining import ClusterEvent, ClusterEventKind
from fleet.framework.handle import Handle
from fleet.framework.policy.reads import NamespaceRead
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.views import PlacementPolicy
from fleet.snapshot.columns.bitset import Mask, to_bools
from fleet.snapshot.columns.interned import (
    NAMESPACE_MISSING,
    NAMESPACE_UNCONFIRMED,
    NAMESPACES_UNREPORTED,
    InternedColumn,
)
from fleet.snapshot.frame import Frame

_UNREPORTED, _MISSING = 1, 2


class NamespaceAffinity(PluginTraits):
    READS = ("namespaces",)
    READS_POLICY_ONLY = True
    ROW_LOCAL = True
    REASONS = ReasonTable(
        Reason(
            "NamespaceUnknown",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "cluster has no namespace information available",
            short="namespaces not reported",
            lines=lambda *_: (),
            about_cluster_only=True,
        ),
        Reason(
            "NamespaceMissing",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "target namespace does not exist on cluster",
            short=lambda details: f"namespace {details['namespace']} missing",
            lines=lambda *_: (),
            about_cluster_only=True,
        ),
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del raw, handle

    def name(self) -> str:
        return "NamespaceAffinity"

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        del ctx, state, frame
        return None, None if req.namespace else Status.new(Code.SKIP)

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del state
        column = frame.namespace(req.namespace)
        unconfirmed = column.eq(NAMESPACE_UNCONFIRMED) & alive
        if unconfirmed:
            ctx.warn(UNCONFIRMED_WARNING, req.namespace, unconfirmed)
        unreported, missing = column.eq(NAMESPACES_UNREPORTED), column.eq(NAMESPACE_MISSING)
        reasons = np.full(frame.size, _MISSING, dtype=np.uint16)
        reasons[to_bools(unreported, frame.size)] = _UNREPORTED
        return Verdict(ok=~(unreported | missing), reason=reasons)

    def sign(self, req: PlacementRequest) -> Hashable:
        return req.namespace

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> Mapping[str, object]:
        del frame, row, reason
        return {"namespace": req.namespace}

    def explanation_columns(self, req: PlacementRequest, frame: Frame) -> Sequence[InternedColumn[Any]]:
        return (frame.namespace(req.namespace),)

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        return (ClusterEvent(ClusterEventKind.UPDATE_NAMESPACES, (namespace,)),) if namespace else ()

    def list_reads(self, req: PlacementRequest) -> tuple[NamespaceRead, ...]:
        return (NamespaceRead("metadata.namespace", req.namespace),) if req.namespace else ()
