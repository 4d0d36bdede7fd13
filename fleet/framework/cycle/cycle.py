"""The decision cycle: one pure function from a placement and a frame to a decision.

It classifies the existing bindings, branches by placement type, runs the hooks, matches picks with bindings, and builds
a `Decision`. No clock, no generator, no I/O, no global state: equal inputs give equal decisions on any machine. The
controller, the simulator, what-if, replay, tests and benchmarks all call `decide`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.errors import PluginError, StaleInputs
from fleet.framework.bindings import classify
from fleet.framework.context import (
    MISSING_PREVIOUS_STATE,
    NO_QUERY_RESULTS,
    SURPLUS_BINDING,
    UNKNOWN_BINDING_STATE,
    HookContext,
    QueryPending,
)
from fleet.framework.cycle.decision import Decision, Outcome, Round
from fleet.framework.cycle.downscale import surplus_clusters
from fleet.framework.cycle.matching import Matched, give_up_obsolete, match
from fleet.framework.cycle.publish import publish
from fleet.framework.cycle.rankings import Rankings
from fleet.framework.cycle.rounds import Picked, run_rounds
from fleet.framework.cycle.runner import NULL_PROBE, Narrowing, Probe, Runner
from fleet.framework.operations import (
    Action,
    Operation,
    Target,
    TargetScores,
    WriteGroup,
    drop_finalizer,
    holds_finalizer,
    unschedule,
)
from fleet.framework.profiles.profile import CompiledProfile
from fleet.framework.request import PlacementRequest
from fleet.framework.scores import ScoreTable
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import ExternalResult
from fleet.model.keys import PICK_FIXED, PICK_N, PREVIOUS_BINDING_STATE
from fleet.model.views import Binding, PolicySnapshotStatus
from fleet.snapshot.columns.bitset import to_rows
from fleet.snapshot.frame import Frame

NEVER_PUBLISHED = PolicySnapshotStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInput:
    frame: Frame
    request: PlacementRequest
    bindings: Sequence[Binding]
    """Existing bindings as read; those of other placements are ignored."""
    profile: CompiledProfile
    now: int
    """Nanoseconds since the epoch, chosen by the caller."""
    previous: PolicySnapshotStatus = NEVER_PUBLISHED
    """The policy snapshot's status as it is."""
    cursor: int = 0
    """Where a partial scan starts."""
    nominated: tuple[str, ...] = ()
    """Clusters that an earlier attempt chose for the placement: picked first, where they are feasible."""
    query_results: Mapping[str, ExternalResult] = field(default_factory=lambda: NO_QUERY_RESULTS)
    """Results of queries that plugins made in an earlier run of this attempt."""
    rankings: Rankings | None = field(default=None, compare=False)
    """Of the same profile, for equal requests. They change how long a decision takes, never the decision."""


def decide(inp: DecisionInput, probe: Probe = NULL_PROBE, *, state: CycleState | None = None) -> Decision:
    """Decide one placement. `state` is for callers that run effect hooks with it afterwards."""
    return Cycle(inp, probe, CycleState() if state is None else state).decide()


class Cycle:
    """One attempt in progress. For `decide`, and for `inspection`, which runs the same hooks again."""

    def __init__(self, inp: DecisionInput, probe: Probe, state: CycleState) -> None:
        self.inp, self.frame, self.request, self.profile = inp, inp.frame, inp.request, inp.profile
        self.bindings = classify(inp.bindings, inp.frame, inp.request)
        self.ctx = HookContext(
            now=inp.now,
            bindings=self.bindings,
            query_results=inp.query_results,
            cursor=inp.cursor,
            uid=inp.request.uid,
            ranking=inp.profile.ranking,
            tie_break=inp.profile.tie_break,
        )
        rows = (inp.frame.row_of(name) for name in inp.nominated)
        self.ctx.nominated = tuple(row for row in rows if row is not None)
        self.runner = Runner(inp.profile, self.ctx, state, inp.request, probe)

    def decide(self) -> Decision:
        if self.request.problems:
            return self._decision(Outcome.ERROR, operations=())
        self._warn_of_odd_bindings()
        try:
            if self.request.placement_type == PICK_FIXED:
                return self._pick_fixed()
            if self.request.placement_type == PICK_N:
                return self._pick_n()
            return self._pick_all()
        except QueryPending as pending:
            return self._decision(Outcome.NEEDS_ANSWER, operations=(), pending_query=pending.query)
        except StaleInputs as error:
            return self._decision(Outcome.ERROR, operations=(), error=Status(Code.ERROR, (str(error),), error=error))
        except PluginError as error:
            text = f"{error.plugin} at {error.hook}: {error}"
            status = Status(Code.ERROR, (text,), plugin=error.plugin, error=error)
            return self._decision(Outcome.ERROR, operations=(), error=status)

    # --- PickAll, and no policy ---------------------------------------------------------------------------------

    def _pick_all(self) -> Decision:
        narrowing = self.runner.run_pre_filter(self.frame)
        verdicts = self.runner.run_filter(self.frame, narrowing)
        rows = to_rows(verdicts.alive, self.frame.size)
        rows = rows[self.frame.names.rank[rows].argsort()]
        targets = [Target(self.frame.name(row), row, None, TargetScores()) for row in rows.tolist()]
        matched = self._match(targets)
        whole = Round(verdicts, ScoreTable(rows[:0]), rows[:0], ())
        return self._decision(
            Outcome.SELECTED,
            targets=matched.targets,
            operations=(*self._clean_up(), *matched.operations, *self._removals(matched.used)),
            active=self.bindings.present + len(targets),
            fulfilled=True,
            rounds=(whole,),
            round_count=1,
        )

    # --- PickFixed ----------------------------------------------------------------------------------------------

    def _pick_fixed(self) -> Decision:
        names = self.request.cluster_names
        missing = tuple(name for name in names if name not in self.frame.names)
        verdicts = self.runner.run_filter(self.frame, Narrowing(), only_fixed=True)
        valid, invalid, retained = [], [], []
        for name in names:
            row = self.frame.row_of(name)
            if row is None:
                continue
            if verdicts.alive >> row & 1:
                valid.append(Target(name, row, None, None))
            else:
                invalid.append(name)
                if verdicts.retained >> row & 1:
                    retained.append(Target(name, row, None, None))
        matched = self._match(valid)
        kept = self._match([target for target in retained if target.row in self.bindings.obsolete])
        used = matched.used | kept.used
        complete = not invalid and not missing
        return self._decision(
            Outcome.SELECTED if complete else Outcome.PARTIAL if valid else Outcome.UNSCHEDULABLE,
            targets=matched.targets,
            operations=(*self._clean_up(), *matched.operations, *kept.operations, *self._removals(used)),
            active=len(valid),
            fulfilled=complete,
            invalid=tuple(invalid),
            missing=missing,
            fixed_verdicts=verdicts,
        )

    # --- PickN --------------------------------------------------------------------------------------------------

    def _pick_n(self) -> Decision:
        desired = self.runner.run_batch(self.frame)
        if desired < 0 or (desired == 0 and self.bindings.obsolete):
            return self._shrink(-desired)
        if desired == 0:
            return self._decision(
                Outcome.UNCHANGED,
                operations=(*self._clean_up(), *self._removals(frozenset())),
                active=self.bindings.present,
                fulfilled=True,
            )
        return self._schedule(desired)

    def _shrink(self, surplus: int) -> Decision:
        rows = surplus_clusters(
            self.bindings, surplus, frame=self.frame, request=self.request, order=self.profile.downscale_order
        )
        removed = [self.bindings.scheduled.get(row) or self.bindings.bound[row] for row in rows]
        removed += [second for row in rows for second in self.bindings.surplus_bound.get(row, ())]
        return self._decision(
            Outcome.SHRINK,
            operations=(*self._clean_up(), *self._removals(frozenset()), *(unschedule(binding) for binding in removed)),
            active=self.bindings.present - len(rows),
            fulfilled=True,
        )

    def _schedule(self, desired: int) -> Decision:
        self.ctx.desired = desired
        self.ctx.need = desired + self.profile.limits.unselected_budget
        rounds, targets, count = self._rank(desired)
        have = self.bindings.present + len(targets)
        wanted = self.request.wanted or 0
        least = self.request.min_targets
        plan: dict[str, Any] = {}
        if have < (least or 1):
            self.ctx.shortfall = (least or 1) - have
            result = self.runner.run_post_filter(self.frame, rounds[-1].verdicts)
            if result is not None:
                plan = {"nomination": result.nomination, "evictions": result.evictions}
        operations: Iterable[Operation] = ()
        if least is not None and have < least:
            targets, have = [], self.bindings.present
        else:
            matched = self._match(targets)
            targets = list(matched.targets)
            operations = (*matched.operations, *self._removals(matched.used))
        fulfilled = have >= wanted
        return self._decision(
            Outcome.SELECTED if fulfilled else Outcome.PARTIAL if have else Outcome.UNSCHEDULABLE,
            targets=tuple(targets),
            operations=(*self._clean_up(), *operations),
            active=have,
            fulfilled=fulfilled,
            rounds=tuple(rounds),
            round_count=count,
            next_cursor=self.ctx.cursor + self.ctx.scanned,
            **plan,
        )

    def _rank(self, desired: int) -> Picked:
        def run_hooks() -> Picked:
            return run_rounds(self.runner, self.frame, desired)

        rankings = self.inp.rankings
        return run_hooks() if rankings is None else rankings.rank(self.runner, self.frame, run_hooks)

    # --- shared -------------------------------------------------------------------------------------------------

    def _match(self, targets: Sequence[Target]) -> Matched:
        matched = match(targets, self.bindings, self.request)
        for operation in matched.operations:
            if operation.action is Action.REVIVE and operation.binding is not None:
                remembered = operation.binding.metadata.annotation(PREVIOUS_BINDING_STATE)
                if remembered != operation.revived_state:
                    self.ctx.warn(MISSING_PREVIOUS_STATE, operation.name)
        return matched

    def _clean_up(self) -> list[Operation]:
        """What is done in every cycle, before anything else is written."""
        dangling = [unschedule(binding, WriteGroup.CLEAN_UP) for binding in self.bindings.dangling]
        finalizers = [drop_finalizer(binding) for binding in self.bindings.deleting if holds_finalizer(binding)]
        return [*finalizers, *dangling]

    def _removals(self, used: frozenset[int]) -> list[Operation]:
        return give_up_obsolete(self.bindings, used)

    def _warn_of_odd_bindings(self) -> None:
        for binding in self.bindings.unknown:
            self.ctx.warn(UNKNOWN_BINDING_STATE, binding.metadata.name)
        for seconds in self.bindings.surplus_bound.values():
            for binding in seconds:
                self.ctx.warn(SURPLUS_BINDING, binding.metadata.name)
        for binding in self.bindings.surplus:
            self.ctx.warn(SURPLUS_BINDING, binding.metadata.name)

    def _decision(self, outcome: Outcome, *, operations: Iterable[Operation], **fields: Any) -> Decision:
        return Decision(
            request=self.request,
            frame=self.frame,
            outcome=outcome,
            bindings=self.bindings,
            previous=self.inp.previous,
            now=self.inp.now,
            config_hash=self.profile.config_hash,
            tie_break=self.profile.tie_break,
            limits=self.profile.limits,
            operations=tuple(operations),
            build_status=publish,
            skipped={hook: tuple(names) for hook, names in self.runner.skipped.items()},
            notes=self.ctx.notes,
            warnings=tuple(self.ctx.warnings.values()),
            **fields,
        )
