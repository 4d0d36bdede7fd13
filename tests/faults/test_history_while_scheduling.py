"""A history that cannot be written costs the scheduler nothing, and everybody who asks is told since when it is so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.live.embedded import build_live_state
from fleet.clock import SystemClock
from fleet.history import History, migrate
from fleet.hub.access.authentication import ADMINISTRATORS, AUTHENTICATED, User
from fleet.manager.manager import Manager
from fleet.recorder.metrics import RecorderMetrics
from fleet.recorder.recorder import HistoryRecorder
from fleet.settings import load_settings
from tests.api.stage import a_hub_with
from tests.databases import HASTY, OFTEN, database, postgres, url
from tests.e2e.world import World, all_recorded, configured, controlled, soon
from tests.faults.test_history_unavailable import Trouble, away, locked
from tests.postgres import Postgres

__all__ = ["database", "postgres", "url"]

TOKEN = "a-token"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}
SINCE = "fleet_history_unavailable_since_seconds"
WEB = "/v1/placements/-/web/why"
Troubled = Callable[[], AbstractContextManager[Trouble]]


@dataclass
class Stage:
    world: World
    controller: Manager
    history: History
    app: FastAPI

    async def get(self, path: str) -> httpx.Response:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://fleet", headers=ADMIN) as client:
            return await client.get(path)

    async def told(self) -> tuple[str, str, float]:
        """The status, what is said of the history, and the figure: since when."""
        health = (await self.get("/readyz")).json()
        lines = (await self.get("/metrics")).text.splitlines()
        figure = next(line for line in lines if line.startswith(f"{SINCE} "))
        return health["status"], health["checks"]["history"], float(figure.split()[1])

    async def place(self, name: str) -> None:
        await self.world.place(name, {"placementType": "PickN", "numberOfClusters": 1})
        await self.world.soon_scheduled(name)

    async def recorded(self) -> set[str]:
        await all_recorded(self.controller, self.history)
        return {one.key for one in await asyncio.to_thread(self.history.since, 0)}


@asynccontextmanager
async def staged(url: str) -> AsyncIterator[Stage]:
    hub = a_hub_with({TOKEN: User("root", "1", (ADMINISTRATORS, AUTHENTICATED))})
    await asyncio.to_thread(migrate, url)
    history = History.open(url, pace=HASTY, looks=OFTEN)
    history.start()
    try:
        async with controlled(hub, recorder=HistoryRecorder(history, configured())) as controller:
            RecorderMetrics(controller.registry, counts=history.counts, state=history.state)
            access = HubAuthorizer(hub, clock=SystemClock())
            app = create_app(build_live_state(controller), history, access, load_settings(None, {}, []))
            world = World(hub)
            await world.join("c1")
            yield Stage(world, controller, history, app)
    finally:
        await asyncio.to_thread(history.close)


async def scheduling_goes_on(url: str, trouble: Troubled) -> None:
    async with staged(url) as stage:
        await stage.place("before")
        assert await stage.recorded() == {"before"}
        assert await stage.told() == ("ok", "", 0.0)
        with trouble() as end:
            await stage.place("web")

            async def is_noticed() -> bool:
                return (await stage.told())[0] == "degraded"

            await soon(is_noticed)
            _, said, since = await stage.told()
            assert said.startswith("unavailable since 20")
            assert since > 1e9
            await stage.place("meanwhile")
            answer = await stage.get(WEB)
            assert answer.status_code == 200
            assert answer.json()["verdict"]["state"] == "Scheduled"
            end()
            assert await stage.recorded() == {"before", "web", "meanwhile"}

        async def is_over() -> bool:
            return await stage.told() == ("ok", "", 0.0)

        await soon(is_over)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.mark.timeout(600)
def test_scheduling_goes_on_without_its_history(url: str, database: str, request: pytest.FixtureRequest) -> None:
    def trouble() -> AbstractContextManager[Trouble]:
        if database == "sqlite":
            return locked(Path(url.removeprefix("sqlite:///")))
        server: Postgres = request.getfixturevalue("postgres")
        return away(server, url)

    run(scheduling_goes_on(url, trouble))
