"""Room in pools of clusters, as the API answers about it, and as attempts replay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from tests.api.stage import Json, Stage, a_stage
from tests.api.test_profiles import write
from tests.e2e.world import ANYTHING, all_recorded

GPU: Final = "nvidia.com/gpu"
POOLED: Final = """
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: PoolTopologyMatch}]}}
  pluginConfig: [{name: PoolTopologyMatch, args: {maxAgeSeconds: 0, unknown: Reject}}]
"""


async def report(stage: Stage, name: str, **pools: int) -> None:
    """So many GPUs in each pool, all of them free."""
    total = {GPU: str(sum(pools.values()))}
    properties = {
        f"{kind}.pools.fleet.dev/{pool}.{GPU.replace('/', '_')}": {
            "value": str(count),
            "observationTime": "2026-03-10T09:00:00Z",
        }
        for pool, count in pools.items()
        for kind in ("allocatable", "available")
    }
    usage = {"capacity": total, "allocatable": total, "available": total}
    patch: Json = {"status": {"resourceUsage": usage, "properties": properties}}
    await stage.world.patch(MEMBER_CLUSTERS, name, patch, subresource=STATUS)


async def place(stage: Stage, name: str, count: int) -> None:
    metadata = {"name": name, "annotations": {"scheduling.fleet.dev/requests": f"{GPU}={count}"}}
    policy = {"placementType": "PickN", "numberOfClusters": 1}
    spec = {"resourceSelectors": [ANYTHING], "policy": policy}
    await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})


def test_T_12_T_14_why_names_the_pool_and_every_attempt_replays(tmp_path: Path) -> None:
    (tmp_path / "document").mkdir()

    async def main() -> None:
        async with a_stage(tmp_path, file=write(tmp_path / "document", POOLED)) as stage:
            await report(stage, "ams-1", a=4, b=8)
            await place(stage, "first", 5)
            await stage.world.soon_on("first", "ams-1")
            await place(stage, "second", 4)
            await stage.world.soon_scheduled("second", status="False")
            why = await stage.json("/v1/placements/-/second/why?cluster=ams-1&fixes=deep")
            (row,) = why["attempt"]["clusters"]
            (rejected,) = [each for each in row["rejections"] if each["verdict"] == "reject"]
            assert (rejected["plugin"], rejected["reason"]) == ("PoolTopologyMatch", "NoSinglePool")
            assert rejected["message"] == (
                f"needs {GPU} 4 in one pool, and b, which lacks least, has 3 of 8 free: 1 is missing"
            )
            assert [{"op": "setRequest", "resource": GPU, "value": "3"}] in [fix["edits"] for fix in why["fixes"]]
            assert stage.history is not None
            await all_recorded(stage.controller, stage.history)
            replayed = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (replayed["same"], replayed["different"], replayed["skipped"]) == (replayed["attempts"], [], [])
            plugins = await stage.json("/v1/profiles/DefaultScheduler")
            assert "PoolTopologyMatch" in str(plugins)

    asyncio.run(main())
