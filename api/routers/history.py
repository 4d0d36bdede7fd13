"""What became of a placement, attempt by attempt, and what changed between two of them."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.http.examples import answer_named, text_named
from api.http.paging import make_cursor, read_cursor
from api.http.problems import not_found, refused, unprocessable
from api.http.request_context import Asked, AskedBy, namespace_of
from api.http.schema import Cursor, Limit, NamePath, NamespacePath, answers, reference
from api.live.evaluation import Evaluated
from api.models import AttemptDiff, HistoryPage
from api.services.attempts import clusters_named, decision_model, history_text
from fleet.explain.answer.rendering import render_comparison
from fleet.explain.whatif.compare import compare
from fleet.history import History, HistoryAttempt

router = APIRouter(tags=["decisions"])

_LIST: Final = "history"


def _responses() -> dict[int | str, dict[str, Any]]:
    found = answers(
        HistoryPage,
        examples={"attempts": answer_named("history"), "difference": answer_named("difference")},
        text=text_named("history"),
        etag=True,
        refusals=(404, 410),
    )
    content = found[200]["content"]["application/json"]
    content["schema"] = {"anyOf": [content["schema"], reference(AttemptDiff)]}
    return found


@router.get("/v1/placements/{ns}/{name}/history", summary="Attempts of a placement", responses=_responses())
async def placement_history(
    asked: AskedBy,
    ns: NamespacePath,
    name: NamePath,
    diff: Annotated[
        str | None,
        Query(pattern=r"^[0-9]{1,18}\.\.[0-9]{1,18}$", description="Two attempts to compare.", examples=["3..4"]),
    ] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> Response:
    """The newest first; attempts that changed nothing are counted with the one they repeat.

    With `diff`, what is different between two of them: clusters gained and lost, clusters that another plugin rejects
    first, and what the decisions were made with."""
    key = await asked.readable(namespace_of(ns), name)
    if diff is not None:
        return await _difference(asked, key, diff)
    before = None if cursor is None else int(read_cursor(cursor, _LIST, valid=_is_seq))
    found = await asked.remembered(lambda history: history.attempts(key, before=before, limit=limit + 1))
    if not found and before is None and not asked.live.unsynced() and asked.live.subject(key) is None:
        raise not_found(f"placement {key}", "GET /v1/placements lists those that are there")
    sight = await asked.sight(clusters_named(found))
    items = tuple(decision_model(one, sight) for one in found[:limit])
    more = make_cursor(_LIST, str(items[-1].seq)) if len(found) > limit else None
    page = HistoryPage(items=items, next=more)
    return asked.answer(page, text=lambda: history_text(page.items), tag=items[0].id if items else "history")


def _is_seq(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18


async def _difference(asked: Asked, key: str, diff: str) -> Response:
    numbers = [int(one) for one in diff.split("..")]
    async with asked.serving.evaluations.one():
        before, after = [await _evaluated(asked, key, number) for number in numbers]
        sight = await asked.sight({*before.cluster_names, *after.cluster_names})
        async with asked.serving.evaluations.turn():
            found = compare(before.decision, after.decision, redact=sight.hidden)
    assert before.attempt is not None
    assert after.attempt is not None
    shown = AttemptDiff(
        before=decision_model(before.attempt, sight), after=decision_model(after.attempt, sight), comparison=found
    )
    return asked.answer(shown, text=lambda: render_comparison(found), tag=f"{before.attempt.id}..{after.attempt.id}")


async def _evaluated(asked: Asked, key: str, number: int) -> Evaluated:
    attempt = await asked.remembered(lambda history: _numbered(history, key, number))
    found = await asked.serving.recollections.of(attempt, asked.history(), asked.serving.evaluations)
    if found is None:
        raise refused(
            410,
            f"what attempt {number} of placement {key} was decided on is not kept ({attempt.inputs})",
            object=f"attempt {number} of placement {key}",
            field="diff",
            next="compare attempts whose `inputs` are kept",
        )
    return found


def _numbered(history: History, key: str, number: int) -> HistoryAttempt:
    found = history.find_by_number(key, number)
    if found is None:
        raise unprocessable(
            "diff",
            number,
            f"attempt {number} of placement {key} is not on record",
            "name two attempts that the history lists",
            object=f"attempt {number} of placement {key}",
        )
    return found
