"""The API on a socket: in the clear only where that was asked for, and with certificates that are renewed under way."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest
import uvicorn

from api.app import create_bare_app
from api.http.server import ListenOptions, _bind, serve_app
from fleet.clock import SystemClock
from fleet.errors import ConfigurationError
from fleet.serving import ServerStopped
from fleet.settings import Address
from tests.certificates import AUTHORITY, Files

FIRST_REQUEST: Final = """
import asyncio, re, urllib.parse

from api.app import create_bare_app
from api.http.server import ListenOptions, serve_app
from fleet.settings import Address


async def ask():
    async with serve_app(create_bare_app(), ListenOptions(address=Address("127.0.0.1:0"))) as url:
        address, compiled, compile = urllib.parse.urlsplit(url), [], re._compiler.compile
        re._compiler.compile = lambda *arguments: compiled.append(arguments) or compile(*arguments)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(b"GET /livez HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n")
        print((await reader.readline()).decode().strip())
        print(compiled)
        writer.close()


asyncio.run(ask())
"""


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path).write("before.example")


# --- in the clear -----------------------------------------------------------------------------------------------------


def test_something_in_front_may_end_tls() -> None:
    ListenOptions(address=Address(":8090"), plain_http=True).check()


def test_a_refusal_names_every_way_out() -> None:
    with pytest.raises(ConfigurationError, match=r"give --tls-cert and --tls-key, or --plain-http .*, or listen on"):
        ListenOptions(address=Address(":8090")).check()


def test_it_is_either_plain_or_not(files: Files) -> None:
    listening = ListenOptions(address=Address(":8090"), tls_cert=files.certificate, tls_key=files.key, plain_http=True)

    with pytest.raises(ConfigurationError, match="--plain-http: it is HTTPS with --tls-cert"):
        listening.check()


# --- certificates -----------------------------------------------------------------------------------------------------


def test_probes_are_answered_over_tls_without_a_token(files: Files) -> None:
    listening = ListenOptions(address=Address("127.0.0.1:0"), tls_cert=files.certificate, tls_key=files.key)
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)

    async def ask() -> bytes:
        async with serve_app(create_bare_app(), listening, clock=SystemClock()) as url:
            port = int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=trusting, server_hostname="before.example"
            )
            writer.write(b"GET /livez HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(ask()).startswith(b"HTTP/1.1 200 ")


# --- its end ----------------------------------------------------------------------------------------------------------


async def wait_beside(server: Callable[[], Coroutine[None, None, None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """For good, unless the server's end ends it."""
    monkeypatch.setattr(uvicorn.Server, "serve", lambda *_, **__: server())
    async with serve_app(create_bare_app(), ListenOptions(address=Address("127.0.0.1:0"))):
        await asyncio.Event().wait()


def test_the_description_is_built_in_a_thread_before_anybody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    app = create_bare_app()
    build = app.openapi
    threads: list[int] = []

    def build_noted() -> dict[str, Any]:
        document = build()
        threads.append(threading.get_ident())
        return document

    async def serve() -> None:
        async with serve_app(app, ListenOptions(address=Address("127.0.0.1:0"))):
            assert len(threads) == 1

    monkeypatch.setattr(app, "openapi", build_noted)
    asyncio.run(serve())
    assert threading.get_ident() not in threads


def test_the_first_request_compiles_no_pattern() -> None:
    run = subprocess.run([sys.executable, "-c", FIRST_REQUEST], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.splitlines() == ["HTTP/1.1 200 OK", "[]"]


def test_who_waits_for_a_server_that_fails_gets_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise OSError("too many open files")

    with pytest.raises(OSError, match="too many open files"):
        asyncio.run(asyncio.wait_for(wait_beside(fails, monkeypatch), 60))


def test_a_server_that_ends_unasked_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ends() -> None:
        await asyncio.sleep(0)

    with pytest.raises(ServerStopped):
        asyncio.run(asyncio.wait_for(wait_beside(ends, monkeypatch), 60))


def test_who_is_cancelled_while_the_server_runs_stays_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cancel() -> bool:
        server_ends = asyncio.Event()

        async def runs() -> None:
            await server_ends.wait()

        waiting = asyncio.create_task(wait_beside(runs, monkeypatch))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        server_ends.set()
        await asyncio.wait({waiting})
        return waiting.cancelled()

    assert asyncio.run(cancel())


# --- where it listens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_all_interfaces_are_those_of_both_versions_of_ip(host: str) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine does not speak IPv6")

    async def reach() -> None:
        async with serve_app(create_bare_app(), ListenOptions(address=Address(":0"), plain_http=True)) as url:
            _, writer = await asyncio.open_connection(host, int(url.rpartition(":")[2]))
            writer.close()

    asyncio.run(reach())


def test_a_machine_without_ipv6_is_listened_on_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)

    async def listened() -> str:
        async with serve_app(create_bare_app(), ListenOptions(address=Address(":0"), plain_http=True)) as url:
            return url

    assert asyncio.run(listened()).startswith("http://0.0.0.0:")


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(ConfigurationError, match=f"cannot listen on {address}"):
            asyncio.run(serve_app(create_bare_app(), ListenOptions(address=address)).__aenter__())


def test_the_body_of_an_answer_does_not_wait_for_its_head_to_arrive() -> None:
    with _bind(Address("127.0.0.1:0")) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
