"""Why a placement is where it is, or nowhere: one decision laid out for programs, with nobody else's secrets in it.

Only the decision and its inputs are read. Where the placement stands in the queue, what its earlier attempts did and
which effect hooks ran, the caller knows, and passes as `Circumstances` or adds to the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from fleet.errors import InputError
from fleet.explain.answer.attempt import UNKNOWN, Circumstances, attempt_part
from fleet.explain.answer.parts import Answer, ClusterRow, Invalid, PlacementPart, ProblemPart, State, VerdictPart
from fleet.explain.answer.rows import Rows
from fleet.explain.facts.cluster_outcome import Standings
from fleet.explain.facts.placement_outcome import PARTIAL, SELECTED, UNDECIDED, Effect, level, level_name
from fleet.explain.facts.redaction import Hidden, Veil
from fleet.explain.facts.rejections import first_refusal
from fleet.explain.facts.summary import summary
from fleet.explain.fixes.fixes import Fix, Fixes
from fleet.framework.cycle.cycle import DecisionInput
from fleet.framework.cycle.decision import Decision
from fleet.framework.status import message_of

__all__ = ["ROWS_SHOWN", "Answer", "Circumstances", "answer", "state_of"]

ROWS_SHOWN: Final = 20
_STATES: Final[Mapping[int, State]] = {UNDECIDED: "SchedulerError", PARTIAL: "Partial", SELECTED: "Scheduled"}


def answer(
    inp: DecisionInput,
    decision: Decision,
    *,
    cluster: str | None = None,
    everything: bool = False,
    limit: int = ROWS_SHOWN,
    cursor: str = "",
    redact: Hidden | None = None,
    circumstances: Circumstances = UNKNOWN,
    fixes: Fixes | None = None,
    may_edit_clusters: bool = True,
) -> Answer:
    """`redact` tells which clusters may not be named. With `cluster`, exactly that row, or an InputError."""
    veil = Veil(decision.frame, redact)
    rows = Rows(decision, inp, veil, everything=everything)
    shown, following = _page(rows, decision, limit, cursor) if cluster is None else (_single(rows, cluster, veil), "")
    return Answer(
        placement=_placement(inp, circumstances),
        verdict=_verdict(decision, veil, circumstances),
        attempt=attempt_part(inp, decision, rows, veil, circumstances, shown=shown, following=following),
        fixes=None if fixes is None else _shown_fixes(fixes, decision, veil, may_edit_clusters=may_edit_clusters),
        fixes_truncated=fixes is not None and fixes.truncated,
        fixes_evaluated_on=None if fixes is None else circumstances.fixes_evaluated_on or circumstances.evaluated_on,
        history_unavailable_since=circumstances.history_unavailable_since,
        redacted=veil.count,
    )


def state_of(decision: Decision) -> State:
    """As far as a decision alone can tell."""
    return "InputError" if decision.request.problems else _STATES.get(level(decision), "Unschedulable")


# --- rows -----------------------------------------------------------------------------------------------------------


def _single(rows: Rows, name: str, veil: Veil) -> tuple[ClusterRow, ...]:
    row = veil.row_of(name)
    try:
        if veil.hides(name):
            raise KeyError(name)
        return (rows.stranger(name) if row is None else rows.row(row),)
    except KeyError:
        message = f"no cluster named {name!r}; use the name of a member cluster that you may read"
        raise InputError(message, field="cluster", value=name) from None


def _page(rows: Rows, decision: Decision, limit: int, cursor: str) -> tuple[tuple[ClusterRow, ...], str]:
    start, end = _position(cursor, decision), 0
    found: list[ClusterRow] = []
    following = ""
    for place, row in enumerate(rows.ordered()):
        end = place
        if place < start:
            continue
        if len(found) >= limit:
            following = f"{end}.{decision.digest[:_MARK]}"
            break
        found.append(rows.row(row))
    return tuple(found), following


_MARK: Final = 12


def _position(cursor: str, decision: Decision) -> int:
    """A cursor is good for the decision it came from: rows of another one stand in another order."""
    if not cursor:
        return 0
    position, _, mark = cursor.partition(".")
    if not (position.isascii() and position.isdigit()):
        raise InputError("this cursor is not from an answer; use the nextCursor of one", field="cursor", value=cursor)
    if mark != decision.digest[:_MARK]:
        raise InputError("this cursor belongs to another decision; ask again without one", field="cursor", value=cursor)
    return int(position)


# --- placement and verdict ------------------------------------------------------------------------------------------


def _placement(inp: DecisionInput, circumstances: Circumstances) -> PlacementPart:
    request = inp.request
    return PlacementPart(
        kind="ResourcePlacement" if request.namespace else "ClusterResourcePlacement",
        namespace=request.namespace,
        name=request.placement,
        uid=request.uid,
        generation=request.generation,
        scheduler_name=circumstances.scheduler_name or inp.profile.scheduler_name,
        priority=request.priority,
    )


def _verdict(decision: Decision, veil: Veil, circumstances: Circumstances) -> VerdictPart:
    request, standings = decision.request, Standings(decision)
    counts = standings.counts()
    return VerdictPart(
        state=circumstances.state or state_of(decision),
        outcome=level_name(decision),
        placement_type=request.placement_type,
        wanted=request.wanted,
        min_targets=request.min_targets,
        selected=counts.selected,
        in_use=counts.selected + counts.already_selected,
        counts=counts,
        summary=summary(decision, veil),
        since=circumstances.since,
        problems=tuple(ProblemPart(one.field, one.value, one.message) for one in request.problems),
        error=veil.text(_error_of(decision)),
        invalid=tuple(_invalid(decision, standings, veil)),
        missing=veil.visible(decision.missing),
    )


def _error_of(decision: Decision) -> str:
    if decision.pending_query is not None:
        return f"a plugin waits for an answer to {decision.pending_query.key}"
    return message_of(decision.error)


def _invalid(decision: Decision, standings: Standings, veil: Veil) -> Iterator[Invalid]:
    for name in veil.visible(decision.invalid):
        row = decision.frame.row_of(name)
        status = None if row is None or decision.verdicts is None else decision.verdicts.status(row)
        refused = None if row is None else first_refusal(standings, row)
        reason = refused.reason if refused else ""
        shown = veil.text(message_of(status)) if refused is None else veil.refusal(refused).message
        yield Invalid(name, status.plugin if status else "", reason, shown)


# --- fixes ----------------------------------------------------------------------------------------------------------


def _shown_fixes(fixes: Fixes, decision: Decision, veil: Veil, *, may_edit_clusters: bool) -> tuple[Fix, ...]:
    """Those that name no hidden cluster, marked where another role is needed."""
    has_hidden_names = any(map(veil.hides, decision.request.cluster_names))
    return tuple(
        _shown_fix(one, veil, needs="" if may_edit_clusters or one.scope != "cluster" else "cluster-admin")
        for one in fixes.fixes
        if not any(map(veil.hides, one.named())) and not (has_hidden_names and one.lists_names)
    )


def _shown_fix(one: Fix, veil: Veil, *, needs: str) -> Fix:
    effect = one.effect
    visible = veil.visible(effect.targets)
    more = effect.more + len(effect.targets) - len(visible)
    shown = Effect(effect.before, effect.after, effect.fit, effect.selected, visible, more)
    return Fix(edits=one.edits, scope=one.scope, text=one.text, effect=shown, turned=one.turned, needs=needs)
