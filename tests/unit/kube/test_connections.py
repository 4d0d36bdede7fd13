"""Connections that are kept: which are used again, what belongs to whose answer, and how an answer ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from fleet.errors import NotLeading, Unauthorized
from fleet.kube.api import Method, Request
from fleet.kube.client import connections
from fleet.kube.client.connections import ConnectionPool, HttpResponse, ServerAddress
from fleet.kube.client.dialer import NotConnected
from tests.faults.sockets import ByteServer, Play, a_server, answer, closes, hangs, real, resets, sends, then
from tests.unit.kube.test_transport import GET, connected_to

ASKING = b"GET /things HTTP/1.1\r\nHost: hub\r\n\r\n"
UNFRAMED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"

Ask = Callable[..., Awaitable[HttpResponse]]


@asynccontextmanager
async def kept_to(*plays: Play) -> AsyncIterator[tuple[Ask, ConnectionPool, ByteServer]]:
    async with a_server(*plays) as server:
        kept = ConnectionPool(ServerAddress("127.0.0.1", server.port))

        async def ask(*, repeatable: bool = False, guard: Callable[[], object] | None = None) -> HttpResponse:
            return await kept.exchange(ASKING, guard=guard, repeatable=repeatable)

        try:
            yield ask, kept, server
        finally:
            await kept.close()


def numbered() -> Play:
    """Answers with the port of the connection: the same for as long as that is kept."""

    async def play(writer: asyncio.StreamWriter) -> None:
        await answer(str(writer.get_extra_info("peername")[1]).encode())(writer)

    return play


# --- which connection -------------------------------------------------------------------------------------------------


@real
async def test_a_connection_is_used_again() -> None:
    async with kept_to(numbered()) as (ask, _, _):
        assert (await ask()).body == (await ask()).body


@real
async def test_exchanges_at_the_same_time_have_a_connection_each() -> None:
    async with kept_to(numbered()) as (ask, _, _):
        answers = await asyncio.gather(*(ask() for _ in range(3)))
        assert len({one.body for one in answers}) == 3


@real
async def test_a_connection_that_rested_too_long_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "KEEP_ALIVE", -1.0)
    async with kept_to(numbered()) as (ask, _, _):
        assert (await ask()).body != (await ask()).body


@real
async def test_a_server_that_wants_no_more_gets_no_more() -> None:
    last = answer(b"last", headers="Connection: close\r\n")
    async with kept_to(last, numbered()) as (ask, _, server):
        assert (await ask()).body == b"last"
        assert (await ask()).body != b"last"
        assert len(server.requests) == 2


@real
async def test_what_a_cancelled_exchange_still_brings_belongs_to_nobody() -> None:
    async def answers_late(writer: asyncio.StreamWriter) -> None:
        await go.wait()
        await answer(b"late")(writer)

    go = asyncio.Event()
    async with kept_to(answers_late, answer(b"mine")) as (ask, kept, server):
        task = asyncio.ensure_future(ask())
        while not server.requests:
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        go.set()
        assert (await ask()).body == b"mine"
        assert len(kept._open) == 1


@real
async def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    twice = then(numbered(), numbered())
    async with kept_to(twice, numbered()) as (ask, kept, _):
        first = await ask()
        await asyncio.wait({one.gone for one in kept._open}, timeout=90.0)
        assert (await ask()).body != first.body


# --- a kept connection that the server closed -------------------------------------------------------------------------


@real
async def test_what_may_be_repeated_is_sent_once_more_on_a_new_connection() -> None:
    async with kept_to(answer(b"1"), closes, answer(b"2")) as (ask, _, server):
        await ask()
        assert (await ask(repeatable=True)).body == b"2"
        assert len(server.requests) == 3


@real
async def test_what_must_not_be_repeated_is_not() -> None:
    async with kept_to(answer(b"1"), closes, answer(b"2")) as (ask, _, server):
        await ask()
        with pytest.raises(ConnectionError):
            await ask()
        assert len(server.requests) == 2


@real
async def test_nothing_is_repeated_once_an_answer_has_begun() -> None:
    breaks_off = then(sends(b"HTTP/1.1 200 OK\r\nContent-Le"), closes)
    async with kept_to(answer(b"1"), breaks_off, answer(b"2")) as (ask, _, server):
        await ask()
        with pytest.raises(ConnectionError):
            await ask(repeatable=True)
        assert len(server.requests) == 2


@real
async def test_nothing_is_repeated_on_a_connection_of_its_own() -> None:
    async with kept_to(resets, answer(b"2")) as (ask, _, server):
        with pytest.raises(ConnectionError):
            await ask(repeatable=True)
        assert len(server.requests) == 1


@real
async def test_the_right_to_send_is_asked_for_again_before_a_repetition() -> None:
    left = ["once"]

    def guard() -> None:
        if not left:
            raise NotLeading("scripted")
        left.pop()

    async with kept_to(answer(b"1"), closes, answer(b"2")) as (ask, _, server):
        await ask()
        with pytest.raises(NotLeading):
            await ask(repeatable=True, guard=guard)
        assert len(server.requests) == 2


# --- answers ----------------------------------------------------------------------------------------------------------


@real
async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async with kept_to(then(sends(UNFRAMED + b"all of it"), closes)) as (ask, _, _):
        assert (await ask()).body == b"all of it"


@real
async def test_what_precedes_the_answer_is_skipped() -> None:
    async with kept_to(then(sends(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), answer(b"{}"))) as (ask, _, _):
        assert await ask() == HttpResponse(200, b"{}")


@real
async def test_the_wait_that_a_refusal_asks_for_is_told() -> None:
    async with kept_to(answer(b"", code=429, headers="Retry-After: 7\r\n"), answer(b"{}")) as (ask, _, _):
        assert (await ask()).retry_after == "7"
        assert (await ask()).retry_after == ""


# --- closing ----------------------------------------------------------------------------------------------------------


@real
async def test_closing_ends_what_is_under_way_and_lets_nothing_begin() -> None:
    async with kept_to(hangs) as (ask, kept, server):
        task = asyncio.ensure_future(ask())
        while not server.requests:
            await asyncio.sleep(0)
        await kept.close()
        with pytest.raises(ConnectionError):
            await task
        with pytest.raises(NotConnected):
            await ask()


@real
async def test_half_an_answer_without_a_length_is_none_when_it_was_us_who_hung_up() -> None:
    async with kept_to(then(sends(UNFRAMED + b"half of"), hangs)) as (ask, kept, _):
        task = asyncio.ensure_future(ask())
        while not any(one.was_answered for one in kept._open):
            await asyncio.sleep(0)
        await kept.close()
        with pytest.raises(ConnectionError):
            await task


# --- what the transport makes of it -----------------------------------------------------------------------------------


def on_uvloop(test: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test)


def test_the_loop_of_the_controller_is_served_as_well() -> None:
    """Its transports are no subclasses of asyncio's."""

    async def scene() -> None:
        async with kept_to(numbered(), closes, numbered()) as (ask, _, _):
            first = await ask()
            assert (await ask(repeatable=True)).body != first.body

    on_uvloop(scene())


@real
async def test_a_server_below_the_root_of_its_host_is_asked_there() -> None:
    async with a_server(answer(b"{}")) as server, await connected_to(f"{server.url}/clusters/hub") as transport:
        await transport.call(GET)
        assert server.requests[0].startswith(b"GET /clusters/hub/api/v1/things HTTP/1.1\r\n")
        assert f"Host: 127.0.0.1:{server.port}\r\n".encode() in server.requests[0]


@real
async def test_nothing_can_be_slipped_into_a_request() -> None:
    async with a_server(answer(b"{}")) as server:
        async with await connected_to(server.url, "secret\r\nX-Remote-User: admin") as transport:
            with pytest.raises(Unauthorized, match="characters that no header can carry"):
                await transport.call(GET)
        async with await connected_to(server.url) as transport:
            with pytest.raises(ValueError, match="not quoted"):
                await transport.call(Request(Method.GET, "/api/v1/things HTTP/1.1\r\nX-Remote-User: admin"))
        assert not server.requests
