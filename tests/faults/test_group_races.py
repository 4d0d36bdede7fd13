"""Races of groups for the same room: whole groups are bound, in one domain where they ask for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.conftest import LONG
from tests.faults.configured import Scene, a_scene
from tests.faults.test_groups import GROUPS, a_group, place
from tests.faults.test_room import join, list_bound_by, within
from tests.faults.virtual import virtual

RACES: Final = 25 if LONG else 10
SEEDS: Final = 40 if LONG else 3
"""1,000 races in the long form."""
pytestmark = pytest.mark.timeout(600)


async def begin(scene: Scene, rng: Random, race: str) -> None:
    """Two groups, of which both fit at most, on clusters of their own."""
    for number in range(3):
        name = f"{race}-c{number}"
        await join(scene.world, name, cpu=str(rng.randint(1, 3)))
        await scene.world.relabel(name, race=race, region=rng.choice("ab"))
    spec: dict[str, Any] = {"topologyKey": "region"} if rng.random() < 0.5 else {}
    members = [f"{race}-{side}-{number}" for side in "xy" for number in range(rng.randint(2, 3))]
    rng.shuffle(members)
    groups = [f"{race}-x", f"{race}-y"]
    sizes = Counter(member.rpartition("-")[0] for member in members)
    comes_first = rng.random() < 0.5
    for group in groups if comes_first else ():
        await a_group(scene, group, minCount=sizes[group], **spec)
    for member in members:
        await place(
            scene, member, group=member.rpartition("-")[0], policy=within(race=race), cpu=str(rng.randint(1, 2))
        )
        await asyncio.sleep(rng.choice((0, 0, 0.2)))
    for group in () if comes_first else groups:
        await a_group(scene, group, **({"minCount": sizes[group]} if rng.random() < 0.5 else {}), **spec)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_Q_40_X_19_of_two_groups_in_a_race_none_is_bound_in_half_or_in_two_domains(tmp_path: Path, seed: int) -> None:
    virtual(_race)(tmp_path, seed)


async def _race(folder: Path, seed: int) -> None:
    rng = Random(seed)
    async with a_scene(folder, GROUPS) as scene:
        for number in range(RACES):
            await begin(scene, rng, f"r{number}")
        await asyncio.sleep(60)
        bound = await list_bound_by(scene.world)
        members = [each["metadata"]["name"] for each in await scene.world.all(CLUSTER_SCOPED.placement)]
        sizes = Counter(name.rpartition("-")[0] for name in members)
        placed = Counter(name.rpartition("-")[0] for name in bound)
        assert {group: count for group, count in placed.items() if count != sizes[group]} == {}
        assert 0 < len(placed) < len(sizes)
        clusters = {
            each.metadata.name: each.metadata.labels or {} for each in scene.controller.caches.clusters.values()
        }
        for group in await scene.world.all(CLUSTER_SCOPED.group):
            name = group["metadata"]["name"]
            regions = {clusters[on]["region"] for member, on in bound.items() if member.startswith(f"{name}-")}
            assert len(regions) <= 1 or "topologyKey" not in group["spec"], name
