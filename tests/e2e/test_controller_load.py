"""`fleet controller` as a process that packs by load: from a Prometheus over TLS, and from a load-watcher."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.model.keys import SCHEDULER_NAME
from tests.e2e.hub import LEASE_NAMESPACE, Hub
from tests.e2e.test_controller_document import FLEET, QUIET
from tests.e2e.world import ANYTHING, World
from tests.extender import an_extender
from tests.prometheus import a_prometheus

TOKEN: Final = "hush-hush-hush"
QUERY: Final = "load"
WATCHED: Final = {
    "a": [{"type": "CPU", "operator": "AVG", "value": 50}, {"type": "CPU", "operator": "Std", "value": 69}],
    "b": [{"type": "CPU", "operator": "AVG", "value": 95}, {"type": "CPU", "operator": "Latest", "value": 60}],
}


def write_document(folder: Path, prometheus: dict[str, Any], watcher: str) -> Path:
    profiles: dict[str, dict[str, Any]] = {
        "measured": {"metricProvider": prometheus},
        "watched": {"watcherAddress": watcher},
    }
    document = {
        "apiVersion": "scheduling.fleet.dev/v1",
        "kind": "FleetSchedulerConfiguration",
        "substitution": {"fromSecret": ["outside"]},
        "profiles": [
            {
                "schedulerName": name,
                "base": "LoadAware",
                "pluginConfig": [{"name": "TargetLoadPacking", "args": {"targetUtilization": 70, **args}}],
            }
            for name, args in profiles.items()
        ],
    }
    file = folder / "fleet.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


@contextmanager
def a_controller(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [*FLEET, "controller", *arguments, *QUIET]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


async def place(world: World, name: str, scheduler: str) -> None:
    policy = {"placementType": "PickN", "numberOfClusters": 1}
    spec = {"resourceSelectors": [ANYTHING], "policy": policy}
    metadata = {"name": name, "annotations": {SCHEDULER_NAME: scheduler}}
    await world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})


def test_F3_137_loads_of_providers_in_the_arguments_decide(hub: Hub, tmp_path: Path) -> None:
    """Another Secret has a key of the same name."""
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    subprocess.run([*FLEET, "migrate", f"--url={url}"], check=True, timeout=90, capture_output=True)

    async def story(file: Path) -> str:
        async with hub.connected() as transport:
            world = World(transport)
            await world.hold_secret(f"{LEASE_NAMESPACE}/outside", token=b"of-another-service")
            await world.hold_secret(f"{LEASE_NAMESPACE}/load-metrics", token=TOKEN.encode())
            for name in "ab":
                await world.join(name)
                usage = {"resourceUsage": {"capacity": {"cpu": "64"}}}
                await world.patch(MEMBER_CLUSTERS, name, {"status": usage}, subresource=STATUS)
            given = (f"--kubeconfig={hub.access.kubeconfig}", f"--config={file}", f"--set=history.url={url}")
            with a_controller(*given, "--set=logging.level=debug") as process:
                await place(world, "web", "measured")
                await place(world, "shop", "watched")
                await world.soon_on("web", "b")
                await world.soon_on("shop", "b")
                process.send_signal(signal.SIGTERM)
                _, written = await asyncio.to_thread(process.communicate, timeout=90)
            assert process.returncode == 0, written
            return written

    with ExitStack() as stack:
        prometheus = stack.enter_context(a_prometheus(tmp_path, TOKEN))
        watcher = stack.enter_context(an_extender())
        prometheus.vectors[QUERY] = {"a": 20.0, "b": 55.0}
        watcher.answer = lambda path, asked: {
            "data": {"NodeMetricsMap": {name: {"metrics": metrics} for name, metrics in WATCHED.items()}}
        }
        provider = {
            "type": "Prometheus",
            "address": prometheus.url,
            "queries": {"cpu": QUERY},
            "tokenFrom": {"secretName": "load-metrics", "key": "token"},
            "tlsConfig": {"caFile": str(prometheus.authority)},
        }
        written = asyncio.run(story(write_document(tmp_path, provider, watcher.url)))
        assert set(prometheus.asked) == {QUERY}
        assert {path for path, _ in watcher.asked} == {"/watcher"}
    assert TOKEN not in written
    assert "of-another-service" not in written
    assert TOKEN.encode() not in (tmp_path / "history.sqlite").read_bytes()
