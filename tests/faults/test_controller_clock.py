"""A time of day that is wrong for a while leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from fleet.manager.manager import Manager
from tests.e2e.world import World, configured
from tests.faults.hub_api import a_hub
from tests.faults.virtual import EPOCH, VirtualClock, no_jitter, virtual

pytestmark = pytest.mark.timeout(300)

AHEAD: Final = timedelta(hours=2)
CLUSTERS: Final = ("a", "b", "c")


@asynccontextmanager
async def controlled(clock: VirtualClock) -> AsyncIterator[World]:
    """Three clusters that were heard of just now, by a clock that is right."""
    hub = a_hub(clock=lambda: clock.now().timestamp())
    world = World(hub)
    for name in CLUSTERS:
        await world.join(name)
    controller = Manager(hub, configured(), elects=False, clock=clock, jitter=no_jitter)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(), name="controller")
        await controller.ready()
        yield world
        controller.stop()


@virtual
async def test_placements_that_a_fast_clock_left_short_are_filled_when_it_is_set_right() -> None:
    clock = VirtualClock()
    right = datetime.now(UTC) - EPOCH  # heartbeats are written by the test in real time
    clock.set_by = right + AHEAD
    async with controlled(clock) as world:
        await world.place("two", {"placementType": "PickN", "numberOfClusters": 2})
        await world.place("named", {"placementType": "PickFixed", "clusterNames": ["b"]})
        await world.place("everywhere", {"placementType": "PickAll"})
        await asyncio.sleep(5)
        assert await world.in_use("two") == await world.in_use("named") == await world.in_use("everywhere") == set()

        clock.set_by = right
        await world.report("a", silent_for=1)
        await asyncio.sleep(5)
        assert len(await world.in_use("two")) == 2
        assert await world.in_use("named") == {"b"}
        assert await world.in_use("everywhere") == set(CLUSTERS)
