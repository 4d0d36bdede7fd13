"""Histories under faults: a short form of `make robustness`."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.robustness import hostile, kills
from tests.robustness.__main__ import render, run
from tests.robustness.clocks import set_clock
from tests.robustness.faults import HubProcess
from tests.robustness.forwarder import forwarding
from tests.robustness.killed import NAMES
from tests.robustness.requests import request

pytestmark = [pytest.mark.servers, pytest.mark.early]


def test_a_clock_that_jumps_is_the_one_that_the_hub_reads(tmp_path: Path) -> None:
    async def create(hub: HubProcess, name: str) -> datetime:
        body = {"metadata": {"name": name}}
        _, created = await request(hub.forwarder.port, "POST", "/api/v1/namespaces", body)
        return datetime.fromisoformat(created["metadata"]["creationTimestamp"])

    async def story() -> None:
        async with forwarding() as forwarder:
            hub = HubProcess(tmp_path, forwarder)
            try:
                await hub.start()
                before = await create(hub, "before")
                set_clock(hub.server, ahead=-7200)
                assert before - await create(hub, "after") > timedelta(hours=1)
            finally:
                hub.server.stop()

    asyncio.run(story())


@pytest.mark.timeout(1800)
def test_histories_stay_linearizable_while_the_hub_fails(tmp_path: Path) -> None:
    reports = asyncio.run(run(tmp_path, seed=1, rounds=1, faults=6))
    assert [report.violations for report in reports] == [[]], render(reports, seed=1)
    assert all(report.acknowledged and report.events for report in reports)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("process", NAMES)
def test_a_process_that_is_killed_again_and_again_loses_nothing_that_was_acknowledged(
    tmp_path: Path, process: str
) -> None:
    report = asyncio.run(kills.run(tmp_path, process=process, kills=6, seed=1))
    assert report.violations == []
    assert report.acknowledged > 10


def test_no_request_to_hub_or_api_is_answered_with_500_costs_memory_or_loses_writes(tmp_path: Path) -> None:
    reports = asyncio.run(hostile.run(tmp_path, count=3000, seed=1))
    assert {name: report.violations for name, report in reports.items()} == {"hub": [], "API": []}
    for report in reports.values():
        assert min(report.codes[code] for code in (200, 400, 401, 404, 422)) > 10
    assert reports["hub"].codes[403] > 10
    assert reports["hub"].accepted * 3 >= reports["hub"].writes
