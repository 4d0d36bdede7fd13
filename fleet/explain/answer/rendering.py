"""Answers as plain text, for a terminal and for `Accept: text/plain`: stable enough for people, not for programs.

Everything shown is in the answer; nothing is computed again. Sections without rows are left out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, Literal

from fleet.explain.answer.comparisons import render_comparison, render_impact
from fleet.explain.answer.grid import render_verdicts
from fleet.explain.answer.parts import Answer, ClusterRow, FilterVerdict, GroupPart
from fleet.explain.answer.sentences import (
    NAMES,
    describe_cluster,
    describe_concerns,
    describe_details,
    describe_domain,
    describe_rejection,
    describe_removal,
    describe_skipped,
    describe_warning,
    format_moment,
    join_names,
)
from fleet.explain.answer.simulate import Simulated
from fleet.explain.facts.outcomes import Effect
from fleet.explain.fixes.fixes import Fix
from fleet.explain.remarks.remark import Remark
from fleet.explain.whatif.impact import Impact
from fleet.framework.request import OPTIONS_FIELD
from fleet.name_lists import join_first
from fleet.text_table import GAP, Page, apply_style, finish, render_columns, render_table

WIDTH: Final = 100
"""Of sentences on a page without a width."""
REMARKS_SHOWN: Final = 20
PROBLEMS_SHOWN: Final = 20
_PAGE: Final = Page()
_IN_USE: Final = ("selected", "already-selected")
_UNSCHEDULE: Final = "unschedule"
_GO_VALUE: Final = "&{"
_RETAINED: Final = "retained"
_ONLY_FITS: Final = "fit-not-selected"
_NOT_ENOUGH: Final = "NOT ENOUGH (verified: it would fit, and others would be chosen)"
_BOUND: Final = ("Scheduled", "Partial")
_UNBOUND: Final = ("Queued", "Gated", "Waiting", "Preempting", "Binding")
"""States in which what is chosen is not bound yet."""
_EQUAL_SHOWN: Final = 3
"""Of clusters with the same remark."""
_SIMULATED: Final = "SIMULATED  nothing was changed"
_NEXT: Final = "NEXT       "
_SETTLE: Final = "or settle for"
_VERDICTS: Final = {"pass": "green", "reject": "red"}


def render(
    answer: Answer, *, held: str = "", next_step: str = "", page: Page = _PAGE, most_rows: int | None = None
) -> str:
    """The whole answer. `held` is what people keep the placement from; `next_step` is what the queue will do with
    it, in one line."""
    parts = [
        _render_head(answer, page),
        held,
        _render_policy_remarks(answer.remarks, page),
        *_render_clusters(answer, page, most_rows),
        _render_hooks(answer, page),
        _render_given_up(answer, page),
        _render_fixes(answer),
        _render_remarks(answer),
        _render_next(_describe_repair(answer) or next_step, page),
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
        "\n".join([*_render_status_notes(answer), *_render_problems(answer), *_render_sources(answer)]),
        _render_policy_remarks(_select_remarks(answer, rows), page),
        *(part for row in rows for part in _render_row(row, answer, page)),
        fixes,
        _render_next(_describe_repair(answer) or next_step, page),
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
    since = f" since {format_moment(verdict.since)}" if verdict.since else ""
    number = "" if attempt.n is None else f"   attempt {attempt.n}"
    state = apply_style(verdict.state, "green" if verdict.state == "Scheduled" else "red")
    return f"{apply_style(name, 'bold')}   {state}{since}{number}   profile {attempt.profile}"


def _render_head(answer: Answer, page: Page) -> str:
    verdict, width = answer.verdict, page.width or WIDTH
    staying = {row.name for row in _list_retained(answer)}
    lines = [_render_title(answer), *_render_status_notes(answer)]
    lines += textwrap.wrap(verdict.summary, width, break_long_words=False, break_on_hyphens=False)
    lines += _render_problems(answer)
    lines += [
        f"not eligible: {invalid.cluster}: {invalid.message}"
        for invalid in verdict.invalid
        if invalid.cluster not in staying
    ]
    remarked = {remark.subject for remark in answer.remarks if remark.kind == "unknown-cluster"}
    missing = [name for name in verdict.missing if name not in remarked]
    lines += [f"no such cluster: {join_names(missing)}"] if missing else []
    return "\n".join([*lines, *_render_sources(answer)])


def _render_problems(answer: Answer) -> list[str]:
    """What keeps the decision from being made."""
    verdict = answer.verdict
    lines = [f"{problem.field}: {problem.message}" for problem in verdict.problems]
    return [*_cut_lines(lines, PROBLEMS_SHOWN, verdict.more_problems), *filter(None, [verdict.error])]


def _render_status_notes(answer: Answer) -> Iterator[str]:
    for note in answer.status_notes:
        text = f"{note.condition} is False, {note.reason}" if note.condition else ""
        if note.at:
            text = f"Warning at {format_moment(note.at)}, {note.reason}"
        yield ": ".join(part for part in (text, note.message) if part)


def _render_sources(answer: Answer) -> Iterator[str]:
    """The source of the facts, if not the record."""
    if answer.attempt.evaluated_on == "current":
        yield "evaluated on the fleet as it is now"
    if answer.history_unavailable_since:
        yield f"the history is unavailable since {format_moment(answer.history_unavailable_since)}"


def _render_clusters(answer: Answer, page: Page, most_rows: int | None) -> Iterator[str]:
    if answer.verdict.problems:  # nothing is selected, and what was stays
        yield _render_in_use(answer, page, most_rows)
        return
    is_pending = answer.verdict.state not in _BOUND or answer.attempt.evaluated_on == "current"
    yield _render_ranked("WOULD BE SELECTED" if is_pending else "SELECTED", "selected", answer, page, most_rows)
    yield _render_in_use(answer, page, most_rows)
    yield _render_retained(answer, page)
    yield _render_ranked("FIT", "fit-not-selected", answer, page, most_rows)
    yield _render_rejected(answer, page)
    yield render_verdicts(answer, page)
    yield _render_domains(answer)
    yield _render_removed(answer, page)


def _render_in_use(answer: Answer, page: Page, most_rows: int | None) -> str:
    """Those with a remark come first: they are cut last."""
    rows = [row for row in answer.attempt.clusters if row.outcome == "already-selected"]
    rows = sorted(rows, key=lambda row: not row.concerns)[:most_rows]
    left = answer.verdict.counts.already_selected - len(rows)
    return _render_named(["IN USE", "SINCE", "REMARK"], [_format_in_use(row) for row in rows], left, page)


def _format_in_use(row: ClusterRow) -> list[str]:
    since = format_moment(row.since)
    if not row.concerns:
        return [row.name, since, "stays over the policy change" if row.retained else ""]
    return [row.name, since, f"kept, though {describe_concerns(row)} (would not be chosen now)"]


def _list_retained(answer: Answer) -> list[ClusterRow]:
    return [row for row in answer.attempt.clusters if row.standing == _RETAINED]


def _render_retained(answer: Answer, page: Page) -> str:
    cells = [
        [row.name, format_moment(row.since), f"retained, though {_join_reasons(row)}"] for row in _list_retained(answer)
    ]
    return _render_named(["STILL THERE", "SINCE", "REMARK"], cells, 0, page)


def _join_reasons(row: ClusterRow) -> str:
    return ", ".join(describe_rejection(verdict) for verdict in row.rejections if verdict.verdict == "reject")


def _render_named(head: Sequence[str], rows: Sequence[Sequence[str]], left: int, page: Page) -> str:
    """Columns without a value are left out."""
    if not rows:
        return f"{apply_style(head[0], 'bold')}\n… {left} not shown here" if left else ""
    columns = [column for column in range(len(head)) if any(row[column] for row in rows)]
    cells = [[row[column] for column in columns] for row in rows]
    text = render_table([head[column] for column in columns], cells, width=page.width)
    return text + (f"\n… and {left} more" if left > 0 else "")


def _render_hooks(answer: Answer, page: Page) -> str:
    """What the plugins answered that acted on the decision; equal answers together."""
    attempt = answer.attempt
    hooks = {"Reserve": attempt.reserve, "Permit": attempt.permit, "PreBind": attempt.pre_bind, "Bind": attempt.bind}
    clusters: dict[tuple[str, ...], list[str]] = {}
    for hook, statuses in hooks.items():
        for status in statuses:
            said = f"{status.code}: {status.message}" if status.message else status.code
            clusters.setdefault((hook, status.plugin, said), []).append(status.target)
    cells = [[*said, join_names(list(dict.fromkeys(named)))] for said, named in clusters.items()]
    return render_table(["HOOK", "PLUGIN", "ANSWER", "CLUSTERS"], cells, width=page.width) if cells else ""


def _render_given_up(answer: Answer, page: Page) -> str:
    cells = [[past.cluster, format_moment(past.at), past.because] for past in answer.given_up]
    return _render_named(["GIVEN UP", "AT", "BECAUSE"], cells, 0, page)


def _render_ranked(head: str, outcome: str, answer: Answer, page: Page, most_rows: int | None) -> str:
    weighted = answer.attempt.ranking == "weighted"
    counts = answer.verdict.counts
    total = counts.fit if head == "FIT" else counts.selected
    rows = [row for row in answer.attempt.clusters if row.outcome == outcome][:most_rows]
    if not rows:
        return f"{apply_style(head, 'bold')}\n… {total} not shown here" if total else ""
    more = f"\n… and {total - len(rows)} more" if total > len(rows) else ""
    if all(row.rank is None and row.key is None and row.total is None for row in rows):
        return _render_named([head, "REMARK"], [[row.name, _describe_row(row)] for row in rows], 0, page) + more
    plugins = list(dict.fromkeys(score.plugin for row in rows for score in row.scores)) if weighted else []
    numbers = ["RANK", "TOTAL", *plugins] if weighted else ["RANK", "TOPOLOGY", "AFFINITY", "BOUND"]
    cells = []
    for few, hidden in _group_equal(rows):
        cells += [
            [row.name, _format_number(row.rank), *_format_scores(row, plugins, weighted=weighted), _describe_row(row)]
            for row in few
        ]
        cells += [[f"… {hidden} more", *([""] * len(numbers)), few[-1].short]] if hidden else []
    columns = [head, *numbers, "REMARK" if any(row[-1] for row in cells) else ""]
    return render_table(columns, cells, numbers=numbers, width=page.width) + more


def _group_equal(rows: Sequence[ClusterRow]) -> Iterator[tuple[list[ClusterRow], int]]:
    """Neighbors with the same remark: the first few, and how many are left out."""
    for _, equal in groupby(rows, key=lambda row: (row.short, row.key, row.total)):
        members = list(equal)
        few = members if len(members) <= _EQUAL_SHOWN + 1 or not members[0].short else members[:_EQUAL_SHOWN]
        yield few, len(members) - len(few)


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
    cells = [cells for group in answer.attempt.groups if (cells := _format_group(group, _list_retained(answer)))]
    head = ["REJECTED BY", "COUNT", "CLOSEST", "LACKS", "OTHERS"]
    return render_table(head, cells, numbers=["COUNT"], width=page.width) if cells else ""


def _format_group(group: GroupPart, retained: Sequence[ClusterRow]) -> list[str]:
    """Without those that are retained, which have a table of their own. Empty if none is left."""
    own = {row.name for row in retained if (row.first, row.rejections[0].reason) == (group.plugin, group.reason)}
    count = group.count - len(own)
    names = [name for name in group.clusters if name not in own]
    if not count:
        return []
    closest, lacks = (group.closest.cluster, group.closest.lacks) if group.closest else ("", "")
    if closest in own:
        closest, lacks = "", ""
    others = [name for name in names if name != closest]
    more = group.more + max(len(others) - NAMES, 0)
    listed = [*others[:NAMES], *([f"+{more}"] if more else []), *([f"{group.hidden} hidden"] if group.hidden else [])]
    return [group.plugin, str(count), closest, lacks, " ".join(listed)]


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
    # What is evaluated on the present fleet has not happened: a cluster that leaves has its bindings until it is gone.
    is_past = answer.attempt.evaluated_on == "recorded"
    head = ["REMOVED FROM", "BINDING", "WAS", "BECAUSE"]
    head = head if is_past else ["STILL ON", "BINDING", "IS", "THE NEXT DECISION REMOVES IT"]
    return render_table(head, cells, width=page.width) if cells else ""


def _render_fixes(answer: Answer) -> str:
    is_content = answer.verdict.state == "Scheduled" or answer.verdict.state in _UNBOUND
    return "" if not answer.fixes and is_content else _render_all_fixes(answer)


def _render_all_fixes(answer: Answer) -> str:
    if answer.fixes is None or answer.verdict.problems:
        return ""
    truncated = ", not everything was tried" if answer.fixes_truncated else ""
    is_newer = answer.fixes_evaluated_on == "current" != answer.attempt.evaluated_on
    where = " on the fleet as it is now" if is_newer else ""
    helping = [fix for fix in answer.fixes if fix.effect.after != _ONLY_FITS]
    others = [fix for fix in answer.fixes if fix.effect.after == _ONLY_FITS]
    parts = (_render_fix_list(f"FIXES (verified{where}{truncated})", helping), _render_fix_list(_NOT_ENOUGH, others))
    return "\n\n".join(part for part in parts if part) or f"no fix was found{where}{truncated}"


def _render_fix_list(head: str, fixes: Sequence[Fix]) -> str:
    if not fixes:
        return ""
    lines = render_columns([_format_fix(fix) for fix in fixes]).split("\n")
    settling = sum(fix.settles for fix in fixes)
    lines[len(lines) - settling : len(lines) - settling] = [_SETTLE] if settling else []
    return _render_list(head, lines)


def _format_fix(fix: Fix) -> list[str]:
    """Those that ask for less are the last ones."""
    remarks = [f"needs {fix.needs}"] if fix.needs else []
    remarks += ["only where that is true of the cluster"] if fix.changes_facts else []
    return [fix.scope, fix.text, _describe_effect(fix.effect) + "".join(f" ({remark})" for remark in remarks)]


def _describe_effect(effect: Effect) -> str:
    if effect.after == _ONLY_FITS:
        return f"fits, but the choice is {join_names(effect.targets, effect.more)}"
    on = f" on {join_names(effect.targets, effect.more)}" if effect.targets or effect.more else ""
    return f"{effect.after}{on}"


def _select_remarks(answer: Answer, rows: Sequence[ClusterRow]) -> tuple[Remark, ...]:
    """Without those about other clusters."""
    names = {row.name for row in rows}
    return tuple(remark for remark in answer.remarks if remark.kind != "unknown-cluster" or remark.subject in names)


def _render_policy_remarks(remarks: Sequence[Remark], page: Page) -> str:
    """Mistakes in the policy, above what follows from them."""
    width = (page.width or WIDTH) - len(GAP)
    shown = remarks[:REMARKS_SHOWN]
    lines = [line for remark in shown for line in _wrap_item(remark.message, width)]
    left = sum(remark.more if remark.kind == "further" else 1 for remark in remarks[len(shown) :])
    return _render_list("POLICY", [*lines, *([f"… and {left} more"] if left else [])])


def _wrap_item(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=GAP, break_long_words=False, break_on_hyphens=False)


def _render_remarks(answer: Answer) -> str:
    known = {remark.subject for remark in answer.remarks if remark.kind in ("unknown-label", "unknown-cluster")}
    lines = [describe_warning(warning) for warning in answer.attempt.warnings if warning.subject not in known]
    lines += [describe_cluster(stranger) for stranger in answer.attempt.strangers if stranger.name not in known]
    lines = _cut_lines(lines, REMARKS_SHOWN)
    lines += [f"clusters you may not read, counted and not named: {answer.redacted}"] if answer.redacted else []
    return _render_list("REMARKS", lines)


def _describe_repair(answer: Answer) -> str:
    """Of a policy that cannot be evaluated: to try it again does not help, however often the queue does."""
    problems = answer.verdict.problems
    if not problems:
        return ""
    if all(problem.field == OPTIONS_FIELD for problem in problems):
        return "edit its options; nothing is scheduled until then"
    repairs = list(dict.fromkeys(problem.repair or _cut_field(problem.field) for problem in problems))
    return f"edit the placement: {join_first(repairs, PROBLEMS_SHOWN)}; nothing is scheduled until then"


def _cut_field(path: str) -> str:
    """The last part of a path. A key in brackets may contain dots itself."""
    before, bracket, key = path.partition("[") if path.endswith("]") else (path, "", "")
    return f"{before.rpartition('.')[2]}{bracket}{key}"


def _render_next(step: str, page: Page) -> str:
    return textwrap.fill(
        step,
        page.width or WIDTH,
        initial_indent=_NEXT,
        subsequent_indent=" " * len(_NEXT),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _cut_lines(lines: list[str], most: int, unlisted: int = 0) -> list[str]:
    more = max(len(lines) - most, 0) + unlisted
    return [*lines[:most], f"… and {more} more"] if more else lines


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
    lines += [f"{score.plugin} scores {score.final}: {score.remark}" for score in row.scores if score.remark]
    lines += [
        f"given up at {format_moment(past.at)}: {past.because}" for past in answer.given_up if past.cluster == row.name
    ]
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
        if verdict.verdict not in ("skipped", "unknown"):
            word = apply_style(verdict.verdict, _VERDICTS.get(verdict.verdict, "dim"))
            yield [verdict.plugin, word, _describe_verdict(verdict)]
            yield from (["", "", line] for line in describe_details(verdict, answer))


def _describe_verdict(verdict: FilterVerdict) -> str:
    """The message of KubeFleet contains values as Go prints them."""
    return describe_rejection(verdict) if _GO_VALUE in verdict.message else verdict.message


def _format_number(value: int | None) -> str:
    return "" if value is None else str(value)
