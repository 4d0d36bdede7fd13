"""The transport over real sockets: what it sends, what it makes of answers, and of servers that give none."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from fleet.clock import SystemClock
from fleet.errors import (
    ApiError,
    ConfigurationError,
    Conflict,
    ConnectionLost,
    DeadlineExceeded,
    InternalError,
    NotFound,
    NotLeading,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from fleet.kube.api import Method, Request
from fleet.kube.client.rate_limiter import RateLimit, RateLimiter
from fleet.kube.client.transport import Transport
from tests.fake_clock import FakeClock
from tests.faults.sockets import (
    CHUNKED,
    LAST_CHUNK,
    ByteServer,
    Play,
    a_server,
    answer,
    chunk,
    closes,
    hangs,
    real,
    resets,
    sends,
    status,
    then,
    trickles,
)

GET = Request(Method.GET, "/api/v1/things")
IMPATIENT = Request(Method.GET, "/api/v1/things", deadline=0.2)


async def connected_to(url: str, *tokens: str, flow: RateLimiter | None = None, clock: Any = None) -> Transport:
    from kubernetes.aio.client import Configuration

    left = list(tokens)

    async def load() -> Configuration:
        configuration = Configuration(host=url)
        if left:
            configuration.api_key["BearerToken"] = f"Bearer {left.pop(0)}"
        return configuration

    return await Transport.connect(load, clock=clock or SystemClock(), rate_limiter=flow)


@asynccontextmanager
async def a_transport(
    *plays: Play, tokens: tuple[str, ...] = (), clock: Any = None
) -> AsyncIterator[tuple[Transport, ByteServer]]:
    async with a_server(*plays) as server, await connected_to(server.url, *tokens, clock=clock) as transport:
        yield transport, server


# --- what is sent -----------------------------------------------------------------------------------------------------


@real
async def test_sends_the_request_as_it_is() -> None:
    request = Request(
        Method.PATCH,
        "/apis/g/v1/namespaces/a%2Fb/things/c",
        query=(("labelSelector", "a in (b,c),d=e"), ("continue", "x+/=")),
        body=b'[{"op":"test"}]',
        content_type="application/json-patch+json",
    )
    async with a_transport(answer(b"{}"), tokens=("secret",)) as (transport, server):
        assert await transport.call(request) == b"{}"
    head, _, body = server.requests[0].decode().partition("\r\n\r\n")
    first, *headers = head.split("\r\n")
    sent, _, limit = first.removesuffix(" HTTP/1.1").partition("&timeout=")
    assert sent == "PATCH /apis/g/v1/namespaces/a%2Fb/things/c?labelSelector=a+in+(b,c),d%3De&continue=x%2B/%3D"
    assert limit.endswith("ms")
    assert "Authorization: Bearer secret" in headers
    assert "Content-Type: application/json-patch+json" in headers
    assert "Accept: application/json" in headers
    assert any(header.startswith("User-Agent: fleet/") for header in headers)
    assert body == '[{"op":"test"}]'


@real
async def test_the_server_gives_up_on_a_write_before_we_do() -> None:
    """Otherwise it might carry it out after somebody has decided anew."""
    write = Request(Method.POST, "/apis/g/v1/things", body=b"{}", deadline=20.0)
    async with a_transport(answer(b"{}")) as (transport, server):
        await transport.call(write)
        await transport.call(GET)
    target, reading = (request.split(b" ")[1].decode() for request in server.requests)
    limit = int(target.removeprefix("/apis/g/v1/things?timeout=").removesuffix("ms"))
    assert 1000 < limit <= 18_000
    assert "timeout" not in reading


@real
async def test_connections_are_used_again() -> None:
    async with a_transport(answer(b"{}")) as (transport, server):
        for _ in range(3):
            await transport.call(GET)
        assert len(server.requests) == 3


# --- refusals ---------------------------------------------------------------------------------------------------------


@real
async def test_a_refusal_is_an_error_that_names_the_request() -> None:
    async with a_transport(status(404, "NotFound", message='things "x" not found')) as (transport, _):
        with pytest.raises(NotFound, match='GET /api/v1/things: things "x" not found') as caught:
            await transport.call(GET)
    assert caught.value.status == 404


@real
async def test_a_refusal_to_stream_is_the_same_error() -> None:
    async with a_transport(status(409, "Conflict")) as (transport, _):
        with pytest.raises(Conflict):
            async with transport.stream(GET):
                pass


@real
async def test_the_wait_that_the_server_asks_for_is_told() -> None:
    async with a_transport(answer(b"busy", code=429, headers="Retry-After: 7\r\n")) as (transport, _):
        with pytest.raises(ApiError, match="busy") as caught:
            await transport.call(GET)
    assert caught.value.retry_after == 7


@real
async def test_redirects_are_not_followed() -> None:
    async with a_transport(answer(b"", code=302, headers="Location: /elsewhere\r\n")) as (transport, server):
        with pytest.raises(InternalError):
            await transport.call(GET)
        assert len(server.requests) == 1


# --- no answer --------------------------------------------------------------------------------------------------------


@contextmanager
def a_deserted_port() -> Iterator[int]:
    """Nobody listens there, and nobody else can begin to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@real
async def test_nobody_listening_means_that_nothing_was_sent() -> None:
    with a_deserted_port() as port:
        async with await connected_to(f"http://127.0.0.1:{port}") as transport:
            with pytest.raises(Unreachable) as caught:
                await transport.call(GET)
    assert not caught.value.outcome_unknown


BROKEN: dict[str, Play] = {
    "closed before the answer": closes,
    "reset before the answer": resets,
    "no HTTP": then(sends(b"SSH-2.0-OpenSSH_9.9\r\n"), closes),
    "head cut off": then(sends(b"HTTP/1.1 200 OK\r\nContent-Le"), closes),
    "body cut off": then(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), closes),
    "reset inside the body": then(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), resets),
    "chunks cut off": then(CHUNKED, sends(b"5\r\nab"), closes),
    "chunks of garbage": then(CHUNKED, sends(b"zz\r\nab\r\n"), closes),
}


@real
@pytest.mark.parametrize("play", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_answer_leaves_the_outcome_unknown(play: Play) -> None:
    async with a_transport(play) as (transport, _):
        with pytest.raises(ConnectionLost) as caught:
            await transport.call(Request(Method.POST, "/api/v1/things", body=b"{}"))
    assert caught.value.outcome_unknown
    assert caught.value.retriable


SLOW: dict[str, Play] = {
    "silence": hangs,
    "a head and no body": then(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"), hangs),
    "a trickling body": then(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"), trickles),
    "a refusal without an end": then(sends(b"HTTP/1.1 500 X\r\nContent-Length: 100\r\n\r\n"), hangs),
}


@real
@pytest.mark.parametrize("play", SLOW.values(), ids=SLOW.keys())
async def test_every_request_ends_by_its_deadline(play: Play) -> None:
    async with a_transport(play) as (transport, _):
        with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.2 s"):
            await transport.call(IMPATIENT)


@real
async def test_a_stream_opens_by_its_deadline_or_not_at_all() -> None:
    async with a_transport(hangs) as (transport, _):
        with pytest.raises(DeadlineExceeded):
            async with transport.stream(IMPATIENT):
                pass


@real
async def test_what_must_not_leave_any_more_is_not_sent() -> None:
    """Whoever waited for the budget may have lost the right to write meanwhile."""
    may_write = True

    def guard() -> None:
        if not may_write:
            raise NotLeading("scripted")

    clock = FakeClock()
    flow = RateLimiter(clock, default=RateLimit(rate=20, burst=1))
    async with a_server(answer(b"{}")) as server, await connected_to(server.url, flow=flow) as transport:
        guarded = Request(Method.POST, "/api/v1/things", body=b"{}", guard=guard)
        await transport.call(guarded)
        waiting = asyncio.create_task(transport.call(guarded))
        await clock.wait_for_sleeper()
        may_write = False
        clock.advance(1)
        with pytest.raises(NotLeading):
            await waiting
        assert len(server.requests) == 1


@real
async def test_an_overloaded_server_gets_fewer_writes_at_once() -> None:
    limiter = RateLimiter(SystemClock(), concurrency=10)
    write = Request(Method.POST, "/api/v1/things", body=b"{}", call_class="bind")
    async with (
        a_server(status(429, "TooManyRequests")) as server,
        await connected_to(server.url, flow=limiter) as transport,
    ):
        with pytest.raises(TooManyRequests):
            await transport.call(write)
        with pytest.raises(TooManyRequests):
            await transport.call(GET)
    assert limiter.writes.limit == 7


@real
async def test_waiting_for_the_budget_counts_towards_the_deadline() -> None:
    flow = RateLimiter(SystemClock(), default=RateLimit(rate=0.001, burst=1))
    async with a_server(answer(b"{}")) as server, await connected_to(server.url, flow=flow) as transport:
        await transport.call(GET)
        with pytest.raises(DeadlineExceeded):
            await transport.call(IMPATIENT)
        assert len(server.requests) == 1


@real
async def test_a_cancelled_request_stays_cancelled() -> None:
    async with a_transport(hangs) as (transport, server):
        task = asyncio.create_task(transport.call(GET), name="request")
        while not server.requests:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# --- streams ----------------------------------------------------------------------------------------------------------


async def read(transport: Transport) -> bytes:
    text = b""
    async with transport.stream(GET) as pieces:
        async for piece in pieces:
            text += piece
    return text


@real
async def test_a_stream_brings_everything_and_ends() -> None:
    async with a_transport(then(CHUNKED, chunk(b"one\n"), chunk(b"two\n"), LAST_CHUNK)) as (transport, _):
        assert await read(transport) == b"one\ntwo\n"


class SkippingLoop(asyncio.SelectorEventLoop):
    """Its time can be moved on."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def test_a_stream_outlives_the_deadline_of_its_opening() -> None:
    async def scene() -> None:
        opened = asyncio.Event()

        async def outlive(writer: asyncio.StreamWriter) -> None:
            await opened.wait()
            loop.ahead += 2 * GET.deadline
            await asyncio.sleep(0.01)  # whatever was to happen by then happens now

        plays = then(CHUNKED, chunk(b"one\n"), outlive, chunk(b"two\n"), LAST_CHUNK)
        async with a_transport(plays) as (transport, _), transport.stream(GET) as pieces:
            opened.set()
            assert b"".join([piece async for piece in pieces]) == b"one\ntwo\n"

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        loop = cast("SkippingLoop", runner.get_loop())
        runner.run(scene())


@real
@pytest.mark.parametrize("end", [closes, resets], ids=["closed", "reset"])
async def test_a_stream_that_breaks_off_says_so(end: Play) -> None:
    async with a_transport(then(CHUNKED, chunk(b"one\n"), sends(b"5\r\ntw"), end)) as (transport, _):
        with pytest.raises(ConnectionLost):
            await read(transport)


@real
async def test_leaving_a_stream_ends_its_connection() -> None:
    ended = asyncio.Event()

    async def until_closed(writer: asyncio.StreamWriter) -> None:
        try:
            await trickles(writer)
        finally:
            ended.set()

    async with a_transport(then(CHUNKED, chunk(b"one\n"), sends(b"ffff\r\n"), until_closed)) as (transport, _):
        async with transport.stream(GET) as pieces:
            assert (await anext(pieces)).startswith(b"one\n")
        async with asyncio.timeout(90):
            await ended.wait()


# --- credentials ------------------------------------------------------------------------------------------------------


UNAUTHORIZED = status(401, "Unauthorized", message="Unauthorized")


def tokens_of(server: ByteServer) -> list[str]:
    lines = [line for request in server.requests for line in request.decode().split("\r\n")]
    return [line.removeprefix("Authorization: Bearer ") for line in lines if line.startswith("Authorization")]


@real
async def test_an_expired_token_is_read_again_and_the_request_repeated() -> None:
    plays = (UNAUTHORIZED, answer(b"{}"))
    async with a_transport(*plays, tokens=("old", "new"), clock=FakeClock(step=100.0)) as (transport, server):
        assert await transport.call(GET) == b"{}"
        assert tokens_of(server) == ["old", "new"]


@real
async def test_a_request_of_somebody_else_has_its_token_and_leaves_our_own_alone() -> None:
    theirs = Request(Method.POST, "/apis/g/v1/reviews", body=b"{}", bearer="theirs")
    plays = (answer(b"{}"), UNAUTHORIZED, answer(b"{}"))
    async with a_transport(*plays, tokens=("ours", "newer"), clock=FakeClock(step=100.0)) as (transport, server):
        assert await transport.call(theirs) == b"{}"
        with pytest.raises(Unauthorized):
            await transport.call(theirs)
        assert await transport.call(GET) == b"{}"
        assert tokens_of(server) == ["theirs", "theirs", "ours"]


@real
async def test_a_request_of_somebody_else_is_not_sent_beside_a_client_certificate() -> None:
    """The hub would take the user of the certificate for the one who asks."""

    async with a_transport(answer(b"{}")) as (transport, server):
        transport._endpoint.configuration.cert_file = "ours.crt"
        with pytest.raises(ConfigurationError, match="beside a client certificate"):
            await transport.call(Request(Method.GET, "/", bearer="theirs"))
        assert server.requests == []


@real
async def test_a_token_of_somebody_else_cannot_end_its_header() -> None:
    async with a_transport(answer(b"{}")) as (transport, server):
        with pytest.raises(Unauthorized):
            await transport.call(Request(Method.GET, "/", bearer="theirs\r\nX-Remote-User: admin"))
        assert server.requests == []


@real
async def test_requests_that_are_refused_together_read_the_credentials_once() -> None:
    all_there = asyncio.Barrier(3)

    async def refused_together(writer: asyncio.StreamWriter) -> None:
        await all_there.wait()
        await UNAUTHORIZED(writer)

    plays = (*[refused_together] * 3, answer(b"{}"))
    async with a_transport(*plays, tokens=("old", "new", "newer"), clock=FakeClock(step=100.0)) as (transport, server):
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(transport.call(GET), name=f"request {number}")
        assert tokens_of(server) == ["old"] * 3 + ["new"] * 3


@real
async def test_a_stream_is_opened_again_with_a_new_token() -> None:
    plays = (UNAUTHORIZED, then(CHUNKED, chunk(b"one\n"), LAST_CHUNK))
    async with a_transport(*plays, tokens=("old", "new"), clock=FakeClock(step=100.0)) as (transport, server):
        assert await read(transport) == b"one\n"
        assert tokens_of(server) == ["old", "new"]


@real
async def test_a_token_that_stays_refused_is_an_error() -> None:
    async with a_transport(UNAUTHORIZED, tokens=("old", "new"), clock=FakeClock(step=100.0)) as (transport, server):
        with pytest.raises(Unauthorized):
            await transport.call(GET)
        assert len(server.requests) == 2


@real
async def test_credentials_are_not_read_again_for_every_refusal() -> None:
    async with a_transport(UNAUTHORIZED, tokens=("one", "two", "three")) as (transport, server):
        for _ in range(3):
            with pytest.raises(Unauthorized):
                await transport.call(GET)
        assert tokens_of(server) == ["one", "one", "one"]


@real
async def test_credentials_that_cannot_be_read_again_leave_the_refusal_as_it_is() -> None:
    from kubernetes.aio.client import Configuration

    loads = iter([Configuration()])

    async def load() -> Configuration:
        try:
            return next(loads)
        except StopIteration:
            raise ConfigurationError("gone") from None

    async with a_server(UNAUTHORIZED) as server:
        loads = iter([Configuration(host=server.url)])
        async with await Transport.connect(load, clock=FakeClock(step=100.0)) as transport:
            with pytest.raises(Unauthorized):
                await transport.call(GET)


@real
@pytest.mark.parametrize("content", [None, "no certificate"], ids=["not there", "half written"])
async def test_certificates_that_cannot_be_used_yet_leave_the_refusal_as_it_is(
    tmp_path: Path, content: str | None
) -> None:
    from kubernetes.aio.client import Configuration

    authority = tmp_path / "ca.crt"
    if content is not None:
        authority.write_text(content)
    renewed = Configuration(host="https://127.0.0.1:1")
    renewed.ssl_ca_cert = str(authority)

    async with a_server(UNAUTHORIZED) as server:
        loads = iter((Configuration(host=server.url), renewed))

        async def load() -> Configuration:
            return next(loads)

        async with await Transport.connect(load, clock=FakeClock(step=100.0)) as transport:
            with pytest.raises(Unauthorized):
                await transport.call(GET)


@real
async def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    from kubernetes.aio.client import Configuration

    async def load() -> Configuration:
        configuration = Configuration(host="https://127.0.0.1:1")
        configuration.ssl_ca_cert = str(tmp_path / "ca.crt")
        return configuration

    with pytest.raises(ConfigurationError, match=r"https://127.0.0.1:1 cannot be used: .*ca\.crt"):
        await Transport.connect(load, clock=SystemClock())


@real
async def test_who_finds_another_server_does_not_wait_until_the_former_connections_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor does its end cut that short: one that is being opened may take long."""
    from kubernetes.aio.client import Configuration

    monkeypatch.setattr("fleet.kube.client.dialer._GRACE", 90.0)
    is_open = asyncio.Event()
    async with a_server(UNAUTHORIZED) as former, a_server(answer(b"{}")) as current:
        urls = iter((former.url, current.url))

        async def load() -> Configuration:
            return Configuration(host=next(urls))

        async with await Transport.connect(load, clock=FakeClock(step=100.0)) as transport:
            line = transport._endpoint
            assert line.connections is not None
            opening = asyncio.create_task(line.connections._dialer.dial(is_open.wait()))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            assert await transport.call(GET) == b"{}"
            assert not line.session.closed
            is_open.set()
            await opening
        assert line.session.closed


@real
async def test_a_token_of_a_pod_that_cannot_be_read_is_reported_as_missing_credentials() -> None:
    def no_file(_: object) -> None:
        raise OSError("no token")

    async with a_transport(answer(b"{}")) as (transport, _):
        transport._endpoint.configuration.refresh_api_key_hook = no_file  # type: ignore[assignment]
        with pytest.raises(Unauthorized, match="no token"):
            await transport.call(GET)


# --- configuration ----------------------------------------------------------------------------------------------------


def a_kubeconfig(folder: Path, server: str, **user: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "hub", "user": "me"}}],
        "current-context": "it",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@real
async def test_reads_a_kubeconfig(tmp_path: Path) -> None:
    async with a_server(answer(b"{}")) as server:
        path = a_kubeconfig(tmp_path, server.url, token="from-the-file")
        async with await Transport.from_kubeconfig(path, clock=SystemClock()) as transport:
            await transport.call(GET)
        assert tokens_of(server) == ["from-the-file"]


@real
async def test_runs_an_exec_plugin_and_runs_it_again_when_its_token_is_refused(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!{sys.executable}\n"
        "import json, os, pathlib\n"
        "runs = pathlib.Path(__file__).with_suffix('.runs')\n"
        "count = len(runs.read_text()) if runs.exists() else 0\n"
        "runs.write_text('x' * (count + 1))\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "print(json.dumps({**info, 'kind': 'ExecCredential', 'status': {'token': f'run-{count}'}}))\n",
        encoding="utf-8",
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    async with a_server(UNAUTHORIZED, answer(b"{}")) as server:
        path = a_kubeconfig(tmp_path, server.url, exec=command)
        async with await Transport.from_kubeconfig(path, clock=FakeClock(step=100.0)) as transport:
            await transport.call(GET)
        assert tokens_of(server) == ["run-0", "run-1"]


@real
@pytest.mark.parametrize("text", ["", "[]", "current-context: nowhere", "\x00", "{", "clusters: 5"])
async def test_a_kubeconfig_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"/config: "):
        await Transport.from_kubeconfig(path, clock=SystemClock())


@real
async def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no file .*missing"):
        await Transport.from_kubeconfig(tmp_path / "missing", clock=SystemClock())


@real
async def test_outside_a_cluster_there_is_no_cluster_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match="does not run in a cluster"):
        await Transport.in_cluster(clock=SystemClock())


@real
async def test_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_server(answer(b"{}")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "elsewhere.example.com")
        async with await connected_to("http://hub.example.com") as transport:
            await transport.call(GET)
        assert proxy.requests[0].startswith(b"GET http://hub.example.com/api/v1/things HTTP/1.1")


@real
async def test_goes_past_the_proxy_where_the_environment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_server(answer(b"{}")) as server, a_server(closes) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        async with await connected_to(server.url) as transport:
            await transport.call(GET)
        assert not proxy.requests


def test_importing_the_transport_does_not_import_the_package() -> None:
    program = "import sys, fleet.kube.client.transport; sys.exit('kubernetes' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", program]) == 0
