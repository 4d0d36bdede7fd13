"""Answers as plain text, for a terminal and for `Accept: text/plain`: stable enough for people, not for programs.

Everything shown is in the answer; nothing is asked again. Tables keep their heads even when they are empty, so that one
cluster, or none, reads like any other fleet.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from fleet.explain.answer.parts import Answer, ClusterRow, GroupPart, Rejection
from fleet.explain.answer.sentences import sentence
from fleet.explain.answer.simulate import Simulated
from fleet.explain.facts.placement_outcome import Effect
from fleet.explain.fixes.fixes import Fix
from fleet.explain.whatif.compare import Comparison, Transition
from fleet.explain.whatif.diff import Moved, Tally
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
        _head(answer),
        _selected(answer),
        _fitting(answer),
        _rejected(answer),
        _domains(answer),
        _fixes(answer),
        _remarks(answer),
        _next(next_step),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _next(step: str) -> str:
    return textwrap.fill(step, WIDTH, initial_indent=_NEXT, subsequent_indent=" " * len(_NEXT)) if step else ""


def render_cluster(
    answer: Answer, *, next_step: str = "", fixes_of: Literal["cluster", "placement"] = "cluster"
) -> str:
    """Of an answer about one cluster: every verdict, where it ranks, and the fixes, which bring it in or serve the
    whole placement."""
    rows = answer.attempt.clusters
    in_use = all(row.outcome in _IN_USE for row in rows)
    found = _fixes(answer) if fixes_of == "placement" else "" if in_use else _found_fixes(answer)
    parts = [
        _title(answer),
        "\n".join(_sources(answer)),
        *map(_one, rows),
        found,
        _next(next_step),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_simulated(found: Simulated, impact: Impact | None = None) -> str:
    parts = [f"{_SIMULATED}\n\n{render(found.answer)}"]
    parts += [] if found.compare is None else [render_comparison(found.compare)]
    parts += [] if impact is None else [render_impact(impact)]
    return "\n".join(parts)


# --- parts of an answer ---------------------------------------------------------------------------------------------


def _title(answer: Answer) -> str:
    placement, verdict, attempt = answer.placement, answer.verdict, answer.attempt
    name = f"{placement.namespace}/{placement.name}" if placement.namespace else placement.name
    since = f" since {_clock(verdict.since)}" if verdict.since else ""
    number = "" if attempt.n is None else f"   attempt {attempt.n}"
    return f"{name}   {verdict.state}{since}{number}   profile {attempt.profile}"


def _head(answer: Answer) -> str:
    verdict = answer.verdict
    lines = [_title(answer), textwrap.fill(verdict.summary, WIDTH, break_long_words=False, break_on_hyphens=False)]
    lines += [f"{one.field}: {one.message}" for one in verdict.problems]
    lines += [verdict.error] if verdict.error else []
    lines += [f"not eligible: {one.cluster}: {one.message}" for one in verdict.invalid]
    lines += [f"no such cluster: {_names(verdict.missing)}"] if verdict.missing else []
    return "\n".join([*lines, *_sources(answer)])


def _sources(answer: Answer) -> Iterator[str]:
    """What is told is from the record, unless it is said otherwise."""
    if answer.attempt.evaluated_on == "current":
        yield "evaluated on the fleet as it is now"
    if answer.history_unavailable_since:
        yield f"the history is unavailable since {_clock(answer.history_unavailable_since)}"


def _selected(answer: Answer) -> str:
    rows = [row for row in answer.attempt.clusters if row.outcome in _IN_USE]
    return _ranked("SELECTED", rows, answer)


def _fitting(answer: Answer) -> str:
    rows = [row for row in answer.attempt.clusters if row.outcome == "fit-not-selected"]
    return _ranked("FIT", rows, answer)


def _ranked(head: str, rows: Sequence[ClusterRow], answer: Answer) -> str:
    weighted = answer.attempt.ranking == "weighted"
    counts = answer.verdict.counts
    total = counts.selected + counts.already_selected if head == "SELECTED" else counts.fit
    if total and not rows:
        return f"{head}\n… {total} not shown here"
    more = f"\n… and {total - len(rows)} more" if total > len(rows) else ""
    if rows and all(row.rank is None and row.key is None and row.total is None for row in rows):
        return table([head, ""], [[row.name, _remark(row)] for row in rows]) + more
    plugins = list(dict.fromkeys(one.plugin for row in rows for one in row.scores)) if weighted else []
    columns = ["TOTAL", *plugins] if weighted else ["TOPOLOGY", "AFFINITY", "BOUND"]
    cells = [[row.name, _number(row.rank), *_scores(row, plugins, weighted=weighted), _remark(row)] for row in rows]
    return table([head, "RANK", *columns, ""], cells, numbers=range(1, 2 + len(columns))) + more


def _scores(row: ClusterRow, plugins: Sequence[str], *, weighted: bool) -> list[str]:
    if weighted:
        finals = {one.plugin: one.final for one in row.scores}
        return [_number(row.total), *(_number(finals.get(plugin)) for plugin in plugins)]
    return ["", "", ""] if row.key is None else [str(part) for part in row.key]


def _remark(row: ClusterRow) -> str:
    if row.short:
        return row.short
    words = row.standing if row.standing in ("refreshed", "revived", "kept") else ""
    return ", ".join(part for part in (words, "stays over the policy change" if row.retained else "") if part)


def _rejected(answer: Answer) -> str:
    cells = [_group(one) for one in answer.attempt.groups]
    return table(["REJECTED BY", "COUNT", "CLOSEST", "LACKS", "OTHERS"], cells, numbers=[1])


def _group(one: GroupPart) -> list[str]:
    closest = one.closest.cluster if one.closest else ""
    others = [name for name in one.clusters if name != closest]
    more = one.more + max(len(others) - NAMES, 0)
    listed = [*others[:NAMES], *([f"+{more}"] if more else []), *([f"{one.hidden} hidden"] if one.hidden else [])]
    return [one.plugin, str(one.count), closest, one.closest.lacks if one.closest else "", " ".join(listed)]


def _domains(answer: Answer) -> str:
    lines = [
        f"{one.key}={one.domain} has {one.count} and no cluster left; max skew {one.max_skew}"
        for one in answer.attempt.full_domains
    ]
    left = answer.attempt.full_domains_left_out
    lines += [f"… and {left} more"] if lines and left else [f"{left} domains that are not shown"] if left else []
    return "\n".join(["BLOCKED BY", *(f"{_GAP}{line}" for line in lines)]) if lines else ""


def _fixes(answer: Answer) -> str:
    return "" if not answer.fixes and answer.verdict.state == "Scheduled" else _found_fixes(answer)


def _found_fixes(answer: Answer) -> str:
    if answer.fixes is None:
        return ""
    truncated = ", not everything was tried" if answer.fixes_truncated else ""
    is_newer = answer.fixes_evaluated_on == "current" != answer.attempt.evaluated_on
    where = " on the fleet as it is now" if is_newer else ""
    cells = [_fix(one) for one in answer.fixes]
    lines = _aligned(cells) if cells else [NONE]
    return "\n".join([f"FIXES (verified{where}{truncated})", *(f"{_GAP}{line}" for line in lines)])


def _fix(one: Fix) -> list[str]:
    return [one.scope, one.text, _effect(one.effect) + (f" (needs {one.needs})" if one.needs else "")]


def _effect(effect: Effect) -> str:
    if effect.after == "fit-not-selected":
        return f"fits, but the choice is {_names(effect.targets, effect.more)}"
    on = f" on {_names(effect.targets, effect.more)}" if effect.targets or effect.more else ""
    return f"{effect.after}{on}"


def _remarks(answer: Answer) -> str:
    lines = [f"{one.kind} {one.subject}: {_names(one.clusters, one.hidden)}" for one in answer.attempt.warnings]
    lines += [sentence(one) for one in answer.attempt.strangers]
    lines += [f"clusters you may not read, counted and not named: {answer.redacted}"] if answer.redacted else []
    return "\n".join(["REMARKS", *(f"{_GAP}{line}" for line in lines)]) if lines else ""


# --- one cluster ----------------------------------------------------------------------------------------------------


def _one(row: ClusterRow) -> str:
    lines = [sentence(row)]
    if row.rank is not None:
        score = f"   total {row.total}" if row.total is not None else ""
        score = f"   topology {row.key[0]}, affinity {row.key[1]}, bound {row.key[2]}" if row.key else score
        lines.append(f"rank {row.rank}{score}{'   tie' if row.tie else ''}")
    lines += [row.short] if row.short else []
    lines += [f"binding {one.name}: {one.state or 'new'}, {one.action}" for one in row.bindings]
    cells = [[one.plugin, one.verdict, one.message] for one in row.rejections]
    return "\n".join(lines) + "\n\n" + table(["PLUGIN", "VERDICT", "DETAILS"], list(_with_details(cells, row)))


def _with_details(cells: Iterable[list[str]], row: ClusterRow) -> Iterator[list[str]]:
    for shown, one in zip(cells, row.rejections, strict=True):
        yield shown
        yield from (["", "", line] for line in _details(one))


def _details(one: Rejection) -> Iterator[str]:
    for key, value in one.details.items():
        if key == "terms":
            yield from (f"term {term['term'] + 1}: {_failed(term['failed'])}" for term in value)
        else:
            yield f"{key}: {', '.join(map(str, value)) if isinstance(value, list | tuple) else value}"


def _failed(expressions: Iterable[dict[str, object]]) -> str:
    seen = ((one["expected"], one.get("observed")) for one in expressions)
    return ", ".join(f"{expected} ({'not set' if value is None else f'is {value}'})" for expected, value in seen)


# --- comparisons ----------------------------------------------------------------------------------------------------


def render_comparison(found: Comparison) -> str:
    before, after = found.before, found.after
    lines = [f"COMPARED   {before.outcome} on {before.selected} → {after.outcome} on {after.selected}"]
    if found.same:
        return f"{lines[0]}, the same decision\n"
    lines += [f"gained     {_names(found.gained)}"] if found.gained else []
    lines += [f"lost       {_names(found.lost)}"] if found.lost else []
    lines += [line for one in found.transitions for line in _transition(one)]
    lines += [f"{one.cluster}: scores {list(one.before)} → {list(one.after)}" for one in found.scores]
    lines += [f"{one.what}: {_value(one.before)} → {_value(one.after)}" for one in found.changes]
    lines += [f"looked at by only one of the two: {found.not_compared}"] if found.not_compared else []
    return "\n".join(lines) + "\n"


def _transition(one: Transition) -> Iterator[str]:
    yield f"{one.before} → {one.after}   {one.count}"
    yield from (f"{_GAP}{each.cluster}: {each.before} → {each.after}" for each in one.clusters)
    if one.more:
        yield f"{_GAP}… and {one.more} more"


# --- impacts --------------------------------------------------------------------------------------------------------


def render_impact(found: Impact) -> str:
    moving = len(found.moved) + found.redacted
    head = f"IMPACT     {found.placements} placements decided: {found.same} the same, {moving} would move"
    head += f", {found.redacted} of them you may not read" if found.redacted else ""
    head += "; time was up before all were decided" if found.truncated else ""
    moved = _first(["WOULD MOVE", "BEFORE", "AFTER", "CAUSE"], [_move(one) for one in found.moved])
    parts = [head, moved, *_sums(found.summary)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _move(one: Moved) -> list[str]:
    cause = f"{one.cause}; {one.redacted} more clusters that you may not read" if one.redacted else one.cause
    return [one.key, _names(one.before) or "none", _names(one.after) or "none", cause]


def _sums(found: Tally) -> Iterator[str]:
    clusters = [[one.cluster, str(one.gained), str(one.lost)] for one in found.clusters]
    yield _first(["CLUSTER", "GAINED", "LOST"], clusters, numbers=(1, 2))
    yield f"and {found.redacted} clusters you may not read" if found.redacted else ""
    outcomes = [[one.outcome, str(one.before), str(one.after)] for one in found.outcomes]
    yield _first(["OUTCOME", "BEFORE", "AFTER"], outcomes, numbers=(1, 2))


def _first(head: Cells, rows: Sequence[Cells], *, numbers: Iterable[int] = ()) -> str:
    """Nothing where there is nothing to list."""
    more = f"\n… and {len(rows) - MOVES} more" if len(rows) > MOVES else ""
    return table(head, rows[:MOVES], numbers=numbers) + more if rows else ""


# --- columns --------------------------------------------------------------------------------------------------------


def table(head: Cells, rows: Sequence[Cells], *, numbers: Iterable[int] = ()) -> str:
    """Columns under their heads; those of numbers are flush right."""
    if not rows:
        return "\n".join([*_aligned([head], numbers), NONE])
    return "\n".join(_aligned([head, *rows], numbers))


def _aligned(rows: Sequence[Cells], numbers: Iterable[int] = ()) -> list[str]:
    right = set(numbers)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        _GAP.join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _names(names: Sequence[str], more: int = 0) -> str:
    shown, left = names[:NAMES], max(len(names) - NAMES, 0) + more
    return " ".join([*shown, *([f"+{left}"] if left else [])])


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _clock(moment: str) -> str:
    """`09:14:03` of an RFC 3339 time; anything else as it is."""
    _, separator, time = moment.partition("T")
    return time[:8] if separator else moment
