"""How fast the client is: `python -m tests.bench.kube`. Lists and watches against those of the `kubernetes` package.

A second process serves prepared bytes over HTTP on loopback, to both clients alike, so that what is measured is the
client: sockets, parsing, decoding, caching. Objects are MemberClusters of 2 kB. Figures without a target are told for
information. Exits with 1 when a target is missed.

Rates are told twice: per second of the client's CPU, which is what targets and ratios are about, and per second on the
clock. On an idle machine the two are nearly the same; on a busy one the latter measures the neighbours.

The collector is treated as a controller does: what was imported is frozen, thresholds are raised, it stays on.
"""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import statistics
import sys
import time
import tracemalloc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import msgspec

from fleet.clock import SystemClock
from fleet.kube.reflector import Reflector
from fleet.kube.resource import Resource
from fleet.kube.store import Store, codec
from fleet.kube.transport import Transport
from fleet.model.views import MemberCluster, Observed, Placement

CLUSTERS: Final = Resource(
    "cluster.kubernetes-fleet.io", "v1beta1", "memberclusters", "MemberCluster", namespaced=False
)
OBJECTS: Final = 10_000
EVENTS: Final = 100_000
EVENTS_OF_THE_PACKAGE: Final = 10_000
PAGE: Final = 500
PIECE: Final = 2**18
REPETITIONS: Final = 5


@dataclass(frozen=True)
class Outcome:
    name: str
    value: float
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_met(self) -> bool:
        return (self.at_least is None or self.value >= self.at_least) and (
            self.at_most is None or self.value <= self.at_most
        )

    def __str__(self) -> str:
        bound = "" if self.at_least is None else f"target ≥ {self.at_least:,g}"
        bound = bound if self.at_most is None else f"target ≤ {self.at_most:,g}"
        verdict = "" if not bound else ("met" if self.is_met else "MISSED")
        return f"{self.name:<66}{self.value:>12,.4g} {self.unit:<10}{bound:<20}{verdict}".rstrip()


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


def pages() -> dict[str, bytes]:
    """By continue token."""
    documents = [msgspec.json.encode(a_document(number, number + 1)) for number in range(OBJECTS)]
    found = {}
    for start in range(0, OBJECTS, PAGE):
        after = str(start + PAGE) if start + PAGE < OBJECTS else ""
        metadata = msgspec.json.encode({"resourceVersion": str(OBJECTS), "continue": after})
        items = b",".join(documents[start : start + PAGE])
        found[str(start)] = b'{"apiVersion":"v1","kind":"List","metadata":' + metadata + b',"items":[' + items + b"]}"
    return found


def events(count: int) -> bytes:
    def line(number: int) -> bytes:
        document = a_document(number % OBJECTS, OBJECTS + 1 + number)
        return msgspec.json.encode({"type": "MODIFIED", "object": document}) + b"\n"

    return b"".join(line(number) for number in range(count))


def serve(connection: Connection) -> None:
    """Ends when the other end of the connection does."""
    asyncio.run(_serve(connection))


async def _serve(connection: Connection) -> None:
    served, many, few = pages(), events(EVENTS), events(EVENTS_OF_THE_PACKAGE)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                query = request.split(b" ", 2)[1].partition(b"?")[2].decode()
                asked = dict(one.split("=") for one in query.split("&") if one)
                if "watch" in asked:
                    body = few if "few" in asked.get("labelSelector", "") else many
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
                    for start in range(0, len(body), PIECE):
                        writer.write(body[start : start + PIECE])
                        await writer.drain()
                    await asyncio.sleep(3600)
                body = served[asked.get("continue") or "0"]
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    connection.send(server.sockets[0].getsockname()[1])
    await asyncio.to_thread(connection.poll, None)


# --- ours -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def transport_to(port: int) -> AsyncIterator[Transport]:
    from kubernetes.aio.client import Configuration

    async def load() -> Configuration:
        return Configuration(host=f"http://127.0.0.1:{port}")

    async with await Transport.connect(load, clock=SystemClock()) as transport:
        yield transport


View = type[MemberCluster] | type[Placement]


@dataclass(frozen=True)
class Moment:
    clock: float
    cpu: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.perf_counter(), time.process_time())

    def rates(self, count: int, until: Moment) -> tuple[float, float]:
        """Per second of CPU, and per second on the clock."""
        return count / (until.cpu - self.cpu), count / (until.clock - self.clock)


async def sync_and_watch(port: int, view: View) -> tuple[float, ...]:
    """Both rates of the list, both rates of the watch, and the longest stall of the loop during the list in ms."""
    store: Store[Observed[Any]] = Store(codec(view))
    last = str(OBJECTS + EVENTS)
    async with transport_to(port) as transport, asyncio.TaskGroup() as group:
        reflector = Reflector(transport, CLUSTERS, store, clock=SystemClock(), jitter=lambda: 0.0)
        begun = Moment.now()
        with longest_stall(group) as stall:
            running = group.create_task(reflector.run(), name="reflector")
            await reflector.synced()
            listed = Moment.now()
            stalled = stall()
        while store.version != last:
            await asyncio.sleep(0.01)
        watched = Moment.now()
        running.cancel()
    assert len(store) == OBJECTS
    return *begun.rates(OBJECTS, listed), *listed.rates(EVENTS, watched), stalled * 1e3


class longest_stall:  # noqa: N801  # reads as a statement
    """Wakes up every millisecond and notes how late it was at worst."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._worst = 0.0

    def __enter__(self) -> Callable[[], float]:
        self._task = self._group.create_task(self._beat(), name="heartbeat")
        return lambda: self._worst

    def __exit__(self, *_: object) -> None:
        self._task.cancel()

    async def _beat(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            self._worst = max(self._worst, time.perf_counter() - before - 0.001)


async def bytes_per_object(port: int, view: View) -> float:
    store: Store[Observed[Any]] = Store(codec(view))
    async with transport_to(port) as transport, asyncio.TaskGroup() as group:
        reflector = Reflector(transport, CLUSTERS, store, clock=SystemClock(), jitter=lambda: 0.0)
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        running = group.create_task(reflector.run(), name="reflector")
        await reflector.synced()
        running.cancel()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(store)


# --- the package's ----------------------------------------------------------------------------------------------------


async def list_and_watch_of_the_package(port: int) -> tuple[float, ...]:
    """Both rates of the list, both rates of the watch."""
    from kubernetes.aio import watch
    from kubernetes.aio.client import ApiClient, Configuration, CustomObjectsApi

    async with ApiClient(Configuration(host=f"http://127.0.0.1:{port}")) as client:
        api = CustomObjectsApi(client)
        held: dict[str, Any] = {}
        begun, after = Moment.now(), "0"
        while after:
            page: Any = await api.list_cluster_custom_object(
                CLUSTERS.group, CLUSTERS.version, CLUSTERS.plural, limit=PAGE, _continue=after
            )
            held |= {one["metadata"]["name"]: one for one in page["items"]}
            after = page["metadata"]["continue"]
        listed = Moment.now()
        seen = 0
        async with watch.Watch().stream(  # type: ignore[no-untyped-call]
            api.list_cluster_custom_object, CLUSTERS.group, CLUSTERS.version, CLUSTERS.plural, label_selector="few"
        ) as stream:
            async for event in stream:
                held[event["object"]["metadata"]["name"]] = event["object"]
                seen += 1
                if seen == EVENTS_OF_THE_PACKAGE:
                    break
        return *begun.rates(len(held), listed), *listed.rates(seen, Moment.now())


# --- the program ------------------------------------------------------------------------------------------------------


def medians(run: Callable[[], Awaitable[tuple[float, ...]]], repetitions: int) -> list[float]:
    async def once() -> tuple[float, ...]:
        return await run()

    samples = []
    for _ in range(repetitions):
        gc.collect()
        gc.freeze()
        samples.append(asyncio.run(once()))
        gc.unfreeze()
    return [statistics.median(column) for column in zip(*samples, strict=True)]


def outcomes(port: int) -> Iterator[Outcome]:
    their_lists, _, their_events, _ = medians(lambda: list_and_watch_of_the_package(port), 2)
    for view, about in ((Placement, "spec and status left raw"), (MemberCluster, "every field read")):
        promised = view is Placement
        lists, lists_on_the_clock, intake, intake_on_the_clock, stall = medians(
            lambda view=view: sync_and_watch(port, view),  # type: ignore[misc]
            REPETITIONS,
        )
        yield Outcome(f"watch through reflector and store ({about})", intake, "events/s", 100_000 if promised else None)
        yield Outcome("  on the clock", intake_on_the_clock, "events/s")
        yield Outcome("  as a multiple of the package's watch", intake / their_events, "times")
        yield Outcome(f"list through reflector and store ({about})", lists, "objects/s", 60_000 if promised else None)
        yield Outcome("  on the clock", lists_on_the_clock, "objects/s")
        yield Outcome("  as a multiple of the package's list", lists / their_lists, "times")
        yield Outcome(f"longest stall of the loop during the list ({about})", stall, "ms", at_most=20)
        memory = asyncio.run(bytes_per_object(port, view))
        yield Outcome(f"memory per object ({about})", memory, "B", at_most=4096 if promised else None)
    yield Outcome("the package's watch", their_events, "events/s")
    yield Outcome("the package's list", their_lists, "objects/s")


def main() -> int:
    warnings.simplefilter("ignore")
    gc.set_threshold(10_000, 100, 100)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    sys.stdout.write(f"load before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores\n")
    try:
        found = []
        for outcome in outcomes(ours.recv()):
            sys.stdout.write(f"{outcome}\n")
            sys.stdout.flush()
            found.append(outcome)
    finally:
        ours.close()
        server.terminate()
        server.join()
    return 0 if all(outcome.is_met for outcome in found) else 1


if __name__ == "__main__":
    sys.exit(main())
