"""Metrics servers and SignalFx as sources of loads, asked over TLS with a token that expires."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.settings.document.feeds import FeedDocument
from fleet.settings.loading import load_settings
from tests.api import stage as stage_of_api
from tests.api.stage import Stage, a_stage
from tests.api.test_profiles import place, write
from tests.e2e import world
from tests.e2e.hub import soon
from tests.e2e.world import EVENTS
from tests.prometheus import RunningPrometheus, a_prometheus

TOKEN: Final = "hush-hush-hush"
ANY: Final = {"placementType": "PickN", "numberOfClusters": 4}


def node(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": {"capacity": {"cpu": cpu, "memory": "8Gi"}}}


def usage(name: str, cpu: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": "1Gi"}}


def series(name: str, cluster: str) -> dict[str, Any]:
    return {"id": name, "metric": "cpu.utilization", "dimensions": {"cluster": cluster}}


METRICS_SERVER: Final[dict[str, object]] = {
    "/api/v1/nodes": {"items": [node("n1", "4"), node("n2", "4"), node("n3", "100", unschedulable=True)]},
    "/apis/metrics.k8s.io/v1beta1/nodes": {"items": [usage("n1", "1500000u"), usage("n2", "500m"), usage("n3", "90")]},
}
"""2 of 8 cores."""
SIGNAL_FX: Final[dict[str, object]] = {
    "/v2/metrictimeseries": {"results": [series("A", "ams-1"), series("B", "ams-1"), series("C", "dub-1")]},
    "/v1/timeserieswindow": {"data": {"A": [[1, 90], [2, 20]], "B": [[2, 30]], "C": [[1, 4]]}, "errors": []},
}
"""The mean of 20 and 30 at last."""


def describe(kind: str, service: RunningPrometheus) -> dict[str, Any]:
    access = {"token": "${LOAD_TOKEN}", "tlsConfig": {"caFile": str(service.authority)}}
    if kind == "SignalFx":
        return {"type": kind, "address": service.url, **access}
    unreachable = "https://localhost:1"
    return {"type": kind, "addresses": {"ams-1": service.url, "ams-2": unreachable}, **access}


def write_profiles(provider: dict[str, Any]) -> str:
    args = {"targetUtilization": 44, "defaultRequests": {"cpu": "100m"}, "metricProvider": provider}
    return f"""
substitution: {{fromEnv: [LOAD_TOKEN]}}
profiles:
- schedulerName: DefaultScheduler
- schedulerName: packed
  base: ExtendedProfile
  plugins:
    score: {{enabled: [{{name: TargetLoadPacking, weight: 10}}]}}
  pluginConfig:
  - {{name: TargetLoadPacking, args: {json.dumps(args)}}}
"""


@pytest.mark.parametrize("kind", ["KubernetesMetricsServer", "SignalFx"])
def test_T_05_an_expired_token_leaves_no_load_and_is_named_and_shown_nowhere(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "document").mkdir()

    def load(file: Path, environ: object, *given: Any, **more: Any) -> Any:
        del environ
        return load_settings(file, {"LOAD_TOKEN": TOKEN}, *given, **more)

    for module in (world, stage_of_api):
        monkeypatch.setattr(module, "load_settings", load)
    monkeypatch.setattr("fleet.settings.document.load_providers.FeedDocument", partial(FeedDocument, interval=1))

    async def read_sample(stage: Stage) -> Any:
        items = (await stage.json("/v1/config"))["items"]
        (sample,) = [item for item in items if item["name"].endswith(".sample")]
        return sample

    async def ask(stage: Stage, name: str, cluster: str) -> tuple[int, str]:
        await stage.wait_until_recorded()
        why = await stage.json(f"/v1/placements/-/{name}/why?cluster={cluster}")
        (row,) = why["attempt"]["clusters"]
        (score,) = [each for each in row["scores"] if each["plugin"] == "TargetLoadPacking"]
        return score["raw"], score["remark"]

    async def main(service: RunningPrometheus) -> None:
        async with a_stage(
            tmp_path, file=write(tmp_path / "document", write_profiles(describe(kind, service)))
        ) as stage:
            for name in ("ams-1", "ams-2"):
                capacity = {"resourceUsage": {"capacity": {"cpu": "10"}}}
                await stage.world.patch(MEMBER_CLUSTERS, name, {"status": capacity}, subresource=STATUS)

            async def is_refused() -> bool:
                return "the token may have expired" in (await read_sample(stage))["note"]

            async def is_read() -> bool:
                return "expired" not in (await read_sample(stage))["note"]

            await soon(is_refused)
            await place(stage, "first", "packed", **ANY)
            await stage.world.soon_scheduled("first")
            score, remark = await ask(stage, "first", "ams-1")
            assert score == 0
            assert remark.startswith("feed packed.TargetLoadPacking has no cpu for this cluster; its source: ")
            assert "answered 401 no good: " in remark
            assert "the token may have expired" in remark

            service.token = TOKEN
            await soon(is_read)
            await place(stage, "second", "packed", **ANY)
            await stage.world.soon_scheduled("second")
            score, remark = await ask(stage, "second", "ams-1")
            assert score > 0
            assert remark.startswith("cpu load 25.0% (feed packed.TargetLoadPacking, ")
            score, remark = await ask(stage, "second", "ams-2")
            assert (score, remark.startswith("feed packed.TargetLoadPacking has no cpu for this cluster")) == (0, True)
            report = (await stage.post("/v1/replay", {"select": {"limit": 100}})).json()
            assert (report["same"], report["different"], report["skipped"]) == (report["attempts"], [], [])
            objects = [
                await stage.world.all(each)
                for each in (EVENTS, CLUSTER_SCOPED.placement, CLUSTER_SCOPED.binding, CLUSTER_SCOPED.policy_snapshot)
            ]
            assert TOKEN not in json.dumps([*objects, await stage.json("/v1/config")])

    with a_prometheus(tmp_path, "another") as service:
        service.answers = METRICS_SERVER if kind == "KubernetesMetricsServer" else SIGNAL_FX
        if kind == "SignalFx":
            service.header, service.prefix = "X-SF-Token", ""
        asyncio.run(main(service))
    shown = capsys.readouterr()
    assert "the token may have expired" in shown.out + shown.err
    assert TOKEN not in shown.out + shown.err
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()
