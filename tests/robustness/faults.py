"""Faults of processes, of their clocks, of power, and of the network between them, and how they are mended."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from fleet.hub.access.authentication import read_tokens
from tests.control_plane.process import ServerProcess
from tests.robustness import power
from tests.robustness.clocks import give_clock, set_clock
from tests.robustness.forwarder import Forwarder
from tests.robustness.requests import NoAnswer, request

SECONDS_TO_START: Final = 120.0
_FARTHEST_JUMP: Final = 7200.0
HAS_LIMITS: Final = hasattr(resource, "prlimit")  # Linux


@dataclass
class HubProcess:
    """`fleet hub` with a data directory, behind a forwarder; or another program that contains one."""

    folder: Path
    forwarder: Forwarder
    starts: int = 0
    program: tuple[str, ...] = ("fleet.hub",)
    """Module and arguments."""

    def __post_init__(self) -> None:
        self.ready_file = self.folder / "ready.json"
        command = [sys.executable, "-m", *self.program, "--data-dir", str(self.folder / "data")]
        command += ["--ready-file", str(self.ready_file)]
        library = self.folder / "power.so"
        environment = power.make_environment(self.folder / "data", library) if power.IS_POSSIBLE else None
        self.server = give_clock(ServerProcess(command, log=self.folder / "hub.log", environment=environment))

    @property
    def is_ready(self) -> bool:
        return self.ready_file.exists()

    @property
    def token(self) -> str:
        """Of an administrator, once it has started."""
        return next(iter(read_tokens(self.folder / "data" / "tokens.csv")))

    def launch(self) -> None:
        self.ready_file.unlink(missing_ok=True)
        self.server.start()
        self.starts += 1

    async def start(self) -> None:
        self.launch()
        async with asyncio.timeout(SECONDS_TO_START):
            while not self.is_ready:
                assert self.server.is_running, self.server.last_words()
                await asyncio.sleep(0.02)
        ready = json.loads(self.ready_file.read_text())
        self.forwarder.target = int((ready.get("url") or ready["hub"]).rpartition(":")[2])

    def kill(self) -> None:
        self.forwarder.target = 0
        self.server.kill()
        self.forwarder.cut()

    def lose_power(self) -> None:
        self.kill()
        power.lose_unsynced_writes(self.folder / "data")

    def fill_disk(self) -> None:
        """From now on every write to a file fails, as on a full disk."""
        assert self.server.pid is not None
        hard = resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE, (0, hard))

    def empty_disk(self) -> None:
        assert self.server.pid is not None
        hard = resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE, (hard, hard))

    async def wait_until_serving(self) -> None:
        async with asyncio.timeout(SECONDS_TO_START):
            while True:
                try:
                    code, _ = await request(self.forwarder.port, "GET", "/api/v1/namespaces/default")
                    if code == 200:
                        return
                except NoAnswer:
                    await asyncio.sleep(0.02)


class Faults:
    """One kind of fault after the other, chosen by a seed."""

    def __init__(self, hub: HubProcess, rng: Random, *, others: Mapping[str, ServerProcess]) -> None:
        """`others` are started again by a supervisor."""
        self._hub = hub
        self._rng = rng
        self.counts: dict[str, int] = {}
        self.kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "kill hub": self._kill,
            "kill hub at start": self._kill_at_start,
            "stop hub": partial(self._stop, hub.server),
            "cut": self._cut,
            "black hole": self._hold,
        }
        if HAS_LIMITS:
            self.kinds["full disk"] = self._fill_disk
        if power.IS_POSSIBLE:
            self.kinds["power of hub"] = self._lose_power
        for name, process in {"hub": hub.server, **others}.items():
            self.kinds[f"clock {name}"] = partial(self._jump, process)
        for name, process in others.items():
            self.kinds[f"kill {name}"] = partial(self._kill_other, process)
            self.kinds[f"stop {name}"] = partial(self._stop, process)

    async def strike(self) -> None:
        name = self._rng.choice(list(self.kinds))
        self.counts[name] = self.counts.get(name, 0) + 1
        await self.kinds[name]()

    async def rest(self, least: float, most: float) -> None:
        await asyncio.sleep(self._rng.uniform(least, most))

    async def _kill(self) -> None:
        self._hub.kill()
        await self._hub.start()

    async def _lose_power(self) -> None:
        self._hub.lose_power()
        await self._hub.start()

    async def _kill_at_start(self) -> None:
        self._hub.kill()
        self._hub.server.start()
        await self.rest(0.0, 1.0)
        self._hub.kill()
        await self._hub.start()

    async def _kill_other(self, process: ServerProcess) -> None:
        process.kill()

    async def _stop(self, process: ServerProcess) -> None:
        if process.is_running:
            process.pause()
            await self.rest(0.1, 1.0)
            process.resume()

    async def _jump(self, process: ServerProcess) -> None:
        """Up to two hours ahead or behind, and back."""
        set_clock(process, ahead=self._rng.uniform(-_FARTHEST_JUMP, _FARTHEST_JUMP))
        await self.rest(0.1, 1.0)
        set_clock(process, ahead=0.0)

    async def _cut(self) -> None:
        self._hub.forwarder.cut()

    async def _hold(self) -> None:
        self._hub.forwarder.hold()
        await self.rest(0.1, 1.0)
        self._hub.forwarder.release()

    async def _fill_disk(self) -> None:
        self._hub.fill_disk()
        await self.rest(0.1, 0.5)
        self._hub.empty_disk()
