"""The call that publishes a decision on a policy snapshot, and how two of them become one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fleet.clock import Clock, epoch_nanoseconds
from fleet.errors import Conflict, NotFound, StaleInputs
from fleet.kube.objects import Objects
from fleet.kube.patch import RetryPolicy
from fleet.kube.resource import key_of
from fleet.model.keys import IS_LATEST_SNAPSHOT, NUMBER_OF_CLUSTERS, PLACEMENT_GENERATION
from fleet.model.timestamps import format_timestamp
from fleet.model.views import ClusterDecision, Condition, Observed, PolicySnapshot
from fleet.scheduler.dispatch.api_calls import Call, CallType
from fleet.scheduler.dispatch.live_reads import read_live, repeatedly

Live = Observed[PolicySnapshot]


@dataclass(frozen=True, slots=True)
class StatusChange:
    generation: int
    conditions: tuple[Condition, ...]
    """The others stay as they are."""
    decisions: tuple[ClusterDecision, ...]
    """All of them: they replace those that were published before."""

    def over(self, earlier: StatusChange) -> StatusChange:
        said = {one.type for one in self.conditions}
        also = tuple(one for one in earlier.conditions if one.type not in said)
        return replace(self, conditions=(*also, *self.conditions))

    def applied_to(self, status: dict[str, Any], *, now: str) -> dict[str, Any]:
        """The whole status, with everything in it that we do not know."""
        changed = {**status, "observedCRPGeneration": self.generation}
        changed["conditions"] = _united(status.get("conditions") or [], self.conditions, now=now)
        changed.pop("targetClusters", None)
        if self.decisions:
            changed["targetClusters"] = [_decision(one) for one in self.decisions]
        return changed


@dataclass(frozen=True, slots=True)
class StatusMeans:
    objects: Objects[Live]
    retry_policy: RetryPolicy
    clock: Clock


@dataclass(frozen=True, slots=True)
class StatusCall(Call[Live]):
    change: StatusChange
    seen: Live
    """What was decided on, or something newer for which the decision holds as well."""
    means: StatusMeans

    @property
    def key(self) -> str:
        return self.seen.view.metadata.uid

    @property
    def type(self) -> CallType:
        return CallType.STATUS

    async def send(self) -> Live:
        """A conflict costs a read, not the decision: it is published on the fresh object if it is still about that."""
        seen: Live | None = self.seen

        async def attempt() -> Live:
            nonlocal seen
            if seen is None:
                seen = await self._reread()
                if replace(self, seen=seen).changes_nothing():
                    return seen
            try:
                return await self.means.objects.replace_status(self._document(seen))
            except Conflict:
                seen = None
                raise

        try:
            return await repeatedly(attempt, retry_policy=self.means.retry_policy, also=Conflict)
        except NotFound as error:
            raise StaleInputs(f"{self._name} is gone, nothing can be published on it") from error

    def over(self, earlier: Call[Any]) -> StatusCall:
        assert isinstance(earlier, StatusCall)
        return replace(self, change=self.change.over(earlier.change))

    def on(self, fresh: Live) -> StatusCall:
        """An object that asks for another decision is left to the conflict, which tells the caller."""
        return replace(self, seen=fresh) if asks_the_same(self.seen.view, fresh.view) else self

    def changes_nothing(self) -> bool:
        before = self.seen.document().get("status")
        if not before:
            return False
        return _bytes(before) == _bytes(self.change.applied_to(before, now=self._now()))

    async def _reread(self) -> Live:
        fresh = await read_live(self.means.objects, key_of(self.seen.view.metadata))
        if fresh is None or not asks_the_same(self.seen.view, fresh.view):
            raise StaleInputs(f"{self._name} changed while it was decided about")
        return fresh

    def _document(self, seen: Live) -> dict[str, Any]:
        """No more than the server needs: of a PUT to the status it ignores all the rest."""
        metadata = seen.view.metadata
        about = {"name": metadata.name, "uid": metadata.uid, "resourceVersion": metadata.resource_version}
        if metadata.namespace:
            about["namespace"] = metadata.namespace
        status = seen.document().get("status") or {}
        return {"metadata": about, "status": self.change.applied_to(status, now=self._now())}

    def _now(self) -> str:
        return format_timestamp(epoch_nanoseconds(self.means.clock))

    @property
    def _name(self) -> str:
        return f"policy snapshot {key_of(self.seen.view.metadata)}"


def asks_the_same(before: PolicySnapshot, after: PolicySnapshot) -> bool:
    """Whether a decision about the one is a decision about the other."""
    same = [PLACEMENT_GENERATION, NUMBER_OF_CLUSTERS]
    return (
        after.metadata.uid == before.metadata.uid
        and after.metadata.label(IS_LATEST_SNAPSHOT) == "true"
        and all(after.metadata.annotation(one) == before.metadata.annotation(one) for one in same)
    )


def _united(stored: list[dict[str, Any]], said: Iterable[Condition], *, now: str) -> list[dict[str, Any]]:
    """Each condition in its old place, new ones at the end."""
    united = {one.get("type"): one for one in stored}
    for condition in said:
        united[condition.type] = _condition(condition, united.get(condition.type, {}), now=now)
    return list(united.values())


def _condition(condition: Condition, before: dict[str, Any], *, now: str) -> dict[str, Any]:
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


def _decision(decision: ClusterDecision) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(decision)
    if document.get("clusterScore") is None:
        document.pop("clusterScore", None)  # null is no score to the schema
    return document


def _bytes(status: dict[str, Any]) -> bytes:
    return msgspec.json.encode(status, order="sorted")
