"""Attempt: one scheduling cycle of one placement: read, decide, write, publish.

Every step may be repeated after a failure at any point, because everything is derived again from the state of the hub.
Errors are classified here (`AttemptResult`); the queue decides when to try again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
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
from fleet.explain.remarks.mistakes import Mistake, find_mistakes
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.policy.size import has_more_parts
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.framework import Framework
from fleet.framework.state import CycleState
from fleet.framework.status import as_error
from fleet.informers.cache import Caches, PlacementKinds, PolicyVersion
from fleet.model.keys import SCHEDULER_CLEANUP
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Observed, Placement, PolicySnapshot
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.cleanup import Cleanup
from fleet.scheduler.dispatch.binding_calls import BindingWriter, Precondition, raise_failure
from fleet.scheduler.dispatch.status_calls import StatusWriter
from fleet.scheduler.profiles import Frameworks, read_scheduler_name
from fleet.scheduler.requests import PARTS_ON_LOOP, RequestCache
from fleet.scheduler.telemetry.kubernetes_events import SchedulingEvents
from fleet.worker_thread import WorkerThread

log = structlog.get_logger(__name__)

_VIEW: Final = attrgetter("view")
_STOPPING: Final = (NotLeading, LeadershipLost, QueueClosed)


class AttemptRunner:
    def __init__(
        self,
        caches: Caches,
        frameworks: Frameworks,
        *,
        bindings: BindingWriter,
        statuses: StatusWriter,
        cleanup: Cleanup,
        events: SchedulingEvents,
        clock: Clock,
        reads_live: bool = False,
        on_decided: Callable[[], None] = lambda: None,
        requests: RequestCache | None = None,
    ) -> None:
        """With `reads_live`, every attempt lists the bindings, not only if the cache may lack one of our own writes.
        `on_decided` is called right after every decision, with any outcome."""
        self._caches = caches
        self._frameworks = frameworks
        self._bindings = bindings
        self._statuses = statuses
        self._cleanup = cleanup
        self._events = events
        self._clock = clock
        self._reads_live = reads_live
        self._on_decided = on_decided
        self._uncertain: set[PlacementKey] = set()
        """Placements with writes of unknown outcome."""
        self._requests = requests or RequestCache()
        self._cursors: dict[str, int] = {}
        """By profile, the row at which the next scan of a part of the fleet begins."""
        self._thread = WorkerThread("decisions")

    async def run(self, key: PlacementKey, *, number: int, triggers: tuple[str, ...] = ()) -> AttemptRecord:
        """Raises only if no further write is allowed."""
        record = AttemptRecord(key=key, number=number, triggers=triggers, started=epoch_nanoseconds(self._clock))
        try:
            record.result = await self._schedule(record)
        except _STOPPING:
            raise
        except InvalidKey as error:
            record.result, record.error = AttemptResult.GONE, error
        except (ApiError, StaleInputs) as error:
            record.result, record.error = AttemptResult.TRANSIENT, error
        except Exception as error:
            record.result, record.error = AttemptResult.INTERNAL, error
            self._report_failure(key, error)
        self._note_uncertainty(record)
        return record

    async def _schedule(self, record: AttemptRecord) -> AttemptResult:
        key = record.key
        kinds = self._caches.kinds_of(key)
        # A cache that lacks a placement does not prove that it does not exist.
        placement = kinds.get_placement(key) or await kinds.placements.objects.find(str(key))
        if placement is None:
            return await self._finish_deleted(kinds, key)
        scheduler_name = read_scheduler_name(placement.view.metadata)
        if self._frameworks.is_foreign(scheduler_name):
            return AttemptResult.FOREIGN
        if placement.view.metadata.deletion_timestamp:
            return await self._clean_up(kinds, placement)
        latest = kinds.latest_snapshots(key)
        if not latest:
            return AttemptResult.NO_SNAPSHOT
        if len(latest) > 1:
            names = ", ".join(sorted(snapshot.view.metadata.name for snapshot in latest))
            self._events.report_several_latest(kinds, placement, names)
            raise StaleInputs(f"placement {key} has {len(latest)} latest policy snapshots: {names}")
        framework = self._frameworks.choose(scheduler_name)
        return await self._decide_and_write(record, framework, kinds, placement, latest[0])

    async def _clean_up(self, kinds: PlacementKinds, placement: Observed[Placement]) -> AttemptResult:
        if SCHEDULER_CLEANUP in placement.view.metadata.finalizers:
            await self._cleanup.clean_up(kinds, placement)
        else:
            await self._delete_orphans(kinds, PlacementKey.of(placement.view.metadata))
        return AttemptResult.CLEANED_UP

    async def _finish_deleted(self, kinds: PlacementKinds, key: PlacementKey) -> AttemptResult:
        """The API server has no such placement, and only the scheduler creates bindings with this label."""
        await self._delete_orphans(kinds, key)
        self.forget(key)
        return AttemptResult.GONE

    async def _delete_orphans(self, kinds: PlacementKinds, key: PlacementKey) -> None:
        await self._cleanup.delete_orphans(kinds, key, self._caches.bindings(key))

    async def _decide_and_write(
        self,
        record: AttemptRecord,
        framework: Framework,
        kinds: PlacementKinds,
        placement: Observed[Placement],
        snapshot: Observed[PolicySnapshot],
    ) -> AttemptResult:
        record.snapshot = snapshot
        metadata = placement.view.metadata
        is_large = has_more_parts(snapshot.view.spec.policy, PARTS_ON_LOOP)
        compile_latest = partial(self._requests.get, snapshot, placement=metadata)
        request = await self._thread.run(compile_latest) if is_large else compile_latest()
        if not request.problems and SCHEDULER_CLEANUP not in metadata.finalizers:
            with self._time_phase(record, "finalizer"):
                if await self._cleanup.add_finalizer(kinds, placement) is None:
                    raise StaleInputs(f"placement {record.key} is being deleted")
        with self._time_phase(record, "read"):
            bindings = () if request.problems else await self._read_bindings(kinds, record.key)
        with self._time_phase(record, "decide"):
            decision = await self._decide(record, framework, request, snapshot, bindings, is_large=is_large)
        _raise_error_of(decision)
        if decision.operations:
            with self._time_phase(record, "write"):
                precondition = Precondition(record.key, metadata.uid, PolicyVersion.of(snapshot.view))
                record.writes = await self._bindings.write_operations(
                    kinds, request, decision.operations, precondition=precondition
                )
            raise_failure(record.writes)
        with self._time_phase(record, "publish"):
            if decision.published is not None:
                record.status_written = await self._statuses.write_status(kinds, snapshot, decision.published)
        await self._report_decision(kinds, placement, decision, record.inputs, is_large=is_large)
        if request.problems:
            return AttemptResult.BAD_INPUT
        return AttemptResult.DECIDED if decision.fulfilled else AttemptResult.SHORT

    async def _decide(
        self,
        record: AttemptRecord,
        framework: Framework,
        request: PlacementRequest,
        snapshot: Observed[PolicySnapshot],
        bindings: tuple[Binding, ...],
        *,
        is_large: bool,
    ) -> Decision:
        """The columns that only a large policy reads are not kept: every heartbeat would have to look at them."""
        cursor = self._cursors.get(framework.scheduler_name, 0)
        inputs = framework.inputs(request, bindings, now=record.started, previous=snapshot.view.status, cursor=cursor)
        record.inputs = replace(inputs, frame=inputs.frame.apart()) if is_large else inputs
        state = framework.new_state(record.number)
        if is_large:
            record.decision = await self._thread.run(self._decide_and_render, framework, record.inputs, state)
        else:
            record.decision = self._run_plugins(framework, record.inputs, state)
        self._cursors[framework.scheduler_name] = record.decision.next_cursor % max(record.inputs.frame.count, 1)
        return record.decision

    def _decide_and_render(self, framework: Framework, inputs: DecisionInput, state: CycleState) -> Decision:
        decision = self._run_plugins(framework, inputs, state)
        _ = decision.published, decision.digest  # rendered at first use
        return decision

    def _run_plugins(self, framework: Framework, inputs: DecisionInput, state: CycleState) -> Decision:
        try:
            return framework.decide(inputs, state=state)
        finally:
            self._on_decided()

    async def _report_decision(
        self,
        kinds: PlacementKinds,
        placement: Observed[Placement],
        decision: Decision,
        inputs: DecisionInput | None,
        *,
        is_large: bool,
    ) -> None:
        """Everything is written by now: an error in reporting must not make it a failure."""
        try:
            mistakes: Sequence[Mistake] = ()
            if inputs is not None and not decision.request.problems:
                find = partial(find_mistakes, decision.request, decision.frame, inputs.profile)
                mistakes = await self._thread.run(find) if is_large else find()
            self._events.report_decision(kinds, placement, decision, mistakes)
        except Exception:
            log.exception("the decision could not be reported", placement=decision.request.key)

    def _report_failure(self, key: PlacementKey, error: Exception) -> None:
        """Of the scheduler or a plugin. Failures of the API server are in the log and the metrics only."""
        try:
            kinds = self._caches.kinds_of(key)
            placement = kinds.get_placement(key)
            if placement is not None:
                self._events.report_failure(kinds, placement, error)
        except Exception:
            log.exception("the failure could not be reported", placement=str(key))

    # --- bindings -----------------------------------------------------------------------------------------------------

    async def _read_bindings(self, kinds: PlacementKinds, key: PlacementKey) -> tuple[Binding, ...]:
        """From the cache, which has our own writes; live where the outcome of a write is unknown."""
        if self._reads_live or key in self._uncertain:
            return tuple(map(_VIEW, await self._bindings.list_live(kinds, key)))
        return tuple(map(_VIEW, self._caches.bindings(key)))

    def _note_uncertainty(self, record: AttemptRecord) -> None:
        if record.result in (AttemptResult.TRANSIENT, AttemptResult.INTERNAL):
            self._uncertain.add(record.key)
        elif record.result is not AttemptResult.BAD_INPUT:
            self._uncertain.discard(record.key)

    def forget(self, key: PlacementKey) -> None:
        """The placement is gone."""
        self._uncertain.discard(key)
        self._requests.forget(key)
        self._events.forget(key)

    @contextmanager
    def _time_phase(self, record: AttemptRecord, phase: str) -> Iterator[None]:
        started = self._clock.monotonic()
        try:
            yield
        finally:
            record.seconds[phase] = self._clock.monotonic() - started


def _raise_error_of(decision: Decision) -> None:
    """Errors that are not the policy's: stale inputs, or a plugin that failed."""
    if decision.outcome is Outcome.NEEDS_ANSWER:
        raise PluginError("a plugin asks for an external answer, which the scheduler does not provide")
    error = as_error(decision.error)
    if error is not None:
        raise error
