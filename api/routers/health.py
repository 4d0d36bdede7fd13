"""Probes and figures."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from fastapi import APIRouter
from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from api.auth.access import Wish
from api.http.request_context import AskedBy, Serving
from api.http.schema import reference, refusal_responses
from api.models import HealthModel
from fleet.model.timestamps import format_timestamp

router = APIRouter(tags=["health"])

OK, DEGRADED, FAILED = "ok", "degraded", "failed"
_EXAMPLE: Final = {"status": OK, "checks": {"caches": "", "history": ""}}


def _probe(description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": reference(HealthModel)}}}


_READY: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "It can answer; `degraded` where a part of it cannot.",
        "content": {"application/json": {"schema": reference(HealthModel), "example": _EXAMPLE}},
    },
    503: _probe("It cannot answer yet."),
}


@router.get("/livez", summary="Whether it turns", name="livez", responses={200: _probe("It turns.")})
@router.get("/healthz", summary="The same, under another name", name="healthz", responses={200: _probe("It turns.")})
async def livez() -> Response:
    """For everybody."""
    return _answer(HealthModel(status=OK, checks={"event-loop": ""}))


@router.get("/readyz", summary="Whether it can answer", responses=_READY)
async def readyz(request: Request) -> Response:
    """For everybody. A history that cannot be reached degrades it: what is true now can still be asked."""
    serving: Serving = request.app.state.serving
    caches = ", ".join(serving.live.unsynced())
    history = await run_in_threadpool(_history_trouble, serving)
    status = FAILED if caches else DEGRADED if history else OK
    return _answer(HealthModel(status=status, checks={"caches": caches, "history": history}))


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    responses={
        200: {
            "description": "In the format that was asked for.",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/openmetrics-text": {"schema": {"type": "string"}},
            },
        },
        **refusal_responses(),
    },
)
async def metrics(asked: AskedBy) -> Response:
    """For who may `get` the path `/metrics`."""
    await asked.require(Wish(verb="get", path="/metrics"))
    encode, content_type = choose_encoder(asked.request.headers.get("accept", ""))
    return Response(encode(asked.live.registry), headers={"Content-Type": content_type})


def _history_trouble(serving: Serving) -> str:
    """Without what the database said: probes are for everybody."""
    if serving.history is None:
        return ""
    since = serving.history.state().unavailable_since
    return "" if since is None else f"unavailable since {format_timestamp(since)}"


def _answer(found: HealthModel) -> Response:
    return Response(
        msgspec.json.encode(found),
        status_code=503 if found.status == FAILED else 200,
        media_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
