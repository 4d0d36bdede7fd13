"""Member clusters as the hub has them."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from api.http.examples import answer_named
from api.http.paging import page_of
from api.http.problems import not_found
from api.http.request_context import Asked, AskedBy
from api.http.schema import DEFAULT_PAGE, ClusterPath, Cursor, Limit, answers
from api.models import ClusterModel, ClusterPage
from api.services.objects import cluster_model
from api.text.tables import render_clusters
from fleet.snapshot.eligibility import Eligibility

router = APIRouter(tags=["objects"])

_LIST: Final = "clusters"
_TEXT: Final = (
    "CLUSTER  ELIGIBLE  JOINED  HEALTHY  LAST HEARTBEAT        TAINTS\n"
    "ams-1    yes       True    True     2026-03-10T09:00:00Z\n"
)


@router.get(
    "/v1/clusters",
    summary="List member clusters",
    responses=answers(ClusterPage, example=answer_named("clusters"), text=_TEXT, etag=True),
)
async def list_clusters(asked: AskedBy, limit: Limit = DEFAULT_PAGE, cursor: Cursor = None) -> Response:
    """Those that the caller may read, by name; of the others their number."""
    asked.require_synced()
    names, sight = asked.live.cluster_names(), await asked.sight()
    seen = [name for name in names if not sight.hides(name)]
    page = page_of(seen, limit=limit, cursor=cursor, list_name=_LIST)
    items = tuple(_shown(asked, name) for name in page.keys)
    found = ClusterPage(items=items, redacted=len(names) - len(seen), next=page.next)
    return asked.answer(found, text=lambda: render_clusters(found), tag="clusters")


@router.get(
    "/v1/clusters/{cluster}",
    summary="One member cluster",
    responses=answers(ClusterModel, example=answer_named("cluster"), text=_TEXT, etag=True, refusals=(404,)),
)
async def get_cluster(asked: AskedBy, cluster: ClusterPath) -> Response:
    """What its agent reports, and whether it may take new work."""
    await asked.require_cluster(cluster)
    asked.require_synced()
    if cluster not in asked.live.caches.clusters:
        raise not_found(f"cluster {cluster}", "GET /v1/clusters lists those that are there")
    found = _shown(asked, cluster)
    page = ClusterPage(items=(found,), redacted=0, next=None)
    return asked.answer(found, text=lambda: render_clusters(page), tag=found.resource_version)


def _shown(asked: Asked, name: str) -> ClusterModel:
    cluster = asked.live.caches.clusters.get(name)
    assert cluster is not None
    timeouts = asked.serving.effective.settings.eligibility.model_dump(
        include={"heartbeat_timeout", "unhealthy_timeout"}
    )
    return cluster_model(cluster, Eligibility.parse(**timeouts), now=asked.live.now())
