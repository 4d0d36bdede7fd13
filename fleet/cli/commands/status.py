"""`fleet status` and `fleet why-not CLUSTER`: the fleet at a glance, and one cluster with all placements."""

from __future__ import annotations

import sys
from typing import Any, Final, TypeVar
from urllib.parse import quote

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.requests import ApiRefusal, ApiRequest, build_mismatch, fetch_json
from fleet.cli.commands.why import NOT_SCHEDULED, SUCCESS, suggest_cluster
from fleet.cli.output.console import TEXT, page_of, print_text, write_document

T = TypeVar("T")

_PAGE: Final = 500


def show_status(connection: ApiConnection, form: str) -> int:
    """Returns 1 if a placement lacks something."""
    from api.status_models import FleetStatus
    from api.text.status import render_status

    answer = fetch_json(connection, ApiRequest(path="/v1/status"))
    status = _convert(answer, FleetStatus, connection)
    if form == TEXT:
        print_text(render_status(status, width=page_of(sys.stdout).width))
    else:
        write_document(answer, form)
    return NOT_SCHEDULED if status.trouble else SUCCESS


def show_cluster(connection: ApiConnection, cluster: str, form: str) -> int:
    from api.status_models import ClusterPlacements
    from api.text.status import render_cluster_placements

    try:
        answer = _fetch_pages(connection, cluster)
    except ApiRefusal as refusal:
        raise suggest_cluster(refusal, connection, cluster) from refusal
    page = _convert(answer, ClusterPlacements, connection)
    if form == TEXT:
        print_text(render_cluster_placements(page, width=page_of(sys.stdout).width))
    else:
        write_document(answer, form)
    return SUCCESS


def _fetch_pages(connection: ApiConnection, cluster: str) -> Any:
    path = f"/v1/clusters/{quote(cluster, safe='')}/placements"
    whole: Any = fetch_json(connection, ApiRequest(path=path, query={"limit": _PAGE}))
    while isinstance(whole, dict) and whole.get("next"):
        page = fetch_json(connection, ApiRequest(path=path, query={"limit": _PAGE, "cursor": whole["next"]}))
        whole = {**whole, "items": [*whole["items"], *page["items"]], "next": page["next"]}
    return whole


def _convert(answer: Any, kind: type[T], connection: ApiConnection) -> T:
    import msgspec

    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise build_mismatch(connection, str(error)) from error
