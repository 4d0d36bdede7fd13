"""Transport: the Kubernetes API over HTTP, and the only module that imports the `kubernetes` package.

`kubernetes` loads the configuration: kubeconfig files, exec plugins, in-cluster tokens, TLS. Requests do not go through
the package: there they cost a multiple of the CPU, have a total timeout of five minutes (which ends watches) and may
change their content type. Exchanges use the connection pool; streams, and everything behind a proxy, use aiohttp.

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
"""The server's share of the timeout of a write; the rest is for the network."""
_REPEATABLE: Final = (Method.GET, Method.PUT, Method.DELETE)
"""Idempotent methods: may be sent again where the server has closed a kept connection meanwhile."""

R = TypeVar("R")

LoadConfiguration = Callable[[], Awaitable["Configuration"]]


@dataclass(slots=True)
class _Endpoint:
    """The open connections to the server, with their configuration."""

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

    def __init__(
        self, endpoint: _Endpoint, load: LoadConfiguration, *, rate_limiter: RateLimiter, clock: Clock
    ) -> None:
        self._endpoint = endpoint
        self._load = load
        self._rate_limiter = rate_limiter
        self._clock = clock
        self._reloading = asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._loaded_at = clock.monotonic()

    @classmethod
    async def connect(cls, load: LoadConfiguration, *, clock: Clock, rate_limiter: RateLimiter | None = None) -> Self:
        return cls(_open(await load()), load, rate_limiter=rate_limiter or RateLimiter(clock), clock=clock)

    @classmethod
    async def from_kubeconfig(
        cls,
        path: Path | None = None,
        *,
        clock: Clock,
        context: str | None = None,
        rate_limiter: RateLimiter | None = None,
    ) -> Self:
        """From the file `path`, else from KUBECONFIG or the home folder. Raises ConfigurationError."""
        validate_kubeconfig(path, context)

        async def load() -> Configuration:
            return await _load_kubeconfig(path, context)

        return await cls.connect(load, clock=clock, rate_limiter=rate_limiter)

    @classmethod
    async def in_cluster(cls, *, clock: Clock, rate_limiter: RateLimiter | None = None) -> Self:
        return await cls.connect(_load_in_cluster, clock=clock, rate_limiter=rate_limiter)

    @property
    def server(self) -> str:
        return str(self._endpoint.configuration.host)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Returns when every connection is gone. Requests in flight fail."""
        await self._endpoint.close()
        if self._retiring:
            await asyncio.wait(self._retiring)

    # --- Api ----------------------------------------------------------------------------------------------------------

    async def call(self, request: Request) -> bytes:
        return await self._send(request, self._exchange)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        response = await self._send(request, self._open_response)
        try:
            yield _read_pieces(response, request)
        finally:
            response.close()

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _send(self, request: Request, attempt: Callable[[Request, str], Awaitable[R]]) -> R:
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(request.deadline):
                await self._rate_limiter.acquire(request.call_class)
                used = self._endpoint.configuration
                async with self._rate_limiter.writes.slot(request.call_class):
                    target = _build_target(request, seconds=request.deadline - (self._clock.monotonic() - started))
                    try:
                        return await attempt(request, target)
                    except Unauthorized:
                        if request.bearer or not await self._reload(used):
                            raise
                        return await attempt(request, target)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{_describe(request)}: no answer within {request.deadline:g} s") from error

    async def _exchange(self, request: Request, target: str) -> bytes:
        endpoint = self._endpoint
        if endpoint.connections is None:
            return await self._exchange_through_session(request, target)
        message = _build_message(
            request,
            f"{endpoint.prefix}{target}",
            endpoint.host_header,
            await _find_token(endpoint.configuration, request),
        )
        repeatable = request.method in _REPEATABLE
        try:
            answer = await endpoint.connections.exchange(message, guard=request.guard, repeatable=repeatable)
        except NotConnected as error:
            raise Unreachable(f"{_describe(request)}: {error}") from error
        except OSError as error:
            raise _build_lost(request, error) from error
        if answer.status < 300:
            return answer.body
        raise parse_error(answer.status, answer.body, retry_after=answer.retry_after, doing=_describe(request))

    async def _exchange_through_session(self, request: Request, target: str) -> bytes:
        response = await self._open_response(request, target)
        try:
            return await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise _build_lost(request, error) from error
        finally:
            response.release()

    async def _open_response(self, request: Request, target: str) -> aiohttp.ClientResponse:
        """A successful response, without its body yet; raises for any other."""
        endpoint = self._endpoint
        headers = await _build_headers(endpoint.configuration, request)
        if request.guard is not None:
            request.guard()
        try:
            response = await endpoint.session.request(
                request.method,
                # The target is quoted already, and quoting it again would cost more than the rest of this call.
                URL(f"{endpoint.configuration.host}{target}", encoded=True),
                data=request.body,
                headers=headers,
                proxy=endpoint.proxy,
                proxy_headers=endpoint.configuration.proxy_headers,
                server_hostname=endpoint.configuration.tls_server_name,
                timeout=_NO_TIMEOUT,
                allow_redirects=False,
            )
            if response.status < 300:
                return response
            body = await response.read()
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(f"{_describe(request)}: {error}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _build_lost(request, error) from error
        retry_after = response.headers.get("Retry-After", "")
        raise parse_error(response.status, body, retry_after=retry_after, doing=_describe(request))

    async def _reload(self, refused: Configuration) -> bool:
        """Loads the configuration again; whether a retry makes sense."""
        async with self._reloading:
            if self._endpoint.configuration is not refused:
                return True  # another request has reloaded it
            if self._clock.monotonic() - self._loaded_at < _RELOAD_AT_MOST_EVERY:
                return False
            self._loaded_at = self._clock.monotonic()
            try:
                self._switch_to(await self._load())
            except ConfigurationError:
                return False
            return True

    def _switch_to(self, configuration: Configuration) -> None:
        if _has_same_connection(self._endpoint.configuration, configuration):
            self._endpoint.configuration = configuration
            return
        former, self._endpoint = self._endpoint, _open(configuration)
        # In a task of its own: the request that caused the reload may end before.
        closing = asyncio.create_task(former.close(), name="closing former connections")
        self._retiring.add(closing)
        closing.add_done_callback(self._retiring.discard)


# --- requests ---------------------------------------------------------------------------------------------------------


def _build_target(request: Request, *, seconds: float) -> str:
    """Path and query. A write has a timeout for the server that is shorter than ours: otherwise it might be applied
    after a later decision."""
    target = str(URL(request.path, encoded=True).with_query(request.query)) if request.query else request.path
    if not request.is_write:
        return target
    limit = max(1, int(seconds * _SHARE_OF_SERVER * 1000))
    return f"{target}{'&' if request.query else '?'}timeout={limit}ms"


def _build_message(request: Request, target: str, host: str, token: str) -> bytes:
    if " " in target or not _is_plain(target):
        raise ValueError(f"{request.method} {target!r}: the path is not quoted")
    body = request.body
    head = f"{request.method} {target} HTTP/1.1\r\nHost: {host}\r\n{_FIXED}"
    if token:
        head += f"Authorization: {token}\r\n"
    if body is None:
        return f"{head}\r\n".encode("ascii")
    return f"{head}Content-Type: {request.content_type}\r\nContent-Length: {len(body)}\r\n\r\n".encode("ascii") + body


async def _find_token(configuration: Configuration, request: Request) -> str:
    if not request.bearer:
        return await _read_token(configuration)
    if configuration.cert_file:
        raise ConfigurationError("a request with a token of another user cannot be sent beside a client certificate")
    if not _is_plain(request.bearer):
        raise Unauthorized("the token has characters that no header can carry")
    return f"Bearer {request.bearer}"


async def _read_token(configuration: Configuration) -> str:
    try:
        token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    except Exception as error:  # in a pod this reads a file
        raise Unauthorized(f"the credentials cannot be read: {error}") from error
    stripped = token.strip() if token else ""
    if not _is_plain(stripped):
        raise Unauthorized("the credentials cannot be used: the token has characters that no header can carry")
    return stripped


def _is_plain(text: str) -> bool:
    """Whether the text cannot end a header or begin another."""
    return text.isascii() and text.isprintable()


async def _build_headers(configuration: Configuration, request: Request) -> dict[str, str]:
    headers = dict(_HEADERS)
    token = await _find_token(configuration, request)
    if token:
        headers["Authorization"] = token
    if request.body is not None:
        headers["Content-Type"] = request.content_type
    return headers


async def _read_pieces(response: aiohttp.ClientResponse, request: Request) -> AsyncIterator[bytes]:
    try:
        while piece := await response.content.readany():
            yield piece
    except (aiohttp.ClientError, OSError) as error:
        raise _build_lost(request, error) from error


def _describe(request: Request) -> str:
    return f"{request.method} {request.path}"


def _build_lost(request: Request, error: Exception) -> ApiError:
    return ConnectionLost(f"{_describe(request)}: {str(error) or type(error).__name__}")


# --- configuration ----------------------------------------------------------------------------------------------------


def _open(configuration: Configuration) -> _Endpoint:
    from kubernetes.aio.client.rest import RESTClientObject

    try:
        tls = RESTClientObject(configuration).ssl_context
    except OSError as error:
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        named = ", ".join(str(file) for file in files if file)
        raise ConfigurationError(
            f"the certificates for {configuration.host} cannot be used: {named}: {error}"
        ) from error
    session = aiohttp.ClientSession(
        connector=StreamConnector(tls), read_bufsize=_BUFFER, cookie_jar=aiohttp.DummyCookieJar()
    )
    server, proxy = URL(configuration.host), _find_proxy(configuration)
    return _Endpoint(
        session,
        configuration,
        proxy,
        None if proxy else _build_pool(server, tls, configuration),
        prefix=server.raw_path.rstrip("/"),
        host_header=server.host_port_subcomponent or "",
    )


def _build_pool(server: URL, tls: ssl.SSLContext, configuration: Configuration) -> ConnectionPool | None:
    """None for an invalid address: aiohttp has the better error message."""
    if server.scheme not in ("http", "https") or not server.host or not server.port:
        return None
    context = tls if server.scheme == "https" else None
    return ConnectionPool(ServerAddress(server.host, server.port, context, configuration.tls_server_name or None))


def _find_proxy(configuration: Configuration) -> str | None:
    """Looked up once: aiohttp would use a thread, and read .netrc, for every request."""
    if configuration.proxy:
        return str(configuration.proxy)
    server = URL(configuration.host)
    return None if proxy_bypass(server.host or "") else getproxies().get(server.scheme)


async def _load_kubeconfig(path: Path | None, context: str | None) -> Configuration:
    # Importing the package takes most of a second, so it is imported only to open a connection.
    from kubernetes.aio import config
    from kubernetes.aio.client import Configuration

    configuration = Configuration()
    try:
        await config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=None if path is None else str(path), context=context, client_configuration=configuration
        )
    except Exception as error:  # the package validates little, so any exception is possible
        shown = path or config.KUBE_CONFIG_DEFAULT_LOCATION
        raise ConfigurationError(f"the kubeconfig {shown} cannot be used: {error}") from error
    return configuration


async def _load_in_cluster() -> Configuration:
    from kubernetes.aio import config
    from kubernetes.aio.client import Configuration

    configuration = Configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise ConfigurationError(f"this process does not run in a cluster: {error}") from error
    return configuration


def _has_same_connection(old: Configuration, new: Configuration) -> bool:
    """Client certificates are part of a connection and may have new content in an old file."""
    compared = ("host", "ssl_ca_cert", "verify_ssl", "proxy", "tls_server_name")
    return not new.cert_file and all(_read_setting(old, name) == _read_setting(new, name) for name in compared)


def _read_setting(configuration: Configuration, name: str) -> Any:
    return getattr(configuration, name, None)
