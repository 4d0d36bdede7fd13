"""Writes the status of a placement and its copy in a namespace, and reports events and metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import Conflict, ServerTimeout, StaleInputs, Unavailable
from fleet.kube.objects import RetryPolicy, call_with_retries
from fleet.model.timestamps import format_timestamp
from fleet.model.views import Observed, Placement
from fleet.placement.reconcile_context import ReconcileContext
from fleet.placement.snapshots.policy_snapshots import build_owner_reference
from fleet.placement.status.conditions import ConditionFinding
from fleet.placement.status.kubernetes_events import PlacementReporter
from fleet.placement.status.namespaced_status import NamespacedStatuses
from fleet.placement.status.placement_status import (
    DesiredStatus,
    build_status,
    decode_status,
    is_same_but_for_times,
)

_CALL_CLASS: Final = "status"


class _Seen(NamedTuple):
    placement: Observed[Placement]
    status: dict[str, Any]


def _see(placement: Observed[Placement]) -> _Seen:
    return _Seen(placement, decode_status(placement))


class PlacementStatusWriter:
    def __init__(
        self, namespaced: NamespacedStatuses, reports: PlacementReporter, *, retry_policy: RetryPolicy, clock: Clock
    ) -> None:
        self._namespaced = namespaced
        self._reports = reports
        self._retry_policy = retry_policy
        self._clock = clock

    async def publish(self, context: ReconcileContext, desired: DesiredStatus, *, namespace: str | None) -> None:
        """`namespace` is None if the status is not copied."""
        before = _see(context.placement)
        written = await self._write_status(context, before, desired)
        if namespace is not None:
            synced = await self._sync_copy(context, written, namespace=namespace)
            written = await self._write_status(context, written, desired.with_synced(synced))
        if written.status != before.status:
            self._reports.report_status_change(context, before=before.status, after=written.status)
        self._reports.update_metrics(context, written.status)

    async def _sync_copy(self, context: ReconcileContext, written: _Seen, *, namespace: str) -> ConditionFinding:
        return await self._namespaced.sync(
            written.placement,
            written.status,
            namespace=namespace,
            owner=build_owner_reference(context.kinds, context.placement),
            prefix=context.prefix,
        )

    async def _write_status(self, context: ReconcileContext, seen: _Seen, desired: DesiredStatus) -> _Seen:
        """The placement with that status. After a conflict the status is built again for the placement as it is now."""
        objects = replace(context.kinds.placements.objects, call_class=_CALL_CLASS)
        current: _Seen | None = seen

        async def attempt() -> _Seen:
            nonlocal current
            await objects.turns.wait(context.key)
            known, current = current, None
            placement = objects.find_newer(known.placement) if known else await objects.get(context.key)
            now = known if known and placement is known.placement else _see(placement)
            metadata = placement.view.metadata
            if metadata.generation != context.generation or metadata.uid != context.uid:
                raise StaleInputs(f"placement {context.key} was changed meanwhile")
            wanted = build_status(desired, placement, now.status, prefix=context.prefix, now=self._now())
            if is_same_but_for_times(wanted, now.status):
                return now
            return _see(await objects.replace_status({**placement.document_around_spec(), "status": wanted}))

        return await call_with_retries(
            attempt, retry_policy=self._retry_policy, on=(Conflict, Unavailable, ServerTimeout)
        )

    def _now(self) -> str:
        return format_timestamp(epoch_nanoseconds(self._clock))
