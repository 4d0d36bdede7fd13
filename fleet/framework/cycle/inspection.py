"""Inspection of a decision: every filter's verdict on every cluster, the whole ranking, the fleet seen by one more
cluster, and inputs without some rows.

The same hooks run again on the same inputs. Nothing is decided, and the decision stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from fleet.framework.cycle.cycle import Cycle, DecisionInput, decide
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.cycle.runner import NULL_PROBE
from fleet.framework.operations import Action
from fleet.framework.state import CycleState
from fleet.framework.types import PluginTraits
from fleet.framework.verdicts import FilterRejection
from fleet.model.keys import BOUND, SCHEDULED, UNSCHEDULED
from fleet.model.views import Binding
from fleet.snapshot.columns.bitset import from_rows

_IDLE: Final = (Outcome.UNCHANGED, Outcome.SHRINK)


def explain_all(decision: Decision, inp: DecisionInput) -> list[tuple[str, int]]:
    """Which rows each filter would reject on its own."""
    return [(name, rejection.rows) for name, rejection in judge_all(decision, inp)]


def judge_all(decision: Decision, inp: DecisionInput) -> list[tuple[str, FilterRejection]]:
    """The rows that each filter rejects on its own, with its reasons."""
    cycle = _again(inp)
    cycle.ctx.picked = _picked_before_last(decision)
    narrowing = cycle.runner.run_pre_filter(inp.frame)
    return cycle.runner.judge_all(inp.frame, narrowing)


def judge_unplaced(inp: DecisionInput) -> list[tuple[str, FilterRejection]]:
    """The same as if the placement gave up its clusters: what each filter has against a cluster by itself, not against
    a second binding for it, against one more in its domain, or for want of what the placement takes itself."""
    cycle = _again(replace(inp, bindings=tuple(_give_up(inp.bindings))))
    narrowing = cycle.runner.run_pre_filter(inp.frame)
    return cycle.runner.judge_all(inp.frame, narrowing)


def _give_up(bindings: Iterable[Binding]) -> Iterator[Binding]:
    for binding in bindings:
        if binding.spec.state in (SCHEDULED, BOUND, UNSCHEDULED) and not binding.metadata.deletion_timestamp:
            yield msgspec.structs.replace(binding, spec=msgspec.structs.replace(binding.spec, state=UNSCHEDULED))


def find_unfit(inp: DecisionInput, clusters: Iterable[str]) -> tuple[str, str] | None:
    """The first of these clusters that is not in the frame, or that a filter rejects which judges each cluster by
    itself, and the name of that filter; empty if the cluster is gone."""
    local = {entry.name for entry in inp.profile.filters if _judges_alone(entry.plugin)}
    rejections = [(name, rejection.rows) for name, rejection in judge_unplaced(inp) if name in local]
    for cluster in clusters:
        row = inp.frame.row_of(cluster)
        if row is None:
            return cluster, ""
        for name, rows in rejections:
            if rows >> row & 1:
                return cluster, name
    return None


def _judges_alone(plugin: object) -> bool:
    """But for those that look at room: what is reserved there is the placement's own."""
    reads = getattr(plugin, "READS", PluginTraits.READS)
    return bool(getattr(plugin, "ROW_LOCAL", PluginTraits.ROW_LOCAL)) and "room" not in reads


def rank_all(decision: Decision, inp: DecisionInput) -> list[int]:
    """Every row the last round scored, best first: what `Round.order` is the beginning of."""
    last = decision.round
    if last is None:
        return []
    rows: list[int] = last.order.tolist()
    if len(rows) < len(last.scores.rows) and last.scores.columns:
        cycle = _again(inp)
        cycle.ctx.need = len(last.scores.rows)
        rows = cycle.runner.run_sort(inp.frame, last.scores.rows, last.scores).tolist()
    return rows


def consider_newcomers(decision: Decision, inp: DecisionInput) -> tuple[Decision, DecisionInput]:
    """A decision that only confirmed or gave up clusters and evaluated no other, with the verdicts and ranks of a round
    for one cluster more, and the inputs of that. They describe the clusters behind those in use; nothing is
    chosen by it. Any other decision as it is."""
    if decision.outcome not in _IDLE:
        return decision, inp
    leaving = {operation.name for operation in decision.operations if operation.action is Action.UNSCHEDULE}
    staying = [binding for binding in inp.bindings if binding.metadata.name not in leaving]
    request = replace(inp.request, wanted=(decision.active or 0) + 1, min_targets=None)
    question = replace(inp, request=request, bindings=staying, rankings=None)
    next_one = decide(question)
    if next_one.round is None:
        return decision, inp  # a profile with a batch of its own, or a plugin that failed
    considered = replace(decision, rounds=(replace(next_one.round, picked=()),), skipped=next_one.skipped)
    return considered, question


def excluding(inp: DecisionInput, rows: Iterable[int]) -> DecisionInput:
    """The same inputs with rows set aside, for a target that was refused."""
    return replace(inp, frame=inp.frame.exclude(rows))


def _again(inp: DecisionInput) -> Cycle:
    cycle = Cycle(inp, NULL_PROBE, CycleState())
    cycle.ctx.asks = False
    return cycle


def _picked_before_last(decision: Decision) -> int:
    taken = set() if decision.round is None else set(decision.round.picked)
    return from_rows(target.row for target in decision.targets if target.step and target.row not in taken)
