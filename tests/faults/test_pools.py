"""Room in pools of clusters, through a running controller: what is placed counts in every pool until the report of
pools has caught up."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from fleet.kube.resource import STATUS
from fleet.kube.scopes import MEMBER_CLUSTERS
from tests.e2e.hub import soon
from tests.faults.configured import Scene, a_scene
from tests.faults.test_room import ONE, apply_all, count_attempts, list_bound, write_time
from tests.faults.virtual import virtual

GPU: Final = "nvidia.com/gpu"
POOLED: Final = """
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: PoolTopologyMatch}]}}
"""
SHORT_LIVED: Final = """
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: PoolTopologyMatch}]}}
  pluginConfig: [{name: PoolTopologyMatch, args: {maxAgeSeconds: 60}}]
"""
HAS: Final = {"a": 4, "b": 8}


async def report(
    scene: Scene, name: str, free: dict[str, int], *, at: datetime, usage_at: datetime | None = None
) -> None:
    """Of pools with so many GPUs, what is free."""
    properties = {
        f"{kind}.pools.fleet.dev/{pool}.nvidia.com_gpu": {"value": str(count), "observationTime": write_time(at)}
        for kind, counts in (("allocatable", HAS), ("available", free))
        for pool, count in counts.items()
    }
    total, left = {GPU: str(sum(HAS.values()))}, {GPU: str(sum(free.values()))}
    usage: dict[str, Any] = {"capacity": total, "allocatable": total, "available": left}
    usage["observationTime"] = write_time(usage_at or at)
    patch = {"status": {"resourceUsage": usage, "properties": properties}}
    await scene.world.patch(MEMBER_CLUSTERS, name, patch, subresource=STATUS)


async def place_many(scene: Scene, *sizes: int) -> None:
    for number, size in enumerate(sizes):
        await scene.place(f"p{number}", ONE, requests=f"{GPU}={size}")


async def wait_for(scene: Scene, count: int) -> None:
    async def look() -> bool:
        return len(await list_bound(scene)) == count

    await soon(look)


@virtual
async def test_T_12_a_burst_sees_its_own_reservations_also_after_a_restart(tmp_path: Path) -> None:
    """Twelve are free, and eight of them in one pool: each placement may be in that one."""
    async with a_scene(tmp_path, POOLED) as scene:
        await scene.world.join("ams")
        await report(scene, "ams", HAS, at=scene.clock.now())
        await place_many(scene, 4, 4, 4)
        await wait_for(scene, 2)
        await report(scene, "ams", HAS, at=scene.clock.now())  # made before anything was applied
        await asyncio.sleep(60)
        bound = await list_bound(scene)
        assert len(bound) == 2
    async with a_scene(tmp_path, POOLED, after=scene) as again:
        await report(again, "ams", HAS, at=again.clock.now())
        await asyncio.sleep(60)
        assert await list_bound(again) == bound


@virtual
async def test_T_12_a_reservation_ends_with_the_next_report_of_pools(tmp_path: Path) -> None:
    """A report of the cluster as a whole, beside an older one of its pools, does not end it."""
    async with a_scene(tmp_path, POOLED) as scene:
        await scene.world.join("ams")
        start = scene.clock.now()
        await report(scene, "ams", HAS, at=start)
        await place_many(scene, 8, 4)
        await wait_for(scene, 1)
        await apply_all(scene, at=start + timedelta(seconds=10))
        await report(scene, "ams", HAS, at=start, usage_at=start + timedelta(seconds=20))
        await asyncio.sleep(15)
        assert len(await list_bound(scene)) == 1
        await report(scene, "ams", {"a": 4, "b": 0}, at=start + timedelta(seconds=20))
        await wait_for(scene, 2)


@virtual
async def test_T_12_pools_that_are_not_reported_any_more_keep_no_reservation_for_ever(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "\nprofiles: [{base: ExtendedProfile}]\n") as scene:
        await scene.world.join("ams")
        start = scene.clock.now()
        await report(scene, "ams", HAS, at=start)
        await place_many(scene, 6)
        await wait_for(scene, 1)
        await apply_all(scene, at=start + timedelta(seconds=10))
        await asyncio.sleep(3 * 3600)
        await report(scene, "ams", {"a": 0, "b": 6}, at=start, usage_at=scene.clock.now())
        await scene.place("later", ONE, requests=f"{GPU}=6")
        await wait_for(scene, 2)


@virtual
async def test_T_12_pools_that_grow_wake_what_they_have_room_for_now(tmp_path: Path) -> None:
    async with a_scene(tmp_path, POOLED) as scene:
        await scene.world.join("ams")
        await report(scene, "ams", {"a": 2, "b": 3}, at=scene.clock.now())
        await place_many(scene, 4, 7)
        await soon(lambda: _has_tried(scene, 2))
        await asyncio.sleep(30)
        tried = count_attempts(scene)
        await report(scene, "ams", {"a": 3, "b": 3}, at=scene.clock.now())
        await asyncio.sleep(30)
        assert count_attempts(scene) == tried  # no hope for either
        await report(scene, "ams", {"a": 4, "b": 3}, at=scene.clock.now())
        await wait_for(scene, 1)
        assert list(await list_bound(scene)) == ["p0"]


@virtual
async def test_T_12_a_fresh_report_that_says_the_same_wakes_what_a_stale_one_rejected(tmp_path: Path) -> None:
    async with a_scene(tmp_path, POOLED) as scene:
        await scene.world.join("ams")
        start = scene.clock.now()
        await report(scene, "ams", HAS, at=start - timedelta(seconds=330))
        await place_many(scene, 8)
        await soon(lambda: _has_tried(scene, 1))
        assert not await list_bound(scene)
        await report(scene, "ams", HAS, at=start)
        await wait_for(scene, 1)
        assert scene.clock.now() - start < timedelta(seconds=60)


@virtual
async def test_T_12_a_late_report_wakes_what_the_one_before_rejected_also_if_less_than_a_minute_newer(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, SHORT_LIVED) as scene:
        await scene.world.join("ams")
        start = scene.clock.now()
        await report(scene, "ams", HAS, at=start)
        await asyncio.sleep(65)
        await place_many(scene, 8)
        await soon(lambda: _has_tried(scene, 1))
        await report(scene, "ams", HAS, at=start + timedelta(seconds=59))
        await wait_for(scene, 1)
        assert scene.clock.now() - start < timedelta(seconds=90)


@virtual
async def test_T_12_reports_that_a_wrong_clock_made_stale_count_when_it_is_corrected(tmp_path: Path) -> None:
    async with a_scene(tmp_path, SHORT_LIVED) as scene:
        await scene.world.join("ams")
        await report(scene, "ams", HAS, at=scene.clock.now())
        scene.clock.set_by = timedelta(seconds=20)  # heartbeats are still fresh
        await asyncio.sleep(50)
        await place_many(scene, 8)
        await soon(lambda: _has_tried(scene, 1))
        assert not await list_bound(scene)
        scene.clock.set_by = timedelta(0)
        await scene.world.patch(MEMBER_CLUSTERS, "ams", {"metadata": {"annotations": {"any": "change"}}})
        await wait_for(scene, 1)


async def _has_tried(scene: Scene, count: int) -> bool:
    return count_attempts(scene) >= count
