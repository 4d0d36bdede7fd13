"""Status of groups, written by the leader; and what a group gives up that could be bound in part only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import structlog

from fleet.clock import SECOND, Clock, epoch_nanoseconds
from fleet.errors import StaleInputs
from fleet.framework.operations import unschedule
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import Caches
from fleet.kube.objects import RetryPolicy, update_with_retries
from fleet.kube.workqueue import WorkQueue
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp
from fleet.model.views import Observed, PlacementGroup
from fleet.scheduler.companions import GANG
from fleet.scheduler.dispatch.binding_calls import BindingWriter, raise_failure
from fleet.scheduler.groups.groups import GroupProgress, Groups, is_live
from fleet.scheduler.queue.async_queue import AsyncQueue
from fleet.scheduler.queue.hints import GIVEN_BACK, QueueEvent
from fleet.scheduler.queue.item import ItemState

SCHEDULED: Final = "InitiallyScheduled"
DEGRADED: Final = "Degraded"
_UNWOUND: Final = "PlacementGroup/Unwound"

log = structlog.get_logger(__name__)


class GroupStatus:
    """Implements `GroupReports`."""

    def __init__(
        self,
        caches: Caches,
        groups: Groups,
        *,
        bindings: BindingWriter,
        queue: AsyncQueue,
        report_freed: Callable[[str, Mapping[str, int], PlacementKey], None],
        retry_policy: RetryPolicy,
        clock: Clock,
    ) -> None:
        self._caches, self._groups, self._bindings = caches, groups, bindings
        self._placements, self.report_freed = queue, report_freed
        self._retry_policy, self._clock = retry_policy, clock
        self._queue: WorkQueue[PlacementKey] = WorkQueue(clock=clock)
        groups.reports = self

    # --- for groups ---------------------------------------------------------------------------------------------------

    def requeue(self, keys: Collection[PlacementKey], trigger: str, *, in_flight: bool = True) -> None:
        items = {key: item for key in keys if (item := self._placements.peek(key)) is not None}
        self._placements.refresh(items, trigger=trigger)
        left = (ItemState.ERROR_BACKOFF,) if in_flight else (ItemState.ERROR_BACKOFF, ItemState.IN_FLIGHT)
        waiting = [key for key, item in items.items() if item.state not in left]
        self._placements.requeue(waiting, trigger=trigger)

    def requeue_after_backoff(self, keys: Collection[PlacementKey]) -> None:
        self._placements.handle_event(QueueEvent(GIVEN_BACK, among=frozenset(keys), plugins={GANG}, backs_off=True))

    def is_in_flight(self, key: PlacementKey) -> bool:
        return self._placements.is_in_flight(key)

    def list_in_flight(self) -> Collection[PlacementKey]:
        return self._placements.list_in_flight()

    def enqueue_status(self, group: PlacementKey) -> None:
        self._queue.add(group)

    async def store(self, group: PlacementKey) -> None:
        if await self._write(group) is None:
            raise StaleInputs(f"group {group} is gone")

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """While this process leads, until closed."""
        for name in self._groups.list_names():
            self._queue.add(name)
        await self._queue.work(self._reconcile, report=_log_failure)

    def close(self) -> None:
        self._queue.close()

    async def _reconcile(self, name: PlacementKey) -> None:
        if self._groups.find(name) is None:
            return
        await self._write(name)
        if self._groups.find_progress(name).unwinds:
            bound = self._groups.list_bound(name)
            await asyncio.gather(*(self._give_up(key) for key in bound))
            self._groups.end_unwinding(name)
            members = self._groups.list_members(name)
            for key in bound.keys() - {key for key in members if key in self._placements}:
                self._placements.add(key, trigger=_UNWOUND)
            self.requeue(members, _UNWOUND)
            await self._write(name)
        deadline, now = self._groups.find_deadline(name), epoch_nanoseconds(self._clock)
        if deadline is None:
            return
        if deadline <= now:
            self.requeue(self._groups.list_members(name), "PlacementGroup/TimedOut", in_flight=False)
        else:
            self._queue.add_after(name, (deadline - now) / SECOND)

    async def _give_up(self, key: PlacementKey) -> None:
        kinds = self._caches.kinds_of(key)
        held = [binding.view for binding in self._caches.bindings(key) if is_live(binding.view)]
        request = PlacementRequest(placement=key.name, namespace=key.namespace)
        raise_failure(await self._bindings.write_operations(kinds, request, map(unschedule, held)))

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _write(self, name: PlacementKey) -> Observed[PlacementGroup] | None:
        objects = self._caches.kinds_of(name).groups.objects
        cached = self._groups.find(name)
        if cached is None:
            return None

        def mutate(document: dict[str, Any]) -> dict[str, Any] | None:
            before = document.get("status") or {}
            status = self._build(name, document["metadata"].get("generation", 0), before.get("conditions", ()))
            return None if status == before else {**document, "status": status}

        return await update_with_retries(
            objects, str(name), mutate, retry_policy=self._retry_policy, cached=cached, status=True
        )

    def _build(self, name: PlacementKey, generation: int, before: Iterable[dict[str, Any]]) -> dict[str, Any]:
        progress, bound = self._groups.find_progress(name), self._groups.list_bound(name)
        status: dict[str, Any] = {
            "observedGeneration": generation,
            "members": len(self._groups.list_members(name)),
            "placed": len(bound),
            "conditions": list(self._build_conditions(name, progress, generation, before)),
        }
        domain = self._find_domain(name, {**progress.plan, **bound})
        if domain:
            status["domain"] = domain
        if progress.since is not None:
            status["waitingSince"] = format_timestamp(progress.since)
        if progress.plan:
            status["targets"] = [
                {"placement": key.name, "placementUID": progress.uids[key], "clusters": sorted(progress.plan[key])}
                for key in sorted(progress.plan, key=str)
            ]
        return status

    def _build_conditions(
        self, name: PlacementKey, progress: GroupProgress, generation: int, before: Iterable[dict[str, Any]]
    ) -> Iterable[dict[str, Any]]:
        known = {condition["type"]: condition for condition in before}
        now = format_timestamp(epoch_nanoseconds(self._clock))
        for type, (holds, reason, message) in (
            (SCHEDULED, self._describe_scheduled(name, progress)),
            (DEGRADED, _describe_degraded(progress)),
        ):
            status, former = str(holds), known.get(type, {})
            is_same = former.get("status") == status
            yield {
                "type": type,
                "status": status,
                "reason": reason,
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": former["lastTransitionTime"] if is_same else now,
            }

    def _describe_scheduled(self, name: PlacementKey, progress: GroupProgress) -> tuple[bool, str, str]:
        if progress.was_scheduled:
            return True, "Scheduled", "enough members were bound together"
        if progress.plan:
            return False, "Binding", "its members are being bound"
        if not self._groups.list_members(name):
            return False, "Waiting", "it has no members"
        deadline = self._groups.find_deadline(name)
        if deadline is not None and deadline <= epoch_nanoseconds(self._clock):
            return False, "TimedOut", progress.message or "it found no place in time"
        reason, _, message = progress.message.partition(": ")
        return (False, reason, message) if message else (False, "Waiting", "its members were not decided yet")

    def _find_domain(self, name: PlacementKey, placed: dict[PlacementKey, frozenset[str]]) -> str:
        group = self._groups.find(name)
        key = "" if group is None else group.view.spec.topology_key
        known = (self._caches.clusters.get(cluster) for on in placed.values() for cluster in sorted(on))
        labels = (cluster.metadata.labels or {} for cluster in known if cluster is not None)
        return next((each[key] for each in labels if key in each), "")


def _describe_degraded(progress: GroupProgress) -> tuple[bool, str, str]:
    if not progress.degraded:
        return False, "NotDegraded", "all are bound that were decided together"
    return True, "Unwinding" if progress.unwinds else "PartlyBound", progress.degraded


def _log_failure(group: PlacementKey, error: Exception) -> None:
    log.warning("the status of a group could not be written", group=str(group), error=str(error))
