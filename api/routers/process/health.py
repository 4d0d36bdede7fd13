"""Health probes and metrics."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from fastapi import APIRouter
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response

from api.auth.access import AccessRequest
from api.http.schema import describe_refusals, schema_ref
from api.live.backend import Backend
from api.models import HealthModel
from api.routers.request_context import CurrentRequest
from fleet.history import History
from fleet.model.timestamps import format_timestamp

router = APIRouter(tags=["health"])

OK, DEGRADED, FAILED = "ok", "degraded", "failed"
_EXAMPLE: Final = {"status": OK, "checks": {"caches": "", "history": ""}}


def _probe(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema_ref(HealthModel)}}}


_READY: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "It can answer; `degraded` where a part of it cannot.",
        "content": {"application/json": {"schema": schema_ref(HealthModel), "example": _EXAMPLE}},
    },
    503: _probe("It is not ready to answer yet."),
}


@router.get("/livez", summary="Liveness", name="livez", responses={200: _probe("The event loop runs.")})
@router.get("/healthz", summary="Alias of /livez", name="healthz", responses={200: _probe("The event loop runs.")})
async def livez() -> Response:
    """Without authentication."""
    return _answer(HealthModel(status=OK, checks={"event-loop": ""}))


@router.get("/readyz", summary="Readiness", responses=_READY)
async def readyz(request: Request) -> Response:
    """Without authentication. `degraded` while the history is unavailable: the present state can still be explained."""
    backend: Backend = request.app.state.shared.backend
    caches = ", ".join(backend.live.list_unsynced())
    history = _describe_outage(backend.history.history)
    notices = {name: notice for name, read in backend.notices.items() if (notice := read())}
    checks = {"caches": caches, "history": history, **notices}
    status = FAILED if caches else DEGRADED if history else OK
    return _answer(HealthModel(status=status, checks=checks))


@router.get(
    "/metrics",
    summary="Prometheus metrics",
    responses={
        200: {
            "description": "In the requested format.",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            },
        },
        **describe_refusals(),
    },
)
async def metrics(context: CurrentRequest) -> Response:
    """For callers who may `get` the path `/metrics`."""
    await context.permissions.require(AccessRequest(verb="get", path="/metrics"))
    encode, content_type = choose_encoder(context.request.headers.get("accept", ""))
    return Response(encode(context.backend.live.registry), headers={"Content-Type": content_type})


def _describe_outage(history: History | None) -> str:
    """Without the error of the database: probes need no authentication."""
    if history is None:
        return ""
    since = history.known_since
    return "" if since is None else f"unavailable since {format_timestamp(since)}"


def _answer(health: HealthModel) -> Response:
    return Response(
        msgspec.json.encode(health),
        status_code=503 if health.status == FAILED else 200,
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
