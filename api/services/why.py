"""Answers of `why`: from live state and history to the explained decision, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from api.auth.access import AccessRequest
from api.auth.permissions import Permissions, Visibility
from api.http.problems import refusal
from api.live.backend import Backend
from api.live.evaluation import EvaluatedDecision
from api.live.queue_status import build_queue_model, compute_present_state
from api.models import PastAttempt, QueueModel, WhyAnswer
from api.services.attempts import build_decision_model, collect_cluster_names
from api.services.placement_record import PlacementRecord, format_path, load_attempt, load_record
from fleet.errors import HistoryUnavailable
from fleet.explain.answer.answer import AnswerContext, build_answer
from fleet.explain.answer.parts import HookStatus, State
from fleet.explain.fixes.fixes import Fixes, find_fixes, find_fixes_for_cluster, is_improvable
from fleet.history import HistoryAttempt
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.timestamps import format_timestamp
from fleet.scheduler.attempt_record import AttemptResult

FixMode = Literal["none", "fast", "deep"]

_EDIT_CLUSTERS: Final = AccessRequest(verb="update", group=MEMBER_CLUSTERS.group, resource=MEMBER_CLUSTERS.plural)
_DELETED: Final = frozenset({AttemptResult.CLEANED_UP.value, AttemptResult.GONE.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyQuery:
    key: str
    attempt: str | None = None
    """A number or an id; None for the present state."""
    cluster: str | None = None
    everything: bool = False
    fixes: FixMode = "fast"
    limit: int = 20
    cursor: str = ""
    for_cluster: bool = False
    """Search fixes that bring in `cluster`."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Everything that an answer is built from."""

    query: WhyQuery
    record: PlacementRecord
    evaluated: EvaluatedDecision
    visibility: Visibility
    may_edit_clusters: bool
    present_fixes: Fixes | None
    queue: QueueModel | None


async def explain_placement(backend: Backend, permissions: Permissions, query: WhyQuery) -> WhyAnswer:
    backend.live.require_synced()  # what was not read yet would look deleted
    async with backend.evaluator.admit():
        if query.attempt is None:
            record = await load_record(backend, query.key)
        else:
            record = await load_attempt(backend, query.key, query.attempt)
        evaluated = await _evaluate(backend, query, record)
        recorded_names = () if record.explaining is None else collect_cluster_names([record.explaining])
        visibility = await permissions.load_visibility(
            backend.live.caches.clusters, evaluated.decision.frame.names.ordered, recorded_names
        )
        may_edit_clusters = await permissions.allow(_EDIT_CLUSTERS)
        present_fixes = await _search_present_fixes(backend, query, record, evaluated)
        async with backend.evaluator.turn():
            queue = _build_queue(backend, query, record, visibility)
            inputs = _Inputs(query, record, evaluated, visibility, may_edit_clusters, present_fixes, queue)
            return await evaluated.run(_build_answer, inputs)


# --- steps ------------------------------------------------------------------------------------------------------------


async def _evaluate(backend: Backend, query: WhyQuery, record: PlacementRecord) -> EvaluatedDecision:
    """The decision of the explaining attempt, evaluated again; if that is not possible, of the present state."""
    if record.explaining is not None and (query.attempt is not None or record.is_current):
        try:
            evaluated = await backend.evaluator.evaluate_attempt(record.explaining)
        except HistoryUnavailable:
            evaluated = None
        if evaluated is not None and (query.attempt is not None or _covers(evaluated, query.cluster)):
            return evaluated
    if record.placement is None:
        raise refusal(
            410,
            f"placement {query.key} is gone, and what its last decision was made of is not kept any more",
            object=f"placement {query.key}",
            next=f"GET /v1/placements/{format_path(query.key)}/history lists the recorded attempts",
        )
    return await backend.evaluator.evaluate_live(record.placement)


def _covers(evaluated: EvaluatedDecision, cluster: str | None) -> bool:
    """Whether the cluster, which may have joined later, was part of the decision."""
    return cluster is None or evaluated.decision.frame.row_of(cluster) is not None


async def _search_present_fixes(
    backend: Backend, query: WhyQuery, record: PlacementRecord, evaluated: EvaluatedDecision
) -> Fixes | None:
    """Fixes to the present fleet and bindings, to which a user applies them, for an answer from a record. None if
    `evaluated` is itself the present state, or the query is about an earlier attempt."""
    is_needed = query.fixes != "none" and (query.for_cluster or is_improvable(evaluated.decision))
    is_past = query.attempt is not None or evaluated.attempt is None
    if record.placement is None or is_past or not is_needed:
        return None
    present = await backend.evaluator.evaluate_live(record.placement)
    async with backend.evaluator.turn():
        return _search_fixes(query, present, explained=evaluated)


def _search_fixes(
    query: WhyQuery, evaluated: EvaluatedDecision, *, explained: EvaluatedDecision | None = None
) -> Fixes | None:
    if query.fixes == "none":
        return None
    if not query.for_cluster or query.cluster is None:
        return find_fixes(evaluated.scenario, evaluated.decision, mode=query.fixes)
    earlier = None if explained is None else (explained.scenario, explained.decision)
    return find_fixes_for_cluster(
        evaluated.scenario, evaluated.decision, query.cluster, mode=query.fixes, earlier=earlier
    )


def _build_queue(
    backend: Backend, query: WhyQuery, record: PlacementRecord, visibility: Visibility
) -> QueueModel | None:
    if record.placement is None or query.attempt is not None:
        return None
    return build_queue_model(backend.live, record.placement, backend.effective.settings.queue, hides=visibility.hides)


def _build_answer(inputs: _Inputs) -> WhyAnswer:
    query, record, evaluated = inputs.query, inputs.record, inputs.evaluated
    explained = build_answer(
        evaluated.scenario.question,
        evaluated.decision,
        cluster=query.cluster,
        everything=query.everything,
        limit=query.limit,
        cursor=query.cursor,
        redact=inputs.visibility.redact,
        context=_build_context(inputs),
        fixes=_search_fixes(query, evaluated) if inputs.present_fixes is None else inputs.present_fixes,
        may_edit_clusters=inputs.may_edit_clusters,
    )
    parts = {name: getattr(explained, name) for name in explained.__struct_fields__}
    return WhyAnswer(
        **parts,
        queue=inputs.queue,
        recorded=None if record.explaining is None else build_decision_model(record.explaining, inputs.visibility),
        history=tuple(map(_build_past_attempt, record.recent)),
        links=_build_links(query.key, evaluated),
    )


# --- parts of the answer ----------------------------------------------------------------------------------------------


def _build_context(inputs: _Inputs) -> AnswerContext:
    query, record, evaluated = inputs.query, inputs.record, inputs.evaluated
    attempt = evaluated.attempt or record.explaining
    bind = () if attempt is None else tuple(_list_binding_effects(attempt, inputs.visibility, evaluated))
    return AnswerContext(
        state=_compute_state(record, inputs.queue) if query.attempt is None else None,
        since=_format_start(_find_last_attempt(record, attempt) if query.attempt is None else attempt),
        attempt_id=attempt.id if attempt else "",
        number=attempt.number if attempt else None,
        duration_ms=round(sum(attempt.phases.values()) * 1000, 3) if attempt else None,
        evaluated_on="current" if evaluated.attempt is None else "recorded",
        effects={} if attempt is None else {"bind": bind},
        history_unavailable_since=record.unavailable_since,
        fixes_evaluated_on=None if inputs.present_fixes is None else "current",
    )


def _compute_state(record: PlacementRecord, queue: QueueModel | None) -> State | None:
    if record.placement is None:
        return "Deleted"
    return compute_present_state(queue, record.newest, was_decided=record.was_decided)


def _find_last_attempt(record: PlacementRecord, attempt: HistoryAttempt | None) -> HistoryAttempt | None:
    """Of a deleted placement the attempt that noticed the deletion."""
    is_over = record.placement is None and record.newest is not None and record.newest.ending in _DELETED
    return record.newest if is_over else attempt


def _format_start(attempt: HistoryAttempt | None) -> str:
    return format_timestamp(attempt.started) if attempt else ""


def _list_binding_effects(
    attempt: HistoryAttempt, visibility: Visibility, evaluated: EvaluatedDecision
) -> Iterator[HookStatus]:
    """The writes of bindings. Their errors may name any cluster."""
    binder = evaluated.scenario.question.profile.hooks["bind"][0].name
    for write in attempt.writes:
        if not visibility.hides(write.cluster):
            message = write.error if visibility.is_whole else ""
            code = "Error" if write.error else "Success"
            yield HookStatus(plugin=binder, code=code, message=message or write.result, target=write.cluster)


def _build_past_attempt(attempt: HistoryAttempt) -> PastAttempt:
    return PastAttempt(
        n=attempt.number,
        id=attempt.id,
        at=format_timestamp(attempt.started),
        outcome=attempt.outcome or attempt.ending,
        repeats=attempt.repeats,
    )


def _build_links(key: str, evaluated: EvaluatedDecision) -> dict[str, str]:
    base = f"/v1/placements/{format_path(key)}"
    links = {"placement": base, "history": f"{base}/history", "simulate": "/v1/simulate"}
    return links | ({"attempt": f"{base}/why?attempt={evaluated.attempt.id}"} if evaluated.attempt else {})
