"""Bindings: which placement is on which cluster, as the hub has it."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.auth.access import Wish
from api.http.examples import answer_named, text_named
from api.http.paging import page_of
from api.http.problems import unprocessable
from api.http.request_context import Asked, AskedBy
from api.http.schema import DEFAULT_PAGE, Cursor, KeyQuery, Limit, answers
from api.models import BindingPage
from api.services.objects import binding_model
from api.text.tables import render_bindings
from fleet.kube.scopes import parse_key
from fleet.model.views import Binding

router = APIRouter(tags=["objects"])

_LIST: Final = "bindings"
_CLUSTER: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"


@router.get(
    "/v1/bindings",
    summary="List bindings",
    responses=answers(
        BindingPage,
        example=answer_named("bindings"),
        text=text_named("bindings"),
        etag=True,
    ),
)
async def list_bindings(
    asked: AskedBy,
    placement: KeyQuery = None,
    cluster: Annotated[
        str | None, Query(pattern=_CLUSTER, description="Only bindings for this cluster.", examples=["ams-1"])
    ] = None,
    limit: Limit = DEFAULT_PAGE,
    cursor: Cursor = None,
) -> Response:
    """Of one placement, of one cluster, or all; who asks without a placement needs the right to list bindings.

    Bindings for clusters that the caller may not read are counted, not shown: their names contain the cluster's."""
    if placement is not None:
        await asked.readable(*parse_key(placement))
    else:
        await _require_all(asked)
    if cluster is not None:
        await asked.require_cluster(cluster)
    asked.require_synced()
    found = _found(asked, placement, cluster)
    sight = await asked.sight()
    seen = {key: one for key, one in found.items() if not sight.hides(one.spec.target_cluster)}
    page = page_of(sorted(seen), limit=limit, cursor=cursor, list_name=_LIST)
    items = tuple(binding_model(seen[key]) for key in page.keys)
    shown = BindingPage(items=items, redacted=len(found) - len(seen), next=page.next)
    return asked.answer(shown, text=lambda: render_bindings(shown), tag="bindings")


async def _require_all(asked: Asked) -> None:
    for kinds in asked.live.caches.kinds:
        kind = kinds.flavour.binding
        await asked.require(Wish(verb="list", group=kind.group, resource=kind.plural))


def _found(asked: Asked, placement: str | None, cluster: str | None) -> dict[str, Binding]:
    """By namespace and name."""
    caches = asked.live.caches
    if placement is not None:
        try:
            views = [one.view for one in caches.bindings(placement)]
        except KeyError as error:
            raise unprocessable(
                "placement",
                placement,
                "ResourcePlacements are switched off here",
                "ask for a cluster-scoped placement, or start Fleet with resourcePlacements.enabled=true",
            ) from error
    else:
        views = [one.view for kinds in caches.kinds for one in kinds.bindings.store.values()]
    wanted = (one for one in views if cluster is None or one.spec.target_cluster == cluster)
    return {f"{one.metadata.namespace}/{one.metadata.name}": one for one in wanted}
