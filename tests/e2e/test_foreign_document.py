"""`fleet controller` as a process with a document of kube-scheduler, as it is, and loads of a Prometheus."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from tests.e2e.hub import Hub, soon
from tests.e2e.test_controller_load import a_controller, place
from tests.e2e.world import World
from tests.prometheus import RunningPrometheus, a_prometheus

DOCUMENT: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1beta1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
profiles:
- schedulerName: load-aware
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: NodeResourcesLeastAllocated}]
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - name: TargetLoadPacking
    args:
      targetUtilization: 70
      defaultRequests: {cpu: "2000m"}
      defaultRequestsMultiplier: "1"
      metricProvider:
        type: Prometheus
        address: ${PROM_URL}
"""
QUERY: Final = '100 * (1 - avg by (cluster) (rate(node_cpu_seconds_total{mode="idle"}[5m])))'
CORES, ITEMS = 64, 20
LOADS: Final = {"a": 10.0, "b": 40.0, "c": 62.0, "d": 71.0}


def compute_score(load: float) -> int:
    """With the target 70, for a load that includes the placement."""
    if load > 100:
        return 0
    exact = 70 * (100 - load) / 30 if load > 70 else 30 * load / 70 + 70
    return int(exact + 0.5)


def pack() -> Counter[str]:
    """One after the other, to the best cluster; of equal ones to the first by name."""
    loads, placed = dict(LOADS), Counter[str]()
    for _ in range(ITEMS):
        after = {name: load + 100 * 2 / CORES for name, load in loads.items()}
        best = max(sorted(after), key=lambda name: compute_score(after[name]))
        loads[best] = after[best]
        placed[best] += 1
    return placed


def test_T_01_T_05_a_document_of_kube_scheduler_places_by_loads_of_prometheus(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "load-aware.yaml"

    async def story(prometheus: RunningPrometheus) -> None:
        async with hub.connected() as transport:
            world = World(transport)
            for name in LOADS:
                await world.join(name)
                usage = {"resourceUsage": {"capacity": {"cpu": str(CORES)}}}
                await world.patch(MEMBER_CLUSTERS, name, {"status": usage}, subresource=STATUS)
            options = (f"--config={file}", "--substitute-env=PROM_URL")
            with a_controller(f"--kubeconfig={hub.access.kubeconfig}", *options):
                async with asyncio.TaskGroup() as group:
                    for number in range(ITEMS):
                        group.create_task(place(world, f"web-{number}", "load-aware"))

                async def count() -> Counter[str]:
                    return Counter(each["spec"]["targetCluster"] for each in await world.all(CLUSTER_SCOPED.binding))

                async def is_placed() -> bool:
                    return (await count()).total() == ITEMS

                await soon(is_placed)
                assert await count() == pack()

    with a_prometheus(tmp_path, "") as prometheus:
        prometheus.prefix = ""
        prometheus.vectors[QUERY] = LOADS
        monkeypatch.setenv("SSL_CERT_FILE", str(prometheus.authority))
        monkeypatch.setenv("PROM_URL", prometheus.url)
        file.write_text(DOCUMENT, encoding="utf-8")
        asyncio.run(story(prometheus))
    assert set(prometheus.asked) == {QUERY}
    assert pack() == {"a": 9, "b": 9, "c": 2}
