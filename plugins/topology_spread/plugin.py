"""Spreads a placement evenly over regions, zones or the domains of any other label.

One constraint is one `Level`. A pick changes the levels, so with constraints clusters are picked one by one: in
rounds, one per round, or, if no other score can change between picks, by `pick` in one pass over cells.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec
import numpy as np

from fleet.framework.arguments import RawArgs, decode_into
from fleet.framework.context import MISSING_TOPOLOGY_KEY, HookContext
from fleet.framework.explaining import (
    LOWEST,
    LOWEST_LEFT_OUT,
    ClusterEvent,
    ClusterEventKind,
    ClusterTraits,
    Edit,
    NumberSuggestion,
    RejectedClusters,
    Suggestion,
)
from fleet.framework.handle import Handle
from fleet.framework.policy.reads import LabelRead, PolicyConflict
from fleet.framework.request import SPREAD_FIELD, PlacementRequest
from fleet.framework.scores import min_max
from fleet.framework.state import CycleState, StateKey
from fleet.framework.status import Code, Status
from fleet.framework.types import (
    Candidates,
    Component,
    Delta,
    Details,
    Picks,
    PluginTraits,
    Reason,
    ReasonArray,
    ReasonTable,
    Verdict,
)
from fleet.framework.verdicts import Verdicts
from fleet.model.views import PlacementPolicy
from fleet.snapshot.columns.bitset import BoolArray, Int64Array, Mask, Rows, from_bools, to_bools, to_rows
from fleet.snapshot.columns.interned import InternedColumn
from fleet.snapshot.frame import Frame
from plugins.topology_spread.levels import VIOLATED, Level
from plugins.topology_spread.picker import pick_in_cells

COUNTS = StateKey("preFilter/TopologySpreadConstraints")
RESULT = StateKey("filter/TopologySpreadConstraints")

_SKEW, _UNLABELLED = 1, 2


class TopologySpreadArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    missing_key: Literal["Neutral", "Exclude"] = "Neutral"
    """Clusters without the label: indifferent, or filtered."""
    usable_domains_only: bool = False
    """Whether domains that hold no usable cluster count as empty domains or not at all."""


class _Counts:
    def __init__(self, levels: list[Level]) -> None:
        self.levels = levels

    def clone(self) -> _Counts:
        return _Counts([level.clone() for level in self.levels])


class _Result:
    """Points of every row; VIOLATED where a hard constraint forbids it."""

    def __init__(self, points: Int64Array, levels: Sequence[Level]) -> None:
        self.points, self.levels = points, levels

    def clone(self) -> _Result:
        return self


def _describe_skew(details: Details) -> str:
    """`region=eu has 2; fewest in us; max skew 1`"""
    here = f"{details['key']}={details['domain']} has {details['count']}"
    left = details.get(LOWEST_LEFT_OUT)
    fewest = [*details[LOWEST], *([f"{left} more"] if left else [])]
    return f"{here}; fewest in {', '.join(fewest)}; max skew {details['maxSkew']}"


class TopologySpreadConstraints(PluginTraits):
    READS = ("labels", "picks")
    READS_POLICY_ONLY = True
    SCORE_COMPONENT = Component.TOPOLOGY
    REASONS = ReasonTable(
        Reason(
            "SkewExceeded",
            Code.UNSCHEDULABLE,
            'violated doNotSchedule topology spread constraint "{key}" (max skew {maxSkew})',
            short=lambda details: f"max skew of {details['key']} exceeded",
            lacks=_describe_skew,
            lines=lambda details, _: [_describe_skew(details)],
            about_cluster_only=True,
        ),
        Reason(
            "DomainMissing",
            Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
            'cluster has no value for topology key "{key}"',
            short=lambda details: f"label {details['key']} missing",
            lines=lambda *_: (),
            about_cluster_only=True,
        ),
    )

    def __init__(self, raw: RawArgs | None = None, handle: Handle | None = None) -> None:
        del handle
        args = decode_into(raw, TopologySpreadArgs)
        self._exclude_unlabelled = args.missing_key == "Exclude"
        self._usable_domains_only = args.usable_domains_only

    def name(self) -> str:
        return "TopologySpreadConstraints"

    # --- hooks --------------------------------------------------------------------------------------------------

    def post_batch(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, desired: int
    ) -> tuple[int, Status | None]:
        del ctx, state, frame, desired
        return (1, None) if req.constraints else (0, Status.new(Code.SKIP))

    def pre_filter(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame
    ) -> tuple[Mask | None, Status | None]:
        if not req.constraints:
            return None, Status.new(Code.SKIP)
        for constraint in req.constraints:
            unlabelled = frame.valid & ~frame.labels(constraint.key).exists()
            if unlabelled:
                ctx.warn(MISSING_TOPOLOGY_KEY, constraint.key, unlabelled)
        state.write(
            COUNTS, _Counts([self._level(constraint, frame, ctx.placed) for constraint in _sort_hard_first(req)])
        )
        return None, None if any(constraint.hard for constraint in req.constraints) else Status.new(Code.SKIP)

    def pre_filter_extensions(self) -> TopologySpreadConstraints:
        return self

    def add(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, deltas: Sequence[Delta]
    ) -> Status | None:
        del ctx, frame
        for level in _counts(state).levels:
            for delta in deltas:
                if delta.placement == req.key:
                    level.add(int(level.domains.of_row[delta.row]), delta.sign)
        return None

    remove = add

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        del req
        result = self._evaluate(ctx, state, frame, alive)
        violated = result.points <= VIOLATED // 2
        return self._verdict(frame, result.levels, violated)

    def pre_score(
        self,
        ctx: HookContext,
        state: CycleState,
        req: PlacementRequest,
        frame: Frame,
        feasible: Rows,
        verdicts: Verdicts,
    ) -> Status | None:
        del feasible
        if not req.constraints:
            return Status.new(Code.SKIP)
        if not any(constraint.hard for constraint in req.constraints):
            self._evaluate(ctx, state, frame, verdicts.alive)
        return None

    def normalize(self, ctx: HookContext, state: CycleState, req: PlacementRequest, raw: Int64Array) -> Int64Array:
        """Under weighted ranking only."""
        del ctx, state, req
        return min_max(raw)

    def score(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, rows: Rows) -> Int64Array:
        del ctx, req, frame
        result = state.read(RESULT)
        assert isinstance(result, _Result)
        return result.points[rows]

    def pick(
        self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, *, candidates: Candidates
    ) -> Picks:
        levels = self._within_use(_counts(state).clone().levels, frame, candidates.rows, ctx.placed)
        cells = frame.cells(tuple(level.constraint.key for level in levels))
        done = pick_in_cells(levels, cells, candidates, unlabelled_excluded=self._exclude_unlabelled)
        violated = np.zeros(frame.size, dtype=np.bool_)
        violated[candidates.rows] = done.violated
        verdict = self._verdict(frame, done.levels, violated)
        return Picks(rows=done.rows, scores=done.scores, last=done.last, verdict=verdict)

    def sign(self, req: PlacementRequest) -> Hashable:
        return req.constraints

    # --- explaining ---------------------------------------------------------------------------------------------

    def explanation_columns(self, req: PlacementRequest, frame: Frame) -> Sequence[InternedColumn[Any]]:
        return [frame.labels(constraint.key) for constraint in req.constraints]

    def events_to_register(self, policy: PlacementPolicy, namespace: str) -> tuple[ClusterEvent, ...]:
        if not policy.topology_spread_constraints:
            return ()
        keys = tuple([constraint.topology_key for constraint in policy.topology_spread_constraints])
        return (ClusterEvent(ClusterEventKind.UPDATE_LABELS, keys),)

    def list_reads(self, req: PlacementRequest) -> Iterator[LabelRead]:
        for position, constraint in enumerate(req.constraints):
            excluded = self._exclude_unlabelled and constraint.hard
            without = "no cluster qualifies" if excluded else "spreading over it has no effect"
            yield LabelRead(f"{SPREAD_FIELD}[{position}].topologyKey", constraint.key, without=without)

    def find_conflicts(self, req: PlacementRequest, frame: Frame) -> Iterator[PolicyConflict]:
        """Hard constraints over domains that the required terms rule out: those stay at 0, and hold the others down."""
        if not req.required or req.wanted is None or self._usable_domains_only:
            return
        matching = 0
        for term in req.required:
            matching |= term.rows(frame) & frame.valid
        for position, constraint in enumerate(req.constraints):
            domains = frame.labels(constraint.key).distinct()
            usable = sum(bool(rows & matching) for _, rows in domains)
            most = constraint.max_skew * usable
            if not self._exclude_unlabelled:
                most += (matching & ~frame.labels(constraint.key).exists()).bit_count()
            if constraint.hard and 0 < usable < len(domains) and most < req.wanted:
                message = (
                    f"the required terms leave {usable} of {len(domains)} values of {constraint.key}, so a max skew of "
                    f"{constraint.max_skew} allows {most} of {req.wanted} clusters"
                )
                yield PolicyConflict(f"{SPREAD_FIELD}[{position}]", message, about_fleet=True)

    def list_newcomers(self, req: PlacementRequest, frame: Frame, in_use: int) -> Iterator[ClusterTraits]:
        """Nowhere in particular, or in the domain with the fewest of the placement's clusters."""
        hard = dict.fromkeys(constraint.key for constraint in req.constraints if constraint.hard)
        if not (hard and self._exclude_unlabelled):
            yield ClusterTraits({}, {})
        emptiest = {key: _find_emptiest(frame, key, in_use) for key in hard}
        labels = {key: value for key, value in emptiest.items() if value is not None}
        if labels:
            yield ClusterTraits(labels, {})

    def suggest(self, rejected: RejectedClusters) -> Iterator[Suggestion | NumberSuggestion]:
        if rejected.reason == self.REASONS[_SKEW].name:
            yield from _widen_skew(rejected)
            keys = dict.fromkeys(constraint.key for constraint in rejected.request.constraints if constraint.hard)
            yield from (Suggestion(_only_prefer(key)) for key in keys)
        else:
            yield from _suggest_labels(rejected)

    # --- inside -------------------------------------------------------------------------------------------------

    def _level(self, constraint: Any, frame: Frame, placed: int) -> Level:
        domains = frame.labels(constraint.key).domains()
        members = domains.of_row[to_rows(placed, frame.size)]
        counts = np.bincount(members[members >= 0], minlength=domains.count).astype(np.int64)
        return Level(constraint, domains, counts, None)

    def _evaluate(self, ctx: HookContext, state: CycleState, frame: Frame, alive: int) -> _Result:
        rows = to_rows(alive, frame.size)
        levels = self._within_use(_counts(state).levels, frame, rows, ctx.placed)
        points = np.zeros(frame.size, dtype=np.int64)
        for level in levels:
            points += level.by_domain()[level.domains.of_row]
            if self._exclude_unlabelled and level.constraint.hard:
                points[level.domains.of_row < 0] += VIOLATED
        result = _Result(points, levels)
        state.write(RESULT, result)
        return result

    def _within_use(self, levels: list[Level], frame: Frame, rows: Rows, placed: int) -> list[Level]:
        """Levels over the domains that count."""
        if not self._usable_domains_only:
            return levels
        in_use = to_bools(placed, frame.size)
        in_use[rows] = True
        narrowed = []
        for level in levels:
            usable = np.zeros(level.domains.count, dtype=np.bool_)
            in_domains = level.domains.of_row[in_use]
            usable[in_domains[in_domains >= 0]] = True
            narrowed.append(Level(level.constraint, level.domains, level.counts, usable))
        return narrowed

    def _verdict(self, frame: Frame, levels: Sequence[Level], violated: BoolArray) -> Verdict:
        hard = [level.clone() for level in levels if level.constraint.hard]
        reason: int | ReasonArray = _SKEW
        if self._exclude_unlabelled:
            reason = self._reasons(hard, violated)
        return Verdict(
            ok=~from_bools(violated),
            reason=reason,
            explain=_build_row_explainer(frame, hard, unlabelled_excluded=self._exclude_unlabelled),
        )

    def _reasons(self, hard: Sequence[Level], violated: BoolArray) -> ReasonArray:
        reasons = np.full(len(violated), _SKEW, dtype=np.uint16)
        for level in reversed(hard):
            of_row = level.domains.of_row
            reasons[level.by_domain()[of_row] == VIOLATED] = _SKEW
            reasons[of_row < 0] = _UNLABELLED
        return reasons


def _widen_skew(rejected: RejectedClusters) -> Iterator[NumberSuggestion]:
    req = rejected.request
    hard = [constraint for constraint in req.constraints if constraint.hard]
    for key in dict.fromkeys(constraint.key for constraint in hard):
        start = min(constraint.max_skew for constraint in hard if constraint.key == key)
        yield NumberSuggestion(
            field=f"max skew of {key}",
            start=start,
            limit=max(req.wanted or 0, start + 1),
            guess=start + 1,
            edits=partial(_relax, key),
            find_least=partial(_measure_skew, rejected.frame, key),
            bound=_only_prefer(key),
        )


def _only_prefer(key: str) -> list[Edit]:
    return [{"op": "relaxSpread", "key": key, "whenUnsatisfiable": "ScheduleAnyway"}]


def _relax(key: str, skew: int) -> list[Edit]:
    return [{"op": "relaxSpread", "key": key, "maxSkew": skew}]


def _suggest_labels(rejected: RejectedClusters) -> Iterator[Suggestion]:
    """Label clusters without the key into the domain that holds the fewest of the placement's clusters."""
    frame = rejected.frame
    for constraint in rejected.request.constraints:
        emptiest = _find_emptiest(frame, constraint.key, rejected.in_use)
        if constraint.hard and emptiest is not None:
            rows = frame.sort_by_name(rejected.rows & ~frame.labels(constraint.key).exists())
            yield from rejected.suggest_per_cluster(partial(_label, frame, constraint.key, emptiest), rows)


def _measure_skew(frame: Frame, key: str, in_use: int) -> int:
    counts = [(rows & in_use).bit_count() for _, rows in frame.labels(key).distinct()]
    return max(counts, default=0) - min(counts, default=0)


def _find_emptiest(frame: Frame, key: str, in_use: int) -> str | None:
    """The domain that holds the fewest of the placement's clusters."""
    counts = {value: (rows & in_use).bit_count() for value, rows in frame.labels(key).distinct()}
    return min(counts, key=lambda value: (counts[value], value), default=None)


def _label(frame: Frame, key: str, value: str, row: int) -> list[Edit]:
    return [{"op": "labelCluster", "cluster": frame.name(row), "key": key, "value": value}]


def _sort_hard_first(req: PlacementRequest) -> list[Any]:
    return sorted(req.constraints, key=lambda constraint: not constraint.hard)


def _counts(state: CycleState) -> _Counts:
    counts = state.read(COUNTS)
    assert isinstance(counts, _Counts)
    return counts


def _build_row_explainer(
    frame: Frame, levels: Sequence[Level], *, unlabelled_excluded: bool
) -> Callable[[int], Mapping[str, Any]]:
    """Details of the first constraint a row violates. The levels are copies: they stay as they were."""

    def explain(row: int) -> Mapping[str, Any]:
        for level in levels:
            domain = int(level.domains.of_row[row])
            named = {"key": level.constraint.key, "maxSkew": level.constraint.max_skew}
            if domain < 0 and unlabelled_excluded:
                return named
            if domain >= 0 and level.by_domain()[domain] == VIOLATED:
                column = frame.labels(level.constraint.key)
                lowest = sorted(str(column.domain_value(lowest_domain)) for lowest_domain in level.lowest())
                details = {"domain": column.domain_value(domain), "count": int(level.counts[domain])}
                return named | details | {"skew": level.skew, LOWEST: lowest}
        return {}

    return explain
