"""What might let refused clusters in, reason by reason. Guesses: whether they work is tried elsewhere.

The in-tree plugins' suggestions stand here and not in the plugins: plugins know nothing of edits, and an edit is about
policies and clusters as their owners write them, which a plugin never sees. A plugin from elsewhere may have a method
`suggest(request, frame, rows, need)` that returns edits as plain objects; it is asked before this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from fleet.explain.facts.nearness import by_count, failing_rows, in_name_order
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
"""Clusters changed by one fix: nobody repairs half a fleet because a list says so."""
MOST_PER_REASON: Final = 4
_LABEL_VALUE: Final = "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
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
        return in_name_order(self.frame, self.rows)


Suggest = Callable[[Refused], Iterator[Proposal]]


def suggestions(refused: Refused, reason: str) -> Iterator[Proposal]:
    plugin = next((one.plugin for one in refused.question.profile.judges if one.name == refused.plugin), None)
    own = getattr(plugin, "suggest", None)
    if own is not None:
        yield from _of_plugin(own, refused)
        return
    suggest = _SUGGESTIONS.get((refused.plugin, reason))
    if suggest is not None:
        yield from suggest(refused)


def _of_plugin(suggest: Callable[..., Any], refused: Refused) -> Iterator[Proposal]:
    """Each edit on its own. A plugin that fails here costs its suggestions and nothing else."""
    try:
        edits = parse_edits(suggest(refused.request, refused.frame, tuple(refused.in_order), refused.need))
    except Exception:
        return
    yield from (Candidate((one,), refused.plugin) for one in edits)


# --- taints ---------------------------------------------------------------------------------------------------------


def _tolerate_or_clear(refused: Refused) -> Iterator[Proposal]:
    """Tolerations for each set of taints that is in the way, the most frequent first; or the taints go."""
    by_taints: dict[tuple[Taint, ...], int] = {}
    for taints, rows in refused.frame.taints.distinct():
        if rows & refused.rows:
            untolerated = _untolerated(refused, taints)
            by_taints[untolerated] = by_taints.get(untolerated, 0) | rows & refused.rows
    ordered = sorted(by_taints, key=lambda taints: (len(taints), -by_taints[taints].bit_count(), repr(taints)))
    if refused.request.placement_type != PICK_FIXED:
        for taints in ordered[:MOST_PER_REASON]:
            yield Candidate(tuple(map(_toleration, taints)), refused.plugin)
    by_number: dict[int, int] = {}
    for taints in ordered:
        by_number[len(taints)] = by_number.get(len(taints), 0) | by_taints[taints]
    cheapest = (row for rows in by_number.values() for row in in_name_order(refused.frame, rows))
    yield from _per_cluster(refused, lambda row: _removals(refused, row), cheapest)


def _untolerated(refused: Refused, taints: Iterable[Taint]) -> tuple[Taint, ...]:
    tolerations = refused.request.tolerations
    left = (taint for taint in taints if not any(tolerates(one, taint) for one in tolerations))
    return tuple(dict.fromkeys(left))


def _toleration(taint: Taint) -> Edit:
    return Tolerate(key=taint.key, value=taint.value, effect=taint.effect)


def _removals(refused: Refused, row: int) -> list[Edit]:
    name, taints = refused.frame.name(row), _untolerated(refused, refused.frame.taints.value(row) or ())
    return [RemoveTaint(name, taint.key, taint.value, taint.effect) for taint in taints]


# --- affinity -------------------------------------------------------------------------------------------------------


def _relax_or_label(refused: Refused) -> Iterator[Proposal]:
    """Without the one expression that keeps most clusters out of a term; or with the labels it asks for."""
    blocking: dict[tuple[int, str], int] = {}
    for position, term in enumerate(refused.request.required):
        failing = failing_rows(term, refused.frame)
        once = by_count(list(failing.values()), refused.rows)[1:2]
        for expression, rows in failing.items():
            if once and rows & once[0]:
                blocking[position, expression] = (rows & once[0]).bit_count()
    for position, expression in sorted(blocking, key=lambda one: (-blocking[one], one))[:MOST_PER_REASON]:
        yield Candidate((RelaxAffinity(position, expression),), refused.plugin)
    cheapest = dict(_missing_labels(refused))
    yield from _per_cluster(refused, lambda row: cheapest[row], cheapest)


def _missing_labels(refused: Refused) -> Iterator[tuple[int, list[Edit]]]:
    """The first clusters that need labels and nothing else to match a term, with the labels."""
    frame = refused.frame
    for term in refused.request.required:
        only_labels = refused.rows
        for check in term.properties:
            only_labels &= check.rows(frame)
        divided = by_count([~test.rows(frame) for test in term.labels], only_labels)
        cheapest = (row for rows in divided[1:] if rows for row in in_name_order(frame, rows))
        for row in islice(cheapest, MOST_PER_REASON):
            failed = [test for test in term.labels if not test.rows(frame) >> row & 1]
            yield row, [_labelling(frame.name(row), test) for test in failed]


def _labelling(cluster: str, test: LabelTest) -> Edit:
    match test.operator:
        case "In":
            return LabelCluster(cluster, test.key, min(test.values))
        case "Exists":
            return LabelCluster(cluster, test.key, _LABEL_VALUE)
        case _:
            return LabelCluster(cluster, test.key, None)


# --- the others -----------------------------------------------------------------------------------------------------


def _repair_agent(refused: Refused) -> Iterator[Proposal]:
    yield from _per_cluster(refused, lambda row: [SetReady(refused.frame.name(row), value=True)], refused.in_order)


def _widen_skew(refused: Refused) -> Iterator[Proposal]:
    request = refused.request
    hard = [one for one in request.constraints if one.hard]
    for key in dict.fromkeys(one.key for one in hard):
        start = min(one.max_skew for one in hard if one.key == key)
        yield Dial(
            plugin=refused.plugin,
            field=f"max skew of {key}",
            start=start,
            limit=max(request.wanted or 0, start + 1),
            guess=start + 1,
            turned=_skewed(key),
        )


def _skewed(key: str) -> Callable[[int], Edits]:
    return lambda skew: (RelaxSpread(key, skew),)


def _label_domain(refused: Refused) -> Iterator[Proposal]:
    """Into the domain that holds the fewest of the placement's clusters."""
    frame, in_place = refused.frame, refused.decision.bindings.active_rows
    for one in refused.request.constraints:
        column = frame.labels(one.key)
        counts = {value: (rows & in_place).bit_count() for value, rows in column.distinct()}
        if one.hard and counts:
            emptiest = min(counts, key=lambda value: (counts[value], value))
            unlabelled = ~column.exists()
            rows = in_name_order(frame, refused.rows & unlabelled)
            yield from _per_cluster(refused, _labeller(frame, one.key, emptiest), rows)


def _labeller(frame: Frame, key: str, value: str) -> Callable[[int], Sequence[Edit]]:
    return lambda row: [LabelCluster(frame.name(row), key, value)]


def _per_cluster(
    refused: Refused, edits_of: Callable[[int], Sequence[Edit]], rows: Iterable[int]
) -> Iterator[Proposal]:
    """The first of the clusters, one by one, and as many of them together as are missing."""
    first = islice(rows, max(MOST_TOGETHER, MOST_PER_REASON))
    cheap = sorted((tuple(edits_of(row)) for row in first), key=len)
    if 1 < refused.need <= min(MOST_TOGETHER, len(cheap)):
        yield Candidate(tuple(edit for edits in cheap[: refused.need] for edit in edits), refused.plugin)
    yield from (Candidate(edits, refused.plugin) for edits in cheap[:MOST_PER_REASON])


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


def names_without(request: PlacementRequest, dropped: Sequence[str]) -> Candidate:
    """PickFixed without some of its names."""
    kept = [name for name in request.cluster_names if name not in set(dropped)]
    return Candidate((Patch({"clusterNames": kept}),), "", size=float(len(dropped)), title=_naming(dropped, "without"))


def names_with(request: PlacementRequest, name: str) -> Candidate:
    return Candidate((Patch({"clusterNames": [*request.cluster_names, name]}),), "", title=_naming([name], "with"))


def _naming(names: Sequence[str], word: str) -> str:
    return f"cluster names {word} {', '.join(names)}"


def weights(question: DecisionInput, policy: msgspec.Struct, row: int, other: int) -> Iterator[Dial]:
    """Preferences that tell a cluster from the one that was picked instead, to be weighed differently."""
    document: dict[str, Any] = msgspec.to_builtins(policy)
    affinity = document.get("affinity", {}).get("clusterAffinity", {})
    preferred = affinity.get(_PREFERRED, [])
    weighed = [position for position, one in enumerate(preferred) if one.get("weight")]
    for position, one in zip(weighed, question.request.preferred, strict=True):
        if one.labels is None and one.sorter is None:
            continue
        rows = one.label_rows(question.frame)
        mine, theirs = rows >> row & 1, rows >> other & 1
        ends = (100, -100) if one.sorter is not None and mine == theirs else (100 if mine else -100,)
        if mine or theirs:
            yield from (_weight_dial(preferred, position, one.weight, end) for end in ends if end != one.weight)


_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _weight_dial(preferred: Sequence[Any], position: int, weight: int, end: int) -> Dial:
    def turned(value: int) -> Edits:
        changed = [{**one, "weight": value} if at == position else one for at, one in enumerate(preferred)]
        return (Patch({"affinity": {"clusterAffinity": {_PREFERRED: changed}}}),)

    field = f"weight of preference {position + 1}"
    return Dial(plugin="ClusterAffinity", field=field, start=weight, limit=end, turned=turned)
