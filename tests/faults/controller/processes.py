"""Controllers as processes of their own, on a real hub: they can be killed, stopped and continued."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.control_plane.process import ServerProcess

SETTINGS: Final = (
    "metrics.address=off",
    "health.address=off",
    "resourceSnapshots.minimumInterval=0s",
    "resourceSnapshots.collectionTime=0s",
    "eligibility.heartbeatTimeout=8760h",
)


@dataclass
class Process:
    """`fleet controller`, which can be started again."""

    folder: Path
    kubeconfig: Path
    settings: tuple[str, ...] = ()
    name: str = "controller"
    server: ServerProcess = field(init=False)
    _begun: int = field(default=0, init=False)
    """How often it had begun to work before it was started last."""

    def __post_init__(self) -> None:
        chosen = [f"--set={one}" for one in (*SETTINGS, *self.settings)]
        command = [sys.executable, "-m", "fleet.cli", "controller", f"--kubeconfig={self.kubeconfig}", *chosen]
        self.server = ServerProcess(command, log=self.folder / f"{self.name}.log")

    def start(self) -> None:
        self._begun = self._beginnings()
        self.server.start()

    def keep_running(self) -> None:
        """As a cluster does with a container: on a slow machine a short lease is lost now and then."""
        if not self.server.is_running:
            self.start()

    async def works(self, *, within: float) -> None:
        """Until it says in its log that it has begun, once more than before its start."""
        deadline = asyncio.get_running_loop().time() + within
        while self._beginnings() == self._begun:
            assert asyncio.get_running_loop().time() < deadline, self.server.last_words()
            await asyncio.sleep(0.02)

    def _beginnings(self) -> int:
        return (
            self.server.log.read_text(encoding="utf-8").count('"event":"leader: controllers started"')
            if self.server.log.exists()
            else 0
        )

    async def ended(self, *, within: float) -> bool:
        """Whether it has ended by itself."""
        deadline = asyncio.get_running_loop().time() + within
        while self.server.is_running and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.05)
        return not self.server.is_running
