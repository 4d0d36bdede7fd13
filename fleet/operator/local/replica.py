"""One process of a scheduler: started with its configuration in a folder of its own, probed, and restarted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import structlog

from fleet.clock import Clock
from fleet.kube.backoff import ExponentialBackoff
from fleet.operator.configuration import KEY
from fleet.private_files import create_private_directory

GRACE: Final = 30.0
"""Seconds from SIGTERM to SIGKILL, as pods have them."""
PROBE_PERIOD: Final = 1.0
RESTARTS: Final = ExponentialBackoff(initial=10.0, maximum=300.0)
"""Of processes that ended more than once, as for containers."""
STABLE: Final = 600.0
"""Seconds after which earlier restarts do not count."""
SILENT: Final = 60.0
"""Seconds without an answer after which a process that has answered is started anew, as the probes of pods have it."""
STARTING: Final = 120.0
"""The same for a process that has not answered yet."""
_PROBES: Final = 3
"""Failures in a row after which a process that was ready is not."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Revision:
    """A scheduler as it should run."""

    image: str
    arguments: tuple[str, ...]
    document: str


class Process(Protocol):
    @property
    def address(self) -> tuple[str, int]:
        """Of probes and metrics."""

    async def wait(self) -> int:
        """The exit code; negative after a signal."""

    async def is_ready(self) -> bool: ...

    async def is_live(self) -> bool:
        """Whether it answers, as one that only waits does, too."""

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class Launcher(Protocol):
    async def start(self, revision: Revision, config: Path) -> Process:
        """Raises OSError."""


class Replica:
    def __init__(
        self, revision: Revision, folder: Path, launcher: Launcher, *, clock: Clock, on_change: Callable[[], None]
    ) -> None:
        self.revision = revision
        self.address: tuple[str, int] | None = None
        """While it is ready."""
        self.has_been_ready = False
        self._folder, self._launcher, self._clock, self._on_change = folder, launcher, clock, on_change

    @property
    def is_ready(self) -> bool:
        return self.address is not None

    async def run(self) -> None:
        """Until cancelled; the process has ended then."""
        failures = 0
        try:
            while True:
                begun = self._clock.monotonic()
                outcome = await self._run_once()
                failures = 0 if self._clock.monotonic() - begun >= STABLE else failures
                delay = RESTARTS.compute_delay(failures - 1) if failures else 0.0
                failures += 1
                log.warning("scheduler ended", outcome=outcome, image=self.revision.image, restart_in=delay)
                await self._clock.sleep(delay)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _run_once(self) -> str:
        try:
            create_private_directory(self._folder)
            (self._folder / KEY).write_text(self.revision.document, encoding="utf-8")
            process = await self._launcher.start(self.revision, self._folder / KEY)
        except OSError as error:
            return f"cannot start: {error}"
        exiting = asyncio.ensure_future(process.wait())
        try:
            await self._probe(process, exiting)
            return f"exit code {exiting.result()}" if exiting.done() else "no answer to probes"
        finally:
            self._set_address(None)
            await self._end(process, exiting)

    async def _probe(self, process: Process, exiting: asyncio.Future[int]) -> None:
        """Until the process ends, or answers no more."""
        failed, silent_from = 0, self._clock.monotonic() + STARTING
        while not exiting.done() and self._clock.monotonic() < silent_from:
            is_ready = await process.is_ready()
            failed = 0 if is_ready else failed + 1
            if is_ready and not exiting.done():
                self._set_address(process.address)
            elif failed >= _PROBES:
                self._set_address(None)
            if is_ready or await process.is_live():
                silent_from = self._clock.monotonic() + SILENT
            await self._wait(exiting, PROBE_PERIOD)

    async def _end(self, process: Process, exiting: asyncio.Future[int]) -> None:
        if not exiting.done():
            process.terminate()
            await self._wait(exiting, GRACE)
        if not exiting.done():
            log.warning("scheduler did not end after SIGTERM and is killed", seconds=GRACE)
            process.kill()
            await asyncio.wait({exiting})

    async def _wait(self, exiting: asyncio.Future[int], seconds: float) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        either: set[asyncio.Future[Any]] = {exiting, sleeping}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()

    def _set_address(self, address: tuple[str, int] | None) -> None:
        if address != self.address:
            self.address = address
            self.has_been_ready |= address is not None
            self._on_change()
