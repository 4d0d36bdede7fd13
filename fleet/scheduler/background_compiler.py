"""Compiler of large policies for PreEnqueue: beside the event loop, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from fleet.model.placement_key import PlacementKey
from fleet.model.views import Metadata, Observed, PolicySnapshot
from fleet.scheduler.requests import RequestCache
from fleet.worker_thread import WorkerThread

log = structlog.get_logger(__name__)


class BackgroundCompiler:
    """Of each placement that waits for it, the newest policy only."""

    def __init__(
        self, requests: RequestCache, thread: WorkerThread, on_compiled: Callable[[PlacementKey], None]
    ) -> None:
        """`on_compiled` is called once `requests` has the request, on the event loop."""
        self._requests = requests
        self._thread = thread
        self._on_compiled = on_compiled
        self._waiting: dict[PlacementKey, tuple[Observed[PolicySnapshot], Metadata]] = {}
        self._running: PlacementKey | None = None
        self._wake = asyncio.Event()

    def submit(self, key: PlacementKey, snapshot: Observed[PolicySnapshot], *, placement: Metadata) -> None:
        """Instead of what waits for the same placement."""
        self._waiting[key] = (snapshot, placement)
        self._wake.set()

    def drop(self, key: PlacementKey) -> None:
        """The request is not wanted any more."""
        self._waiting.pop(key, None)
        if key == self._running:
            self._running = None

    async def run(self) -> None:
        """Until cancelled, which ends the computation under way, too."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                key = next(iter(self._waiting))
                await self._compile(key, *self._waiting.pop(key))

    async def _compile(self, key: PlacementKey, snapshot: Observed[PolicySnapshot], placement: Metadata) -> None:
        self._running = key
        try:
            await self._thread.run(self._requests.get, snapshot, placement=placement)
        except Exception:
            log.exception(
                "the policy could not be compiled: the placement is held until it is edited", placement=str(key)
            )
            return
        if self._running is None:
            self._requests.forget(key)  # nothing else would, after its placement
        else:
            self._on_compiled(key)
