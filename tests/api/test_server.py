"""The API on a socket: in the clear only where that was asked for, and with certificates that are renewed under way."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvicorn
from structlog.testing import capture_logs

from api.app import create_bare_app
from api.http.certificate import CHECK_INTERVAL, Certificate
from api.http.server import ListenOptions, _bind, serve_app
from fleet.clock import SystemClock
from fleet.errors import ConfigurationError
from fleet.serving import ServerStopped
from fleet.settings import Address
from tests.faults.virtual import VirtualClock, virtual

AUTHORITY = trustme.CA()


class Files:
    """A certificate and its key, as whoever renews them leaves them."""

    def __init__(self, folder: Path) -> None:
        self.certificate, self.key = folder / "tls.crt", folder / "tls.key"

    def write(self, name: str) -> None:
        issued = AUTHORITY.issue_cert(name)
        self.key.write_bytes(issued.private_key_pem.bytes())
        self.certificate.write_bytes(b"".join(one.bytes() for one in issued.cert_chain_pems))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    found = Files(tmp_path)
    found.write("before.example")
    return found


def name_shown_by(context: ssl.SSLContext) -> str:
    """What a client gets to see, without a network."""
    trusting = ssl.create_default_context()
    AUTHORITY.configure_trust(trusting)
    trusting.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    shown = client.getpeercert()
    assert shown is not None
    return str(shown["subjectAltName"][0][1])


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


@virtual
async def test_a_renewed_certificate_is_taken_without_a_restart(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.write("before.example")
    certificate = Certificate(files.certificate, files.key)
    following = asyncio.create_task(certificate.watch_files(VirtualClock()))
    before = name_shown_by(certificate.context)
    files.write("after.example")
    await asyncio.sleep(CHECK_INTERVAL + 1)
    following.cancel()

    assert (before, name_shown_by(certificate.context)) == ("before.example", "after.example")


def test_half_of_a_renewal_changes_nothing_and_is_told_once(files: Files) -> None:
    certificate = Certificate(files.certificate, files.key)
    former = files.key.read_bytes()
    files.write("after.example")
    latter = files.key.read_bytes()
    files.key.write_bytes(former)
    with capture_logs() as logs:
        certificate.reload()
        certificate.reload()
    in_between = name_shown_by(certificate.context)
    files.key.write_bytes(latter)
    certificate.reload()

    assert [one["log_level"] for one in logs] == ["warning"]
    assert (in_between, name_shown_by(certificate.context)) == ("before.example", "after.example")


def test_files_that_are_gone_change_nothing(files: Files) -> None:
    certificate = Certificate(files.certificate, files.key)
    files.key.unlink()
    certificate.reload()

    assert name_shown_by(certificate.context) == "before.example"


def test_files_that_fit_no_server_are_refused_at_the_start(files: Files) -> None:
    files.key.write_text("no key")

    with pytest.raises(ConfigurationError, match=r"tls.crt and --tls-key .*tls.key are no certificate with its key"):
        Certificate(files.certificate, files.key)


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
        threads.append(threading.get_ident())
        return build()

    async def serve() -> None:
        async with serve_app(app, ListenOptions(address=Address("127.0.0.1:0"))):
            assert app.openapi_schema is not None

    monkeypatch.setattr(app, "openapi", build_noted)
    asyncio.run(serve())
    assert len(threads) == 1
    assert threading.get_ident() not in threads


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
