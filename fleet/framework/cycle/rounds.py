"""Picking N clusters: rounds of Filter → Score → Sort, or one pass that picks what the rounds would pick."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np

from fleet.framework.cycle.decision import Round
from fleet.framework.cycle.runner import Runner
from fleet.framework.operations import Target, TargetScores
from fleet.framework.scores import PluginScores, ScoreTable, best_first, ranking_keys
from fleet.framework.types import Candidates, Component, Picks
from fleet.framework.verdicts import Verdicts
from fleet.snapshot.columns.bitset import Int64Array, Rows, from_rows, to_bools, to_rows
from fleet.snapshot.frame import Frame

Picked = tuple[list[Round], list[Target], int]


def run_rounds(runner: Runner, frame: Frame, desired: int) -> Picked:
    """The first and last round, the targets in the order of picking, and how many rounds it took."""
    limit = runner.run_post_batch(frame, desired)
    picker = runner.profile.step_picker
    if picker is not None and not runner.ctx.nominated and picker.name not in runner.skipped.get("postBatch", ()):
        return _run_one_pass(runner, frame, desired)
    return _run_rounds(runner, frame, desired, limit)


def _run_rounds(runner: Runner, frame: Frame, desired: int, limit: int) -> Picked:
    if runner.ctx.nominated and limit >= desired:
        runner.only = from_rows(runner.ctx.nominated)
        done = _run_round(runner, frame, desired)
        runner.only = None
        if len(done.picked) >= desired:
            return [done], _targets_of_round(done, frame, step=1), 1
    rounds: list[Round] = []
    targets: list[Target] = []
    count = 0
    while True:
        count += 1
        done = _run_round(runner, frame, min(limit, desired - len(targets)))
        rounds = [*rounds[:1], done]
        targets += _targets_of_round(done, frame, step=count)
        if len(targets) >= desired or len(done.picked) < limit or not done.picked:
            return rounds, targets, count
        runner.ctx.picked |= from_rows(done.picked)


def _run_round(runner: Runner, frame: Frame, take: int) -> Round:
    runner.start_round()
    narrowing = runner.run_pre_filter(frame)
    verdicts = runner.run_filter(frame, narrowing)
    rows = to_rows(verdicts.alive, frame.size)
    if not len(rows):
        return Round(verdicts, ScoreTable(rows), rows, ())
    runner.run_pre_score(frame, rows, verdicts)
    scores = runner.run_score(frame, rows)
    if runner.profile.filters or runner.profile.scores:
        order = runner.run_sort(frame, rows, scores)
    else:
        order = _scan_order(runner, frame, verdicts)
        runner.ctx.scanned += min(take, len(order))
    order = _nominated_first(runner.ctx.nominated, order, verdicts)
    return Round(verdicts, scores, order, tuple(order[:take].tolist()))


def _nominated_first(nominated: tuple[int, ...], order: Rows, verdicts: Verdicts) -> Rows:
    first = [row for row in nominated if verdicts.alive >> row & 1]
    if not first:
        return order
    return np.concatenate((np.array(first, dtype=np.intp), order[~np.isin(order, first)]))


def _scan_order(runner: Runner, frame: Frame, verdicts: Verdicts) -> Rows:
    """Without filters and scores, clusters are taken in turn."""
    order = frame.scan_order(runner.profile.scan_domain_key)
    order = np.roll(order, -(runner.ctx.cursor % len(order)))
    chosen = [row for row in order.tolist() if verdicts.alive >> row & 1][: runner.ctx.need]
    return np.array(chosen, dtype=np.intp)


def _targets_of_round(done: Round, frame: Frame, *, step: int) -> list[Target]:
    if not done.picked:
        return []
    positions = np.searchsorted(done.scores.rows, done.picked)
    topology = _component_at(done.scores, Component.TOPOLOGY, positions)
    return _build_targets(frame, done.scores, done.picked, positions, topology, steps=repeat(step, len(topology)))


def _build_targets(
    frame: Frame,
    scores: ScoreTable,
    picked: Sequence[int],
    positions: Rows,
    topology: Sequence[int],
    *,
    steps: Iterable[int],
) -> list[Target]:
    affinity, obsolete = (
        _component_at(scores, component, positions) for component in (Component.AFFINITY, Component.OBSOLETE)
    )
    return [
        Target(frame.name(row), row, None, TargetScores(a, t), o, step)
        for row, step, t, a, o in zip(picked, steps, topology, affinity, obsolete, strict=True)
    ]


def _component_at(scores: ScoreTable, component: Component, positions: Rows) -> list[int]:
    column = scores.component(component, positions)
    parts: list[int] = [0] * len(positions) if column is None else column.tolist()
    return parts


# --- all picks in one pass ------------------------------------------------------------------------------------------


def _run_one_pass(runner: Runner, frame: Frame, desired: int) -> Picked:
    runner.start_round()
    verdicts = runner.run_filter(frame, runner.run_pre_filter(frame), picker=False)
    rows = to_rows(verdicts.alive, frame.size)
    if not len(rows):
        return [Round(verdicts, ScoreTable(rows), rows, ())], [], 1
    runner.run_pre_score(frame, rows, verdicts)
    scores = runner.run_score(frame, rows, picker=False)
    keys = ranking_keys(frame, scores, runner.ctx, without=Component.TOPOLOGY)
    picks = runner.run_picker(frame, Candidates(rows=rows, keys=keys, desired=desired))
    taken = len(picks.rows)
    complete = taken == desired
    last_picked = tuple(picks.rows[-1:]) if complete else ()
    positions = np.searchsorted(rows, picks.rows)
    targets = _build_targets(frame, scores, picks.rows, positions, picks.scores, steps=range(1, taken + 1))
    last = _build_last_round(runner, frame, verdicts, scores, keys, picks, last_picked)
    return [last], targets, taken if complete else taken + 1


def _build_last_round(
    runner: Runner,
    frame: Frame,
    verdicts: Verdicts,
    scores: ScoreTable,
    keys: Int64Array,
    picks: Picks,
    last_picked: tuple[int, ...],
) -> Round:
    """The record of the round of the last pick, or of the one without a pick."""
    earlier = from_rows(picks.rows[: len(picks.rows) - len(last_picked)])
    runner.ctx.picked |= earlier
    runner.rerun_for_picks(frame, verdicts, earlier)
    verdicts.reject(runner.profile.picker_position, picks.verdict)
    runner.set_placed_aside(verdicts)
    places = np.flatnonzero(to_bools(verdicts.alive, frame.size)[scores.rows])
    left = scores.rows[places]
    topology = picks.last[places]
    table = ScoreTable(left, (*(_cut(column, places) for column in scores.columns), runner.picker_column(topology)))
    order = left[_best_first(topology, keys[places], len(last_picked) + runner.profile.limits.unselected_budget)]
    return Round(verdicts, table, order, last_picked)


def _cut(column: PluginScores, places: Rows) -> PluginScores:
    return replace(column, raw=column.raw[places], normalized=column.normalized[places], final=column.final[places])


def _best_first(topology: Int64Array, keys: Int64Array, need: int) -> Rows:
    """Positions of the best rows by topology, then key. There are few topology scores, so each is taken in turn."""
    chosen: list[Rows] = [np.empty(0, dtype=np.intp)]
    missing = min(need, len(keys))
    below = topology
    while missing > 0:
        level = np.flatnonzero(topology == below.max())
        best = level[best_first(keys[level], missing)]
        chosen.append(best)
        missing -= len(best)
        below = topology[topology < topology[level[0]]]
    return np.concatenate(chosen)
