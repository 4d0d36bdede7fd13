"""A TCP forwarder in front of the hub: its port stays when the hub gets a new one, and the network between can fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_CHUNK = 64 * 1024


class Forwarder:
    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        """Port of the hub; 0 while it does not listen."""
        self._passage = asyncio.Event()
        self._passage.set()
        self._connections: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Ends all connections."""
        for task in self._connections:
            task.cancel()

    def hold(self) -> None:
        """Delivers nothing, in both directions, and refuses nothing."""
        self._passage.clear()

    def release(self) -> None:
        self._passage.set()

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._forward(reader, writer)
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # the connection ends, which is all that the client has to see
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.target:
            return
        await self._passage.wait()
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._pump(reader, their_writer))
                await self._pump(their_reader, writer)
                sending.cancel()
        finally:
            their_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            await self._passage.wait()
            writer.write(data)
            await writer.drain()
        await self._passage.wait()
        with contextlib.suppress(OSError):
            writer.write_eof()


@asynccontextmanager
async def forwarding() -> AsyncIterator[Forwarder]:
    forwarder = Forwarder()
    server = await asyncio.start_server(forwarder.forward, "127.0.0.1", 0, backlog=256)
    forwarder.port = server.sockets[0].getsockname()[1]
    try:
        yield forwarder
    finally:
        server.close()
        forwarder.release()
        while forwarder._connections:
            forwarder.cut()
            await asyncio.sleep(0)
        await server.wait_closed()
