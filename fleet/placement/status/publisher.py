"""Writes the status of a placement, and whatever goes out with it: the copy in a namespace, events, the gauge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import Conflict, ServerTimeout, StaleInputs, Unavailable
from fleet.kube.patch import RetryPolicy, call_with_retries
from fleet.model.timestamps import format_timestamp
from fleet.model.views import Observed, Placement
from fleet.placement.reconcile_context import ReconcileContext
from fleet.placement.snapshots.policy_snapshots import build_owner_reference
from fleet.placement.status.conditions import ConditionFinding
from fleet.placement.status.kubernetes_events import PlacementReporter
from fleet.placement.status.namespaced_status import NamespacedStatuses
from fleet.placement.status.status import DesiredStatus, build_status, is_same_but_for_times

Json = dict[str, Any]

_CALL_CLASS: Final = "status"


class StatusWriter:
    def __init__(
        self, visible: NamespacedStatuses, reports: PlacementReporter, *, retry_policy: RetryPolicy, clock: Clock
    ) -> None:
        self._visible = visible
        self._reports = reports
        self._retry_policy = retry_policy
        self._clock = clock

    async def publish(self, look: ReconcileContext, statement: DesiredStatus, *, shown_in: str | None) -> None:
        """`shown_in` is None where the status is not to be shown in a namespace."""
        before = _status_document(look.placement)
        written = await self._write(look, look.placement, statement)
        if shown_in is not None:
            synced = await self._show(look, written, namespace=shown_in)
            written = await self._write(look, written, statement.with_synced(synced))
        after = before if written is look.placement else _status_document(written)
        if after != before:
            self._reports.published(look, before=before, after=after)
        self._reports.measured(look, after)

    async def _show(self, look: ReconcileContext, written: Observed[Placement], *, namespace: str) -> ConditionFinding:
        return await self._visible.show(
            written,
            _status_document(written),
            namespace=namespace,
            owner=build_owner_reference(look.kinds, look.placement),
            prefix=look.prefix,
        )

    async def _write(
        self, look: ReconcileContext, seen: Observed[Placement], statement: DesiredStatus
    ) -> Observed[Placement]:
        """The placement with that status. After a conflict the status is composed again for the placement as it is."""
        objects = replace(look.kinds.placements.objects, call_class=_CALL_CLASS)
        known: Observed[Placement] | None = seen

        async def attempt() -> Observed[Placement]:
            nonlocal known
            now, known = known or await objects.get(look.key), None
            if now.view.metadata.generation != look.generation or now.view.metadata.uid != look.uid:
                raise StaleInputs(f"placement {look.key} was changed meanwhile")
            document = now.document()
            wanted = build_status(statement, now, prefix=look.prefix, now=self._now())
            if is_same_but_for_times(wanted, document.get("status") or {}):
                return now
            return await objects.replace_status({**document, "status": wanted})

        return await call_with_retries(
            attempt, retry_policy=self._retry_policy, on=(Conflict, Unavailable, ServerTimeout)
        )

    def _now(self) -> str:
        return format_timestamp(epoch_nanoseconds(self._clock))


def _status_document(placement: Observed[Placement]) -> Json:
    status: Json = placement.document().get("status") or {}
    return status
