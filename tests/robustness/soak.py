"""The growth of resident memory of hub, controller and API over many events: `make soak`.

Writers heartbeat and relabel clusters, change and ask about placements, and create and delete other objects. They warm
up for a tenth of the events, and until the retention of the history has run once. The table shows what each process has
grown by since, as MiB per 100,000 events, and how large the files of the history are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from fleet.clock import SystemClock
from fleet.kube.client.transport import Transport
from tests.control_plane.process import ServerProcess
from tests.e2e.world import CONFIG_MAPS, World
from tests.robustness.faults import HubProcess
from tests.robustness.fleet import CLUSTERS, PLACEMENTS, FleetProcesses, fleet_on, write_kubeconfig
from tests.robustness.forwarder import forwarding
from tests.robustness.requests import request

WRITERS: Final = 8
ROWS: Final = 10
_RETENTION: Final = ("recorder.history.maxAttempts=5000", "recorder.history.maxMiB=8")
_SECONDS_TO_RETENTION: Final = 660
"""The history looks at the latest after ten minutes whether it is too large."""
_MIB: Final = 1024 * 1024


@dataclass(frozen=True)
class Sample:
    """Resident memory in MiB by process and the size of the history's files, after so many events."""

    events: int
    memory: dict[str, float]
    history: float


async def run(folder: Path, *, events: int) -> list[Sample]:
    async with forwarding() as forwarder:
        hub = HubProcess(folder, forwarder)
        try:
            await hub.start()
            async with fleet_on(folder, hub, settings=_RETENTION) as fleet:
                assert await fleet.check() == [], "the fleet does not converge"
                return await _measure(folder, hub, fleet, events)
        finally:
            hub.server.stop()


async def _measure(folder: Path, hub: HubProcess, fleet: FleetProcesses, events: int) -> list[Sample]:
    processes = {"hub": hub.server, "controller": fleet.controller, "API": fleet.api}
    samples: list[Sample] = []
    async with await Transport.from_kubeconfig(
        write_kubeconfig(folder, hub.forwarder.port), clock=SystemClock()
    ) as transport:
        world, start = World(transport), await _read_revision(hub)
        writers = [asyncio.create_task(_write(world, number)) for number in range(WRITERS)]
        writers.append(asyncio.create_task(_ask(fleet)))
        try:
            warm_up_ends = time.monotonic() + _SECONDS_TO_RETENTION
            warm = await _write_until(hub, writers, start + events // 10)
            while time.monotonic() < warm_up_ends:
                warm = await _write_until(hub, writers, warm + 1)
            for row in range(ROWS + 1):
                revision = await _write_until(hub, writers, warm + events * row // ROWS)
                memory = {name: _read_memory(process) for name, process in processes.items()}
                files = fleet.history_file.parent.glob(f"{fleet.history_file.name}*")
                history = sum(file.stat().st_size for file in files) / _MIB
                samples.append(Sample(revision - start, memory, history))
                sys.stderr.write(f"{samples[-1]}\n")
        finally:
            for writer in writers:
                writer.cancel()
            await asyncio.wait(writers)
    return samples


async def _write_until(hub: HubProcess, writers: Iterable[asyncio.Task[None]], due: int) -> int:
    """The revision of the hub, which is at least that."""
    while (revision := await _read_revision(hub)) < due:
        await asyncio.wait(writers, timeout=0.5, return_when=asyncio.FIRST_EXCEPTION)
        for writer in writers:
            if writer.done():
                writer.result()
    return revision


async def _write(world: World, number: int) -> None:
    rng, name = Random(number), f"soak-{number}"
    while True:
        cluster = f"cluster-{rng.randrange(CLUSTERS)}"
        await world.report(cluster)
        await world.relabel(cluster, soak=str(rng.randrange(1000)))
        metadata = {"name": name, "namespace": "default"}
        await world.create(CONFIG_MAPS, {"metadata": metadata, "data": {"text": "x" * 500}})
        await world.delete(CONFIG_MAPS, f"default/{name}")
        if rng.random() < 0.1:
            await world.edit_policy(rng.choice(PLACEMENTS), numberOfClusters=rng.randint(1, CLUSTERS))


async def _ask(fleet: FleetProcesses) -> None:
    while True:
        for name in PLACEMENTS:
            await fleet.ask_why(name)
        await asyncio.sleep(0.2)


async def _read_revision(hub: HubProcess) -> int:
    _, document = await request(hub.forwarder.port, "GET", "/api/v1/namespaces")
    return int(document["metadata"]["resourceVersion"])


def _read_memory(process: ServerProcess) -> float:
    """Linux only."""
    pages = Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / _MIB


def render(samples: list[Sample]) -> str:
    first, last = samples[0], samples[-1]
    lines = ["| events | " + " | ".join(f"{name} MiB" for name in first.memory) + " | history MiB |"]
    lines.append("| --- " * (len(first.memory) + 2) + "|")
    for sample in samples:
        sizes = (*sample.memory.values(), sample.history)
        lines.append(f"| {sample.events:,} | " + " | ".join(f"{size:.1f}" for size in sizes) + " |")
    per = 100_000 / max(last.events - first.events, 1)
    growth = (f"{(last.memory[name] - first.memory[name]) * per:+.2f}" for name in first.memory)
    return "\n".join([*lines, "| growth per 100,000 | " + " | ".join(growth) + " | |"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.soak", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        samples = asyncio.run(run(Path(folder), events=options.events))
    sys.stdout.write(render(samples) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
