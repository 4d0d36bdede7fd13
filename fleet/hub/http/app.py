"""The ASGI application. Every failed request is answered with a Kubernetes Status."""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import parse_qs

from fleet.errors import RequestRefused
from fleet.hub.access.authentication import (
    ANONYMOUS,
    AUTHENTICATED,
    LOCAL,
    User,
    parse_bearer_token,
    unauthorized_error,
)
from fleet.hub.http.handler import RequestHandler
from fleet.hub.http.requests import HubRequest
from fleet.hub.http.responses import Response, Stream, error_response
from fleet.hub.hub import Hub

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_LOG: Final = logging.getLogger(__name__)
_COMPRESSED_FROM: Final = 128 * 1024  # bytes; compressing smaller bodies costs more than it saves
LARGEST_BODY: Final = 3 * 1024 * 1024  # bytes, the API server's own limit
MOST_UNSENT: Final = 256 * 1024 * 1024
"""Bytes of responses that one caller has asked for and does not read."""
_COUNTED_FROM: Final = 64 * 1024  # bytes
_LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]", "::1")
_OWN_SITES: Final = ("none", "same-origin")  # of Sec-Fetch-Site: typed into the browser, or linked from the hub itself


@dataclass(frozen=True, slots=True)
class Listener:
    """The address of the hub, and whether requests without credentials that arrive there are trusted."""

    trusts_local: bool  # plain HTTP on loopback: kubectl sends no credentials there
    address: str = ""


class Application:
    def __init__(self, hub: Hub, listener: Listener, *, uses_thread: bool = True) -> None:
        """`uses_thread`: for the writes of large objects."""
        self._hub = hub
        self._listener = listener
        self._handler = RequestHandler(hub, listener.address, uses_thread=uses_thread)
        self._unsent = UnsentResponses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        caller, size = "", 0
        try:
            response, caller = await self._handle(scope, receive)
            if isinstance(response, Response):
                response = await self._compress(response, caller, scope["headers"])
                size = self._unsent.reserve(caller, len(response.body))
        except RequestRefused as error:
            response = error_response(error)
        except Exception:
            _LOG.exception("%s %s failed", scope["method"], scope["path"])
            response = error_response(RequestRefused(500, "InternalError", "internal error; see the log of the hub"))
        try:
            if isinstance(response, Stream):
                await _stream(response, receive, send)
            else:
                await _send(response, send, bodiless=scope["method"] == "HEAD")
        finally:
            self._unsent.release(caller, size)

    async def _handle(self, scope: Scope, receive: Receive) -> tuple[Response | Stream, str]:
        """The response, and the name of the caller."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        user = caller = self._authenticate(headers)
        if b"impersonate-user" in headers:
            user = _impersonate(user, headers[b"impersonate-user"], scope["headers"])
        body = await _read_body(receive, headers) if scope["method"] not in ("GET", "HEAD") else b""
        query = scope["query_string"]
        request = HubRequest(
            method=scope["method"],
            path=scope["path"],
            query=_parse_query(query) if query else {},
            headers=headers,
            body=body,
            user=user,
        )
        return await self._handler.handle(request), caller.name

    async def _compress(self, response: Response, caller: str, headers: Iterable[tuple[bytes, bytes]]) -> Response:
        """What waits for the thread counts as unread."""
        if len(response.body) < _COMPRESSED_FROM:
            return response
        if not any(name == b"accept-encoding" and b"gzip" in value for name, value in headers):
            return response
        size = self._unsent.reserve(caller, len(response.body))
        try:
            body = await asyncio.to_thread(gzip.compress, response.body, compresslevel=1, mtime=0)
        finally:
            self._unsent.release(caller, size)
        return replace(response, body=body, headers=[*response.headers, (b"content-encoding", b"gzip")])

    def _authenticate(self, headers: dict[bytes, str]) -> User:
        token = parse_bearer_token(headers.get(b"authorization", ""))
        if token is not None:
            user = self._hub.tokens.find_user(token)
            if user is None:
                raise unauthorized_error()
            return user
        if not self._listener.trusts_local:
            return ANONYMOUS
        _refuse_browsers(headers)
        return LOCAL


class UnsentResponses:
    """Bytes of large responses by caller, as long as their readers have not taken them."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}

    def reserve(self, caller: str, size: int) -> int:
        """What to release. One response is sent whatever its size."""
        if size < _COUNTED_FROM:
            return 0
        unsent = self._sizes.get(caller, 0)
        if unsent and unsent + size > MOST_UNSENT:
            text = f"{unsent} bytes of earlier responses were not read yet; read them, or list in pages with limit"
            raise RequestRefused(429, "TooManyRequests", text, details={"retryAfterSeconds": 1}, retry_after=1)
        self._sizes[caller] = unsent + size
        return size

    def release(self, caller: str, size: int) -> None:
        left = self._sizes.get(caller, 0) - size
        if left > 0:
            self._sizes[caller] = left
        else:
            self._sizes.pop(caller, None)


def _impersonate(user: User, name: str, headers: Iterable[tuple[bytes, bytes]]) -> User:
    """The impersonated user of a request (`kubectl --as`); only administrators may impersonate."""
    if not user.is_administrator:
        text = f'users "{name}" is forbidden: User "{user.name}" cannot impersonate resource "users" in API group ""'
        raise RequestRefused(403, "Forbidden", f"{text} at the cluster scope", details={"name": name, "kind": "users"})
    groups = [value.decode("latin-1") for header, value in headers if header == b"impersonate-group"]
    return User(name, groups=tuple(dict.fromkeys([*groups, AUTHENTICATED])))


def _refuse_browsers(headers: dict[bytes, str]) -> None:
    """Otherwise any web page could use the user's browser to send requests as the local administrator."""
    host, site = headers.get(b"host", ""), headers.get(b"sec-fetch-site", "none")
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    if b"origin" in headers or site not in _OWN_SITES or name not in _LOOPBACK_HOSTS:
        text = "requests without a token must come from this machine and must not come from a web page"
        raise RequestRefused(403, "Forbidden", text, details={})


def _parse_query(text: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(text.decode("ascii"), keep_blank_values=True, max_num_fields=200)
    except ValueError as error:
        raise RequestRefused(400, "BadRequest", f"malformed query: {error}") from error


async def _read_body(receive: Receive, headers: dict[bytes, str]) -> bytes:
    if headers.get(b"content-length", "").isdigit() and int(headers[b"content-length"]) > LARGEST_BODY:
        raise _body_too_large()
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    parts, size = [body], len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestRefused(400, "BadRequest", "the connection was closed before the end of the body")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > LARGEST_BODY:
            raise _body_too_large()
    return b"".join(parts)


def _body_too_large() -> RequestRefused:
    return RequestRefused(413, "RequestEntityTooLarge", f"Request entity too large: limit is {LARGEST_BODY}")


async def _send(response: Response, send: Send, *, bodiless: bool) -> None:
    headers = [
        (b"content-type", response.media_type),
        (b"content-length", b"%d" % len(response.body)),
        *response.headers,
    ]
    await send({"type": "http.response.start", "status": response.code, "headers": headers})
    is_large = len(response.body) >= _COUNTED_FROM
    await send({"type": "http.response.body", "body": b"" if bodiless else response.body, "more_body": is_large})
    if is_large:
        await send({"type": "http.response.body", "body": b""})  # returns once the reader has taken the rest


async def _stream(stream: Stream, receive: Receive, send: Send) -> None:
    """Sends chunks until the stream ends or the client disconnects."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", stream.media_type)]})
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(_send_chunks(stream, send), name="fleet-hub-watch")
        leaving = tasks.create_task(_wait_for_disconnect(receive), name="fleet-hub-watch-disconnect")
        sending.add_done_callback(lambda _: leaving.cancel())
        leaving.add_done_callback(lambda _: sending.cancel())


async def _send_chunks(stream: Stream, send: Send) -> None:
    async for chunk in stream.chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
