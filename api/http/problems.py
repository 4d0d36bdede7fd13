"""Refusals, as `application/problem+json`: what was asked, which field and value are in the way, and what to do next.

Nothing that went wrong inside is told to callers beyond the fact; it is logged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleet.errors import ApiError, FleetError, HistoryUnavailable, InputError

MEDIA_TYPE: Final = "application/problem+json"
_LONGEST_VALUE: Final = 200
_SOONEST, _LATEST = 1, 30
_LATER: Final = 5

TITLES: Final = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    410: "No longer kept",
    413: "Request too large",
    415: "Unsupported media type",
    422: "Cannot be evaluated",
    429: "Too many questions at once",
    500: "Internal error",
    503: "Not available",
}

log = structlog.get_logger(__name__)


class Problem(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Why a request was refused (RFC 9457)."""

    title: str
    status: int
    detail: str
    object: str = ""
    """What was asked about."""
    field: str = ""
    """The parameter, header or place in the body that is in the way."""
    value: Any = None
    """What stood there."""
    next: str = ""
    """What to do about it."""


class Refused(FleetError):
    def __init__(self, problem: Problem, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.headers = dict(headers or {})

    def response(self) -> Response:
        return Response(
            msgspec.json.encode(self.problem),
            status_code=self.problem.status,
            media_type=MEDIA_TYPE,
            headers=self.headers,
        )


def refused(status: int, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Refused:
    return Refused(Problem(title=TITLES[status], status=status, detail=detail, **more), headers)


def not_found(object: str, next: str) -> Refused:
    return refused(404, f"{object} was never seen here", object=object, next=next)


def unprocessable(field: str, value: Any, detail: str, next: str, *, object: str = "") -> Refused:
    return refused(422, detail, object=object, field=field, value=_shown(value), next=next)


def busy(limit: int, what: str, *, seconds: float) -> Refused:
    """`seconds` is when there is room again, as far as one can tell: who comes back for nothing is refused again, and
    who is sent away for long may find it empty."""
    wait = min(max(math.ceil(seconds), _SOONEST), _LATEST)
    headers = {"Retry-After": str(wait)}
    return refused(429, f"{limit} {what} are under way already", headers=headers, next=f"try again in {wait} s")


def unavailable(detail: str, next: str = "") -> Refused:
    headers = {"Retry-After": str(_LATER)}
    return refused(503, detail, headers=headers, next=next or f"try again in {_LATER} s")


def handle_problems(app: FastAPI) -> None:
    """Every way to refuse a request looks alike."""
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(HistoryUnavailable, _history_unavailable)
    app.add_exception_handler(ApiError, _hub_error)
    app.add_exception_handler(RequestValidationError, _invalid_parameter)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(Failures)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response()


async def _input_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    return unprocessable(error.field, error.value, error.message, "correct it and ask again").response()


async def _history_unavailable(_: Request, error: Exception) -> Response:
    return unavailable(str(error), "try again later; /readyz says when the history is back").response()


async def _hub_error(request: Request, error: Exception) -> Response:
    """Also while asking who the caller is: nothing is answered then."""
    log.warning("the hub did not answer", path=request.url.path, error=str(error))
    return unavailable("the hub does not answer at the moment").response()


async def _invalid_parameter(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place, *path = (str(one) for one in first["loc"])
    name = ".".join(path) or place
    message = str(first["msg"]).replace("Input should", "should").replace("String should", "should")
    return unprocessable(
        name, first.get("input"), f"{name} {message}", f"correct the {place} parameter {name}"
    ).response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code if error.status_code in TITLES else 400
    path = request.url.path
    detail, next_step = f"{error.detail}: {request.method} {path}", "see /openapi.json for what there is"
    return refused(status, detail, headers=error.headers, object=path, next=next_step).response()


class Failures:
    """What nobody expected: logged once, and answered unless an answer has begun. A handler would not do: after it the
    error goes on to the server, which logs it as well."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = False

        async def send_noted(message: Message) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        except Exception as error:
            if began:
                raise  # the server logs it and cuts the answer off
            log.error("a request failed", path=scope["path"], exc_info=error)
            failed = refused(500, "the answer could not be made; the log says why", next="report it with the log")
            await failed.response()(scope, receive, send)


def _shown(value: Any) -> Any:
    """Values come back as they were sent, if they are short and can be written as JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} ..."
