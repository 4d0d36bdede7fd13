"""Placement groups (all or nothing): no answers about them yet, so every group is a 404."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from api.auth.access import placement_access
from api.http.problems import refusal
from api.http.schema import NamespacePath, describe_refusals
from api.routers.request_context import CurrentRequest, parse_namespace
from fleet.kube.resource import join_key

router = APIRouter(tags=["why"])

GroupName = Annotated[str, Path(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", description="Of the group.")]


@router.get(
    "/v1/groups/{ns}/{name}/why",
    summary="Why a group of placements is where it is",
    responses=describe_refusals(404),
    response_class=Response,
    status_code=404,
)
async def why_group(context: CurrentRequest, ns: NamespacePath, name: GroupName) -> Response:
    """This version has answers about placements only, so no group is ever found."""
    namespace = parse_namespace(ns)
    await context.permissions.require(placement_access("list", namespace))
    group = join_key(namespace, name)
    raise refusal(
        404,
        f"there is no answer about group {group}: its status on the hub says how its members are placed",
        object=f"group {group}",
        next="GET /v1/placements/{ns}/{name}/why explains a single placement",
    )
