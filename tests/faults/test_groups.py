"""Placement groups through a running controller: all members are bound, or none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.e2e.hub import soon
from tests.faults.configured import Scene, a_scene
from tests.faults.test_room import ONE, join
from tests.faults.virtual import virtual

GROUPS: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: GangPlacement}, {name: QuotaFit}]}}
- {schedulerName: plain, base: ExtendedProfile}
"""
GROUP: Final = CLUSTER_SCOPED.group
Json = dict[str, Any]


async def a_group(scene: Scene, name: str = "web", **spec: Any) -> None:
    await scene.world.create(GROUP, {"metadata": {"name": name}, "spec": spec})


async def place(scene: Scene, *names: str, group: str = "web", cpu: str = "1", policy: Json = ONE, **more: str) -> None:
    for name in names:
        await scene.place(name, policy, **({"group": group} if group else {}), requests=f"cpu={cpu}", **more)


async def count_bound(scene: Scene) -> int:
    return len(await scene.world.all(CLUSTER_SCOPED.binding))


async def are_bound(scene: Scene, count: int) -> None:
    async def _are_bound() -> bool:
        return await count_bound(scene) == count

    await soon(_are_bound)


async def read_status(scene: Scene, name: str = "web") -> Json:
    status: Json = (await scene.world.get(GROUP, name)).get("status", {})
    return status


async def read_condition(scene: Scene, type: str = "InitiallyScheduled", name: str = "web") -> tuple[str, str, str]:
    conditions = (await read_status(scene, name)).get("conditions", ())
    return next(
        ((each["status"], each["reason"], each["message"]) for each in conditions if each["type"] == type), ("", "", "")
    )


FIVE: Final = ("p1", "p2", "p3", "p4", "p5")


@virtual
async def test_X_18_Q_38_of_five_with_room_for_four_none_is_bound_and_for_five_all_are(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="4")
        await a_group(scene)
        await place(scene, *FIVE)
        await asyncio.sleep(120)
        assert await count_bound(scene) == 0
        assert scene.sample("fleet_room_booked", resource="cpu") in (None, 0)
        assert (await read_condition(scene))[:2] == ("False", "GroupInfeasible")
        await place(scene, "single", group="", cpu="4")
        await are_bound(scene, 1)
        await join(scene.world, "dub", cpu="5")
        await are_bound(scene, 6)
        await soon(lambda: _is_scheduled(scene))
        assert (await read_status(scene))["placed"] == 5


async def _is_scheduled(scene: Scene) -> bool:
    return (await read_condition(scene))[0] == "True"


@virtual
async def test_Q_41_without_the_group_its_members_are_held_until_it_is_created(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="8")
        await place(scene, "p1", "p2")
        await asyncio.sleep(60)
        assert await count_bound(scene) == 0
        assert not scene.attempts.records
        assert scene.sample("fleet_pending_placements", queue="gated") == 2
        await a_group(scene)
        await are_bound(scene, 2)
