"""The Kubernetes API over HTTP: the only module that knows the `kubernetes` package, and the one that opens sockets.

`kubernetes` finds the configuration and makes sense of it: kubeconfig files, exec plugins, in-cluster tokens, TLS.
Requests do not go through the package: there they cost a multiple of the CPU, have a total timeout of five minutes
(which kills watches) and may change their content type. Exchanges go over connections of our own, and streams, and
everything where there is a proxy, over aiohttp.

Credentials that expire: tokens in a pod are read again every minute. All others are read again when the server no
longer accepts them, and the refused request is repeated once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

import fleet
from fleet.clock import Clock
from fleet.errors import ApiError, ConfigurationError, ConnectionLost, DeadlineExceeded, Unauthorized, Unreachable
from fleet.kube.api import Method, Request
from fleet.kube.client.connections import ConnectionPool, ServerAddress
from fleet.kube.client.dialer import NotConnected
from fleet.kube.client.failures import parse_error
from fleet.kube.client.kubeconfig import validate_kubeconfig
from fleet.kube.client.rate_limiter import RateLimiter
from fleet.kube.client.stream_connector import StreamConnector

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None)
"""Deadlines are ours: aiohttp's default ends every request, watches included, after five minutes."""
_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # inflating costs more than a local network
    "User-Agent": f"fleet/{fleet.__version__}",
}
_FIXED: Final = "".join(f"{name}: {value}\r\n" for name, value in _HEADERS.items())
_BUFFER: Final = 2**16
"""Bytes that aiohttp reads ahead; a piece of a watch is a few times that at most, and taken without yielding."""
_RELOAD_AT_MOST_EVERY: Final = 10.0
_SHARE_OF_SERVER: Final = 0.9
"""Of the time that we wait for a write; the rest is for the way there and back."""
_REPEATABLE: Final = (Method.GET, Method.PUT, Method.DELETE)
"""What HTTP calls idempotent: may be sent again where a kept connection was closed by the server meanwhile."""

R = TypeVar("R")

LoadConfiguration = Callable[[], Awaitable["Configuration"]]


@dataclass(slots=True)
class _Line:
    """A way to the server, together with the configuration it was opened with."""

    session: aiohttp.ClientSession
    configuration: Configuration
    proxy: str | None
    connections: ConnectionPool | None
    """For exchanges; None behind a proxy."""
    prefix: str
    """Of all paths, where the server is not at the root of its host."""
    host_header: str

    async def close(self) -> None:
        if self.connections is not None:
            await self.connections.close()
        await self.session.close()


class Transport:
    """An `Api`. Open it with `connect`, `from_kubeconfig` or `in_cluster`, and use it as a context manager."""

    def __init__(self, line: _Line, load: LoadConfiguration, *, flow: RateLimiter, clock: Clock) -> None:
        self._line = line
        self._load = load
        self._flow = flow
        self._clock = clock
        self._reloading = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._loaded_at = clock.elapsed()

    @classmethod
    async def connect(cls, load: LoadConfiguration, *, clock: Clock, flow: RateLimiter | None = None) -> Self:
        return cls(_open(await load()), load, flow=flow or RateLimiter(clock), clock=clock)

    @classmethod
    async def from_kubeconfig(
        cls, path: Path | None = None, *, clock: Clock, context: str | None = None, flow: RateLimiter | None = None
    ) -> Self:
        """The file `path`, or where KUBECONFIG and the home folder say; a ConfigurationError says what is wrong."""
        validate_kubeconfig(path, context)

        async def load() -> Configuration:
            return await _configuration_from(path, context)

        return await cls.connect(load, clock=clock, flow=flow)

    @classmethod
    async def in_cluster(cls, *, clock: Clock, flow: RateLimiter | None = None) -> Self:
        return await cls.connect(_configuration_in_cluster, clock=clock, flow=flow)

    @property
    def server(self) -> str:
        return str(self._line.configuration.host)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Returns when every connection is gone. Requests under way fail."""
        await self._line.close()
        if self._retiring:
            await asyncio.wait(self._retiring)

    # --- Api ----------------------------------------------------------------------------------------------------------

    async def call(self, request: Request) -> bytes:
        return await self._send(request, self._exchange)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        response = await self._send(request, self._accepted)
        try:
            yield _pieces(response, request)
        finally:
            response.close()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _send(self, request: Request, attempt: Callable[[Request, str], Awaitable[R]]) -> R:
        begun_at = self._clock.elapsed()
        try:
            async with asyncio.timeout(request.deadline):
                await self._flow.acquire(request.call_class)
                used = self._line.configuration
                target = _target_of(request, seconds=request.deadline - (self._clock.elapsed() - begun_at))
                try:
                    return await attempt(request, target)
                except Unauthorized:
                    if not await self._reload(used):
                        raise
                    return await attempt(request, target)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{_named(request)}: no answer within {request.deadline:g} s") from error

    async def _exchange(self, request: Request, target: str) -> bytes:
        line = self._line
        if line.connections is None:
            return await self._exchange_through_session(request, target)
        message = _message(request, f"{line.prefix}{target}", line.host_header, await _token_of(line.configuration))
        repeatable = request.method in _REPEATABLE
        try:
            answer = await line.connections.exchange(message, guard=request.guard, repeatable=repeatable)
        except NotConnected as error:
            raise Unreachable(f"{_named(request)}: {error}") from error
        except OSError as error:
            raise _lost(request, error) from error
        if answer.status < 300:
            return answer.body
        raise parse_error(answer.status, answer.body, retry_after=answer.retry_after, doing=_named(request))

    async def _exchange_through_session(self, request: Request, target: str) -> bytes:
        response = await self._accepted(request, target)
        try:
            return await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise _lost(request, error) from error
        finally:
            response.release()

    async def _accepted(self, request: Request, target: str) -> aiohttp.ClientResponse:
        """The response, its body still to come, unless it is a refusal."""
        line = self._line
        headers = await _headers_of(line.configuration, request)
        if request.guard is not None:
            request.guard()
        try:
            response = await line.session.request(
                request.method,
                # The target is quoted already, and quoting it again would cost more than the rest of this call.
                URL(f"{line.configuration.host}{target}", encoded=True),
                data=request.body,
                headers=headers,
                proxy=line.proxy,
                proxy_headers=line.configuration.proxy_headers,
                server_hostname=line.configuration.tls_server_name,
                timeout=_NO_TIMEOUT,
                allow_redirects=False,
            )
            if response.status < 300:
                return response
            body = await response.read()
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(f"{_named(request)}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _lost(request, error) from error
        retry_after = response.headers.get("Retry-After", "")
        raise parse_error(response.status, body, retry_after=retry_after, doing=_named(request))

    async def _reload(self, refused: Configuration) -> bool:
        """Reads the configuration again; says whether there is any sense in trying with it."""
        async with self._reloading:
            if self._line.configuration is not refused:
                return True  # somebody else was here first
            if self._clock.elapsed() - self._loaded_at < _RELOAD_AT_MOST_EVERY:
                return False
            self._loaded_at = self._clock.elapsed()
            try:
                self._change_to(await self._load())
            except ConfigurationError:
                return False
            return True

    def _change_to(self, configuration: Configuration) -> None:
        if _same_connection(self._line.configuration, configuration):
            self._line.configuration = configuration
            return
        former, self._line = self._line, _open(configuration)
        # By itself: the request that found out may end before that, and would leave half of it open.
        closing = asyncio.create_task(former.close(), name="closing former connections")
        self._retiring.add(closing)
        closing.add_done_callback(self._retiring.discard)


# --- requests ---------------------------------------------------------------------------------------------------------


def _target_of(request: Request, *, seconds: float) -> str:
    """Path and query. A write says when the server is to give up, which is before we do: otherwise it might be carried
    out after we decided anew."""
    target = str(URL(request.path, encoded=True).with_query(request.query)) if request.query else request.path
    if not request.is_write:
        return target
    limit = max(1, int(seconds * _SHARE_OF_SERVER * 1000))
    return f"{target}{'&' if request.query else '?'}timeout={limit}ms"


def _message(request: Request, target: str, host: str, token: str) -> bytes:
    if " " in target or not _is_plain(target):
        raise ValueError(f"{request.method} {target!r}: the path is not quoted")
    body = request.body
    head = f"{request.method} {target} HTTP/1.1\r\nHost: {host}\r\n{_FIXED}"
    if token:
        head += f"Authorization: {token}\r\n"
    if body is None:
        return f"{head}\r\n".encode("ascii")
    return f"{head}Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode("ascii") + body


async def _token_of(configuration: Configuration) -> str:
    try:
        token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    except Exception as error:  # in a pod this reads a file
        raise Unauthorized(f"the credentials cannot be read: {error}") from error
    stripped = token.strip() if token else ""
    if not _is_plain(stripped):
        raise Unauthorized("the credentials cannot be used: the token has characters that no header can carry")
    return stripped


def _is_plain(text: str) -> bool:
    """Nothing in it can end a header, or begin another."""
    return text.isascii() and text.isprintable()


async def _headers_of(configuration: Configuration, request: Request) -> dict[str, str]:
    headers = dict(_HEADERS)
    token = await _token_of(configuration)
    if token:
        headers["Authorization"] = token
    if request.body is not None:
        headers["Content-Type"] = request.content_type
    return headers


async def _pieces(response: aiohttp.ClientResponse, request: Request) -> AsyncIterator[bytes]:
    try:
        while piece := await response.content.readany():
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise _lost(request, error) from error


def _named(request: Request) -> str:
    return f"{request.method} {request.path}"


def _lost(request: Request, error: Exception) -> ApiError:
    return ConnectionLost(f"{_named(request)}: {str(error) or type(error).__name__}")


# --- configuration ----------------------------------------------------------------------------------------------------


def _open(configuration: Configuration) -> _Line:
    from kubernetes.aio.client.rest import RESTClientObject

    try:
        tls = RESTClientObject(configuration).ssl_context
    except OSError as error:
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        named = ", ".join(str(one) for one in files if one)
        raise ConfigurationError(
            f"the certificates for {configuration.host} cannot be used: {named}: {error}"
        ) from error
    session = aiohttp.ClientSession(
        connector=StreamConnector(tls), read_bufsize=_BUFFER, cookie_jar=aiohttp.DummyCookieJar()
    )
    server, proxy = URL(configuration.host), _proxy_of(configuration)
    return _Line(
        session,
        configuration,
        proxy,
        None if proxy else _connections_to(server, tls, configuration),
        prefix=server.raw_path.rstrip("/"),
        host_header=server.host_port_subcomponent or "",
    )


def _connections_to(server: URL, tls: ssl.SSLContext, configuration: Configuration) -> ConnectionPool | None:
    """None for an address that is none: aiohttp says what is wrong with it."""
    if server.scheme not in ("http", "https") or not server.host or not server.port:
        return None
    context = tls if server.scheme == "https" else None
    return ConnectionPool(ServerAddress(server.host, server.port, context, configuration.tls_server_name or None))


def _proxy_of(configuration: Configuration) -> str | None:
    """Looked up once: aiohttp's own look at the environment takes a thread, and .netrc, into every request."""
    if configuration.proxy:
        return str(configuration.proxy)
    server = URL(configuration.host)
    return None if proxy_bypass(server.host or "") else getproxies().get(server.scheme)


async def _configuration_from(path: Path | None, context: str | None) -> Configuration:
    # Importing the package takes most of a second, so nobody does who opens no connection.
    from kubernetes.aio import config
    from kubernetes.aio.client import Configuration

    configuration = Configuration()
    try:
        await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=None if path is None else str(path), context=context, client_configuration=configuration
        )
    except Exception as error:  # the package checks little before it uses it, so anything may come out
        shown = path or config.KUBE_CONFIG_DEFAULT_LOCATION
        raise ConfigurationError(f"the kubeconfig {shown} cannot be used: {error}") from error
    return configuration


async def _configuration_in_cluster() -> Configuration:
    from kubernetes.aio import config
    from kubernetes.aio.client import Configuration

    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise ConfigurationError(f"this process does not run in a cluster: {error}") from error
    return configuration


def _same_connection(one: Configuration, other: Configuration) -> bool:
    """Client certificates are part of a connection and may have new content in an old file."""
    compared = ("host", "ssl_ca_cert", "verify_ssl", "proxy", "tls_server_name")
    return not other.cert_file and all(_setting(one, name) == _setting(other, name) for name in compared)


def _setting(configuration: Configuration, name: str) -> Any:
    return getattr(configuration, name, None)
