"""Required terms select the clusters a placement may use, preferred terms rank them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from heapq import nsmallest
from itertools import islice
from operator import itemgetter
from typing import Any, Final, Literal

import msgspec
import numpy as np

from fleet.checkpoint import check, split
from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import UNREADABLE_PROPERTY, HookContext
from fleet.framework.explaining import (
    MOST_CHANGES,
    MOST_SUGGESTIONS,
    ClusterEvent,
    ClusterEventKind,
    ClusterTraits,
    Edit,
    NumberSuggestion,
    OutrankedCluster,
    RejectedClusters,
    Suggestion,
    describe_expression,
)
from fleet.framework.handle import Handle
from fleet.framework.policy.contradictions import (
    find_contradictions,
    group_labels,
    group_properties,
    pick_label,
    pick_number,
)
from fleet.framework.policy.reads import LabelRead, PolicyConflict, PropertyRead
from fleet.framework.policy.terms import LabelTest, Preference, PropertyRef, PropertyTest, Sorter, Term
from fleet.framework.request import PREFERRED_FIELD, REQUIRED_FIELD, PlacementRequest
from fleet.framework.scores import min_max, round_half_away_array
from fleet.framework.state import CycleState, FrozenState, StateKey
from fleet.framework.status import Code, Status
from fleet.framework.types import Details, PluginTraits, Reason, ReasonTable, RowExplainer, Verdict
from fleet.framework.verdicts import Verdicts
from fleet.model.views import LabelSelector, PlacementPolicy
from fleet.snapshot.columns.bitset import FloatArray, Int64Array, Mask, Rows, split_by_count, to_bools
from fleet.snapshot.frame import Frame

RANGES = StateKey("preScore/ClusterAffinity")

Range = tuple[float, float]

MOST_EXPRESSIONS: Final = 20
MOST_TERMS: Final = 20
"""Of what failed, as details list it: a policy may have thousands, and every cluster its own answer."""
_LABEL_VALUE: Final = "true"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


class ClusterAffinityArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    sorter_population: Literal["AllClusters", "PassedClusters"] = "AllClusters"
    """The rows whose values span the range of a sorter."""


class _Ranges(FrozenState):
    def __init__(self, of: Mapping[PropertyRef, Range]) -> None:
        self.of = of


def _name_closest_term(details: Details) -> str:
    terms = details.get("terms") or ()
    return ", ".join(_describe_failed(terms[0])) if terms else "no affinity term matched"


def _list_failed(details: Details, now: int) -> Iterator[str]:
    del now
    for term in details.get("terms") or ():
        yield from (f"term {term['term'] + 1}: {failed}" for failed in _describe_failed(term))
    if details.get("moreTerms"):
        yield f"and {details['moreTerms']} more terms"


def _describe_failed(term: Details) -> Iterator[str]:
    yield from map(describe_expression, term["failed"])
    if term.get("more"):
        yield f"and {term['more']} more"


class ClusterAffinityPlugin(PluginTraits):
    READS = ("labels", "properties", "usage")
    READS_POLICY_ONLY = True
    REASONS = ReasonTable(
        Reason(
            "NoTermMatched",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            "cluster does not match with any of the required cluster affinity terms",
            short="no affinity term matched",
            lacks=_name_closest_term,
            lines=_list_failed,
            about_cluster_only=True,
        )
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        self._all_clusters = decode_into(raw, ClusterAffinityArgs).sorter_population == "AllClusters"
        # A range over the clusters that passed moves with every pick.
        self.ROW_LOCAL = self._all_clusters

    def name(self) -> str:
        return "ClusterAffinity"

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        del state
        if not req.required:
            return None, Status.new(Code.SKIP)
        _report_unreadable(ctx, frame, (test.ref for term in req.required for test in term.properties))
        return None, None

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del ctx, state, alive
        matched = 0
        for term in req.required:
            matched |= term.rows(frame)
        return Verdict(ok=matched)

    def sign(self, req: PlacementRequest) -> Hashable:
        return req.required, req.preferred

    def build_row_explainer(self, req: PlacementRequest, frame: Frame) -> RowExplainer:
        """Terms with the expressions that failed, the one with the fewest failures first, and how many were left
        out."""
        failures = [_Failures(term, frame) for term in req.required]

        def explain(row: int, reason: int) -> Details:
            del reason
            closest = sorted(enumerate(_count_failures(failures, row)), key=itemgetter(1))
            terms = [failures[position].describe(position, count, row) for position, count in closest[:MOST_TERMS]]
            more = len(failures) - len(terms)
            return {"terms": terms, **({"moreTerms": more} if more else {})}

        return explain

    def pre_score(
        self,
        ctx: HookContext,
        state: CycleState,
        req: PlacementRequest,
        frame: Frame,
        feasible: Rows,
        verdicts: Verdicts,
    ) -> Status | None:
        del verdicts
        if not req.preferred:
            return Status.new(Code.SKIP)
        refs = dict.fromkeys(preference.sorter.ref for preference in req.preferred if preference.sorter is not None)
        _report_unreadable(ctx, frame, refs)
        state.write(RANGES, _Ranges({ref: self._range(ref, frame, feasible) for ref in refs}))
        return None

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del ctx
        ranges = state.read(RANGES)
        assert isinstance(ranges, _Ranges)
        total = np.zeros(len(rows), dtype=np.int64)
        for preference in req.preferred:
            matching = preference.label_rows(frame)
            if matching:
                points = self._points(preference, frame, rows, ranges)
                whole = to_bools(matching & frame.valid, frame.size)[rows] if matching != -1 else None
                total += points if whole is None else points * whole
        return total

    def normalize(self, ctx: HookContext, state: CycleState, req: PlacementRequest, raw: Int64Array) -> Int64Array:
        """Under weighted ranking only."""
        del ctx, state, req
        return min_max(raw)

    def _points(self, preference: Preference, frame: Frame, rows: Rows, ranges: _Ranges) -> Int64Array | int:
        if preference.sorter is None:
            return preference.weight
        return grade(
            preference.sorter,
            preference.weight,
            preference.sorter.ref.column(frame).values[rows],
            ranges.of[preference.sorter.ref],
        )

    def _range(self, ref: PropertyRef, frame: Frame, feasible: Rows) -> Range:
        column = ref.column(frame)
        if self._all_clusters:
            return column.bounds()
        values = column.values[feasible]
        known = values[values == values]
        return (float(known.min()), float(known.max())) if len(known) else (float("nan"), float("nan"))

    # --- explaining ---------------------------------------------------------------------------------------------

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> Iterator[ClusterEvent]:
        """A sorter counts only where clusters are preferred, a property selector only where they are required."""
        affinity = policy.affinity.cluster_affinity if policy.affinity else None
        if affinity is None:
            return
        required = affinity.required.cluster_selector_terms if affinity.required else ()
        preferred = [preference.preference for preference in affinity.preferred]
        labels = [key for term in (*required, *preferred) for key in _label_keys(term.label_selector)]
        properties = [
            expression.name
            for term in required
            if term.property_selector is not None
            for expression in term.property_selector.match_expressions
        ]
        properties += [term.property_sorter.name for term in preferred if term.property_sorter is not None]
        if labels:
            yield ClusterEvent(ClusterEventKind.UPDATE_LABELS, tuple(labels))
        if properties:
            yield ClusterEvent(ClusterEventKind.UPDATE_PROPERTIES, tuple(properties))

    def split_by_distance(self, req: PlacementRequest, frame: Frame, rows: int) -> list[int]:
        """By the failed expressions of their closest required term."""
        by_number: list[int] = []
        for term in req.required:
            for count, members in enumerate(split_by_count(term.list_failing_rows(frame), rows)):
                by_number += [0] * (count + 1 - len(by_number))
                by_number[count] |= members
        seen, exact = 0, []
        for members in by_number:
            exact.append(members & ~seen)
            seen |= members
        return exact if by_number else [rows]

    def suggest_rank(self, outranked: OutrankedCluster) -> Iterator[NumberSuggestion]:
        """Other weights for preferences that distinguish the two clusters."""
        affinity = outranked.policy.affinity.cluster_affinity if outranked.policy.affinity else None
        preferred = [msgspec.to_builtins(each) for each in affinity.preferred] if affinity else []
        weighed = [position for position, preference in enumerate(preferred) if preference.get("weight")]
        for position, preference in zip(weighed, outranked.request.preferred, strict=True):
            if preference.labels is None and preference.sorter is None:
                continue
            rows = preference.label_rows(outranked.frame)
            mine, theirs = rows >> outranked.row & 1, rows >> outranked.picked & 1
            ends = (100, -100) if preference.sorter is not None and mine == theirs else (100 if mine else -100,)
            if mine or theirs:
                yield from (
                    _weigh(preferred, position, preference.weight, end) for end in ends if end != preference.weight
                )

    def list_reads(self, req: PlacementRequest) -> Iterator[LabelRead | PropertyRead]:
        for position, term in enumerate(req.required):
            path = f"{REQUIRED_FIELD}[{position}]"
            yield from _read_labels(f"{path}.labelSelector", term.labels)
            yield from (PropertyRead(f"{path}.propertySelector", test.ref) for test in term.properties)
        for preference in req.preferred:
            yield from _read_labels(PREFERRED_FIELD, preference.labels or ())
            if preference.sorter is not None:
                yield PropertyRead(PREFERRED_FIELD, preference.sorter.ref)

    def find_conflicts(self, req: PlacementRequest, frame: Frame) -> Iterator[PolicyConflict]:
        """Required terms that no cluster can match, and preferences that none can be preferred by."""
        del frame
        for position, term in enumerate(req.required):
            for expressions in find_contradictions(term):
                message = f"{' and '.join(expressions)} exclude each other: no cluster can match term {position + 1}"
                yield PolicyConflict(f"{REQUIRED_FIELD}[{position}]", message)
        for preference in req.preferred:
            for expressions in find_contradictions(Term(preference.labels or ())):
                message = f"{' and '.join(expressions)} exclude each other: the preference ranks nothing"
                yield PolicyConflict(PREFERRED_FIELD, message)

    def list_newcomers(self, req: PlacementRequest, frame: Frame, in_use: int) -> Iterator[ClusterTraits]:
        """For each term the labels and properties that match it; resource usage cannot be had for the asking."""
        del frame, in_use
        if not req.required:
            yield ClusterTraits({}, {})
        for term in req.required:
            has_usage = any(test.ref.kind for test in term.properties)
            if not has_usage and next(find_contradictions(term), None) is None:
                labels = {key: pick_label(tests) for key, tests in group_labels(term).items()}
                numbers = {name: pick_number(checks) for name, checks in group_properties(term).items()}
                if None not in numbers.values():
                    yield ClusterTraits(
                        {key: value for key, value in labels.items() if value is not None},
                        {name: number for name, number in numbers.items() if number is not None},
                    )

    def suggest(self, rejected: RejectedClusters) -> Iterator[Suggestion]:
        """Without the one expression that keeps most clusters out of a term; or with the labels it requires."""
        blocking: dict[tuple[int, str, int], int] = {}
        for position, term in enumerate(rejected.request.required):
            failing = term.list_failing_rows(rejected.frame)
            once = split_by_count(failing, rejected.rows)[1:2]
            for place, (test, rows) in enumerate(zip(term.expressions, failing, strict=True)):
                if once and rows & once[0]:
                    blocking[position, str(test), place] = (rows & once[0]).bit_count()
        for position, _, place in nsmallest(MOST_SUGGESTIONS, blocking, key=lambda at: (-blocking[at], at)):
            expression = rejected.request.required[position].name_expression(place)
            yield Suggestion([{"op": "relaxAffinity", "term": position, "expression": expression}])
        cheapest = dict(_find_missing_labels(rejected))
        yield from rejected.suggest_per_cluster(lambda row: cheapest[row], cheapest)


def _weigh(preferred: Sequence[Any], position: int, weight: int, end: int) -> NumberSuggestion:
    def set_weight(value: int) -> list[Edit]:
        changed = [
            {**preference, "weight": value} if at == position else preference for at, preference in enumerate(preferred)
        ]
        return [{"op": "patch", "patch": {"affinity": {"clusterAffinity": {_PREFERRED: changed}}}}]

    return NumberSuggestion(field=f"weight of preference {position + 1}", start=weight, limit=end, edits=set_weight)


def _label_keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels or ()
        yield from (expression.key for expression in selector.match_expressions)


def _read_labels(path: str, tests: Iterable[LabelTest]) -> Iterator[LabelRead]:
    for test in tests:
        without = f"{test.operator} excludes no cluster" if test.operator in ("NotIn", "DoesNotExist") else ""
        yield LabelRead(path, test.key, test.values, without)


def _find_missing_labels(rejected: RejectedClusters) -> Iterator[tuple[int, list[Edit]]]:
    """The first clusters that lack only labels to match a term, with the labels, or one more than are suggested."""
    frame = rejected.frame
    for term in rejected.request.required:
        only_labels = rejected.rows
        for bound in term.properties:
            only_labels &= bound.rows(frame)
        divided = split_by_count([~test.rows(frame) for test in term.labels], only_labels)
        cheapest = (row for rows in divided[1:] if rows for row in frame.sort_by_name(rows))
        choose = cache(partial(_choose_value, term.labels))
        for row in islice(cheapest, MOST_SUGGESTIONS):
            failed = (position for position, test in enumerate(term.labels) if not test.rows(frame) >> row & 1)
            positions = islice(failed, MOST_CHANGES + 1)
            yield row, [_label(frame.name(row), term.labels[place].key, choose(place)) for place in positions]


def _choose_value(tests: Sequence[LabelTest], position: int) -> str | None:
    """The smallest of those that match; None where the label must be absent."""
    test = tests[position]
    if test.operator == "In":
        return min((min(part) for part in split(test.values)), default=None)
    return _LABEL_VALUE if test.operator == "Exists" else None


def _label(cluster: str, key: str, value: str | None) -> Edit:
    return {"op": "labelCluster", "cluster": cluster, "key": key, "value": value}


def grade(sorter: Sorter, weight: int, values: FloatArray, span: Range) -> Int64Array | int:
    """A share of the weight by where a value lies between the smallest and the greatest; 0 without a value."""
    low, high = span
    if not low < high:
        return 0
    width = high - low
    if not np.isfinite(width):  # both ends near the limits of a double
        low, width, values = low / 2, high / 2 - low / 2, values / 2
    share = (values - low) / width
    if sorter.ascending:
        share = 1 - share
    share = share * weight
    return round_half_away_array(np.where(share == share, share, 0.0))


def _report_unreadable(ctx: HookContext, frame: Frame, refs: Iterable[PropertyRef]) -> None:
    for ref in refs:
        check()
        unreadable = ref.column(frame).unreadable
        if unreadable:
            ctx.warn(UNREADABLE_PROPERTY, ref.name, unreadable)


class _Failures:
    """Which expressions of a term clusters fail. Each is looked at once for all clusters: a policy may have tens of
    thousands, most of which no cluster matches."""

    __slots__ = ("_everywhere", "_fewest", "_frame", "_somewhere", "_tests")

    def __init__(self, term: Term, frame: Frame) -> None:
        self._frame = frame
        self._tests = term.expressions
        self._everywhere: list[int] = []
        """Positions of those that every cluster fails: the first."""
        self._fewest = 0
        """How many there are."""
        self._somewhere: list[tuple[int, int]] = []
        """Positions of others, with the rows that fail them."""
        for position, rows in enumerate(term.list_failing_rows(frame)):
            failing = frame.valid & rows
            if failing == frame.valid:
                self._fewest += 1
                if self._fewest <= MOST_EXPRESSIONS:
                    self._everywhere.append(position)
            elif failing:
                self._somewhere.append((position, failing))

    def count(self, row: int) -> int:
        return self._fewest + sum(failing >> row & 1 for part in split(self._somewhere) for _, failing in part)

    def describe(self, term: int, count: int, row: int) -> dict[str, object]:
        somewhere = (position for position, failing in self._somewhere if failing >> row & 1)
        first = sorted((*self._everywhere, *islice(somewhere, MOST_EXPRESSIONS)))[:MOST_EXPRESSIONS]
        tests = [self._tests[position] for position in first]
        failed = [{"expected": str(test), "observed": _observe(test, self._frame, row)} for test in tests]
        more = count - len(failed)
        return {"term": term, "failed": failed, **({"more": more} if more else {})}


def _count_failures(failures: Sequence[_Failures], row: int) -> Iterator[int]:
    for part in split(failures):
        yield from (each.count(row) for each in part)


def _observe(test: LabelTest | PropertyTest, frame: Frame, row: int) -> object:
    if isinstance(test, LabelTest):
        return frame.labels(test.key).value(row)
    return test.ref.column(frame).read(frame.cluster(row))
