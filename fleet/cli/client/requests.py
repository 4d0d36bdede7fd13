"""HTTP requests to the API.

Uses the standard library only, because importing an HTTP client would slow down every command.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import (
    BaseHandler,
    HTTPErrorProcessor,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from fleet import __version__
from fleet.cli.client.connection import TOKEN_FILE, ApiConnection
from fleet.cli.client.hub_refusals import describe_hub_refusal, describe_hub_unreachable, describe_missing_api
from fleet.cli.progress import show_progress
from fleet.errors import FleetError

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
TEXT: Final = "text/plain"
STATE: Final = "Fleet-State"
"""Response header with the state of the placement."""
DEFAULT_TIMEOUT: Final = 60.0
"""Seconds without a byte. The API times out after half of that, and streams send keep-alives."""
_COMMANDS: Final = (
    (re.compile(r"GET /v1/placements/-/(\S+)/history"), r"`fleet history \1`"),
    (re.compile(r"GET /v1/placements/(\S+)/history"), r"`fleet history \1`"),
    (re.compile(r"GET /v1/placements/\{ns\}/\{name\}/why"), "`fleet why PLACEMENT`"),
    (re.compile(r"GET /v1/placements(?!/)"), "`fleet get placements`"),
    (re.compile(r"GET /v1/clusters(?!/)"), "`fleet get clusters`"),
    (re.compile(r"GET /v1/groups(?!/)"), "`fleet groups`"),
    (re.compile(r"GET /v1/waiting(?!/)"), "`fleet waiting`"),
)
_PROBE_TIMEOUT: Final = 5.0
_MAY_BE_MISSING: Final = (http.client.FORBIDDEN, http.client.NOT_FOUND)
_CHUNK_SIZE: Final = 2**16
_MAX_PROBLEM_SIZE: Final = 2**20


class ApiRefusal(FleetError):
    """An error response, or no response. `status` is 0 if the API was not reached."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class StreamInterrupted(ApiRefusal):
    """A stream broke off; everything received before is valid."""


def build_mismatch(connection: ApiConnection, reason: str) -> ApiRefusal:
    """For an answer that no API of this version gives."""
    step = f"check the address, and that the API is of version {__version__}, as this command"
    return ApiRefusal(f"{connection.url} is not a Fleet API: {reason}\nnext: {step}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    path: str
    """Already quoted."""
    query: Mapping[str, str | int | None] = field(default_factory=dict)
    body: Any = None
    """Not None: a POST."""
    follows: bool = False
    """A stream without an end."""

    def build_target(self, *, through_hub: bool) -> str:
        given = {name: str(value) for name, value in self.query.items() if value is not None}
        if self.follows and through_hub:
            given["watch"] = "true"  # else the hub's API server would end it after a minute
        return f"{self.path}?{urlencode(given)}" if given else self.path


def fetch(connection: ApiConnection, request: ApiRequest, *, accept: str, timeout: float = DEFAULT_TIMEOUT) -> bytes:
    """The whole response body. Raises ApiRefusal."""
    with open_stream(connection, request, accept=accept, timeout=timeout) as chunks:
        return b"".join(chunks)


@dataclass(frozen=True, slots=True)
class TextAnswer:
    content: str
    state: str
    """State of the placement; empty if the header is missing."""


def fetch_text(connection: ApiConnection, request: ApiRequest) -> TextAnswer:
    with _open(connection, request, TEXT, DEFAULT_TIMEOUT) as response:
        content = b"".join(_read_chunks(response, connection))
        return TextAnswer(content.decode(errors="replace"), response.headers.get(STATE, ""))


def fetch_json(connection: ApiConnection, request: ApiRequest, *, timeout: float = DEFAULT_TIMEOUT) -> Any:
    body = fetch(connection, request, accept=JSON, timeout=timeout)
    try:
        return json.loads(body)
    except ValueError as error:
        raise build_mismatch(connection, f"{request.path} did not return JSON") from error


@contextmanager
def open_stream(
    connection: ApiConnection, request: ApiRequest, *, accept: str, timeout: float = DEFAULT_TIMEOUT
) -> Iterator[Iterator[bytes]]:
    """The response body in chunks, as it arrives."""
    with _open(connection, request, accept, timeout) as response:
        yield _read_chunks(response, connection)


# --- internals ------------------------------------------------------------------------------------------------------


class _KeepResponses(HTTPErrorProcessor):
    """Error responses are not exceptions, and redirects are not followed, because they would forward the token."""

    def http_response(self, request: Request, response: Any) -> Any:
        del request
        return response

    https_response = http_response


@contextmanager
def _open(
    connection: ApiConnection, request: ApiRequest, accept: str, timeout: float
) -> Iterator[http.client.HTTPResponse]:
    response = _send(connection, request, accept, timeout)
    if response.status == http.client.UNAUTHORIZED and connection.hub is not None and connection.hub.renew():
        response.close()
        response = _send(connection, request, accept, timeout)
    with response:
        if response.status != http.client.OK:
            raise _build_refusal(response, connection)
        yield response


def _has_no_api(connection: ApiConnection) -> bool:
    """Whether the hub knows nothing of the API: rights are reviewed before it looks for that."""
    try:
        with _send(connection, ApiRequest(path="/v1"), JSON, _PROBE_TIMEOUT) as response:
            return response.status == http.client.NOT_FOUND
    except FleetError:
        return False


def _send(connection: ApiConnection, request: ApiRequest, accept: str, timeout: float) -> http.client.HTTPResponse:
    try:
        # First, because a plugin for credentials may ask something on the terminal.
        opener, prepared = _opener(connection), _request(connection, request, accept)
        with show_progress(f"waiting for {connection.url}") if timeout >= DEFAULT_TIMEOUT else nullcontext():
            response: http.client.HTTPResponse = opener.open(prepared, timeout=timeout)
    except URLError as error:
        raise ApiRefusal(_describe_unreachable(connection, error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise ApiRefusal(_describe_unreachable(connection, error)) from error
    return response


def _opener(connection: ApiConnection) -> OpenerDirector:
    handlers: list[BaseHandler] = [_KeepResponses()]
    if connection.hub is not None and (tls := connection.hub.tls()) is not None:
        handlers.append(HTTPSHandler(context=tls))
    if connection.hub is not None and connection.hub.proxy:
        handlers.append(ProxyHandler(dict.fromkeys(("http", "https"), connection.hub.proxy)))
    elif _is_loopback(urlsplit(connection.url).hostname or ""):
        handlers.append(ProxyHandler({}))  # a proxy cannot reach a loopback address
    return build_opener(*handlers)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _request(connection: ApiConnection, request: ApiRequest, accept: str) -> Request:
    headers = {"Accept": f"{accept}, application/problem+json;q=0.5", "User-Agent": f"fleet/{__version__}"}
    if connection.token:
        headers["Authorization"] = f"Bearer {connection.token}"
    elif connection.hub is not None:
        headers |= connection.hub.headers()
    data = None
    if request.body is not None:
        data = json.dumps(request.body).encode()
        headers["Content-Type"] = JSON
    target = request.build_target(through_hub=connection.hub is not None)
    return Request(f"{connection.url}{target}", data=data, headers=headers)


def _read_chunks(response: http.client.HTTPResponse, connection: ApiConnection) -> Iterator[bytes]:
    while True:
        try:
            piece = response.read1(_CHUNK_SIZE)
        except (OSError, http.client.HTTPException) as error:
            raise StreamInterrupted(f"{connection.url} broke off its response: {_describe_reason(error)}") from error
        if piece:
            yield piece
        elif response.length:  # announced but not sent; http.client detects this for chunked responses only
            raise StreamInterrupted(f"{connection.url} broke off its response: {response.length} bytes are missing")
        else:
            return


def _build_refusal(response: http.client.HTTPResponse, connection: ApiConnection) -> ApiRefusal:
    status, body, problem = response.status, b"", None
    with suppress(OSError, http.client.HTTPException, ValueError):
        body = response.read(_MAX_PROBLEM_SIZE)
        problem = json.loads(body)
    is_problem = isinstance(problem, dict) and "detail" in problem
    if connection.hub is not None and not is_problem:
        is_missing = status in _MAY_BE_MISSING and _has_no_api(connection)
        if is_missing:
            return ApiRefusal(describe_missing_api(connection), status=status)
        return ApiRefusal(describe_hub_refusal(connection, status, body, problem), status=status)
    if not isinstance(problem, dict) or "detail" not in problem:
        return ApiRefusal(
            f"{connection.url} returned {status} {response.reason}, which is not an error of the Fleet API\n"
            "next: check the address",
            status=status,
        )
    return ApiRefusal(render_problem(status, problem), status=status)


def render_problem(status: int, problem: Mapping[str, Any]) -> str:
    """The object, field and problem, and on a line of its own the next step."""
    detail, name, about = (str(problem.get(part) or "") for part in ("detail", "field", "object"))
    where = f"{name} {json.dumps(problem['value'])}" if "value" in problem and name else name
    text = f"{where}: {detail}" if where and name not in detail else detail
    if about and about not in text:
        text = f"{about}: {text}"
    steps = [_replace_endpoints(str(problem["next"]))] if problem.get("next") else []
    if status == http.client.UNAUTHORIZED:
        steps.append(f"set --token-file (or {TOKEN_FILE}) to the file with your token")
    return "\n".join([text, *(f"next: {step}" for step in steps)])


def _replace_endpoints(step: str) -> str:
    """Replace endpoints of the API by the commands that use them."""
    for endpoint, command in _COMMANDS:
        step = endpoint.sub(command, step)
    return step


def _describe_unreachable(connection: ApiConnection, reason: object) -> str:
    text = f"{connection.url} cannot be reached: {_describe_reason(reason)}"
    if connection.hub is not None:
        return describe_hub_unreachable(connection, text)
    if connection.is_last_up:
        return f"{text}\nnext: check that `fleet up` is still running"
    return f"{text}\nnext: check --api or FLEET_API, and that the API is running"


def _describe_reason(reason: object) -> str:
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    if isinstance(reason, socket.gaierror):
        return "its name is not known"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__
