"""Clusters that are tried first, through a running controller: chosen by an earlier attempt, or named from outside."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.decision import Decision
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from tests.faults.configured import Scene, a_scene
from tests.faults.test_preemption import EVICTING, OPTIONS, fill, is_given_up, is_placed, place, roll_out
from tests.faults.test_room import ONE, join, write_time
from tests.faults.virtual import virtual


def list_filtered(decision: Decision) -> set[str]:
    assert decision.verdicts is not None
    return {decision.frame.name(row) for row in range(decision.frame.size) if decision.verdicts.examined >> row & 1}


def find_decided(scene: Scene, name: str) -> AttemptRecord:
    return next(record for record in scene.attempts.of(name) if record.result is AttemptResult.DECIDED)


def check_scan(record: AttemptRecord, *, filtered: set[str]) -> None:
    """Only these clusters were filtered, and a scan of all gives the same."""
    assert record.inputs is not None
    assert record.decision is not None
    assert list_filtered(record.decision) == filtered
    scan = decide(replace(record.inputs, nominated=()))
    assert len(list_filtered(scan)) == record.inputs.frame.count
    assert [each.cluster for each in scan.targets] == [each.cluster for each in record.decision.targets]
    assert scan.operations == record.decision.operations


async def read_nominated(scene: Scene, name: str) -> list[str]:
    status = (await scene.world.get(OPTIONS, name)).get("status", {})
    return [each["cluster"] for each in status.get("nominatedTargets", ())]


@virtual
async def test_Q_33_only_feasible_nominated_clusters_are_filtered_and_a_scan_gives_the_same(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "dub", "lon", "osl", priority=10)
        await fill(world, "ams")
        await place(world, "vip", cpu=3, priority=100)
        await is_given_up(world, "on-ams")
        await asyncio.sleep(5)
        assert await read_nominated(scene, "vip") == ["ams"]
        await roll_out(world, "on-ams")
        await is_placed(world, "vip", "ams")
        check_scan(find_decided(scene, "vip"), filtered={"ams"})


@virtual
async def test_Q_34_where_a_nominated_cluster_is_not_feasible_all_are_filtered_and_it_is_given_up(
    tmp_path: Path,
) -> None:
    """The victim's binding is there still."""
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await fill(world, "lon", priority=10)
        await place(world, "vip", cpu=3, priority=100)
        await is_given_up(world, "on-ams")
        await join(world, "dub", cpu="4")
        await is_placed(world, "vip", "dub")
        record = find_decided(scene, "vip")
        assert record.inputs is not None
        assert record.inputs.nominated == ("ams",)
        check_scan(record, filtered={"ams", "dub", "lon"})
        await asyncio.sleep(5)
        assert await read_nominated(scene, "vip") == []


async def hint(scene: Scene, name: str, *clusters: str, minutes: float = 10, **spec: Any) -> None:
    end = write_time(scene.clock.now() + timedelta(minutes=minutes))
    hints = [{"cluster": cluster, "owner": "planner", "expiresAt": end} for cluster in clusters]
    await scene.world.create(OPTIONS, {"metadata": {"name": name}, "spec": {"placementHints": hints, **spec}})


@virtual
async def test_Q_37_a_hint_from_outside_is_tried_first_reserves_nothing_and_ends(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "profiles: [{base: ExtendedProfile}]\n") as scene:
        world = scene.world
        for name in ("ams", "dub", "lon"):
            await join(world, name, cpu="4")
        for name, minutes in (("hinted", 10.0), ("late", -1), ("early", 25 * 60)):
            await hint(scene, name, "nowhere", "lon", minutes=minutes)
            await scene.place(name, ONE)
        await is_placed(world, "hinted", "lon")
        assert find_decided(scene, "hinted").inputs.nominated == ("nowhere", "lon")  # type: ignore[union-attr]
        assert list_filtered(find_decided(scene, "hinted").decision) == {"lon"}  # type: ignore[arg-type]
        for name in ("late", "early"):
            await is_placed(world, name, "ams")
            assert find_decided(scene, name).inputs.nominated == ()  # type: ignore[union-attr]
        await hint(scene, "waiting", "dub", requests={"cpu": "9"})
        await scene.place("waiting", ONE)
        await asyncio.sleep(30)
        assert await read_nominated(scene, "waiting") == []
        await scene.place("other", ONE, requests="cpu=4")
        await is_placed(world, "other", "ams")
        await scene.place("another", ONE, requests="cpu=4")
        await is_placed(world, "another", "dub")


@virtual
async def test_Q_37_what_was_hinted_counts_no_more_when_its_time_is_over(tmp_path: Path) -> None:
    """By the time of the attempt, although the options are the same."""
    async with a_scene(tmp_path, "profiles: [{base: ExtendedProfile}]\n") as scene:
        world = scene.world
        await join(world, "lon", cpu="1")
        await hint(scene, "web", "lon", minutes=2, requests={"cpu": "2"})
        await scene.place("web", ONE)
        await asyncio.sleep(60)
        assert scene.attempts.of("web")[-1].inputs.nominated == ("lon",)  # type: ignore[union-attr]
        await asyncio.sleep(120)
        await join(world, "ams", cpu="4")
        await is_placed(world, "web", "ams")
        assert find_decided(scene, "web").inputs.nominated == ()  # type: ignore[union-attr]
