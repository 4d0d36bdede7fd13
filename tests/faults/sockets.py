"""A server of bytes: each connection gets what its script says, well-formed or not."""

from __future__ import annotations

import asyncio
import functools
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec

import msgspec

P = ParamSpec("P")

Play = Callable[[asyncio.StreamWriter], Awaitable[None]]
"""What happens after a request has arrived."""


def real(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes a test of a coroutine that needs real sockets, and so real time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


@dataclass
class ByteServer:
    """Plays are for one request each, in order; the last one is for all that follow."""

    plays: list[Play]
    port: int = 0
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                self.requests.append(await self._request(reader))
                play = self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
                await play(writer)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                return head + await reader.readexactly(int(value))
        return head


@asynccontextmanager
async def a_server(*plays: Play) -> AsyncIterator[ByteServer]:
    server = ByteServer(list(plays))
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.create_task(server.serve(reader, writer), name="connection"))

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


# --- plays ------------------------------------------------------------------------------------------------------------


def answer(body: bytes | dict[str, Any], *, code: int = 200, headers: str = "") -> Play:
    encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return sends(f"HTTP/1.1 {code} X\r\nContent-Length: {len(encoded)}\r\n{headers}\r\n".encode() + encoded)


def status(code: int, reason: str, **more: Any) -> Play:
    return answer({"kind": "Status", "status": "Failure", "code": code, "reason": reason, **more}, code=code)


def sends(text: bytes) -> Play:
    async def play(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return play


def then(*plays: Play) -> Play:
    async def play(writer: asyncio.StreamWriter) -> None:
        for one in plays:
            await one(writer)

    return play


async def hangs(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def closes(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def resets(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.01)  # let what was sent before arrive
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def trickles(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


CHUNKED = sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
LAST_CHUNK = sends(b"0\r\n\r\n")


def chunk(text: bytes) -> Play:
    return sends(f"{len(text):x}\r\n".encode() + text + b"\r\n")
