"""What options say beside requests, through a running controller: data that is there, a least number of clusters."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from tests.e2e.hub import soon
from tests.faults.configured import Scene, a_scene
from tests.faults.virtual import virtual

EXTENDED: Final = "profiles: [{base: ExtendedProfile}]\n"


def pick(number: int) -> dict[str, Any]:
    return {"placementType": "PickN", "numberOfClusters": number}


async def say(scene: Scene, name: str, **spec: Any) -> None:
    await scene.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": name}, "spec": spec})


async def _is_on(scene: Scene, placement: str, *clusters: str) -> bool:
    return await scene.world.in_use(placement) == set(clusters)


async def _has_failed(scene: Scene, placement: str) -> bool:
    return any(record.decision is not None for record in scene.attempts.of(placement))


# --- data that is there -----------------------------------------------------------------------------------------------


async def join_with_data(scene: Scene, name: str, **present: str) -> None:
    await scene.world.join(name)
    properties = {
        f"locality.fleet.dev/{data_set}": {"value": size, "observationTime": "2026-03-10T09:00:00Z"}
        for data_set, size in present.items()
    }
    await scene.world.patch(MEMBER_CLUSTERS, name, {"status": {"properties": properties}}, subresource=STATUS)


@virtual
async def test_X_17_a_placement_goes_where_its_data_is_and_its_options_win(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EXTENDED) as scene:
        await join_with_data(scene, "ams")
        await join_with_data(scene, "dub", models="40Gi")
        await join_with_data(scene, "lon", base="10Gi")
        await scene.place("annotated", pick(1), locality="base=10Gi")
        await say(scene, "chosen", locality=[{"name": "models", "bytes": "40Gi"}])
        await scene.place("chosen", pick(1), locality="base=10Gi")
        await scene.place("plain", pick(1))
        await soon(lambda: _is_on(scene, "annotated", "lon"))
        await soon(lambda: _is_on(scene, "chosen", "dub"))
        await soon(lambda: _is_on(scene, "plain", "ams"))


# --- the least number of clusters -------------------------------------------------------------------------------------


@virtual
async def test_Q_43_L_02_nothing_is_bound_below_min_targets(tmp_path: Path) -> None:
    """By the default profile, which has no round of its own for each pick."""
    async with a_scene(tmp_path) as scene:
        for name in ("ams", "dub"):
            await scene.world.join(name)
        await say(scene, "all", minTargets=3)
        await scene.place("all", pick(3))
        await scene.place("most", pick(3), min_targets="2")
        await soon(lambda: _is_on(scene, "most", "ams", "dub"))
        await soon(lambda: _has_failed(scene, "all"))
        await asyncio.sleep(60)
        assert await _is_on(scene, "all")
        assert [record.decision.outcome.value for record in scene.attempts.of("most") if record.decision] == ["Partial"]
        await scene.world.join("lon")
        await soon(lambda: _is_on(scene, "all", "ams", "dub", "lon"))
        await soon(lambda: _is_on(scene, "most", "ams", "dub", "lon"))


@virtual
async def test_Q_43_min_targets_holds_across_the_rounds_of_spread_constraints(tmp_path: Path) -> None:
    """One pick a round under weighted ranking: what earlier rounds picked is not bound either."""
    spread = [{"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
    async with a_scene(tmp_path, EXTENDED) as scene:
        for name, region in (("ams", "eu"), ("dub", "eu"), ("nyc", "us")):
            await scene.world.join(name, labels={"region": region})
        await scene.world.taint("dub", {"key": "full", "effect": "NoSchedule"})
        await scene.place("all", {**pick(4), "topologySpreadConstraints": spread}, min_targets="3")
        await soon(lambda: _has_failed(scene, "all"))
        await asyncio.sleep(60)
        assert await _is_on(scene, "all")
        await scene.annotate("all", min_targets="2")
        await soon(lambda: _is_on(scene, "all", "ams", "nyc"))


@virtual
async def test_Q_43_more_min_targets_than_clusters_wanted_are_refused_with_the_numbers(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams")
        await scene.place("web", pick(1), min_targets="2")
        await scene.place("odd", pick(1), min_targets="some")
        await soon(lambda: _has_ended(scene, "web", "odd"))
        assert "1 is less than the 2 clusters of minTargets: lower that" in scene.attempts.of("web")[-1].failure
        assert "'some' is not a whole number of 1 or more" in scene.attempts.of("odd")[-1].failure
        await scene.annotate("web", min_targets="1")
        await soon(lambda: _is_on(scene, "web", "ams"))


async def _has_ended(scene: Scene, *placements: str) -> bool:
    return all(scene.attempts.of(placement) for placement in placements)
