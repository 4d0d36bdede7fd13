"""Explanations: why a placement is where it is, and why it is not on a cluster."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.http.examples import get_example, get_example_text
from api.http.schema import ClusterPath, NamePath, NamespacePath, describe_answers
from api.routers.request_context import CurrentRequest, ParsedTargetRoute, parse_namespace
from api.services.answers import answer_why
from api.services.decisions.departures import refuse_cluster
from api.services.why import FixMode, WhyQuery
from api.text.why import render_why, render_why_not
from api.why_models import WhyAnswer
from fleet.errors import InputError
from fleet.kube.scopes import parse_key

router = APIRouter(tags=["why"], route_class=ParsedTargetRoute)

_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_KEY: Final = r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"

Fixing = Annotated[FixMode, Query(description="`fast`: at most 20 trials; `deep`: also pairs of changes.")]


@router.get(
    "/v1/placements/{ns}/{name}/why",
    summary="Why a placement is where it is",
    responses=describe_answers(
        WhyAnswer, example=get_example("why"), text=get_example_text("why"), etag=True, state=True, refusals=(404, 410)
    ),
)
async def why_placement(
    context: CurrentRequest,
    ns: NamespacePath,
    name: NamePath,
    attempt: Annotated[
        str | None,
        Query(pattern=r"^[A-Za-z0-9_-]{1,100}$", description="Number or id of an attempt; else what holds now."),
    ] = None,
    cluster: Annotated[str | None, Query(pattern=_NAME, description="Exactly this cluster's row.")] = None,
    explain: Annotated[
        Literal["first", "all"], Query(description="`all`: the verdict of every filter, not only the first refusal.")
    ] = "first",
    fixes: Fixing = "fast",
    limit: Annotated[int, Query(ge=1, le=500, description="Rows of clusters.")] = 20,
    cursor: Annotated[
        str | None,
        Query(max_length=100, description="The `nextCursor` of an earlier answer."),
    ] = None,
) -> Response:
    """What was decided and why, which clusters fit, what rejected the others, and what would change it.

    From the record of the newest attempt that selected clusters under the present policy. Without a record, or if its
    inputs are not kept any more, from the fleet as it is (`attempt.evaluatedOn` is then `current`)."""
    key = await context.require_placement(parse_namespace(ns), name)
    if cluster is not None:
        await context.permissions.require_clusters([cluster])
    query = WhyQuery(
        key=key,
        attempt=attempt,
        cluster=cluster,
        everything=explain == "all",
        fixes=fixes,
        limit=limit,
        cursor=cursor or "",
    )
    render = partial(render_why, is_about_cluster=cluster is not None) if context.prefers_text() else None
    return context.send(await answer_why(context.backend, context.permissions, query, render=render))


@router.get(
    "/v1/clusters/{cluster}/why-not",
    summary="Why a placement is not on a cluster",
    responses=describe_answers(
        WhyAnswer,
        example=get_example("whyNot"),
        text=get_example_text("whyNot"),
        etag=True,
        state=True,
        refusals=(404, 410),
    ),
)
async def why_not(
    context: CurrentRequest,
    cluster: ClusterPath,
    placement: Annotated[
        str, Query(pattern=_KEY, description="A placement: `name` or `namespace/name`.", examples=["storefront"])
    ],
    fixes: Fixing = "fast",
) -> Response:
    """The verdict of every filter on this cluster, its rank, and what would bring it in."""
    key = await context.require_placement(*parse_key(placement))
    await context.permissions.require_clusters([cluster])
    query = WhyQuery(key=key, cluster=cluster, everything=True, fixes=fixes, limit=1, for_cluster=True)
    try:
        render = render_why_not if context.prefers_text() else None
        return context.send(await answer_why(context.backend, context.permissions, query, render=render))
    except InputError as error:
        if error.field == "cluster":
            raise await refuse_cluster(context.backend, cluster) from error
        raise
