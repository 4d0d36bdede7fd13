"""Answers to "why?", put together: the decision that tells it, the queue, the record, and who asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Literal

from api.auth.access import Sight, Wish
from api.http.problems import not_found, refused
from api.http.request_context import Asked
from api.live.evaluation import Evaluated, computed, is_behind, telling
from api.live.live import Subject
from api.live.queue_status import present_state, queue_model
from api.models import PastAttempt, QueueModel, Why
from api.services.attempts import clusters_named, decision_model
from api.services.proposed import first_snapshot
from fleet.errors import HistoryUnavailable
from fleet.explain.answer.answer import AnswerContext, build_answer
from fleet.explain.answer.parts import HookStatus
from fleet.explain.fixes.fixes import Fixes, find_fixes, find_fixes_for_cluster, needs_help
from fleet.history import History, HistoryAttempt
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.keys import NUMBER_OF_CLUSTERS, PICK_N
from fleet.model.timestamps import format_timestamp
from fleet.scheduler.attempt_record import AttemptResult

FixMode = Literal["none", "fast", "deep"]

_PAST: Final = 5
_PATIENCE: Final = 0.5
_MOST_DIGITS: Final = 18
"""Of an attempt's number: what databases can hold."""
_ENDS: Final = frozenset({AttemptResult.CLEANED_UP.value, AttemptResult.GONE.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    key: str
    attempt: str | None = None
    """A number, or an id."""
    cluster: str | None = None
    everything: bool = False
    fixes: FixMode = "fast"
    limit: int = 20
    cursor: str = ""
    for_cluster: bool = False
    """Fixes are to bring in that cluster."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the history and the hub know of the placement."""

    subject: Subject | None
    told: HistoryAttempt | None = None
    """The attempt the answer is about."""
    newest: HistoryAttempt | None = None
    past: Sequence[HistoryAttempt] = ()
    unavailable_since: str = ""
    """Since when the history tells less than there is to know, or nothing."""


async def why(asked: Asked, question: Question) -> Why:
    asked.require_synced()  # else what was not read yet would pass for deleted
    async with asked.serving.evaluations.one():
        known = await _known(asked, question)
        evaluated = await _evaluated(asked, question, known)
        named = clusters_named(one for one in [known.told] if one)
        sight = await asked.sight(chain(evaluated.decision.frame.names.ordered, named))
        may_edit = await asked.may(_editing())
        tried = await _tried(asked, question, known, evaluated)
        return await computed(
            evaluated,
            asked.serving.evaluations,
            lambda: _answered(asked, question, known, evaluated, sight, tried, may_edit_clusters=may_edit),
        )


def _editing() -> Wish:
    return Wish(verb="update", group=MEMBER_CLUSTERS.group, resource=MEMBER_CLUSTERS.plural)


# --- what is known ----------------------------------------------------------------------------------------------------


async def _known(asked: Asked, question: Question) -> Known:
    subject = asked.live.subject(question.key)
    if question.attempt is not None:
        told, past = await asked.remembered(lambda history: _told(history, question))
        return Known(subject, told, past[0] if past else told, past)
    known = Known(subject)
    history = asked.serving.history
    if history is not None:
        try:
            known = await _on_record(asked, question.key, subject)
        except HistoryUnavailable:
            since = history.known_since or asked.serving.outage.noticed(asked.live.now())
            if subject is None:
                raise
            known = replace(known, unavailable_since=format_timestamp(since))
    if subject is None and known.told is None:
        raise not_found(f"placement {question.key}", "GET /v1/placements lists those that are there")
    return known


async def _on_record(asked: Asked, key: str, subject: Subject | None) -> Known:
    known = await asked.remembered(lambda history: _looked_up(history, key, subject))
    if not _is_current(known) and subject is not None and _has_status(subject):
        known = await asked.remembered(lambda history: _written_first(history, key, subject))
    if not _is_current(known):
        known = replace(known, unavailable_since=await asked.remembered(_unavailable_since))
    return known


def _looked_up(history: History, key: str, subject: Subject | None) -> Known:
    past = history.attempts(key, limit=_PAST)
    return Known(subject, telling(history, key), past[0] if past else None, past)


def _unavailable_since(history: History) -> str:
    since = history.state().unavailable_since
    return "" if since is None else format_timestamp(since)


def _written_first(history: History, key: str, subject: Subject) -> Known:
    """A decision that was just made may still wait for others to be written with it."""
    history.flush(seconds=_PATIENCE)
    return _looked_up(history, key, subject)


def _told(history: History, question: Question) -> tuple[HistoryAttempt, list[HistoryAttempt]]:
    text = question.attempt or ""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
    found = history.attempt(text) if number is None else history.find_by_number(question.key, number)
    if found is None or found.key != question.key:
        raise refused(
            404,
            f"attempt {text} of placement {question.key} is not on record",
            object=f"attempt {text}",
            field="attempt",
            value=text,
            next=f"GET /v1/placements/{path_of(question.key)}/history lists those that are",
        )
    return found, history.attempts(question.key, limit=_PAST)


async def _evaluated(asked: Asked, question: Question, known: Known) -> Evaluated:
    serving = asked.serving
    if known.told is not None and (question.attempt is not None or _is_current(known)):
        try:
            found = await serving.recollections.of(known.told, asked.history(), serving.evaluations)
        except HistoryUnavailable:
            found = None
        if found is not None and (question.attempt is not None or _covers(found, question)):
            return found
    if known.subject is None:
        raise refused(
            410,
            f"placement {question.key} is gone, and what its last decision was made of is not kept any more",
            object=f"placement {question.key}",
            next=f"GET /v1/placements/{path_of(question.key)}/history tells what is still known",
        )
    return await evaluated_now(asked, known.subject)


def _is_current(known: Known) -> bool:
    """Whether the record is about the placement as it is: not about a policy that was replaced since, nor about a
    decision after which there was another one that is not recorded yet."""
    subject, told = known.subject, known.told
    if subject is None or told is None or subject.snapshot is None:
        return subject is None
    metadata = subject.snapshot.view.metadata
    recorded = told.snapshot
    if recorded is None or (recorded.uid, recorded.generation) != (metadata.uid, metadata.generation):
        return False
    # How many are wanted is no part of the policy, and changes without a new generation.
    if told.placement_type == PICK_N and str(told.wanted) != metadata.annotation(NUMBER_OF_CLUSTERS):
        return False
    return not is_behind(told, known.past, subject.snapshot.view.status)


def _covers(found: Evaluated, question: Question) -> bool:
    """A cluster that joined since can be asked about, too."""
    return question.cluster is None or found.decision.frame.row_of(question.cluster) is not None


async def evaluated_now(asked: Asked, subject: Subject) -> Evaluated:
    async with asked.serving.evaluations.turn():
        world = asked.live.world(subject) or asked.live.world_of(subject, first_snapshot(subject.placement))
        return Evaluated(world, world.decide())


async def _tried(asked: Asked, question: Question, known: Known, evaluated: Evaluated) -> Fixes | None:
    """Fixes for what is told from the record, tried on the fleet as it is: who carries one out does it now, with the
    bindings that there are, and not with those that there were before the attempt. None where that is the same."""
    is_wanted = question.fixes != "none" and (question.for_cluster or needs_help(evaluated.decision))
    is_past = question.attempt is not None or evaluated.attempt is None
    if known.subject is None or is_past or not is_wanted:
        return None
    present = await evaluated_now(asked, known.subject)
    evaluations = asked.serving.evaluations
    return await computed(present, evaluations, lambda: _fixes(question, present, told=evaluated))


# --- the answer -------------------------------------------------------------------------------------------------------


def _answered(
    asked: Asked,
    question: Question,
    known: Known,
    evaluated: Evaluated,
    sight: Sight,
    tried: Fixes | None,
    *,
    may_edit_clusters: bool,
) -> Why:
    queue = _queue(asked, question, known, sight)
    found = build_answer(
        evaluated.world.question,
        evaluated.decision,
        cluster=question.cluster,
        everything=question.everything,
        limit=question.limit,
        cursor=question.cursor,
        redact=sight.hidden,
        context=replace(
            _build_context(question, known, evaluated, queue, sight),
            history_unavailable_since=known.unavailable_since,
            fixes_evaluated_on=None if tried is None else "current",
        ),
        fixes=_fixes(question, evaluated) if tried is None else tried,
        may_edit_clusters=may_edit_clusters,
    )
    parts = {name: getattr(found, name) for name in found.__struct_fields__}
    told = known.told
    return Why(
        **parts,
        queue=queue,
        recorded=None if told is None else decision_model(told, sight),
        history=tuple(_past(one) for one in known.past),
        links=_links(question.key, evaluated),
    )


def _queue(asked: Asked, question: Question, known: Known, sight: Sight) -> QueueModel | None:
    if known.subject is None or question.attempt is not None:
        return None
    return queue_model(asked.live, known.subject, asked.serving.effective.settings.queue, hides=sight.hides)


def _build_context(
    question: Question, known: Known, evaluated: Evaluated, queue: QueueModel | None, sight: Sight
) -> AnswerContext:
    attempt = evaluated.attempt or known.told
    state = None
    if question.attempt is None:
        was_decided = known.told is not None or (known.subject is not None and _has_status(known.subject))
        state = present_state(queue, known.newest, was_decided=was_decided)
        state = "Deleted" if known.subject is None else state
    return AnswerContext(
        state=state,
        since=_since(known, attempt) if question.attempt is None else _moment(attempt),
        attempt_id=attempt.id if attempt else "",
        number=attempt.number if attempt else None,
        duration_ms=round(sum(attempt.phases.values()) * 1000, 3) if attempt else None,
        evaluated_on="current" if evaluated.attempt is None else "recorded",
        effects={} if attempt is None else {"bind": tuple(_written(attempt, sight, evaluated))},
    )


def _written(attempt: HistoryAttempt, sight: Sight, evaluated: Evaluated) -> Iterator[HookStatus]:
    """What became of the bindings. What an error says may name any cluster."""
    binder = evaluated.world.question.profile.hooks["bind"][0].name
    for one in attempt.writes:
        if not sight.hides(one.cluster):
            message = one.error if sight.is_whole else ""
            code = "Error" if one.error else "Success"
            yield HookStatus(plugin=binder, code=code, message=message or one.result, target=one.cluster)


def _since(known: Known, attempt: HistoryAttempt | None) -> str:
    """Of a placement that is gone, since the attempt that found out."""
    is_over = known.subject is None and known.newest is not None and known.newest.ending in _ENDS
    return _moment(known.newest if is_over else attempt)


def _moment(attempt: HistoryAttempt | None) -> str:
    return format_timestamp(attempt.started) if attempt else ""


def _has_status(subject: Subject) -> bool:
    return subject.snapshot is not None and bool(subject.snapshot.view.status.conditions)


def _fixes(question: Question, tried_on: Evaluated, *, told: Evaluated | None = None) -> Fixes | None:
    world, decision, mode = tried_on.world, tried_on.decision, question.fixes
    if mode == "none":
        return None
    if not question.for_cluster or question.cluster is None:
        return find_fixes(world, decision, mode=mode)
    earlier = None if told is None else (told.world, told.decision)
    return find_fixes_for_cluster(world, decision, question.cluster, mode=mode, earlier=earlier)


def _past(one: HistoryAttempt) -> PastAttempt:
    return PastAttempt(
        n=one.number,
        id=one.id,
        at=format_timestamp(one.started),
        outcome=one.outcome or one.ending,
        repeats=one.repeats,
    )


def _links(key: str, evaluated: Evaluated) -> dict[str, str]:
    base = f"/v1/placements/{path_of(key)}"
    found = {"placement": base, "history": f"{base}/history", "simulate": "/v1/simulate"}
    return found | ({"attempt": f"{base}/why?attempt={evaluated.attempt.id}"} if evaluated.attempt else {})


def path_of(key: str) -> str:
    return key if "/" in key else f"-/{key}"
