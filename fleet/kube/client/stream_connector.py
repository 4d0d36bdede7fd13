"""aiohttp connector for streams, and for everything behind a proxy, that closes every connection."""

from __future__ import annotations

import asyncio
import errno
import ssl
from typing import TYPE_CHECKING

import aiohttp

from fleet.kube.client.dialer import Dialer, NotConnected

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.tracing import Trace


class StreamConnector(aiohttp.TCPConnector):
    """Closing it also closes connections that are being opened or closed.

    aiohttp closes those of abandoned requests, such as watches, in the background: a loop that ends before leaves open
    sockets behind, and with a server that does not answer they take half a minute.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(ssl=tls, limit=0)
        self._dialer = Dialer(on_unclaimed=_abort)
        self._open: dict[asyncio.Future[None], asyncio.Transport] = {}
        self._is_ending = False

    async def close(self, *, abort_ssl: bool = False) -> None:
        self._is_ending = True
        for transport in self._open.values():
            transport.abort()
        await self._dialer.close()
        leaving = list(self._open)
        await super().close(abort_ssl=abort_ssl)
        if leaving:
            await asyncio.wait(leaving)

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        try:
            if self._is_ending:  # aiohttp retries requests, and would detect it too late
                raise NotConnected("the transport was closed")
            return await self._dialer.dial(self._connect(req, traces, timeout))
        except NotConnected as error:  # aiohttp would treat it as a broken connection
            raise aiohttp.ClientConnectorError(req.connection_key, OSError(errno.ENOTCONN, str(error))) from error

    async def _connect(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        protocol = await super()._create_connection(req, traces, timeout)
        gone, transport = protocol.closed, protocol.transport  # it drops its transport before that is closed
        if gone is not None and transport is not None:
            self._open[gone] = transport
            gone.add_done_callback(self._forget)
        if self._is_ending:
            _abort(protocol)
        return protocol

    def _forget(self, gone: asyncio.Future[None]) -> None:
        del self._open[gone]
        if not gone.cancelled():
            gone.exception()  # the caller has the error; this marks it as retrieved for asyncio


def _abort(protocol: ResponseHandler) -> None:
    if protocol.transport is not None:
        protocol.transport.abort()
