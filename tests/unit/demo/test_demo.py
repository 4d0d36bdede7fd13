"""Members, workloads and agents together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from fleet.demo.demo import Demo
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import VirtualClock, virtual

CLUSTERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"


@asynccontextmanager
async def a_demo(api: HubApi, size: int | None = None) -> AsyncIterator[Demo]:
    demo = Demo(api, clock=VirtualClock(), random=Random(1))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(demo.run(), name="demo")
        await demo.begin(size)
        yield demo
        running.cancel()


async def names(api: HubApi) -> set[str]:
    return {one["metadata"]["name"] for one in await api.list(CLUSTERS)}


@virtual
async def test_a_new_fleet_has_a_dozen_members() -> None:
    api = a_hub()
    async with a_demo(api):
        assert len(await names(api)) == 12


@virtual
async def test_without_a_size_a_second_start_leaves_the_fleet_as_it_was() -> None:
    api = a_hub()
    async with a_demo(api, 4):
        pass
    await api.delete(f"{CLUSTERS}/iad-1")
    async with a_demo(api):
        await asyncio.sleep(10)
        assert await names(api) == {"dub-1", "sin-1", "atl-1"}


@virtual
async def test_with_a_size_a_second_start_lets_clusters_join_until_it_is_reached() -> None:
    api = a_hub()
    async with a_demo(api, 2):
        pass
    async with a_demo(api, 5):
        assert len(await names(api)) == 5
