"""Nothing grows with the number of events: live objects of hub, controller, API and history are counted."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from functools import reduce
from itertools import pairwise
from operator import and_
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from fleet.history.history import MonitorTiming
from fleet.hub.storage import store
from tests.conftest import LONG
from tests.faults.history_stage import Stage, staged
from tests.faults.hub_api import HubApi

CLUSTERS: Final = ("c1", "c2", "c3")
TURNS: Final = 5
ROUNDS: Final = 40 if LONG else 15
"""In each turn, each of some 10 events for each cluster, and a question."""
MOST_MORE: Final = 2 * ROUNDS
"""Live objects that every turn adds: kept by one event in ten, it would be more."""


@pytest.mark.alone
def test_live_objects_do_not_grow_with_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "EVENTS_KEPT", 50)

    async def scene() -> None:
        async with staged(f"sqlite:///{tmp_path / 'history.sqlite'}", MonitorTiming()) as stage:
            for name in CLUSTERS[1:]:
                await stage.world.join(name)
            await stage.place("web")
            counts = []
            for _ in range(TURNS):
                await churn(stage)
                counts.append(await count_objects(stage, lines))
            more = added_by_every_turn(counts)
            assert more.total() < MOST_MORE, more.most_common(20)

    with capture_logs() as lines:
        asyncio.run(scene())


def added_by_every_turn(counts: list[Counter[str]]) -> Counter[str]:
    """What is kept grows each time; timers and coroutines of open watches come and go with the moment of the count."""
    additions = [after - before for before, after in pairwise(counts)]
    return reduce(and_, additions)


async def churn(stage: Stage) -> None:
    for number in range(ROUNDS):
        for name in CLUSTERS:
            await stage.world.report(name)
            await stage.world.relabel(name, turn=str(number % 3))
        await stage.world.edit_policy("web", numberOfClusters=1 + number % len(CLUSTERS))
        await stage.world.soon_scheduled("web")
        await stage.answers("web")


async def count_objects(stage: Stage, lines: list[Any]) -> Counter[str]:
    """When everything is recorded, so that nothing is in flight; without what the tests themselves note."""
    assert isinstance(stage.world.api, HubApi)
    stage.world.api.requests.clear()
    lines.clear()
    await asyncio.to_thread(stage.history.flush, seconds=60)
    gc.collect()
    return Counter(type(each).__qualname__ for each in gc.get_objects())
