"""HTTP/1.1 connection pool for one server: a request and its whole response, over kept connections.

A scheduler spends most of its CPU on writes, and a general HTTP client is most of the cost of a write. This one
supports what an exchange of documents needs: no streams, redirects, compression, cookies or proxies. The content of
requests, the meaning of responses, and timeouts are left to `transport`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

import httptools
from httptools import HttpParserError, HttpParserUpgrade

from fleet.kube.client.dialer import Dialer, NotConnected

KEEP_ALIVE: Final = 15.0
"""Seconds that a connection may be idle: shorter than the keep-alive timeout of usual servers."""

_FRAMED_BY: Final = (b"content-length", b"transfer-encoding")
_RETRY_AFTER: Final = b"retry-after"
_FIRST_FINAL: Final = 200
"""Responses with a lower status are followed by another."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    host: str
    port: int
    tls: ssl.SSLContext | None = None
    name: str | None = None
    """The name in its certificate, where that is not the host."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    body: bytes
    retry_after: str = ""


class ConnectionPool:
    """Opens as many as are needed. The one used last is used first, so that others may expire."""

    def __init__(self, server: ServerAddress) -> None:
        self._server = server
        self._idle: deque[Connection] = deque()
        self._open: set[Connection] = set()
        self._dialer = Dialer(on_unclaimed=self._keep)
        self._closed = False

    async def exchange(self, message: bytes, *, guard: Callable[[], object] | None, repeatable: bool) -> HttpResponse:
        """Raises `NotConnected` if no byte was sent, and another OSError if the message may have been received.

        `guard` is called right before the message is sent. A `repeatable` message is sent once more where a kept
        connection turns out to have been closed by the server in the meantime.
        """
        connection = self._take_idle()
        if connection is not None:
            try:
                return await self._exchange_over(connection, message, guard)
            except ConnectionError:
                if not repeatable or connection.was_answered:
                    raise
        if self._closed:
            raise NotConnected("the transport was closed")
        return await self._exchange_over(await self._dialer.dial(self._connect()), message, guard)

    async def close(self) -> None:
        """Returns when every connection is gone. Exchanges under way fail."""
        self._closed = True
        for connection in self._open:
            connection.abort()
        await self._dialer.close()
        leaving = [connection.gone for connection in self._open]
        if leaving:
            await asyncio.wait(leaving)

    # --- inside -------------------------------------------------------------------------------------------------------

    async def _exchange_over(
        self, connection: Connection, message: bytes, guard: Callable[[], object] | None
    ) -> HttpResponse:
        try:
            if guard is not None:
                guard()
            answer = await connection.exchange(message)
        except BaseException:
            connection.abort()  # the response may still arrive on it
            raise
        self._keep(connection)
        return answer

    def _keep(self, connection: Connection) -> None:
        if connection.is_reusable and not self._closed:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()

    def _take_idle(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE
        while self._idle and (self._idle[0].idle_since < oldest or not self._idle[0].is_reusable):
            self._idle.popleft().abort()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable:
                return connection
        return None

    async def _connect(self) -> Connection:
        server = self._server
        name = None if server.tls is None else server.name
        try:
            _, connection = await asyncio.get_running_loop().create_connection(
                Connection, server.host, server.port, ssl=server.tls, server_hostname=name
            )
        except OSError as error:
            raise NotConnected(f"cannot connect to {server.host}:{server.port}: {error}") from error
        self._open.add(connection)
        connection.gone.add_done_callback(lambda _: self._open.discard(connection))
        if self._closed:
            connection.abort()
        return connection


class Connection(asyncio.Protocol):
    """One exchange after the other; callers use the `ConnectionPool`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = loop.create_future()
        self.idle_since = 0.0
        self.was_answered = False
        """Whether a byte was received since the last message was sent."""
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._response: asyncio.Future[HttpResponse] | None = None
        self._keeps_alive = True
        self._reset()

    @property
    def is_reusable(self) -> bool:
        transport = self._transport
        return self._keeps_alive and transport is not None and not transport.is_closing()

    async def exchange(self, message: bytes) -> HttpResponse:
        """After a cancelled or failed exchange the connection can only be aborted."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the connection was closed before the request was sent")
        self.was_answered = False
        self._response = self._loop.create_future()
        transport.write(message)
        return await self._response

    def abort(self) -> None:
        """Closes at once, without waiting for the server."""
        self._keeps_alive = False
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # those of uvloop are by behaviour, not by class

    def data_received(self, data: bytes) -> None:
        self.was_answered = True
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._fail(ConnectionError(f"the response is not HTTP: {error}"))

    def eof_received(self) -> None:
        """The transport closes itself after that."""

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None and self._keeps_alive and self._status >= _FIRST_FINAL and not self._is_framed:
            self.on_message_complete()  # the end of a response without a length, unless we closed the connection
        self._transport = None
        self._fail(exc if isinstance(exc, OSError) else ConnectionResetError("the server closed the connection"))
        if not self.gone.done():
            self.gone.set_result(None)

    # --- httptools ----------------------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if lowered in _FRAMED_BY:
            self._is_framed = True
        elif lowered == _RETRY_AFTER:
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self._status < _FIRST_FINAL:
            self._reset()
            return
        self._keeps_alive = self._keeps_alive and self._is_framed_or_empty() and self._parser.should_keep_alive()
        waiting, self._response = self._response, None
        answer = HttpResponse(self._status, b"".join(self._pieces), self._retry_after)
        self._reset()
        if waiting is None:
            self.abort()  # a response without a request
        elif not waiting.done():
            waiting.set_result(answer)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _reset(self) -> None:
        self._status = 0
        self._is_framed = False
        self._retry_after = ""
        self._pieces: list[bytes] = []

    def _is_framed_or_empty(self) -> bool:
        return self._is_framed or not self._pieces

    def _fail(self, error: OSError) -> None:
        waiting, self._response = self._response, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)
        self.abort()
