"""The fleet at a glance, and one cluster with all placements."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter
from starlette.responses import Response

from api.http.examples import get_example, get_example_text
from api.http.schema import DEFAULT_PAGE, ClusterPath, Cursor, Limit, describe_answers
from api.routers.request_context import CurrentRequest
from api.services.cluster_placements import list_cluster_placements
from api.services.status import build_status
from api.status_models import ClusterPlacements, FleetStatus
from api.text.status import render_cluster_placements, render_status
from fleet.text_table import Page, finish

router = APIRouter(tags=["why"])

_TEXT: Final = """3 placements: 2 have the clusters they want, 1 short
5 clusters: all can take new work, 1 tainted

PLACEMENT  READY  FOR  WHY
big        4/5    12m  4 already selected; 1 untolerated taint {dedicated: batch}

CLUSTER  STATE    HEARD  PLACEMENTS  TAINTS
osl-1    tainted  4s              0  dedicated=batch:NoSchedule

MOVED    PLACEMENT  CLUSTERS                     BECAUSE
12m ago  big        +ams-1 +ams-2 +dub-1 +dub-2  new policy
"""


@router.get(
    "/v1/status",
    summary="The fleet at a glance",
    responses=describe_answers(FleetStatus, example=get_example("status"), text=_TEXT),
)
async def get_status(context: CurrentRequest) -> Response:
    """Placements that lack something, and why; clusters that take no work, or only tolerated work; the moves of the
    last hour. Of the placements that the caller may list and the clusters that the caller may read; of other clusters
    their number."""
    status = await build_status(context.backend, context.permissions)
    return context.answer(status, text=lambda: finish(render_status(status), Page()) + "\n")


@router.get(
    "/v1/clusters/{cluster}/placements",
    summary="What is on a cluster, what is not, and why",
    responses=describe_answers(
        ClusterPlacements,
        example=get_example("clusterPlacements"),
        text=get_example_text("clusterPlacements"),
        refusals=(404, 410),
    ),
)
async def get_cluster_placements(
    context: CurrentRequest, cluster: ClusterPath, limit: Limit = DEFAULT_PAGE, cursor: Cursor = None
) -> Response:
    """Each placement that the caller may list, decided on the fleet as it is: whether it is there, and if not, what
    rejects the cluster first."""
    await context.permissions.require_clusters([cluster])
    page = await list_cluster_placements(context.backend, context.permissions, cluster, limit=limit, cursor=cursor)
    return context.answer(page, text=lambda: finish(render_cluster_placements(page), Page()) + "\n")
