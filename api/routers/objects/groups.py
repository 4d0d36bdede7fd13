"""Placement groups: which there are, and why they are where they are."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from api.group_models import GroupList, GroupModel, GroupWhy
from api.http.schema import NamespacePath, describe_answers
from api.routers.request_context import CurrentRequest, parse_namespace
from api.services.held import groups
from api.text.groups import render_group, render_group_why, render_groups
from fleet.model.placement_key import PlacementKey

router = APIRouter(tags=["groups"])

GroupName = Annotated[
    str, Path(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$", description="Of the group.", examples=["shards"])
]
_GROUP: Final = {
    "kind": "ClusterPlacementGroup",
    "namespace": "",
    "name": "shards",
    "state": "Waiting",
    "reason": "GroupInfeasible",
    "message": "1 members of group shards fit, 2 are needed: no place for shard-2",
    "since": "2026-01-05T10:00:00Z",
    "deadline": None,
    "needed": 2,
    "members": 2,
    "placed": 0,
    "hidden": 0,
    "domain": "",
    "topologyKey": "region",
    "sameClusters": False,
    "scheduleTimeoutSeconds": 0,
    "onPartialBind": "keep",
}
_REJECTION: Final = {
    "plugin": "ResourceFit",
    "reason": "InsufficientCapacity",
    "count": 1,
    "clusters": ["ams-1"],
    "message": "insufficient cpu",
}
_TRIAL: Final = {"domain": "eu", "clusters": 1, "fitting": 1, "fits": False, "rejections": [_REJECTION]}
_MEMBER: Final = {
    "key": "shard-2",
    "state": "Unschedulable",
    "clusters": [],
    "planned": [],
    "redacted": 0,
    "gate": None,
    "waiting": None,
    "at": "2026-01-05T10:00:00Z",
    "trials": [_TRIAL],
    "moreTrials": 0,
    "answers": [],
    "error": "",
    "why": "/v1/placements/-/shard-2/why",
}
_WHY: Final = {"group": _GROUP, "fitting": 1, "blocking": ["shard-2"], "members": [_MEMBER], "more": 0, "note": ""}
_LIST_TEXT: Final = "GROUP  STATE  MEMBERS  PLACED  NEEDED  DOMAIN  SINCE  UNTIL  WHY\n"
_WHY_TEXT: Final = "ClusterPlacementGroup shards: Waiting, GroupInfeasible\n"


@router.get(
    "/v1/groups",
    summary="List placement groups",
    responses=describe_answers(GroupList, example={"items": [_GROUP]}, text=_LIST_TEXT),
)
async def list_groups(context: CurrentRequest) -> Response:
    """With a member that the caller may read, or of which they may list the placements."""
    context.backend.live.require_synced()
    answer = await groups.list_groups(context.backend, context.permissions)
    return context.answer(answer, text=lambda: render_groups(answer))


@router.get(
    "/v1/groups/{ns}/{name}",
    summary="One placement group",
    responses=describe_answers(GroupModel, example=_GROUP, text=_LIST_TEXT, refusals=(404,)),
)
async def get_group(context: CurrentRequest, ns: NamespacePath, name: GroupName) -> Response:
    """What it asks for, and what it waits for. The namespace of a ClusterPlacementGroup is `-`."""
    context.backend.live.require_synced()
    key = PlacementKey(parse_namespace(ns), name)
    answer = await groups.load_group(context.backend, context.permissions, key)
    return context.answer(answer, text=lambda: render_group(answer))


@router.get(
    "/v1/groups/{ns}/{name}/why",
    summary="Why a placement group is where it is",
    responses=describe_answers(GroupWhy, example=_WHY, text=_WHY_TEXT, state=True, refusals=(404,)),
)
async def why_group(
    context: CurrentRequest,
    ns: NamespacePath,
    name: GroupName,
    limit: Annotated[int, Query(ge=1, le=500, description="Members.")] = 100,
) -> Response:
    """Its members, with what each waits for, and where those that do not fit were tried, as it is recorded."""
    context.backend.live.require_synced()
    key = PlacementKey(parse_namespace(ns), name)
    answer = await groups.explain_group(context.backend, context.permissions, key, limit=limit)
    return context.answer(answer, text=lambda: render_group_why(answer), state=answer.group.state)
