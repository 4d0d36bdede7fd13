"""Kubernetes events about placements: what changed, why too little was found, what is wrong with an input."""

from __future__ import annotations

from typing import Final, Protocol

from fleet.errors import FleetError
from fleet.explain import summary
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import UNREADABLE_PROPERTY
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action
from fleet.informers.cache import Kinds
from fleet.kube.events import NORMAL, WARNING, ObjectReference
from fleet.kube.resource import key_of
from fleet.model.keys import SCHEDULED_CONDITION
from fleet.model.views import Observed, Placement
from fleet.snapshot.columns.bitset import each_row

CHANGED: Final = "SchedulingChanged"
INCOMPLETE: Final = "SchedulingIncomplete"
INPUT_INVALID: Final = "SchedulingInputInvalid"
FAILED: Final = "SchedulerError"
PROPERTY_UNREADABLE: Final = "ClusterPropertyUnreadable"
_NAMES_SHOWN: Final = 10


class Events(Protocol):
    def emit(self, about: ObjectReference, type: str, reason: str, message: str) -> None: ...


class Reports:
    def __init__(self, events: Events) -> None:
        self._events = events
        self._unreadable: dict[str, frozenset[tuple[str, str]]] = {}
        self._wrong: dict[str, dict[str, str]] = {INPUT_INVALID: {}, FAILED: {}}
        """By reason and placement, as it was told last: it is found again in every attempt."""

    def decided(self, kinds: Kinds, placement: Observed[Placement], decision: Decision) -> None:
        """After everything was written."""
        about = _about(kinds, placement)
        self._wrong[FAILED].pop(decision.request.key, None)
        if decision.request.problems:
            causes = "; ".join(str(problem) for problem in decision.request.problems)
            self._warn_once(kinds, placement, INPUT_INVALID, f"scheduling stopped: {causes}")
            return
        self._wrong[INPUT_INVALID].pop(decision.request.key, None)
        self._tell_changes(about, decision)
        if not decision.fulfilled and _was_not_false(decision):
            self._events.emit(about, WARNING, INCOMPLETE, summary(decision))
        self._tell_unreadable(about, decision)

    def several_latest(self, kinds: Kinds, placement: Observed[Placement], names: str) -> None:
        message = f"several policy snapshots are marked as the latest, exactly one may be: {names}"
        self._warn_once(kinds, placement, INPUT_INVALID, message)

    def failed(self, kinds: Kinds, placement: Observed[Placement], error: Exception) -> None:
        """No fault of the placement."""
        self._warn_once(kinds, placement, FAILED, f"the attempt failed and is tried again: {_named(error)}")

    def forget(self, key: str) -> None:
        self._unreadable.pop(key, None)
        for told in self._wrong.values():
            told.pop(key, None)

    def _warn_once(self, kinds: Kinds, placement: Observed[Placement], reason: str, message: str) -> None:
        """Until something else is wrong, or nothing is."""
        told, key = self._wrong[reason], key_of(placement.view.metadata)
        if told.get(key) != message:
            told[key] = message
            self._events.emit(_about(kinds, placement), WARNING, reason, message)

    def _tell_changes(self, about: ObjectReference, decision: Decision) -> None:
        before = _in_use(decision.bindings)
        gained, lost = set(), set()
        for operation in decision.operations:
            if operation.action in (Action.CREATE, Action.REVIVE):
                gained.add(operation.cluster)
            elif operation.action is Action.UNSCHEDULE:
                lost.add(operation.cluster)
        added, removed = gained - before, lost - gained - _kept(decision, lost)
        parts = [f"{word} {_listed(names)}" for word, names in (("added", added), ("removed", removed)) if names]
        if parts:
            self._events.emit(about, NORMAL, CHANGED, "; ".join(parts))

    def _tell_unreadable(self, about: ObjectReference, decision: Decision) -> None:
        """Once per placement, cluster and property, until it changes."""
        key = decision.request.key
        found = frozenset(
            (decision.frame.name(row), warning.subject)
            for warning in decision.warnings
            if warning.kind == UNREADABLE_PROPERTY
            for row in each_row(warning.rows)
        )
        known = self._unreadable.get(key, frozenset())
        for cluster, name in sorted(found - known):
            text = f"property {name} of cluster {cluster} is not a quantity: it counts as missing there"
            self._events.emit(about, WARNING, PROPERTY_UNREADABLE, text)
        if found:
            self._unreadable[key] = found
        elif decision.rounds:
            self._unreadable.pop(key, None)


def _named(error: Exception) -> str:
    """Our own errors are sentences; others mean little without the name of their type."""
    return str(error) if isinstance(error, FleetError) else f"{type(error).__name__}: {error}"


def _about(kinds: Kinds, placement: Observed[Placement]) -> ObjectReference:
    return ObjectReference.of(kinds.flavour.placement, placement.view.metadata)


def _in_use(bindings: PlacementBindings) -> set[str]:
    live = (*bindings.obsolete.values(), *bindings.scheduled.values(), *bindings.bound.values())
    return {one.spec.target_cluster for one in live}


def _kept(decision: Decision, lost: set[str]) -> set[str]:
    """Clusters that lose only a second binding."""
    gone = {one.name for one in decision.operations if one.action is Action.UNSCHEDULE}
    bindings = decision.bindings
    live = (*bindings.obsolete.values(), *bindings.scheduled.values(), *bindings.bound.values())
    return {one.spec.target_cluster for one in live if one.metadata.name not in gone} & lost


def _was_not_false(decision: Decision) -> bool:
    before = next((one for one in decision.previous.conditions if one.type == SCHEDULED_CONDITION), None)
    if before is None or before.status != "False":
        return True
    return before.observed_generation < decision.request.snapshot_generation


def _listed(names: set[str]) -> str:
    shown = sorted(names)[:_NAMES_SHOWN]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
