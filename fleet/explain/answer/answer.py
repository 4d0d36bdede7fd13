"""Builds the answer to "why is this placement where it is?" from one decision, with hidden clusters redacted.

Only the decision and its inputs are read. The state in the queue, earlier attempts and effect hooks are passed by the
caller as `AnswerContext`, or added to the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from fleet.errors import InputError
from fleet.explain.answer.attempt import UNKNOWN, AnswerContext, build_attempt
from fleet.explain.answer.parts import (
    Answer,
    ClusterRow,
    IneligibleCluster,
    PlacementPart,
    ProblemPart,
    State,
    VerdictPart,
)
from fleet.explain.answer.rows import Rows
from fleet.explain.facts.outcomes import (
    PARTIAL,
    SELECTED,
    UNDECIDED,
    ClusterOutcomes,
    Effect,
    describe_error,
    name_outcome,
    rate_outcome,
)
from fleet.explain.facts.redaction import Hidden, Redaction
from fleet.explain.facts.rejections import find_first_rejection
from fleet.explain.facts.summary import summarize
from fleet.explain.fixes.fixes import Fix, Fixes
from fleet.explain.remarks.remarks import find_remarks
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.cycle.inspection import consider_newcomers
from fleet.framework.request import PlacementRequest, PolicyProblem
from fleet.framework.status import message_of
from fleet.model.operators import LABEL_OPERATORS, find_meant_operator
from fleet.snapshot.columns.numbers import OPERATORS

__all__ = ["ROWS_SHOWN", "Answer", "AnswerContext", "build_answer", "state_of"]

ROWS_SHOWN: Final = 20
_MOST_PROBLEMS: Final = 200
_MOST_LETTERS: Final = 1_000_000
_MOST_TESTS: Final = 1_000_000
"""Of what failed on the clusters of one page, and expressions looked at for it: with a large policy it ends early."""
_VALUES_OF_A_TEST: Final = 16
"""As many take the time of an expression."""
UNUSABLE: Final = "nothing is scheduled until the placement can be used"
_STATES: Final[Mapping[int, State]] = {UNDECIDED: "SchedulerError", PARTIAL: "Partial", SELECTED: "Scheduled"}


def build_answer(
    inp: DecisionInput,
    decision: Decision,
    *,
    cluster: str | None = None,
    everything: bool = False,
    limit: int | None = ROWS_SHOWN,
    cursor: str = "",
    redact: Hidden | None = None,
    context: AnswerContext = UNKNOWN,
    fixes: Fixes | None = None,
    may_edit_clusters: bool = True,
) -> Answer:
    """`redact` decides which clusters may not be named. With `cluster`, exactly that row, or an InputError. Without a
    limit the page has all rows, whatever they take."""
    redaction = Redaction(decision.frame, redact)
    considered, question = consider_newcomers(decision, inp)
    rows = Rows(considered, question, redaction, everything=everything)
    shown, following = (
        _build_page(rows, considered, limit, cursor)
        if cluster is None
        else (_build_single(rows, cluster, redaction), "")
    )
    return Answer(
        placement=_build_placement(inp, context),
        remarks=(*find_remarks(inp.request, decision.frame, inp.profile, redaction), *context.remarks),
        verdict=_build_verdict(considered, redaction, context),
        attempt=build_attempt(
            inp, decision, rows, redaction, context, considered=considered, shown=shown, following=following
        ),
        fixes=None if fixes is None else _redact_fixes(fixes, decision, redaction, may_edit_clusters=may_edit_clusters),
        fixes_truncated=fixes is not None and fixes.truncated,
        fixes_evaluated_on=None if fixes is None else context.fixes_evaluated_on or context.evaluated_on,
        status_notes=context.status_notes,
        given_up=tuple(past for past in context.given_up if not redaction.hides(past.cluster)),
        history_unavailable_since=context.history_unavailable_since,
        redacted=redaction.count,
    )


def state_of(decision: Decision) -> State:
    """As far as it follows from the decision alone."""
    return "InputError" if decision.request.problems else _STATES.get(rate_outcome(decision), "Unschedulable")


# --- rows -----------------------------------------------------------------------------------------------------------


def _build_single(rows: Rows, name: str, redaction: Redaction) -> tuple[ClusterRow, ...]:
    row = redaction.row_of(name)
    try:
        if redaction.hides(name):
            raise KeyError(name)
        return (rows.build_stranger(name) if row is None else rows.build_row(row),)
    except KeyError:
        message = f"no cluster named {name!r}; use the name of a member cluster that you may read"
        raise InputError(message, field="cluster", value=name) from None


def _build_page(rows: Rows, decision: Decision, limit: int | None, cursor: str) -> tuple[tuple[ClusterRow, ...], str]:
    start = _parse_cursor(cursor, decision)
    if limit is not None:
        limit = min(limit, max(_MOST_TESTS // max(_count_tests(decision.request), 1), 1))
    page: list[ClusterRow] = []
    following, letters = "", 0
    for place, row in enumerate(rows.list_rows()):
        if place < start:
            continue
        if limit is not None and (len(page) >= limit or letters >= _MOST_LETTERS):
            following = f"{place}.{decision.digest[:_MARK]}"
            break
        page.append(rows.build_row(row))
        letters += sum(len(line) for rejection in page[-1].rejections for line in rejection.lines)
    return tuple(page), following


def _count_tests(request: PlacementRequest) -> int:
    labels = (test for term in request.required for test in term.labels)
    properties = sum(len(term.properties) for term in request.required)
    return properties + sum(1 + len(test.values) // _VALUES_OF_A_TEST for test in labels)


_MARK: Final = 12


def _parse_cursor(cursor: str, decision: Decision) -> int:
    """A cursor is valid for the decision it came from: another decision orders its rows differently."""
    if not cursor:
        return 0
    position, _, mark = cursor.partition(".")
    if not (position.isascii() and position.isdigit()):
        raise InputError("this cursor is not from an answer; use the nextCursor of one", field="cursor", value=cursor)
    if mark != decision.digest[:_MARK]:
        raise InputError(
            "this cursor belongs to another decision; repeat the request without one", field="cursor", value=cursor
        )
    return int(position)


# --- placement and verdict ------------------------------------------------------------------------------------------


def _build_placement(inp: DecisionInput, context: AnswerContext) -> PlacementPart:
    request = inp.request
    return PlacementPart(
        kind="ResourcePlacement" if request.namespace else "ClusterResourcePlacement",
        namespace=request.namespace,
        name=request.placement,
        uid=request.uid,
        generation=request.generation,
        scheduler_name=context.scheduler_name or inp.profile.scheduler_name,
        priority=request.priority,
    )


def _build_verdict(decision: Decision, redaction: Redaction, context: AnswerContext) -> VerdictPart:
    request, outcomes = decision.request, ClusterOutcomes(decision)
    counts = outcomes.count()
    summary = UNUSABLE if context.problems or request.problems else summarize(decision, redaction)
    return VerdictPart(
        state=context.state or state_of(decision),
        outcome=name_outcome(decision),
        placement_type=request.placement_type,
        wanted=request.wanted,
        min_targets=request.min_targets,
        selected=counts.selected,
        in_use=counts.selected + counts.already_selected,
        counts=counts,
        summary=f"{context.headline}: {summary}" if context.headline else summary,
        since=context.since,
        problems=(*context.problems, *map(_build_problem, request.problems[:_MOST_PROBLEMS])),
        more_problems=max(len(request.problems) - _MOST_PROBLEMS, 0),
        error=redaction.redact_text(describe_error(decision)),
        invalid=tuple(_build_ineligible(decision, outcomes, redaction)),
        missing=redaction.select_visible(decision.missing),
    )


def _build_problem(problem: PolicyProblem) -> ProblemPart:
    repair = ""
    if problem.field.endswith(".operator"):
        choices = OPERATORS if ".propertySelector." in problem.field else LABEL_OPERATORS
        meant = find_meant_operator(str(problem.value), choices)
        repair = f"operator {problem.value} → {meant}" if meant else ""
    return ProblemPart(problem.field, problem.value, problem.message, repair)


def _build_ineligible(
    decision: Decision, outcomes: ClusterOutcomes, redaction: Redaction
) -> Iterator[IneligibleCluster]:
    for name in redaction.select_visible(decision.invalid):
        row = decision.frame.row_of(name)
        status = None if row is None or decision.verdicts is None else decision.verdicts.status(row)
        rejection = None if row is None else find_first_rejection(outcomes, row)
        reason = rejection.reason if rejection else ""
        shown = (
            redaction.redact_text(message_of(status))
            if rejection is None
            else redaction.redact_rejection(rejection).message
        )
        yield IneligibleCluster(name, status.plugin if status else "", reason, shown)


# --- fixes ----------------------------------------------------------------------------------------------------------


def _redact_fixes(
    fixes: Fixes, decision: Decision, redaction: Redaction, *, may_edit_clusters: bool
) -> tuple[Fix, ...]:
    """Those that name no hidden cluster, marked where another role is needed. What a new cluster would have to be may
    follow from hidden ones."""
    has_hidden_names = any(map(redaction.hides, decision.request.cluster_names))
    return tuple(
        _redact_fix(fix, redaction, needs="" if may_edit_clusters or fix.scope != "cluster" else "cluster-admin")
        for fix in fixes.fixes
        if not any(map(redaction.hides, fix.list_clusters()))
        and not (has_hidden_names and fix.reveals_names)
        and not (redaction.rows and fix.adds_clusters)
    )


def _redact_fix(fix: Fix, redaction: Redaction, *, needs: str) -> Fix:
    effect = fix.effect
    visible = redaction.select_visible(effect.targets)
    more = effect.more + len(effect.targets) - len(visible)
    shown = Effect(effect.before, effect.after, effect.fit, effect.selected, visible, more)
    return msgspec.structs.replace(fix, effect=shown, needs=needs)
