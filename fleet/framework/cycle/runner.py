"""Runs the decision hooks of a profile: calls plugins, checks and records their results.

Plugins are trusted but may be wrong: an exception, an illegal code or a column of the wrong shape
becomes a `PluginError` that names plugin and hook, and ends the attempt, never the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from fleet.errors import PluginError
from fleet.framework.context import REFUSAL_WITHOUT_REASON, HookContext, QueryPending
from fleet.framework.cycle.hook_checks import (
    build_code_error,
    check_component,
    check_pair,
    check_range,
    check_scores,
    check_status,
    check_verdict,
    parse_mask,
)
from fleet.framework.profiles.extender import Extender
from fleet.framework.profiles.profile import BINDINGS, BoundHook, CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import PluginScores, ScoreTable
from fleet.framework.state import CycleState
from fleet.framework.status import (
    REJECTIONS,
    Code,
    Status,
    code_of,
    is_success,
    message_of,
)
from fleet.framework.types import (
    Candidates,
    Component,
    Delta,
    Picks,
    PluginTraits,
    PostFilterResult,
    ReasonArray,
    Verdict,
)
from fleet.framework.verdicts import SET_ASIDE, TAKEN, YIELDED, FilterRejection, Verdicts
from fleet.model.keys import PICK_FIXED
from fleet.snapshot.columns.bitset import Int64Array, Rows, as_bits, from_rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.removals import Removals
from fleet.snapshot.sidedata import PlacedBinding
from fleet.snapshot.table import Table

# A scan in parts is worth its bookkeeping from here on.
SCAN_IN_PARTS_FROM = 1000
_FEWEST_FEASIBLE = 100
_PART = 64


class Probe(Protocol):
    """Measures hooks from the outside; what it measures never reaches a decision."""

    def measure(self, hook: str, plugin: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any: ...


class _NullProbe:
    def measure(self, hook: str, plugin: str, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        del hook, plugin
        return call(*args, **named)


NULL_PROBE: Probe = _NullProbe()


class Narrowing(NamedTuple):
    """The result of PreFilter: the candidates each plugin named, or refusals of the placement as a whole."""

    masks: tuple[tuple[str, int], ...] = ()
    refusals: tuple[Status, ...] = ()
    """Of the placement as a whole, one per plugin."""

    @property
    def refusal(self) -> Status | None:
        """The refusal to show: an unresolvable one, else the first."""
        hopeless = (status for status in self.refusals if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        return next(hopeless, self.refusals[0] if self.refusals else None)


class JudgedFilter(NamedTuple):
    """The answer of a filter about some rows."""

    entry: BoundHook
    alive: int
    rejected: int
    retained: int
    reason: int | ReasonArray
    says_no_more: bool
    """It has no words of its own, notes or warnings, and was asked about no other rows."""

    def read_reasons(self, rows: Rows) -> int | ReasonArray:
        return self.reason if isinstance(self.reason, int) else self.reason[rows]


class Runner:
    """The decision hooks of one profile, for one attempt."""

    def __init__(
        self,
        profile: CompiledProfile,
        ctx: HookContext,
        state: CycleState,
        req: PlacementRequest,
        probe: Probe = NULL_PROBE,
    ) -> None:
        self.profile, self.ctx, self.state, self.req, self._probe = profile, ctx, state, req, probe
        self._at_rest = (0, 0)
        """For PostFilter: rows that were asked about, and those that pass the filters which read no bindings."""
        self._corrected: dict[int | None, tuple[CycleState, dict[int, tuple[PlacedBinding, ...]]]] = {}
        """For PostFilter: by row, or None for all rows at once, a state without bindings, and those it is without."""
        self.only: int | None = None
        """The rows that are filtered, where not all are."""
        self.skipped: dict[str, list[str]] = {}
        """Per hook the plugins that skipped it in this round."""
        self.listens = False
        self.judged: dict[str, JudgedFilter] = {}
        """Where it listens, the filters of the profile that do not sign requests."""

    @property
    def is_measured(self) -> bool:
        return self._probe is not NULL_PROBE

    # --- how many ---------------------------------------------------------------------------------------------------

    def run_batch(self, frame: Frame) -> int:
        entry = self.profile.batch
        desired = self._call("batch", entry, frame)
        if not isinstance(desired, int):
            raise PluginError(f"answered {type(desired).__name__}, not a number", plugin=entry.name, hook="batch")
        return desired

    def run_post_batch(self, frame: Frame, desired: int) -> int:
        """The smallest limit, or `desired` where no plugin sets one."""
        limit = desired
        for entry in self.profile.post_batch:
            offered, status = check_pair(entry, "postBatch", self._call("postBatch", entry, frame, desired))
            if code_of(status) is Code.SKIP:
                self._skip("postBatch", entry.name)
            elif not is_success(status):
                raise build_code_error(entry.name, "postBatch", status)
            elif offered is not None and offered >= 0:
                limit = min(limit, offered)
        return limit

    # --- filtering --------------------------------------------------------------------------------------------------

    def start_round(self) -> None:
        limits = self.skipped.get("postBatch")
        self.skipped = {} if limits is None else {"postBatch": limits}

    def run_pre_filter(self, frame: Frame) -> Narrowing:
        masks: list[tuple[str, int]] = []
        refusals: list[Status] = []
        for entry in self.profile.pre_filter:
            mask, status = check_pair(entry, "preFilter", self._call("preFilter", entry, frame))
            code = code_of(status)
            if code is Code.SKIP:
                self._skip("filter", entry.name)
            elif status is not None and code in REJECTIONS:
                refusals.append(Status(code, status.reasons, plugin=entry.name, details=status.details))
                self._expect_reasons(entry, status)
                if code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    break
            elif code is not Code.SUCCESS:
                raise build_code_error(entry.name, "preFilter", status)
            if mask is not None:
                masks.append((entry.name, parse_mask(entry.name, "preFilter", mask, frame)))
        return Narrowing(tuple(masks), tuple(refusals) or _nothing_left(masks, frame))

    def run_filter(
        self, frame: Frame, narrowing: Narrowing, *, only_fixed: bool = False, picker: bool = True
    ) -> Verdicts:
        """First rejections in configured order; with `picker=False`, without those of the step picker."""
        if narrowing.refusal is not None:
            refusals = narrowing.refusals
            return Verdicts(frame, self.req, self.profile.judges, fill=narrowing.refusal, refusals=refusals)
        start = self._start(frame, narrowing, only_fixed=only_fixed)
        filters = list(self.profile.fixed_filters) if only_fixed else self._filters(picker=picker)
        need = self._scan_need(frame, only_fixed=only_fixed)
        if need is None:
            for position, entry in filters:
                if not start.alive:
                    break
                start.reject(position, self._filter(entry, frame, start.alive))
            if picker and not only_fixed:
                self.set_placed_aside(start)
            return start
        asking = [(position, entry) for position, entry in filters if isinstance(entry.plugin, Extender)]
        scanned = self._scan(frame, start, [each for each in filters if each not in asking], need)
        for position, entry in asking:
            if scanned.alive:
                scanned.reject(position, self._filter(entry, frame, scanned.alive))
        return scanned

    def set_placed_aside(self, verdicts: Verdicts) -> None:
        """One cluster, one binding: also in profiles without a plugin that rejects such clusters."""
        verdicts.reject(len(self.profile.judges) - 1, Verdict(ok=~self.ctx.placed, reason=TAKEN))

    def rerun_for_picks(self, frame: Frame, verdicts: Verdicts, picked: int) -> None:
        """Run the filters that read picks again on the picked rows; the results of others cannot change."""
        for position, entry in self._filters():
            if not self._is_picker(entry) and picked & verdicts.alive and _reads_picks(entry.plugin):
                verdict = self._filter(entry, frame, picked & verdicts.alive)
                ok = as_bits(verdict.ok, verdicts.alive) | (verdicts.alive & ~picked)
                verdicts.reject(position, verdict._replace(ok=ok))

    def judge_all(self, frame: Frame, narrowing: Narrowing) -> list[tuple[str, FilterRejection]]:
        """Every filter's verdict on every row. Changes nothing.

        A plugin whose verdicts depend on other rows gets the rows that are still feasible when it runs, as in the
        attempt.
        """
        only_fixed = self.req.placement_type == PICK_FIXED
        turn = self._start(frame, narrowing, only_fixed=only_fixed)
        rejections = []
        for position, entry in list(self.profile.fixed_filters) if only_fixed else self._filters():
            local = getattr(entry.plugin, "ROW_LOCAL", PluginTraits.ROW_LOCAL)
            verdict = self._filter(entry, frame, frame.valid if local or entry.scalar else turn.alive)
            turn.reject(position, verdict)
            rejections.append(
                (entry.name, FilterRejection(position, frame.valid & ~as_bits(verdict.ok, frame.valid), verdict))
            )
        return rejections

    def run_post_filter(self, frame: Frame, verdicts: Verdicts) -> PostFilterResult | None:
        """The result of the first plugin that has a plan."""
        outside = self.ctx.judge_without
        self.ctx.judge_without = partial(self.judge_without, verdicts)
        try:
            return self._run_post_filter(frame, verdicts)
        finally:
            self.ctx.judge_without = outside  # a cycle would leave all that was decided to the garbage collector

    def _run_post_filter(self, frame: Frame, verdicts: Verdicts) -> PostFilterResult | None:
        for entry in self.profile.post_filter:
            result, status = check_pair(entry, "postFilter", self._call("postFilter", entry, frame, verdicts))
            if is_success(status):
                return result or PostFilterResult()
            if code_of(status) not in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE):
                raise build_code_error(entry.name, "postFilter", status)
        return None

    def judge_without(self, verdicts: Verdicts, removed: Removals) -> int:
        """Of these rows, those that pass every filter once the bindings are gone: as in one attempt per row, where only
        that row has changed. Services outside are not asked."""
        filters = [entry for _, entry in self._filters() if not isinstance(entry.plugin, Extender)]
        others = verdicts.frame.valid
        for rejection in verdicts.rejections:
            judge = rejection.plugin
            if judge >= len(self.profile.filters) or isinstance(self.profile.filters[judge].plugin, Extender):
                others &= ~rejection.rows  # narrowed, set aside, or refused outside
        if all(getattr(entry.plugin, "ROW_LOCAL", PluginTraits.ROW_LOCAL) for entry in filters):
            alive = self._judge_at_rest(verdicts.frame, filters, alive=from_rows(removed) & others)
            affected = [entry for entry in filters if self._is_affected(entry)]
            return self._judge_without(verdicts.frame, removed, affected, alive=alive, local=True)
        bits = 0
        for place, row in enumerate(removed):
            alone = removed.select(np.arange(len(removed)) == place)
            bits |= self._judge_without(verdicts.frame, alone, filters, alive=others, local=False) & 1 << row
        return bits

    def _judge_at_rest(self, frame: Frame, filters: Sequence[BoundHook], *, alive: int) -> int:
        """By the filters that no binding which leaves can affect: on the frame itself, and once for every row."""
        asked, passed = self._at_rest
        unasked, asking = alive & ~asked, self.ctx.plugin
        if unasked:
            left = unasked
            for entry in filters:
                if left and not self._is_affected(entry):
                    left = as_bits(self._filter(entry, frame, left).ok, left)
            self._at_rest = (asked | unasked, passed | left)
            self.ctx.plugin = asking
        return alive & self._at_rest[1]

    def _is_affected(self, entry: BoundHook) -> bool:
        reads = getattr(entry.plugin, "READS", PluginTraits.READS)
        return not {"*", BINDINGS, "room"}.isdisjoint(reads) or hasattr(entry.plugin, "pre_filter_extensions")

    def _judge_without(
        self,
        frame: Frame,
        removed: Removals,
        filters: Sequence[BoundHook],
        *,
        alive: int,
        local: bool,
    ) -> int:
        table = Table.fork(frame)
        table.give_back(removed)
        if any(_reads_bindings(entry.plugin) for entry in filters if entry.name != self.ctx.plugin):
            table.leave_out(removed.to_dict())
        hypothetical, state, asking = table.freeze(), self.state, self.ctx.plugin
        try:
            if any(self._list_extensions()):
                self._correct(hypothetical, removed, None if local else next(iter(removed)))
            else:
                self.state = state.clone()
            for entry in filters:
                if alive:
                    alive = as_bits(self._filter(entry, hypothetical, alive).ok, alive)
        finally:
            self.state, self.ctx.plugin = state, asking
        return alive & ~self.ctx.placed

    def _correct(self, frame: Frame, removed: Removals, row: int | None) -> None:
        """Go on with the state of the last question about these rows: add what is back, remove what is gone now."""
        if row not in self._corrected:
            self._corrected[row] = self.state.clone(), {}
        self.state, before = self._corrected[row]
        now = removed.to_dict()
        if added := [delta for row in now for delta in _list_deltas(row, before.get(row, ()), now[row], sign=1)]:
            self.run_add_placement(frame, added)
        if taken := [delta for row in now for delta in _list_deltas(row, now[row], before.get(row, ()), sign=-1)]:
            self.run_remove_placement(frame, taken)
        before.update(now)

    def run_add_placement(self, frame: Frame, deltas: Sequence[Delta]) -> None:
        self._extend("add", frame, deltas)

    def run_remove_placement(self, frame: Frame, deltas: Sequence[Delta]) -> None:
        self._extend("remove", frame, deltas)

    # --- ranking ----------------------------------------------------------------------------------------------------

    def run_pre_score(self, frame: Frame, rows: Rows, verdicts: Verdicts) -> None:
        for entry in self.profile.pre_score:
            status = check_status(entry, "preScore", self._call("preScore", entry, frame, rows, verdicts))
            if code_of(status) is Code.SKIP:
                self._skip("score", entry.name)
            elif not is_success(status):
                raise build_code_error(entry.name, "preScore", status)

    def run_score(self, frame: Frame, rows: Rows, *, picker: bool = True) -> ScoreTable:
        off = self.skipped.get("score", ())
        columns = [
            self._score(entry, frame, rows)
            for entry in self.profile.scores
            if entry.name not in off and (picker or not self._is_picker(entry))
        ]
        return ScoreTable(rows, tuple(columns))

    def run_sort(self, frame: Frame, rows: Rows, scores: ScoreTable) -> Rows:
        entry = self.profile.sort
        order = self._call("sort", entry, frame, rows, scores)
        if not isinstance(order, np.ndarray):
            raise PluginError(f"answered {type(order).__name__}, not rows", plugin=entry.name, hook="sort")
        if len(order) < min(self.ctx.need, len(rows)):
            raise PluginError(f"{len(order)} of {self.ctx.need} rows were ranked", plugin=entry.name, hook="sort")
        ranked: Rows = order
        return ranked

    def run_picker(self, frame: Frame, candidates: Candidates) -> Picks:
        picker = self.profile.step_picker
        assert picker is not None
        picks: Picks = self._call("postBatch", picker._replace(call=picker.plugin.pick), frame, candidates=candidates)
        return picks

    def picker_column(self, scores: Int64Array) -> PluginScores:
        picker = self.profile.step_picker
        assert picker is not None
        return PluginScores(picker.name, Component.TOPOLOGY, 1, scores, scores, scores)

    def _is_picker(self, entry: BoundHook) -> bool:
        picker = self.profile.step_picker
        return picker is not None and picker.plugin is entry.plugin

    # --- inside -----------------------------------------------------------------------------------------------------

    def _call(self, hook: str, entry: BoundHook, *args: Any, **named: Any) -> Any:
        self.ctx.plugin = entry.name
        try:
            if self._probe is NULL_PROBE:
                return entry.call(self.ctx, self.state, self.req, *args, **named)
            return self._probe.measure(hook, entry.name, entry.call, self.ctx, self.state, self.req, *args, **named)
        except QueryPending:
            raise
        except PluginError as error:
            error.plugin, error.hook = error.plugin or entry.name, error.hook or hook
            raise
        except Exception as error:
            raise PluginError(f"{type(error).__name__}: {error}", plugin=entry.name, hook=hook) from error

    def _skip(self, hook: str, plugin: str) -> None:
        self.skipped.setdefault(hook, []).append(plugin)

    def _filters(self, *, picker: bool = True) -> list[tuple[int, BoundHook]]:
        off = self.skipped.get("filter", ())
        return [
            (position, entry)
            for position, entry in enumerate(self.profile.filters)
            if entry.name not in off and (picker or not self._is_picker(entry))
        ]

    def _start(self, frame: Frame, narrowing: Narrowing, *, only_fixed: bool) -> Verdicts:
        verdicts = Verdicts(frame, self.req, self.profile.judges)
        if only_fixed:
            rows = (frame.row_of(name) for name in self.req.cluster_names)
            verdicts.alive = verdicts.examined = from_rows(row for row in rows if row is not None)
        if self.only is not None:
            verdicts.alive &= self.only
            verdicts.examined &= self.only
        if frame.excluded:
            verdicts.reject(len(self.profile.judges) - 1, Verdict(ok=~frame.excluded, reason=SET_ASIDE))
        yielded = 0 if only_fixed or not frame.nominations else self._find_yielded(frame)
        if yielded:
            verdicts.reject(len(self.profile.judges) - 1, Verdict(ok=~yielded, reason=YIELDED))
        for name, mask in narrowing.masks:
            position = next(i for i, judge in enumerate(self.profile.judges) if judge.name == name)
            reason = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (f"cluster(s) didn't satisfy plugin(s) [{name}]",))
            verdicts.reject(position, Verdict(ok=mask, statuses=(reason,)))
        return verdicts

    def _find_yielded(self, frame: Frame) -> int:
        """Rows that the placement was evicted from, while room there is kept for another one."""
        kept = (each for each in frame.nominations if each.priority > self.req.priority)
        rows = (frame.row_of(each.cluster) for each in kept if self.req.key in each.victims)
        return from_rows(row for row in rows if row is not None) & ~self.ctx.active & ~self.ctx.obsolete

    def _filter(self, entry: BoundHook, frame: Frame, alive: int) -> Verdict:
        if not self.listens or entry.name not in self.profile.unsigned_filters:
            return self._judge_rows(entry, frame, alive)
        verdict, judged = self._judge_and_listen(entry, frame, alive)
        first = self.judged.setdefault(entry.name, judged)
        if alive & ~first.alive or not judged.says_no_more:
            self.judged[entry.name] = first._replace(says_no_more=False)
        return verdict

    def judge_anew(self, entry: BoundHook, frame: Frame, alive: int) -> JudgedFilter:
        """By a filter alone: without what other hooks leave in the state, and without a trace."""
        state, notes, warnings = self.state, self.ctx.notes, self.ctx.warnings
        self.state, self.ctx.notes, self.ctx.warnings = CycleState(), {}, warnings.copy()
        self.state.expire()
        try:
            return self._judge_and_listen(entry, frame, alive)[1]
        finally:
            self.state, self.ctx.notes, self.ctx.warnings = state, notes, warnings

    def _judge_and_listen(self, entry: BoundHook, frame: Frame, alive: int) -> tuple[Verdict, JudgedFilter]:
        warnings = self.ctx.warnings.copy()
        verdict = self._judge_rows(entry, frame, alive)
        has_words = verdict.explain is not None or verdict.statuses is not None
        says_more = has_words or entry.name in self.ctx.notes or warnings != self.ctx.warnings
        reason = verdict.reason if isinstance(verdict.reason, int) else verdict.reason.copy()
        rejected, retained = alive & ~as_bits(verdict.ok, alive), verdict.retained & alive
        return verdict, JudgedFilter(entry, alive, rejected, retained, reason, not says_more)

    def _judge_rows(self, entry: BoundHook, frame: Frame, alive: int) -> Verdict:
        verdict = check_verdict(entry, self._call("filter", entry, frame, alive), frame, alive)
        for status in verdict.statuses or ():
            self._expect_reasons(entry, status)
        return verdict

    def _expect_reasons(self, entry: BoundHook, status: Status) -> None:
        if not status.reasons:
            self.ctx.warn(REFUSAL_WITHOUT_REASON, entry.name)

    def _score(self, entry: BoundHook, frame: Frame, rows: Rows) -> PluginScores:
        raw = check_scores(entry.name, "score", self._call("score", entry, frame, rows), rows)
        normalized = final = raw
        if self.profile.ranking == "weighted":
            if hasattr(entry.plugin, "normalize"):
                scaled = self._call("score", entry._replace(call=entry.plugin.normalize), raw)
                normalized = check_scores(entry.name, "normalizeScore", scaled, rows)
            check_range(entry.name, normalized, rows, frame)
            final = normalized if entry.weight == 1 else normalized * np.int64(entry.weight)
        else:
            check_component(entry.name, raw, rows, frame)
        component = getattr(entry.plugin, "SCORE_COMPONENT", PluginTraits.SCORE_COMPONENT)
        return PluginScores(entry.name, component, entry.weight, raw, normalized, final)

    def _list_extensions(self) -> Iterator[tuple[BoundHook, Any]]:
        """Of the plugins whose PreFilter did not skip."""
        off = self.skipped.get("filter", ())
        for entry in self.profile.pre_filter:
            extensions = getattr(entry.plugin, "pre_filter_extensions", lambda: None)()
            if extensions is not None and entry.name not in off:
                yield entry, extensions

    def _extend(self, method: str, frame: Frame, deltas: Sequence[Delta]) -> None:
        for entry, extensions in self._list_extensions():
            status = self._call("preFilter", entry._replace(call=getattr(extensions, method)), frame, deltas)
            if not is_success(status):
                raise PluginError(f"{method} failed: {message_of(status)}", plugin=entry.name, hook="preFilter")

    # --- scans in parts ---------------------------------------------------------------------------------------------

    def _scan_need(self, frame: Frame, *, only_fixed: bool) -> int | None:
        """How many feasible clusters are enough; None to judge all clusters."""
        profile, wanted = self.profile, self.req.wanted
        if only_fixed or wanted is None or not profile.scans_in_parts:
            return None
        if not profile.scores:
            return self.ctx.desired
        if frame.count < SCAN_IN_PARTS_FROM or profile.percentage_of_clusters >= 100:
            return None
        percent = profile.percentage_of_clusters or max(50 - frame.count // 125, 5)
        return max(frame.count * percent // 100, _FEWEST_FEASIBLE, 3 * wanted)

    def _scan(self, frame: Frame, verdicts: Verdicts, filters: Sequence[tuple[int, BoundHook]], need: int) -> Verdicts:
        """Judge rows in scan order until enough are feasible, with the result of judging one row at a time."""
        candidates = verdicts.alive
        order = [row for row in self._scan_order(frame) if candidates >> row & 1]
        verdicts.alive, verdicts.examined = 0, verdicts.examined & ~candidates
        done = passed = 0
        while done < len(order) and passed < need:
            part = order[done : done + _PART]
            step, examined = self._judge(frame, part, filters, need - passed)
            for rejection in step.rejections:
                verdicts.rejections.append(rejection)
            verdicts.alive |= step.alive
            verdicts.retained |= step.retained
            verdicts.examined |= from_rows(part[:examined])
            passed += step.alive.bit_count()
            done += examined
        self.ctx.scanned = max(self.ctx.scanned, done)  # every round starts at the same cursor
        return verdicts

    def _judge(
        self, frame: Frame, part: Sequence[int], filters: Sequence[tuple[int, BoundHook]], missing: int
    ) -> tuple[Verdicts, int]:
        examined = len(part)
        while True:
            step = Verdicts(frame, self.req, self.profile.judges)
            step.alive = from_rows(part[:examined])
            for position, entry in filters:
                if step.alive:
                    step.reject(position, self._filter(entry, frame, step.alive))
            self.set_placed_aside(step)
            if step.alive.bit_count() <= missing:
                return step, examined
            hits = [place for place, row in enumerate(part) if step.alive >> row & 1]
            examined = hits[missing - 1] + 1

    def _scan_order(self, frame: Frame) -> list[int]:
        order = frame.scan_order(self.profile.scan_domain_key)
        start = self.ctx.cursor % len(order) if len(order) else 0
        rotated: list[int] = np.concatenate((order[start:], order[:start])).tolist()
        return rotated


def _reads_bindings(plugin: Any) -> bool:
    reads = getattr(plugin, "READS", PluginTraits.READS)
    return "*" in reads or BINDINGS in reads


def _list_deltas(
    row: int, bindings: Sequence[PlacedBinding], without: Sequence[PlacedBinding], *, sign: int
) -> Iterator[Delta]:
    left_out = frozenset(without)
    return (Delta(row, each.placement, sign, each) for each in bindings if each not in left_out)


def _reads_picks(plugin: Any) -> bool:
    reads = getattr(plugin, "READS", PluginTraits.READS)
    return "*" in reads or "picks" in reads


def _nothing_left(masks: Sequence[tuple[str, int]], frame: Frame) -> tuple[Status, ...]:
    """Refusals of plugins that have no candidate in common: a change for any of them could help."""
    left = frame.valid
    for _, mask in masks:
        left &= mask
    if left or not masks or not frame.valid:
        return ()
    names = " ".join(name for name, _ in masks)
    together = " simultaneously" if len(masks) > 1 else ""
    text = f"cluster(s) didn't satisfy plugin(s) [{names}]{together}"
    return tuple(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,), plugin=name) for name, _ in masks)
