"""What the placement controller tells beside the status: events for people, figures for dashboards.

An event is told when a condition becomes true or false for the current generation, never on repetition. A gauge names
the first condition that keeps a placement from being complete.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from fleet.clock import Clock
from fleet.informers.cache import PlacementKinds
from fleet.kube.events import NORMAL, WARNING, ObjectReference
from fleet.kube.resource import join_key
from fleet.model.views import Observed, Placement
from fleet.placement.reconcile_context import ReconcileContext
from fleet.placement.status.availability import AvailabilityTimer, PlacedObjectCounts
from fleet.placement.status.conditions import (
    APPLIED,
    AVAILABLE,
    DIFF_REPORTED,
    FALSE,
    INVALID_SELECTORS,
    OVERRIDDEN,
    ROLLOUT_STARTED,
    SCHEDULED,
    STATUS_SYNCED,
    TRUE,
    WORK_SYNCHRONIZED,
)

Json = dict[str, Any]

SELECTOR_INVALID: Final = "PlacementSelectorInvalid"
SELECTOR_MATCHED_NOTHING: Final = "SelectorMatchedNothing"
ROLLOUT_COMPLETED: Final = "PlacementRolloutCompleted"
FINALIZER_REMOVED: Final = "PlacementCleanupFinalizerRemoved"
SYNC_FAILED: Final = "PlacementStatusSyncFailed"
COMPLETED: Final = "Completed"
_NIL: Final = "nil"

_REACHED: Final[Mapping[str, str]] = {
    ROLLOUT_STARTED.name: "PlacementRolloutStarted",
    OVERRIDDEN.name: "PlacementOverriddenSucceeded",
    WORK_SYNCHRONIZED.name: "PlacementWorkSynchronized",
    APPLIED.name: "PlacementApplied",
    AVAILABLE.name: "PlacementAvailable",
    DIFF_REPORTED.name: "PlacementDiffReported",
}
_FAILED: Final[Mapping[str, str]] = {
    OVERRIDDEN.name: "PlacementOverrideFailed",
    APPLIED.name: "PlacementApplyFailed",
    AVAILABLE.name: "PlacementNotAvailable",
    STATUS_SYNCED: SYNC_FAILED,
}


class Events(Protocol):
    def emit(self, about: ObjectReference, type: str, reason: str, message: str) -> None: ...


class Metrics(Protocol):
    def set_condition(
        self,
        *,
        namespace: str,
        name: str,
        generation: int,
        condition_type: str,
        status: str,
        reason: str,
        timestamp: float,
    ) -> None: ...

    def drop(self, *, namespace: str, name: str) -> None: ...

    def available(self, *, kind: str, seconds: float) -> None: ...


class PlacementReporter:
    def __init__(self, events: Events, metrics: Metrics, clock: Clock) -> None:
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._changes = AvailabilityTimer(clock)
        self.troubles = PlacedObjectCounts()
        self._unmatched: dict[str, frozenset[str]] = {}

    def published(self, look: ReconcileContext, *, before: Json, after: Json) -> None:
        """After the status was written."""
        prefix, generation = look.prefix, look.generation
        old, new = (
            _ConditionsOfGeneration(before, prefix, generation),
            _ConditionsOfGeneration(after, prefix, generation),
        )
        about = _about(look)
        for condition in new.conditions:
            name = condition["type"].removeprefix(prefix)
            told = _event_for(name, condition)
            if told is not None and told != _event_for(name, old.condition(name)):
                self._events.emit(about, *told, condition["message"])
        if new.first_missing(look) is None and old.first_missing(look) is not None:
            self._events.emit(about, NORMAL, ROLLOUT_COMPLETED, f"generation {generation} is complete on all clusters")

    def measured(self, look: ReconcileContext, status: Json) -> None:
        """At the end of every pass."""
        metadata = look.placement.view.metadata
        said = _ConditionsOfGeneration(status, look.prefix, look.generation)
        missing = said.first_missing(look)
        if missing is None:
            condition_type, state, reason = COMPLETED, TRUE, COMPLETED
        else:
            condition = said.condition(missing) or {"status": _NIL, "reason": _NIL}
            condition_type, state, reason = look.prefix + missing, condition["status"], condition["reason"]
        self._metrics.set_condition(
            namespace=metadata.namespace,
            name=metadata.name,
            generation=metadata.generation,
            condition_type=condition_type,
            status=state,
            reason=reason,
            timestamp=self._clock.now().timestamp(),
        )
        self._measure_change(look, is_available=missing is None)
        self.troubles.observe(look.key, status)

    def _measure_change(self, look: ReconcileContext, *, is_available: bool) -> None:
        if AVAILABLE in look.chain:
            metadata = look.placement.view.metadata
            seconds = self._changes.observe(look.key, metadata, is_available=is_available)
            if seconds is not None:
                self._metrics.available(kind=look.kinds.flavour.placement.kind, seconds=seconds)

    def unmatched(self, look: ReconcileContext, selectors: Sequence[object]) -> None:
        """Once for every selector that finds nothing, until it finds something or is changed."""
        texts = frozenset(map(str, selectors))
        for text in sorted(texts - self._unmatched.get(look.key, frozenset())):
            self._events.emit(_about(look), WARNING, SELECTOR_MATCHED_NOTHING, text)
        if texts:
            self._unmatched[look.key] = texts
        else:
            self._unmatched.pop(look.key, None)

    def released(self, kinds: PlacementKinds, placement: Observed[Placement]) -> None:
        text = "the snapshots are deleted and the placement is released"
        about = ObjectReference.of(kinds.flavour.placement, placement.view.metadata)
        self._events.emit(about, NORMAL, FINALIZER_REMOVED, text)

    def forget(self, namespace: str, name: str) -> None:
        """The placement is gone."""
        self._metrics.drop(namespace=namespace, name=name)
        key = join_key(namespace, name)
        for kept in (self._changes, self.troubles):
            kept.forget(key)
        self._unmatched.pop(key, None)


class _ConditionsOfGeneration:
    """What a status says about one generation; the rest of it is history."""

    def __init__(self, status: Json, prefix: str, generation: int) -> None:
        self.conditions = [
            condition
            for condition in status.get("conditions") or ()
            if condition.get("observedGeneration", 0) >= generation
        ]
        self._by_name = {condition["type"].removeprefix(prefix): condition for condition in self.conditions}

    def condition(self, name: str) -> Json | None:
        return self._by_name.get(name)

    def is_true(self, name: str) -> bool:
        condition = self._by_name.get(name)
        return condition is not None and bool(condition["status"] == TRUE)

    def first_missing(self, look: ReconcileContext) -> str | None:
        """The first condition that does not hold; None, if the placement is complete."""
        stages = (SCHEDULED,) if look.selects_no_cluster else (SCHEDULED, *look.chain)
        return next((stage.name for stage in stages if not self.is_true(stage.name)), None)


def _event_for(name: str, condition: Json | None) -> tuple[str, str] | None:
    """Type and reason."""
    if condition is None:
        return None
    if condition["status"] == TRUE and name in _REACHED:
        return NORMAL, _REACHED[name]
    if condition["status"] != FALSE:
        return None
    if name == SCHEDULED.name and condition["reason"] == INVALID_SELECTORS:
        return WARNING, SELECTOR_INVALID
    return (WARNING, _FAILED[name]) if name in _FAILED else None


def _about(look: ReconcileContext) -> ObjectReference:
    return ObjectReference.of(look.kinds.flavour.placement, look.placement.view.metadata)
