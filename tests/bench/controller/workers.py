"""The processes that work for placements: the scheduler, and the plain client that decides nothing."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import aiohttp

from tests.bench.controller.hubs import Hub
from tests.bench.controller.traffic import IN_FLIGHT
from tests.control_plane.instance import free_port
from tests.control_plane.process import end_of

SETTINGS: Final = (
    "api.qps=1000000",
    "api.burst=1000000",
    f"api.writeConcurrency={IN_FLIGHT}",
    "eligibility.heartbeatTimeout=24h",
)
"""What differs from a usual scheduler: nothing holds it back, and clusters need no heartbeats while it is measured.

It logs as usual, into a file that is shown when it fails.
"""

_SECONDS_TO_START: Final = 120.0
_LOOK_EVERY: Final = 0.1
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PLACEMENTS: Final = re.compile(r'^fleet_cache_size\{type="clusterresourceplacements"\} (\S+)$', re.MULTILINE)
_UNWRITTEN: Final = re.compile(r"^fleet_recorder_waiting (\S+)$", re.MULTILINE)
_ATTEMPTS: Final = re.compile(r'^fleet_schedule_attempts_total\{[^}]*result="scheduled"[^}]*\} (\S+)$', re.MULTILINE)


class Worker(Protocol):
    @property
    def effort(self) -> Effort: ...

    async def ready(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Effort:
    """Of a whole process, so far."""

    cpu_seconds: float
    peak_bytes: int

    @classmethod
    def of(cls, pid: int) -> Effort:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert peak is not None, "the worker ended at once"
        return cls(cpu_seconds(f"/proc/{pid}/stat"), int(peak.group(1)) * 1024)


def cpu_seconds(stat: str) -> float:
    """Of a process, or of one of its threads, by the file that tells."""
    fields = Path(stat).read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass(frozen=True, slots=True)
class Scheduler:
    """`fleet controller --controllers=scheduler`, and what it says about itself."""

    process: subprocess.Popen[bytes]
    health: str
    metrics: str
    log: Path
    started: float = field(default_factory=time.perf_counter)

    @property
    def effort(self) -> Effort:
        return Effort.of(self.process.pid)

    async def ready(self) -> None:
        async with aiohttp.ClientSession() as session:
            while not await self._says_ok(session):
                await self._look_again()

    async def knows(self, placements: int) -> None:
        """Returns when so many have been heard of. One whose snapshot is seen first is looked up."""
        async with aiohttp.ClientSession() as session:
            while await self._figure(session, _PLACEMENTS) < placements:
                await self._look_again()

    async def decided(self, count: int) -> None:
        """Returns when so many attempts have ended with all clusters that were wanted."""
        async with aiohttp.ClientSession() as session:
            while await self._figure(session, _ATTEMPTS) < count:
                await self._look_again()

    async def recorded(self) -> None:
        """Returns when no attempt waits for the history any more, at once where there is none."""
        async with aiohttp.ClientSession() as session:
            while await self._figure(session, _UNWRITTEN):
                await self._look_again()

    async def _says_ok(self, session: aiohttp.ClientSession) -> bool:
        try:
            async with session.get(f"http://{self.health}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def _figure(self, session: aiohttp.ClientSession, lines: re.Pattern[str]) -> float:
        async with session.get(f"http://{self.metrics}/metrics") as answer:
            return sum(map(float, lines.findall(await answer.text())))

    async def _look_again(self) -> None:
        assert self.process.poll() is None, f"the scheduler ended at once:\n{end_of(self.log)}"
        assert time.perf_counter() - self.started < _SECONDS_TO_START, "the scheduler was never done"
        await asyncio.sleep(_LOOK_EVERY)


@dataclass(frozen=True, slots=True)
class PlainClient:
    process: subprocess.Popen[bytes]

    @property
    def effort(self) -> Effort:
        return Effort.of(self.process.pid)

    async def ready(self) -> None:
        assert self.process.stdout is not None
        said = await asyncio.to_thread(self.process.stdout.readline)
        assert said == b"ready\n", "the plain client ended at once"


@contextmanager
def scheduler(
    hub: Hub,
    *,
    profile: Path | None = None,
    controllers: str = "scheduler",
    settings: Sequence[str] = SETTINGS,
    document: Path | None = None,
) -> Iterator[Scheduler]:
    """`profile` names a file for what cProfile has to say about the process."""
    health, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    options = [f"--kubeconfig={hub.kubeconfig}", f"--controllers={controllers}", "--no-leader-elect"]
    options += [f"--health-address={health}", f"--metrics-address={metrics}", *(f"--set={one}" for one in settings)]
    options += [] if document is None else [f"--config={document}"]
    profiling = [] if profile is None else ["-m", "cProfile", "-o", str(profile)]
    command = [sys.executable, *profiling, "-m", "fleet.cli", "controller", *options]
    with (
        tempfile.NamedTemporaryFile(prefix="fleet-bench-scheduler-") as log,
        _running(command, stderr=log.fileno()) as process,
    ):
        yield Scheduler(process, health, metrics, Path(log.name))


@contextmanager
def plain_client(hub: Hub, run: str) -> Iterator[PlainClient]:
    command = [sys.executable, "-m", "tests.bench.controller.plain_client", hub.url, hub.token, str(hub.ca_file or "")]
    with _running([*command, run], stdout=subprocess.PIPE) as process:
        yield PlainClient(process)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def _running(
    command: list[str], *, stdout: int | None = None, stderr: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=stdout, stderr=stderr)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
