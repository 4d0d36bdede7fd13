"""Preemption through a running controller: who leaves, when the room is taken, and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import PARENT_PLACEMENT
from tests.e2e.hub import soon
from tests.faults.configured import Scene, a_scene
from tests.faults.test_room import ONE, join, list_bound
from tests.faults.virtual import virtual

EVICTING: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: DefaultPreemption}]}}
"""
OPTIONS: Final = CLUSTER_SCOPED.options


async def place(scene: Scene, name: str, *, cpu: int, priority: int = 0, policy: Any = ONE, **spec: Any) -> None:
    """With options of its own."""
    options = {"metadata": {"name": name}, "spec": {"priority": priority, "requests": {"cpu": str(cpu)}, **spec}}
    await scene.world.create(OPTIONS, options)
    await scene.place(name, policy)


async def find_bindings(scene: Scene, placement: str) -> list[dict[str, Any]]:
    bindings = await scene.world.all(CLUSTER_SCOPED.binding)
    return [each for each in bindings if each["metadata"]["labels"][PARENT_PLACEMENT] == placement]


async def list_states(scene: Scene, placement: str) -> list[str]:
    return [binding["spec"]["state"] for binding in await find_bindings(scene, placement)]


async def is_given_up(scene: Scene, placement: str) -> bool:
    return await list_states(scene, placement) == ["Unscheduled"]


async def is_bound(scene: Scene, placement: str) -> bool:
    return "Scheduled" in await list_states(scene, placement)


async def roll_out(scene: Scene, placement: str) -> None:
    """What KubeFleet does with bindings that were given up: it deletes them."""
    for binding in await find_bindings(scene, placement):
        if binding["spec"]["state"] == "Unscheduled":
            await scene.world.delete(CLUSTER_SCOPED.binding, binding["metadata"]["name"])


async def read_preemptions(scene: Scene, name: str) -> list[dict[str, Any]]:
    options = await scene.world.get(OPTIONS, name)
    return [dict(each) for each in (options or {}).get("status", {}).get("preemptions", ())]


async def fill(scene: Scene, clusters: Iterable[str] = ("ams",), *, priority: int = 0) -> None:
    """A cluster, with one placement that takes all of it."""
    for name in clusters:
        await join(scene.world, name, cpu="4")
        await place(scene, f"on-{name}", cpu=4, priority=priority)
        await soon(lambda name=name: is_bound(scene, f"on-{name}"))


# --- the whole way ----------------------------------------------------------------------------------------------------


@virtual
async def test_room_is_made_and_taken_only_when_the_victims_object_is_gone(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        await fill(scene)
        await place(scene, "vip", cpu=3, priority=100)
        await soon(lambda: is_given_up(scene, "on-ams"))
        await asyncio.sleep(60)
        assert await find_bindings(scene, "vip") == []
        (preemption,) = await read_preemptions(scene, "vip")
        assert (preemption["cluster"], preemption["phase"], preemption["victims"]) == ("ams", "Evicting", ["on-ams"])
        await roll_out(scene, "on-ams")
        await soon(lambda: is_bound(scene, "vip"))
        await asyncio.sleep(60)
        assert await list_bound(scene) == {"vip": "ams"}
        assert await read_preemptions(scene, "vip") == []
