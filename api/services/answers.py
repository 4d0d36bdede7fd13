"""Answers of `why` as bytes: from the cache while they hold, else made once for all requests that want the same."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

import msgspec

from api.auth.permissions import Permissions
from api.live.answer_cache import AnswerKey, CachedAnswer, EncodedAnswer, StateMark, encode_answer
from api.live.backend import Backend
from api.live.evaluation import EvaluatedDecision
from api.live.live import LivePlacement
from api.services.decisions.attempts import PlacementRecord, load_attempt, load_record
from api.services.why import EDIT_CLUSTERS, Explanation, WhyQuery, explain_placement, read_queue_version
from api.why_models import WhyAnswer
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.companions import NO_COMPANION

Render = Callable[[WhyAnswer], str]


async def answer_why(
    backend: Backend, permissions: Permissions, query: WhyQuery, *, render: Render | None
) -> EncodedAnswer:
    """As text with `render`, else as JSON. The caller may read the placement; the clusters that they may read, and
    whether they may edit them, are part of the cache's key."""
    backend.live.require_synced()  # what was not read yet would look deleted
    question = (query, render is not None)
    if not backend.answers.has_any(question) and not await permissions.see_all_clusters():
        return await _make(backend, permissions, query, render)  # to review each cluster takes long
    visibility = await permissions.load_visibility(backend.live.caches.clusters)
    key = AnswerKey(question, visibility.digest, await permissions.allow(EDIT_CLUSTERS))
    answer = await _find(backend, query, key)
    if answer is None and key in backend.answers.in_flight:
        await asyncio.wait((backend.answers.in_flight[key],))
        answer = await _find(backend, query, key)
    return answer or await _make_for_all(backend, permissions, query, key, render)


async def _find(backend: Backend, query: WhyQuery, key: AnswerKey) -> EncodedAnswer | None:
    cached = backend.answers.get(key)
    if cached is None:
        return None
    now = _read_mark(backend)
    if not _holds(backend, query, cached, now):
        return None
    if cached.is_due(now):
        if await _digest_record_now(backend, query) != cached.record:
            return None
        if not _holds(backend, query, cached, _read_mark(backend)):  # time has passed
            return None
        cached.checked_at = now.monotonic
    if cached.is_present:
        backend.fleet.watch()
    return cached.answer


def _holds(backend: Backend, query: WhyQuery, cached: CachedAnswer, now: StateMark) -> bool:
    if not cached.holds(now) or cached.queue != read_queue_version(backend.live, query):
        return False
    placement = backend.live.find_placement(query.key, with_bindings=cached.is_present)
    return cached.placement == (placement.version if placement is not None else None)


async def _make_for_all(
    backend: Backend, permissions: Permissions, query: WhyQuery, key: AnswerKey, render: Render | None
) -> EncodedAnswer:
    """Requests for the same answer wait for it meanwhile."""
    in_flight, done = backend.answers.in_flight, asyncio.get_running_loop().create_future()
    is_first = in_flight.setdefault(key, done) is done
    try:
        return await _make(backend, permissions, query, render)
    finally:
        if is_first:
            del in_flight[key]
            done.set_result(None)


async def _make(backend: Backend, permissions: Permissions, query: WhyQuery, render: Render | None) -> EncodedAnswer:
    began = _read_mark(backend)
    explanation = await explain_placement(backend, permissions, query)
    if explanation.is_large:
        answer = await asyncio.to_thread(_encode, explanation.answer, render)
    else:
        answer = _encode(explanation.answer, render)
    key = AnswerKey((query, render is not None), explanation.visibility.digest, explanation.may_edit_clusters)
    depends_on_others = explanation.present is not None and explanation.present.depends_on_others
    explained = explanation.answer
    is_personal = (explained.waiting or explained.gate or explained.preempting or explained.group) is not None
    expires = bool(explained.denials)
    if not (explanation.answer.history_unavailable_since or depends_on_others or is_personal or expires):
        backend.answers.put(key, _build_entry(backend, answer, explanation, began))
    return answer


def _encode(answer: WhyAnswer, render: Render | None) -> EncodedAnswer:
    tag, state = answer.attempt.id or answer.attempt.digest, answer.verdict.state
    body = msgspec.json.encode(answer) if render is None else render(answer).encode()
    media_type = "application/json" if render is None else "text/plain"
    return encode_answer(body, media_type, tag=tag, state=state)


def _build_entry(backend: Backend, answer: EncodedAnswer, explanation: Explanation, began: StateMark) -> CachedAnswer:
    present, placement = explanation.present, explanation.record.placement
    if placement is not None and present is None:
        placement = placement.without_bindings()
    return CachedAnswer(
        answer=answer,
        made=began,
        placement=placement.version if placement is not None else None,
        queue=explanation.queue_version,
        record=_digest_record(explanation.record),
        holds_until=None if present is None else _find_end(backend, explanation.record.placement, present, began.wall),
        is_of_clusters_only=present is not None and present.scenario.question.profile.reads_clusters_only,
    )


def _find_end(backend: Backend, placement: LivePlacement | None, present: EvaluatedDecision, now: int) -> int:
    """Until when, by the time of day, the present is decided alike."""
    end = backend.fleet.find_next_expiry(present.decision.frame, now)
    companion = NO_COMPANION if placement is None else backend.live.companions.find(PlacementKey.parse(placement.key))
    change = companion.find_hint_change(now)
    return end if change is None else min(end, change - 1)


def _read_mark(backend: Backend) -> StateMark:
    return StateMark(backend.history.revision, backend.fleet.count, backend.live.now(), backend.live.clock.monotonic())


async def _digest_record_now(backend: Backend, query: WhyQuery) -> bytes:
    if query.attempt is None:
        return _digest_record(await load_record(backend, query.key))
    return _digest_record(await load_attempt(backend, query.key, query.attempt))


def _digest_record(record: PlacementRecord) -> bytes:
    recorded = (record.explaining, tuple(record.recent), record.is_current, record.unavailable_since, record.warnings)
    return hashlib.blake2b(msgspec.msgpack.encode(recorded), digest_size=16).digest()
