"""The context of a request: the caller's permissions, the backend that services read, and the form of the answer."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from api.auth.access import CallerAuthorizer, operator_access, placement_access
from api.auth.browser import SIGN_IN, BrowserSession, BrowserSessions, read_cookie, require_same_origin
from api.auth.front_proxy import FrontProxy
from api.auth.permissions import Permissions
from api.http.limits import ConcurrencyLimit, StreamTiming
from api.http.problems import refusal, unprocessable
from api.http.schema import STATE
from api.live.answer_cache import EncodedAnswer, encode_answer
from api.live.backend import Backend
from fleet.http_protocol import PEER_CERTIFICATE
from fleet.kube.resource import join_key

_NOT_CACHED: Final = {
    "Cache-Control": "private, no-cache",
    "Vary": "Accept, Authorization, Cookie",
    "X-Content-Type-Options": "nosniff",
}
NO_NAMESPACE: Final = "-"
_MOST_TARGETS: Final = 2_048
_LONGEST_TARGET: Final = 512
"""Bytes."""

Endpoint = Callable[..., Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppState:
    """The objects that all requests share."""

    backend: Backend
    authorizer: CallerAuthorizer
    streams: ConcurrencyLimit
    stream_timing: StreamTiming
    sessions: BrowserSessions
    front_proxy: FrontProxy | None = None


class RequestContext:
    """An authenticated request."""

    def __init__(
        self, request: Request, state: AppState, permissions: Permissions, session: BrowserSession | None = None
    ) -> None:
        """`session`: of the browser that asks; None for every other caller."""
        self.request = request
        self.session = session
        self.state = state
        self.backend = state.backend
        self.permissions = permissions

    async def require_operator(self) -> None:
        await self.permissions.require(operator_access(self.request.method.lower(), self.request.scope["path"]))

    async def require_placement(self, namespace: str, name: str) -> str:
        """The key of a placement that the caller may read."""
        await self.permissions.require(placement_access("get", namespace, name))
        return join_key(namespace, name)

    def answer(
        self,
        value: Any,
        *,
        text: Callable[[], str] | None = None,
        tag: str = "",
        state: str = "",
    ) -> Response:
        """JSON, or the text if the client prefers it. `tag` names what was answered from; with the form of the answer
        it becomes the ETag. `state` is the state of the placement, for scripts."""
        if text is not None and self.prefers_text():
            return self.send(encode_answer(text().encode(), "text/plain", tag=tag, state=state))
        return self.send(encode_answer(msgspec.json.encode(value), "application/json", tag=tag, state=state))

    async def answer_large(self, value: Any, *, text: Callable[[], str] | None = None, state: str = "") -> Response:
        """As `answer`, in a thread: what is megabytes takes long to encode."""
        return await asyncio.to_thread(self.answer, value, text=text, state=state)

    def send(self, answer: EncodedAnswer) -> Response:
        """Nothing but the headers if the client has these bytes."""
        headers = _NOT_CACHED | ({STATE: answer.state} if answer.state else {})
        if answer.etag:
            headers["ETag"] = answer.etag
            if _matches(self.request.headers.get("if-none-match", ""), answer.etag):
                return Response(status_code=304, headers=headers)
        return Response(answer.body, media_type=answer.media_type, headers=headers)

    def prefers_text(self) -> bool:
        accept = self.request.headers.get("accept", "")
        return negotiate_media_type(accept, "application/json", "text/plain") == "text/plain"


async def build_context(request: Request) -> RequestContext:
    state: AppState = request.app.state.shared
    session, permissions = None, _identify_through_hub(request, state)
    if permissions is None and "authorization" not in request.headers:
        cookie = read_cookie(request.cookies, request.headers)
        session, permissions = await _resume_session(request, state, cookie) if cookie else (None, None)
    if permissions is None:
        permissions = await Permissions.authenticate(state.authorizer, request.headers.get("authorization"))
    request.state.caller = permissions.caller.name
    check_parameters(request)
    return RequestContext(request, state, permissions, session)


def _identify_through_hub(request: Request, state: AppState) -> Permissions | None:
    """A client certificate that TLS has verified can only be the front proxy's: it trusts no other authority."""
    certificate = getattr(request.state, PEER_CERTIFICATE, None)
    if state.front_proxy is None or not certificate:
        return None
    caller = state.front_proxy.identify(certificate, request.headers.raw)
    return Permissions.through_hub(state.authorizer, caller)


async def _resume_session(request: Request, state: AppState, cookie: str) -> tuple[BrowserSession, Permissions]:
    session = state.sessions.find(cookie)
    if session is None:
        raise refusal(401, "the session has ended", field="Cookie", next=f"sign in again at {SIGN_IN}")
    require_same_origin(request.method, request.headers)
    permissions = await Permissions.authenticate(
        state.authorizer, f"Bearer {session.token}", holds=lambda: state.sessions.find(cookie) is not None
    )
    return session, permissions


CurrentRequest = Annotated[RequestContext, Depends(build_context)]


def parse_namespace(text: str) -> str:
    """The namespace in a path, where a dash means none."""
    return "" if text == NO_NAMESPACE else text


def check_parameters(request: Request) -> None:
    """Refuses unknown parameters: to ignore a misspelt one would give a wrong answer."""
    if not request.query_params:
        return
    operation = request.app.openapi()["paths"][request.scope["route"].path_format][request.method.lower()]
    names = [parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query"]
    for name in request.query_params:
        if name not in names:
            takes = f"this endpoint takes {', '.join(names)}" if names else "this endpoint takes none"
            value = request.query_params[name]
            raise unprocessable(name, value, f"there is no parameter {name!r} here", f"leave it out; {takes}")


def negotiate_media_type(accept: str, *offered: str) -> str:
    """The media type to answer with; the first one if none is accepted, because an answer is better than none."""
    best_quality, best = 0.0, offered[0]
    for part in accept.split(","):
        media_range, *parameters = (field.strip() for field in part.split(";"))
        quality = _parse_quality(parameters)
        for media_type in offered:
            accepted = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
            if quality > best_quality and media_range.lower() in accepted:
                best_quality, best = quality, media_type
                break
    return best


def _parse_quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _matches(header: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return etag in tags or tags == ["*"]


class ParsedTargetRoute(APIRoute):
    """Parses the parameters once for each target, for endpoints where these are all in path and query, but for their
    `context`. To read and check them costs several times what it takes to find an answer that is already in bytes."""

    def __init__(self, path: str, endpoint: Endpoint, **options: Any) -> None:
        self._parsed: OrderedDict[tuple[str, bytes], dict[str, Any]] = OrderedDict()
        self._answer = endpoint

        @wraps(endpoint)
        async def keep_arguments(**arguments: Any) -> Response:
            scope = arguments["context"].request.scope
            target = scope["path"], scope["query_string"]
            if sum(map(len, target)) <= _LONGEST_TARGET:
                self._parsed[target] = {name: value for name, value in arguments.items() if name != "context"}
                if len(self._parsed) > _MOST_TARGETS:
                    self._parsed.popitem(last=False)
            return await endpoint(**arguments)

        super().__init__(path, keep_arguments, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        parse_and_answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            target = request.scope["path"], request.scope["query_string"]
            arguments = self._parsed.get(target)
            if arguments is None:
                return await parse_and_answer(request)
            self._parsed.move_to_end(target)
            return await self._answer(context=await build_context(request), **arguments)

        return handle
