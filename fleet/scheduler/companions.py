"""Companions: the options and approvals beside placements, as the scheduler reads them.

A placement without PlacementOptions, or on a hub without their definition, has the empty companion. One whose options
cannot be used is not scheduled until they are corrected (`problem`): its author did not get what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fleet.clock import SECOND
from fleet.framework.approvals import PLUGIN, ApprovalFacts, find_rule_problems
from fleet.framework.policy.data_sets import find_locality_problems
from fleet.framework.policy.placement_terms import find_term_problems, format_terms
from fleet.framework.policy.resource_requests import find_request_problems, join_requests
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import (
    OPTIONS_FIELD,
    PlacementRequest,
    PolicyProblem,
    annotation_field,
    is_scheduler_name,
    parse_gates,
)
from fleet.informers.cache import Caches
from fleet.model.keys import (
    AFFINITY,
    GATES,
    GROUP,
    LOCALITY,
    MIN_TARGETS,
    PRIORITY_CLASS,
    REQUESTS,
    SCHEDULER_NAME,
    WORKLOAD_LIMITS,
    WORKLOAD_REQUESTS,
)
from fleet.model.labels import is_label
from fleet.model.placement_key import PlacementKey
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import ApprovalRule, Gate, Metadata, Observed, PlacementOptions, PlacementOptionsSpec
from fleet.scheduler.requests import read_annotations

COMPANION: Final = "PlacementOptions"
"""Stands for the plugin that holds back a placement with unusable options."""
GANG: Final = "GangPlacement"
"""The plugin that decides groups."""
LARGEST_PRIORITY: Final = 1_000_000_000
LONGEST_HINT: Final = 24 * 3600 * SECOND
_USE_LABEL: Final = "use lower-case letters, digits and dashes"


@dataclass(frozen=True, slots=True)
class Companion:
    """The options of one placement."""

    scheduler_name: str = ""
    """Empty if they name none; that of the placement's annotation counts then."""
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    gates: tuple[Gate, ...] = ()
    approvals: tuple[ApprovalRule, ...] = ()
    group: str = ""
    """Empty if they name none."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """What annotations of the placement may say, too, as they would."""
    hints: tuple[tuple[str, int], ...] = ()
    """Clusters to try first, with the end of each hint in nanoseconds since the epoch."""
    problem: str = ""
    """What is wrong with them, with the field; empty if they can be used."""

    def name_scheduler(self, placement: Metadata) -> str:
        """The profile that it names, else the annotation of its placement; empty if neither does."""
        return self.scheduler_name or placement.annotation(SCHEDULER_NAME) or ""

    def name_group(self, placement: Metadata) -> str:
        """The same of the group."""
        return self.group or placement.annotation(GROUP) or ""

    def choose_class(self, placement: Metadata) -> str:
        """The PriorityClass that its priority comes from; empty if from none."""
        named = placement.annotation(PRIORITY_CLASS) if self.priority is None else ""
        return self.priority_class_name or named or ""

    def list_hints(self, now: int) -> tuple[str, ...]:
        """Those in force: not over, and not meant for more than a day from now."""
        return tuple(cluster for cluster, end in self.hints if now < end <= now + LONGEST_HINT)

    def find_hint_change(self, now: int) -> int | None:
        """The next moment at which other hints are in force; None if there is none."""
        moments = (moment for _, end in self.hints for moment in (end - LONGEST_HINT, end))
        return min((moment for moment in moments if moment > now), default=None)


NO_COMPANION: Final = Companion()


class Companions:
    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._read: dict[PlacementKey, tuple[Observed[PlacementOptions], Companion]] = {}

    def find(self, key: PlacementKey) -> Companion:
        """The companion of the placement of that key; the empty one without options."""
        kinds = self._caches.find_kinds(key)
        if kinds is None:
            return NO_COMPANION
        name = str(key)
        options = kinds.options.store.get(name)
        if options is None:
            if self._read:
                self._read.pop(key, None)
            unreadable = kinds.options.reflector.unreadable.get(name)
            return Companion(problem=f"unreadable: {unreadable.error}") if unreadable else NO_COMPANION
        read = self._read.get(key)
        if read is None or read[0] is not options:
            read = self._read[key] = (options, read_companion(options.view.spec))
        return read[1]

    def scheduler_name_of(self, placement: Metadata) -> str:
        return self.find(PlacementKey.of(placement)).name_scheduler(placement)

    def group_of(self, placement: Metadata) -> str:
        return self.find(PlacementKey.of(placement)).name_group(placement)

    def requests_of(self, placement: Metadata) -> str | None:
        """What one cluster's copy needs, by the companion, else by the annotation, else by the selected workloads; None
        if none of them says so."""
        key = PlacementKey.of(placement)
        said = self.find(key).annotations.get(REQUESTS, placement.annotation(REQUESTS))
        return self._read_snapshot(key, WORKLOAD_REQUESTS) if said is None else said

    def limits_of(self, placement: Metadata) -> str | None:
        """Those of the selected workloads, where nothing else says what is needed."""
        key = PlacementKey.of(placement)
        says = REQUESTS in self.find(key).annotations or placement.annotation(REQUESTS) is not None
        return None if says else self._read_snapshot(key, WORKLOAD_LIMITS)

    def _read_snapshot(self, key: PlacementKey, annotation: str) -> str | None:
        """What its latest policy snapshot says about the selected workloads."""
        kinds = self._caches.find_kinds(key)
        latest = [] if kinds is None else kinds.latest_snapshots(key)
        return latest[0].view.metadata.annotation(annotation) if len(latest) == 1 else None

    def annotations_of(self, placement: Metadata) -> dict[str, str]:
        """Those that decisions read; what the companion says comes first."""
        return {**read_annotations(placement), **self.find(PlacementKey.of(placement)).annotations}


def read_companion(spec: PlacementOptionsSpec) -> Companion:
    return Companion(
        scheduler_name=spec.scheduler_name,
        priority_class_name=spec.priority_class_name,
        priority=spec.priority,
        preemption_policy=spec.preemption_policy,
        gates=spec.gates,
        approvals=spec.approvals,
        group=spec.group,
        annotations=dict(_write_annotations(spec)),
        hints=tuple(
            (hint.cluster, end)
            for hint in spec.placement_hints
            if (end := timestamp_or_none(hint.expires_at)) is not None
        ),
        problem=next(_find_problems(spec), ""),
    )


def _write_annotations(spec: PlacementOptionsSpec) -> Iterator[tuple[str, str]]:
    if spec.requests is not None:
        yield REQUESTS, join_requests(spec.requests)
    if spec.locality is not None:
        yield LOCALITY, join_requests(_map_sizes(spec))
    if spec.affinity is not None:
        yield AFFINITY, format_terms(spec.affinity)
    if spec.min_targets is not None:
        yield MIN_TARGETS, str(spec.min_targets)


def _map_sizes(spec: PlacementOptionsSpec) -> dict[str, str | int | float]:
    return {data_set.name: data_set.bytes for data_set in spec.locality or ()}


def _find_problems(spec: PlacementOptionsSpec) -> Iterator[str]:
    """The API server checks most of this, but for label selectors, and objects may be older than its rules."""
    if not is_scheduler_name(spec.scheduler_name):
        yield f"spec.schedulerName: {spec.scheduler_name!r} is no scheduler name: {_USE_LABEL}"
    if spec.priority is not None and abs(spec.priority) > LARGEST_PRIORITY:
        yield f"spec.priority: {spec.priority} is out of range: use -{LARGEST_PRIORITY} to {LARGEST_PRIORITY}"
    for position, gate in enumerate(spec.gates):
        if not is_label(gate.name):
            yield f"spec.gates[{position}].name: {gate.name!r} is no name of a gate: {_USE_LABEL}"
    for position, rule in enumerate(spec.approvals):
        yield from (f"spec.approvals[{position}].{problem}" for problem in find_rule_problems(rule))
    for _, message in find_request_problems(spec.requests or {}):
        yield f"spec.requests: {message}"
    for message in find_locality_problems(_map_sizes(spec)):
        yield f"spec.locality: {message}"
    for message in find_term_problems(spec.affinity) if spec.affinity is not None else ():
        yield f"spec.affinity.{message}"
    if spec.min_targets is not None and spec.min_targets < 1:
        yield f"spec.minTargets: {spec.min_targets} is less than 1"


def read_approval_facts(caches: Caches, companions: Companions, key: PlacementKey) -> ApprovalFacts:
    """What the hub has about the placement; empty if it is gone."""
    kinds = caches.find_kinds(key)
    placement = None if kinds is None else kinds.get_placement(key)
    if placement is None:
        return ApprovalFacts()
    metadata = placement.view.metadata

    def labels_of(cluster: str) -> Mapping[str, str] | None:
        known = caches.clusters.get(cluster)
        return None if known is None else known.metadata.labels

    return ApprovalFacts(
        uid=metadata.uid,
        labels=metadata.labels,
        rules=companions.find(key).approvals,
        approvals=tuple(approval.view for approval in caches.approvals(key)),
        spec=placement.view.spec,
        labels_of=labels_of,
    )


def list_approval_rules(profile: CompiledProfile, facts: ApprovalFacts) -> list[ApprovalRule]:
    """None, if the profile does not ask for approvals."""
    plugin = find_approval_plugin(profile)
    rules: list[ApprovalRule] = [] if plugin is None else plugin.list_rules(facts)
    return rules


def find_approval_plugin(profile: CompiledProfile) -> Any:
    return next((entry.plugin for entry in profile.hooks["permit"] if entry.name == PLUGIN), None)


def merge_gates(metadata: Metadata, companion: Companion) -> tuple[Gate, ...]:
    """Each name once; the companion may say more about a gate of the annotation."""
    said = metadata.annotation(GATES)
    gates = {gate.name: gate for gate in parse_gates(said)} if said else {}
    return tuple((gates | {gate.name: gate for gate in companion.gates}).values())


def refuse_unusable(request: PlacementRequest, companion: Companion) -> PlacementRequest:
    """For what is wrong with the options, and not with annotations that the placement does not have."""
    if not companion.problem:
        return request
    said = {annotation_field(key) for key in companion.annotations}
    left = tuple(problem for problem in request.problems if problem.field not in said)
    problem = PolicyProblem(OPTIONS_FIELD, companion.problem, f"cannot be used: {companion.problem}")
    return replace(request, problems=left).add_problems([problem])


def describe_missing_plugin(scheduler_name: str) -> str:
    return (
        f"its options ask for approvals, and profile {scheduler_name} has no plugin {PLUGIN}: name another profile in "
        "spec.schedulerName, or add the plugin at permit"
    )


def describe_lone_member(group: str, scheduler_name: str) -> str:
    return f"its group {group} needs plugin {GANG}, which profile {scheduler_name} does not have"
