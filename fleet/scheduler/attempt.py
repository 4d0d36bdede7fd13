"""One attempt for one placement: read, decide, write, publish.

Every step may be repeated after a failure at any point, because everything is derived again from what the hub has. What
went wrong is classified here (`records.AttemptResult`); when to try again is left to `loop` and the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import (
    ApiError,
    InvalidKey,
    LeadershipLost,
    NotLeading,
    PluginError,
    QueueClosed,
    StaleInputs,
)
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.request import PlacementRequest, compile_request
from fleet.framework.runtime.framework import Framework
from fleet.framework.status import as_error
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.resource import join_key, key_of
from fleet.model.keys import PARENT_PLACEMENT, SCHEDULER_CLEANUP
from fleet.model.views import Binding, Observed, Placement, PolicySnapshot
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.dispatch.binding_writes import raise_failure
from fleet.scheduler.dispatch.status_calls import asks_the_same
from fleet.scheduler.dispatch.writing import Writing
from fleet.scheduler.telemetry.kubernetes_events import SchedulingEvents

log = structlog.get_logger(__name__)

_STOPPING: Final = (NotLeading, LeadershipLost, QueueClosed)


class Attempts:
    def __init__(
        self,
        caches: Caches,
        framework: Framework,
        writing: Writing,
        *,
        reports: SchedulingEvents,
        clock: Clock,
        reads_live: bool = False,
        on_decided: Callable[[], None] = lambda: None,
    ) -> None:
        """With `reads_live`, every attempt lists the bindings, not only where the cache may lack a write of ours.
        `on_decided` is called right after every decision, whatever came of it."""
        self._caches = caches
        self._framework = framework
        self._writing = writing
        self._reports = reports
        self._clock = clock
        self._reads_live = reads_live
        self._on_decided = on_decided
        self._doubtful: set[str] = set()
        self._requests = Requests()

    async def run(self, key: str, *, number: int, triggers: tuple[str, ...] = ()) -> AttemptRecord:
        """Raises only when nothing may be written any more."""
        record = AttemptRecord(key=key, number=number, triggers=triggers, started=epoch_nanoseconds(self._clock))
        try:
            record.result = await self._iterate(record)
        except _STOPPING:
            raise
        except InvalidKey as error:
            record.result, record.error = AttemptResult.GONE, error
        except (ApiError, StaleInputs) as error:
            record.result, record.error = AttemptResult.TRANSIENT, error
        except Exception as error:
            record.result, record.error = AttemptResult.INTERNAL, error
            self._report_failure(key, error)
        self._remember_doubt(record)
        return record

    async def _iterate(self, record: AttemptRecord) -> AttemptResult:
        key = record.key
        kinds = self._caches.kinds_of(key)
        # A cache that lacks a placement is no proof that it does not exist.
        placement = self._caches.placement(key) or await kinds.placements.objects.find(key)
        if placement is None:
            return await self._forgotten(kinds, key)
        if placement.view.metadata.deletion_timestamp:
            return await self._clean_up(kinds, placement)
        latest = self._caches.latest_snapshots(key)
        if not latest:
            return AttemptResult.NO_SNAPSHOT
        if len(latest) > 1:
            names = ", ".join(sorted(one.view.metadata.name for one in latest))
            self._reports.report_several_latest(kinds, placement, names)
            raise StaleInputs(f"placement {key} has {len(latest)} latest policy snapshots: {names}")
        return await self._decide(record, kinds, placement, latest[0])

    async def _clean_up(self, kinds: PlacementKinds, placement: Observed[Placement]) -> AttemptResult:
        if SCHEDULER_CLEANUP in placement.view.metadata.finalizers:
            await self._writing.clean_up(kinds, placement)
        else:
            await self._erase_left_behind(kinds, key_of(placement.view.metadata))
        return AttemptResult.CLEANED_UP

    async def _forgotten(self, kinds: PlacementKinds, key: str) -> AttemptResult:
        """The hub says that the placement does not exist, and nobody but us makes bindings for this name."""
        await self._erase_left_behind(kinds, key)
        self.forget(key)
        return AttemptResult.GONE

    async def _erase_left_behind(self, kinds: PlacementKinds, key: str) -> None:
        await self._writing.erase_left_behind(kinds, key, self._caches.bindings(key))

    async def _decide(
        self,
        record: AttemptRecord,
        kinds: PlacementKinds,
        placement: Observed[Placement],
        snapshot: Observed[PolicySnapshot],
    ) -> AttemptResult:
        record.snapshot = snapshot
        request = self._requests.of(snapshot, placement_uid=placement.view.metadata.uid)
        if not request.problems and SCHEDULER_CLEANUP not in placement.view.metadata.finalizers:
            with self._timed(record, "finalizer"):
                if not await self._writing.claim(kinds, placement):
                    raise StaleInputs(f"placement {record.key} is being deleted")
        with self._timed(record, "read"):
            bindings = () if request.problems else await self._bindings(kinds, record.key)
        with self._timed(record, "decide"):
            decision = self._decided(record, request, snapshot, bindings)
        _raise_error_of(decision)
        if decision.operations:
            with self._timed(record, "write"):
                check = partial(self._check_asked, placement, snapshot)
                record.writes = await self._writing.operations(kinds, request, decision.operations, check=check)
            raise_failure(record.writes)
        with self._timed(record, "publish"):
            await self._publish(record, kinds, snapshot, decision)
        self._report(kinds, placement, decision)
        if request.problems:
            return AttemptResult.BAD_INPUT
        return AttemptResult.DECIDED if decision.fulfilled else AttemptResult.SHORT

    def _check_asked(self, placement: Observed[Placement], snapshot: Observed[PolicySnapshot]) -> None:
        """Whether anybody still wants what was decided: writing it may take a minute in a large fleet."""
        key, uid = key_of(placement.view.metadata), placement.view.metadata.uid
        now = self._caches.placement(key)
        if now is not None and (now.view.metadata.deletion_timestamp or now.view.metadata.uid != uid):
            raise StaleInputs(f"placement {key} was deleted while it was decided about")
        if not any(asks_the_same(snapshot.view, one.view) for one in self._caches.latest_snapshots(key)):
            raise StaleInputs(f"policy snapshot {key_of(snapshot.view.metadata)} changed while it was decided about")

    def _decided(
        self,
        record: AttemptRecord,
        request: PlacementRequest,
        snapshot: Observed[PolicySnapshot],
        bindings: tuple[Binding, ...],
    ) -> Decision:
        record.asked = self._framework.inputs(request, bindings, now=record.started, previous=snapshot.view.status)
        try:
            record.decision = self._framework.decide(record.asked, state=self._framework.new_state(record.number))
        finally:
            self._on_decided()
        return record.decision

    async def _publish(
        self, record: AttemptRecord, kinds: PlacementKinds, snapshot: Observed[PolicySnapshot], decision: Decision
    ) -> None:
        if decision.published is not None:
            record.status_written = await self._writing.status(kinds, snapshot, decision.published)

    def _report(self, kinds: PlacementKinds, placement: Observed[Placement], decision: Decision) -> None:
        """Everything is written by now: telling people about it must not make it a failure."""
        try:
            self._reports.report_decision(kinds, placement, decision)
        except Exception:
            log.exception("the decision could not be reported", placement=decision.request.key)

    def _report_failure(self, key: str, error: Exception) -> None:
        """Of the scheduler or a plugin; of the hub, people are told by the log and by metrics."""
        try:
            placement = self._caches.placement(key)
            if placement is not None:
                self._reports.report_failure(self._caches.kinds_of(key), placement, error)
        except Exception:
            log.exception("the failure could not be reported", placement=key)

    # --- bindings -----------------------------------------------------------------------------------------------------

    async def _bindings(self, kinds: PlacementKinds, key: str) -> tuple[Binding, ...]:
        """As new as our last write: the cache shows our own writes, unless we do not know whether one happened."""
        if self._reads_live or key in self._doubtful:
            return tuple(one.view for one in await self._writing.listed(kinds, key))
        return tuple(one.view for one in self._caches.bindings(key))

    def _remember_doubt(self, record: AttemptRecord) -> None:
        if record.result in (AttemptResult.TRANSIENT, AttemptResult.INTERNAL):
            self._doubtful.add(record.key)
        elif record.result is not AttemptResult.BAD_INPUT:
            self._doubtful.discard(record.key)

    def forget(self, key: str) -> None:
        """The placement is gone."""
        self._doubtful.discard(key)
        self._requests.forget(key)
        self._reports.forget(key)

    @contextmanager
    def _timed(self, record: AttemptRecord, phase: str) -> Iterator[None]:
        started = self._clock.elapsed()
        try:
            yield
        finally:
            record.seconds[phase] = self._clock.elapsed() - started


class Requests:
    """Requests of the newest snapshots, compiled once as long as nothing changes that they are made of."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[object, PlacementRequest]] = {}

    def of(self, snapshot: Observed[PolicySnapshot], *, placement_uid: str) -> PlacementRequest:
        metadata = snapshot.view.metadata
        made_of = (metadata.uid, metadata.generation, metadata.annotations, snapshot.view.spec, placement_uid)
        key = join_key(metadata.namespace, metadata.label(PARENT_PLACEMENT) or "")
        known = self._known.get(key)
        if known is None or known[0] != made_of:
            known = self._known[key] = (made_of, compile_request(snapshot.view, placement_uid=placement_uid))
        return known[1]

    def forget(self, key: str) -> None:
        self._known.pop(key, None)


def _raise_error_of(decision: Decision) -> None:
    """What is no fault of the policy: stale inputs, or a plugin that failed."""
    if decision.outcome is Outcome.NEEDS_ANSWER:
        raise PluginError("a plugin asks for an answer from outside, and nobody here can give one")
    error = as_error(decision.error)
    if error is not None:
        raise error
