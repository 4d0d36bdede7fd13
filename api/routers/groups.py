"""Groups of placements that are placed together or not at all: there are none yet, and that is said."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from api.auth.access import on_placement
from api.http.problems import refused
from api.http.request_context import AskedBy, namespace_of
from api.http.schema import NamespacePath, refusal_responses
from fleet.kube.resource import join_key

router = APIRouter(tags=["why"])

GroupName = Annotated[str, Path(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", description="Of the group.")]


@router.get(
    "/v1/groups/{ns}/{name}/why",
    summary="Why a group of placements is where it is",
    responses=refusal_responses(404),
    response_class=Response,
    status_code=404,
)
async def why_group(asked: AskedBy, ns: NamespacePath, name: GroupName) -> Response:
    """This version places every placement on its own, so no group is ever found."""
    namespace = namespace_of(ns)
    await asked.require(on_placement("list", namespace))
    group = join_key(namespace, name)
    raise refused(
        404,
        f"there is no group {group}: this version places every placement on its own, and knows no groups",
        object=f"group {group}",
        next="GET /v1/placements/{ns}/{name}/why tells of a single placement",
    )
