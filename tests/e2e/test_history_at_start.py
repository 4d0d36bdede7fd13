"""`fleet migrate` and `fleet controller` beside a PostgreSQL that is dead or does not answer: neither waits for it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import httpx
import pytest

from fleet.history import History, migrate
from tests.control_plane.instance import free_port
from tests.e2e.hub import Hub, soon
from tests.e2e.world import World
from tests.postgres import Postgres, running_postgres

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

FLEET: Final = (sys.executable, "-m", "fleet.cli")
WITHIN: Final = 30.0
"""Seconds until an outage is in the metrics."""
SINCE: Final = "fleet_history_unavailable_since_seconds"


@pytest.fixture
def server() -> Iterator[Postgres]:
    with running_postgres(synchronous_commit="on") as server:
        yield server


@contextmanager
def killed(server: Postgres) -> Iterator[None]:
    server.kill()
    try:
        yield
    finally:
        server.start_again()


def paused(server: Postgres) -> AbstractContextManager[None]:
    return server.paused()


Outage = Callable[[Postgres], AbstractContextManager[None]]
outages = pytest.mark.parametrize("outage", [killed, paused])


@outages
def test_the_init_container_gives_up(server: Postgres, outage: Outage) -> None:
    command = [*FLEET, "migrate", f"--url={server.url('postgres')}", "--best-effort"]
    with outage(server):
        done = subprocess.run(command, timeout=WITHIN, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Fleet runs without history until then" in done.stderr


@outages
def test_the_controller_starts_decides_and_records_what_it_decided_later(
    hub: Hub, server: Postgres, outage: Outage
) -> None:
    url, health, metrics = server.url("postgres"), free_port(), free_port()
    migrate(url)
    command = [*FLEET, "controller", f"--kubeconfig={hub.access.kubeconfig}", f"--set=history.url={url}"]
    command += [f"--set=health.address=127.0.0.1:{health}", f"--set=metrics.address=127.0.0.1:{metrics}"]

    async def story() -> None:
        async with hub.connected() as transport, httpx.AsyncClient() as client:
            world = World(transport)
            await world.join("a")

            async def is_ready() -> bool:
                try:
                    return (await client.get(f"http://127.0.0.1:{health}/readyz")).status_code == 200
                except httpx.TransportError:
                    return False

            async def is_reported() -> bool:
                lines = (await client.get(f"http://127.0.0.1:{metrics}/metrics")).text.splitlines()
                return any(line.startswith(f"{SINCE} ") and float(line.split()[1]) > 0 for line in lines)

            with outage(server):
                process = await asyncio.create_subprocess_exec(*command, "--no-leader-elect", stderr=subprocess.PIPE)
                assert process.stderr is not None
                reading = asyncio.create_task(process.stderr.read())
                try:
                    await soon(is_ready)
                    await world.place("web", {"placementType": "PickN", "numberOfClusters": 1})
                    await world.soon_on("web", "a")
                    await soon(is_reported, within=WITHIN)
                    assert await is_ready()
                except BaseException:
                    process.kill()
                    raise
            try:
                history = await asyncio.to_thread(History.open, url)

                async def is_recorded() -> bool:
                    return await asyncio.to_thread(history.latest, "web") is not None

                await soon(is_recorded)
                await asyncio.to_thread(history.close)
            finally:
                process.send_signal(signal.SIGTERM)
                written = await reading
            assert await process.wait() == 0, written.decode()

    asyncio.run(story())
