"""Approvals on the hub: each answer goes to the placement that waits for it, parked or not.

Any replica of the API writes approvals; the leader sees them here. A placement that is parked is allowed or refused at
once, any other one is tried again. A denial is looked at again when it expires.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

from fleet.clock import SECOND, Clock, epoch_nanoseconds
from fleet.errors import NotFound
from fleet.framework.approvals import DENIED, PLUGIN, ApprovalFacts, judge
from fleet.informers.cache import Caches
from fleet.kube.resource import key_of
from fleet.kube.workqueue import WorkQueue
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import parse_timestamp
from fleet.model.views import ApprovalRule, Observed, Placement, PlacementApproval
from fleet.scheduler.binding.parked_placements import ParkedPlacements

ListRules = Callable[[PlacementKey, ApprovalFacts], list[ApprovalRule]]
Requeue = Callable[[PlacementKey, str], None]


_ORPHANED_FOR: Final = 60.0
"""Seconds after which an approval of an unknown placement is deleted."""

log = structlog.get_logger(__name__)


class ApprovalWatch:
    def __init__(
        self,
        caches: Caches,
        parked: ParkedPlacements,
        *,
        facts_of: Callable[[PlacementKey], ApprovalFacts],
        list_rules: ListRules,
        requeue: Requeue,
        observe: Callable[[str], None],
        clock: Clock,
    ) -> None:
        """`observe` gets the decision of each new approval."""
        self._caches, self._parked = caches, parked
        self._facts_of, self._list_rules = facts_of, list_rules
        self._requeue, self._observe = requeue, observe
        self._clock = clock
        self._due: WorkQueue[PlacementKey] = WorkQueue(clock=clock)
        self._started = False
        for kinds in caches.kinds:
            kinds.approvals.store.subscribe(self._on_approval)
            kinds.placements.store.subscribe(self._on_placement)

    async def run(self) -> None:
        """While this process leads, until closed."""
        self._started = True
        for kinds in self._caches.kinds:
            for approval in kinds.approvals.store.values():
                self._note_expiry(approval.view)
                self._due.add(_placement_of(approval.view))
        await self._due.work(self._process, report=_log_failure)

    def close(self) -> None:
        self._due.close()

    def _on_approval(self, old: Observed[PlacementApproval] | None, new: Observed[PlacementApproval] | None) -> None:
        known = old if new is None else new
        if not self._started or known is None or (old is not None and new is not None):
            return
        spec = known.view.spec
        key = _placement_of(known.view)
        placement = self._caches.placement(key)
        if placement is None or placement.view.metadata.uid != spec.placement_uid:
            self._due.add_after(key, _ORPHANED_FOR)
            return
        event = "Deleted" if new is None else "Recorded"
        if new is not None:
            self._observe(spec.decision)
            self._note_expiry(new.view)
        if new is None or not self._answer(key, spec.placement_uid, spec.cluster):
            self._requeue(key, f"Approval/{event} {known.view.metadata.name}")

    def _answer(self, key: PlacementKey, uid: str, cluster: str) -> bool:
        """Whether an attempt took the answer, also one that is about to wait, or waits for more of them."""
        facts = self._facts_of(key)
        answers = judge(self._list_rules(key, facts), facts, cluster, now=epoch_nanoseconds(self._clock))
        denied = next((answer.denied for answer in answers if answer.denied is not None), None)
        if denied is not None:
            reason = f": {denied.spec.message}" if denied.spec.message else ""
            text = f"{denied.spec.rule}: denied by {denied.spec.by.user}{reason}"
            return self._parked.reject(uid, PLUGIN, text, cluster)
        if all(answer.suffice for answer in answers):
            return self._parked.allow(uid, PLUGIN, cluster)
        return self._parked.get(uid) is not None

    def _note_expiry(self, approval: PlacementApproval) -> None:
        """The rule may say an earlier time; the attempt at that time finds the denial gone, or is rejected again."""
        spec = approval.spec
        if spec.decision != DENIED or spec.expires_at is None:
            return
        remaining = parse_timestamp(spec.expires_at) - epoch_nanoseconds(self._clock)
        self._due.add_after(_placement_of(approval), max(remaining, 0) / SECOND)

    def _on_placement(self, old: Observed[Placement] | None, new: Observed[Placement] | None) -> None:
        if self._started and old is not None and new is None:
            self._due.add(PlacementKey.of(old.view.metadata))

    async def _process(self, key: PlacementKey) -> None:
        """Deletes the approvals of placements that are gone, and has another look at a placement whose denial has
        expired."""
        approvals = self._caches.approvals(key)
        if not approvals:
            return
        kinds = self._caches.kinds_of(key)
        # A cache that lacks a placement does not prove that it does not exist.
        placement = kinds.get_placement(key) or await kinds.placements.objects.find(str(key))
        uid = "" if placement is None else placement.view.metadata.uid
        now = epoch_nanoseconds(self._clock)
        for approval in approvals:
            metadata, spec = approval.view.metadata, approval.view.spec
            if spec.placement_uid != uid:
                with suppress(NotFound):
                    await kinds.approvals.objects.delete(key_of(metadata), uid=metadata.uid)
            elif spec.decision == DENIED and spec.expires_at and parse_timestamp(spec.expires_at) <= now:
                self._requeue(key, "Approval/Expired")


def _placement_of(approval: PlacementApproval) -> PlacementKey:
    return PlacementKey(approval.metadata.namespace, approval.spec.placement)


def _log_failure(key: PlacementKey, error: Exception) -> None:
    log.warning("approvals could not be cleaned up", placement=str(key), error=str(error))
