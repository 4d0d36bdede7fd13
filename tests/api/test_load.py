"""Placements by load: what the API says of them, and what replays of them decide."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.settings.loading import load_settings
from tests.api import stage as stage_of_api
from tests.api.stage import Stage, a_stage
from tests.api.test_profiles import place, write
from tests.e2e import world
from tests.e2e.hub import soon
from tests.e2e.world import EVENTS
from tests.prometheus import RunningPrometheus, a_prometheus

LOADS = """
feeds:
- name: load
  static: {ams-1: {cpu: 40}, ams-2: {cpu: 30}, dub-1: {cpu: 20}}
profiles:
- schedulerName: DefaultScheduler
- schedulerName: packed
  base: ExtendedProfile
  plugins:
    score: {enabled: [{name: TargetLoadPacking, weight: 10}]}
  pluginConfig:
  - {name: TargetLoadPacking, args: {feed: load, targetUtilization: 44, defaultRequests: {cpu: 100m}}}
"""


def test_F3_137_scores_by_load_are_explained_and_replayed_with_the_numbers_of_their_attempt(tmp_path: Path) -> None:
    """The stage has placed two things on ams-1 before."""
    (tmp_path / "document").mkdir()

    async def main() -> None:
        async with a_stage(tmp_path, file=write(tmp_path / "document", LOADS)) as stage:
            for name in ("ams-1", "ams-2", "dub-1"):
                usage = {"resourceUsage": {"capacity": {"cpu": "10"}}}
                await stage.world.patch(MEMBER_CLUSTERS, name, {"status": usage}, subresource=STATUS)
            for name, cluster in (("first", "ams-1"), ("second", "ams-1"), ("third", "ams-2")):
                await place(stage, name, "packed", placementType="PickN", numberOfClusters=1)
                await stage.world.soon_on(name, cluster)
            await stage.wait_until_recorded()
            why = await stage.json("/v1/placements/-/second/why?cluster=ams-1")
            (row,) = why["attempt"]["clusters"]
            (score,) = [each for each in row["scores"] if each["plugin"] == "TargetLoadPacking"]
            assert (score["raw"], score["final"]) == (100, 1000)
            assert score["remark"].endswith(", 3 placed since; 44.0% with this placement, target 44%")
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["different"], report["skipped"]) == (report["attempts"], [], [])

    asyncio.run(main())


LOAD_PLUGINS = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "Peaks")
ALL_PLUGINS = f"""
feeds:
- name: load
  static: {{ams-1: {{cpu: 40, cpuDeviation: 9}}, ams-2: {{cpu: 30, cpuDeviation: 2}}, dub-1: {{cpu: 20}}}}
profiles:
- schedulerName: DefaultScheduler
- schedulerName: packed
  base: ExtendedProfile
  plugins: {{score: {{enabled: [{", ".join(f"{{name: {name}}}" for name in LOAD_PLUGINS)}]}}}}
  pluginConfig: [{", ".join(f"{{name: {name}, args: {{feed: load}}}}" for name in LOAD_PLUGINS)}]
"""


def test_T_14_scores_of_all_load_plugins_are_replayed_from_the_recorded_feeds(tmp_path: Path) -> None:
    (tmp_path / "document").mkdir()

    async def main() -> None:
        async with a_stage(tmp_path, file=write(tmp_path / "document", ALL_PLUGINS)) as stage:
            for name in ("ams-1", "ams-2", "dub-1"):
                usage = {"resourceUsage": {"capacity": {"cpu": "10"}}}
                await stage.world.patch(MEMBER_CLUSTERS, name, {"status": usage}, subresource=STATUS)
            for name in ("first", "second", "third"):
                await place(stage, name, "packed", placementType="PickN", numberOfClusters=2)
                await stage.world.soon_scheduled(name)
            await stage.wait_until_recorded()
            why = await stage.json("/v1/placements/-/third/why?cluster=dub-1")
            (row,) = why["attempt"]["clusters"]
            remarks = {each["plugin"]: each["remark"] for each in row["scores"] if each["plugin"] in LOAD_PLUGINS}
            assert all(remarks[name] for name in LOAD_PLUGINS)
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["different"], report["skipped"]) == (report["attempts"], [], [])

    asyncio.run(main())


TOKEN = "hush-hush-hush"
QUERY = "100 * avg by (cluster) (load)"


def test_F3_137_an_expired_token_is_named_where_the_load_is_missing_and_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "document").mkdir()

    def load(file: Path, environ: object, *given: Any, **more: Any) -> Any:
        del environ
        return load_settings(file, {"LOAD_TOKEN": TOKEN}, *given, **more)

    for module in (world, stage_of_api):
        monkeypatch.setattr(module, "load_settings", load)

    async def wait_for_note(stage: Stage, text: str) -> None:
        async def look() -> bool:
            items = (await stage.json("/v1/config"))["items"]
            (sample,) = [item for item in items if item["name"] == "feeds[0].sample"]
            return text in sample["note"] if text else bool(sample["value"]) and not sample["note"]

        await soon(look)

    async def ask(stage: Stage, name: str) -> tuple[int, str]:
        await stage.wait_until_recorded()
        why = await stage.json(f"/v1/placements/-/{name}/why?cluster=ams-1")
        (row,) = why["attempt"]["clusters"]
        (score,) = [each for each in row["scores"] if each["plugin"] == "TargetLoadPacking"]
        return score["raw"], score["remark"]

    async def main(prometheus: RunningPrometheus) -> None:
        http = {
            "url": prometheus.url,
            "format": "prometheusQuery",
            "columns": {"cpu": QUERY},
            "bearerToken": "${LOAD_TOKEN}",
            "tlsConfig": {"caFile": str(prometheus.authority)},
        }
        text = LOADS.replace(
            "static: {ams-1: {cpu: 40}, ams-2: {cpu: 30}, dub-1: {cpu: 20}}", f"http: {json.dumps(http)}"
        )
        text = text.replace("- name: load\n", "- name: load\n  intervalSeconds: 1\n  maxAgeSeconds: 30\n")
        text = f"substitution: {{fromEnv: [LOAD_TOKEN]}}\n{text}"
        async with a_stage(tmp_path, file=write(tmp_path / "document", text)) as stage:
            usage = {"resourceUsage": {"capacity": {"cpu": "10"}}}
            await stage.world.patch(MEMBER_CLUSTERS, "ams-1", {"status": usage}, subresource=STATUS)
            await wait_for_note(stage, "the token may have expired")
            await place(stage, "first", "packed", placementType="PickN", numberOfClusters=4)
            await stage.world.soon_scheduled("first")
            refused = "its source: answered 401 no good: Bearer ***: the token may have expired"
            assert await ask(stage, "first") == (0, f"feed load has no cpu for this cluster; {refused}")

            prometheus.token = TOKEN
            await wait_for_note(stage, "")
            await place(stage, "second", "packed", placementType="PickN", numberOfClusters=4)
            await stage.world.soon_scheduled("second")
            score, remark = await ask(stage, "second")
            assert score > 0
            assert remark.startswith("cpu load 12.5% (feed load, ")
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["different"], report["skipped"]) == (report["attempts"], [], [])
            config = await stage.json("/v1/config")
            objects = [
                await stage.world.all(kind) for kind in (EVENTS, CLUSTER_SCOPED.placement, CLUSTER_SCOPED.binding)
            ]
            objects += [await stage.world.all(CLUSTER_SCOPED.policy_snapshot), [config]]
            assert TOKEN not in json.dumps(objects)

    with a_prometheus(tmp_path, "another") as prometheus:
        prometheus.vectors[QUERY] = {"ams-1": 12.5}
        asyncio.run(main(prometheus))
        assert QUERY in prometheus.asked
    shown = capsys.readouterr()
    assert "the token may have expired" in shown.out + shown.err
    assert TOKEN not in shown.out + shown.err
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()
