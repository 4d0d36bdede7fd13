"""Hostile requests to hub and API: `python -m tests.robustness.hostile --requests 100000 --seed 1`.

Every path of both with values, headers and bodies that no client sends, by an administrator, by a caller without rights
and by callers unknown; requests that end in the middle, and bytes that are no HTTP. No answer may be a failure that is
not declared as overload by `Retry-After`, the processes have to go on, their memory may not grow with the requests, and
a client that writes meanwhile may lose nothing that was acknowledged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Final

from fleet.clock import SystemClock
from fleet.errors import AlreadyExists, Invalid
from fleet.history import migrate
from fleet.hub.access.authentication import AUTHENTICATED, User, generate_administrator, write_tokens
from fleet.kube.client.transport import Transport
from tests.control_plane.process import ServerProcess
from tests.e2e.world import World
from tests.robustness import hostile_hub
from tests.robustness.faults import HubProcess
from tests.robustness.fleet import write_kubeconfig
from tests.robustness.forwarder import forwarding
from tests.robustness.hostile_api import CLUSTERS, Requests
from tests.robustness.hostile_objects import NAMES, build_sized_policy
from tests.robustness.requests import NoAnswer, request
from tests.robustness.writer import Writer

HUB, API = "hub", "API"
TARGETS: Final = (HUB, API)
CONNECTIONS: Final = 16
SECONDS: Final = 60.0
_SECONDS_OPEN: Final = 1.0
_SECONDS_BETWEEN_PROBES: Final = 0.1
_TIMES_LOGGED: Final = 20
WARMING_UP: Final = 5
"""A part of so many of the requests is sent before memory is measured."""
MOST_GROWTH: Final = 50 * 2**20
"""Bytes, whatever the number of requests."""
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WRITES: Final = (b"POST", b"PUT", b"PATCH", b"DELETE")


@dataclass
class HostileReport:
    codes: Counter[int] = field(default_factory=Counter)
    """Of answers; 0 for a connection that ended without."""
    wrong: list[str] = field(default_factory=list)
    writes: int = 0
    accepted: int = 0
    """Of the writes."""
    growth: int = 0
    probes: list[float] = field(default_factory=list)
    """Seconds until `/livez` answered, each."""
    seconds: float = 0.0

    @property
    def violations(self) -> list[str]:
        grown = [f"memory grew by {self.growth / 2**20:.0f} MiB"] if self.growth > MOST_GROWTH else []
        return [*self.wrong, *grown]


async def send(port: int, message: bytes) -> tuple[int, bool]:
    """The status code, and whether the caller shall try again; 0 without an answer. Nothing follows the message, and
    the server hears so if it waits for more."""
    try:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(message)
                line = await _read_line(reader, writer)
                if not line.startswith(b"HTTP/1.1 "):
                    return 0, False
                code = int(line.split()[1])
                head = await reader.readuntil(b"\r\n\r\n") if code >= 500 else b""
                return code, b"\r\nretry-after:" in b"\r\n" + head.lower()
            finally:
                writer.close()
    except (OSError, EOFError, ValueError):
        return 0, False


async def _read_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """A server drops the request of a client that has closed its side."""
    try:
        async with asyncio.timeout(_SECONDS_OPEN):
            return await reader.readline()
    except TimeoutError:
        writer.write_eof()
        return await reader.readline()


async def attack(port: int, pid: int, *, count: int, make: Callable[[], bytes]) -> HostileReport:
    report, numbers = HostileReport(), iter(range(count))
    measured = 0
    begun = time.monotonic()

    async def work() -> None:
        nonlocal measured
        for number in numbers:
            if number == count // WARMING_UP:
                measured = read_memory(pid)
            if number % (count // _TIMES_LOGGED or 1) == 0:
                done = f"{number} of {count} requests, {len(report.wrong)} wrong answers"
                sys.stderr.write(f"port {port}: {done}, {time.monotonic() - begun:.0f} s\n")
            message = make()
            try:
                code, is_declared = await send(port, message)
            except TimeoutError:
                report.wrong.append(f"no answer within {SECONDS:g} s: {message[:400]!r}")
                continue
            report.codes[code] += 1
            if message.partition(b" ")[0] in _WRITES:
                report.writes += 1
                report.accepted += 200 <= code < 300
            if code >= 500 and not is_declared:
                report.wrong.append(f"{code}: {message[:400]!r}")

    probing = asyncio.create_task(probe(port, report))
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(work())
    probing.cancel()
    await asyncio.wait({probing})
    report.seconds = time.monotonic() - begun
    report.growth = read_memory(pid) - measured
    return report


async def probe(port: int, report: HostileReport) -> None:
    """Until cancelled."""
    while True:
        asked = time.monotonic()
        with suppress(NoAnswer):
            await request(port, "GET", "/livez")
        report.probes.append(time.monotonic() - asked)
        await asyncio.sleep(_SECONDS_BETWEEN_PROBES)


def read_memory(pid: int) -> int:
    """Bytes that the process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


async def run(folder: Path, *, count: int, seed: int, targets: Sequence[str] = TARGETS) -> dict[str, HostileReport]:
    """By what was attacked, each with so many requests."""
    async with AsyncExitStack() as stack:
        forwarder = await stack.enter_async_context(forwarding())
        hub, rng, kubeconfig = HubProcess(folder, forwarder), Random(seed), write_kubeconfig(folder, forwarder.port)
        tokens = write_callers(folder / "data" / "tokens.csv")
        ready = folder / "api.json"
        history = f"sqlite:///{folder / 'history.sqlite'}"
        migrate(history)
        command = [sys.executable, "-m", "fleet.cli", "api", "--address", "127.0.0.1:0", "--ready-file", str(ready)]
        command += ["--set", f"history.url={history}"]
        api = ServerProcess([*command, "--kubeconfig", str(kubeconfig)], log=folder / "api.log")
        try:
            await hub.start()
            code, answer = await request(forwarder.port, "POST", _DEFINITIONS, hostile_hub.DEFINITION)
            assert code == 201, answer
            transport = await stack.enter_async_context(
                await Transport.from_kubeconfig(kubeconfig, clock=SystemClock())
            )
            writer = Writer(transport)
            writing = asyncio.create_task(writer.work())
            assert hub.server.pid is not None
            reports = {}
            if HUB in targets:
                make = partial(hostile_hub.make_request, rng, tokens)
                reports[HUB] = await attack(forwarder.target, hub.server.pid, count=count, make=make)
            await prepare(World(transport), rng)
            api.start()
            async with asyncio.timeout(SECONDS):
                while not ready.exists():
                    assert api.is_running, api.last_words()
                    await asyncio.sleep(0.05)
            port = int(json.loads(ready.read_text())["api"].rpartition(":")[2])
            assert api.pid is not None
            if API in targets:
                reports[API] = await attack(port, api.pid, count=count, make=Requests(rng, tokens).make)
                code, _ = await request(port, "GET", "/v1/status", token=tokens[0])
                reports[API].wrong += [] if code == 200 else [f"the status is answered {code} afterwards"]
            assert api.is_running, api.last_words()
            writing.cancel()
            await asyncio.wait({writing})
            hub.kill()
            await hub.start()
            assert writer.acknowledged
            reports[targets[0]].wrong += await writer.find_lost_writes()
            return reports
        finally:
            api.stop()
            hub.server.stop()


async def prepare(world: World, rng: Random) -> None:
    """What the API is asked about: clusters, and placements of all sizes. Some are there from before."""
    for number, name in enumerate(CLUSTERS):
        with suppress(AlreadyExists):
            await world.join(name, labels={"tier": "gold", "region": f"r{number % 3}"})
    for size, name in zip((1, 3, 10, 30, 100, 300, 1000, 3000), NAMES, strict=True):
        with suppress(AlreadyExists, Invalid):
            await world.place(name, build_sized_policy(rng, size))


def write_callers(file: Path) -> list[str]:
    """Tokens of an administrator, of a caller without rights, and of nobody."""
    file.parent.mkdir(mode=0o700)
    administrator, user = generate_administrator()
    weak, unknown = secrets.token_urlsafe(), secrets.token_urlsafe()
    write_tokens(file, {administrator: user, weak: User("weak", "2", (AUTHENTICATED,))})
    return [administrator, administrator, weak, unknown]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.robustness.hostile", description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", choices=TARGETS, action="append", help="only this one")
    options = parser.parse_args(arguments)
    targets = options.target or TARGETS
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        reports = asyncio.run(run(Path(folder), count=options.requests, seed=options.seed, targets=targets))
    for name, report in reports.items():
        codes = ", ".join(f"{code or 'none'}: {number}" for code, number in sorted(report.codes.items()))
        summary = f"{name}: {report.accepted} of {report.writes} writes accepted; {codes}; "
        median, last = (quantiles(report.probes, n=100)[rank - 1] * 1000 for rank in (50, 99))
        summary += f"{report.growth / 2**20:+.1f} MiB; /livez p50 {median:.0f} ms, p99 {last:.0f} ms, "
        summary += f"at most {max(report.probes) * 1000:.0f} ms; {report.seconds:.0f} s"
        sys.stdout.write("\n".join([summary, *report.violations[:20], ""]))
    return 1 if any(report.violations for report in reports.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
