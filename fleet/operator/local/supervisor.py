"""Supervisor of local processes, which does what the controller of Deployments does for pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import structlog

from fleet.clock import Clock
from fleet.operator.local.replica import Launcher, Replica, Revision

log = structlog.get_logger(__name__)


class Supervisor:
    """Runs replicas of one revision. Those of the revision before go on until the new ones are ready."""

    def __init__(self, folder: Path, launcher: Launcher, *, clock: Clock, on_change: Callable[[], None]) -> None:
        self._folder, self._launcher, self._clock, self._on_change = folder, launcher, clock, on_change
        self._revision: Revision | None = None
        self._wanted = 0
        self._running: dict[Replica, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._numbers = count(1)

    def set_wanted(self, revision: Revision | None, replicas: int) -> None:
        self._revision, self._wanted = revision, 0 if revision is None else replicas
        self._adjust()

    async def close(self) -> None:
        """All processes have ended."""
        self.set_wanted(None, 0)
        while self._ending:
            await asyncio.wait(self._ending)

    def build_status(self, generation: int) -> dict[str, Any]:
        """As a Deployment has it."""
        return {
            "observedGeneration": generation,
            "replicas": len(self._running),
            "updatedReplicas": len(self._list_current()),
            "readyReplicas": len(self.list_addresses()),
        }

    def list_addresses(self) -> list[tuple[str, int]]:
        """Of the replicas that are ready, the newest revision first."""
        current = self._list_current()
        others = [replica for replica in self._running if replica not in current]
        return [replica.address for replica in (*current, *others) if replica.address is not None]

    def _list_current(self) -> list[Replica]:
        return [replica for replica in self._running if replica.revision == self._revision]

    def _adjust(self) -> None:
        current = self._list_current()
        others = [replica for replica in self._running if replica not in current]
        if self._revision is not None:
            for _ in range(self._wanted - len(current)):
                self._start(self._revision)
        for replica in current[self._wanted :]:
            self._end(replica)
        current = self._list_current()
        is_complete = all(replica.is_ready for replica in current)
        for replica in others:
            if is_complete or not replica.has_been_ready:
                self._end(replica)

    def _start(self, revision: Revision) -> None:
        name = f"scheduler-{next(self._numbers)}"
        replica = Replica(revision, self._folder / name, self._launcher, clock=self._clock, on_change=self._handle)
        self._running[replica] = asyncio.create_task(replica.run(), name=name)
        log.info("scheduler starts", replica=name, image=revision.image)

    def _end(self, replica: Replica) -> None:
        task = self._running.pop(replica)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.cancel()
        log.info("scheduler ends", replica=task.get_name(), image=replica.revision.image)

    def _handle(self) -> None:
        self._adjust()
        self._on_change()
