"""Status calls: publish decisions on policy snapshots, where users and the placement controller read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import msgspec

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import Conflict, NotFound, StaleInputs
from fleet.framework.cycle.decision import Published
from fleet.informers.cache import PlacementKinds, PolicyVersion
from fleet.kube.objects import Objects, RetryPolicy, call_with_retries
from fleet.kube.resource import key_of
from fleet.model.timestamps import format_timestamp
from fleet.model.views import ClusterDecision, Condition, Observed, PolicySnapshot
from fleet.scheduler.dispatch.call_queue import RETRIED, Call, CallOutcome, CallResult, CallType
from fleet.scheduler.dispatch.dispatcher import Dispatcher

LiveSnapshot = Observed[PolicySnapshot]


@dataclass(frozen=True, slots=True)
class StatusChange:
    generation: int
    conditions: tuple[Condition, ...]
    """The others stay as they are."""
    decisions: tuple[ClusterDecision, ...]
    """All of them: they replace those that were published before."""

    def merge(self, earlier: StatusChange) -> StatusChange:
        types = {condition.type for condition in self.conditions}
        kept = tuple(condition for condition in earlier.conditions if condition.type not in types)
        return replace(self, conditions=(*kept, *self.conditions))

    def apply_to(self, status: dict[str, Any], *, now: str) -> dict[str, Any]:
        """The whole status, unknown fields included."""
        changed = {**status, "observedCRPGeneration": self.generation}
        changed["conditions"] = _merge_conditions(status.get("conditions") or [], self.conditions, now=now)
        changed.pop("targetClusters", None)
        if self.decisions:
            changed["targetClusters"] = _encode_decisions(self.decisions)
        return changed


@dataclass(frozen=True, slots=True)
class StatusCall(Call[LiveSnapshot]):
    type: ClassVar[CallType] = CallType.STATUS

    change: StatusChange
    seen: LiveSnapshot
    """The snapshot of the decision, or a newer version of it with the same policy."""
    objects: Objects[LiveSnapshot]
    retry_policy: RetryPolicy
    clock: Clock

    @property
    def key(self) -> str:
        return self.seen.view.metadata.uid

    async def send(self) -> LiveSnapshot:
        """After a conflict the decision is published on the fresh object, if that has the same policy."""
        seen: LiveSnapshot | None = self.seen

        async def attempt() -> LiveSnapshot:
            nonlocal seen
            if seen is None:
                seen = await self._reread()
                if replace(self, seen=seen).is_noop():
                    return seen
            try:
                return await self.objects.replace_status(self._build_document(seen))
            except Conflict:
                seen = None
                raise

        try:
            return await call_with_retries(attempt, retry_policy=self.retry_policy, on=(*RETRIED, Conflict))
        except NotFound as error:
            raise StaleInputs(f"policy snapshot {key_of(self.seen.view.metadata)} was deleted") from error

    def merge(self, earlier: Call[Any]) -> StatusCall:
        assert isinstance(earlier, StatusCall)
        return replace(self, change=self.change.merge(earlier.change))

    def rebase(self, fresh: LiveSnapshot) -> StatusCall:
        """An object with another policy leads to the conflict, which the caller receives."""
        return replace(self, seen=fresh) if self._policy.is_current_in(fresh.view) else self

    def is_noop(self) -> bool:
        before = self.seen.status_document()
        if not before:
            return False
        return _encode(before) == _encode(self.change.apply_to(before, now=self._format_now()))

    @property
    def _policy(self) -> PolicyVersion:
        return PolicyVersion.of(self.seen.view)

    async def _reread(self) -> LiveSnapshot:
        fresh = await self.objects.refresh(key_of(self.seen.view.metadata))
        if fresh is None or not self._policy.is_current_in(fresh.view):
            raise self._policy.build_error()
        return fresh

    def _build_document(self, seen: LiveSnapshot) -> dict[str, Any]:
        """No more than the server needs: of a PUT to the status it ignores all the rest."""
        metadata = seen.view.metadata
        about = {"name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version}
        if metadata.namespace:
            about["namespace"] = metadata.namespace
        status = seen.status_document()
        return {"metadata": about, "status": self.change.apply_to(status, now=self._format_now())}

    def _format_now(self) -> str:
        return format_timestamp(epoch_nanoseconds(self.clock))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWriter:
    dispatcher: Dispatcher
    retry_policy: RetryPolicy
    clock: Clock
    on_write: Callable[[str], None] = lambda _: None
    """Called after every write with: written, skipped, conflict or failed."""

    async def write_status(self, kinds: PlacementKinds, snapshot: LiveSnapshot, published: Published) -> bool:
        """Whether anything had to be written."""
        if not published.differs_from(snapshot.view.status):
            self.on_write("skipped")
            return False
        objects = kinds.policy_snapshots.objects.with_call_class(CallType.STATUS.call_class)
        change = StatusChange(published.observed_generation, (published.condition,), published.decisions)
        outcome = await self.dispatcher.submit(StatusCall(change, snapshot, objects, self.retry_policy, self.clock))
        self.on_write(_name_result(outcome))
        if outcome.error is not None:
            raise outcome.error
        return outcome.result is CallResult.DONE


def _name_result(outcome: CallOutcome[LiveSnapshot]) -> str:
    if outcome.error is None:
        return "written" if outcome.result is CallResult.DONE else "skipped"
    return "conflict" if isinstance(outcome.error, Conflict | StaleInputs) else "failed"


def _merge_conditions(stored: list[dict[str, Any]], changes: Iterable[Condition], *, now: str) -> list[dict[str, Any]]:
    """Each condition in its old place, new ones at the end."""
    merged = {condition.get("type"): condition for condition in stored}
    for condition in changes:
        merged[condition.type] = _encode_condition(condition, merged.get(condition.type, {}), now=now)
    return list(merged.values())


def _encode_condition(condition: Condition, before: dict[str, Any], *, now: str) -> dict[str, Any]:
    changed_at = before.get("lastTransitionTime") if before.get("status") == condition.status else None
    return {
        **before,
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
        "lastTransitionTime": changed_at or now,
    }


def _encode_decisions(decisions: Sequence[ClusterDecision]) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = msgspec.to_builtins(list(decisions))
    for document in documents:
        if document.get("clusterScore") is None:
            document.pop("clusterScore", None)  # the schema does not accept null as a score
    return documents


def _encode(status: dict[str, Any]) -> bytes:
    return msgspec.json.encode(status, order="sorted")
