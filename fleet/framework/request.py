"""Placement requests: compiled once per policy snapshot, and checked before anything is decided.

Only the parts that the placement type evaluates are checked. All problems are collected and travel with the request:
the cycle publishes them and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, Literal

from fleet.checkpoint import check
from fleet.framework.policy.data_sets import find_locality_problems, parse_locality
from fleet.framework.policy.placement_terms import (
    NO_TERMS,
    build_group,
    find_text_problems,
    format_labels,
    format_terms,
    parse_labels,
    parse_terms,
)
from fleet.framework.policy.quotas import Quotas, parse_quotas, write_quotas
from fleet.framework.policy.resource_requests import (
    NO_NEEDS,
    NOTHING,
    Needs,
    OverriddenNeeds,
    find_request_problems,
    format_needs,
    format_requests,
    join_requests,
    parse_needs,
    parse_requests,
    split_requests,
)
from fleet.framework.policy.terms import (
    LabelTest,
    Preference,
    PropertyRef,
    PropertyTest,
    Sorter,
    Term,
    label_tests,
    property_tests,
)
from fleet.model.keys import (
    AFFINITY,
    GATES,
    LOCALITY,
    MIN_TARGETS,
    NEVER,
    NUMBER_OF_CLUSTERS,
    OPTIONS,
    PARENT_PLACEMENT,
    PICK_ALL,
    PICK_FIXED,
    PICK_N,
    PLACEMENT_GENERATION,
    PLACEMENT_LABELS,
    PREEMPTION_POLICY,
    PRIORITY,
    QUOTAS,
    REQUESTS,
    SCHEDULER_NAME,
    WORKLOAD_LIMITS,
    WORKLOAD_REMARKS,
    WORKLOAD_REQUESTS,
)
from fleet.model.labels import is_label
from fleet.model.quantity import quantity_or_none
from fleet.model.selectors import find_selector_problems
from fleet.model.views import (
    ClusterSelectorTerm,
    Gate,
    LabelSelector,
    PlacementPolicy,
    PlacementTerms,
    PolicySnapshot,
    PreferredClusterSelector,
    PropertyRequirement,
    Toleration,
    TopologySpreadConstraint,
)
from fleet.snapshot.columns.numbers import OPERATORS
from fleet.snapshot.sidedata import ResidentGroup

DEFAULT_SCHEDULER = "DefaultScheduler"
OPTIONS_REQUIRED: Final = "required"
DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
_MOST_DIGITS = 18
"""So that every number read fits 64 bits: the API server has no larger ones."""
_AFFINITY = "spec.policy.affinity.clusterAffinity"
REQUIRED_FIELD = _AFFINITY + ".requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms"
PREFERRED_FIELD = _AFFINITY + ".preferredDuringSchedulingIgnoredDuringExecution"
SPREAD_FIELD = "spec.policy.topologySpreadConstraints"
TOLERATIONS_FIELD = "spec.policy.tolerations"
NAMES_FIELD = "spec.policy.clusterNames"
COUNT_FIELD = "spec.policy.numberOfClusters"
SELECTORS_FIELD = "spec.resourceSelectors"
OPTIONS_FIELD: Final = "options"
"""Of the placement: an object of their own."""
ANNOTATIONS_READ: Final = (OPTIONS, GATES, REQUESTS, LOCALITY, AFFINITY, MIN_TARGETS)
"""Of placements, beside the scheduler name."""


Requester = Literal["placement", "workloads"]


@dataclass(frozen=True, slots=True)
class PolicyProblem:
    """Something in a policy that cannot be evaluated. In simulations also resource selectors, which the placement
    controller refuses before there is a policy."""

    field: str
    value: object
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True)
class UnusedPart:
    """Something in a policy that has no effect."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Constraint:
    key: str
    max_skew: int
    hard: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRequest:
    placement: str
    namespace: str = ""
    uid: str = ""
    snapshot: str = ""
    snapshot_uid: str = ""
    snapshot_generation: int = 0
    generation: int | None = None
    """The placement's generation that this snapshot was made for; None if it cannot be read."""
    placement_type: str = PICK_ALL
    wanted: int | None = None
    """PickN: how many clusters."""
    cluster_names: tuple[str, ...] = ()
    """PickFixed: the names, without repetitions."""
    required: tuple[Term, ...] = ()
    preferred: tuple[Preference, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    problems: tuple[PolicyProblem, ...] = ()
    unused: tuple[UnusedPart, ...] = ()
    """Parts of the policy that its placement type does not evaluate."""
    priority: int = 0
    """For PreEnqueue, and where a profile evicts."""
    never_preempts: bool = False
    """Nothing is evicted for it."""
    min_targets: int | None = None
    """PickN: without that many clusters no further one is taken."""
    requests: Mapping[str, int] = field(default_factory=dict)
    """What the copy on one cluster needs, by resource, in whole units."""
    node_requests: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """What it needs beside that on each node of the cluster."""
    overridden_requests: tuple[OverriddenNeeds, ...] = ()
    """What it needs beside that on clusters with some labels."""
    limits: Needs = NO_NEEDS
    """What its selected workloads are limited to, as `workload_limits` names it; nothing if the placement says what it
    needs."""
    requested_by: Requester | None = None
    """Who says so; None if nothing is requested."""
    locality: Mapping[str, int] = field(default_factory=dict)
    """The data sets that the copy on one cluster reads, with their bytes."""
    affinity: PlacementTerms = NO_TERMS
    """The placements that it belongs with, and those it keeps away from."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the placement, where a plugin of its profile reads residents."""
    quotas: Quotas = ()
    """What is in use of the quotas that the placement belongs to."""
    gates: tuple[Gate, ...] = ()
    """For PreEnqueue: what holds the placement."""
    held_by_group: str = ""
    """For PreEnqueue: why the group of the placement is not decided now."""
    scheduler_name: str = ""
    """As the placement names it; empty without."""
    policy: PlacementPolicy | None = field(default=None, repr=False, compare=False)
    """As written, for services outside."""
    key: str = field(init=False, repr=False, compare=False)
    """Namespace and name of the placement as text."""

    def __post_init__(self) -> None:
        key = f"{self.namespace}/{self.placement}" if self.namespace else self.placement
        object.__setattr__(self, "key", key)

    def add_problems(self, problems: Iterable[PolicyProblem]) -> PlacementRequest:
        """The same request, refused for these reasons first."""
        return replace(self, problems=(*problems, *self.problems))

    def list_lasting_problems(self) -> list[PolicyProblem]:
        """Those that no other policy would repair."""
        lasting = (SELECTORS_FIELD, *map(annotation_field, ANNOTATIONS_READ))
        return [problem for problem in self.problems if problem.field in lasting]

    @property
    def resident_group(self) -> ResidentGroup:
        """What it is to other placements once it is on a cluster."""
        return build_group(self.namespace, self.labels, format_terms(self.affinity))

    @property
    def may_evict(self) -> bool:
        """Without a priority, nothing but what its quotas guarantee."""
        return not self.never_preempts and bool(self.priority or self.quotas)

    @property
    def needs(self) -> Needs:
        return Needs(self.requests, self.node_requests, self.overridden_requests)


def is_scheduler_name(name: str) -> bool:
    """A DNS label, the name of the default profile, or empty for the latter."""
    return name in ("", DEFAULT_SCHEDULER) or is_label(name)


def parse_gates(text: str) -> tuple[Gate, ...]:
    return tuple(Gate(name=name.strip()) for name in text.split(",")) if text.strip() else ()


def _find_annotation_problems(annotations: Mapping[str, str]) -> Iterator[PolicyProblem]:
    options = annotations.get(OPTIONS, OPTIONS_REQUIRED)
    if options != OPTIONS_REQUIRED:
        message = f"{options!r} has no meaning: write {OPTIONS_REQUIRED}, or leave the annotation out"
        yield PolicyProblem(annotation_field(OPTIONS), options, message)
    for gate in parse_gates(annotations.get(GATES, "")):
        if not is_label(gate.name):
            message = f"{gate.name!r} is no name of a gate: use lower-case letters, digits and dashes"
            yield PolicyProblem(annotation_field(GATES), annotations[GATES], message)
    for _, message in find_request_problems(split_requests(annotations.get(REQUESTS, ""))):
        yield PolicyProblem(annotation_field(REQUESTS), annotations[REQUESTS], message)
    for message in find_locality_problems(split_requests(annotations.get(LOCALITY, ""))):
        yield PolicyProblem(annotation_field(LOCALITY), annotations[LOCALITY], message)
    for message in find_text_problems(annotations.get(AFFINITY, "")):
        yield PolicyProblem(annotation_field(AFFINITY), annotations[AFFINITY], message)
    least = annotations.get(MIN_TARGETS)
    if least is not None and not _is_count(least):
        yield PolicyProblem(annotation_field(MIN_TARGETS), least, f"{least!r} is not a whole number of 1 or more")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) > 0


def annotation_field(key: str) -> str:
    return f"metadata.annotations[{key}]"


def write_annotations(request: PlacementRequest) -> dict[str, str]:
    """What a placement says beside its policy and its gates, as `compile_request` reads it."""
    is_computed = request.requested_by == "workloads"
    texts = {
        REQUESTS: "" if is_computed else format_requests(request.requests),
        WORKLOAD_REQUESTS: format_needs(request.needs) if is_computed else "",
        WORKLOAD_LIMITS: format_needs(request.limits),
        LOCALITY: join_requests(request.locality),
        AFFINITY: format_terms(request.affinity),
        PLACEMENT_LABELS: format_labels(request.labels),
        QUOTAS: write_quotas(request.quotas),
        MIN_TARGETS: "" if request.min_targets is None else str(request.min_targets),
        PRIORITY: str(request.priority) if request.priority else "",
        PREEMPTION_POLICY: NEVER if request.never_preempts else "",
    }
    return {key: text for key, text in texts.items() if text}


def compile_request(
    snapshot: PolicySnapshot,
    *,
    placement_uid: str = "",
    scheduler_name: str | None = None,
    placement_annotations: Mapping[str, str] | None = None,
) -> PlacementRequest:
    """The request of a policy snapshot. Never raises on a bad policy: see `problems`.

    Snapshots of the history carry the scheduler name of their placement and its mistaken annotations."""
    policy = snapshot.spec.policy or PlacementPolicy()
    problems: list[PolicyProblem] = []
    annotations = snapshot.metadata.annotations or {}
    generation = _count(annotations, PLACEMENT_GENERATION, problems)
    named = annotations.get(SCHEDULER_NAME, "") if scheduler_name is None else scheduler_name
    if not is_scheduler_name(named):
        message = f"{named!r} is no scheduler name: use lower-case letters, digits and dashes"
        problems.append(PolicyProblem(annotation_field(SCHEDULER_NAME), named, message))
    own = annotations if placement_annotations is None else placement_annotations
    problems += _find_annotation_problems(own)
    kind = policy.placement_type or PICK_ALL
    wanted = _count(annotations, NUMBER_OF_CLUSTERS, problems) if kind == PICK_N else None
    if kind not in (PICK_ALL, PICK_N, PICK_FIXED):
        message = f"{kind!r} is no placement type; use PickAll, PickN or PickFixed"
        problems.append(PolicyProblem("spec.policy.placementType", kind, message))
    requested_by, needs = _read_needs(own, annotations)
    least = _read_min_targets(own.get(MIN_TARGETS, ""), wanted, problems) if kind == PICK_N else None
    selects = kind in (PICK_ALL, PICK_N)
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    required = affinity.required.cluster_selector_terms if selects and affinity and affinity.required else ()
    preferred = affinity.preferred if kind == PICK_N and affinity else ()
    return PlacementRequest(
        placement=snapshot.metadata.label(PARENT_PLACEMENT) or "",
        namespace=snapshot.metadata.namespace,
        uid=placement_uid,
        snapshot=snapshot.metadata.name,
        snapshot_uid=snapshot.metadata.uid,
        snapshot_generation=snapshot.metadata.generation,
        generation=generation,
        placement_type=kind,
        wanted=wanted,
        cluster_names=tuple(dict.fromkeys(policy.cluster_names)) if kind == PICK_FIXED else (),
        required=tuple(_terms(required, problems)),
        preferred=tuple(_preferences(preferred, problems)),
        constraints=tuple(_constraints(policy, problems)) if kind == PICK_N else (),
        tolerations=policy.tolerations if selects else (),
        problems=tuple(problems),
        priority=_read_priority(own.get(PRIORITY, "")),
        never_preempts=own.get(PREEMPTION_POLICY) == NEVER,
        min_targets=least,
        requests=dict(needs.fixed),
        node_requests=needs.per_node,
        overridden_requests=needs.overridden,
        limits=NO_NEEDS
        if REQUESTS in own
        else parse_needs(own.get(WORKLOAD_LIMITS, annotations.get(WORKLOAD_LIMITS, ""))),
        requested_by=requested_by,
        locality=parse_locality(own.get(LOCALITY, "")),
        affinity=parse_terms(own.get(AFFINITY, "")),
        labels=parse_labels(own.get(PLACEMENT_LABELS, "")),
        quotas=parse_quotas(own.get(QUOTAS, "")),
        unused=(*_find_unused(policy, kind, own), *_read_workload_remarks(annotations, requested_by)),
        scheduler_name=named,
        policy=snapshot.spec.policy,
    )


def _read_priority(text: str) -> int:
    """As the scheduler wrote it: annotations of placements do not say it."""
    return int(text) if text.removeprefix("-").isdecimal() and len(text) <= _MOST_DIGITS else 0


def _read_needs(own: Mapping[str, str], of_snapshot: Mapping[str, str]) -> tuple[Requester | None, Needs]:
    """What the placement says wins over what its workloads need."""
    said = own.get(REQUESTS)
    if said is not None:
        needs = Needs(parse_requests(said))
        return "placement" if any(needs) else None, needs
    needs = parse_needs(own.get(WORKLOAD_REQUESTS, of_snapshot.get(WORKLOAD_REQUESTS, "")))
    return "workloads" if any(needs) else None, needs


def _read_workload_remarks(annotations: Mapping[str, str], requested_by: Requester | None) -> Iterator[UnusedPart]:
    """Where the placement says what it needs, workloads are not asked."""
    for remark in annotations.get(WORKLOAD_REMARKS, "").splitlines() if requested_by != "placement" else ():
        yield UnusedPart(SELECTORS_FIELD, remark)


def _read_min_targets(text: str, wanted: int | None, problems: list[PolicyProblem]) -> int | None:
    if not _is_count(text):
        return None
    least = int(text)
    if wanted is not None and least > wanted:
        message = f"{wanted} is less than the {least} clusters of minTargets: lower that, or ask for more clusters"
        problems.append(PolicyProblem(COUNT_FIELD, wanted, message))
    return least


def _find_unused(policy: PlacementPolicy, kind: str, own: Mapping[str, str]) -> Iterator[UnusedPart]:
    """Snapshots are not judged by the definitions, which refuse most of this in a placement."""
    affinity = policy.affinity.cluster_affinity if policy.affinity else None
    given = {
        NAMES_FIELD: (PICK_FIXED, policy.cluster_names),
        COUNT_FIELD: (PICK_N, policy.number_of_clusters is not None),
        SPREAD_FIELD: (PICK_N, policy.topology_spread_constraints),
        PREFERRED_FIELD: (PICK_N, affinity and affinity.preferred),
        annotation_field(MIN_TARGETS): (PICK_N, MIN_TARGETS in own),
    }
    for path, (reader, value) in given.items():
        if value and kind != reader:
            name = "minTargets" if MIN_TARGETS in path else path.rpartition(".")[2]
            yield UnusedPart(path, f"{name} has no effect with {kind}, only with {reader}")
    if kind == PICK_FIXED:
        for path, value in ((REQUIRED_FIELD, affinity and affinity.required), (TOLERATIONS_FIELD, policy.tolerations)):
            if value:
                yield UnusedPart(
                    path, f"{path.rpartition('.')[2]} has no effect with PickFixed, which takes what it names"
                )
    if kind in (PICK_ALL, PICK_N) and affinity is not None:
        yield from _find_unused_sorters(affinity.required.cluster_selector_terms if affinity.required else ())
    if kind == PICK_N and affinity is not None:
        for position, preferred in enumerate(affinity.preferred):
            path = f"{PREFERRED_FIELD}[{position}]"
            if preferred.weight == 0:
                yield UnusedPart(f"{path}.weight", f"preference {position + 1} has weight 0, so it ranks nothing")
            elif preferred.preference.property_selector is not None:
                message = f"preference {position + 1}: a propertySelector is evaluated in required terms only"
                yield UnusedPart(f"{path}.preference.propertySelector", message)


def _find_unused_sorters(terms: tuple[ClusterSelectorTerm, ...]) -> Iterator[UnusedPart]:
    for position, term in enumerate(terms):
        if term.property_sorter is not None:
            message = f"term {position + 1}: a propertySorter is evaluated in preferred terms only"
            yield UnusedPart(f"{REQUIRED_FIELD}[{position}].propertySorter", message)


def _count(annotations: Mapping[str, str], key: str, problems: list[PolicyProblem]) -> int | None:
    text = annotations.get(key)
    if text is not None and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    shown = "the annotation is missing" if text is None else f"{text!r} is not a whole number of 0 or more"
    problems.append(PolicyProblem(f"metadata.annotations[{key}]", text, shown))
    return None


def _terms(terms: tuple[ClusterSelectorTerm, ...], problems: list[PolicyProblem]) -> Iterator[Term]:
    for position, term in enumerate(terms):
        check()
        path = f"{REQUIRED_FIELD}[{position}]"
        labels = _labels(term.label_selector, f"{path}.labelSelector", problems)
        yield Term(labels or (), _properties(term, path, problems))


def _labels(selector: LabelSelector | None, path: str, problems: list[PolicyProblem]) -> tuple[LabelTest, ...] | None:
    if selector is None:
        return None
    mistakes = find_selector_problems(selector)
    problems.extend(PolicyProblem(f"{path}.{mistake.field}", mistake.value, mistake.message) for mistake in mistakes)
    return () if mistakes else label_tests(selector)


def _properties(term: ClusterSelectorTerm, path: str, problems: list[PolicyProblem]) -> tuple[PropertyTest, ...]:
    expressions = term.property_selector.match_expressions if term.property_selector else ()
    bounds: list[Fraction] = []
    before = len(problems)
    for position, expression in enumerate(expressions):
        check()
        where = f"{path}.propertySelector.matchExpressions[{position}]"
        problems.extend(_expression_problems(expression, where))
        bound = quantity_or_none(expression.values[0]) if expression.values else None
        bounds.append(Fraction(0) if bound is None else bound)
    return property_tests(term, bounds) if len(problems) == before else ()


def _expression_problems(expression: PropertyRequirement, path: str) -> Iterator[PolicyProblem]:
    yield from _name_problems(expression.name, path)
    if expression.operator not in OPERATORS:
        message = f"{expression.operator!r} is no operator; use {', '.join(OPERATORS)}"
        yield PolicyProblem(f"{path}.operator", expression.operator, message)
    if len(expression.values) != 1:
        message = f"{expression.name} needs exactly one value, {len(expression.values)} given"
        yield PolicyProblem(f"{path}.values", list(expression.values), message)
    elif quantity_or_none(expression.values[0]) is None:
        message = f"{expression.values[0]!r} is no quantity such as 4, 500m or 16Gi"
        yield PolicyProblem(f"{path}.values[0]", expression.values[0], message)


def _name_problems(name: str, path: str) -> Iterator[PolicyProblem]:
    if PropertyRef.parse(name) is None:
        message = f"{name!r} should read resources.kubernetes-fleet.io/<total, allocatable or available>-<resource>"
        yield PolicyProblem(f"{path}.name", name, message)


def _preferences(
    preferred: tuple[PreferredClusterSelector, ...], problems: list[PolicyProblem]
) -> Iterator[Preference]:
    for position, selector in enumerate(preferred):
        check()
        if selector.weight == 0:
            continue
        path = f"{PREFERRED_FIELD}[{position}].preference"
        labels = _labels(selector.preference.label_selector, f"{path}.labelSelector", problems)
        yield Preference(selector.weight, labels, _sorter(selector.preference, f"{path}.propertySorter", problems))


def _sorter(term: ClusterSelectorTerm, path: str, problems: list[PolicyProblem]) -> Sorter | None:
    sorter = term.property_sorter
    if sorter is None:
        return None
    problems.extend(_name_problems(sorter.name, path))
    if sorter.sort_order not in ("Ascending", "Descending"):
        message = f"{sorter.sort_order!r} is no sort order; use Ascending or Descending"
        problems.append(PolicyProblem(f"{path}.sortOrder", sorter.sort_order, message))
    ref = PropertyRef.parse(sorter.name)
    return None if ref is None else Sorter(ref, sorter.sort_order == "Ascending")


def _constraints(policy: PlacementPolicy, problems: list[PolicyProblem]) -> Iterator[Constraint]:
    for position, constraint in enumerate(policy.topology_spread_constraints):
        problems.extend(_constraint_problems(constraint, f"{SPREAD_FIELD}[{position}]"))
        yield Constraint(
            constraint.topology_key, constraint.max_skew or 1, constraint.when_unsatisfiable != SCHEDULE_ANYWAY
        )


def _constraint_problems(constraint: TopologySpreadConstraint, path: str) -> Iterator[PolicyProblem]:
    if constraint.when_unsatisfiable not in ("", DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        message = f"{constraint.when_unsatisfiable!r} should be DoNotSchedule or ScheduleAnyway"
        yield PolicyProblem(f"{path}.whenUnsatisfiable", constraint.when_unsatisfiable, message)
    if constraint.max_skew < 0:
        yield PolicyProblem(f"{path}.maxSkew", constraint.max_skew, f"{constraint.max_skew} should be 1 or more")
