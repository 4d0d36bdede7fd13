"""Bindings in the hub: the clusters of each placement."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.auth.access import AccessRequest
from api.http.examples import get_example, get_example_text
from api.http.schema import DEFAULT_PAGE, Cursor, KeyQuery, Limit, describe_answers
from api.models import BindingPage
from api.routers.request_context import CurrentRequest, RequestContext
from api.services import objects
from api.text.tables import render_bindings
from fleet.kube.scopes import parse_key

router = APIRouter(tags=["objects"])

_CLUSTER: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"


@router.get(
    "/v1/bindings",
    summary="List bindings",
    responses=describe_answers(
        BindingPage,
        example=get_example("bindings"),
        text=get_example_text("bindings"),
        etag=True,
    ),
)
async def list_bindings(
    context: CurrentRequest,
    placement: KeyQuery = None,
    cluster: Annotated[
        str | None, Query(pattern=_CLUSTER, description="Only bindings for this cluster.", examples=["ams-1"])
    ] = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Response:
    """Of one placement, of one cluster, or all; without a placement the caller needs the right to list bindings.

    Bindings for clusters that the caller may not read are counted, not shown: their names contain the cluster's."""
    if placement is not None:
        await context.require_placement(*parse_key(placement))
    else:
        await _require_all_bindings(context)
    if cluster is not None:
        await context.permissions.require_clusters([cluster])
    context.backend.live.require_synced()
    page = await objects.list_bindings(
        context.backend, context.permissions, placement=placement, cluster=cluster, limit=limit, cursor=cursor
    )
    return context.answer(page, text=lambda: render_bindings(page), tag="bindings")


async def _require_all_bindings(context: RequestContext) -> None:
    for kinds in context.backend.live.caches.kinds:
        kind = kinds.scope.binding
        await context.permissions.require(AccessRequest(verb="list", group=kind.group, resource=kind.plural))
