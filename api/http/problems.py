"""Error responses as `application/problem+json`: the object, the field and value that are wrong, and the next step.

Internal errors are logged; their text is not returned to callers.
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
    409: "Not possible as things are",
    410: "No longer kept",
    413: "Request too large",
    415: "Unsupported media type",
    422: "Cannot be evaluated",
    429: "Too many questions at once",
    500: "Internal error",
    503: "Not available",
}

log = structlog.get_logger(__name__)


class ProblemDetails(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
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


class ProblemError(FleetError):
    def __init__(self, problem: ProblemDetails, headers: Mapping[str, str] | None = None) -> None:
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


def refusal(
    status: int, detail: str, *, next: str, title: str = "", headers: Mapping[str, str] | None = None, **more: Any
) -> ProblemError:
    problem = ProblemDetails(title=title or TITLES[status], status=status, detail=detail, next=next, **more)
    return ProblemError(problem, headers)


def not_found(object: str, next: str) -> ProblemError:
    """Of what the history would know if it had ever been there."""
    return not_there(f"{object} was never seen here", next, object=object)


def not_there(detail: str, next: str, *, object: str) -> ProblemError:
    return refusal(404, detail, object=object, next=next)


def unprocessable(field: str, value: Any, detail: str, next: str, *, object: str = "") -> ProblemError:
    return refusal(422, detail, object=object, field=field, value=_echo(value), next=next)


def busy(limit: int, what: str, *, seconds: float) -> ProblemError:
    """`seconds` is when a slot is expected to be free: a shorter wait is refused again, a longer one leaves it idle."""
    wait = min(max(math.ceil(seconds), _SOONEST), _LATEST)
    headers = {"Retry-After": str(wait)}
    return refusal(429, f"{limit} {what} are under way already", headers=headers, next=f"try again in {wait} s")


def unavailable(detail: str, next: str = "") -> ProblemError:
    headers = {"Retry-After": str(_LATER)}
    return refusal(503, detail, headers=headers, next=next or f"try again in {_LATER} s")


def handle_problems(app: FastAPI) -> None:
    """All errors get the same form."""
    app.add_exception_handler(ProblemError, _handle_refusal)
    app.add_exception_handler(InputError, _handle_input_error)
    app.add_exception_handler(HistoryUnavailable, _handle_history_unavailable)
    app.add_exception_handler(ApiError, _handle_hub_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_parameter)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_middleware(UnhandledErrors)


async def _handle_refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return error.response()


async def _handle_input_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, InputError)
    what = error.field or "it"
    return unprocessable(error.field, error.value, error.message, f"correct {what} and ask again").response()


async def _handle_history_unavailable(_: Request, error: Exception) -> Response:
    return unavailable(str(error), "try again later; /readyz shows whether the history is back").response()


async def _handle_hub_error(request: Request, error: Exception) -> Response:
    """Includes failed reviews of tokens and rights: without them nothing is answered."""
    log.warning("the hub did not answer", path=request.url.path, error=str(error))
    return unavailable("the hub does not answer at the moment").response()


async def _handle_invalid_parameter(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place, *path = map(str, first["loc"])
    name = ".".join(path) or place
    message = str(first["msg"]).replace("Input should", "should").replace("String should", "should")
    return unprocessable(
        name, first.get("input"), f"{name} {message}", f"correct the {place} parameter {name}"
    ).response()


async def _handle_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.status_code if error.status_code in TITLES else 400
    path = request.url.path
    detail, next_step = f"{error.detail}: {request.method} {path}", "see /openapi.json for what there is"
    return refusal(status, detail, headers=error.headers, object=path, next=next_step).response()


class UnhandledErrors:
    """Logs unexpected errors once and answers 500 unless a response has started.

    As middleware, because Starlette re-raises an error after its handler, and the server would log it again."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def send_and_observe(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_observe)
        except Exception as error:
            if started:
                raise  # the server logs it and aborts the response
            log.error("a request failed", path=scope["path"], exc_info=error)
            answer = refusal(500, "internal error; the log has the details", next="report it with the log")
            await answer.response()(scope, receive, send)


def _echo(value: Any) -> Any:
    """Short values that are valid JSON come back as they were sent."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} ..."
