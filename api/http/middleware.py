"""Middleware, in the order in which a request passes it: precedence, aggregation, audit, deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.http.problems import unavailable
from fleet.clock import Clock
from fleet.kube.grants import EXPLAIN_GROUP
from fleet.worker_thread import Precedence

log = structlog.get_logger(__name__)


# --- precedence -------------------------------------------------------------------------------------------------------


class Preceding:
    """Requests go before what other requests compute in threads."""

    def __init__(self, app: ASGIApp, *, precedence: Precedence) -> None:
        self._app = app
        self._precedence = precedence

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._precedence.run(self._app(scope, receive, send))  # type: ignore[arg-type]


# --- the hub's aggregation layer --------------------------------------------------------------------------------------

_PREFIX: Final = f"/apis/{EXPLAIN_GROUP}"
_VERSION: Final = f"{_PREFIX}/v1"
_RESOURCES: Final = msgspec.json.encode(
    {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": _VERSION.removeprefix("/apis/"),
        "resources": [],
    }
)
_NO_SCHEMA: Final = {
    "/openapi/v2": msgspec.json.encode({"swagger": "2.0", "info": {"title": "Fleet", "version": "v1"}, "paths": {}}),
    "/openapi/v3": msgspec.json.encode({"paths": {}}),
}
"""Without an answer the API server would go on asking, and log an error each time."""
_LONG_RUNNING: Final = "watch"
"""The parameter that keeps the API server from ending a stream after a minute."""
_DOCUMENTS: Final = {_VERSION: _RESOURCES, **_NO_SCHEMA}


class Aggregation:
    """The API as a part of the hub's own: the same endpoints below `/apis/explain.fleet`, for the aggregation layer.

    The API server proxies that prefix, and asks for the list of resources to see whether this API is available. The
    list is empty, because these are answers and not objects: nothing is to be listed, collected or deleted with a
    namespace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        document = _DOCUMENTS.get(scope["path"]) if scope["type"] == "http" else None
        if document is not None:
            await Response(document, media_type="application/json")(scope, receive, send)
        elif scope["type"] == "http" and scope["path"].startswith(f"{_PREFIX}/"):
            await self._app(_strip(scope), receive, send)
        else:
            await self._app(scope, receive, send)


def _strip(scope: Scope) -> Scope:
    query = parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)
    stripped = {
        "path": scope["path"].removeprefix(_PREFIX),
        "raw_path": scope["raw_path"].removeprefix(_PREFIX.encode()),
    }
    if any(name == _LONG_RUNNING for name, _ in query):
        left = [(name, value) for name, value in query if name != _LONG_RUNNING]
        stripped["query_string"] = urlencode(left).encode("ascii")
    return {**scope, **stripped}


# --- audit ------------------------------------------------------------------------------------------------------------

_UNAUDITED: Final = frozenset({"/livez", "/healthz", "/readyz", "/metrics"})
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_CLOSED: Final = 499
"""The client closed the connection before the response started."""


class Audit:
    """Audit log and metrics of requests: caller, path, status and duration of each."""

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


# --- deadlines --------------------------------------------------------------------------------------------------------

ANSWER_TIMEOUT: Final = 30.0
"""Seconds until an answer has to begin."""


class Deadlines:
    """A response has to start in time, and while its caller waits; one that has started may continue."""

    def __init__(self, app: ASGIApp, *, seconds: float = ANSWER_TIMEOUT) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        connection = _Connection(receive, has_body=_has_body(scope))
        try:
            async with asyncio.timeout(self._seconds) as deadline:

                async def send_in_time(message: Message) -> None:
                    nonlocal started
                    started = True
                    deadline.reschedule(None)
                    await send(message)

                def give_up() -> None:
                    if not started:
                        deadline.reschedule(0.0)

                connection.on_gone = give_up
                try:
                    await self._app(scope, connection.receive, send_in_time)
                finally:
                    connection.stop_watching()
        except TimeoutError:
            if started:
                raise
            if connection.is_gone:
                return
            log.warning("an answer took too long", path=scope["path"], seconds=self._seconds)
            late = unavailable(f"the answer was not ready after {self._seconds:g} s", "ask for less, or try again")
            await late.response()(scope, receive, send)


class _Connection:
    """Reads the body for the application, and then waits for the end of the connection on its own."""

    def __init__(self, receive: Receive, *, has_body: bool) -> None:
        self._receive = receive
        self._gone = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self.on_gone: Callable[[], None] | None = None
        self._owes_body = not has_body
        """Whether the application has yet to get the end of a body that there is not."""
        if not has_body:
            self._watch()

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    async def receive(self) -> Message:
        if self._watching is None:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone.set()
            elif not message.get("more_body", False):
                self._watch()
            return message
        if self._owes_body:
            self._owes_body = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def _watch(self) -> None:
        self._watching = asyncio.create_task(self._wait_for_end(), name="waiting for a disconnect")

    async def _wait_for_end(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone.set()
        if self.on_gone is not None:
            self.on_gone()

    def stop_watching(self) -> None:
        """Nothing is received any more. Without the task there is no cycle, which garbage collection would have to find
        after each request."""
        self.on_gone = None
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
