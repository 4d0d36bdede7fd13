"""Sessions of browsers: sign in with a token or a one-time link, sign out."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from api.auth.browser import (
    SIGN_IN,
    BrowserSession,
    format_cookie,
    read_cookie,
    refuse_other_pages,
    require_own_page,
)
from api.auth.permissions import Permissions
from api.http.bodies import convert_body, read_json_object
from api.http.problems import refusal, unprocessable
from api.http.schema import describe_answers, describe_body, describe_refusals, schema_ref
from api.page_models import SessionLink, SessionModel, SessionRequest
from api.routers.request_context import AppState, CurrentRequest, check_parameters
from fleet.model.timestamps import format_timestamp

router = APIRouter(tags=["sessions"])

_EXAMPLE: Final = {"user": "rosa", "expires": "2026-03-10T21:00:00Z"}
_LINK: Final = {"path": f"{SIGN_IN}#7Vv2TnYxq0m8JkC4dQe1Rw", "expires": "2026-03-10T09:10:00Z"}
_BODY: Final[dict[str, Any]] = describe_body(SessionRequest, example={"code": "7Vv2TnYxq0m8JkC4dQe1Rw", "user": "rosa"})
_BODY["requestBody"]["required"] = False
_UNCONFIRMED: Final[dict[int | str, Any]] = {
    202: {
        "description": "The user of the link, who is to be confirmed: `user` was not sent, or is another one.",
        "content": {"application/json": {"schema": schema_ref(SessionModel)}},
    }
}
_LARGEST_BODY: Final = 4096
"""Bytes: it is read before the caller is known."""
_HEADERS: Final = {"Cache-Control": "no-store"}
_SIGNED_OUT: Final = {**_HEADERS, "Clear-Site-Data": '"cache"'}


@router.get(
    "/v1/session",
    summary="The caller",
    responses=describe_answers(SessionModel, example=_EXAMPLE),
)
async def get_session(context: CurrentRequest) -> Response:
    """By a session or a bearer token. A page asks this first: after 401 it lets its user sign in."""
    expires = None if context.session is None else format_timestamp(context.session.expires)
    return _answer(SessionModel(user=context.permissions.caller.name, expires=expires))


@router.post(
    "/v1/session",
    summary="Sign in",
    responses=describe_answers(
        SessionModel, example=_EXAMPLE, refusals=(413, 415), description="With the cookie of a session."
    )
    | _UNCONFIRMED,
    openapi_extra=_BODY,
)
async def open_session(request: Request) -> Response:
    """With a bearer token in the header Authorization, or with the code of a one-time link and the name of its user in
    the body. The session has the rights of that token, as long as the hub accepts it and at most for twelve hours."""
    check_parameters(request)
    refuse_other_pages(request.method, request.headers)
    state: AppState = request.app.state.shared
    token = _read_bearer(request)
    if _has_body(request):
        issued, is_confirmed = await _read_code(request, state)
        if not is_confirmed:
            return _answer(SessionModel(user=issued.caller, expires=None), status=202)
        token = issued.token
    permissions = await Permissions.authenticate(state.authorizer, f"Bearer {token}")
    request.state.caller = permissions.caller.name
    cookie, session = state.sessions.open(permissions.caller.name, token)
    answer = _answer(SessionModel(user=session.caller, expires=format_timestamp(session.expires)))
    answer.headers["Set-Cookie"] = _format_cookie(request, cookie)
    return answer


@router.delete(
    "/v1/session",
    summary="Sign out",
    status_code=204,
    responses={204: {"description": "There is no session any more."}, **describe_refusals()},
)
async def close_session(request: Request) -> Response:
    """Ends the session of the cookie, and removes the cookie of a session that has ended. Without one there is nothing
    to end."""
    check_parameters(request)
    state: AppState = request.app.state.shared
    cookie = read_cookie(request.cookies, request.headers)
    require_own_page(request.method, request.headers, cookie)
    ended = state.sessions.close(cookie)
    if ended is not None:
        request.state.caller = ended.caller
    return Response(status_code=204, headers={**_SIGNED_OUT, "Set-Cookie": _format_cookie(request, "")})


@router.post(
    "/v1/session/link",
    summary="A link that signs in",
    responses=describe_answers(SessionLink, example=_LINK),
)
async def create_link(context: CurrentRequest) -> Response:
    """For the owner of the bearer token that is sent; it works once, within ten minutes. A session makes no further
    ones."""
    token = _read_bearer(context.request)
    if not token:
        raise refusal(
            403,
            "a link is made for a bearer token, and the request has none",
            field="Authorization",
            next="send the token that the link is for; through the hub's API server, use `fleet ui`",
        )
    code, issued = context.state.sessions.issue_code(context.permissions.caller.name, token)
    return _answer(SessionLink(path=f"{SIGN_IN}#{code}", expires=format_timestamp(issued.expires)))


async def _read_code(request: Request, state: AppState) -> tuple[BrowserSession, bool]:
    """What the code in the body was issued for, and whether its user was confirmed by the one who opened the link: a
    link sent to another person would let its maker see what is entered in that session."""
    if _read_bearer(request):
        raise unprocessable("code", None, "the request has a bearer token and a body", "send one of them")
    body = convert_body(await read_json_object(request, None, largest=_LARGEST_BODY), SessionRequest)
    issued = state.sessions.find_code(body.code)
    if issued is None:
        raise _refuse_code()
    is_confirmed = body.user == issued.caller
    if is_confirmed:
        state.sessions.redeem(body.code)
    return issued, is_confirmed


def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _read_bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _refuse_code() -> Exception:
    return refusal(
        401,
        "this link was used already, or is too old",
        headers={"WWW-Authenticate": 'Bearer realm="fleet"'},
        field="code",
        next="`fleet ui` opens another link, or sign in with a token",
    )


def _format_cookie(request: Request, value: str) -> str:
    return format_cookie(request.headers.get("host", ""), value, scheme=request.url.scheme)


def _answer(value: SessionModel | SessionLink, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json", headers=_HEADERS)
