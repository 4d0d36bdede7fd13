"""Feeds: numbers from outside in the decisions of a running controller, and what the API says of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.api.stage import Stage, a_stage
from tests.api.test_profiles import place, write
from tests.e2e.hub import soon
from tests.e2e.world import CONFIG_MAPS

PRICES = {"ams-1": 3.0, "ams-2": 1.5, "dub-1": 2, "dub-2": 2.5}
FEEDS = """
feeds:
- name: prices
  intervalSeconds: 1
  configMap: {namespace: shop, name: prices}
profiles:
- schedulerName: DefaultScheduler
- schedulerName: cheap
  base: ExtendedProfile
  plugins:
    score: {enabled: [{name: FeedPreference, weight: 10}]}
  pluginConfig:
  - {name: FeedPreference, args: {feed: prices}}
- schedulerName: thrifty
  plugins:
    filter: {enabled: [{name: FeedLimit}]}
  pluginConfig:
  - {name: FeedLimit, args: {limits: [{feed: prices, atMost: 1}]}}
"""


async def set_prices(stage: Stage, **prices: float) -> None:
    data = {name.replace("_", "-"): str(price) for name, price in prices.items()}
    if await stage.world.find(CONFIG_MAPS, "shop/prices") is None:
        await stage.world.create(CONFIG_MAPS, {"metadata": {"name": "prices", "namespace": "shop"}, "data": data})
    else:
        await stage.world.patch(CONFIG_MAPS, "shop/prices", {"data": data})


async def wait_for_price(stage: Stage, cluster: str, price: float) -> dict[str, Any]:
    """The sample of the feed, once it has this number."""

    async def look() -> dict[str, Any] | None:
        items = (await stage.json("/v1/config"))["items"]
        (sample,) = [item for item in items if item["name"] == "feeds[0].sample"]
        columns = sample["value"].get("columns", {})
        return sample if columns.get("value", {}).get(cluster) == price else None

    found: dict[str, Any] = await soon(look)
    return found


async def count_attempts(stage: Stage, name: str) -> int:
    await stage.wait_until_recorded()
    recorded = (await stage.json(f"/v1/placements/-/{name}/history"))["items"]
    return sum(1 + attempt["repeats"] for attempt in recorded)


def test_F3_137_the_cheapest_cluster_by_a_config_map_is_taken_explained_and_replayed(tmp_path: Path) -> None:
    (tmp_path / "document").mkdir()

    async def main() -> None:
        async with a_stage(tmp_path, file=write(tmp_path / "document", FEEDS)) as stage:
            await set_prices(stage, ams_1=3.0, ams_2=1.5, dub_1=2, dub_2=2.5)
            sample = await wait_for_price(stage, "ams-2", 1.5)
            assert (sample["value"]["stale"], sample["note"]) == (False, "")
            await place(stage, "first", "cheap", placementType="PickN", numberOfClusters=1)
            await stage.world.soon_on("first", "ams-2")
            await stage.wait_until_recorded()
            why = await stage.json("/v1/placements/-/first/why?cluster=ams-2")
            assert why["attempt"]["notes"]["FeedPreference"]["prices value"]["ams-2"]["value"] == 1.5
            (row,) = why["attempt"]["clusters"]
            (score,) = [one for one in row["scores"] if one["plugin"] == "FeedPreference"]
            assert (score["raw"], score["final"]) == (100, 1000)

            await set_prices(stage, dub_2=0.5)
            await wait_for_price(stage, "dub-2", 0.5)
            await place(stage, "second", "cheap", placementType="PickN", numberOfClusters=1)
            await stage.world.soon_on("second", "dub-2")
            assert await stage.world.in_use("first") == {"ams-2"}
            await stage.wait_until_recorded()
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["different"], report["skipped"]) == (report["attempts"], [], [])

    asyncio.run(main())


def test_F3_137_new_numbers_wake_only_placements_that_they_can_help(tmp_path: Path) -> None:
    (tmp_path / "document").mkdir()

    async def main() -> None:
        async with a_stage(tmp_path, file=write(tmp_path / "document", FEEDS)) as stage:
            await set_prices(stage, ams_1=3.0, ams_2=1.5)
            await wait_for_price(stage, "ams-2", 1.5)
            await place(stage, "web-2", "thrifty", placementType="PickN", numberOfClusters=1)
            await stage.world.soon_scheduled("web-2", status="False")
            await stage.wait_until_recorded()
            why = await stage.json("/v1/placements/-/web-2/why?cluster=ams-2")
            (rejection,) = why["attempt"]["clusters"][0]["rejections"]
            assert (rejection["plugin"], rejection["reason"]) == ("FeedLimit", "TooHigh")
            assert rejection["message"].startswith("prices value is 1.5, more than 1.0; sampled ")
            assert rejection["details"]["stale"] is False

            before = {name: await count_attempts(stage, name) for name in ("web-2", "big")}
            await set_prices(stage, ams_2=1.25)
            await wait_for_price(stage, "ams-2", 1.25)
            assert {name: await count_attempts(stage, name) for name in before} == before
            await set_prices(stage, ams_2=0.75)
            await stage.world.soon_on("web-2", "ams-2")
            assert await count_attempts(stage, "big") == before["big"]
            await stage.wait_until_recorded()
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["different"], report["skipped"]) == (report["attempts"], [], [])

    asyncio.run(main())
