"""Audit log and metrics of requests: caller, path, status and duration of each."""

from __future__ import annotations

from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleet.clock import Clock

_UNAUDITED: Final = frozenset({"/livez", "/healthz", "/readyz", "/metrics"})
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_CLOSED: Final = 499
"""The client closed the connection before the response started."""

log = structlog.get_logger(__name__)


class Audit:
    def __init__(self, app: ASGIApp, *, clock: Clock, registry: CollectorRegistry) -> None:
        self._app = app
        self._clock = clock
        self._requests = Counter(
            "fleet_api_requests_total", "Requests to the API.", ("route", "method", "code"), registry=registry
        )
        self._seconds = Histogram(
            "fleet_api_answer_seconds", "Time until a response starts.", ("route",), buckets=_BUCKETS, registry=registry
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = self._clock.monotonic()
        responses: list[tuple[int, float]] = []

        async def send_and_observe(message: Message) -> None:
            if message["type"] == "http.response.start":
                responses.append((message["status"], self._clock.monotonic() - started))
            await send(message)

        try:
            await self._app(scope, receive, send_and_observe)
        finally:
            status, seconds = responses[0] if responses else (_CLOSED, self._clock.monotonic() - started)
            self._record(Request(scope), status, seconds)

    def _record(self, request: Request, status: int, seconds: float) -> None:
        route = getattr(request.scope.get("route"), "path_format", "")
        method = request.method if request.method in ("GET", "POST") else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        if request.url.path not in _UNAUDITED:
            log.info(
                "request",
                by=getattr(request.state, "caller", ""),
                method=request.method,
                path=request.url.path,
                query=request.url.query,
                status=status,
                seconds=round(seconds, 4),
            )
