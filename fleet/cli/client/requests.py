"""One question to the API over HTTP, and its answer or why there is none.

Made of the standard library alone: an answer on the command line should not wait for a client to be loaded.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import BaseHandler, HTTPErrorProcessor, OpenerDirector, ProxyHandler, Request, build_opener

from fleet import __version__
from fleet.cli.client.connection import TOKEN_FILE, Connection
from fleet.errors import FleetError

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
TEXT: Final = "text/plain"
STATE: Final = "Fleet-State"
"""A header: the state of the placement that an answer is about."""
PATIENCE: Final = 60.0
"""Seconds without a byte. The API gives up on a question after half of that, and streams give signs of life."""
_COMMANDS: Final = (
    (re.compile(r"GET /v1/placements/-/(\S+)/history"), r"`fleet history \1`"),
    (re.compile(r"GET /v1/placements/(\S+)/history"), r"`fleet history \1`"),
    (re.compile(r"GET /v1/placements/\{ns\}/\{name\}/why"), "`fleet why PLACEMENT`"),
    (re.compile(r"GET /v1/placements(?!/)"), "`fleet get placements`"),
    (re.compile(r"GET /v1/clusters(?!/)"), "`fleet get clusters`"),
)
_PIECE: Final = 2**16
_LONGEST_REFUSAL: Final = 2**20


class Refusal(FleetError):
    """The API refused a question, or did not answer it. `status` is 0 if nobody was there."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Interrupted(Refusal):
    """A stream ended in the middle: what came until then was right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    path: str
    """Quoted already."""
    query: Mapping[str, str | int | None] = field(default_factory=dict)
    body: Any = None
    """Makes it a POST."""

    @property
    def target(self) -> str:
        given = {name: str(value) for name, value in self.query.items() if value is not None}
        return f"{self.path}?{urlencode(given)}" if given else self.path


def ask(connection: Connection, question: Question, *, accept: str, patience: float = PATIENCE) -> bytes:
    """The whole answer. Everything else is a Refusal."""
    with pieces(connection, question, accept=accept, patience=patience) as found:
        return b"".join(found)


@dataclass(frozen=True, slots=True)
class Text:
    content: str
    state: str
    """Of the placement it is about; empty where that is not said."""


def ask_text(connection: Connection, question: Question) -> Text:
    with _opened(connection, question, TEXT, PATIENCE) as response:
        content = b"".join(_read(response, connection))
        return Text(content.decode(errors="replace"), response.headers.get(STATE, ""))


def ask_json(connection: Connection, question: Question, *, patience: float = PATIENCE) -> Any:
    body = ask(connection, question, accept=JSON, patience=patience)
    try:
        return json.loads(body)
    except ValueError as error:
        raise Refusal(f"{connection.url} is no API of Fleet: {question.path} was not answered in JSON") from error


@contextmanager
def pieces(
    connection: Connection, question: Question, *, accept: str, patience: float = PATIENCE
) -> Iterator[Iterator[bytes]]:
    """The answer as it arrives."""
    with _opened(connection, question, accept, patience) as response:
        yield _read(response, connection)


# --- inside ---------------------------------------------------------------------------------------------------------


class _AsTheyAre(HTTPErrorProcessor):
    """Refusals are answers, and redirects are not followed: they would take the token along."""

    def http_response(self, request: Request, response: Any) -> Any:
        del request
        return response

    https_response = http_response


@contextmanager
def _opened(
    connection: Connection, question: Question, accept: str, patience: float
) -> Iterator[http.client.HTTPResponse]:
    try:
        response = _opener(connection).open(_request(connection, question, accept), timeout=patience)
    except URLError as error:
        raise Refusal(_unreachable(connection, error.reason)) from error
    except (OSError, http.client.HTTPException) as error:
        raise Refusal(_unreachable(connection, error)) from error
    with response:
        if response.status != http.client.OK:
            raise _refusal(response, connection)
        yield response


def _opener(connection: Connection) -> OpenerDirector:
    handlers: list[BaseHandler] = [_AsTheyAre()]
    if _is_here(urlsplit(connection.url).hostname or ""):
        handlers.append(ProxyHandler({}))  # no proxy can reach what listens on this machine only
    return build_opener(*handlers)


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _request(connection: Connection, question: Question, accept: str) -> Request:
    headers = {"Accept": f"{accept}, application/problem+json;q=0.5", "User-Agent": f"fleet/{__version__}"}
    if connection.token:
        headers["Authorization"] = f"Bearer {connection.token}"
    data = None
    if question.body is not None:
        data = json.dumps(question.body).encode()
        headers["Content-Type"] = JSON
    return Request(f"{connection.url}{question.target}", data=data, headers=headers)


def _read(response: http.client.HTTPResponse, connection: Connection) -> Iterator[bytes]:
    while True:
        try:
            piece = response.read1(_PIECE)
        except (OSError, http.client.HTTPException) as error:
            raise Interrupted(f"{connection.url} broke off its answer: {_said(error)}") from error
        if piece:
            yield piece
        elif response.length:  # promised and not sent; http.client finds that out for chunks only
            raise Interrupted(f"{connection.url} broke off its answer: {response.length} bytes are missing")
        else:
            return


def _refusal(response: http.client.HTTPResponse, connection: Connection) -> Refusal:
    status = response.status
    try:
        problem = json.loads(response.read(_LONGEST_REFUSAL))
    except (OSError, http.client.HTTPException, ValueError):
        problem = None
    if not isinstance(problem, dict) or "detail" not in problem:
        return Refusal(
            f"{connection.url} answered {status} {response.reason}, which is not how the API of Fleet refuses: "
            "check the address",
            status=status,
        )
    return Refusal(problem_text(status, problem), status=status)


def problem_text(status: int, problem: Mapping[str, Any]) -> str:
    """What is in the way, where it stands, and in a line of its own what to do about it."""
    detail, name, about = (str(problem.get(part) or "") for part in ("detail", "field", "object"))
    where = f"{name} {json.dumps(problem['value'])}" if "value" in problem and name else name
    text = f"{where}: {detail}" if where and name not in detail else detail
    if about and about not in text:
        text = f"{about}: {text}"
    steps = [_in_commands(str(problem["next"]))] if problem.get("next") else []
    if status == http.client.UNAUTHORIZED:
        steps.append(f"name the file with your token by --token-file FILE or {TOKEN_FILE}")
    return "\n".join([text, *(f"next: {step}" for step in steps)])


def _in_commands(step: str) -> str:
    """The API speaks of its endpoints, to whom they are a foreign language here."""
    for endpoint, command in _COMMANDS:
        step = endpoint.sub(command, step)
    return step


def _unreachable(connection: Connection, reason: object) -> str:
    text = f"{connection.url} cannot be reached: {_said(reason)}"
    if connection.is_last_up:
        return f"{text}\nnext: see whether `fleet up` is still running"
    return f"{text}\nnext: check --api or FLEET_API, and that the API is running"


def _said(reason: object) -> str:
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    if isinstance(reason, socket.gaierror):
        return "its name is not known"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return str(reason) or type(reason).__name__
