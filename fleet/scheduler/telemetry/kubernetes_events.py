"""Kubernetes events about placements: changes of the selected clusters, missing clusters, invalid inputs, failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from fleet.errors import FleetError
from fleet.explain.facts.summary import summarize
from fleet.explain.remarks.mistakes import Mistake
from fleet.explain.remarks.remarks import describe_mistakes
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import UNREADABLE_PROPERTY
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Action
from fleet.informers.cache import PlacementKinds
from fleet.kube.events import NORMAL, WARNING, ObjectReference
from fleet.kube.resource import key_of
from fleet.model.keys import SCHEDULED_CONDITION
from fleet.model.placement_key import PlacementKey
from fleet.model.views import Binding, Condition, Observed, Placement
from fleet.name_lists import join_first
from fleet.snapshot.columns.bitset import each_row

CHANGED: Final = "SchedulingChanged"
INCOMPLETE: Final = "SchedulingIncomplete"
INPUT_INVALID: Final = "SchedulingInputInvalid"
FAILED: Final = "SchedulerError"
REFUSED: Final = "Unschedulable"
GATED: Final = "SchedulingGated"
WAITING: Final = "SchedulingWaiting"
PREEMPTING: Final = "Preempting"
EVICTED: Final = "Preempted"
PROPERTY_UNREADABLE: Final = "ClusterPropertyUnreadable"
POLICY_REMARKED: Final = "PolicyRemarked"
_NAMES_SHOWN: Final = 10
_MOST_REMARKED: Final = 8
"""Sets of mistakes that are reported for one policy: clusters come and go, and names with them."""
MOST_MISTAKES: Final = 1_000
"""The first that are looked for, and compared: a large policy may have tens of thousands."""


class EventSink(Protocol):
    def emit(self, about: ObjectReference, type: str, reason: str, message: str) -> None: ...


class SchedulingEvents:
    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._unreadable: dict[str, frozenset[tuple[str, str]]] = {}
        self._last_warnings: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """By reason and placement, to send each only once: the same problem shows in every attempt."""
        self._remarked: dict[str, _Remarked] = {}

    def report_decision(
        self,
        kinds: PlacementKinds,
        placement: Observed[Placement],
        decision: Decision,
        mistakes: Sequence[Mistake],
    ) -> None:
        """To be called after all writes of the attempt."""
        about = _about(kinds, placement)
        for reason in self._last_warnings.keys() - {INPUT_INVALID}:
            self._last_warnings[reason].pop(decision.request.key, None)
        if decision.request.problems:
            causes = "; ".join(str(problem) for problem in decision.request.problems)
            self._warn_once(kinds, placement, INPUT_INVALID, f"scheduling stopped: {causes}")
            return
        self._last_warnings[INPUT_INVALID].pop(decision.request.key, None)
        self._report_changes(about, decision)
        if not decision.fulfilled and _was_not_false(decision):
            self._sink.emit(about, WARNING, INCOMPLETE, summarize(decision))
        self._report_unreadable(about, decision)
        self._report_mistakes(about, decision, mistakes)

    def report_several_latest(self, kinds: PlacementKinds, placement: Observed[Placement], names: str) -> None:
        message = f"several policy snapshots are marked as the latest, exactly one may be: {names}"
        self._warn_once(kinds, placement, INPUT_INVALID, message)

    def report_failure(
        self, kinds: PlacementKinds, placement: Observed[Placement], error: Exception, reason: str = FAILED
    ) -> None:
        """Of the scheduler or a plugin, not of the placement. Who is refused waits until something changes."""
        outcome = "not scheduled" if reason == REFUSED else "the attempt failed and is tried again"
        self._warn_once(kinds, placement, reason, f"{outcome}: {_describe(error)}")

    def report_waiting(self, kinds: PlacementKinds, placement: Observed[Placement], message: str) -> None:
        """For Permit plugins."""
        self._sink.emit(_about(kinds, placement), NORMAL, WAITING, message)

    def report_preempting(self, kinds: PlacementKinds, placement: Observed[Placement], message: str) -> None:
        self._sink.emit(_about(kinds, placement), NORMAL, PREEMPTING, message)

    def report_evicted(self, kinds: PlacementKinds, placement: Observed[Placement], message: str) -> None:
        self._sink.emit(_about(kinds, placement), WARNING, EVICTED, message)

    def report_gated(self, kinds: PlacementKinds, placement: Observed[Placement], message: str) -> None:
        self._warn_once(kinds, placement, GATED, f"not scheduled yet: {message}")

    def forget(self, placement: PlacementKey) -> None:
        key = str(placement)
        self._unreadable.pop(key, None)
        self._remarked.pop(key, None)
        for messages in self._last_warnings.values():
            messages.pop(key, None)

    def _warn_once(self, kinds: PlacementKinds, placement: Observed[Placement], reason: str, message: str) -> None:
        """Once, until the message changes or the problem is gone."""
        messages, key = self._last_warnings[reason], key_of(placement.view.metadata)
        if messages.get(key) != message:
            messages[key] = message
            self._sink.emit(_about(kinds, placement), WARNING, reason, message)

    def _report_changes(self, about: ObjectReference, decision: Decision) -> None:
        before = _clusters_in_use(decision.bindings)
        gained, lost = set(), set()
        for operation in decision.operations:
            if operation.action in (Action.CREATE, Action.REVIVE):
                gained.add(operation.cluster)
            elif operation.action is Action.UNSCHEDULE:
                lost.add(operation.cluster)
        added, removed = gained - before, lost - gained - _find_kept(decision, lost)
        parts = [
            f"{word} {join_first(sorted(names), _NAMES_SHOWN)}"
            for word, names in (("added", added), ("removed", removed))
            if names
        ]
        if parts:
            self._sink.emit(about, NORMAL, CHANGED, "; ".join(parts))

    def _report_unreadable(self, about: ObjectReference, decision: Decision) -> None:
        """Once per placement, cluster and property, until it changes."""
        key = decision.request.key
        unreadable = frozenset(
            (decision.frame.name(row), warning.subject)
            for warning in decision.warnings
            if warning.kind == UNREADABLE_PROPERTY
            for row in each_row(warning.rows)
        )
        known = self._unreadable.get(key, frozenset())
        for cluster, name in sorted(unreadable - known):
            text = f"property {name} of cluster {cluster} is not a quantity: it counts as missing there"
            self._sink.emit(about, WARNING, PROPERTY_UNREADABLE, text)
        if unreadable:
            self._unreadable[key] = unreadable
        elif decision.rounds:
            self._unreadable.pop(key, None)

    def _report_mistakes(self, about: ObjectReference, decision: Decision, mistakes: Sequence[Mistake]) -> None:
        """One event for all of them, once per generation of the policy and set of mistakes.

        A new leader does not repeat what the former one reported with its decision."""
        request = decision.request
        policy = (request.snapshot_uid, request.snapshot_generation, request.wanted)
        names = frozenset((mistake.kind, mistake.field, mistake.subject, mistake.value) for mistake in mistakes)
        remarked = self._remarked.get(request.key)
        if remarked is None and _find_published(decision) is not None:
            self._remarked[request.key] = _Remarked(policy, {names})
            return
        if remarked is None or remarked.policy != policy:
            remarked = self._remarked[request.key] = _Remarked(policy, set())
        if mistakes and names not in remarked.sets and len(remarked.sets) < _MOST_REMARKED:
            remarked.sets.add(names)
            self._sink.emit(about, WARNING, POLICY_REMARKED, _describe_mistakes(mistakes, decision))


class _Remarked(NamedTuple):
    """The sets of mistakes reported for one policy."""

    policy: tuple[str, int, int | None]
    sets: set[frozenset[tuple[str, str, str, str]]]


def _describe_mistakes(mistakes: Sequence[Mistake], decision: Decision) -> str:
    shown = describe_mistakes(mistakes[:_NAMES_SHOWN], decision.frame)
    more, at_least = len(mistakes) - len(shown), "at least " if len(mistakes) == MOST_MISTAKES else ""
    sentences = [f"{remark.message}{'' if remark.message.endswith('?') else '.'}" for remark in shown]
    return " ".join([*sentences, *([f"… and {at_least}{more} more"] if more else [])])


def _describe(error: Exception) -> str:
    """Our own errors are sentences; others need the name of their type."""
    return str(error) if isinstance(error, FleetError) else f"{type(error).__name__}: {error}"


def _about(kinds: PlacementKinds, placement: Observed[Placement]) -> ObjectReference:
    return ObjectReference.of(kinds.scope.placement, placement.view.metadata)


def _clusters_in_use(bindings: PlacementBindings) -> set[str]:
    return {binding.spec.target_cluster for binding in _live(bindings)}


def _live(bindings: PlacementBindings) -> tuple[Binding, ...]:
    return (*bindings.obsolete.values(), *bindings.scheduled.values(), *bindings.bound.values())


def _find_kept(decision: Decision, lost: set[str]) -> set[str]:
    """Clusters that lose only a second binding."""
    removed = {operation.name for operation in decision.operations if operation.action is Action.UNSCHEDULE}
    kept = (binding for binding in _live(decision.bindings) if binding.metadata.name not in removed)
    return {binding.spec.target_cluster for binding in kept} & lost


def _was_not_false(decision: Decision) -> bool:
    before = _find_published(decision)
    return before is None or before.status != "False"


def _find_published(decision: Decision) -> Condition | None:
    """The condition of an earlier decision on this generation of the policy."""
    before = next((item for item in decision.previous.conditions if item.type == SCHEDULED_CONDITION), None)
    return None if before is None or before.observed_generation < decision.request.snapshot_generation else before
