"""The connections of streams, and of everything behind a proxy: aiohttp's, closed to the last one."""

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
    """Closing it closes connections that are on their way in or out, too.

    aiohttp leaves those of abandoned requests, such as watches, to say goodbye in the background: a loop that ends
    before they are through leaves open sockets behind, and with a server that does not answer they take half a minute.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(ssl=tls, limit=0)
        self._openings = Dialer(left_over=_hang_up)
        self._not_yet_gone: dict[asyncio.Future[None], asyncio.Transport] = {}
        self._is_ending = False

    async def close(self, *, abort_ssl: bool = False) -> None:
        self._is_ending = True
        for transport in self._not_yet_gone.values():
            transport.abort()
        await self._openings.close()
        leaving = list(self._not_yet_gone)
        await super().close(abort_ssl=abort_ssl)
        if leaving:
            await asyncio.wait(leaving)

    async def _create_connection(
        self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        try:
            if self._is_ending:  # aiohttp repeats what it may repeat, and would find out too late
                raise NotConnected("the transport was closed")
            return await self._openings.wait_for(self._opened(req, traces, timeout))
        except NotConnected as error:  # which aiohttp would take for a connection that broke
            raise aiohttp.ClientConnectorError(req.connection_key, OSError(errno.ENOTCONN, str(error))) from error

    async def _opened(self, req: ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout) -> ResponseHandler:
        protocol = await super()._create_connection(req, traces, timeout)
        gone, transport = protocol.closed, protocol.transport  # it forgets its transport before that is closed
        if gone is not None and transport is not None:
            self._not_yet_gone[gone] = transport
            gone.add_done_callback(self._forget)
        if self._is_ending:
            _hang_up(protocol)
        return protocol

    def _forget(self, gone: asyncio.Future[None]) -> None:
        del self._not_yet_gone[gone]
        if not gone.cancelled():
            gone.exception()  # whoever used the connection knows; asyncio wants somebody to have looked


def _hang_up(protocol: ResponseHandler) -> None:
    if protocol.transport is not None:
        protocol.transport.abort()
