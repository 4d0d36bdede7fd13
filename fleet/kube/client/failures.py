"""Error responses of the API server as exceptions.

Reasons count before codes: 409 and 410 each mean two things, and some timeouts come as 500. The response of a proxy has
no Status, so its code decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import structs

from fleet.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    InternalError,
    Invalid,
    NotFound,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

_BY_REASON: Final[Mapping[str, type[ApiError]]] = {
    "AlreadyExists": AlreadyExists,
    "BadRequest": BadRequest,
    "Conflict": Conflict,
    "Expired": Gone,
    "Forbidden": Forbidden,
    "Gone": Gone,
    "InternalError": InternalError,
    "Invalid": Invalid,
    "NotFound": NotFound,
    "ServerTimeout": ServerTimeout,
    "ServiceUnavailable": Unavailable,
    "Timeout": ServerTimeout,
    "TooManyRequests": TooManyRequests,
    "Unauthorized": Unauthorized,
}
_BY_CODE: Final[Mapping[int, type[ApiError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: ServerTimeout,
}
_MAX_SHOWN: Final = 200


class _Cause(msgspec.Struct, frozen=True):
    field: str = ""
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: tuple[_Cause, ...] | None = None
    retry_after_seconds: int = 0


class ApiStatus(msgspec.Struct, frozen=True):
    """The object that the API server sends in an error response."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


_DECODER: Final = msgspec.json.Decoder(ApiStatus)


def parse_error(code: int, body: bytes, *, retry_after: str = "", doing: str = "") -> ApiError:
    """The error of a response. `doing` names the request in the message."""
    status = _parse_status(body)
    message = status.message or body[:_MAX_SHOWN].decode(errors="replace").strip() or "no explanation"
    named = structs.replace(status, code=status.code or code, message=f"{doing}: {message}" if doing else message)
    return build_error(named, retry_after=_parse_retry_after(retry_after))


def build_error(status: ApiStatus, *, retry_after: float = 0.0) -> ApiError:
    details = status.details or _Details()
    return _select_class(status)(
        status.message or "no explanation",
        status=status.code,
        reason=status.reason,
        causes=tuple(Cause(cause.field, cause.reason, cause.message) for cause in details.causes or ()),
        retry_after=retry_after or float(details.retry_after_seconds) or None,
    )


def _select_class(status: ApiStatus) -> type[ApiError]:
    error_class = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code)
    return error_class or (BadRequest if 400 <= status.code < 500 else InternalError)


def _parse_status(body: bytes) -> ApiStatus:
    try:
        status = _DECODER.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ApiStatus()
    return status if status.kind == "Status" else ApiStatus()


def _parse_retry_after(retry_after: str) -> float:
    """The header's other form, a date, is never used by Kubernetes."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
