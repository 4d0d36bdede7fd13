"""Which waiting placements a running controller attempts after a change, and how soon. In virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.api import Request
from fleet.kube.scopes import MEMBER_CLUSTERS
from tests.e2e.world import member_status
from tests.faults.configured import a_scene
from tests.faults.virtual import virtual
from tests.installed import install_example_package, the_example_package

WAITING: Final = 60
SLOTS: Final = 12
REGION: Final = "topology.acme.example/region"
QUARANTINE: Final = """\
profiles:
- schedulerName: DefaultScheduler
  plugins: {filter: {enabled: [{name: RegionQuarantine}]}}
  pluginConfig: [{name: RegionQuarantine, args: {regions: [south]}}]
"""


def one_of(slot: str) -> dict[str, Any]:
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"slot": slot}}}]}
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity}


@pytest.mark.parametrize("slot, helped", [("none", 0), ("7", WAITING // SLOTS)])
@virtual
async def test_a_cluster_that_joins_causes_as_many_attempts_as_it_helps(tmp_path: Path, slot: str, helped: int) -> None:
    names = [f"web-{number}" for number in range(WAITING)]
    async with a_scene(tmp_path) as scene:
        for number, name in enumerate(names):
            await scene.place(name, one_of(str(number % SLOTS)))
        for name in names:
            await scene.world.soon_scheduled(name, status="False")
        await asyncio.sleep(30)
        scene.attempts.records.clear()
        await scene.world.join("ams", labels={"slot": slot}, silent_for=scene.hours_ago(0))
        await asyncio.sleep(60)
        attempted = [str(record.key) for record in scene.attempts.records]
        assert sorted(attempted) == sorted(names[7::SLOTS] if helped else [])
        assert len(attempted) == helped
        for name in attempted:
            assert await scene.world.in_use(name) == {"ams"}


@virtual
async def test_a_region_that_leaves_quarantine_is_used_within_a_second(tmp_path: Path) -> None:
    """By the plugin of a wheel."""
    (folder := tmp_path / "site-packages").mkdir()
    install_example_package(folder)
    with the_example_package(folder):
        async with a_scene(tmp_path, QUARANTINE) as scene:
            await scene.world.join("ams", labels={REGION: "south"}, silent_for=scene.hours_ago(0))
            await scene.place("web", {"placementType": "PickN", "numberOfClusters": 1})
            await scene.world.soon_scheduled("web", status="False")
            await asyncio.sleep(60)
            assert await scene.world.bindings("web") == []
            await scene.world.relabel("ams", **{REGION: None})
            await asyncio.sleep(1)
            assert await scene.world.in_use("web") == {"ams"}


@virtual
async def test_nothing_is_asked_about_the_placement_of_another_scheduler(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.place("theirs", one_of("7"), scheduler_name="nobody")
        await scene.place("ours", one_of("7"))
        await scene.world.soon_scheduled("ours", status="False")
        await asyncio.sleep(30)
        before = len(scene.hub.requests)
        await scene.world.join("ams", labels={"slot": "7"}, silent_for=scene.hours_ago(0))
        await scene.world.relabel("ams", colour="red")
        status = member_status(silent_for=scene.hours_ago(0), properties={"cost": "1"})
        await scene.world.patch(MEMBER_CLUSTERS, "ams", {"status": status}, subresource="status")
        await asyncio.sleep(60)
        requests = scene.hub.requests[before:]
        assert any(is_about("ours", request) for request in requests)
        assert [request.path for request in requests if is_about("theirs", request)] == []
        assert scene.attempts.of("theirs") == []


def is_about(name: str, request: Request) -> bool:
    return name in request.path or name.encode() in (request.body or b"")
