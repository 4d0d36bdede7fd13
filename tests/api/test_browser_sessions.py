"""Sessions of browsers: the cookie and its flags, links that work once, other origins, and what is kept of a token."""

from __future__ import annotations

import asyncio
import re
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import structlog

from api.auth.browser import (
    CODE_SECONDS,
    MOST_OF_CALLER,
    MOST_SESSIONS,
    SESSION_SECONDS,
    BrowserSessions,
    comes_from_elsewhere,
    format_cookie,
    is_same_origin,
    name_cookie,
)
from api.http.limits import StreamTiming
from tests.api.stage import ADMIN, OPERATOR, READER, STRANGER, Running, Stage, a_stage, alone, staged
from tests.fake_clock import FakeClock

SESSION: Final = "/v1/session"
LINK: Final = "/v1/session/link"
SAME: Final = {"Sec-Fetch-Site": "same-origin"}


async def sign_in(stage: Stage, token: str = READER, **headers: str) -> str:
    """The cookie, as a browser sends it."""
    async with stage.client(token, **headers) as client:
        answer = await client.post(SESSION)
    assert answer.status_code == 200, answer.text
    return answer.headers["set-cookie"].partition(";")[0]


async def ask(stage: Stage, method: str, path: str, cookie: str, body: Any = None, **headers: str) -> httpx.Response:
    async with stage.client(None, Cookie=cookie, **headers) as client:
        return await client.request(method, path, json=body)


def redeems(code: str, user: str = "rosa") -> dict[str, str]:
    return {"code": code, "user": user}


async def create_code(stage: Stage, token: str = READER) -> str:
    link = (await stage.post(LINK, None, token)).json()
    path, _, code = link["path"].partition("#")
    assert path == "/ui/signin"
    return str(code)


# --- the cookie -------------------------------------------------------------------------------------------------------


@staged
async def test_a_token_becomes_a_session_with_the_same_rights(stage: Stage) -> None:
    cookie = await sign_in(stage)

    answer = await ask(stage, "GET", SESSION, cookie)
    assert answer.json()["user"] == "rosa"
    assert answer.json()["expires"].endswith("Z")
    clusters = (await ask(stage, "GET", "/v1/clusters", cookie)).json()
    assert clusters == await stage.json("/v1/clusters", READER)
    assert clusters["redacted"] == 3
    assert (await ask(stage, "GET", "/v1/config", cookie)).status_code == 403


@staged
async def test_the_cookie_has_every_flag(stage: Stage) -> None:
    async with stage.client(READER) as client:
        answer = await client.post(SESSION)

    (morsel,) = SimpleCookie(answer.headers["set-cookie"]).values()
    assert morsel.key == "fleet-session"
    assert (morsel["httponly"], morsel["secure"], morsel["samesite"], morsel["path"]) == (True, True, "Strict", "/")
    assert morsel["domain"] == morsel["max-age"] == ""
    assert len(morsel.value) >= 43
    assert answer.headers["cache-control"] == "no-store"
    assert READER not in answer.text + answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "host,scheme,name,secure",
    [
        ("127.0.0.1:8090", "http", "fleet-session-8090", False),
        ("[::1]:8090", "http", "fleet-session-8090", False),
        ("localhost:1", "http", "fleet-session-1", False),
        ("localhost:1", "https", "fleet-session-1", True),
        ("fleet.example", "http", "fleet-session", True),
        ("fleet.example:8443", "https", "fleet-session-8443", True),
        ("127.0.0.1.evil.example", "http", "fleet-session", True),
        ("", "http", "fleet-session", True),
        ("[broken", "http", "fleet-session", True),
        ("x:99999", "http", "fleet-session", True),
    ],
)
def test_the_cookie_is_of_one_port_and_travels_in_the_clear_on_loopback_only(
    *, host: str, scheme: str, name: str, secure: bool
) -> None:
    assert name_cookie(host) == name
    assert ("Secure" in format_cookie(host, "x", scheme=scheme)) is secure


@staged
async def test_a_session_that_is_signed_out_is_over(stage: Stage) -> None:
    cookie, other = await sign_in(stage), await sign_in(stage)

    gone = await ask(stage, "DELETE", SESSION, cookie, **SAME)

    assert gone.status_code == 204
    assert "Max-Age=0" in gone.headers["set-cookie"]
    refused = await ask(stage, "GET", SESSION, cookie)
    assert refused.status_code == 401
    assert refused.json()["field"] == "Cookie"
    assert (await ask(stage, "GET", SESSION, other)).status_code == 200


@staged
async def test_who_has_no_session_any_more_can_sign_out(stage: Stage) -> None:
    cookie = await sign_in(stage)
    for _ in range(2):  # the second time it is over
        gone = await ask(stage, "DELETE", SESSION, cookie, **SAME)
        assert gone.status_code == 204
        assert "Max-Age=0" in gone.headers["set-cookie"]

    assert (await ask(stage, "DELETE", SESSION, "")).status_code == 204
    assert (await ask(stage, "DELETE", SESSION, "", **ELSEWHERE[0])).status_code == 403


@staged
async def test_a_bearer_token_counts_and_the_cookie_beside_it_does_not(stage: Stage) -> None:
    cookie = await sign_in(stage, ADMIN)

    assert (await stage.get("/v1/config", STRANGER, Cookie=cookie)).status_code == 403
    assert (await stage.json(SESSION, STRANGER)) == {"user": "stan", "expires": None}


@staged
async def test_made_up_cookies_and_callers_without_a_token_get_no_session(stage: Stage) -> None:
    for cookie in ("fleet-session=made-up", "fleet-session=", "fleet-session-80=x", f"fleet-session={READER}"):
        assert (await ask(stage, "GET", "/v1/clusters", cookie)).status_code == 401
    assert (await stage.post(SESSION, None, "made-up")).status_code == 401
    assert (await stage.post(SESSION, None, None)).status_code == 401


# --- links ------------------------------------------------------------------------------------------------------------


@staged
async def test_a_link_signs_in_once(stage: Stage) -> None:
    code = await create_code(stage)

    first = await stage.post(SESSION, redeems(code), None)
    second = await stage.post(SESSION, redeems(code), None)

    assert first.status_code == 200
    assert first.json()["user"] == "rosa"
    assert "HttpOnly" in first.headers["set-cookie"]
    assert second.status_code == 401
    assert "set-cookie" not in second.headers
    assert "fleet ui" in second.json()["next"]


@staged
async def test_nobody_is_signed_in_by_a_link_before_they_know_as_whom(stage: Stage) -> None:
    code = await create_code(stage)

    for body in ({"code": code}, redeems(code, "olga")):
        asked = await stage.post(SESSION, body, None, **SAME)
        assert asked.status_code == 202
        assert asked.json() == {"user": "rosa", "expires": None}
        assert "set-cookie" not in asked.headers
    assert (await stage.post(SESSION, redeems(code), None, **SAME)).status_code == 200


@staged
async def test_of_many_at_once_one_signs_in(stage: Stage) -> None:
    code = await create_code(stage)

    answers = await asyncio.gather(*(stage.post(SESSION, redeems(code), None) for _ in range(10)))

    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 9


@staged
async def test_links_are_made_for_tokens_only(stage: Stage) -> None:
    cookie = await sign_in(stage)

    assert (await ask(stage, "POST", LINK, cookie, **SAME)).status_code == 403
    assert (await stage.post(LINK, None, None)).status_code == 401


@pytest.mark.parametrize("body", [{}, {"code": ""}, {"code": 3}, {"code": "x" * 300}, {"code": "x", "token": "y"}, []])
def test_a_body_of_another_form_is_refused(running: Running, body: Any) -> None:
    assert running.call(running.stage.post(SESSION, body, None)).status_code == 422


@staged
async def test_a_body_is_small_and_comes_without_a_token(stage: Stage) -> None:
    assert (await stage.post(SESSION, {"code": "x" * 5000}, None)).status_code == 413
    assert (await stage.post(SESSION, {"code": "x"}, READER)).status_code == 422
    assert (await stage.post(f"{SESSION}?code=x", None, READER)).status_code == 422


# --- other origins ----------------------------------------------------------------------------------------------------

ELSEWHERE: Final[list[dict[str, str]]] = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://fleet"},
    {"Sec-Fetch-Site": "made-up"},
    {"Origin": "http://fleet:81"},
    {"Origin": "https://elsewhere.example"},
    {"Origin": "null"},
    {"Origin": "http://[broken"},
]
HERE: Final[list[dict[str, str]]] = [
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "http://fleet"},
    {"Origin": "http://fleet"},
    {"Origin": "https://fleet"},
]


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_pages_of_other_origins_get_nothing_with_the_cookie(running: Running, headers: dict[str, str]) -> None:
    stage = running.stage
    cookie = running.call(sign_in(stage, ADMIN))

    read = running.call(ask(stage, "GET", "/v1/clusters", cookie, **headers))
    asked = running.call(ask(stage, "POST", "/v1/simulate", cookie, {"placement": {"ref": "web"}}, **headers))
    signed_out = running.call(ask(stage, "DELETE", SESSION, cookie, **headers))

    assert [read.status_code, asked.status_code, signed_out.status_code] == [403, 403, 403]
    assert "ams-1" not in read.text + asked.text
    assert running.call(ask(stage, "GET", SESSION, cookie)).status_code == 200


@pytest.mark.parametrize("headers", HERE)
def test_pages_of_this_origin_may_ask_with_the_cookie(running: Running, headers: dict[str, str]) -> None:
    cookie = running.call(sign_in(running.stage, ADMIN))

    for method, path, body in (("GET", "/v1/clusters", None), ("POST", "/v1/simulate", {"placement": {"ref": "web"}})):
        answer = running.call(ask(running.stage, method, path, cookie, body, **headers))
        assert answer.status_code == 200, answer.text


@staged
async def test_with_a_cookie_a_browser_that_states_nothing_may_only_read(stage: Stage) -> None:
    cookie = await sign_in(stage, ADMIN)

    assert (await ask(stage, "GET", "/v1/clusters", cookie)).status_code == 200
    assert (await ask(stage, "GET", "/v1/clusters", cookie, **{"Sec-Fetch-Site": "none"})).status_code == 200
    body = {"placement": {"ref": "web"}}
    assert (await ask(stage, "POST", "/v1/simulate", cookie, body)).status_code == 403
    assert (await ask(stage, "POST", "/v1/simulate", cookie, body, **{"Sec-Fetch-Site": "none"})).status_code == 403


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_no_other_page_signs_its_visitor_in(running: Running, headers: dict[str, str]) -> None:
    """It would show what was meant for another user."""
    code = running.call(create_code(running.stage))

    refused = running.call(running.stage.post(SESSION, redeems(code), None, **headers))

    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    assert running.call(running.stage.post(SESSION, redeems(code), None, **SAME)).status_code == 200


def test_a_request_without_a_host_has_no_origin() -> None:
    assert not is_same_origin("POST", {"origin": "http:"})
    assert comes_from_elsewhere("POST", {"origin": "http://fleet"})
    assert not comes_from_elsewhere("POST", {})


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sessions(clock: FakeClock) -> BrowserSessions:
    return BrowserSessions(clock)


def test_sessions_and_codes_end_after_their_time(sessions: BrowserSessions, clock: FakeClock) -> None:
    cookie, session = sessions.open("rosa", READER)
    code, _ = sessions.issue_code("rosa", READER)

    clock.advance(CODE_SECONDS - 1)
    assert sessions.find_code(code) is not None
    clock.advance(1)
    assert sessions.find_code(code) is None
    assert sessions.redeem(code) is None
    clock.advance(SESSION_SECONDS - CODE_SECONDS - 1)
    assert sessions.find(cookie) is session
    clock.advance(1)
    assert sessions.find(cookie) is None


def test_one_caller_takes_no_room_from_others(sessions: BrowserSessions) -> None:
    other, _ = sessions.open("olga", OPERATOR)
    cookies = [sessions.open("rosa", READER)[0] for _ in range(3 * MOST_OF_CALLER)]

    assert len(sessions) == MOST_OF_CALLER + 1
    assert sessions.find(other) is not None
    assert [sessions.find(cookie) is not None for cookie in cookies] == [False] * 32 + [True] * 16


def test_there_are_never_more_than_fit(sessions: BrowserSessions) -> None:
    first, _ = sessions.open("first", "x")
    for number in range(MOST_SESSIONS):
        sessions.open(f"caller-{number}", "x")

    assert len(sessions) == MOST_SESSIONS
    assert sessions.find(first) is None


def test_expired_sessions_make_room(sessions: BrowserSessions, clock: FakeClock) -> None:
    sessions.open("rosa", READER)
    clock.advance(SESSION_SECONDS)
    sessions.open("olga", OPERATOR)

    assert len(sessions) == 1


def test_nothing_that_is_printed_has_a_token_or_a_secret(sessions: BrowserSessions) -> None:
    cookie, session = sessions.open("rosa", READER)
    code, issued = sessions.issue_code("rosa", READER)

    kept = repr((session, issued, vars(sessions), sessions._sessions._values, sessions._codes._values))
    assert not [secret for secret in (READER, cookie, code) if secret in kept]


@alone
async def test_no_log_line_has_a_token_a_cookie_or_a_code(stage: Stage) -> None:
    with structlog.testing.capture_logs() as lines:
        code = await create_code(stage)
        answer = await stage.post(SESSION, redeems(code), None)
        cookie = answer.headers["set-cookie"].partition(";")[0]
        await ask(stage, "GET", "/v1/clusters", cookie)
        await stage.post(SESSION, redeems(code), None)
        await stage.post(SESSION, {"code": code, "more": 1}, None)
        await ask(stage, "DELETE", SESSION, cookie, **SAME)

    requests = [line for line in lines if line["event"] == "request"]
    assert [line["by"] for line in requests] == ["rosa", "rosa", "rosa", "", "", "rosa"]
    secrets = (READER, code, cookie.partition("=")[2])
    assert not re.search("|".join(map(re.escape, secrets)), repr(lines))


# --- streams ----------------------------------------------------------------------------------------------------------


@staged
async def test_a_stream_resumes_with_the_cookie(stage: Stage) -> None:
    cookie = await sign_in(stage)
    path, events = "/v1/decisions?placement=web&limit=1", {"Accept": "text/event-stream", **SAME}

    first = await ask(stage, "GET", f"{path}&since=0", cookie, **events)
    seq = int(re.findall(r"^id: (\d+)$", first.text, re.MULTILINE)[0])
    again = await ask(stage, "GET", path, cookie, **events, **{"Last-Event-ID": str(seq - 1)})

    assert first.headers["content-type"].startswith("text/event-stream")
    assert again.text == first.text


def test_a_stream_ends_with_its_session(tmp_path: Path) -> None:
    async def main() -> None:
        async with a_stage(tmp_path, timing=StreamTiming(poll_interval=0.01, heartbeat=0.02)) as stage:
            cookie = await sign_in(stage, ADMIN)
            async with stage.client(None, Cookie=cookie, Accept="text/event-stream") as client:
                reading = asyncio.create_task(client.get("/v1/decisions"))
                while not stage.app.state.shared.streams.in_flight:
                    await asyncio.sleep(0.01)
                await ask(stage, "DELETE", SESSION, cookie, **SAME)
                answer = await asyncio.wait_for(reading, 60)
            assert answer.status_code == 200

    asyncio.run(main())
