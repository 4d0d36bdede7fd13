"""The history of a placement: its attempts, and the difference between two of them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.http.examples import get_example, get_example_text
from api.http.schema import Cursor, Limit, NamePath, NamespacePath, describe_answers, schema_ref
from api.models import AttemptDiff, HistoryPage
from api.routers.request_context import CurrentRequest, parse_namespace
from api.services.decisions.history import compare_attempts, list_attempts
from api.text.decisions import render_history
from fleet.explain.answer.comparisons import render_comparison

router = APIRouter(tags=["decisions"])


def _responses() -> dict[int | str, dict[str, Any]]:
    responses = describe_answers(
        HistoryPage,
        examples={"attempts": get_example("history"), "difference": get_example("difference")},
        text=get_example_text("history"),
        etag=True,
        refusals=(404, 410),
    )
    content = responses[200]["content"]["application/json"]
    content["schema"] = {"anyOf": [content["schema"], schema_ref(AttemptDiff)]}
    return responses


@router.get("/v1/placements/{ns}/{name}/history", summary="Attempts of a placement", responses=_responses())
async def placement_history(
    context: CurrentRequest,
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
    key = await context.require_placement(parse_namespace(ns), name)
    if diff is not None:
        difference = await compare_attempts(context.backend, context.permissions, key, diff)
        tag = f"{difference.before.id}..{difference.after.id}"
        return context.answer(difference, text=lambda: render_comparison(difference.comparison), tag=tag)
    page = await list_attempts(context.backend, context.permissions, key, limit=limit, cursor=cursor)
    tag = page.items[0].id if page.items else "history"
    return context.answer(page, text=lambda: render_history(page.items), tag=tag)
