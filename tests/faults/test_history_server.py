"""A PostgreSQL that is killed or stops answering under a running controller and API: placing and explaining go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from fleet.history import migrate
from fleet.history.history import MonitorTiming
from tests.e2e.hub import soon
from tests.faults.history_stage import staged
from tests.postgres import Postgres, running_postgres

WITHIN: Final = 30.0
"""Seconds until an outage is reported."""
PROBE_TIMEOUT: Final = 5.0
"""Seconds that the chart gives a probe of the API."""
pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]


@pytest.fixture
def server() -> Iterator[Postgres]:
    """For one test: no other one survives what is done to it. What it has committed survives its end."""
    with running_postgres(synchronous_commit="on") as server:
        yield server


def test_a_killed_server_costs_no_decision_and_loses_none(server: Postgres) -> None:
    async def scene() -> None:
        url = server.url("postgres")
        migrate(url)
        async with staged(url, MonitorTiming()) as stage:
            await stage.place("before")
            await soon(lambda: stage.is_recorded("before"))
            server.kill()
            await stage.place("web")
            await stage.answers("web")
            await soon(stage.is_told, within=WITHIN)
            server.start_again()
            await stage.place("after")
            await soon(lambda: stage.is_recorded("before", "web", "after"))
            await soon(stage.is_fine)

    asyncio.run(scene())


def test_a_server_that_stops_answering_costs_no_decision_and_loses_none(server: Postgres) -> None:
    async def scene() -> None:
        url = server.url("postgres")
        migrate(url)
        async with staged(url, MonitorTiming()) as stage:
            await stage.place("before")
            await soon(lambda: stage.is_recorded("before"))
            with server.paused():
                for probe in ("/livez", "/readyz"):
                    async with asyncio.timeout(PROBE_TIMEOUT):
                        assert (await stage.get(probe)).status_code == 200
                await stage.place("web")
                await stage.answers("web")
                await soon(stage.is_told, within=WITHIN)
            await stage.place("after")
            await soon(lambda: stage.is_recorded("before", "web", "after"))
            await soon(stage.is_fine)

    asyncio.run(scene())
