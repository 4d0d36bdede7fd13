"""A controller and its API on one hub, with a history that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.live.embedded import build_live_state
from fleet.clock import SystemClock
from fleet.errors import HistoryUnavailable
from fleet.history import History
from fleet.history.history import MonitorTiming
from fleet.hub.access.authentication import ADMINISTRATORS, AUTHENTICATED, User
from fleet.manager.manager import Manager
from fleet.recorder.metrics import RecorderMetrics
from fleet.recorder.recorder import HistoryRecorder
from fleet.settings import load_settings
from tests.api.stage import a_hub_with
from tests.databases import HASTY
from tests.e2e.world import World, configured, controlled, handed_over

TOKEN: Final = "a-token"
ADMIN: Final = {"Authorization": f"Bearer {TOKEN}"}
SINCE: Final = "fleet_history_unavailable_since_seconds"


@dataclass
class Stage:
    world: World
    controller: Manager
    history: History
    app: Any

    async def get(self, path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://fleet", headers=ADMIN) as client:
            return await client.get(path)

    async def place(self, name: str) -> None:
        await self.world.place(name, {"placementType": "PickN", "numberOfClusters": 1})
        await self.world.soon_scheduled(name)

    async def is_told(self) -> bool:
        """In health, which is ready all the same, and in metrics."""
        health = await self.get("/readyz")
        assert health.status_code == 200
        lines = (await self.get("/metrics")).text.splitlines()
        figure = next(line for line in lines if line.startswith(f"{SINCE} "))
        said = health.json()["checks"]["history"]
        return (
            health.json()["status"] == "degraded"
            and said.startswith("unavailable since 20")
            and float(figure.split()[1]) > 0
        )

    async def is_fine(self) -> bool:
        health = (await self.get("/readyz")).json()
        is_ok: bool = health["status"] == "ok"
        return is_ok and await asyncio.to_thread(self.history.flush, seconds=0.1)

    async def is_recorded(self, *names: str) -> bool:
        await handed_over(self.controller)
        await asyncio.to_thread(self.history.flush, seconds=1)
        try:
            return set(names) <= {entry.key for entry in await asyncio.to_thread(self.history.since, 0)}
        except HistoryUnavailable:
            return False

    async def answers(self, name: str) -> None:
        """Whatever the history does, the present can be explained."""
        answer = await self.get(f"/v1/placements/-/{name}/why")
        assert answer.status_code == 200, answer.text
        assert answer.json()["verdict"]["state"] == "Scheduled"


@asynccontextmanager
async def staged(url: str, looks: MonitorTiming) -> AsyncIterator[Stage]:
    hub = a_hub_with({TOKEN: User("root", "1", (ADMINISTRATORS, AUTHENTICATED))})
    opened = await asyncio.to_thread(History.open, url, pace=HASTY, looks=looks)
    opened.start()
    try:
        async with controlled(hub, recorder=HistoryRecorder(opened, configured())) as controller:
            RecorderMetrics(controller.registry, counts=opened.counts, state=opened.state)
            access = HubAuthorizer(hub, clock=SystemClock())
            app = create_app(build_live_state(controller), opened, access, load_settings(None, {}, []))
            world = World(hub)
            await world.join("c1")
            yield Stage(world, controller, opened, app)
    finally:
        await asyncio.to_thread(opened.close, seconds=0.5)
