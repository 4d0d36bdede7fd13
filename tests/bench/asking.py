"""`fleet api` as a process of its own, asked over loopback: how long one answer takes, and how many it gives a second.

It watches an embedded hub with a fleet and placements that were not decided yet, so every answer is made from the
current state: once when it is first wanted, and then served from the same bytes for a second. The client is this
process, with raw sockets and bytes made before; both share the machine.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.bench.answers import SITUATIONS
from tests.bench.controller.documents import placement
from tests.bench.controller.hubs import EMBEDDED, Hub, serving
from tests.bench.controller.placing import join
from tests.bench.controller.traffic import Traffic
from tests.bench.controller.workers import SETTINGS, Effort
from tests.bench.hub import Connection
from tests.bench.policies import TIERS, policy_snapshot

AT_ONCE: Final = 8
"""As many as the API evaluates at a time; it refuses more."""
_WARM_UP: Final = 10
_MORE_SERVED: Final = 8
_SECONDS_TO_START: Final = 120.0
_UNIT: Final = 1e9


@dataclass(frozen=True, slots=True)
class Asked:
    """Of answers to one kind of question."""

    waits: list[float]
    """In nanoseconds of the clock, one by one."""
    rate: float
    """Per second of the clock, several at once."""
    cpu_seconds: float
    """Of the server, for one."""
    size: int


@dataclass(frozen=True, slots=True)
class Answering:
    made: Asked
    """Each for a placement of its own."""
    served: Asked
    """For the same few placements over and over."""


async def ask(clusters: int, *, calls: int) -> dict[str, Answering]:
    with serving(EMBEDDED) as hub:
        async with Traffic.to(hub) as traffic:
            await join(traffic, clusters)
            questions = await create_questions(traffic, _WARM_UP + calls)
        with answering_alone(hub) as server:
            return {situation: await _ask_of(server, paths, calls) for situation, paths in questions.items()}


async def _ask_of(server: Server, paths: list[str], calls: int) -> Answering:
    made = await _measured(server, paths, calls // 2)
    few = paths[: len(TIERS)]
    return Answering(made, await _measured(server, few, calls * _MORE_SERVED))


async def create_questions(traffic: Traffic, each: int = len(TIERS)) -> dict[str, list[str]]:
    """Paths to ask, by the situation of their placements, which are new."""
    return {
        situation: [await _create_question(traffic, situation, number) for number in range(each)]
        for situation in SITUATIONS
    }


async def _create_question(traffic: Traffic, situation: str, number: int) -> str:
    name = f"{situation.replace(', ', '-').replace(' ', '-')}-{number}"
    await _create(traffic, name, SITUATIONS[situation](10, TIERS[number % len(TIERS)]))
    return f"/v1/placements/-/{name}/why"


async def _create(traffic: Traffic, name: str, policy: dict[str, Any]) -> None:
    document = placement(f"{name}-0", run="asked", form="plain")
    document["metadata"]["name"] = name
    document["spec"]["policy"] = policy
    await traffic.post(CLUSTER_SCOPED.placement, document)
    await traffic.post(CLUSTER_SCOPED.policy_snapshot, policy_snapshot(name, policy))


# --- asking -----------------------------------------------------------------------------------------------------------


async def _measured(server: Server, paths: list[str], calls: int) -> Asked:
    async with _connected(server) as connection:
        size = max([len(await _answer(connection, paths[number % len(paths)])) for number in range(_WARM_UP)])
        waits = []
        for number in range(calls):
            begun = time.perf_counter_ns()
            await _answer(connection, paths[(_WARM_UP + number) % len(paths)])
            waits.append(float(time.perf_counter_ns() - begun))
    before, begun = server.effort.cpu_seconds, time.perf_counter_ns()
    start, end = _WARM_UP + calls, _WARM_UP + 2 * calls
    await asyncio.gather(*(_ask_in_turn(server, paths, range(start + at, end, AT_ONCE)) for at in range(AT_ONCE)))
    rate = calls / ((time.perf_counter_ns() - begun) / _UNIT)
    return Asked(waits, rate, (server.effort.cpu_seconds - before) / calls, size)


async def _ask_in_turn(server: Server, paths: list[str], numbers: range) -> None:
    async with _connected(server) as connection:
        for number in numbers:
            await _answer(connection, paths[number % len(paths)])


@dataclass(slots=True)
class Callers:
    answered: int = 0


@asynccontextmanager
async def asking(server: Server, paths: Sequence[str]) -> AsyncIterator[Callers]:
    """As many callers as the API evaluates at a time, each asking one thing after the other for as long as this lasts.
    They are at it when it begins."""
    callers = Callers()

    async def ask_on(first: int) -> None:
        async with _connected(server) as connection:
            for number in range(first, sys.maxsize):
                await _answer(connection, paths[number % len(paths)])
                callers.answered += 1

    tasks = [asyncio.create_task(ask_on(first), name=f"caller-{first}") for first in range(AT_ONCE)]
    try:
        while not callers.answered:
            await _look(tasks)
        callers.answered = 0
        yield callers
        await _look(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _look(tasks: Sequence[asyncio.Task[None]]) -> None:
    """A caller who was refused would make the others look cheap."""
    for task in (await asyncio.wait(tasks, timeout=0.01))[0]:
        task.result()


@asynccontextmanager
async def _connected(server: Server) -> AsyncIterator[Connection]:
    connection = await Connection.to(server.port, token=server.token)
    try:
        yield connection
    finally:
        await connection.close()


async def _answer(connection: Connection, path: str) -> bytes:
    connection.send("GET", path)
    return await connection.answer(want=200)


# --- the server -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers."""

    process: subprocess.Popen[bytes]
    port: int
    token: str

    @property
    def effort(self) -> Effort:
        return Effort.of(self.process.pid)

    async def ready(self) -> None:
        """It is, or it would not be there."""


@contextmanager
def answering_alone(hub: Hub) -> Iterator[Server]:
    options = ["--address=127.0.0.1:0", *(f"--set={one}" for one in SETTINGS)]
    with answering(hub, ["fleet.cli", "api", *options]) as server:
        yield server


@contextmanager
def answering(hub: Hub, command: Sequence[str]) -> Iterator[Server]:
    """A module of Python that takes `--kubeconfig`, and says in its `--ready-file` where its `api` is."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-api-") as folder:
        ready = Path(folder) / "ready.json"
        options = [f"--kubeconfig={hub.kubeconfig}", f"--ready-file={ready}"]
        log = (Path(folder) / "log").open("wb")
        with log, subprocess.Popen([sys.executable, "-m", *command, *options], stdout=log, stderr=log) as process:
            try:
                _await(lambda: ready.exists() or process.poll() is not None)
                assert process.poll() is None, Path(log.name).read_text(encoding="utf-8")[-2000:]
                port = int(json.loads(ready.read_text(encoding="utf-8"))["api"].rpartition(":")[2])
                yield Server(process, port, hub.token)
            finally:
                process.terminate()


def _await(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while not is_so():
        assert time.monotonic() < deadline, "the API did not start"
        time.sleep(0.05)
