"""Matrices for pages: the verdicts on every cluster, and the placements on every cluster."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.http.examples import get_example
from api.http.paging import DEFAULT_LIMIT, LARGEST_LIMIT
from api.http.problems import unprocessable
from api.http.schema import KeyQuery, describe_answers, schema_ref
from api.page_models import FleetGrid, VerdictGrid
from api.routers.request_context import CurrentRequest
from api.services.matrix import build_fleet_grid, build_verdict_grid
from fleet.kube.scopes import parse_key

router = APIRouter(tags=["why"])

_ANSWERS: Final = describe_answers(
    VerdictGrid,
    examples={"placement": get_example("matrix"), "fleet": get_example("fleetMatrix")},
    etag=True,
    refusals=(404, 410),
)
_ANSWERS[200]["content"]["application/json"]["schema"] = {"anyOf": [schema_ref(VerdictGrid), schema_ref(FleetGrid)]}


@router.get("/v1/matrix", summary="Verdicts on every cluster", responses=_ANSWERS)
async def get_matrix(
    context: CurrentRequest,
    placement: KeyQuery = None,
    attempt: Annotated[
        str | None,
        Query(pattern=r"^[A-Za-z0-9_-]{1,100}$", description="Number or id of an attempt; else what holds now."),
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=LARGEST_LIMIT, description="Without a placement: how many placements at most.")
    ] = DEFAULT_LIMIT,
) -> Response:
    """Of one placement: what every filter says about every cluster, in a byte each, about the same decision as the
    answer to *why*. Without a placement: the placements that the caller may list, and the clusters they are on."""
    if placement is None:
        if attempt is not None:
            raise unprocessable("attempt", attempt, "an attempt is one of a placement", "name the placement, too")
        return context.answer(await build_fleet_grid(context.backend, context.permissions, limit=limit), tag="fleet")
    key = await context.require_placement(*parse_key(placement))
    grid, tag = await build_verdict_grid(context.backend, context.permissions, key, attempt)
    return context.answer(grid, tag=tag)
