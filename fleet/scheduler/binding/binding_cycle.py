"""Binding cycle: the second half of an attempt, for profiles with plugins that act on a decision.

Reserve and Permit run for all targets before anything is written. Then come the wait for those who have to agree,
PreBind, the writes of bindings, and PostBind. After a failure what is reserved and not bound is unreserved in reverse.
When the process stops or no longer leads, nothing is undone: the next leader continues from what is on the hub.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import FleetError, LeadershipLost, NotLeading, QueueClosed
from fleet.framework.context import AskExtender, refuse_write
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.inspection import find_unfit
from fleet.framework.operations import Operation, Target, WriteGroup
from fleet.framework.request import PlacementRequest
from fleet.framework.runtime.effects import Effects, Failure, HookResult
from fleet.framework.runtime.framework import Framework
from fleet.framework.runtime.reserve_permit import PermitResult
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status, message_of
from fleet.framework.types import PluginTraits
from fleet.informers.cache import PlacementKinds
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.binding.handover import Handover
from fleet.scheduler.binding.parked_placements import ParkedPlacement, ParkedPlacements, Refusal, describe_wait
from fleet.scheduler.binding.waiting_store import (
    PERMIT,
    PRE_BIND,
    NominatedCluster,
    WaitingEntry,
    WaitingState,
    WaitingStore,
)
from fleet.scheduler.dispatch.binding_calls import BindingWriter, Precondition, WriteResult, raise_failure

STOPPING: Final = (NotLeading, LeadershipLost, QueueClosed)
"""Errors after which nothing is written, and nothing undone."""
EARLY_ANSWER: Final = "Permit/EarlyAnswer"
"""An approval came while the attempt was being refused for lack of it."""
DENIED: Final = "Permit/Denied"
"""A cluster was denied during a wait: another one may take its place."""
OUTDATED: Final = "Permit/Outdated"
"""Something changed during a wait that the decision was made from."""

log = structlog.get_logger(__name__)


class CycleFailed(FleetError):
    """A plugin refused a cluster or failed. Nothing that is not bound is reserved any more."""

    def __init__(self, failure: Failure) -> None:
        plugin, cluster = failure.status.plugin or "the scheduler", failure.target.cluster
        super().__init__(f"{plugin} at {failure.hook} of cluster {cluster}: {message_of(failure.status)}")
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingCycles:
    """The parts that the cycles of all attempts share."""

    bindings: BindingWriter
    parked: ParkedPlacements
    store: WaitingStore
    ask: AskExtender
    clock: Clock
    observe_wait: Callable[[str, float], None]
    """Called after every wait in Permit, with its result and its seconds."""
    hold_room: Callable[[PlacementKey], None]
    """Room that is unreserved from now on stays taken until the bindings of the placement are read anew."""
    claim_room: Callable[[PlacementRequest, Iterable[str]], Awaitable[str | None]] | None = None
    """Reserves it from other schedulers. Returns the first cluster where that fails; None where there are no others."""
    requeue: Callable[[PlacementKey, str], None]
    """Enqueues the placement again after this attempt, for a reason."""

    def list_nominated(self, key: PlacementKey, request: PlacementRequest) -> tuple[str, ...]:
        """The clusters that an attempt picks first."""
        return tuple(dict.fromkeys(target.cluster for target in self.store.resume(key, request).nominated))

    async def end_wait(self, key: PlacementKey, uid: str) -> None:
        """Of a profile that had plugins to wait for, after a decision of one that has none."""
        if not self.store.load(key, uid).is_empty:
            await self.store.publish(key, WaitingState(uid))


class BindingCycle:
    """Of one attempt."""

    def __init__(
        self,
        shared: BindingCycles,
        *,
        framework: Framework,
        kinds: PlacementKinds,
        precondition: Precondition,
        item: ParkedPlacement,
    ) -> None:
        self.writes: list[WriteResult] = []
        self._shared, self._framework, self._kinds = shared, framework, kinds
        self._precondition, self._item = precondition, item
        self._key = precondition.placement
        self._effects: Effects | None = None
        self._permitted: PermitResult | None = None
        self._unbound: tuple[Target, ...] = ()
        """Reserved and not bound, in rank order."""
        self._stored = shared.store.load(self._key, item.uid)
        self._resumed = shared.store.resume(self._key, item.placement)
        self._sent = 0
        """Writes that were begun."""

    @property
    def results(self) -> tuple[HookResult, ...]:
        """The answers of plugins so far, in the order in which they came."""
        return () if self._effects is None else tuple(self._effects.results)

    def close(self) -> None:
        """A plugin that keeps its context writes nothing any more, and nothing refers back to the attempt: inputs of a
        large fleet go at once, not when the garbage collector next runs."""
        if self._effects is not None:
            self._effects.ctx.write = refuse_write

    # --- Reserve and Permit -------------------------------------------------------------------------------------------

    async def reserve_and_permit(self, inputs: DecisionInput, decision: Decision, state: CycleState) -> PermitResult:
        """Right after the decision: the next one reads what is reserved here."""
        now = epoch_nanoseconds(self._shared.clock)
        effects = self._framework.effects(inputs, decision, state=state, now=now)
        effects.ctx.write = self._write
        effects.ctx.ask = self._shared.ask
        self._effects = effects
        self._permitted = await self._framework.reserve_and_permit(inputs, decision, effects)
        self._unbound = self._permitted.targets
        return self._permitted

    async def unreserve(self) -> None:
        """What is reserved, and nothing of it bound."""
        effects, _ = self._require()
        await effects.run_unreserve(self._unbound)
        self._unbound = ()

    async def raise_refusal(self) -> None:
        """Of Reserve or Permit. After Pending the chosen clusters are remembered, for the next attempt."""
        effects, permitted = self._require()
        failure = permitted.failure
        if failure is None:
            return
        self._raise_stopping(failure.status)
        self._report_violations(effects)
        entries = list(self._list_entries(effects, code=Code.PENDING))
        await self.end_wait(entries, permitted.decision.targets if _is_pending(failure) else ())
        if self._item.has_early_answers:
            self._shared.requeue(self._key, EARLY_ANSWER)
        raise CycleFailed(failure)

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def wait(self, handover: Handover, on_parked: Callable[[], None]) -> PermitResult:
        """Until every plugin has allowed every cluster. Raises CycleFailed otherwise. `on_parked` gives up the slot.
        Returns what is to be bound: in a profile with `partialPermit` maybe less than before."""
        effects, permitted = self._require()
        if not permitted.pending:
            return permitted
        started = self._shared.clock.monotonic()
        hooks = permitted.inputs.profile.hooks["permit"]
        codes = {entry.name: _timeout_code_of(entry.plugin) for entry in hooks}
        names = [target.cluster for target in permitted.targets]
        unfit = self._find_unfit(permitted.inputs, names)  # of what leaves from now on, `parked` hears
        if unfit is not None:
            self._raise_refused(effects, unfit)
        entries = [self._resume(entry) for entry in self._list_entries(effects, code=Code.WAIT)]
        self._shared.parked.park(self._item, entries, targets=names, timeout_codes=codes)
        on_parked()
        refusal = await self._wait_until_decided()
        self._shared.parked.on_change(self._key)
        await handover.resume()
        refusal = refusal or self._find_unfit(permitted.inputs, self._item.targets)
        result = "allowed" if refusal is None else refusal.result
        self._shared.observe_wait(result, self._shared.clock.monotonic() - started)
        if refusal is not None:
            self._raise_refused(effects, refusal)
        if len(self._unbound) < len(permitted.targets):
            self._permitted = await self._go_on_with_others(effects, permitted)
        return self._permitted or permitted

    async def _go_on_with_others(self, effects: Effects, permitted: PermitResult) -> PermitResult:
        kept = {target.cluster for target in self._unbound}
        refused = {target.cluster for target in permitted.targets} - kept
        rest = self._framework.decide_without(permitted, refused, effects)
        chosen = {target.cluster for target in rest.targets}
        await effects.run_unreserve([target for target in self._unbound if target.cluster not in chosen])
        self._unbound = rest.targets
        if not rest.decision.targets:
            last = next(result for result in reversed(effects.results) if result.target in refused)
            target = next(target for target in permitted.targets if target.cluster == last.target)
            raise CycleFailed(Failure("permit", target, last.status))
        return rest

    def recheck(self) -> None:
        """Raises if what was permitted is not to be bound any more: it has waited for others since."""
        effects, permitted = self._require()
        self._precondition.check(self._kinds)
        unfit = self._find_unfit(permitted.inputs, [target.cluster for target in permitted.targets])
        if unfit is not None:
            self._raise_refused(effects, unfit)

    def describe_wait(self) -> str:
        return describe_wait(self._item.entries)

    async def _wait_until_decided(self) -> Refusal | None:
        published: tuple[WaitingEntry, ...] = ()
        while entries := self._item.entries:
            if entries != published:
                published = entries
                await self._publish(entries, self._nominate(self._unbound, PERMIT))
            refusal = await self._item.wait_for_change(self._shared.clock)
            await self._leave_out()
            if refusal is not None:
                return refusal
        return None

    async def _leave_out(self) -> None:
        """What is refused while the other clusters go on is given back at once."""
        effects, _ = self._require()
        refusals = {refusal.cluster: refusal for refusal in self._item.take_left_out()}
        for refusal in refusals.values():
            self._record_refusal(effects, refusal)
        await effects.run_unreserve([target for target in self._unbound if target.cluster in refusals])
        self._unbound = tuple(target for target in self._unbound if target.cluster not in refusals)
        if refusals:
            self._shared.parked.on_change(self._key)

    def _resume(self, entry: WaitingEntry) -> WaitingEntry:
        """What remains of a wait that an earlier process began counts, not a new one."""
        for known in self._resumed.waiting:
            if known[:3] == entry[:3] and known.deadline is not None and entry.deadline is not None:
                return entry._replace(since=known.since, deadline=min(known.deadline, entry.deadline))
        return entry

    def _list_entries(self, effects: Effects, *, code: Code) -> Iterator[WaitingEntry]:
        """Of the clusters that are chosen in the end."""
        _, permitted = self._require()
        chosen = {target.cluster for target in permitted.decision.targets}
        for result in effects.results:
            if result.hook == "permit" and result.status.code is code and result.target in chosen:
                deadline = result.deadline if code is Code.WAIT else None
                details = result.status.details
                for rule in details.get("rules") or (details.get("rule", ""),):
                    yield WaitingEntry(result.target, result.plugin, str(rule), effects.ctx.now, deadline)

    def _find_unfit(self, inputs: DecisionInput, clusters: Sequence[str]) -> Refusal | None:
        """The decision is as old as the wait: its clusters are judged again, each by itself."""
        now = epoch_nanoseconds(self._shared.clock)
        unfit = find_unfit(replace(inputs, frame=self._framework.cache_view(), now=now), clusters)
        if unfit is None:
            return None
        cluster, plugin = unfit
        why = f"{plugin} rejects it now" if plugin else "it left the fleet"
        text = f"cluster {cluster} no longer qualifies: {why}"
        return Refusal(Status(Code.UNSCHEDULABLE, (text,), plugin=plugin), cluster, "ended")

    def _raise_refused(self, effects: Effects, refusal: Refusal) -> None:
        status = refusal.status
        target = next((target for target in self._unbound if target.cluster == refusal.cluster), self._unbound[0])
        if refusal.result == "ended":
            self._shared.requeue(self._key, OUTDATED)
        self._record_refusal(effects, refusal._replace(cluster=target.cluster))
        raise CycleFailed(Failure("permit", target, status))

    def _record_refusal(self, effects: Effects, refusal: Refusal) -> None:
        status = refusal.status
        if refusal.result == "rejected" and effects.is_about_cluster(status):
            self._shared.requeue(self._key, DENIED)
        effects.results.append(HookResult("permit", status.plugin, refusal.cluster, status))

    # --- PreBind, Bind, PostBind --------------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """PreBind, for all targets before the first write. The chosen clusters are known to the next leader."""
        effects, permitted = self._require()
        effects.ctx.now = epoch_nanoseconds(self._shared.clock)
        if await effects.needs_pre_bind(permitted.targets):
            await self._publish((), self._nominate(permitted.targets, PRE_BIND))
        failure = await effects.run_pre_bind(permitted.targets)
        if failure is not None:
            self._raise_stopping(failure.status)
            raise CycleFailed(failure)
        await self._claim_room(permitted)

    async def _claim_room(self, permitted: PermitResult) -> None:
        if self._shared.claim_room is None:
            return
        names = [target.cluster for target in permitted.targets]
        taken = await self._shared.claim_room(permitted.inputs.request, names)
        if taken is not None:
            text = f"another scheduler has taken the room on cluster {taken}"
            target = next(target for target in permitted.targets if target.cluster == taken)
            raise CycleFailed(Failure("preBind", target, Status(Code.UNSCHEDULABLE, (text,))))

    async def bind(self) -> None:
        """All operations of the decision, group by group; then PostBind for what was bound."""
        effects, permitted = self._require()
        self._precondition.check(self._kinds)
        failure: Failure | None = None
        for group in WriteGroup:
            failure = await self._bind_group(effects, permitted, group)
            self._raise_stopping_writes()
            if failure is not None or any(write.error for write in self.writes):
                break
        unbound = {target.cluster for target in self._unbound}
        for target in permitted.targets:
            if target.cluster not in unbound:
                await effects.run_post_bind(target)
        raise_failure(self.writes)
        if failure is not None:
            self._raise_stopping(failure.status)
            raise CycleFailed(failure)
        await self.end_wait()

    async def _bind_group(self, effects: Effects, permitted: PermitResult, group: WriteGroup) -> Failure | None:
        """Together where the only binder is the write path; else one target after the other."""
        targets = [target for target in permitted.targets if target.operation and target.operation.group is group]
        bound_here = {target.operation.name for target in targets if target.operation}
        others = [
            operation
            for operation in permitted.decision.operations
            if operation.group is group and operation.name not in bound_here
        ]
        binders = permitted.inputs.profile.hooks["bind"]
        failures: list[Failure | None] = []
        if all(getattr(binder.plugin, "IS_WRITE_PATH", PluginTraits.IS_WRITE_PATH) for binder in binders):
            failures += await asyncio.gather(*(self._bind_target(effects, target) for target in targets))
        else:
            for target in targets:
                failures.append(await self._bind_target(effects, target))
                if failures[-1] is not None:
                    break
        failure = next(filter(None, failures), None)
        if failure is None:
            await asyncio.gather(*map(self._write, others))
        return failure

    async def _bind_target(self, effects: Effects, target: Target) -> Failure | None:
        failure = await effects.run_bind(target)
        if failure is None:
            self._unbound = tuple(other for other in self._unbound if other is not target)
        return failure

    async def _write(self, operation: Operation) -> Status | None:
        _, permitted = self._require()
        self._sent += 1
        (result,) = await self._shared.bindings.write_operations(
            self._kinds, permitted.inputs.request, [operation], precondition=self._precondition
        )
        self.writes.append(result)
        return None if result.error is None else Status(Code.ERROR, (str(result.error),), error=result.error)

    # --- failures -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def undoing(self) -> AsyncIterator[None]:
        """Unreserves after a failure, once, unless the next leader is to continue."""
        try:
            yield
        except STOPPING:
            raise
        except Exception as error:
            effects, permitted = self._require()
            if self._sent > sum(write.error is None for write in self.writes):
                self._shared.hold_room(self._key)
            await effects.run_unreserve(self._unbound)
            self._unbound = ()
            await self._end_failed(error, permitted)
            raise
        finally:
            if self._effects is not None:
                self._report_violations(self._effects)

    async def _end_failed(self, error: Exception, permitted: PermitResult) -> None:
        """A plugin that ran out of time with Pending will be asked again about the same clusters."""
        if not isinstance(error, CycleFailed) or not _is_pending(error.failure):
            await self.end_wait()
            return
        entries = [entry._replace(deadline=None) for entry in self._item.entries]
        await self.end_wait(entries, permitted.targets)

    def _raise_stopping(self, status: Status) -> None:
        if isinstance(status.error, STOPPING):
            raise status.error

    def _raise_stopping_writes(self) -> None:
        for write in self.writes:
            if isinstance(write.error, STOPPING):
                raise write.error

    def _report_violations(self, effects: Effects) -> None:
        for violation in effects.violations:
            log.warning(
                "a plugin broke its contract",
                placement=str(self._key),
                plugin=violation.plugin,
                hook=violation.hook,
                cluster=violation.target,
                problem=violation.text,
                exc_info=violation.error,
            )
        effects.violations.clear()

    # --- what the next process has to know ----------------------------------------------------------------------------

    def _nominate(self, targets: Iterable[Target], cause: str) -> tuple[NominatedCluster, ...]:
        since = epoch_nanoseconds(self._shared.clock)
        return tuple(NominatedCluster(target.cluster, since, cause) for target in targets)

    async def end_wait(self, entries: Iterable[WaitingEntry] = (), remembered: Iterable[Target] = ()) -> None:
        """Nothing waits, but for these entries, and the next attempt picks only these targets first."""
        await self._publish(tuple(entries), self._nominate(remembered, PERMIT))

    async def _publish(self, entries: tuple[WaitingEntry, ...], nominated: tuple[NominatedCluster, ...]) -> None:
        generation = self._item.placement.generation or 0
        state = WaitingState(self._item.uid, entries, nominated, describe_wait(entries), generation)
        if state.is_empty and self._stored.is_empty:
            return
        self._stored = state
        await self._shared.store.publish(self._key, state)

    def _require(self) -> tuple[Effects, PermitResult]:
        assert self._effects is not None, "Reserve and Permit run first"
        assert self._permitted is not None, "Reserve and Permit run first"
        return self._effects, self._permitted


def _is_pending(failure: Failure) -> bool:
    return failure.hook == "permit" and failure.status.code is Code.PENDING


def _timeout_code_of(plugin: object) -> Code:
    code: Code = getattr(plugin, "PERMIT_TIMEOUT_CODE", PluginTraits.PERMIT_TIMEOUT_CODE)
    return code
