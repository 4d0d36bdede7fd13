"""What README walks through, on both targets."""

from __future__ import annotations

import asyncio

from tests.e2e.world import Hub, world


def test_a_placement_finds_its_clusters_and_follows_every_edit(hub: Hub) -> None:
    async def walk() -> None:
        async with world(hub) as fleet:
            for name in ("a", "b", "c", "d"):
                await fleet.join(name, labels={"env": "prod"})
            await fleet.place("web", {"placementType": "PickN", "numberOfClusters": 2})
            await fleet.soon_on("web", "c", "d")
            assert (await fleet.soon_scheduled("web"))["message"].endswith("found 2 cluster(s)")

            await fleet.edit_policy("web", numberOfClusters=3)
            await fleet.soon_on("web", "b", "c", "d")

    asyncio.run(walk())
