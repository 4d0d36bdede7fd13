"""How fast the embedded hub is over HTTP, in memory and with a data directory.

It runs as a process of its own, as for users, and is spoken to with raw sockets: a client library would be measured
instead. Rates are by the clock, because two processes take part; on two cores the client takes about half of what there
is.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.figures import Figure, Kind
from tests.bench.measuring import Run

CONNECTIONS: Final = 32
PIPELINED: Final = 8  # requests under way on each connection
WATCHERS: Final = 10
SECONDS_TO_START: Final = 90.0
_COLLECTION: Final = "/api/v1/namespaces/default/configmaps"
_EVENT: Final = b'{"type":"ADDED"'


@dataclass(frozen=True, slots=True)
class Size:
    creates: int
    gets: int
    watched: int


FULL: Final = Size(creates=6_000, gets=20_000, watched=3_000)
QUICK: Final = Size(creates=2_000, gets=8_000, watched=1_000)
TARGETS: Final = {"creates": 3_000, "gets": 10_000, f"events to {WATCHERS} watchers": 15_000}


def hub(run: Run) -> Iterator[Figure]:
    """Targets are for the hub in memory; how fast a disk syncs is no merit of ours."""
    size, repetitions = (QUICK, 1) if run.quick else (FULL, 3)
    for durable, where in ((False, "in memory"), (True, "with a data directory")):
        found = [_measured(size, durable=durable) for _ in range(repetitions)]
        for case, target in TARGETS.items():
            rate = statistics.median(one[case] for one in found)
            yield run.number(case, where, Kind.PER_SECOND, rate, target=None if durable else target)


def _measured(size: Size, *, durable: bool) -> dict[str, float]:
    with serving(durable=durable) as port:
        return dict(zip(TARGETS, asyncio.run(_rates(port, size)), strict=True))


async def _rates(port: int, size: Size) -> tuple[float, float, float]:
    creates = await driven(port, size.creates, lambda c, n: c.send("POST", _COLLECTION, _config_map(n)), want=201)
    gets = await driven(
        port, size.gets, lambda c, n: c.send("GET", f"{_COLLECTION}/bench-{n % size.creates}"), want=200
    )
    return creates, gets, await watched(port, size.watched)


@contextmanager
def serving(*, durable: bool) -> Iterator[int]:
    """The port of a hub of one's own."""
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "fleet.hub", "--ready-file", str(ready)]
        process = subprocess.Popen([*command, *(["--data-dir", f"{folder}/data"] if durable else [])])
        try:
            yield _port_when_ready(process, ready)
        finally:
            process.terminate()
            process.wait()


def _port_when_ready(process: subprocess.Popen[bytes], ready: Path) -> int:
    deadline = time.monotonic() + SECONDS_TO_START
    while not ready.exists():
        assert process.poll() is None, "the hub ended at once"
        assert time.monotonic() < deadline, "the hub did not start"
        time.sleep(0.05)
    return int(json.loads(ready.read_text(encoding="utf-8"))["url"].rpartition(":")[2])


# --- load -------------------------------------------------------------------------------------------------------------


class Connection:
    """HTTP/1.1 with requests sent ahead of the answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str = "") -> None:
        self.reader = reader
        self.writer = writer
        self._headers = "Host: 127.0.0.1\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")

    @classmethod
    async def to(cls, port: int, *, token: str = "") -> Connection:
        return cls(*await asyncio.open_connection("127.0.0.1", port), token)

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)

    async def head(self, *, want: int) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d" % want), head
        return head.lower()

    async def answer(self, *, want: int) -> bytes:
        head = await self.head(want=want)
        return await self.reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def driven(port: int, count: int, send: Callable[[Connection, int], None], *, want: int) -> float:
    """Requests per second, `count` of them over all connections."""

    async def work(numbers: range) -> None:
        connection = await Connection.to(port)
        under_way = 0
        for number in numbers:
            send(connection, number)
            under_way += 1
            if under_way == PIPELINED:
                await connection.answer(want=want)
                under_way -= 1
        for _ in range(under_way):
            await connection.answer(want=want)
        await connection.close()

    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for first in range(CONNECTIONS):
            tasks.create_task(work(range(first, count, CONNECTIONS)), name=f"load-{first}")
    return count / (time.perf_counter() - started)


def _config_map(number: int) -> bytes:
    return json.dumps({"metadata": {"name": f"bench-{number}"}, "data": {"key": "x" * 64}}).encode()


async def watched(port: int, count: int) -> float:
    """Events delivered per second, all watchers together, while ConfigMaps are written as fast as they can be."""
    version = await _version(port)
    connections = [await Connection.to(port) for _ in range(WATCHERS)]
    for connection in connections:
        connection.send("GET", f"{_COLLECTION}?watch=1&resourceVersion={version}")
        await connection.head(want=200)
    started = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number, connection in enumerate(connections):
            tasks.create_task(_count_events(connection, count), name=f"watch-{number}")
        await driven(port, count, lambda c, n: c.send("POST", _COLLECTION, _config_map(1_000_000 + n)), want=201)
    return count * WATCHERS / (time.perf_counter() - started)


async def _count_events(connection: Connection, count: int) -> None:
    seen, rest = 0, b""
    while seen < count:
        piece = await connection.reader.read(1 << 20)
        assert piece, "the watch ended"
        piece = rest + piece
        seen += piece.count(_EVENT)
        rest = piece[-len(_EVENT) + 1 :]
    await connection.close()


async def _version(port: int) -> str:
    connection = await Connection.to(port)
    connection.send("GET", f"{_COLLECTION}?limit=1")
    version: str = json.loads(await connection.answer(want=200))["metadata"]["resourceVersion"]
    await connection.close()
    return version
