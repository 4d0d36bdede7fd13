"""Status of companions: whether options are accepted, whether their placement is gated, and for what it waits.

Only the leader writes it. A placement that waits without options of its own gets a companion that it owns. What waits
is kept here as well, so that a hub without the definitions schedules alike: there a restart begins every wait anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
import structlog

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import AlreadyExists, ApiError, Forbidden, Invalid, LeadershipLost, NotFound, NotLeading, QueueClosed
from fleet.framework.request import PlacementRequest
from fleet.informers.cache import Caches, PlacementKinds
from fleet.kube.backoff import ExponentialBackoff
from fleet.kube.objects import Document, RetryPolicy, update_with_retries
from fleet.kube.workqueue import WorkQueue
from fleet.model.keys import BY_SCHEDULER, MADE_BY
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import format_timestamp, parse_timestamp
from fleet.model.views import Metadata, Observed, Placement, PlacementOptions, PlacementOptionsSpec
from fleet.scheduler.binding.waiting_store import PREEMPTION, NominatedCluster, WaitingEntry, WaitingState
from fleet.scheduler.companions import Companions
from fleet.scheduler.preemption.preemptor import Preemption, Preemptor, describe_preemptions
from fleet.scheduler.queue.item import PreEnqueueGate

ACCEPTED: Final = "Accepted"
GATED: Final = "Gated"
WAITING: Final = "Waiting"
PREEMPTING: Final = "Preempting"
_STOPPING: Final = (NotLeading, LeadershipLost, QueueClosed)
_BACKOFF: Final = ExponentialBackoff(initial=0.5, maximum=30.0)

log = structlog.get_logger(__name__)

Status = dict[str, Any]


class CompanionStatus:
    """Implements `WaitingStore`, and keeps the conditions of all companions up to date while it runs."""

    def __init__(
        self,
        caches: Caches,
        companions: Companions,
        *,
        is_foreign: Callable[[Metadata], bool],
        retry_policy: RetryPolicy,
        clock: Clock,
    ) -> None:
        """Companions of foreign placements are left to their schedulers."""
        self._caches, self._companions = caches, companions
        self._is_foreign = is_foreign
        self._retry_policy, self._clock = retry_policy, clock
        self._states: dict[PlacementKey, WaitingState] = {}
        self._gates: dict[PlacementKey, PreEnqueueGate] = {}
        self.find_preemptor: Callable[[PlacementKey, str], Preemptor | None] = lambda *_: None
        """By placement and its UID."""
        self._queue: WorkQueue[PlacementKey] = WorkQueue(clock=clock)
        self._started = False
        for kinds in caches.kinds:
            kinds.options.store.subscribe(self._on_options)
            kinds.placements.store.subscribe(partial(self._on_placement, kinds))

    # --- what waits ---------------------------------------------------------------------------------------------------

    def load(self, key: PlacementKey, uid: str) -> WaitingState:
        state = self._states.get(key)
        if state is None:
            state = self._read(key)
        return state if state.uid == uid else WaitingState(uid)

    def resume(self, key: PlacementKey, request: PlacementRequest) -> WaitingState:
        state = self.load(key, request.uid)
        asked_for = state.generation, state.options_generation
        is_current = asked_for == (request.generation or 0, self._read_options_generation(key))
        return state if is_current or not state.is_under_way else WaitingState(request.uid)

    async def publish(self, key: PlacementKey, state: WaitingState) -> None:
        state = replace(state, options_generation=self._read_options_generation(key))
        self._states[key] = _keep_beginnings(state, self.load(key, state.uid))
        await self._store(key)

    async def publish_preemptions(self, key: PlacementKey) -> None:
        await self._store(key)

    async def _store(self, key: PlacementKey) -> None:
        failures = 0
        while True:
            try:
                await self._reconcile(key)
                return
            except _STOPPING:
                raise
            except ApiError as error:
                log.warning("the status of options could not be written", placement=str(key), error=str(error))
                if isinstance(error, Forbidden | Invalid):
                    self._enqueue(key)  # it may never be accepted: the attempt does not wait for that
                    return
                await self._clock.sleep(_BACKOFF.compute_delay(failures))
                failures += 1

    def forget(self, key: PlacementKey) -> None:
        self._states.pop(key, None)
        self._gates.pop(key, None)

    # --- gates --------------------------------------------------------------------------------------------------------

    def report_gate(self, key: PlacementKey, gate: PreEnqueueGate | None) -> None:
        """None: the placement is scheduled."""
        if self._gates.get(key) == gate:
            return
        if gate is None:
            del self._gates[key]
        else:
            self._gates[key] = gate
        self._enqueue(key)

    # --- running ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """While this process leads, until closed."""
        self._started = True
        for kinds in self._caches.kinds:
            for options in kinds.options.store.values():
                self._enqueue(PlacementKey.of(options.view.metadata))
        await self._queue.work(self._reconcile, report=_log_failure)

    def close(self) -> None:
        self._queue.close()

    def _on_options(self, old: Observed[PlacementOptions] | None, new: Observed[PlacementOptions] | None) -> None:
        if new is not None and (old is None or old.view != new.view):
            self._enqueue(PlacementKey.of(new.view.metadata))

    def _on_placement(
        self, kinds: PlacementKinds, old: Observed[Placement] | None, new: Observed[Placement] | None
    ) -> None:
        if (old is None) is (new is None):
            return
        metadata = (old or new).view.metadata  # type: ignore[union-attr]  # one of them is there
        if str(key := PlacementKey.of(metadata)) in kinds.options.store:
            self._enqueue(key)

    def _enqueue(self, key: PlacementKey) -> None:
        if self._started:
            self._queue.add(key)

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _reconcile(self, key: PlacementKey) -> None:
        kinds = self._caches.kinds_of(key)
        placement, options = kinds.get_placement(key), kinds.options.store.get(str(key))
        if placement is not None and self._is_foreign(placement.view.metadata):
            return
        if options is None:
            state = self._states.get(key)
            uid = "" if placement is None else placement.view.metadata.uid
            waits = state is not None and not state.is_empty and state.uid == uid
            if placement is None or not (waits or self.find_preemptor(key, uid)):
                return
            options = await self._create(kinds, placement)
            if options is None:
                return
        wanted = self._build_status(key, options, placement)
        if wanted == (options.document().get("status") or {}):
            return
        objects = kinds.options.objects

        def mutate(document: dict[str, Any]) -> dict[str, Any] | None:
            present = objects.codec.read(msgspec.json.encode(document))
            status = self._build_status(key, present, placement)
            return None if status == document.get("status") else {**document, "status": status}

        await update_with_retries(
            objects, str(key), mutate, retry_policy=self._retry_policy, cached=options, status=True
        )

    async def _create(self, kinds: PlacementKinds, placement: Observed[Placement]) -> Observed[PlacementOptions] | None:
        """None on a hub without the definition."""
        metadata, scope = placement.view.metadata, kinds.scope
        document: Document = {
            "metadata": {
                "name": metadata.name,
                **({"namespace": metadata.namespace} if metadata.namespace else {}),
                "labels": {MADE_BY: BY_SCHEDULER},
                "ownerReferences": [
                    {
                        "apiVersion": scope.placement.api_version,
                        "kind": scope.placement.kind,
                        "name": metadata.name,
                        "uid": metadata.uid,
                    }
                ],
            },
            "spec": {},
        }
        try:
            return await kinds.options.objects.create(document)
        except AlreadyExists:
            return await kinds.options.objects.get(str(PlacementKey.of(metadata)))
        except NotFound:
            return None

    def _build_status(
        self, key: PlacementKey, options: Observed[PlacementOptions], placement: Observed[Placement] | None
    ) -> Status:
        uid = "" if placement is None else placement.view.metadata.uid
        state, preemptor = self.load(key, uid), self.find_preemptor(key, uid)
        before = {condition.type: condition for condition in options.view.status.conditions}
        now = format_timestamp(epoch_nanoseconds(self._clock))
        conditions = []
        listed = list(self._list_conditions(key, state, is_known=placement is not None))
        if preemptor is not None or PREEMPTING in before:
            listed.append(_describe_preemptor(key, preemptor))
        for type, holds, reason, message in listed:
            status, known = str(holds), before.get(type)
            changed_at = known.last_transition_time if known is not None and known.status == status else None
            conditions.append(
                {
                    "type": type,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "observedGeneration": options.view.metadata.generation,
                    "lastTransitionTime": changed_at or now,
                }
            )
        built: Status = {"observedGeneration": options.view.metadata.generation, "conditions": conditions}
        if uid:
            built["placementUID"] = uid
        if state.waiting:
            built["waiting"] = [_encode_entry(entry) for entry in state.waiting]
        if not state.is_empty:
            built["placementGeneration"] = state.generation
            built["optionsGeneration"] = state.options_generation
        nominated = {target.cluster: target for target in state.nominated}
        if preemptor is not None:
            built["preemptions"] = [_encode_preemption(target, preemptor.priority) for target in preemptor.targets]
            for target in preemptor.targets:
                nominated[target.cluster] = NominatedCluster(target.cluster, target.since, PREEMPTION)
        if nominated:
            built["nominatedTargets"] = [
                {"cluster": target.cluster, "since": format_timestamp(target.since), "cause": target.cause}
                for target in nominated.values()
            ]
        return built

    def _list_conditions(
        self, key: PlacementKey, state: WaitingState, *, is_known: bool
    ) -> Iterator[tuple[str, bool, str, str]]:
        """Type, whether it holds, reason and message."""
        problem = self._companions.find(key).problem
        yield (ACCEPTED, False, "Invalid", problem) if problem else (ACCEPTED, True, "Valid", "the options can be used")
        gate = self._gates.get(key) if is_known else None
        if gate is None:
            yield GATED, False, "NotGated", "nothing keeps the placement out of the queue"
        else:
            yield GATED, True, gate.plugin or "Gated", gate.message
        if state.waiting:
            plugin, message = state.waiting[0].plugin, state.message or "a plugin has not allowed the chosen clusters"
            yield WAITING, True, f"WaitsFor{plugin}", message
        else:
            yield WAITING, False, "NotWaiting", "no chosen cluster waits for an answer"

    def _read(self, key: PlacementKey) -> WaitingState:
        """As the hub has it."""
        kinds = self._caches.find_kinds(key)
        options = None if kinds is None else kinds.options.store.get(str(key))
        if options is None:
            return WaitingState("")
        return read_waiting_state(options.view)

    def _read_options_generation(self, key: PlacementKey) -> int:
        kinds = self._caches.find_kinds(key)
        options = None if kinds is None else kinds.options.store.get(str(key))
        if options is None:
            return 0
        metadata, spec = options.view.metadata, options.view.spec
        is_made_here = metadata.label(MADE_BY) == BY_SCHEDULER and spec == PlacementOptionsSpec()
        return 0 if is_made_here else metadata.generation


def read_waiting_state(options: PlacementOptions) -> WaitingState:
    status = options.status
    message = next((each.message for each in status.conditions if each.type == WAITING and each.status == "True"), "")
    return WaitingState(
        status.placement_uid,
        tuple(
            WaitingEntry(
                entry.cluster,
                entry.plugin,
                entry.rule,
                parse_timestamp(entry.since),
                None if entry.deadline is None else parse_timestamp(entry.deadline),
            )
            for entry in status.waiting
        ),
        tuple(
            NominatedCluster(each.cluster, parse_timestamp(each.since), each.cause)
            for each in status.nominated_targets
            if each.cause != PREEMPTION
        ),
        message,
        status.placement_generation,
        status.options_generation,
    )


def _keep_beginnings(state: WaitingState, known: WaitingState) -> WaitingState:
    """Attempts that ask again about the same clusters do not begin new waits."""
    asked = {entry[:3]: entry.since for entry in known.waiting if entry.deadline is None}
    nominated = {(target.cluster, target.cause): target.since for target in known.nominated}
    waiting = (
        entry._replace(since=asked.get(entry[:3], entry.since)) if entry.deadline is None else entry
        for entry in state.waiting
    )
    targets = (
        target._replace(since=nominated.get((target.cluster, target.cause), target.since)) for target in state.nominated
    )
    return replace(state, waiting=tuple(dict.fromkeys(waiting)), nominated=tuple(dict.fromkeys(targets)))


def _describe_preemptor(key: PlacementKey, preemptor: Preemptor | None) -> tuple[str, bool, str, str]:
    if preemptor is None:
        return PREEMPTING, False, "NotPreempting", "no room is being made for the placement"
    return PREEMPTING, True, preemptor.targets[0].phase, describe_preemptions(key, preemptor.targets)


def _encode_preemption(target: Preemption, priority: int) -> dict[str, Any]:
    return {
        "cluster": target.cluster,
        "priority": priority,
        "phase": target.phase,
        "victims": list(target.victims),
        "since": format_timestamp(target.since),
    }


def _encode_entry(entry: WaitingEntry) -> dict[str, str]:
    deadline = {} if entry.deadline is None else {"deadline": format_timestamp(entry.deadline)}
    about = {"cluster": entry.cluster, "plugin": entry.plugin, "rule": entry.rule}
    return {**about, "since": format_timestamp(entry.since), **deadline}


def _log_failure(key: PlacementKey, error: Exception) -> None:
    log.warning("the status of options could not be written", placement=str(key), error=str(error))
