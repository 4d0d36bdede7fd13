"""Bounds of one HTTP connection, on loopback sockets: bytes of a head, and the time until a request has arrived."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from fleet import http_protocol
from fleet.http_protocol import LARGEST_HEAD, LARGEST_URL, MOST_HEADERS, BoundedHttpProtocol
from fleet.serving import bind, build_server, serve

PATIENCE = 60.0
"""Seconds that no test needs."""
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


async def echo_size(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    answer = b"%d bytes of %s" % (size, scope["path"][:20].encode())
    headers = [(b"content-length", b"%d" % len(answer))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def run(test: Callable[[int], Coroutine[Any, Any, Any]], app: Callable[..., Any] = echo_size) -> Any:
    async def main() -> Any:
        bound = bind("127.0.0.1", 0)
        async with serve(build_server(app), bound, name="test"):
            return await asyncio.wait_for(test(bound.getsockname()[1]), PATIENCE)

    return asyncio.run(main())


async def read_to_end(reader: asyncio.StreamReader) -> bytes:
    """A server that closes while its client still sends resets the connection."""
    received = b""
    try:
        while part := await reader.read(65536):
            received += part
    except ConnectionError:
        pass
    return received


async def send_and_read(port: int, *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await read_to_end(reader)
    except ConnectionError:
        return await read_to_end(reader)
    finally:
        writer.close()


def ask(*parts: bytes) -> bytes:
    answer: bytes = run(lambda port: send_and_read(port, *parts))
    return answer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


CLOSES = b"Host: fleet\r\nConnection: close\r\n"


def test_a_url_as_long_as_a_cursor_may_be_is_answered() -> None:
    url = b"/v1?cursor=" + b"c" * (LARGEST_URL - len(b"/v1?cursor="))

    assert status_of(ask(b"GET " + url + b" HTTP/1.1\r\n" + CLOSES + b"\r\n")) == 200


def test_a_longer_url_is_refused_with_what_to_do() -> None:
    answer = ask(b"GET /" + b"u" * LARGEST_URL + b" HTTP/1.1\r\n" + CLOSES + b"\r\n")
    problem = json.loads(answer.partition(b"\r\n\r\n")[2])

    assert (status_of(answer), problem["status"], problem["next"]) == (414, 414, "send a shorter URL")


def test_more_headers_than_any_client_sends_are_refused() -> None:
    many = b"".join(b"X-%d: y\r\n" % number for number in range(MOST_HEADERS))

    assert status_of(ask(b"GET / HTTP/1.1\r\n" + CLOSES + many + b"\r\n")) == 431


def test_a_head_of_a_long_url_and_a_long_token_is_answered() -> None:
    token = b"Authorization: Bearer " + b"t" * 16_384 + b"\r\n"

    assert status_of(ask(b"GET /" + b"u" * 50_000 + b" HTTP/1.1\r\n" + CLOSES + token + b"\r\n")) == 200


class Sink:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written, self.is_closed, self.is_aborted, self.unread = b"", False, False, 0

    def get_extra_info(self, name: str) -> Any:
        return {"sockname": ("127.0.0.1", 1), "peername": ("127.0.0.1", 2)}.get(name)

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return


def connect(app: Callable[..., Any] = echo_size) -> tuple[BoundedHttpProtocol, Sink]:
    """Within a running loop."""
    server = build_server(app)
    server.config.load()
    protocol = BoundedHttpProtocol(server.config, server.server_state, {})
    sink = Sink()
    protocol.connection_made(sink)  # type: ignore[arg-type]  # has what is used
    return protocol, sink


@pytest.mark.parametrize(
    "begin, more",
    [
        (b"GET /", b"u" * 65_536),
        (b"GET / HTTP/1.1\r\nX-Long: ", b"v" * 65_536),
        (b"GET / HTTP/1.1\r\n", b"X-Many: " + b"v" * 4_000 + b"\r\n"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: ", b"v" * 65_536),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;extension=", b"v" * 65_536),
    ],
    ids=["url", "header", "headers", "trailer", "chunk extension"],
)
def test_what_never_ends_is_closed_before_it_takes_memory(begin: bytes, more: bytes) -> None:
    async def send_endlessly() -> tuple[int, bytes]:
        protocol, sink = connect()
        sent = 0
        protocol.data_received(begin)
        while not sink.is_closed and sent < 100 * LARGEST_HEAD:
            protocol.data_received(more)
            sent += len(more)
        for task in protocol.tasks:
            task.cancel()
        protocol.connection_lost(None)
        return sent, sink.written

    sent, written = asyncio.run(send_endlessly())

    assert sent <= LARGEST_HEAD + 65_536
    assert status_of(written) in (414, 431)


@pytest.mark.parametrize(
    "half, status",
    [
        (b"", None),
        (b"GET / HT", 408),
        (b"GET / HTTP/1.1\r\nHost: fl", 408),
        (b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc", 408),
    ],
    ids=["nothing", "line", "head", "body"],
)
def test_a_request_that_does_not_arrive_is_closed(half: bytes, status: int | None) -> None:
    async def stall() -> tuple[bool, bytes]:
        protocol, sink = connect()
        protocol.data_received(half)
        assert protocol._arrival is not None
        protocol._arrival.cancel()
        protocol._check_arrival()
        for task in protocol.tasks:
            task.cancel()
        protocol.connection_lost(None)
        return sink.is_closed, sink.written

    is_closed, answer = asyncio.run(stall())

    assert is_closed
    assert (status_of(answer) if answer else None) == status


def test_the_timer_of_a_request_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "REQUEST_SECONDS", 0.01)

    run(lambda port: send_and_read(port, b"GET / HT"))  # ends


def test_a_half_sent_second_request_does_not_stand_in_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "REQUEST_SECONDS", 0.01)

    async def pass_by() -> tuple[bytes, bool]:
        async def wait(scope: Any, receive: Receive, send: Send) -> None:
            await asyncio.Event().wait()

        protocol, sink = connect(wait)
        protocol.data_received(b"GET /first HTTP/1.1\r\nHost: fleet\r\n\r\nGET /second HTT")
        while not sink.is_closed:  # the timer
            await asyncio.sleep(0)
        for task in protocol.tasks:
            task.cancel()
        protocol.connection_lost(None)
        return sink.written, sink.is_closed

    assert asyncio.run(pass_by()) == (b"", True)


def test_a_whole_request_leaves_no_timer() -> None:
    async def ask_twice() -> list[Any]:
        protocol, sink = connect()
        timers = []
        for _ in range(2):
            protocol.data_received(b"GET / HTTP/1.1\r\nHost: fleet\r\n\r\n")
            timers.append(protocol._arrival)
            while not protocol.cycle.response_complete:
                await asyncio.sleep(0)
        state = [*timers, sink.is_closed]
        protocol.connection_lost(None)
        return state

    assert asyncio.run(ask_twice()) == [None, None, False]


def test_each_of_several_requests_without_a_pause_has_its_own_time() -> None:
    async def pipeline() -> list[bool]:
        protocol, _ = connect()
        timers = []
        for part in (b"GET / HT", b"TP/1.1\r\n\r\nGET / HT", b"TP/1.1\r\n\r\nGET /"):
            protocol.data_received(part)
            assert protocol._arrival is not None
            timers.append(protocol._arrival)
        ended = [timer.cancelled() for timer in timers]
        for task in protocol.tasks:
            task.cancel()
        protocol.connection_lost(None)
        return ended

    assert asyncio.run(pipeline()) == [True, True, False]


@pytest.mark.parametrize("taken, outcome", [(0, "aborted"), (1_000, "aborted"), (50_000, "open")])
def test_a_reader_that_takes_next_to_nothing_is_ended(
    monkeypatch: pytest.MonkeyPatch, taken: int, outcome: str
) -> None:
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS", 3600.0)

    async def stall() -> bool:
        protocol, sink = connect()
        sink.unread = 1_000_000
        protocol.pause_writing()
        sink.unread -= taken
        protocol._check_reader()
        ended = sink.is_aborted
        protocol.connection_lost(None)
        return ended

    assert asyncio.run(stall()) is (outcome == "aborted")


def test_a_reader_that_goes_on_has_no_timer() -> None:
    async def stall() -> Any:
        protocol, _ = connect()
        protocol.pause_writing()
        protocol.resume_writing()
        timer = protocol._unread
        protocol.connection_lost(None)
        return timer

    assert asyncio.run(stall()) is None
