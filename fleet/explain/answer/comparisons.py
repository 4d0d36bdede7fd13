"""Differences as text: two decisions compared, and placements that would move."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from fleet.explain.answer.sentences import join_names
from fleet.explain.whatif.compare import DecisionComparison, Transition
from fleet.explain.whatif.diff import DiffSummary, Moved
from fleet.explain.whatif.impact import Impact
from fleet.text_table import GAP, Page, finish, render_table

_MOST_ROWS: Final = 20
"""Placements, or clusters, that are listed one by one."""


def render_comparison(comparison: DecisionComparison) -> str:
    before, after = comparison.before, comparison.after
    lines = [f"COMPARED   {before.outcome} on {before.selected} → {after.outcome} on {after.selected}"]
    if comparison.same:
        return f"{lines[0]}, the same decision\n"
    lines += [f"gained     {join_names(comparison.gained)}"] if comparison.gained else []
    lines += [f"lost       {join_names(comparison.lost)}"] if comparison.lost else []
    lines += [line for transition in comparison.transitions for line in _format_transition(transition)]
    lines += [
        f"{movement.cluster}: scores {list(movement.before)} → {list(movement.after)}" for movement in comparison.scores
    ]
    lines += [
        f"{change.what}: {_format_value(change.before)} → {_format_value(change.after)}"
        for change in comparison.changes
    ]
    lines += [f"evaluated by only one of the two: {comparison.not_compared}"] if comparison.not_compared else []
    return "\n".join(lines) + "\n"


def _format_transition(transition: Transition) -> Iterator[str]:
    yield f"{transition.before} → {transition.after}   {transition.count}"
    yield from (f"{GAP}{each.cluster}: {each.before} → {each.after}" for each in transition.clusters)
    if transition.more:
        yield f"{GAP}… and {transition.more} more"


def render_impact(impact: Impact) -> str:
    moving = len(impact.moved) + impact.redacted
    head = f"IMPACT     {impact.placements} placements decided: {impact.same} the same, {moving} would move"
    head += f", {impact.redacted} of them you may not read" if impact.redacted else ""
    head += "; time was up before all were decided" if impact.truncated else ""
    parts = [head, render_moves("WOULD MOVE", impact.moved), *render_sums(impact.summary)]
    return finish("\n\n".join(part for part in parts if part), Page()) + "\n"


def render_moves(head: str, moves: Sequence[Moved]) -> str:
    return render_first([head, "BEFORE", "AFTER", "CAUSE"], [_format_move(diff) for diff in moves])


def _format_move(diff: Moved) -> list[str]:
    cause = f"{diff.cause}; {diff.redacted} more clusters that you may not read" if diff.redacted else diff.cause
    key = f"{diff.placement} {diff.key}" if diff.placement else diff.key
    return [key, join_names(diff.before) or "none", join_names(diff.after) or "none", cause]


def render_sums(summary: DiffSummary) -> Iterator[str]:
    clusters = [[cluster.cluster, str(cluster.gained), str(cluster.lost)] for cluster in summary.clusters]
    yield render_first(["CLUSTER", "GAINED", "LOST"], clusters, numbers=("GAINED", "LOST"))
    yield f"and {summary.redacted} clusters you may not read" if summary.redacted else ""
    outcomes = [[outcome.outcome, str(outcome.before), str(outcome.after)] for outcome in summary.outcomes]
    yield render_first(["OUTCOME", "BEFORE", "AFTER"], outcomes, numbers=("BEFORE", "AFTER"))


def render_first(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str] = ()) -> str:
    """Empty if there are no differences."""
    more = f"\n… and {len(rows) - _MOST_ROWS} more" if len(rows) > _MOST_ROWS else ""
    return render_table(head, rows[:_MOST_ROWS], numbers=numbers) + more if rows else ""


def _format_value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
