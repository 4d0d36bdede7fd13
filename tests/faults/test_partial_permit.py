"""A cluster that Permit refuses leaves the others to be bound, where a profile says so: in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.framework.status import Code, Status
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptResult
from tests.e2e.world import World
from tests.faults.acting import Script, a_document, acting_plugins, running
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.recorded import replays
from tests.faults.virtual import virtual

ALL: Final[dict[str, Any]] = {"placementType": "PickAll"}
ENDED: Final = (AttemptResult.DECIDED, AttemptResult.SHORT)
WAIT: Final = (Status.new(Code.WAIT, "ask the owner"), timedelta(seconds=60))
NO: Final = (Status.new(Code.UNSCHEDULABLE, "not here"), timedelta(0))
PARTIAL: Final = a_document(
    "    reserve: {enabled: [{name: First}]}\n    permit: {enabled: [{name: First}]}\n", partialPermit="true"
)


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    with acting_plugins(tmp_path) as script:
        yield script


async def a_fleet(*names: str) -> tuple[HubApi, World]:
    hub = a_hub()
    world = World(hub)
    for name in names:
        await world.join(name)
    return hub, world


async def published(world: World) -> dict[str, bool]:
    snapshot = await world.latest_snapshot("web")
    assert snapshot is not None
    return {each["clusterName"]: each["selected"] for each in snapshot["status"]["targetClusters"]}


@virtual
async def test_F3_111_a_refused_cluster_leaves_the_others_to_be_bound(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub", "osl")
    script.answers["First", "permit"] = lambda on: NO if on == "dub" else None
    async with running(hub, tmp_path / "fleet.yaml", PARTIAL) as site:
        await world.place("web", ALL)
        await world.soon_on("web", "ams", "osl")
        await asyncio.sleep(1)
        record = next(one for one in site.of("web") if one.effects)
        assert "First" in site.scheduler.queue.peek(PlacementKey.parse("web")).rejectors
        assert (await published(world))["dub"] is False
        assert replays(site, record, tmp_path)
        script.answers.clear()
        await world.relabel("dub", tested="yes")
        await world.soon_on("web", "ams", "dub", "osl")


@virtual
async def test_F3_111_time_that_is_over_at_one_cluster_is_not_over_at_the_others(
    script: Script, tmp_path: Path
) -> None:
    hub, world = await a_fleet("ams", "dub", "osl")
    script.answers["First", "permit"] = lambda on: (WAIT[0], timedelta(seconds=20)) if on == "dub" else WAIT
    async with running(hub, tmp_path / "fleet.yaml", PARTIAL) as site:
        await world.place("web", ALL)
        await asyncio.sleep(30)
        (item,) = site.scheduler.parked._list()
        assert item.targets == ("ams", "osl")
        assert "First.unreserve(dub)" in script.journal
        assert await world.bindings("web") == []
        assert item.allow("First")
        await world.soon_on("web", "ams", "osl")
        await asyncio.sleep(1)
        record = next(one for one in site.of("web") if one.decision and one.result in ENDED)
        assert (await published(world))["dub"] is False
        assert replays(site, record, tmp_path)
        waiting = site.scheduler.parked
        assert len(waiting) == len(waiting._by_cluster) == 0
    refused = [(one.target, one.status.reasons) for one in record.effects if one.status.code is Code.UNSCHEDULABLE]
    assert refused == [("dub", ("rejected due to timeout after waiting 20s at plugin First",))]
    assert script.journal.count("First.unreserve(dub)") == 1
    assert not {"First.unreserve(ams)", "First.unreserve(osl)"} & set(script.journal)


@virtual
async def test_F3_111_no_cluster_takes_the_place_of_a_refused_one_unasked(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub", "osl", "par")
    script.answers["First", "permit"] = WAIT
    async with running(hub, tmp_path / "fleet.yaml", PARTIAL) as site:
        await world.place("web", {"placementType": "PickN", "numberOfClusters": 2})
        await asyncio.sleep(20)
        (item,) = site.scheduler.parked._list()
        kept, refused = item.targets
        assert item.reject("First", "full", refused)
        assert item.reject("First", "again", refused) is False
        assert item.allow("First", kept)
        await world.soon_on("web", kept)
        await asyncio.sleep(1)
        record = next(one for one in site.of("web") if one.decision and one.result in ENDED)
        assert {name for name, is_selected in (await published(world)).items() if is_selected} == {kept}
        assert replays(site, record, tmp_path)


@pytest.mark.parametrize("target", ["*", "ams"])
@virtual
async def test_F3_111_the_last_cluster_is_refused_with_its_placement(
    script: Script, tmp_path: Path, target: str
) -> None:
    hub, world = await a_fleet("ams")
    script.answers["First", "permit"] = WAIT
    async with running(hub, tmp_path / "fleet.yaml", PARTIAL) as site:
        await world.place("web", ALL)
        await asyncio.sleep(20)
        uid = str((await world.placement("web"))["metadata"]["uid"])
        assert script.handles["First"].reject_waiting(uid, "First", "full", target)
        await asyncio.sleep(1)
        record = site.of("web")[-1]
        assert await world.bindings("web") == []
    assert (record.result, record.failure) == (AttemptResult.REJECTED, "First at permit of cluster ams: full")
    assert script.journal[-1] == "First.unreserve(ams)"


@virtual
async def test_F3_111_a_refusal_before_the_wait_is_not_lost(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub")

    async def think() -> Any:
        await asyncio.sleep(5)
        uid = str((await world.placement("web"))["metadata"]["uid"])
        assert script.handles["First"].reject_waiting(uid, "First", "full", "ams")
        return WAIT

    script.answers["First", "permit"] = lambda on: think() if on == "dub" else WAIT
    async with running(hub, tmp_path / "fleet.yaml", PARTIAL) as site:
        await world.place("web", ALL)
        await asyncio.sleep(20)
        (item,) = site.scheduler.parked._list()
        assert item.targets == ("dub",)
        assert item.allow("First")
        await world.soon_on("web", "dub")


@virtual
async def test_a_cluster_that_was_left_out_may_leave_the_fleet(script: Script, tmp_path: Path) -> None:
    hub, world = await a_fleet("ams", "dub")
    script.answers["First", "permit"] = WAIT
    async with running(hub, tmp_path / "fleet.yaml", PARTIAL) as site:
        await world.place("web", ALL)
        await asyncio.sleep(20)
        (item,) = site.scheduler.parked._list()
        assert item.reject("First", "full", "ams")
        await world.delete(MEMBER_CLUSTERS, "ams")
        await asyncio.sleep(1)
        assert item.allow("First")
        await world.soon_on("web", "dub")
