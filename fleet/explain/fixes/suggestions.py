"""Suggestions that might let rejected clusters in, by plugin and reason; they are verified elsewhere.

In-tree suggestions are listed here and not in the plugins: an edit changes policies and clusters as their owners write
them, which plugins never see. An out-of-tree plugin may have a method `suggest(request, frame, rows, need)` that
returns edits as plain objects; it takes precedence over this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from fleet.explain.facts.nearness import find_failing_rows, sort_by_name, split_by_count
from fleet.explain.fixes.candidates import Candidate, Dial, Edits, Proposal
from fleet.explain.whatif.edits import (
    Edit,
    LabelCluster,
    Patch,
    RelaxAffinity,
    RelaxSpread,
    RemoveTaint,
    SetReady,
    Tolerate,
    parse_edits,
)
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.request import PlacementRequest
from fleet.framework.terms import LabelTest
from fleet.model.keys import PICK_FIXED
from fleet.model.tolerations import tolerates
from fleet.model.views import Taint
from fleet.snapshot.frame import Frame

MOST_TOGETHER: Final = 3
"""Clusters changed by one fix: a fix that changes half a fleet is not useful."""
MOST_PER_REASON: Final = 4
_LABEL_VALUE: Final = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedClusters:
    """Clusters that one plugin keeps out for one reason."""

    decision: Decision
    question: DecisionInput
    plugin: str
    rows: int
    """As a set: bit i is row i."""
    need: int
    """How many clusters are missing."""

    @property
    def request(self) -> PlacementRequest:
        return self.decision.request

    @property
    def frame(self) -> Frame:
        return self.decision.frame

    @property
    def in_order(self) -> list[int]:
        """By name."""
        return sort_by_name(self.frame, self.rows)


Suggest = Callable[[RejectedClusters], Iterator[Proposal]]


def suggest_changes(rejected: RejectedClusters, reason: str) -> Iterator[Proposal]:
    plugin = next((judge.plugin for judge in rejected.question.profile.judges if judge.name == rejected.plugin), None)
    own = getattr(plugin, "suggest", None)
    if own is not None:
        yield from _call_plugin(own, rejected)
        return
    suggest = _SUGGESTIONS.get((rejected.plugin, reason))
    if suggest is not None:
        yield from suggest(rejected)


def _call_plugin(suggest: Callable[..., Any], rejected: RejectedClusters) -> Iterator[Proposal]:
    """Each edit on its own. A plugin that fails here costs its suggestions and nothing else."""
    try:
        edits = parse_edits(suggest(rejected.request, rejected.frame, tuple(rejected.in_order), rejected.need))
    except Exception:
        return
    yield from (Candidate((edit,), rejected.plugin) for edit in edits)


# --- taints ---------------------------------------------------------------------------------------------------------


def _tolerate_or_clear(rejected: RejectedClusters) -> Iterator[Proposal]:
    """Tolerations for each set of taints that is in the way, the most frequent first; or the taints go."""
    by_taints: dict[tuple[Taint, ...], int] = {}
    for taints, rows in rejected.frame.taints.distinct():
        if rows & rejected.rows:
            untolerated = _find_untolerated(rejected, taints)
            by_taints[untolerated] = by_taints.get(untolerated, 0) | rows & rejected.rows
    ordered = sorted(by_taints, key=lambda taints: (len(taints), -by_taints[taints].bit_count(), repr(taints)))
    if rejected.request.placement_type != PICK_FIXED:
        for taints in ordered[:MOST_PER_REASON]:
            yield Candidate(tuple(map(_build_toleration, taints)), rejected.plugin)
    by_number: dict[int, int] = {}
    for taints in ordered:
        by_number[len(taints)] = by_number.get(len(taints), 0) | by_taints[taints]
    cheapest = (row for rows in by_number.values() for row in sort_by_name(rejected.frame, rows))
    yield from _propose_per_cluster(rejected, lambda row: _build_removals(rejected, row), cheapest)


def _find_untolerated(rejected: RejectedClusters, taints: Iterable[Taint]) -> tuple[Taint, ...]:
    tolerations = rejected.request.tolerations
    left = (taint for taint in taints if not any(tolerates(toleration, taint) for toleration in tolerations))
    return tuple(dict.fromkeys(left))


def _build_toleration(taint: Taint) -> Edit:
    return Tolerate(key=taint.key, value=taint.value, effect=taint.effect)


def _build_removals(rejected: RejectedClusters, row: int) -> list[Edit]:
    name, taints = rejected.frame.name(row), _find_untolerated(rejected, rejected.frame.taints.value(row) or ())
    return [RemoveTaint(name, taint.key, taint.value, taint.effect) for taint in taints]


# --- affinity -------------------------------------------------------------------------------------------------------


def _relax_or_label(rejected: RejectedClusters) -> Iterator[Proposal]:
    """Without the one expression that keeps most clusters out of a term; or with the labels it requires."""
    blocking: dict[tuple[int, str], int] = {}
    for position, term in enumerate(rejected.request.required):
        failing = find_failing_rows(term, rejected.frame)
        once = split_by_count(list(failing.values()), rejected.rows)[1:2]
        for expression, rows in failing.items():
            if once and rows & once[0]:
                blocking[position, expression] = (rows & once[0]).bit_count()
    for position, expression in sorted(blocking, key=lambda place: (-blocking[place], place))[:MOST_PER_REASON]:
        yield Candidate((RelaxAffinity(position, expression),), rejected.plugin)
    cheapest = dict(_find_missing_labels(rejected))
    yield from _propose_per_cluster(rejected, lambda row: cheapest[row], cheapest)


def _find_missing_labels(rejected: RejectedClusters) -> Iterator[tuple[int, list[Edit]]]:
    """The first clusters that need labels and nothing else to match a term, with the labels."""
    frame = rejected.frame
    for term in rejected.request.required:
        only_labels = rejected.rows
        for check in term.properties:
            only_labels &= check.rows(frame)
        divided = split_by_count([~test.rows(frame) for test in term.labels], only_labels)
        cheapest = (row for rows in divided[1:] if rows for row in sort_by_name(frame, rows))
        for row in islice(cheapest, MOST_PER_REASON):
            failed = [test for test in term.labels if not test.rows(frame) >> row & 1]
            yield row, [_build_label_edit(frame.name(row), test) for test in failed]


def _build_label_edit(cluster: str, test: LabelTest) -> Edit:
    match test.operator:
        case "In":
            return LabelCluster(cluster, test.key, min(test.values))
        case "Exists":
            return LabelCluster(cluster, test.key, _LABEL_VALUE)
        case _:
            return LabelCluster(cluster, test.key, None)


# --- the others -----------------------------------------------------------------------------------------------------


def _repair_agent(rejected: RejectedClusters) -> Iterator[Proposal]:
    yield from _propose_per_cluster(
        rejected, lambda row: [SetReady(rejected.frame.name(row), value=True)], rejected.in_order
    )


def _widen_skew(rejected: RejectedClusters) -> Iterator[Proposal]:
    request = rejected.request
    hard = [constraint for constraint in request.constraints if constraint.hard]
    for key in dict.fromkeys(constraint.key for constraint in hard):
        start = min(constraint.max_skew for constraint in hard if constraint.key == key)
        yield Dial(
            plugin=rejected.plugin,
            field=f"max skew of {key}",
            start=start,
            limit=max(request.wanted or 0, start + 1),
            guess=start + 1,
            build_edits=_build_skew_edits(key),
        )


def _build_skew_edits(key: str) -> Callable[[int], Edits]:
    return lambda skew: (RelaxSpread(key, skew),)


def _label_domain(rejected: RejectedClusters) -> Iterator[Proposal]:
    """Into the domain that holds the fewest of the placement's clusters."""
    frame, in_place = rejected.frame, rejected.decision.bindings.active_rows
    for constraint in rejected.request.constraints:
        column = frame.labels(constraint.key)
        counts = {value: (rows & in_place).bit_count() for value, rows in column.distinct()}
        if constraint.hard and counts:
            emptiest = min(counts, key=lambda value: (counts[value], value))
            unlabelled = ~column.exists()
            rows = sort_by_name(frame, rejected.rows & unlabelled)
            yield from _propose_per_cluster(rejected, _build_labeler(frame, constraint.key, emptiest), rows)


def _build_labeler(frame: Frame, key: str, value: str) -> Callable[[int], Sequence[Edit]]:
    return lambda row: [LabelCluster(frame.name(row), key, value)]


def _propose_per_cluster(
    rejected: RejectedClusters, edits_of: Callable[[int], Sequence[Edit]], rows: Iterable[int]
) -> Iterator[Proposal]:
    """The first of the clusters, one by one, and as many of them together as are missing."""
    first = islice(rows, max(MOST_TOGETHER, MOST_PER_REASON))
    cheap = sorted((tuple(edits_of(row)) for row in first), key=len)
    if 1 < rejected.need <= min(MOST_TOGETHER, len(cheap)):
        yield Candidate(tuple(edit for edits in cheap[: rejected.need] for edit in edits), rejected.plugin)
    yield from (Candidate(edits, rejected.plugin) for edits in cheap[:MOST_PER_REASON])


_SUGGESTIONS: Final[Mapping[tuple[str, str], Suggest]] = {
    ("TaintToleration", "UntoleratedTaint"): _tolerate_or_clear,
    ("ClusterAffinity", "NoTermMatched"): _relax_or_label,
    ("ClusterEligibility", "AgentMissing"): _repair_agent,
    ("ClusterEligibility", "AgentSilent"): _repair_agent,
    ("ClusterEligibility", "NotJoined"): _repair_agent,
    ("ClusterEligibility", "HealthUnknown"): _repair_agent,
    ("ClusterEligibility", "Unhealthy"): _repair_agent,
    ("TopologySpreadConstraints", "SkewExceeded"): _widen_skew,
    ("TopologySpreadConstraints", "DomainMissing"): _label_domain,
}
"""Nothing ends these: a cluster that leaves, a namespace that a member lacks or does not report, a cluster in use."""


# --- the placement as a whole ---------------------------------------------------------------------------------------


def drop_names(request: PlacementRequest, dropped: Sequence[str]) -> Candidate:
    """PickFixed without some of its names."""
    kept = [name for name in request.cluster_names if name not in set(dropped)]
    return Candidate(
        (Patch({"clusterNames": kept}),), "", size=float(len(dropped)), title=_describe_names(dropped, "without")
    )


def add_name(request: PlacementRequest, name: str) -> Candidate:
    return Candidate(
        (Patch({"clusterNames": [*request.cluster_names, name]}),), "", title=_describe_names([name], "with")
    )


def _describe_names(names: Sequence[str], word: str) -> str:
    return f"cluster names {word} {', '.join(names)}"


def propose_weights(question: DecisionInput, policy: msgspec.Struct, row: int, other: int) -> Iterator[Dial]:
    """Other weights for preferences that distinguish a cluster from the one picked instead."""
    document: dict[str, Any] = msgspec.to_builtins(policy)
    affinity = document.get("affinity", {}).get("clusterAffinity", {})
    preferred = affinity.get(_PREFERRED, [])
    weighed = [position for position, preference in enumerate(preferred) if preference.get("weight")]
    for position, preference in zip(weighed, question.request.preferred, strict=True):
        if preference.labels is None and preference.sorter is None:
            continue
        rows = preference.label_rows(question.frame)
        mine, theirs = rows >> row & 1, rows >> other & 1
        ends = (100, -100) if preference.sorter is not None and mine == theirs else (100 if mine else -100,)
        if mine or theirs:
            yield from (
                _build_weight_dial(preferred, position, preference.weight, end)
                for end in ends
                if end != preference.weight
            )


_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _build_weight_dial(preferred: Sequence[Any], position: int, weight: int, end: int) -> Dial:
    def set_weight(value: int) -> Edits:
        changed = [
            {**preference, "weight": value} if at == position else preference for at, preference in enumerate(preferred)
        ]
        return (Patch({"affinity": {"clusterAffinity": {_PREFERRED: changed}}}),)

    field = f"weight of preference {position + 1}"
    return Dial(plugin="ClusterAffinity", field=field, start=weight, limit=end, build_edits=set_weight)
