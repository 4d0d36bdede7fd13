"""The Kubernetes API over HTTP: the only module that knows the `kubernetes` package, and the one that opens sockets.

`kubernetes` finds the configuration and makes sense of it: kubeconfig files, exec plugins, in-cluster tokens, TLS.
Requests then go straight to aiohttp, because on the way through the package a request costs twice the CPU, has a total
timeout of five minutes (which kills watches) and may change its content type.

Credentials that expire: tokens in a pod are read again every minute. All others are read again when the server no
longer accepts them, and the refused request is repeated once.
"""

from __future__ import annotations

import asyncio
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
from fleet.kube.api import Request
from fleet.kube.failures import error_of
from fleet.kube.flow import FlowControl

if TYPE_CHECKING:
    from kubernetes.aio.client import Configuration

_NO_TIMEOUT: Final = aiohttp.ClientTimeout(total=None)
"""Deadlines are ours: aiohttp's default ends every request, watches included, after five minutes."""
_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # inflating costs more than a local network
    "User-Agent": f"fleet/{fleet.__version__}",
}
_BUFFER: Final = 2**16
"""Bytes that aiohttp reads ahead; a piece of a watch is a few times that at most, and taken without yielding."""
_RELOAD_AT_MOST_EVERY: Final = 10.0

R = TypeVar("R")

LoadConfiguration = Callable[[], Awaitable["Configuration"]]


@dataclass(slots=True)
class _Line:
    """A session together with the configuration it was opened with."""

    session: aiohttp.ClientSession
    configuration: Configuration
    proxy: str | None


class Transport:
    """An `Api`. Open it with `connect`, `from_kubeconfig` or `in_cluster`, and use it as a context manager."""

    def __init__(self, line: _Line, load: LoadConfiguration, *, flow: FlowControl, clock: Clock) -> None:
        self._line = line
        self._load = load
        self._flow = flow
        self._clock = clock
        self._reloading = asyncio.Lock()
        self._loaded_at = clock.elapsed()

    @classmethod
    async def connect(cls, load: LoadConfiguration, *, clock: Clock, flow: FlowControl | None = None) -> Self:
        return cls(_open(await load()), load, flow=flow or FlowControl(clock), clock=clock)

    @classmethod
    async def from_kubeconfig(
        cls, path: Path | None = None, *, clock: Clock, context: str | None = None, flow: FlowControl | None = None
    ) -> Self:
        """The file `path`, or where KUBECONFIG and the home folder say."""

        async def load() -> Configuration:
            return await _configuration_from(path, context)

        return await cls.connect(load, clock=clock, flow=flow)

    @classmethod
    async def in_cluster(cls, *, clock: Clock, flow: FlowControl | None = None) -> Self:
        return await cls.connect(_configuration_in_cluster, clock=clock, flow=flow)

    @property
    def server(self) -> str:
        return str(self._line.configuration.host)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._line.session.close()

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

    async def _send(self, request: Request, attempt: Callable[[Request], Awaitable[R]]) -> R:
        try:
            async with asyncio.timeout(request.deadline):
                await self._flow.admit(request.call_class)
                used = self._line.configuration
                try:
                    return await attempt(request)
                except Unauthorized:
                    if not await self._reload(used):
                        raise
                    return await attempt(request)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{_named(request)}: no answer within {request.deadline:g} s") from error

    async def _exchange(self, request: Request) -> bytes:
        response = await self._accepted(request)
        try:
            return await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise _lost(request, error) from error
        finally:
            response.release()

    async def _accepted(self, request: Request) -> aiohttp.ClientResponse:
        """The response, its body still to come, unless it is a refusal."""
        line = self._line
        try:
            response = await line.session.request(
                request.method,
                _url_of(line.configuration, request),
                data=request.body,
                headers=await _headers_of(line.configuration, request),
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
        raise error_of(response.status, body, retry_after=retry_after, doing=_named(request))

    async def _reload(self, refused: Configuration) -> bool:
        """Reads the configuration again; says whether there is any sense in trying with it."""
        async with self._reloading:
            if self._line.configuration is not refused:
                return True  # somebody else was here first
            if self._clock.elapsed() - self._loaded_at < _RELOAD_AT_MOST_EVERY:
                return False
            self._loaded_at = self._clock.elapsed()
            try:
                configuration = await self._load()
            except ConfigurationError:
                return False
            if _same_connection(refused, configuration):
                self._line.configuration = configuration
            else:
                old, self._line = self._line, _open(configuration)
                await old.session.close()
            return True


# --- requests ---------------------------------------------------------------------------------------------------------


def _url_of(configuration: Configuration, request: Request) -> URL:
    # The path is quoted already, and quoting it again would cost more than the rest of this function.
    url = URL(f"{configuration.host}{request.path}", encoded=True)
    return url.with_query(request.query) if request.query else url


async def _headers_of(configuration: Configuration, request: Request) -> dict[str, str]:
    headers = dict(_HEADERS)
    try:
        token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    except Exception as error:  # in a pod this reads a file
        raise Unauthorized(f"the credentials cannot be read: {error}") from error
    if token:
        headers["Authorization"] = token.strip()
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

    tls = RESTClientObject(configuration).ssl_context
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    session = aiohttp.ClientSession(connector=connector, read_bufsize=_BUFFER, cookie_jar=aiohttp.DummyCookieJar())
    return _Line(session, configuration, _proxy_of(configuration))


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
