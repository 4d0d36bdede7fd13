"""Writes the status of a placement and its copy in a namespace, and reports events and metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

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
from fleet.placement.status.placement_status import DesiredStatus, build_status, is_same_but_for_times

_CALL_CLASS: Final = "status"


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
        before = context.placement.status_document()
        written = await self._write_status(context, _find_newest(context), desired)
        if namespace is not None:
            synced = await self._sync_copy(context, written, namespace=namespace)
            written = await self._write_status(context, written, desired.with_synced(synced))
        after = before if written is context.placement else written.status_document()
        if after != before:
            self._reports.report_status_change(context, before=before, after=after)
        self._reports.update_metrics(context, after)

    async def _sync_copy(
        self, context: ReconcileContext, written: Observed[Placement], *, namespace: str
    ) -> ConditionFinding:
        return await self._namespaced.sync(
            written,
            written.status_document(),
            namespace=namespace,
            owner=build_owner_reference(context.kinds, context.placement),
            prefix=context.prefix,
        )

    async def _write_status(
        self, context: ReconcileContext, seen: Observed[Placement], desired: DesiredStatus
    ) -> Observed[Placement]:
        """The placement with that status. After a conflict the status is built again for the placement as it is now."""
        objects = replace(context.kinds.placements.objects, call_class=_CALL_CLASS)
        current: Observed[Placement] | None = seen

        async def attempt() -> Observed[Placement]:
            nonlocal current
            now, current = current or await objects.get(context.key), None
            if now.view.metadata.generation != context.generation or now.view.metadata.uid != context.uid:
                raise StaleInputs(f"placement {context.key} was changed meanwhile")
            wanted = build_status(desired, now, prefix=context.prefix, now=self._now())
            if is_same_but_for_times(wanted, now.status_document()):
                return now
            return await objects.replace_status({**now.document_around_spec(), "status": wanted})

        return await call_with_retries(
            attempt, retry_policy=self._retry_policy, on=(Conflict, Unavailable, ServerTimeout)
        )

    def _now(self) -> str:
        return format_timestamp(epoch_nanoseconds(self._clock))


def _find_newest(context: ReconcileContext) -> Observed[Placement]:
    """The scheduler adds its finalizer while a new placement is reconciled; the older object would be a conflict."""
    stored = None if context.reads_live else context.kinds.placements.store.get(context.key)
    return stored if stored is not None and stored.view.metadata.uid == context.uid else context.placement
