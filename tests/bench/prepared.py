"""A process that serves prepared bytes over HTTP on loopback, to any client: what is measured is the client.

One kind, MemberClusters of 2 kB: a list in pages, and a watch that sends events as fast as they are read.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from fleet.kube.resource import Resource

CLUSTERS: Final = Resource(
    "cluster.kubernetes-fleet.io", "v1beta1", "memberclusters", "MemberCluster", namespaced=False
)
PAGE: Final = 500
SHORT_WATCH: Final = "few"
"""The label selector that asks for the shorter of the two watches."""
_PIECE: Final = 2**18


@dataclass(frozen=True, slots=True)
class Size:
    objects: int
    events: int
    events_of_a_short_watch: int

    @property
    def last_version(self) -> str:
        return str(self.objects + self.events)


@contextmanager
def served(size: Size) -> Iterator[int]:
    """The port."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs, size), daemon=True)
    server.start()
    try:
        port: int = ours.recv()
        yield port
    finally:
        ours.close()
        server.terminate()
        server.join()


# --- what is served ---------------------------------------------------------------------------------------------------


def a_document(number: int, version: int) -> dict[str, Any]:
    """About 2 kB, of the parts a member cluster really has."""
    seen = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": type, "status": "True", "reason": type, "lastTransitionTime": seen, "observedGeneration": 3}
        for type in ("ReadyToJoin", "Joined", "Healthy")
    ]
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "1100"}
    return {
        "apiVersion": CLUSTERS.api_version,
        "kind": CLUSTERS.kind,
        "metadata": {
            "name": f"cluster-{number:05}",
            "uid": f"7f1c0a52-0000-4000-8000-{number:012}",
            "resourceVersion": str(version),
            "generation": 3,
            "creationTimestamp": seen,
            "labels": {"region": f"r{number % 20}", "zone": f"z{number % 60}", "tier": "production", "team": "core"},
            "annotations": {"example.com/description": "x" * 500},
        },
        "spec": {
            "identity": {"kind": "ServiceAccount", "name": "agent"},
            "taints": [{"key": "gpu", "effect": "NoSchedule"}],
        },
        "status": {
            "conditions": conditions,
            "properties": {f"kubernetes-fleet.io/p{one}": {"value": "12", "observationTime": seen} for one in range(4)},
            "resourceUsage": {"capacity": amounts, "allocatable": amounts, "available": amounts},
            "agentStatus": [{"type": "MemberAgent", "conditions": conditions[1:], "lastReceivedHeartbeat": seen}],
        },
    }


def _pages(size: Size) -> dict[str, bytes]:
    """By continue token."""
    documents = [msgspec.json.encode(a_document(number, number + 1)) for number in range(size.objects)]
    found = {}
    for start in range(0, size.objects, PAGE):
        after = str(start + PAGE) if start + PAGE < size.objects else ""
        metadata = msgspec.json.encode({"resourceVersion": str(size.objects), "continue": after})
        items = b",".join(documents[start : start + PAGE])
        found[str(start)] = b'{"apiVersion":"v1","kind":"List","metadata":' + metadata + b',"items":[' + items + b"]}"
    return found


def _events(size: Size, count: int) -> bytes:
    def line(number: int) -> bytes:
        document = a_document(number % size.objects, size.objects + 1 + number)
        return msgspec.json.encode({"type": "MODIFIED", "object": document}) + b"\n"

    return b"".join(line(number) for number in range(count))


# --- the server -------------------------------------------------------------------------------------------------------


def _serve(connection: Connection, size: Size) -> None:
    """Until it is terminated."""
    asyncio.run(_serving(connection, size))


async def _serving(connection: Connection, size: Size) -> None:
    pages = _pages(size)
    watches = {"": _events(size, size.events), SHORT_WATCH: _events(size, size.events_of_a_short_watch)}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                query = request.split(b" ", 2)[1].partition(b"?")[2].decode()
                asked = dict(one.split("=") for one in query.split("&") if one)
                if "watch" in asked:
                    await _send_events(writer, watches[asked.get("labelSelector", "")])
                    await reader.read()  # and then nothing until the client goes, as a quiet API server
                    break
                await _send(writer, pages[asked.get("continue") or "0"])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    connection.send(server.sockets[0].getsockname()[1])
    await asyncio.to_thread(connection.poll, None)


async def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


async def _send_events(writer: asyncio.StreamWriter, events: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
    for start in range(0, len(events), _PIECE):
        writer.write(events[start : start + _PIECE])
        await writer.drain()
