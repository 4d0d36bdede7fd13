"""The attempts of a placement in pages, and the difference between two of them."""

from __future__ import annotations

from typing import Final

from api.auth.permissions import Permissions
from api.http.paging import make_cursor, read_cursor
from api.http.problems import not_found, refusal, unprocessable
from api.live.backend import Backend
from api.live.evaluation import EvaluatedDecision
from api.models import AttemptDiff, HistoryPage
from api.services.decisions.attempts import build_decision_model, collect_cluster_names
from fleet.explain.whatif.compare import compare
from fleet.history import History, HistoryAttempt

_LIST: Final = "history"


async def list_attempts(
    backend: Backend, permissions: Permissions, key: str, *, limit: int, cursor: str | None
) -> HistoryPage:
    before = None if cursor is None else _parse_position(read_cursor(cursor, _LIST, valid=_is_position))
    query = backend.history.require().attempts
    attempts = await backend.history.call(query, key, before=before, limit=limit + 1)
    if not attempts and before is None:
        require_known(backend, key)
    visibility = await permissions.load_visibility(backend.live.caches.clusters, collect_cluster_names(attempts))
    items = tuple(build_decision_model(attempt, visibility) for attempt in attempts[:limit])
    last = attempts[limit - 1] if len(attempts) > limit else None
    following = None if last is None else make_cursor(_LIST, f"{last.epoch} {last.seq}")
    return HistoryPage(items=items, next=following, may_lag=backend.history.may_lag)


async def compare_attempts(backend: Backend, permissions: Permissions, key: str, diff: str) -> AttemptDiff:
    """`diff` is two numbers, such as `3..4`."""
    reviewed = frozenset(backend.live.caches.clusters)
    visibility = await permissions.load_visibility(reviewed)
    async with backend.evaluator.admit(permissions.caller.name):
        before, after = [await _evaluate_attempt(backend, key, int(number)) for number in diff.split("..")]
        visibility = await permissions.extend_visibility(
            visibility, reviewed, before.cluster_names, after.cluster_names
        )
        async with after.turn():
            comparison = await after.run(compare, before.decision, after.decision, redact=visibility.redact)
    assert before.attempt is not None
    assert after.attempt is not None
    return AttemptDiff(
        before=build_decision_model(before.attempt, visibility),
        after=build_decision_model(after.attempt, visibility),
        comparison=comparison,
    )


def require_known(backend: Backend, key: str) -> None:
    """Refuses a placement that does not exist: an empty list would suggest that it has no attempts yet."""
    if not backend.live.list_unsynced() and backend.live.find_placement(key) is None:
        raise not_found(f"placement {key}", "GET /v1/placements lists those that are there")


async def _evaluate_attempt(backend: Backend, key: str, number: int) -> EvaluatedDecision:
    attempt = await backend.history.call(_get_attempt, backend.history.require(), key, number)
    evaluated = await backend.evaluator.evaluate_attempt(attempt)
    if evaluated is None:
        raise refusal(
            410,
            f"what attempt {number} of placement {key} was decided on is not kept ({attempt.inputs})",
            object=f"attempt {number} of placement {key}",
            field="diff",
            next="compare attempts whose `inputs` are kept",
        )
    return evaluated


def _get_attempt(history: History, key: str, number: int) -> HistoryAttempt:
    attempt = history.find_by_number(key, number)
    if attempt is None:
        raise unprocessable(
            "diff",
            number,
            f"attempt {number} of placement {key} is not on record",
            "name two attempts that the history lists",
            object=f"attempt {number} of placement {key}",
        )
    return attempt


def _is_position(text: str) -> bool:
    """An epoch and a `seq`."""
    parts = text.split(" ")
    return len(parts) == 2 and all(part.isascii() and part.isdigit() and len(part) <= 18 for part in parts)


def _parse_position(text: str) -> tuple[int, int]:
    epoch, seq = text.split(" ")
    return int(epoch), int(seq)
