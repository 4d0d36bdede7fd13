"""Events and deletions under profiles of a document: whatever a profile judges by wakes its placements."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.e2e.hub import soon
from tests.faults.configured import a_scene
from tests.faults.virtual import virtual

ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
PATIENT: Final = """\
profiles:
- pluginConfig:
  - {name: ClusterEligibility, args: {heartbeatTimeout: 100h}}
"""
CARELESS: Final = """\
profiles:
- plugins: {filter: {disabled: [{name: ClusterEligibility}]}}
"""


@virtual
async def test_a_cluster_becomes_eligible_by_the_arguments_of_the_profile(tmp_path: Path) -> None:
    async with a_scene(tmp_path, PATIENT) as scene:
        await scene.world.join("late", silent_for=scene.hours_ago(50), joined="False")
        await scene.place("web", ONE)
        await scene.world.soon_scheduled("web", status="False")
        await scene.world.report("late", silent_for=scene.hours_ago(50))
        await scene.world.soon_on("web", "late")


@virtual
@pytest.mark.parametrize("profiles", [PATIENT, CARELESS], ids=["longer time-out", "not filtered"])
async def test_a_cluster_joins_that_only_this_profile_takes(tmp_path: Path, profiles: str) -> None:
    async with a_scene(tmp_path, profiles) as scene:
        await scene.place("web", ONE)
        await scene.world.soon_scheduled("web", status="False")
        await scene.world.join("late", silent_for=scene.hours_ago(50))
        await scene.world.soon_on("web", "late")


@virtual
async def test_a_placement_that_was_handed_to_another_scheduler_is_cleaned_up_after(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.world.join("ams", silent_for=scene.hours_ago(0))
        await scene.place("web", ONE)
        await scene.world.soon_on("web", "ams")
        await scene.annotate("web", scheduler_name="nobody")
        await scene.world.delete(CLUSTER_SCOPED.placement, "web")

        async def is_gone() -> bool:
            return await scene.world.find(CLUSTER_SCOPED.placement, "web") is None

        await soon(is_gone)
        assert await scene.world.bindings("web") == []
