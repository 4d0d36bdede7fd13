"""A closed transport leaves no connection behind, whatever the server thinks of it."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from fleet.clock import SystemClock
from fleet.errors import ConnectionLost, DeadlineExceeded, Unreachable
from fleet.kube.api import Method, Request
from fleet.kube.client.connections import Connection
from fleet.kube.client.transport import Transport
from tests.control_plane.access import kubeconfig
from tests.control_plane.waiting import SECONDS_TO_HAPPEN

HOST = "127.0.0.1"
WATCH = Request(Method.GET, "/api/v1/things")
IMPATIENT = Request(Method.GET, "/api/v1/things", deadline=0.2)
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

Scene = Callable[[Transport], Coroutine[Any, Any, None]]


@contextmanager
def a_deaf_server(folder: Path, *, says: bytes) -> Iterator[Path]:
    """TLS; reads one request, says something and then hears nothing more, no goodbye either. Gives a kubeconfig.

    Where the machine is slow, clients may have gone before they asked anything."""
    authority, context, over = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), threading.Event()
    authority.issue_cert(HOST).configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    with socket.create_server((HOST, 0)) as listening:

        def serve() -> None:
            with suppress(OSError), _accepted(listening, context) as connection:
                connection.recv(2**16)
                connection.sendall(says)
                over.wait()

        thread = threading.Thread(target=serve, name="deaf server")
        thread.start()
        try:
            yield config_for(listening, folder)
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _accepted(listening: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    accepted, _ = listening.accept()
    with accepted:  # unless TLS takes it over
        return context.wrap_socket(accepted, server_side=True)


@contextmanager
def a_server_that_greets(folder: Path) -> Iterator[Path]:
    """TLS; takes up every connection, and says nothing but what TLS says by itself. Gives a kubeconfig."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.crt"))
    with socket.create_server((HOST, 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = listening.accept()
                    threading.Thread(target=greet, args=(accepted,), name="greeting").start()

        def greet(accepted: socket.socket) -> None:
            with suppress(OSError), accepted, context.wrap_socket(accepted, server_side=True) as connection:
                while connection.recv(2**16):
                    pass

        thread = threading.Thread(target=serve, name="greeting server")
        thread.start()
        try:
            yield config_for(listening, folder)
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def config_for(listening: socket.socket, folder: Path) -> Path:
    url, file = f"https://{HOST}:{listening.getsockname()[1]}", folder / "config"
    file.write_text(kubeconfig(url=url, ca_file=folder / "ca.crt", token="secret"), encoding="utf-8")
    return file


def left_open_after(scene: Scene, file: Path) -> list[str]:
    """What Python complains about when nothing refers to the transport any more."""

    async def play() -> None:
        async with asyncio.timeout(90), await Transport.from_kubeconfig(file, clock=SystemClock()) as transport:
            await scene(transport)

    gc.disable()  # what the scene leaves stays in the youngest generation: there is no need to walk through all others
    try:
        gc.collect(0)  # what earlier tests left is in an older one
        with warnings.catch_warnings(record=True) as violations:
            warnings.simplefilter("always", ResourceWarning)
            asyncio.run(play())
            gc.collect(0)
    finally:
        gc.enable()
    return [str(one.message) for one in violations if one.category is ResourceWarning]


async def answered(transport: Transport) -> None:
    await transport.call(WATCH)


async def abandoned(transport: Transport) -> None:
    async with transport.stream(WATCH):
        pass


async def given_up(transport: Transport) -> None:
    with pytest.raises(DeadlineExceeded):
        await transport.call(IMPATIENT)


async def under_way(transport: Transport) -> None:
    call = asyncio.create_task(transport.call(WATCH), name="call")
    await asyncio.sleep(0.2)  # long enough to have been sent; if not, the test proves less, but does not fail
    await transport.close()
    with pytest.raises(ConnectionLost):
        await call


@pytest.mark.parametrize(
    "scene, says",
    [(answered, WHOLE), (abandoned, HEAD), (given_up, b""), (given_up, HEAD), (under_way, b"")],
    ids=["answered", "abandoned", "given up before the answer", "given up during the answer", "under way"],
)
def test_nothing_stays_open(tmp_path: Path, scene: Scene, says: bytes) -> None:
    with a_deaf_server(tmp_path, says=says) as file:
        assert left_open_after(scene, file) == []


async def streamed(transport: Transport) -> None:
    async with transport.stream(WATCH):
        pass


async def asked(transport: Transport) -> None:
    await transport.call(WATCH)


def cancelled_after(steps: int, doing: Scene) -> Scene:
    async def scene(transport: Transport) -> None:
        task = asyncio.create_task(doing(transport), name="cancelled")
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()

    return scene


@pytest.mark.parametrize("doing", [asked, streamed])
def test_nothing_stays_open_of_a_connection_that_is_no_longer_wanted(tmp_path: Path, doing: Scene) -> None:
    """Whatever step of its opening that is said at; TCP and TLS take some twenty steps of the loop."""
    with a_server_that_greets(tmp_path) as file:
        assert {
            steps: left for steps in range(10, 34) if (left := left_open_after(cancelled_after(steps, doing), file))
        } == {}


@contextmanager
def a_server_that_is_silent(folder: Path) -> Iterator[Path]:
    """Connections to it come about, and nobody there takes them up. Gives a kubeconfig."""
    trustme.CA().cert_pem.write_to_path(str(folder / "ca.crt"))
    with socket.create_server((HOST, 0)) as listening:
        yield config_for(listening, folder)


@pytest.mark.parametrize("doing", [asked, streamed])
def test_whoever_waits_for_a_connection_that_will_not_be_knows_that_nothing_was_sent(
    tmp_path: Path, doing: Scene
) -> None:
    async def closed_meanwhile(transport: Transport) -> None:
        waiting = asyncio.create_task(doing(transport), name="waiting")
        for _ in range(20):
            await asyncio.sleep(0)
        await transport.close()
        with pytest.raises(Unreachable, match="the transport was closed"):
            await waiting

    with a_server_that_is_silent(tmp_path) as file:
        assert left_open_after(closed_meanwhile, file) == []


# --- one connection ---------------------------------------------------------------------------------------------------


@dataclass
class Connections:
    """What happens to those of a transport."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """TCP; TLS is next."""
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    made: list[Connection] = field(default_factory=list)
    lost: list[Connection] = field(default_factory=list)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    seen = Connections()
    methods = {name: getattr(Connection, name) for name in ("__init__", "connection_made", "connection_lost")}
    receive = Connection.data_received

    def begin(connection: Connection) -> None:
        methods["__init__"](connection)
        seen.begun.set()

    def make(connection: Connection, transport: asyncio.BaseTransport) -> None:
        methods["connection_made"](connection, transport)
        seen.made.append(connection)

    def lose(connection: Connection, error: Exception | None) -> None:
        methods["connection_lost"](connection, error)
        seen.lost.append(connection)

    def answer(connection: Connection, data: bytes) -> None:
        receive(connection, data)
        seen.answered.set()

    for name, method in zip((*methods, "data_received"), (begin, make, lose, answer), strict=True):
        monkeypatch.setattr(Connection, name, method)
    return seen


async def a_few_turns() -> None:
    """As many as asyncio takes to close a connection with TLS, and some more."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_transport_that_was_closed_has_no_connection(tmp_path: Path, connections: Connections) -> None:
    lost: list[list[Connection]] = []

    async def scene(transport: Transport) -> None:
        await transport.call(WATCH)
        await transport.close()
        lost.append(connections.lost.copy())

    with a_deaf_server(tmp_path, says=WHOLE) as file:
        assert left_open_after(scene, file) == []
    assert lost == [connections.made]
    assert len(connections.made) == 1


def test_a_connection_whose_answer_is_no_longer_wanted_is_closed_at_once(
    tmp_path: Path, connections: Connections
) -> None:
    """The rest of it would be taken for the answer to the next request."""
    lost: list[list[Connection]] = []

    async def scene(transport: Transport) -> None:
        call = asyncio.create_task(transport.call(WATCH), name="call")
        await connections.answered.wait()
        call.cancel()
        await asyncio.wait({call})
        await a_few_turns()
        lost.append(connections.lost.copy())

    with a_deaf_server(tmp_path, says=HEAD) as file:
        assert left_open_after(scene, file) == []
    assert lost == [connections.made]
    assert len(connections.made) == 1


def test_a_connection_that_comes_about_when_its_caller_has_gone_is_for_the_next_one(
    tmp_path: Path, connections: Connections
) -> None:
    async def scene(transport: Transport) -> None:
        call = asyncio.create_task(transport.call(WATCH), name="call")
        await connections.begun.wait()
        call.cancel()
        await asyncio.wait({call})
        while not connections.made:
            await asyncio.sleep(0)
        await a_few_turns()
        await transport.call(WATCH)

    with a_deaf_server(tmp_path, says=WHOLE) as file:
        assert left_open_after(scene, file) == []
    assert len(connections.made) == 1


def test_a_connection_that_comes_about_while_the_transport_is_being_closed_sends_nothing(
    tmp_path: Path, connections: Connections
) -> None:
    async def scene(transport: Transport) -> None:
        call = asyncio.create_task(transport.call(WATCH), name="call")
        await connections.begun.wait()
        async with asyncio.timeout(SECONDS_TO_HAPPEN):
            await transport.close()
        with pytest.raises((ConnectionLost, Unreachable)):
            await call

    with a_deaf_server(tmp_path, says=b"") as file:
        assert left_open_after(scene, file) == []
    assert not connections.answered.is_set()
