"""Kills of `fleet up`, or of `fleet controller` on a hub of its own: `python -m tests.robustness.kills --kills 1000`.

The process is killed at a random moment, often while it starts; every fifth kill of `fleet up` also loses what it had
not synced. A client writes meanwhile. At checkpoints nothing may be lost that was acknowledged, and every placement has
to be on as many clusters as its last policy asks for, on none twice.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from fleet.clock import SystemClock
from fleet.kube.client.transport import Transport
from tests.e2e.world import World
from tests.faults.controller.processes import SETTINGS
from tests.robustness import power
from tests.robustness.faults import SECONDS_TO_START, HubProcess
from tests.robustness.fleet import FleetProcesses, write_kubeconfig
from tests.robustness.forwarder import forwarding
from tests.robustness.hostile import Writer

UP, CONTROLLER = "up", "controller"
EVERY: Final = 20
"""Kills between two checkpoints."""
_SHARE_OF_POWER: Final = 0.2
_SHARE_AT_START: Final = 0.5
_LONGEST_LIFE: Final = 2.0
"""Seconds."""


@dataclass
class KillReport:
    kills: int = 0
    at_start: int = 0
    """Of the kills, those of a process that was not ready yet."""
    of_power: int = 0
    acknowledged: int = 0
    checkpoints: int = 0
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def describe(self) -> str:
        counts = f"{self.kills} kills, {self.at_start} of them at start and {self.of_power} with lost unsynced writes"
        found = f"{len(self.violations)} violations" if self.violations else "no violation"
        writes = f"{self.acknowledged} acknowledged writes"
        return f"{counts}; {writes}; {self.checkpoints} checkpoints: {found}; {self.seconds:.0f} s"


class KilledUp:
    """`fleet up` with a data directory."""

    def __init__(self, hub: HubProcess, rng: Random) -> None:
        self._hub, self._rng = hub, rng

    async def kill(self, report: KillReport) -> None:
        if self._rng.random() < _SHARE_AT_START:
            self._hub.launch()
            await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_LIFE))
            report.at_start += not self._hub.is_ready
        else:
            await self._hub.start()
            await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_LIFE))
        if power.IS_POSSIBLE and self._rng.random() < _SHARE_OF_POWER:
            self._hub.lose_power()
            report.of_power += 1
        else:
            self._hub.kill()

    async def settle(self) -> None:
        await self._hub.start()

    async def resume(self) -> None:
        self._hub.kill()


class KilledController:
    def __init__(self, fleet: FleetProcesses, rng: Random) -> None:
        self._fleet, self._rng = fleet, rng

    async def kill(self, report: KillReport) -> None:
        before = self._count_starts()
        self._fleet.controller.start()
        if self._rng.random() >= _SHARE_AT_START:
            async with asyncio.timeout(SECONDS_TO_START):
                while self._count_starts() == before:
                    await asyncio.sleep(0.02)
        await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_LIFE))
        report.at_start += self._count_starts() == before
        self._fleet.controller.kill()

    async def settle(self) -> None:
        self._fleet.controller.start()

    async def resume(self) -> None:
        self._fleet.controller.kill()

    def _count_starts(self) -> int:
        log = self._fleet.controller.log
        return log.read_bytes().count(b'"event":"leader: controllers started"') if log.exists() else 0


async def run(folder: Path, *, process: str, kills: int, seed: int, seconds: float = float("inf")) -> KillReport:
    """Ends earlier when the time is over."""
    report, rng, begun = KillReport(), Random(seed), time.monotonic()
    async with _stage(folder, process, rng) as (hub, fleet, killed):
        writer = Writer(hub)
        writing = asyncio.create_task(writer.work())
        while report.kills < kills and time.monotonic() - begun < seconds:
            editing = asyncio.create_task(fleet.edit(Random(rng.random())))
            for _ in range(min(EVERY, kills - report.kills)):
                await killed.kill(report)
                report.kills += 1
            editing.cancel()
            await asyncio.wait({editing})
            await killed.settle()
            report.violations += await fleet.check()
            report.violations += await writer.find_lost_writes()
            report.checkpoints += 1
            await killed.resume()
        writing.cancel()
        await asyncio.wait({writing})
        report.acknowledged = writer.count
    report.seconds = time.monotonic() - begun
    return report


@asynccontextmanager
async def _stage(
    folder: Path, process: str, rng: Random
) -> AsyncIterator[tuple[HubProcess, FleetProcesses, KilledUp | KilledController]]:
    async with AsyncExitStack() as stack:
        forwarder = await stack.enter_async_context(forwarding())
        settings = [f"--set={each}" for each in SETTINGS]
        up = ("fleet.cli", "up", "--quiet", "--clusters", "2", *settings)
        hub = HubProcess(folder, forwarder, program=up if process == UP else ("fleet.hub",))
        stack.callback(hub.server.stop)
        await hub.start()
        kubeconfig = write_kubeconfig(folder, hub)
        transport = await stack.enter_async_context(await Transport.from_kubeconfig(kubeconfig, clock=SystemClock()))
        fleet = FleetProcesses(
            folder,
            World(transport),
            kubeconfig=kubeconfig,
            tokens=folder / "data" / "tokens.csv",
            settings=("leaderElection.leaderElect=false",),  # no lease of the killed one to wait for
            api_ready=hub.ready_file if process == UP else None,
        )
        stack.callback(fleet.stop)
        await fleet.prepare()
        if process == UP:
            hub.kill()
            yield hub, fleet, KilledUp(hub, rng)
        else:
            fleet.api.start()
            yield hub, fleet, KilledController(fleet, rng)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.kills", description=__doc__)
    parser.add_argument("--process", choices=(UP, CONTROLLER), default=UP)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="ends earlier after these")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        report = asyncio.run(
            run(
                Path(folder),
                process=options.process,
                kills=options.kills,
                seed=options.seed,
                seconds=options.seconds,
            )
        )
    sys.stdout.write("\n".join([f"fleet {options.process}: {report.describe()}", *report.violations[:20], ""]))
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
