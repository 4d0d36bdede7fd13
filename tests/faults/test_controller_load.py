"""Placements by load, in a controller whose measurements do not change while it places."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from fleet.errors import Forbidden
from fleet.explain.answer.answer import build_answer
from fleet.kube.api import Method, Request
from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from tests.e2e.hub import soon
from tests.e2e.world import CONFIG_MAPS, NAMESPACES
from tests.faults.configured import Scene, a_scene
from tests.faults.virtual import virtual

ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
LOADS: Final = {f"c{number}": 5 * number for number in range(10)}
CORES, TARGET, BURST = 20, 70, 100
PROFILES: Final = f"""
feeds:
- name: load
  static: {{{", ".join(f"{name}: {{cpu: {load}}}" for name, load in LOADS.items())}}}
profiles:
- ranking: weighted
  plugins: {{score: {{disabled: [{{name: "*"}}], enabled: [{{name: TargetLoadPacking}}]}}}}
  pluginConfig:
  - {{name: TargetLoadPacking, args: {{feed: load, targetUtilization: {TARGET}}}}}
"""


async def join_all(scene: Scene) -> None:
    for name in LOADS:
        await scene.world.join(name, silent_for=scene.hours_ago(0))
        usage = {"resourceUsage": {"capacity": {"cpu": str(CORES)}}}
        await scene.world.patch(MEMBER_CLUSTERS, name, {"status": usage}, subresource=STATUS)


async def count_bindings(scene: Scene) -> Counter[str]:
    return Counter(each["spec"]["targetCluster"] for each in await scene.world.all(CLUSTER_SCOPED.binding))


@virtual
async def test_T_07_a_burst_is_packed_as_if_every_placement_were_measured(tmp_path: Path) -> None:
    async with a_scene(tmp_path, PROFILES) as scene:
        await join_all(scene)
        async with asyncio.TaskGroup() as group:
            for number in range(BURST):
                group.create_task(scene.place(f"web-{number}", ONE))

        async def is_placed() -> bool:
            return sum((await count_bindings(scene)).values()) == BURST

        await soon(is_placed)
        placed = await count_bindings(scene)
        room = {name: (TARGET - load) * CORES // 100 for name, load in LOADS.items()}
        assert {name: placed[name] - room[name] for name in LOADS if placed[name] - room[name] not in (0, 1)} == {}


@virtual
async def test_T_07_a_binding_that_could_not_be_written_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene(tmp_path, PROFILES) as scene:
        await join_all(scene)
        assert scene.controller.scheduler is not None
        recent, call = scene.controller.scheduler.recent, scene.hub.call
        refused: list[int] = []

        async def refuse(request: Request) -> bytes:
            if request.method is Method.POST and request.path.endswith("/clusterresourcebindings"):
                refused.append(len(recent))
                raise Forbidden("no bindings today")
            return await call(request)

        monkeypatch.setattr(scene.hub, "call", refuse)
        await scene.place("web", ONE)

        async def is_refused() -> bool:
            return bool(refused) and bool(scene.attempts.of("web"))

        await soon(is_refused)
        assert (refused[0], len(recent)) == (1, 0)


@virtual
async def test_T_07_known_requests_count_as_such(tmp_path: Path) -> None:
    """The first one fills the fullest cluster, so that the second one has room on the next one only."""
    async with a_scene(tmp_path, PROFILES) as scene:
        await join_all(scene)
        await scene.place("large", ONE, requests="cpu=3")
        await scene.world.soon_on("large", "c9")
        await scene.place("small", ONE)
        await scene.world.soon_on("small", "c8")


@virtual
async def test_T_07_a_new_policy_is_no_new_load_where_the_placement_stays(tmp_path: Path) -> None:
    async with a_scene(tmp_path, PROFILES) as scene:
        await join_all(scene)
        assert scene.controller.scheduler is not None
        await scene.place("web", ONE)
        await scene.world.soon_on("web", "c9")
        await asyncio.sleep(3600)
        (before,) = scene.attempts.of("web")
        await scene.world.edit_policy("web", tolerations=[{"key": "any", "operator": "Exists"}])

        async def is_decided() -> bool:
            attempts = scene.attempts.of("web")
            return attempts[-1] is not before and bool(attempts[-1].writes)

        await soon(is_decided)
        assert await scene.world.in_use("web") == {"c9"}
        await scene.place("next", ONE)
        await scene.world.soon_scheduled("next")
        assert len(scene.controller.scheduler.recent) == 1


@virtual
async def test_T_04_a_load_that_is_too_old_does_not_count_and_why_says_so(tmp_path: Path) -> None:
    static, _, rest = PROFILES.partition("- name: load\n")[2].partition("\n")
    document = PROFILES.replace(static, "  configMap: {namespace: shop, name: loads}")
    assert rest
    async with a_scene(tmp_path, document) as scene:
        await scene.world.create(NAMESPACES, {"metadata": {"name": "shop"}})
        data = {name: f"{{cpu: {load}}}" for name, load in LOADS.items()}
        await scene.world.create(CONFIG_MAPS, {"metadata": {"name": "loads", "namespace": "shop"}, "data": data})
        await join_all(scene)
        await asyncio.sleep(60)
        await scene.place("fresh", ONE)
        await scene.world.soon_on("fresh", "c9")
        await scene.world.delete(CONFIG_MAPS, "shop/loads")
        await asyncio.sleep(80)
        await scene.place("older", ONE)
        await scene.world.soon_on("older", "c9")
        await asyncio.sleep(60)
        await scene.place("stale", ONE)
        await scene.world.soon_scheduled("stale")
        remarks = {name: find_remark(scene, name, "c9") for name in ("older", "stale")}
        assert remarks["older"][0] == 94
        assert re.fullmatch(
            r"cpu load 45\.0% \(feed load, [78]\ds old\), 1 placed since; 55\.0% with .*", remarks["older"][1]
        )
        assert remarks["stale"][0] == 0
        stale = r"cpu of feed load is 1\d\ds old and counts for 90s; its source: could not be read: .*"
        assert re.fullmatch(stale, remarks["stale"][1])


def find_remark(scene: Scene, key: str, cluster: str) -> tuple[int, str]:
    """Score and remark."""
    attempt = scene.attempts.of(key)[0]
    assert attempt.inputs is not None
    assert attempt.decision is not None
    answer = build_answer(attempt.inputs, attempt.decision, cluster=cluster, everything=False, limit=20)
    (row,) = answer.attempt.clusters
    (score,) = row.scores
    return score.raw, score.remark


@virtual
async def test_T_08_what_was_placed_long_ago_is_forgotten(tmp_path: Path) -> None:
    async with a_scene(tmp_path, PROFILES) as scene:
        await join_all(scene)
        assert scene.controller.scheduler is not None
        recent = scene.controller.scheduler.recent
        sizes = []
        for number in range(40):
            await scene.place(f"web-{number}", ONE)
            await scene.world.soon_scheduled(f"web-{number}")
            if number % 2:
                await scene.world.delete(CLUSTER_SCOPED.placement, f"web-{number}")
            await asyncio.sleep(30)
            sizes.append(len(recent))
        assert 0 < max(sizes) <= (60 + 300) // 30
        await asyncio.sleep(3600)
        await scene.place("last", ONE)
        await scene.world.soon_scheduled("last")
        assert len(recent) == 1
