"""Thousands of attempts leave nothing behind: in virtual time, with an event during each of them."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from fleet.hub.storage import store
from fleet.kube.api import Api, Request
from fleet.scheduler.attempt_record import AttemptRecord
from tests.conftest import LONG
from tests.e2e.world import World
from tests.faults.acting import running
from tests.faults.hub_api import a_hub
from tests.faults.virtual import virtual

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

PLACEMENTS: Final = 100
ATTEMPTS: Final = 10_000 if LONG else 2000
MOST_MORE: Final = ATTEMPTS // 20
"""Live objects after the second half of the attempts: one kept by every tenth attempt is as many."""
REQUIRED: Final = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": "prod"}}}]}
PROD: Final[dict[str, Any]] = {
    "placementType": "PickN",
    "numberOfClusters": 1,
    "affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": REQUIRED}},
}


class Count(list[AttemptRecord]):
    """Of records, which are not kept."""

    total = 0

    def append(self, record: AttemptRecord) -> None:
        self.total += 1


@dataclass
class SlowLists:
    """The line to the hub, on which lists of the bindings of a placement take their time."""

    api: Api

    async def call(self, request: Request) -> bytes:
        if "labelSelector" in dict(request.query) and request.path.endswith("bindings"):
            await asyncio.sleep(0.4)
        return await self.api.call(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.api.stream(request)


async def count_live_objects() -> Counter[str]:
    """At the fullest of three moments: all watches of the site end together, and for a moment none is open."""
    counts = []
    for _ in range(3):
        await asyncio.sleep(7)
        gc.collect()
        counts.append(Counter(type(each).__qualname__ for each in gc.get_objects()))
    return max(counts, key=Counter.total)


@virtual
async def test_Q_12_nothing_is_in_flight_after_thousands_of_attempts_and_nothing_has_grown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "EVENTS_KEPT", 50)
    hub = a_hub()
    world = World(hub)
    await world.join("ams")
    count, busy = Count(), 0
    settings = ("queue.hints=false", "bindings.read=List")
    with capture_logs() as lines:
        async with running(hub, tmp_path / "fleet.yaml", "api: {}\n", *settings, through=SlowLists(hub)) as site:
            for number in range(PLACEMENTS):
                await world.place(f"web-{number}", PROD)
            await asyncio.sleep(60)
            site.records = count
            handlers = site.scheduler._handlers

            async def attempt(until: int) -> Counter[str]:
                nonlocal busy
                turn = 0
                while count.total < until:
                    turn += 1
                    await world.relabel("ams", env=f"test-{turn % 3}")
                    await asyncio.sleep(0.3)
                    busy = max(busy, len(handlers.in_flight()))
                await asyncio.sleep(60)
                assert handlers.in_flight() == set()
                assert list(site.scheduler.queue.list_recorded_events()) == []
                hub.requests.clear()
                lines.clear()
                return await count_live_objects()

            before = await attempt(ATTEMPTS // 2)
            more = await attempt(ATTEMPTS) - before
    assert busy > 0
    assert more.total() < MOST_MORE, more.most_common(20)
