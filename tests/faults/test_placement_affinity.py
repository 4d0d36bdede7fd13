"""Placements near to others and away from them, through a running controller."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING
from tests.faults.configured import Scene, a_scene
from tests.faults.test_room import ONE, within
from tests.faults.virtual import virtual

EXTENDED: Final = """
profiles:
- {schedulerName: DefaultScheduler, base: ExtendedProfile}
- {schedulerName: second, base: ExtendedProfile}
"""
REGIONS: Final = {"ams": "eu", "dub": "eu", "nyc": "us", "sfo": "us"}


def term(app: str, key: str = "region", **more: Any) -> dict[str, Any]:
    return {"placements": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


@asynccontextmanager
async def a_fleet(folder: Path, profiles: str = EXTENDED, *, after: Scene | None = None) -> AsyncIterator[Scene]:
    async with a_scene(folder, profiles, after=after) as scene:
        if after is None:
            for name, region in REGIONS.items():
                await scene.world.join(name, labels={"region": region, "name": name})
        yield scene


async def place(
    scene: Scene, name: str, app: str, *required: dict[str, Any], policy: dict[str, Any] = ONE, scheduler: str = ""
) -> None:
    annotations = {"scheduler-name": scheduler} if scheduler else {}
    if required:
        annotations["affinity"] = json.dumps({"required": required})
    given = {f"scheduling.fleet.dev/{key}": text for key, text in annotations.items()}
    metadata = {"name": name, "labels": {"app": app}, "annotations": given}
    spec = {"resourceSelectors": [ANYTHING], "policy": policy}
    await scene.world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})


async def find_places(scene: Scene, *names: str) -> dict[str, str]:
    """The cluster of each that has one."""
    in_use = {name: await scene.world.in_use(name) for name in names}
    return {name: cluster for name, (cluster,) in ((name, used or {""}) for name, used in in_use.items()) if cluster}


async def _is_on(scene: Scene, placement: str, *clusters: str) -> bool:
    return await scene.world.in_use(placement) <= set(clusters) and bool(await scene.world.in_use(placement))


async def _waits(scene: Scene, placement: str) -> bool:
    return any(record.decision is not None for record in scene.attempts.of(placement))


def count_attempts(scene: Scene, *names: str) -> list[int]:
    return [len(scene.attempts.of(name)) for name in names]


SOLOS: Final = tuple(f"solo{number:02}" for number in range(20))


@virtual
async def test_X_16_of_a_burst_that_keeps_apart_one_is_placed_in_each_region(tmp_path: Path) -> None:
    """Two profiles decide them, before any binding is seen, and after a restart."""
    async with a_fleet(tmp_path) as scene:
        for number, name in enumerate(SOLOS):
            await place(scene, name, "solo", term("solo", anti=True), scheduler="second" if number % 2 else "")
        await asyncio.sleep(600)
        placed = await find_places(scene, *SOLOS)
        assert Counter(REGIONS[cluster] for cluster in placed.values()) == {"eu": 1, "us": 1}
    async with a_fleet(tmp_path, after=scene) as again:
        await asyncio.sleep(600)
        assert await find_places(again, *SOLOS) == placed
        gone, left = sorted(placed)
        await again.world.delete(CLUSTER_SCOPED.placement, gone)
        await asyncio.sleep(60)
        now = await find_places(again, *(name for name in SOLOS if name != gone))
        assert Counter(REGIONS[cluster] for cluster in now.values()) == {"eu": 1, "us": 1}
        assert now[left] == placed[left]


@virtual
async def test_X_16_a_placement_that_appears_wakes_those_that_belong_with_it_and_no_others(tmp_path: Path) -> None:
    async with a_fleet(tmp_path) as scene:
        await place(scene, "web", "web", term("db"))
        await place(scene, "other", "other", term("queue"))
        await soon(lambda: _waits(scene, "other"))
        await asyncio.sleep(60)
        (before,) = count_attempts(scene, "other")
        await place(scene, "db", "db")
        await soon(lambda: _is_on(scene, "web", "ams", "dub"))
        await asyncio.sleep(60)
        assert count_attempts(scene, "other") == [before]
        assert scene.attempts.of("web")[-1].triggers == ("Resident/Add db",)


@virtual
async def test_X_16_required_terms_of_those_already_placed_keep_newcomers_away(tmp_path: Path) -> None:
    """Until the labels of the newcomer change, a cluster leaves the domain, or the others say so no more."""
    apart = {"required": [term("noisy", "", anti=True), term("noisy", anti=True)]}
    async with a_fleet(tmp_path) as scene:
        for region, cluster in (("eu", "ams"), ("us", "nyc")):
            name = f"quiet-{region}"
            await scene.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": name}, "spec": {"affinity": apart}})
            await place(scene, name, "quiet", policy=within(region=region))
            await soon(lambda name=name, cluster=cluster: _is_on(scene, name, cluster))
        noisy = {"anywhere": ONE, "in-dub": within(name="dub"), "in-us": within(region="us")}
        for name, policy in noisy.items():
            await place(scene, name, "noisy", policy=policy)
        await soon(lambda: _waits(scene, "in-us"))
        await asyncio.sleep(60)
        assert await find_places(scene, *noisy) == {}
        await scene.world.patch(CLUSTER_SCOPED.placement, "anywhere", {"metadata": {"labels": {"app": "calm"}}})
        await soon(lambda: _is_on(scene, "anywhere", "ams"))
        await scene.world.relabel("dub", region="asia")
        await soon(lambda: _is_on(scene, "in-dub", "dub"))
        await asyncio.sleep(60)
        assert not await find_places(scene, "in-us")
        await scene.world.patch(CLUSTER_SCOPED.options, "quiet-us", {"spec": {"affinity": None}})
        await soon(lambda: _is_on(scene, "in-us", "nyc"))


@virtual
async def test_X_16_what_came_after_an_attempt_counts_when_a_cluster_moves(tmp_path: Path) -> None:
    """Whether a change of a cluster helps is judged by the placements there are, not by those of the last attempt."""
    async with a_fleet(tmp_path) as scene:
        await scene.world.taint("dub", {"key": "full", "effect": "NoSchedule"})
        await place(scene, "noisy", "noisy", policy=within(name="dub"))
        await soon(lambda: _waits(scene, "noisy"))
        await place(scene, "quiet", "quiet", term("noisy", anti=True), policy=within(name="ams"))
        await soon(lambda: _is_on(scene, "quiet", "ams"))
        await scene.world.taint("dub")
        await asyncio.sleep(60)
        assert not await find_places(scene, "noisy")
        await scene.world.relabel("dub", region="asia")
        await soon(lambda: _is_on(scene, "noisy", "dub"))


@virtual
async def test_X_16_a_placement_is_not_taken_from_the_clusters_it_is_on(tmp_path: Path) -> None:
    async with a_fleet(tmp_path) as scene:
        await place(scene, "web", "web", policy={"placementType": "PickAll"})
        await scene.world.soon_on("web", *REGIONS)
        await scene.annotate("web", affinity=json.dumps({"required": [term("absent"), term("web", anti=True)]}))
        await scene.world.edit_policy("web", tolerations=[{"key": "new", "operator": "Exists"}])
        await scene.world.join("fra", labels={"region": "eu"})
        await asyncio.sleep(60)
        assert await scene.world.in_use("web") == set(REGIONS)


@virtual
async def test_X_16_the_default_profile_looks_at_no_other_placement(tmp_path: Path) -> None:
    profiles = "profiles: [{schedulerName: DefaultScheduler}, {schedulerName: second, base: ExtendedProfile}]\n"
    async with a_fleet(tmp_path, profiles) as scene:
        await place(scene, "first", "solo", term("solo", anti=True))
        await soon(lambda: _is_on(scene, "first", *REGIONS))
        await place(scene, "plain", "solo", term("solo", anti=True), policy={"placementType": "PickAll"})
        await scene.world.soon_on("plain", *REGIONS)
        await asyncio.sleep(1)
        await place(scene, "apart", "solo", term("solo", anti=True), policy=within(region="eu"), scheduler="second")
        await soon(lambda: _waits(scene, "apart"))
        requests = {name: scene.attempts.of(name)[-1].inputs for name in ("plain", "apart")}
        labels = {name: inputs and dict(inputs.request.labels) for name, inputs in requests.items()}
        assert labels == {"plain": {}, "apart": {"app": "solo"}}
        assert not await find_places(scene, "apart")
