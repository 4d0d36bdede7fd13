"""Why a placement is where it is, and why it is not elsewhere."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.http.examples import answer_named, text_named
from api.http.problems import not_found
from api.http.request_context import AskedBy, namespace_of
from api.http.schema import ClusterPath, NamePath, NamespacePath, answers, state_header
from api.live.queue_status import next_step
from api.models import Why
from api.services.why import FixMode, Question, why
from fleet.errors import InputError
from fleet.explain.answer.rendering import render, render_cluster
from fleet.kube.scopes import parse_key

router = APIRouter(tags=["why"])

_NAME: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_KEY: Final = r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"

Fixing = Annotated[FixMode, Query(description="`fast`: at most 20 trials; `deep`: also pairs of changes.")]


@router.get(
    "/v1/placements/{ns}/{name}/why",
    summary="Why a placement is where it is",
    responses=answers(
        Why, example=answer_named("why"), text=text_named("why"), etag=True, state=True, refusals=(404, 410)
    ),
)
async def why_placement(
    asked: AskedBy,
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

    Told from the record of the newest attempt that chose under the present policy. Without a record, or where it is
    not kept any more, from the fleet as it is (`attempt.evaluatedOn` is then `current`)."""
    key = await asked.readable(namespace_of(ns), name)
    if cluster is not None:
        await asked.require_cluster(cluster)
    question = Question(
        key=key,
        attempt=attempt,
        cluster=cluster,
        everything=explain == "all",
        fixes=fixes,
        limit=limit,
        cursor=cursor or "",
    )
    found = await why(asked, question)
    step = next_step(found.queue)
    rendered = render if cluster is None else partial(render_cluster, fixes_of="placement")
    return asked.answer(
        found, text=lambda: rendered(found, next_step=step), tag=_tag(found), headers=state_header(found.verdict.state)
    )


@router.get(
    "/v1/clusters/{cluster}/why-not",
    summary="Why a placement is not on a cluster",
    responses=answers(
        Why, example=answer_named("whyNot"), text=text_named("whyNot"), etag=True, state=True, refusals=(404, 410)
    ),
)
async def why_not(
    asked: AskedBy,
    cluster: ClusterPath,
    placement: Annotated[
        str, Query(pattern=_KEY, description="A placement: `name` or `namespace/name`.", examples=["storefront"])
    ],
    fixes: Fixing = "fast",
) -> Response:
    """The verdict of every filter on this cluster, its rank, and what would bring it in."""
    key = await asked.readable(*parse_key(placement))
    await asked.require_cluster(cluster)
    question = Question(key=key, cluster=cluster, everything=True, fixes=fixes, limit=1, for_cluster=True)
    try:
        found = await why(asked, question)
    except InputError as error:
        if error.field == "cluster":
            raise not_found(f"cluster {cluster}", "GET /v1/clusters lists those that are there") from error
        raise
    headers = state_header(found.verdict.state)
    return asked.answer(found, text=lambda: render_cluster(found), tag=_tag(found), headers=headers)


def _tag(found: Why) -> str:
    return found.attempt.id or found.attempt.digest
