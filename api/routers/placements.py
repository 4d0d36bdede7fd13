"""Placements as the hub has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.auth.access import on_all_placements, on_placement
from api.http.examples import answer_named, text_named
from api.http.paging import page_of
from api.http.problems import refused
from api.http.request_context import Asked, AskedBy, namespace_of
from api.http.schema import DEFAULT_PAGE, Cursor, Limit, NamePath, NamespacePath, answers
from api.models import PlacementModel, PlacementPage
from api.services.objects import placement_model
from api.text.tables import render_placements
from fleet.kube.scopes import parse_key

router = APIRouter(tags=["objects"])

Mine = Callable[[str], bool]
_LIST: Final = "placements"
_ONE_NAMESPACE: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


@router.get(
    "/v1/placements",
    summary="List placements",
    responses=answers(
        PlacementPage,
        example=answer_named("placements"),
        text=text_named("placements"),
        etag=True,
    ),
)
async def list_placements(
    asked: AskedBy,
    namespace: Annotated[
        str | None,
        Query(pattern=_ONE_NAMESPACE, max_length=63, description="Only ResourcePlacements of this namespace."),
    ] = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Response:
    """All that the caller may list, cluster-scoped and namespaced, by key."""
    asked.require_synced()
    mine = await _listable(asked, namespace)
    sight = await asked.sight()
    page = page_of(
        [key for key in asked.live.placement_keys() if mine(key)], limit=limit, cursor=cursor, list_name=_LIST
    )
    subjects = (asked.live.subject(key) for key in page.keys)
    items = tuple(placement_model(one, sight) for one in subjects if one is not None)
    found = PlacementPage(items=items, next=page.next)
    return asked.answer(found, text=lambda: render_placements(found), tag="placements")


@router.get(
    "/v1/placements/{ns}/{name}",
    summary="One placement",
    responses=answers(
        PlacementModel,
        example=answer_named("placement"),
        text=text_named("placements"),
        etag=True,
        refusals=(404,),
    ),
)
async def get_placement(asked: AskedBy, ns: NamespacePath, name: NamePath) -> Response:
    """Its policy in short, the clusters it is on, and its conditions."""
    key = await asked.readable(namespace_of(ns), name)
    asked.require_synced()
    found = placement_model(asked.subject(key), await asked.sight())
    page = PlacementPage(items=(found,), next=None)
    return asked.answer(found, text=lambda: render_placements(page), tag=found.resource_version)


async def _listable(asked: Asked, namespace: str | None) -> Mine:
    """Which keys the caller may list. Somebody who may list none is told so."""
    if namespace is not None:
        await asked.require(on_placement("list", namespace))
        return lambda key: key.startswith(f"{namespace}/")
    own = {parse_key(key)[0] for key in asked.live.placement_keys()}
    cluster_scoped = await asked.may(on_all_placements("list", namespaced=False))
    if await asked.may(on_all_placements("list", namespaced=True)):
        allowed = own - {""}
        any_right = True
    else:
        allowed = {one for one in own - {""} if await asked.may(on_placement("list", one))}
        any_right = bool(allowed)
    if not cluster_scoped and not any_right:
        raise refused(
            403,
            f"{asked.caller.name} may list no placements",
            object="placements",
            next="ask for the right to list clusterresourceplacements or resourceplacements on the hub, or name your "
            "namespace with ?namespace=",
        )
    return lambda key: cluster_scoped if "/" not in key else parse_key(key)[0] in allowed
