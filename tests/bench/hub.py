"""Measures the embedded hub over HTTP: `python -m tests.bench.hub [--data-dir]`.

Starts the hub as a process of its own, as users do, and speaks to it with raw sockets: a client library would be
measured instead. On two cores the client takes about half of what there is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

CONNECTIONS: Final = 32
PIPELINED: Final = 8  # requests under way on each connection
WATCHERS: Final = 10
_COLLECTION: Final = "/api/v1/namespaces/default/configmaps"


class Connection:
    """HTTP/1.1 with requests sent ahead of the answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)

    async def answer(self, *, want: int) -> None:
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d" % want), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await self.reader.readexactly(length)


async def drive(port: int, count: int, send: Callable[[Connection, int], None], *, want: int) -> float:
    """Requests per second, `count` of them over all connections."""

    async def work(numbers: range) -> None:
        connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
        under_way = 0
        for number in numbers:
            send(connection, number)
            under_way += 1
            if under_way == PIPELINED:
                await connection.answer(want=want)
                under_way -= 1
        for _ in range(under_way):
            await connection.answer(want=want)
        connection.writer.close()

    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for first in range(CONNECTIONS):
            tasks.create_task(work(range(first, count, CONNECTIONS)), name=f"load-{first}")
    return count / (time.perf_counter() - started)


def config_map(number: int) -> bytes:
    return json.dumps({"metadata": {"name": f"bench-{number}"}, "data": {"key": "x" * 64}}).encode()


async def watched(port: int, count: int) -> float:
    """Events delivered per second, all watchers together, while ConfigMaps are written as fast as they can be."""
    writers = [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(WATCHERS)]

    async def watch(connection: Connection) -> None:
        connection.send("GET", f"{_COLLECTION}?watch=1&resourceVersion={await revision(port)}")
        seen = 0
        while seen < count:
            chunk = await connection.reader.read(1 << 20)
            seen += chunk.count(b'{"type":"ADDED"')
        connection.writer.close()

    async with asyncio.TaskGroup() as tasks:
        for number, connection in enumerate(writers):
            tasks.create_task(watch(connection), name=f"watch-{number}")
        await asyncio.sleep(0.5)  # until all watches are open
        started = time.perf_counter()
        await drive(port, count, lambda c, n: c.send("POST", _COLLECTION, config_map(1_000_000 + n)), want=201)
    return count * WATCHERS / (time.perf_counter() - started)


async def revision(port: int) -> str:
    connection = Connection(*await asyncio.open_connection("127.0.0.1", port))
    connection.send("GET", f"{_COLLECTION}?limit=1")
    head = await connection.reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = json.loads(await connection.reader.readexactly(length))
    connection.writer.close()
    return str(body["metadata"]["resourceVersion"])


async def measure(port: int) -> dict[str, float]:
    creates = await drive(port, 6_000, lambda c, n: c.send("POST", _COLLECTION, config_map(n)), want=201)
    gets = await drive(port, 20_000, lambda c, n: c.send("GET", f"{_COLLECTION}/bench-{n % 6_000}"), want=200)
    return {"creates/s": creates, "gets/s": gets, "watch events/s": await watched(port, 3_000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--durable", action="store_true", help="with a data directory")
    durable = parser.parse_args().durable
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "fleet.hub", "--ready-file", str(ready)]
        hub = subprocess.Popen([*command, *(["--data-dir", f"{folder}/data"] if durable else [])])
        try:
            while not ready.exists():
                assert hub.poll() is None, "the hub did not start"
                time.sleep(0.05)
            port = int(json.loads(ready.read_text())["url"].rpartition(":")[2])
            for name, figure in asyncio.run(measure(port)).items():
                sys.stdout.write(f"{name:16} {figure:10,.0f}\n")
        finally:
            hub.terminate()
            hub.wait()


if __name__ == "__main__":
    main()
