"""Kubernetes events and metrics about the status of placements.

An event is emitted when a condition becomes true or false for the current generation, and not repeated. A gauge has
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
from fleet.placement.status.placement_status import select_chain

Json = dict[str, Any]

SELECTOR_INVALID: Final = "PlacementSelectorInvalid"
SELECTOR_MATCHED_NOTHING: Final = "SelectorMatchedNothing"
ROLLOUT_COMPLETED: Final = "PlacementRolloutCompleted"
FINALIZER_REMOVED: Final = "PlacementCleanupFinalizerRemoved"
SYNC_FAILED: Final = "PlacementStatusSyncFailed"
COMPLETED: Final = "Completed"
_NIL: Final = "nil"

_TRUE_EVENTS: Final[Mapping[str, str]] = {
    ROLLOUT_STARTED.name: "PlacementRolloutStarted",
    OVERRIDDEN.name: "PlacementOverriddenSucceeded",
    WORK_SYNCHRONIZED.name: "PlacementWorkSynchronized",
    APPLIED.name: "PlacementApplied",
    AVAILABLE.name: "PlacementAvailable",
    DIFF_REPORTED.name: "PlacementDiffReported",
}
_FALSE_EVENTS: Final[Mapping[str, str]] = {
    OVERRIDDEN.name: "PlacementOverrideFailed",
    APPLIED.name: "PlacementApplyFailed",
    AVAILABLE.name: "PlacementNotAvailable",
    STATUS_SYNCED: SYNC_FAILED,
}


class PlacementEventSink(Protocol):
    def emit(self, about: ObjectReference, type: str, reason: str, message: str) -> None: ...


class StatusMetrics(Protocol):
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

    def remove_placement(self, *, namespace: str, name: str) -> None: ...

    def observe_available(self, *, kind: str, seconds: float) -> None: ...


class PlacementReporter:
    def __init__(self, events: PlacementEventSink, metrics: StatusMetrics, clock: Clock) -> None:
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._timer = AvailabilityTimer(clock)
        self.placed_objects = PlacedObjectCounts()
        self._unmatched: dict[str, frozenset[str]] = {}

    def report_status_change(self, context: ReconcileContext, *, before: Json, after: Json) -> None:
        """After the status was written."""
        prefix, generation = context.prefix, context.generation
        old, new = (
            _ConditionsOfGeneration(before, prefix, generation),
            _ConditionsOfGeneration(after, prefix, generation),
        )
        about = _reference_of(context)
        for condition in new.conditions:
            name = condition["type"].removeprefix(prefix)
            event = _find_event(name, condition)
            if event is not None and event != _find_event(name, old.condition(name)):
                self._events.emit(about, *event, condition["message"])
        if new.find_first_missing(context) is None and old.find_first_missing(context) is not None:
            self._events.emit(about, NORMAL, ROLLOUT_COMPLETED, f"generation {generation} is complete on all clusters")

    def update_metrics(self, context: ReconcileContext, status: Json) -> None:
        """At the end of every reconcile."""
        metadata = context.placement.view.metadata
        conditions = _ConditionsOfGeneration(status, context.prefix, context.generation)
        missing = conditions.find_first_missing(context)
        if missing is None:
            condition_type, state, reason = COMPLETED, TRUE, COMPLETED
        else:
            condition = conditions.condition(missing) or {"status": _NIL, "reason": _NIL}
            condition_type, state, reason = context.prefix + missing, condition["status"], condition["reason"]
        self._metrics.set_condition(
            namespace=metadata.namespace,
            name=metadata.name,
            generation=metadata.generation,
            condition_type=condition_type,
            status=state,
            reason=reason,
            timestamp=self._clock.now().timestamp(),
        )
        self._observe_availability(context, is_available=missing is None)
        self.placed_objects.observe(context.key, status)

    def _observe_availability(self, context: ReconcileContext, *, is_available: bool) -> None:
        if AVAILABLE in select_chain(context.spec):
            metadata = context.placement.view.metadata
            seconds = self._timer.observe(context.key, metadata, is_available=is_available)
            if seconds is not None:
                self._metrics.observe_available(kind=context.kinds.scope.placement.kind, seconds=seconds)

    def report_unmatched(self, context: ReconcileContext, selectors: Sequence[object]) -> None:
        """Emits one event per selector that matches nothing, until it matches or changes."""
        texts = frozenset(map(str, selectors))
        for text in sorted(texts - self._unmatched.get(context.key, frozenset())):
            self._events.emit(_reference_of(context), WARNING, SELECTOR_MATCHED_NOTHING, text)
        if texts:
            self._unmatched[context.key] = texts
        else:
            self._unmatched.pop(context.key, None)

    def report_released(self, kinds: PlacementKinds, placement: Observed[Placement]) -> None:
        text = "the snapshots are deleted and the placement is released"
        about = ObjectReference.of(kinds.scope.placement, placement.view.metadata)
        self._events.emit(about, NORMAL, FINALIZER_REMOVED, text)

    def forget(self, namespace: str, name: str) -> None:
        """The placement is gone."""
        self._metrics.remove_placement(namespace=namespace, name=name)
        key = join_key(namespace, name)
        for kept in (self._timer, self.placed_objects):
            kept.forget(key)
        self._unmatched.pop(key, None)


class _ConditionsOfGeneration:
    """The conditions of a status that are about the given generation or a newer one."""

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

    def find_first_missing(self, context: ReconcileContext) -> str | None:
        """The first condition that is not true; None if the placement is complete."""
        stages = (SCHEDULED,) if context.selects_no_cluster else (SCHEDULED, *select_chain(context.spec))
        return next((stage.name for stage in stages if not self.is_true(stage.name)), None)


def _find_event(name: str, condition: Json | None) -> tuple[str, str] | None:
    """Type and reason."""
    if condition is None:
        return None
    if condition["status"] == TRUE and name in _TRUE_EVENTS:
        return NORMAL, _TRUE_EVENTS[name]
    if condition["status"] != FALSE:
        return None
    if name == SCHEDULED.name and condition["reason"] == INVALID_SELECTORS:
        return WARNING, SELECTOR_INVALID
    return (WARNING, _FALSE_EVENTS[name]) if name in _FALSE_EVENTS else None


def _reference_of(context: ReconcileContext) -> ObjectReference:
    return ObjectReference.of(context.kinds.scope.placement, context.placement.view.metadata)
