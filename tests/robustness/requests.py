"""Plain HTTP/1.1 over a connection of its own for each request: nothing is repeated behind the back of a history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

SECONDS: Final = 60.0
"""Until an answer; longer than any fault."""
_AGENT: Final = "robustness"


class NoAnswer(Exception):
    """The connection ended, or was never made."""


async def request(
    port: int, method: str, path: str, body: Any = None, *, token: str = ""
) -> tuple[int, dict[str, Any]]:
    """The status code and the decoded document. Raises NoAnswer."""
    try:
        async with asyncio.timeout(SECONDS), _connection(port) as (reader, writer):
            code, headers = await _exchange_heads(reader, writer, method, path, body, token=token)
            content = await reader.readexactly(int(headers[b"content-length"]))
            return code, json.loads(content)
    except (OSError, EOFError, TimeoutError, ValueError, KeyError) as error:
        raise NoAnswer(f"{method} {path}: {error!r}") from error


async def watch(port: int, path: str) -> AsyncGenerator[dict[str, Any], None]:
    """Events until the connection ends."""
    try:
        async with _connection(port) as (reader, writer):
            code, _ = await _exchange_heads(reader, writer, "GET", path, None)
            pending = b""
            while code == 200 and (size := int(await reader.readline(), 16)):
                pending += (await reader.readexactly(size + 2))[:-2]
                *lines, pending = pending.split(b"\n")
                for line in lines:
                    yield json.loads(line)
    except (OSError, EOFError, ValueError):
        return


@asynccontextmanager
async def _connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _exchange_heads(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, path: str, body: Any, *, token: str = ""
) -> tuple[int, dict[bytes, bytes]]:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nuser-agent: {_AGENT}\r\nconnection: close\r\n"
    head += f"authorization: Bearer {token}\r\n" if token else ""
    kind = f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write((head + kind).encode() + content)
    await writer.drain()
    answer = await reader.readuntil(b"\r\n\r\n")
    status, *lines = answer.rstrip().split(b"\r\n")
    return int(status.split()[1]), dict(_parse_header(line) for line in lines)


def _parse_header(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.strip().lower(), value.strip()
