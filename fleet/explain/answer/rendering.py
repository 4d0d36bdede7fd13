"""Answers as plain text, for a terminal and for `Accept: text/plain`: stable enough for people, not for programs.

Everything shown is in the answer; nothing is computed again. Sections without rows are left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from fleet.explain.answer.comparisons import render_comparison, render_impact
from fleet.explain.answer.parts import Answer, ClusterRow, GroupPart
from fleet.explain.answer.sentences import (
    NAMES,
    describe_cluster,
    describe_details,
    describe_domain,
    describe_removal,
    describe_skipped,
    describe_warning,
    join_names,
)
from fleet.explain.answer.simulate import Simulated
from fleet.explain.facts.placement_outcome import Effect
from fleet.explain.fixes.fixes import Fix
from fleet.explain.whatif.impact import Impact
from fleet.text_table import GAP, Page, apply_style, finish, render_columns, render_table

WIDTH: Final = 100
"""Of sentences on a page without a width."""
NONE: Final = "(none)"
_PAGE: Final = Page()
_IN_USE: Final = ("selected", "already-selected")
_UNSCHEDULE: Final = "unschedule"
_SIMULATED: Final = "SIMULATED  nothing was changed"
_NEXT: Final = "NEXT       "
_VERDICTS: Final = {"pass": "green", "reject": "red"}


def render(answer: Answer, *, next_step: str = "", page: Page = _PAGE, most_rows: int | None = None) -> str:
    """The whole answer. `next_step` is what the queue will do with the placement, in one line."""
    parts = [
        _render_head(answer, page),
        _render_ranked("SELECTED", _IN_USE, answer, page, most_rows),
        _render_ranked("FIT", ("fit-not-selected",), answer, page, most_rows),
        _render_rejected(answer, page),
        _render_domains(answer),
        _render_removed(answer, page),
        _render_fixes(answer),
        _render_remarks(answer),
        _render_next(next_step),
    ]
    return _join_parts(parts, page)


def render_cluster(
    answer: Answer,
    *,
    next_step: str = "",
    fixes_of: Literal["cluster", "placement"] = "cluster",
    page: Page = _PAGE,
) -> str:
    """Of an answer about one cluster: every verdict, where it ranks, and the fixes, which bring it in or serve the
    whole placement."""
    rows = [*answer.attempt.clusters]
    in_use = all(row.outcome in _IN_USE for row in rows)
    fixes = _render_fixes(answer) if fixes_of == "placement" else "" if in_use else _render_all_fixes(answer)
    parts = [
        _render_title(answer),
        "\n".join(_render_sources(answer)),
        *(part for row in rows for part in _render_row(row, answer, page)),
        fixes,
        _render_next(next_step),
    ]
    return _join_parts(parts, page)


def render_simulated(simulated: Simulated, impact: Impact | None = None) -> str:
    parts = [f"{_SIMULATED}\n\n{render(simulated.answer)}"]
    parts += [] if simulated.compare is None else [render_comparison(simulated.compare)]
    parts += [] if impact is None else [render_impact(impact)]
    return "\n".join(parts)


def _join_parts(parts: Sequence[str], page: Page) -> str:
    return finish("\n\n".join(part for part in parts if part), page) + "\n"


# --- parts of an answer ---------------------------------------------------------------------------------------------


def _render_title(answer: Answer) -> str:
    placement, verdict, attempt = answer.placement, answer.verdict, answer.attempt
    name = f"{placement.namespace}/{placement.name}" if placement.namespace else placement.name
    since = f" since {_format_clock(verdict.since)}" if verdict.since else ""
    number = "" if attempt.n is None else f"   attempt {attempt.n}"
    state = apply_style(verdict.state, "green" if verdict.state == "Scheduled" else "red")
    return f"{apply_style(name, 'bold')}   {state}{since}{number}   profile {attempt.profile}"


def _render_head(answer: Answer, page: Page) -> str:
    verdict, width = answer.verdict, page.width or WIDTH
    lines = [_render_title(answer)]
    lines += textwrap.wrap(verdict.summary, width, break_long_words=False, break_on_hyphens=False)
    lines += [f"{problem.field}: {problem.message}" for problem in verdict.problems]
    lines += [verdict.error] if verdict.error else []
    lines += [f"not eligible: {invalid.cluster}: {invalid.message}" for invalid in verdict.invalid]
    lines += [f"no such cluster: {join_names(verdict.missing)}"] if verdict.missing else []
    return "\n".join([*lines, *_render_sources(answer)])


def _render_sources(answer: Answer) -> Iterator[str]:
    """The source of the facts, if not the record."""
    if answer.attempt.evaluated_on == "current":
        yield "evaluated on the fleet as it is now"
    if answer.history_unavailable_since:
        yield f"the history is unavailable since {_format_clock(answer.history_unavailable_since)}"


def _render_ranked(head: str, outcomes: Sequence[str], answer: Answer, page: Page, most_rows: int | None) -> str:
    weighted = answer.attempt.ranking == "weighted"
    counts = answer.verdict.counts
    total = counts.fit if head == "FIT" else counts.selected + counts.already_selected
    rows = [row for row in answer.attempt.clusters if row.outcome in outcomes][:most_rows]
    if not rows:
        return f"{apply_style(head, 'bold')}\n… {total} not shown here" if total else ""
    more = f"\n… and {total - len(rows)} more" if total > len(rows) else ""
    if all(row.rank is None and row.key is None and row.total is None for row in rows):
        return render_table([head, ""], [[row.name, _describe_row(row)] for row in rows], width=page.width) + more
    plugins = list(dict.fromkeys(score.plugin for row in rows for score in row.scores)) if weighted else []
    numbers = ["RANK", "TOTAL", *plugins] if weighted else ["RANK", "TOPOLOGY", "AFFINITY", "BOUND"]
    cells = [
        [row.name, _format_number(row.rank), *_format_scores(row, plugins, weighted=weighted), _describe_row(row)]
        for row in rows
    ]
    return render_table([head, *numbers, ""], cells, numbers=numbers, width=page.width) + more


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


def _render_rejected(answer: Answer, page: Page) -> str:
    cells = [_format_group(group) for group in answer.attempt.groups]
    head = ["REJECTED BY", "COUNT", "CLOSEST", "LACKS", "OTHERS"]
    return render_table(head, cells, numbers=["COUNT"], width=page.width) if cells else ""


def _format_group(group: GroupPart) -> list[str]:
    closest = group.closest.cluster if group.closest else ""
    others = [name for name in group.clusters if name != closest]
    more = group.more + max(len(others) - NAMES, 0)
    listed = [*others[:NAMES], *([f"+{more}"] if more else []), *([f"{group.hidden} hidden"] if group.hidden else [])]
    return [group.plugin, str(group.count), closest, group.closest.lacks if group.closest else "", " ".join(listed)]


def _render_domains(answer: Answer) -> str:
    lines = [
        f"{domain.key}={domain.domain} has {domain.count} and no cluster left; max skew {domain.max_skew}"
        + (f": {unusable}" if (unusable := describe_domain(domain)) else "")
        for domain in answer.attempt.full_domains
    ]
    left = answer.attempt.full_domains_left_out
    lines += [f"… and {left} more"] if lines and left else [f"{left} domains that are not shown"] if left else []
    return _render_list("BLOCKED BY", lines)


def _render_removed(answer: Answer, page: Page) -> str:
    cells = [
        [row.name, binding.name, binding.state, describe_removal(row)]
        for row in answer.attempt.clusters
        for binding in row.bindings
        if binding.action == _UNSCHEDULE
    ]
    return render_table(["REMOVED FROM", "BINDING", "WAS", "BECAUSE"], cells, width=page.width) if cells else ""


def _render_fixes(answer: Answer) -> str:
    return "" if not answer.fixes and answer.verdict.state == "Scheduled" else _render_all_fixes(answer)


def _render_all_fixes(answer: Answer) -> str:
    if answer.fixes is None:
        return ""
    truncated = ", not everything was tried" if answer.fixes_truncated else ""
    is_newer = answer.fixes_evaluated_on == "current" != answer.attempt.evaluated_on
    where = " on the fleet as it is now" if is_newer else ""
    cells = [_format_fix(fix) for fix in answer.fixes]
    return _render_list(f"FIXES (verified{where}{truncated})", render_columns(cells).split("\n") if cells else [NONE])


def _format_fix(fix: Fix) -> list[str]:
    return [fix.scope, fix.text, _describe_effect(fix.effect) + (f" (needs {fix.needs})" if fix.needs else "")]


def _describe_effect(effect: Effect) -> str:
    if effect.after == "fit-not-selected":
        return f"fits, but the choice is {join_names(effect.targets, effect.more)}"
    on = f" on {join_names(effect.targets, effect.more)}" if effect.targets or effect.more else ""
    return f"{effect.after}{on}"


def _render_remarks(answer: Answer) -> str:
    lines = [describe_warning(warning) for warning in answer.attempt.warnings]
    lines += [describe_cluster(stranger) for stranger in answer.attempt.strangers]
    lines += [f"clusters you may not read, counted and not named: {answer.redacted}"] if answer.redacted else []
    return _render_list("REMARKS", lines)


def _render_next(step: str) -> str:
    return textwrap.fill(step, WIDTH, initial_indent=_NEXT, subsequent_indent=" " * len(_NEXT)) if step else ""


def _render_list(head: str, lines: Sequence[str]) -> str:
    return "\n".join([apply_style(head, "bold"), *(f"{GAP}{line}" for line in lines)]) if lines else ""


# --- one cluster ----------------------------------------------------------------------------------------------------


def _render_row(row: ClusterRow, answer: Answer, page: Page) -> Iterator[str]:
    lines = [describe_cluster(row, answer.verdict)]
    if row.rank is not None:
        step = f"   step {row.step}" if row.step is not None and answer.attempt.rounds > 1 else ""
        score = f"   total {row.total}" if row.total is not None else ""
        score = f"   topology {row.key[0]}, affinity {row.key[1]}, bound {row.key[2]}" if row.key else score
        lines.append(f"rank {row.rank}{step}{score}{'   tie' if row.tie else ''}")
    lines += [row.short] if row.short else []
    for binding in row.bindings:
        change = "stays as it is" if binding.action == "none" else f"to {binding.action}"
        lines.append(f"binding {binding.name}: {f'{binding.state}, {change}' if binding.state else 'new'}")
    yield "\n".join(lines)
    cells = list(_format_verdicts(row, answer))
    skipped = ", ".join(verdict.plugin for verdict in row.rejections if verdict.verdict == "skipped")
    parts = [render_table(["PLUGIN", "VERDICT", "DETAILS"], cells, width=page.width)] if cells else []
    parts += [apply_style(f"skipped, {describe_skipped(answer.verdict)}: {skipped}", "dim")] if skipped else []
    yield "\n".join(parts)


def _format_verdicts(row: ClusterRow, answer: Answer) -> Iterator[list[str]]:
    for verdict in row.rejections:
        if verdict.verdict != "skipped":
            word = apply_style(verdict.verdict, _VERDICTS.get(verdict.verdict, "dim"))
            yield [verdict.plugin, word, verdict.message]
            yield from (["", "", line] for line in describe_details(verdict, answer))


def _format_number(value: int | None) -> str:
    return "" if value is None else str(value)


def _format_clock(moment: str) -> str:
    """`09:14:03` of an RFC 3339 time; anything else as it is."""
    _, separator, time = moment.partition("T")
    return time[:8] if separator else moment
