"""Responses, and the negotiation of their representation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.errors import RequestRefused
from fleet.hub.wire import statuses
from fleet.hub.wire.bodies import encode

JSON: Final = b"application/json"
TEXT: Final = b"text/plain; charset=utf-8"
_READABLE: Final = ("application/json", "application/*", "*/*")
_NOT_ACCEPTABLE: Final = "only the following media types are accepted: application/json, application/json;stream=watch"


@dataclass(frozen=True, slots=True)
class Response:
    body: bytes
    code: int = 200
    media_type: bytes = JSON
    headers: Sequence[tuple[bytes, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed response: each chunk is sent as soon as it is available."""

    chunks: AsyncIterator[bytes]
    media_type: bytes = JSON


@dataclass(frozen=True, slots=True)
class Representation:
    """The first representation in an Accept header that the hub can produce."""

    form: str = ""  # Table, PartialObjectMetadata, …; empty is the object itself
    version: str = ""
    group: str = ""


PLAIN: Final = Representation()


def json_response(document: Any, code: int = 200) -> Response:
    return Response(encode(document), code)


def error_response(error: RequestRefused) -> Response:
    headers = [(b"retry-after", b"%d" % error.retry_after)] if error.retry_after else []
    return Response(encode(statuses.build_status(error)), error.code, headers=headers)


def page_not_found() -> Response:
    return Response(b"404 page not found\n", 404, TEXT)


def warning_header(text: str) -> tuple[bytes, bytes]:
    escaped = "".join(character for character in text if character.isprintable())
    escaped = escaped.replace("\\", "\\\\").replace('"', '\\"')
    return b"warning", f'299 - "{escaped}"'.encode("ascii", "backslashreplace")


def negotiate(accept: str) -> Representation:
    if not accept or accept in ("application/json", "*/*"):
        return PLAIN
    for choice in accept.split(","):
        media_type, *parameters = (part.strip() for part in choice.split(";"))
        if media_type not in _READABLE:
            continue
        requested = dict(parameter.partition("=")[::2] for parameter in parameters)
        return Representation(requested.get("as", ""), requested.get("v", ""), requested.get("g", ""))
    raise RequestRefused(406, "NotAcceptable", _NOT_ACCEPTABLE, details={})
