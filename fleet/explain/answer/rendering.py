"""Answers as plain text, for a terminal and for `Accept: text/plain`: stable enough for people, not for programs.

Everything shown is in the answer; nothing is computed again. Tables keep their heads even when they are empty, so that
one cluster, or none, reads like any other fleet.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from fleet.explain.answer.parts import Answer, ClusterRow, FilterVerdict, GroupPart
from fleet.explain.answer.sentences import describe_cluster
from fleet.explain.answer.simulate import Simulated
from fleet.explain.facts.placement_outcome import Effect
from fleet.explain.fixes.fixes import Fix
from fleet.explain.whatif.compare import DecisionComparison, Transition
from fleet.explain.whatif.diff import DiffSummary, Moved
from fleet.explain.whatif.impact import Impact

WIDTH: Final = 100
NAMES: Final = 6
"""In one line."""
NONE: Final = "(none)"
MOVES: Final = 20
"""Placements, or clusters, that are listed one by one."""
_IN_USE: Final = ("selected", "already-selected")
_SIMULATED: Final = "SIMULATED  nothing was changed"
_GAP: Final = "  "
_NEXT: Final = "NEXT       "

Cells = Sequence[str]


def render(answer: Answer, *, next_step: str = "") -> str:
    """The whole answer. `next_step` is what the queue will do with the placement, in one line."""
    parts = [
        _render_head(answer),
        _render_selected(answer),
        _render_fitting(answer),
        _render_rejected(answer),
        _render_domains(answer),
        _render_fixes(answer),
        _render_remarks(answer),
        _render_next(next_step),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_next(step: str) -> str:
    return textwrap.fill(step, WIDTH, initial_indent=_NEXT, subsequent_indent=" " * len(_NEXT)) if step else ""


def render_cluster(
    answer: Answer, *, next_step: str = "", fixes_of: Literal["cluster", "placement"] = "cluster"
) -> str:
    """Of an answer about one cluster: every verdict, where it ranks, and the fixes, which bring it in or serve the
    whole placement."""
    rows = answer.attempt.clusters
    in_use = all(row.outcome in _IN_USE for row in rows)
    fixes = _render_fixes(answer) if fixes_of == "placement" else "" if in_use else _render_all_fixes(answer)
    parts = [
        _render_title(answer),
        "\n".join(_render_sources(answer)),
        *map(_render_row, rows),
        fixes,
        _render_next(next_step),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_simulated(simulated: Simulated, impact: Impact | None = None) -> str:
    parts = [f"{_SIMULATED}\n\n{render(simulated.answer)}"]
    parts += [] if simulated.compare is None else [render_comparison(simulated.compare)]
    parts += [] if impact is None else [render_impact(impact)]
    return "\n".join(parts)


# --- parts of an answer ---------------------------------------------------------------------------------------------


def _render_title(answer: Answer) -> str:
    placement, verdict, attempt = answer.placement, answer.verdict, answer.attempt
    name = f"{placement.namespace}/{placement.name}" if placement.namespace else placement.name
    since = f" since {_format_clock(verdict.since)}" if verdict.since else ""
    number = "" if attempt.n is None else f"   attempt {attempt.n}"
    return f"{name}   {verdict.state}{since}{number}   profile {attempt.profile}"


def _render_head(answer: Answer) -> str:
    verdict = answer.verdict
    lines = [
        _render_title(answer),
        textwrap.fill(verdict.summary, WIDTH, break_long_words=False, break_on_hyphens=False),
    ]
    lines += [f"{problem.field}: {problem.message}" for problem in verdict.problems]
    lines += [verdict.error] if verdict.error else []
    lines += [f"not eligible: {invalid.cluster}: {invalid.message}" for invalid in verdict.invalid]
    lines += [f"no such cluster: {_join_names(verdict.missing)}"] if verdict.missing else []
    return "\n".join([*lines, *_render_sources(answer)])


def _render_sources(answer: Answer) -> Iterator[str]:
    """Where the facts come from, if not from the record."""
    if answer.attempt.evaluated_on == "current":
        yield "evaluated on the fleet as it is now"
    if answer.history_unavailable_since:
        yield f"the history is unavailable since {_format_clock(answer.history_unavailable_since)}"


def _render_selected(answer: Answer) -> str:
    rows = [row for row in answer.attempt.clusters if row.outcome in _IN_USE]
    return _render_ranked("SELECTED", rows, answer)


def _render_fitting(answer: Answer) -> str:
    rows = [row for row in answer.attempt.clusters if row.outcome == "fit-not-selected"]
    return _render_ranked("FIT", rows, answer)


def _render_ranked(head: str, rows: Sequence[ClusterRow], answer: Answer) -> str:
    weighted = answer.attempt.ranking == "weighted"
    counts = answer.verdict.counts
    total = counts.selected + counts.already_selected if head == "SELECTED" else counts.fit
    if total and not rows:
        return f"{head}\n… {total} not shown here"
    more = f"\n… and {total - len(rows)} more" if total > len(rows) else ""
    if rows and all(row.rank is None and row.key is None and row.total is None for row in rows):
        return render_table([head, ""], [[row.name, _describe_row(row)] for row in rows]) + more
    plugins = list(dict.fromkeys(score.plugin for row in rows for score in row.scores)) if weighted else []
    columns = ["TOTAL", *plugins] if weighted else ["TOPOLOGY", "AFFINITY", "BOUND"]
    cells = [
        [row.name, _format_number(row.rank), *_format_scores(row, plugins, weighted=weighted), _describe_row(row)]
        for row in rows
    ]
    return render_table([head, "RANK", *columns, ""], cells, numbers=range(1, 2 + len(columns))) + more


def _format_scores(row: ClusterRow, plugins: Sequence[str], *, weighted: bool) -> list[str]:
    if weighted:
        finals = {score.plugin: score.final for score in row.scores}
        return [_format_number(row.total), *(_format_number(finals.get(plugin)) for plugin in plugins)]
    return ["", "", ""] if row.key is None else [str(part) for part in row.key]


def _describe_row(row: ClusterRow) -> str:
    if row.short:
        return row.short
    words = row.standing if row.standing in ("refreshed", "revived", "kept") else ""
    return ", ".join(part for part in (words, "stays over the policy change" if row.retained else "") if part)


def _render_rejected(answer: Answer) -> str:
    cells = [_format_group(group) for group in answer.attempt.groups]
    return render_table(["REJECTED BY", "COUNT", "CLOSEST", "LACKS", "OTHERS"], cells, numbers=[1])


def _format_group(group: GroupPart) -> list[str]:
    closest = group.closest.cluster if group.closest else ""
    others = [name for name in group.clusters if name != closest]
    more = group.more + max(len(others) - NAMES, 0)
    listed = [*others[:NAMES], *([f"+{more}"] if more else []), *([f"{group.hidden} hidden"] if group.hidden else [])]
    return [group.plugin, str(group.count), closest, group.closest.lacks if group.closest else "", " ".join(listed)]


def _render_domains(answer: Answer) -> str:
    lines = [
        f"{domain.key}={domain.domain} has {domain.count} and no cluster left; max skew {domain.max_skew}"
        for domain in answer.attempt.full_domains
    ]
    left = answer.attempt.full_domains_left_out
    lines += [f"… and {left} more"] if lines and left else [f"{left} domains that are not shown"] if left else []
    return "\n".join(["BLOCKED BY", *(f"{_GAP}{line}" for line in lines)]) if lines else ""


def _render_fixes(answer: Answer) -> str:
    return "" if not answer.fixes and answer.verdict.state == "Scheduled" else _render_all_fixes(answer)


def _render_all_fixes(answer: Answer) -> str:
    if answer.fixes is None:
        return ""
    truncated = ", not everything was tried" if answer.fixes_truncated else ""
    is_newer = answer.fixes_evaluated_on == "current" != answer.attempt.evaluated_on
    where = " on the fleet as it is now" if is_newer else ""
    cells = [_format_fix(fix) for fix in answer.fixes]
    lines = _align(cells) if cells else [NONE]
    return "\n".join([f"FIXES (verified{where}{truncated})", *(f"{_GAP}{line}" for line in lines)])


def _format_fix(fix: Fix) -> list[str]:
    return [fix.scope, fix.text, _describe_effect(fix.effect) + (f" (needs {fix.needs})" if fix.needs else "")]


def _describe_effect(effect: Effect) -> str:
    if effect.after == "fit-not-selected":
        return f"fits, but the choice is {_join_names(effect.targets, effect.more)}"
    on = f" on {_join_names(effect.targets, effect.more)}" if effect.targets or effect.more else ""
    return f"{effect.after}{on}"


def _render_remarks(answer: Answer) -> str:
    lines = [
        f"{warning.kind} {warning.subject}: {_join_names(warning.clusters, warning.hidden)}"
        for warning in answer.attempt.warnings
    ]
    lines += [describe_cluster(stranger) for stranger in answer.attempt.strangers]
    lines += [f"clusters you may not read, counted and not named: {answer.redacted}"] if answer.redacted else []
    return "\n".join(["REMARKS", *(f"{_GAP}{line}" for line in lines)]) if lines else ""


# --- one cluster ----------------------------------------------------------------------------------------------------


def _render_row(row: ClusterRow) -> str:
    lines = [describe_cluster(row)]
    if row.rank is not None:
        score = f"   total {row.total}" if row.total is not None else ""
        score = f"   topology {row.key[0]}, affinity {row.key[1]}, bound {row.key[2]}" if row.key else score
        lines.append(f"rank {row.rank}{score}{'   tie' if row.tie else ''}")
    lines += [row.short] if row.short else []
    lines += [f"binding {binding.name}: {binding.state or 'new'}, {binding.action}" for binding in row.bindings]
    cells = [[verdict.plugin, verdict.verdict, verdict.message] for verdict in row.rejections]
    return "\n".join(lines) + "\n\n" + render_table(["PLUGIN", "VERDICT", "DETAILS"], list(_add_details(cells, row)))


def _add_details(cells: Iterable[list[str]], row: ClusterRow) -> Iterator[list[str]]:
    for shown, verdict in zip(cells, row.rejections, strict=True):
        yield shown
        yield from (["", "", line] for line in _format_details(verdict))


def _format_details(verdict: FilterVerdict) -> Iterator[str]:
    for key, value in verdict.details.items():
        if key == "terms":
            yield from (f"term {term['term'] + 1}: {_join_expressions(term['failed'])}" for term in value)
        else:
            yield f"{key}: {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}"


def _join_expressions(expressions: Iterable[dict[str, object]]) -> str:
    seen = ((expression["expected"], expression.get("observed")) for expression in expressions)
    return ", ".join(f"{expected} ({'not set' if value is None else f'is {value}'})" for expected, value in seen)


# --- comparisons ----------------------------------------------------------------------------------------------------


def render_comparison(comparison: DecisionComparison) -> str:
    before, after = comparison.before, comparison.after
    lines = [f"COMPARED   {before.outcome} on {before.selected} → {after.outcome} on {after.selected}"]
    if comparison.same:
        return f"{lines[0]}, the same decision\n"
    lines += [f"gained     {_join_names(comparison.gained)}"] if comparison.gained else []
    lines += [f"lost       {_join_names(comparison.lost)}"] if comparison.lost else []
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
    yield from (f"{_GAP}{each.cluster}: {each.before} → {each.after}" for each in transition.clusters)
    if transition.more:
        yield f"{_GAP}… and {transition.more} more"


# --- impacts --------------------------------------------------------------------------------------------------------


def render_impact(impact: Impact) -> str:
    moving = len(impact.moved) + impact.redacted
    head = f"IMPACT     {impact.placements} placements decided: {impact.same} the same, {moving} would move"
    head += f", {impact.redacted} of them you may not read" if impact.redacted else ""
    head += "; time was up before all were decided" if impact.truncated else ""
    moved = _render_first(["WOULD MOVE", "BEFORE", "AFTER", "CAUSE"], [_format_move(diff) for diff in impact.moved])
    parts = [head, moved, *_render_sums(impact.summary)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _format_move(diff: Moved) -> list[str]:
    cause = f"{diff.cause}; {diff.redacted} more clusters that you may not read" if diff.redacted else diff.cause
    return [diff.key, _join_names(diff.before) or "none", _join_names(diff.after) or "none", cause]


def _render_sums(summary: DiffSummary) -> Iterator[str]:
    clusters = [[cluster.cluster, str(cluster.gained), str(cluster.lost)] for cluster in summary.clusters]
    yield _render_first(["CLUSTER", "GAINED", "LOST"], clusters, numbers=(1, 2))
    yield f"and {summary.redacted} clusters you may not read" if summary.redacted else ""
    outcomes = [[outcome.outcome, str(outcome.before), str(outcome.after)] for outcome in summary.outcomes]
    yield _render_first(["OUTCOME", "BEFORE", "AFTER"], outcomes, numbers=(1, 2))


def _render_first(head: Cells, rows: Sequence[Cells], *, numbers: Iterable[int] = ()) -> str:
    """Nothing where there is nothing to list."""
    more = f"\n… and {len(rows) - MOVES} more" if len(rows) > MOVES else ""
    return render_table(head, rows[:MOVES], numbers=numbers) + more if rows else ""


# --- columns --------------------------------------------------------------------------------------------------------


def render_table(head: Cells, rows: Sequence[Cells], *, numbers: Iterable[int] = ()) -> str:
    """Columns under their heads; those of numbers are flush right."""
    if not rows:
        return "\n".join([*_align([head], numbers), NONE])
    return "\n".join(_align([head, *rows], numbers))


def _align(rows: Sequence[Cells], numbers: Iterable[int] = ()) -> list[str]:
    right = set(numbers)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        _GAP.join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _join_names(names: Sequence[str], more: int = 0) -> str:
    shown, left = names[:NAMES], max(len(names) - NAMES, 0) + more
    return " ".join([*shown, *([f"+{left}"] if left else [])])


def _format_value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _format_number(value: int | None) -> str:
    return "" if value is None else str(value)


def _format_clock(moment: str) -> str:
    """`09:14:03` of an RFC 3339 time; anything else as it is."""
    _, separator, time = moment.partition("T")
    return time[:8] if separator else moment
