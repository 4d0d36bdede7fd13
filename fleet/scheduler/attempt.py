"""Attempt: one scheduling cycle of one placement: read, decide, act, write, publish.

A worker is busy with it until it is decided and permitted; writes and waits follow without the worker. Every step may
be repeated after a failure at any point, because everything is derived again from the state of the hub. Errors are
classified here (`AttemptResult`); the queue decides when to try again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import Final

import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import ApiError, ExtenderUnavailable, InvalidKey, PluginError, StaleInputs
from fleet.explain.remarks.mistakes import Mistake, find_mistakes
from fleet.external.extender_client import ExtenderClient
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.policy.quotas import Quotas
from fleet.framework.policy.size import has_more_parts
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.framework import Framework
from fleet.framework.runtime.reserve_permit import PermitResult
from fleet.framework.state import CycleState
from fleet.framework.status import as_error
from fleet.informers.cache import Caches, PlacementKinds, PolicyVersion
from fleet.informers.placed_feeds import RecentPlacements, select_new
from fleet.model.keys import SCHEDULER_CLEANUP
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Observed, Placement, PolicySnapshot
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.binding.binding_cycle import STOPPING, BindingCycle, BindingCycles, CycleFailed
from fleet.scheduler.binding.handover import Handover
from fleet.scheduler.cleanup import Cleanup
from fleet.scheduler.companions import GANG, Companions
from fleet.scheduler.dispatch.binding_calls import BindingWriter, Precondition, raise_failure
from fleet.scheduler.dispatch.status_calls import StatusWriter
from fleet.scheduler.groups.group_attempt import GroupAttempt, GroupMember, GroupRejected
from fleet.scheduler.groups.groups import Groups
from fleet.scheduler.groups.growing_overlay import Overlay
from fleet.scheduler.preemption.preemptions import Preemptions
from fleet.scheduler.profiles.frameworks import Frameworks
from fleet.scheduler.requests import PARTS_ON_LOOP, RequestCache
from fleet.scheduler.telemetry.kubernetes_events import FAILED, MOST_MISTAKES, SchedulingEvents
from fleet.worker_thread import WorkerThread

log = structlog.get_logger(__name__)

_VIEW: Final = attrgetter("view")


@dataclass(slots=True, kw_only=True)
class AttemptScope:
    """What an attempt is about, once it is known what to decide."""

    record: AttemptRecord
    handover: Handover
    framework: Framework
    kinds: PlacementKinds
    placement: Observed[Placement]
    snapshot: Observed[PolicySnapshot]
    request: PlacementRequest
    is_large: bool
    group: GroupAttempt | None = None
    """Decides the placement together with others."""
    state: CycleState = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.framework.new_state(self.record.number)

    def renew_state(self) -> None:
        """For another run of the decision."""
        self.state.expire()
        self.state = self.framework.new_state(self.record.number)

    @property
    def precondition(self) -> Precondition:
        uid, policy = self.placement.view.metadata.uid, PolicyVersion.of(self.snapshot.view)
        return Precondition(self.record.key, uid, policy)


class AttemptRunner:
    def __init__(
        self,
        caches: Caches,
        frameworks: Frameworks,
        *,
        bindings: BindingWriter,
        statuses: StatusWriter,
        cleanup: Cleanup,
        cycles: BindingCycles,
        thread: WorkerThread,
        events: SchedulingEvents,
        clock: Clock,
        reads_live: bool = False,
        on_decided: Callable[[], None] = lambda: None,
        requests: RequestCache | None = None,
        quotas_of: Callable[[PlacementKey], Quotas] = lambda _: (),
        companions: Companions | None = None,
        extenders: ExtenderClient | None = None,
        end_hold: Callable[[PlacementKey], None] = lambda _: None,
        note_end: Callable[[PlacementKey], None] = lambda _: None,
        note_decision: Callable[[PlacementKey, CompiledProfile, frozenset[str]], None] = lambda *_: None,
        note_gone: Callable[[PlacementKey], None] = lambda _: None,
        recent: RecentPlacements | None = None,
        preemptions: Preemptions | None = None,
        groups: Groups | None = None,
    ) -> None:
        """With `reads_live`, every attempt lists the bindings, not only if the cache may lack one of our own writes.
        `on_decided` is called right after every decision, with any outcome, and `note_decision` with the plugins that
        rejected clusters; `end_hold` when the outcome of writes is known, `note_end` when an attempt has ended,
        `note_gone` when a placement is gone, or leaves and has no bindings."""
        self._caches = caches
        self._frameworks = frameworks
        self._bindings = bindings
        self._statuses = statuses
        self._cleanup = cleanup
        self._cycles = cycles
        self._reserving = asyncio.Lock()
        """Held from a decision until its clusters are reserved, which the next decision reads."""
        self._events = events
        self._clock = clock
        self._reads_live = reads_live
        self._end_hold = end_hold
        self._note_end = note_end
        self._note_decision, self._note_gone = note_decision, note_gone
        self._on_decided = on_decided
        self._uncertain: set[PlacementKey] = set()
        """Placements with writes of unknown outcome."""
        self._companions = companions or Companions(caches)
        self._requests = requests or RequestCache(self._companions.scheduler_name_of, self._companions.annotations_of)
        self._extenders = extenders or ExtenderClient()
        self._recent = recent
        self._preemptions, self._groups = preemptions, groups
        self._rejectors: dict[PlacementKey, frozenset[str] | None] = {}
        """Of the attempts that have read the fleet; None until they are decided."""
        self._group_attempts: dict[PlacementKey, GroupAttempt] = {}
        """Under way, by member."""
        self._cursors: dict[str, int] = {}
        """By profile, the row at which the next scan of a part of the fleet begins."""
        self._thread = thread
        self._quotas_of = quotas_of

    async def run(
        self,
        key: PlacementKey,
        handover: Handover,
        *,
        number: int,
        triggers: tuple[str, ...] = (),
        group: GroupAttempt | None = None,
        is_unseen: bool = False,
    ) -> AttemptRecord:
        """Raises only if no further write is allowed. `group` has attempts for other members of the same group."""
        record = AttemptRecord(key=key, number=number, triggers=triggers, started=epoch_nanoseconds(self._clock))
        if group is not None:
            self._group_attempts[key] = group
        try:
            record.result = await self._schedule(record, handover, group, is_unseen=is_unseen)
        except STOPPING:
            raise
        except CycleFailed as error:
            self._note_failure(record, error)
        except InvalidKey as error:
            record.result, record.error = AttemptResult.GONE, error
        except (ApiError, StaleInputs, ExtenderUnavailable) as error:
            record.result, record.error = AttemptResult.TRANSIENT, error
        except Exception as error:
            record.result, record.error = AttemptResult.INTERNAL, error
            self._report_failure(key, error)
        finally:
            if group is not None:
                group.leave(key)
                del self._group_attempts[key]
            self._rejectors.pop(key, None)
            if self._recent is not None:
                self._recent.settle(key)
        self._note_end(key)
        self._note_uncertainty(record)
        if self._preemptions is not None:
            self._preemptions.note_result(record)
        if self._groups is not None:
            self._groups.note_result(record)
        return record

    def find_rejectors(self, key: PlacementKey) -> frozenset[str] | None:
        """Of the attempt under way: none if it reads the fleet only later, None if it is being decided."""
        return self._rejectors.get(key, frozenset())

    def list_undecided(self) -> list[PlacementKey]:
        """Those whose attempts have read the fleet and are not decided."""
        return [key for key, rejectors in self._rejectors.items() if rejectors is None]

    def list_together(self, key: PlacementKey) -> frozenset[PlacementKey]:
        """It, and those that the attempt under way decides with it."""
        group = self._group_attempts.get(key)
        return frozenset((key,)) if group is None else group.keys

    def is_large(self, key: PlacementKey) -> bool:
        """Whether its attempts compute in the thread."""
        latest = self._caches.latest_snapshots(key)
        return len(latest) == 1 and _is_large(latest[0])

    async def _schedule(
        self, record: AttemptRecord, handover: Handover, group: GroupAttempt | None, *, is_unseen: bool
    ) -> AttemptResult:
        key = record.key
        kinds = self._caches.kinds_of(key)
        # A cache that lacks a placement does not prove that it does not exist.
        placement = kinds.get_placement(key) or await kinds.placements.objects.find(str(key))
        if placement is None:
            await handover.leave_worker()
            return await self._finish_deleted(kinds, key)
        metadata = placement.view.metadata
        scheduler_name = self._companions.scheduler_name_of(metadata)
        is_foreign = self._frameworks.is_foreign(scheduler_name)
        # Our finalizer stays on a placement that is handed to another scheduler, as its bindings do.
        if metadata.deletion_timestamp and (not is_foreign or SCHEDULER_CLEANUP in metadata.finalizers):
            await handover.leave_worker()
            return await self._clean_up(kinds, placement)
        if is_foreign:
            return AttemptResult.FOREIGN
        latest = kinds.latest_snapshots(key)
        if not latest:
            return AttemptResult.NO_SNAPSHOT
        if is_unseen:
            raise StaleInputs(f"placement {key} was not in the cache when it was enqueued: its gates were not known")
        if len(latest) > 1:
            names = ", ".join(sorted(snapshot.view.metadata.name for snapshot in latest))
            self._events.report_several_latest(kinds, placement, names)
            raise StaleInputs(f"placement {key} has {len(latest)} latest policy snapshots: {names}")
        framework = self._frameworks.choose(scheduler_name)
        record.snapshot = latest[0]
        is_large = _is_large(latest[0])
        compile_latest = partial(self._requests.get, latest[0], placement=placement.view.metadata)
        scope = AttemptScope(
            record=record,
            handover=handover,
            framework=framework,
            kinds=kinds,
            placement=placement,
            snapshot=latest[0],
            request=await self._thread.run(compile_latest) if is_large else compile_latest(),
            is_large=is_large,
            group=group,
        )
        try:
            return await self._decide_and_act(scope)
        finally:
            scope.state.expire()

    async def _clean_up(self, kinds: PlacementKinds, placement: Observed[Placement]) -> AttemptResult:
        """Finalizers of others may keep the placement for long, and its end needs no attempt."""
        key = PlacementKey.of(placement.view.metadata)
        if SCHEDULER_CLEANUP in placement.view.metadata.finalizers:
            await self._cleanup.clean_up(kinds, placement)
        else:
            await self._delete_orphans(kinds, key)
        self.forget(key)
        return AttemptResult.CLEANED_UP

    async def _finish_deleted(self, kinds: PlacementKinds, key: PlacementKey) -> AttemptResult:
        """The API server has no such placement, and only the scheduler creates bindings with this label."""
        await self._delete_orphans(kinds, key)
        self.forget(key)
        return AttemptResult.GONE

    async def _delete_orphans(self, kinds: PlacementKinds, key: PlacementKey) -> None:
        await self._cleanup.delete_orphans(kinds, key, self._caches.bindings(key))

    # --- deciding and acting ------------------------------------------------------------------------------------------

    async def _decide_and_act(self, scope: AttemptScope) -> AttemptResult:
        record = scope.record
        if self._reads_live and scope.group is None:
            await self._add_finalizer(scope)
        with self._time_phase(record, "read"):
            bindings = () if scope.request.problems else await self._read_bindings(scope.kinds, record.key)
        if scope.group is not None and not scope.request.problems:
            decision = await self._bind_with_group(scope, bindings, scope.group)
        elif scope.framework.profile.has_effects and not scope.request.problems:
            decision = await self._run_binding_cycle(scope, bindings)
        else:
            _, decision = await self._decide(scope, bindings)
            self._begin_preemption(scope, decision)
            await self._write(scope, decision)
            if not scope.request.problems:
                await self._cycles.end_wait(record.key, scope.request.uid)
        with self._time_phase(record, "publish"):
            record.status_written = await self._publish(scope, decision)
        await self._report_decision(scope, decision)
        if scope.request.problems:
            return AttemptResult.BAD_INPUT
        return AttemptResult.DECIDED if decision.fulfilled else AttemptResult.SHORT

    async def _write(self, scope: AttemptScope, decision: Decision) -> None:
        """The whole decision at once: no plugin acts on it."""
        record = scope.record
        await self._add_finalizer(scope)
        if decision.operations:
            with self._time_phase(record, "write"):
                await scope.handover.leave_worker()
                record.writes = await self._bindings.write_operations(
                    scope.kinds, scope.request, decision.operations, precondition=scope.precondition
                )
            raise_failure(record.writes)

    async def _run_binding_cycle(self, scope: AttemptScope, bindings: tuple[Binding, ...]) -> Decision:
        """Returns the decision that was carried out: another than the first where a cluster could not be reserved."""
        record, handover = scope.record, scope.handover
        with self._open_cycle(scope) as cycle:
            async with self._reserving if scope.framework.profile.hooks["reserve"] else nullcontext():
                inputs, decision = await self._decide(scope, bindings)
                permitted: PermitResult | None = None
                if decision.newly_chosen:
                    permitted = await cycle.reserve_and_permit(inputs, decision, scope.state)
                    record.inputs, record.decision = permitted.inputs, permitted.decision
                    self._note_chosen(record.key, permitted.decision, bindings)
                self._begin_preemption(scope, decision if permitted is None else permitted.decision)
            if permitted is None:
                await self._write(scope, decision)
                await cycle.end_wait()
                return decision
            try:
                await handover.leave_worker()
                await cycle.raise_refusal()
                async with cycle.undoing():
                    await self._add_finalizer(scope)
                    permitted = await cycle.wait(handover, partial(self._report_parked, scope, cycle))
                    record.inputs, record.decision = permitted.inputs, permitted.decision
                    await cycle.prepare()
                    with self._time_phase(record, "write"):
                        await cycle.bind()
            finally:
                record.effects, record.writes = cycle.results, cycle.writes
            return permitted.decision

    async def _bind_with_group(
        self, scope: AttemptScope, bindings: tuple[Binding, ...], group: GroupAttempt
    ) -> Decision:
        """The same, where others of the group are decided before and after it, and all are bound or none."""
        record, handover = scope.record, scope.handover
        with self._open_cycle(scope) as cycle:

            async def decide(so_far: Overlay, nominated: Iterable[str]) -> tuple[DecisionInput, Decision]:
                scope.renew_state()
                return await self._decide(scope, bindings, lambda inputs: so_far.apply(inputs, nominated))

            async def reserve(inputs: DecisionInput, decision: Decision) -> PermitResult:
                permitted = await cycle.reserve_and_permit(inputs, decision, scope.state)
                self._note_chosen(record.key, permitted.decision, bindings)
                return permitted

            def recheck() -> None:
                if self._groups is not None and self._groups.find_group(record.key) != group.name:
                    raise StaleInputs(f"placement {record.key} has left group {group.name}")
                cycle.recheck()

            def keep_in_record(inputs: DecisionInput | None, decision: Decision | None) -> None:
                record.inputs, record.decision = inputs, decision

            def discard() -> None:
                if self._recent is not None:
                    self._recent.settle(record.key)

            member = GroupMember(
                record.key,
                scope.request.priority,
                decide,
                reserve,
                cycle.unreserve,
                discard,
                refuse=partial(self._cycles.parked.reject, scope.request.uid, GANG),
                record=keep_in_record,
                may_evict=self._preemptions is not None and self._may_evict(scope),
                keep_room=partial(self._keep_room, scope),
                seek_room=partial(self._keep_room, scope, {}),
            )
            try:
                permitted = await group.decide(member, self._reserving)
                if permitted is None:
                    decision = record.decision
                    assert decision is not None, "the group has decided the member"
                    await self._write(scope, decision)
                    await cycle.end_wait()
                    return decision
                await handover.leave_worker()
                await cycle.raise_refusal()
                async with cycle.undoing():
                    await self._add_finalizer(scope)
                    permitted = await cycle.wait(handover, partial(self._report_parked, scope, cycle))
                    record.inputs, record.decision = permitted.inputs, permitted.decision
                    await cycle.prepare()
                    handover.pause()
                    await group.commit(record.key, [target.cluster for target in permitted.targets], recheck)
                    await handover.resume()
                    with self._time_phase(record, "write"):
                        await cycle.bind()
            finally:
                record.effects, record.writes = cycle.results, cycle.writes
            return permitted.decision

    @contextmanager
    def _open_cycle(self, scope: AttemptScope) -> Iterator[BindingCycle]:
        is_partial = scope.framework.profile.partial_permit
        with self._cycles.parked.open(scope.record.key, scope.request, is_partial=is_partial) as item:
            cycle = BindingCycle(
                self._cycles,
                framework=scope.framework,
                kinds=scope.kinds,
                precondition=scope.precondition,
                item=item,
            )
            with closing(cycle):
                yield cycle

    async def _add_finalizer(self, scope: AttemptScope) -> None:
        if scope.request.problems or SCHEDULER_CLEANUP in scope.placement.view.metadata.finalizers:
            return
        with self._time_phase(scope.record, "finalizer"):
            await scope.handover.leave_worker()
            held = await self._cleanup.add_finalizer(scope.kinds, scope.placement)
            if held is None:
                raise StaleInputs(f"placement {scope.record.key} is being deleted")
            scope.placement = held

    async def _publish(self, scope: AttemptScope, decision: Decision) -> bool:
        published = decision.published
        if published is None:
            return False
        if published.differs_from(scope.snapshot.view.status):
            await scope.handover.leave_worker()
        return await self._statuses.write_status(scope.kinds, scope.snapshot, published)

    async def _decide(
        self,
        scope: AttemptScope,
        bindings: tuple[Binding, ...],
        adjust: Callable[[DecisionInput], DecisionInput] = lambda inputs: inputs,
    ) -> tuple[DecisionInput, Decision]:
        """The columns that only a large policy reads are not kept: every heartbeat would have to look at them."""
        record, framework = scope.record, scope.framework
        self._rejectors[record.key] = None
        self._read_quotas(scope)
        nominated = self._list_nominated(scope)
        inputs = framework.inputs(
            scope.request,
            bindings,
            now=record.started,
            previous=scope.snapshot.view.status,
            cursor=self._cursors.get(framework.scheduler_name, 0),
            nominated=nominated,
        )
        inputs = adjust(inputs)
        inputs = replace(inputs, frame=inputs.frame.apart(), rankings=None) if scope.is_large else inputs
        while True:
            with self._time_phase(record, "decide"):
                if scope.is_large:
                    decision = await self._thread.run(self._decide_and_render, framework, inputs, scope.state)
                else:
                    decision = self._run_plugins(framework, inputs, scope.state)
            record.inputs, record.decision = inputs, decision
            query = decision.pending_query
            if query is None or not self._extenders.can_answer(query):
                break
            with self._time_phase(record, "ask"):
                inputs = await self._extenders.answer(inputs, query)
            scope.renew_state()
        self._rejectors[record.key] = rejectors = frozenset(decision.rejectors)
        self._note_decision(record.key, framework.profile, rejectors)
        self._cursors[framework.scheduler_name] = decision.next_cursor % max(inputs.frame.count, 1)
        _raise_error_of(decision)
        self._note_chosen(record.key, decision, bindings)
        return inputs, decision

    def _read_quotas(self, scope: AttemptScope) -> None:
        if not scope.framework.profile.reads_quotas:
            return
        quotas = self._quotas_of(scope.record.key)
        if quotas != scope.request.quotas:
            scope.request = replace(scope.request, quotas=quotas)

    def _note_chosen(self, key: PlacementKey, decision: Decision, bindings: tuple[Binding, ...]) -> None:
        """In place of what an earlier decision of the attempt chose."""
        if self._recent is not None:
            self._recent.settle(key)
            self._recent.assume(key, select_new((target.cluster for target in decision.newly_chosen), bindings))

    def _list_nominated(self, scope: AttemptScope) -> tuple[str, ...]:
        key, profile = scope.record.key, scope.framework.profile
        waiting = self._cycles.list_nominated(key, scope.request) if profile.has_effects else ()
        preempting: tuple[str, ...] = ()
        if self._preemptions is not None and (profile.evicts or self._preemptions.list_nominated(key)):
            self._preemptions.prepare(key, scope.request)
            preempting = self._preemptions.list_nominated(key)
        hints = self._companions.find(key).list_hints(scope.record.started)
        return tuple(dict.fromkeys((*preempting, *waiting, *hints)))

    def _begin_preemption(self, scope: AttemptScope, decision: Decision) -> None:
        """Before the next decision."""
        if self._preemptions is not None and scope.framework.profile.evicts:
            self._preemptions.begin(scope.record.key, decision)

    def _may_evict(self, scope: AttemptScope) -> bool:
        self._read_quotas(scope)
        return scope.framework.profile.evicts and scope.request.may_evict

    def _keep_room(self, scope: AttemptScope, victims: Mapping[str, Collection[str]]) -> None:
        """For a member of a group. Without any clusters it seeks room."""
        if self._preemptions is not None:
            self._preemptions.begin_with_group(scope.record.key, scope.request, victims)

    def _decide_and_render(self, framework: Framework, inputs: DecisionInput, state: CycleState) -> Decision:
        decision = self._run_plugins(framework, inputs, state)
        _ = decision.published, decision.digest  # rendered at first use
        return decision

    def _run_plugins(self, framework: Framework, inputs: DecisionInput, state: CycleState) -> Decision:
        try:
            return framework.decide(inputs, state=state)
        finally:
            self._on_decided()

    # --- reporting ----------------------------------------------------------------------------------------------------

    def _report_parked(self, scope: AttemptScope, cycle: BindingCycle) -> None:
        scope.handover.park(replace(scope.record, result=AttemptResult.WAITING, effects=cycle.results))
        self._events.report_waiting(scope.kinds, scope.placement, cycle.describe_wait())

    async def _report_decision(self, scope: AttemptScope, decision: Decision) -> None:
        """Everything is written by now: an error in reporting must not make it a failure."""
        inputs = scope.record.inputs
        try:
            mistakes: Sequence[Mistake] = ()
            if inputs is not None and not decision.request.problems:
                find = partial(find_mistakes, decision.request, decision.frame, inputs.profile, most=MOST_MISTAKES)
                mistakes = await self._thread.run(find) if scope.is_large else find()
            self._events.report_decision(scope.kinds, scope.placement, decision, mistakes)
        except Exception:
            log.exception("the decision could not be reported", placement=decision.request.key)

    def _note_failure(self, record: AttemptRecord, error: CycleFailed) -> None:
        """A refusal of Reserve or Permit makes the placement wait; anything else backs off."""
        record.failed = failure = error.failure
        record.error = error
        if isinstance(error, GroupRejected):
            record.rejectors, record.effects = error.rejectors, (*record.effects, error.result)
        if failure.reason == "BindFailed":
            record.result = AttemptResult.BIND_FAILED
        else:
            record.result = AttemptResult.INTERNAL if failure.internal else AttemptResult.REJECTED
        self._report_failure(record.key, error, failure.reason)

    def _report_failure(self, key: PlacementKey, error: Exception, reason: str = FAILED) -> None:
        """Of the scheduler or a plugin. Failures of the API server are in the log and the metrics only."""
        try:
            kinds = self._caches.kinds_of(key)
            placement = kinds.get_placement(key)
            if placement is not None:
                self._events.report_failure(kinds, placement, error, reason)
        except Exception:
            log.exception("the failure could not be reported", placement=str(key))

    # --- bindings -----------------------------------------------------------------------------------------------------

    async def _read_bindings(self, kinds: PlacementKinds, key: PlacementKey) -> tuple[Binding, ...]:
        """From the cache, which has our own writes; live where the outcome of a write is unknown."""
        if self._reads_live or key in self._uncertain:
            bindings = tuple(map(_VIEW, await self._bindings.list_live(kinds, key)))
            self._end_hold(key)
            return bindings
        return tuple(map(_VIEW, self._caches.bindings(key)))

    def _note_uncertainty(self, record: AttemptRecord) -> None:
        if record.result in (AttemptResult.TRANSIENT, AttemptResult.INTERNAL, AttemptResult.BIND_FAILED):
            self._uncertain.add(record.key)
        elif record.result is not AttemptResult.BAD_INPUT and record.key in self._uncertain:
            self._uncertain.discard(record.key)
            self._end_hold(record.key)

    def forget(self, key: PlacementKey) -> None:
        """The placement is gone, or leaves and has no bindings."""
        self._uncertain.discard(key)
        self._end_hold(key)
        self._requests.forget(key)
        self._cycles.store.forget(key)
        self._events.forget(key)
        self._note_gone(key)

    @contextmanager
    def _time_phase(self, record: AttemptRecord, phase: str) -> Iterator[None]:
        started = self._clock.monotonic()
        try:
            yield
        finally:
            record.seconds[phase] = record.seconds.get(phase, 0.0) + self._clock.monotonic() - started


def _is_large(snapshot: Observed[PolicySnapshot]) -> bool:
    return has_more_parts(snapshot.view.spec.policy, PARTS_ON_LOOP)


def _raise_error_of(decision: Decision) -> None:
    """Errors that are not the policy's: stale inputs, or a plugin that failed."""
    if decision.outcome is Outcome.NEEDS_ANSWER:
        raise PluginError("a plugin asks for an external answer, which the scheduler does not provide")
    error = as_error(decision.error)
    if error is not None:
        raise error
