"""Placements in the hub."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.http.examples import get_example, get_example_text
from api.http.schema import DEFAULT_PAGE, Cursor, Limit, NamePath, NamespacePath, describe_answers
from api.models import PlacementModel, PlacementPage
from api.routers.request_context import CurrentRequest, parse_namespace
from api.services import objects
from api.text.tables import render_placements
from fleet.errors import InputError
from fleet.model.selectors import parse_selector
from fleet.model.views import LabelSelector

router = APIRouter(tags=["objects"])

_ONE_NAMESPACE: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"


@router.get(
    "/v1/placements",
    summary="List placements",
    responses=describe_answers(
        PlacementPage,
        example=get_example("placements"),
        text=get_example_text("placements"),
        etag=True,
    ),
)
async def list_placements(
    context: CurrentRequest,
    namespace: Annotated[
        str | None,
        Query(pattern=_ONE_NAMESPACE, max_length=63, description="Only ResourcePlacements of this namespace."),
    ] = None,
    fulfilled: Annotated[
        bool | None,
        Query(description="`false`: only those that lack clusters, or are not decided; `true`: only the others."),
    ] = None,
    selector: Annotated[
        str | None,
        Query(min_length=1, max_length=2048, description="Labels, as kubectl takes them.", examples=["env=prod,!old"]),
    ] = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Response:
    """All that the caller may list, cluster-scoped and namespaced, by key."""
    chosen = objects.PlacementFilter(
        namespace=namespace, fulfilled=fulfilled, labels=None if selector is None else _parse_selector(selector)
    )
    context.backend.live.require_synced()
    page = await objects.list_placements(context.backend, context.permissions, chosen, limit=limit, cursor=cursor)
    return context.answer(page, text=lambda: render_placements(page), tag="placements")


def _parse_selector(text: str) -> LabelSelector:
    try:
        return parse_selector(text)
    except InputError as error:
        raise InputError(error.message, field="selector", value=text) from error


@router.get(
    "/v1/placements/{ns}/{name}",
    summary="One placement",
    responses=describe_answers(
        PlacementModel,
        example=get_example("placement"),
        text=get_example_text("placements"),
        etag=True,
        refusals=(404,),
    ),
)
async def get_placement(context: CurrentRequest, ns: NamespacePath, name: NamePath) -> Response:
    """Its policy in short, the clusters it is on, and its conditions."""
    key = await context.require_placement(parse_namespace(ns), name)
    live = context.backend.live
    live.require_synced()
    visibility = await context.permissions.load_visibility(live.caches.clusters)
    placement = objects.build_placement_model(live.get_placement(key), visibility)
    page = PlacementPage(items=(placement,), next=None)
    return context.answer(placement, text=lambda: render_placements(page), tag=placement.resource_version)
