"""The explorer on a user's own machine: its pages from this installation, its answers from an API elsewhere.

A browser cannot use a kubeconfig, so this process asks with the user's credentials. Any program on the machine, and any
page in the browser, can reach its port: only the one-time link opens a session, and every question needs that session
and a page of this origin.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cache
from typing import Final

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from api.auth.browser import (
    SIGN_IN,
    BrowserSessions,
    format_cookie,
    read_cookie,
    refuse_other_pages,
    require_own_page,
    require_same_origin,
)
from api.http.bodies import LARGEST_BODY, convert_body, read_body, read_json_object
from api.http.problems import ProblemError, handle_problems, refusal
from api.page_models import SessionModel, SessionRequest
from api.routers.process import pages
from fleet.model.timestamps import format_timestamp

_METHODS: Final = ["GET", "HEAD", "POST"]
_ASKED: Final = ("accept", "content-type", "if-none-match", "last-event-id")
_ANSWERED: Final = ("cache-control", "content-type", "etag", "fleet-state", "retry-after")
_NO_STORE: Final = {"Cache-Control": "no-store"}
_LARGEST_CODE: Final = 4096
_ESCAPES: Final = ("/../", "/./", "//", "\\", "%2f", "%5c", "%2e")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedRequest:
    method: str
    target: str
    """Path and query, quoted."""
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_stream(self) -> bool:
        return "text/event-stream" in self.headers.get("accept", "")


@dataclass(frozen=True, slots=True)
class ForwardedResponse:
    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


Forward = Callable[[ForwardedRequest], AbstractAsyncContextManager[ForwardedResponse]]
"""Raises ProblemError where there is no answer."""


def create_gateway(forward: Forward, sessions: BrowserSessions) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    _add_session(app, sessions)

    @app.get("/openapi.json")
    def describe() -> Response:  # in a thread: the first time the whole API is imported
        return Response(_describe(), media_type="application/json")

    @app.api_route("/v1/{path:path}", methods=_METHODS)
    async def relay(request: Request) -> Response:
        _require_session(request, sessions)
        return _Relayed(forward, await _read_request(request))

    app.include_router(pages.router)
    handle_problems(app)
    return app


@cache
def _describe() -> str:
    from api.openapi import openapi  # slow to import, and seldom asked for

    return openapi()


def _add_session(app: FastAPI, sessions: BrowserSessions) -> None:
    @app.post("/v1/session")
    async def open_session(request: Request) -> Response:
        """Every link is of the user of this process: there is nothing to confirm."""
        refuse_other_pages(request.method, request.headers)
        document = await read_json_object(request, None, largest=_LARGEST_CODE)
        issued = sessions.redeem(convert_body(document, SessionRequest).code)
        if issued is None:
            raise _refuse("this link was used already, or is too old")
        cookie, session = sessions.open(issued.caller, "")
        model = SessionModel(user=session.caller, expires=format_timestamp(session.expires))
        headers = {**_NO_STORE, "Set-Cookie": _format_cookie(request, cookie)}
        return Response(msgspec.json.encode(model), media_type="application/json", headers=headers)

    @app.get("/v1/session")
    async def get_session(request: Request) -> Response:
        """The credentials are those of this process: there is nothing to sign out of."""
        caller = _require_session(request, sessions)
        model = SessionModel(user=caller, expires=None)
        return Response(msgspec.json.encode(model), media_type="application/json", headers=_NO_STORE)

    @app.delete("/v1/session", status_code=204)
    async def close_session(request: Request) -> Response:
        cookie = read_cookie(request.cookies, request.headers)
        require_own_page(request.method, request.headers, cookie)
        sessions.close(cookie)
        return Response(status_code=204, headers={**_NO_STORE, "Set-Cookie": _format_cookie(request, "")})


class _Relayed(Response):
    """Holds the connection to the API as long as it answers."""

    def __init__(self, forward: Forward, request: ForwardedRequest) -> None:
        super().__init__()
        self._forward = forward
        self._request = request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._forward(self._request) as answer:
                headers = {name: answer.headers[name] for name in _ANSWERED if name in answer.headers}
                headers |= {"X-Content-Type-Options": "nosniff"}
                relayed = StreamingResponse(answer.chunks, status_code=answer.status, headers=headers)
                await relayed(scope, receive, send)
        except ProblemError as problem:
            await problem.response()(scope, receive, send)


def _require_session(request: Request, sessions: BrowserSessions) -> str:
    """The name of its user."""
    session = sessions.find(read_cookie(request.cookies, request.headers))
    if session is None:
        raise _refuse("there is no session, or it has ended")
    require_same_origin(request.method, request.headers)
    return session.caller


def _refuse(detail: str) -> ProblemError:
    return refusal(401, detail, next=f"start `fleet ui` again: it prints a new link to {SIGN_IN}")


async def _read_request(request: Request) -> ForwardedRequest:
    """Nothing in the path may lead out of the API, to another part of what the credentials are good for."""
    path = request.scope["raw_path"].decode("ascii", "replace")
    if any(part in f"{path.lower()}/" for part in _ESCAPES):
        raise refusal(404, f"Not Found: {request.method} {path}", object=path, next="see /docs for what there is")
    query = request.scope["query_string"].decode("ascii", "replace")
    return ForwardedRequest(
        method=request.method,
        target=f"{path}?{query}" if query else path,
        headers={name: request.headers[name] for name in _ASKED if name in request.headers},
        body=await read_body(request, LARGEST_BODY),
    )


def _format_cookie(request: Request, value: str) -> str:
    return format_cookie(request.headers.get("host", ""), value, scheme=request.url.scheme)
