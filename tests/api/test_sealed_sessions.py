"""Sessions that outlive the process and that every replica takes: they are sealed with the certificate's key."""

from __future__ import annotations

import asyncio
import base64
import secrets
import string
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.auth.browser import MOST_ENDED_OF_CALLER, SESSION_SECONDS, BrowserSessions
from api.auth.sealing import Sealer
from api.http.limits import StreamTiming
from fleet.clock import SystemClock
from fleet.settings import load_settings
from tests.api.stage import READER, Running, Stage, a_stage, live_beside
from tests.api.test_browser_sessions import SAME, SESSION, ask, sign_in
from tests.fake_clock import FakeClock


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return renew(tmp_path / "tls.key")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def renew(file: Path) -> Path:
    """As the kubelet does: a new file takes the place of the old one."""
    written = file.with_suffix(".new")
    written.write_bytes(trustme.CA().issue_cert("fleet").private_key_pem.bytes())
    return written.replace(file)


def a_replica(stage: Stage, key: Path, timing: StreamTiming | None = None) -> Stage:
    """Another process of the same API, or the same one after a restart."""
    app = create_app(
        live_beside(stage),
        stage.history,
        HubAuthorizer(stage.hub, clock=SystemClock()),
        load_settings(None, {}, []),
        sealer=Sealer(key),
        stream_timing=timing,
    )
    return replace(stage, app=app)


# --- replicas ---------------------------------------------------------------------------------------------------------


def test_another_replica_takes_the_session(running: Running, key: Path) -> None:
    async def test() -> None:
        first, second = a_replica(running.stage, key), a_replica(running.stage, key)
        cookie = await sign_in(first)

        answers = [await ask(stage, "GET", SESSION, cookie) for stage in (first, second)]
        expires = {answer.json()["expires"] for answer in answers}
        assert [answer.json()["user"] for answer in answers] == ["rosa", "rosa"]
        assert len(expires) == 1
        assert (await ask(second, "GET", "/v1/placements/-/web", cookie)).status_code == 200
        assert (await ask(second, "GET", "/v1/placements/-/big", cookie)).status_code == 403
        forged = await ask(second, "POST", "/v1/simulate", cookie, {}, **{"Sec-Fetch-Site": "cross-site"})
        assert forged.status_code == 403

    running.call(test())


def test_a_replica_with_another_key_asks_to_sign_in(running: Running, key: Path, tmp_path: Path) -> None:
    async def test() -> None:
        cookie = await sign_in(a_replica(running.stage, key))
        stranger = a_replica(running.stage, renew(tmp_path / "other.key"))

        answer = await ask(stranger, "GET", SESSION, cookie)
        assert answer.status_code == 401
        assert answer.json()["next"] == "sign in again at /ui/signin"

    running.call(test())


def test_a_session_ends_where_it_is_signed_out_and_its_streams_with_it(tmp_path: Path, key: Path) -> None:
    async def main() -> None:
        async with a_stage(tmp_path) as stage:
            replica = a_replica(stage, key, StreamTiming(poll_interval=0.01, heartbeat=0.02))
            cookie = await sign_in(replica)
            path = "/v1/decisions?placement=web"
            async with replica.client(None, Cookie=cookie, Accept="text/event-stream") as client:
                reading = asyncio.create_task(client.get(path))
                while not replica.app.state.shared.streams.in_flight:
                    await asyncio.sleep(0.01)
                assert (await ask(replica, "DELETE", SESSION, cookie, **SAME)).status_code == 204
                assert (await asyncio.wait_for(reading, 60)).status_code == 200
            assert (await ask(replica, "GET", SESSION, cookie)).status_code == 401

    asyncio.run(main())


# --- cookies ----------------------------------------------------------------------------------------------------------


def test_a_session_ends_after_its_time(key: Path, clock: FakeClock) -> None:
    cookie, session = BrowserSessions(clock, Sealer(key)).open("rosa", READER)
    restarted = BrowserSessions(clock, Sealer(key))

    assert restarted.find(cookie) == session
    clock.advance(SESSION_SECONDS - 1)
    assert restarted.find(cookie) is not None
    clock.advance(1)
    assert restarted.find(cookie) is None


def test_after_a_renewal_of_the_certificate_sessions_go_on(key: Path, clock: FakeClock) -> None:
    sessions = BrowserSessions(clock, Sealer(key))
    first, _ = sessions.open("rosa", READER)
    renew(key)
    second, _ = sessions.open("rosa", READER)

    assert sessions.find(first) is not None
    assert BrowserSessions(clock, Sealer(key)).find(second) is not None
    key.unlink()
    assert sessions.find(second) is not None


def test_a_cookie_shows_nothing_and_cannot_be_changed(key: Path, clock: FakeClock) -> None:
    sessions = BrowserSessions(clock, Sealer(key))
    cookie, _ = sessions.open("rosa", READER)
    again, _ = sessions.open("rosa", READER)
    content = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))

    assert READER.encode() not in content
    assert b"rosa" not in content
    assert cookie != again
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1
        assert sessions.find(base64.urlsafe_b64encode(changed).decode()) is None
    for other in ("", "x", cookie[:-3], f"{cookie}AAAA", "é", " " + cookie):
        assert sessions.find(other) is None


def test_a_cookie_that_was_signed_out_cannot_be_spelled_otherwise(key: Path, clock: FakeClock) -> None:
    sessions = BrowserSessions(clock, Sealer(key))
    for size in range(32, 40):
        cookie, _ = sessions.open("rosa", secrets.token_urlsafe(size))
        content = base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4))
        sessions.close(cookie)

        last = {cookie[:-1] + letter for letter in f"{string.ascii_letters}{string.digits}-_"}
        spellings = last | {base64.b64encode(content).decode(), base64.urlsafe_b64encode(content).decode()}
        assert [spelling for spelling in spellings if sessions.find(spelling)] == []


def test_a_token_too_long_for_a_cookie_stays_in_memory(key: Path, clock: FakeClock) -> None:
    sessions = BrowserSessions(clock, Sealer(key))
    token = secrets.token_urlsafe(4000)
    cookie, session = sessions.open("rosa", token)

    assert len(cookie) < 100
    assert sessions.find(cookie) is session
    sessions.close(cookie)
    assert sessions.find(cookie) is None


def test_a_caller_who_signs_out_often_takes_a_bounded_room(key: Path, clock: FakeClock) -> None:
    sessions = BrowserSessions(clock, Sealer(key))
    cookies = [sessions.open("rosa", READER)[0] for _ in range(2 * MOST_ENDED_OF_CALLER)]
    other, _ = sessions.open("olga", READER)
    sessions.close(other)
    for cookie in cookies:
        sessions.close(cookie)

    assert len(sessions) == 0
    assert sessions.find(other) is None
    known = cookies[-MOST_ENDED_OF_CALLER:]
    assert [sessions.find(cookie) for cookie in known] == [None] * len(known)
