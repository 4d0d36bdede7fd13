"""Member clusters in the hub."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from api.http.examples import get_example
from api.http.schema import DEFAULT_PAGE, ClusterPath, Cursor, Limit, describe_answers
from api.models import ClusterModel, ClusterPage
from api.routers.request_context import CurrentRequest
from api.services import objects
from api.services.decisions.departures import refuse_cluster
from api.text.tables import render_clusters

router = APIRouter(tags=["objects"])

_TEXT: Final = (
    "CLUSTER  ELIGIBLE  JOINED  HEALTHY  LAST HEARTBEAT        TAINTS\n"
    "ams-1    yes       True    True     2026-03-10T09:00:00Z\n"
)


@router.get(
    "/v1/clusters",
    summary="List member clusters",
    responses=describe_answers(ClusterPage, example=get_example("clusters"), text=_TEXT, etag=True),
)
async def list_clusters(context: CurrentRequest, limit: Limit = DEFAULT_PAGE, cursor: Cursor = None) -> Response:
    """Those that the caller may read, by name; of the others their number."""
    context.backend.live.require_synced()
    page = await objects.list_clusters(context.backend, context.permissions, limit=limit, cursor=cursor)
    return context.answer(page, text=lambda: render_clusters(page), tag="clusters")


@router.get(
    "/v1/clusters/{cluster}",
    summary="One member cluster",
    responses=describe_answers(
        ClusterModel, example=get_example("cluster"), text=_TEXT, etag=True, refusals=(404, 410)
    ),
)
async def get_cluster(context: CurrentRequest, cluster: ClusterPath) -> Response:
    """What its agent reports, and whether it may take new work."""
    await context.permissions.require_clusters([cluster])
    context.backend.live.require_synced()
    if cluster not in context.backend.live.caches.clusters:
        raise await refuse_cluster(context.backend, cluster)
    model = objects.get_cluster(context.backend, cluster)
    page = ClusterPage(items=(model,), redacted=0, next=None)
    return context.answer(model, text=lambda: render_clusters(page), tag=model.resource_version)
