"""A controller with profiles of a document, on the embedded hub and under virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from fleet.clock import SECOND
from fleet.kube.api import Api, Request
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.manager.manager import CONTROLLERS, Manager
from fleet.scheduler.attempt_record import AttemptRecord
from tests.e2e.world import ANYTHING, World, configured
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import VirtualClock, no_jitter

HEAD: Final = "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"


@dataclass
class Attempts:
    """What the history is given."""

    records: list[AttemptRecord] = field(default_factory=list)

    def record(self, attempt: AttemptRecord) -> None:
        self.records.append(attempt)

    def of(self, key: str) -> list[AttemptRecord]:
        return [record for record in self.records if str(record.key) == key]

    @property
    def delays(self) -> list[float]:
        return [(after.started - before.started) / SECOND for before, after in pairwise(self.records)]


@dataclass
class Scene:
    hub: HubApi
    world: World
    controller: Manager
    attempts: Attempts
    clock: VirtualClock

    def hours_ago(self, hours: float) -> float:
        """In seconds before the time of day by which reports are written."""
        return (datetime.now(UTC) - self.clock.now()).total_seconds() + hours * 3600

    def sample(self, metric: str, **labels: str) -> float | None:
        return self.controller.registry.get_sample_value(metric, labels)

    async def place(self, name: str, policy: dict[str, Any], **annotations: str) -> None:
        """Keys of annotations are written without their group, with underscores."""
        given = {f"scheduling.fleet.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
        spec = {"resourceSelectors": [ANYTHING], "policy": policy}
        document = {"metadata": {"name": name, "annotations": given}, "spec": spec}
        await self.world.create(CLUSTER_SCOPED.placement, document)

    async def annotate(self, name: str, **annotations: str | None) -> None:
        given = {f"scheduling.fleet.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
        await self.world.patch(CLUSTER_SCOPED.placement, name, {"metadata": {"annotations": given}})


@dataclass
class LatePlacements:
    """The line to the hub, on which the watch of placements is behind all others."""

    api: Api

    async def call(self, request: Request) -> bytes:
        return await self.api.call(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self.api.stream(request) as chunks:
            late = request.path.endswith(f"/{CLUSTER_SCOPED.placement.plural}")
            yield self._delay(chunks) if late else chunks

    async def _delay(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            await asyncio.sleep(3)
            yield chunk


@asynccontextmanager
async def a_scene(
    folder: Path,
    profiles: str = "",
    *assignments: str,
    after: Scene | None = None,
    controllers: Collection[str] = CONTROLLERS,
    through: Callable[[HubApi], Api] = lambda hub: hub,
) -> AsyncIterator[Scene]:
    """`profiles` is the document without its head. A scene `after` another one has its hub and time; `through` is the
    line between the controller and the hub."""
    file = folder / "fleet.yaml"
    file.write_text(HEAD + profiles, encoding="utf-8")
    attempts = Attempts()
    clock = VirtualClock() if after is None else after.clock
    hub = a_hub(clock=lambda: clock.now().timestamp()) if after is None else after.hub
    settings = configured("eligibility.heartbeatTimeout=24h", *assignments, file=file)
    controller = Manager(
        through(hub),
        settings,
        controllers=controllers,
        elects=False,
        recorder=attempts,
        clock=clock,
        jitter=no_jitter,
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(), name="controller")
        await controller.ready()
        yield Scene(hub, World(hub), controller, attempts, clock)
        controller.stop()
