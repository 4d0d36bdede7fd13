"""Every figure that is documented exists, and a controller that works gives it values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.core import Metric

from fleet.demo.agents import RolloutSimulator
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.manager.manager import Manager
from fleet.model.keys import NUMBER_OF_CLUSTERS
from tests.e2e.world import World, configured
from tests.fake_hub import FaultyApi, in_turn
from tests.faults.controller.scenario import STEPS, prepare
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.scripted import Refuse
from tests.faults.virtual import EPOCH, VirtualClock, no_jitter, run_virtually

pytestmark = pytest.mark.timeout(300)

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "controller.md").read_text(encoding="utf-8")
OF_THE_PROCESS: Final = ("process_", "python_")
NO_VALUES_YET: Final = {
    "fleet_permit_wait_duration_seconds",
    "fleet_preemption_attempts_total",
    "fleet_preemption_victims",
}
ONLY_AT_TIMES: Final = {
    "fleet_queueing_hint_execution_duration_seconds",  # where plugins have hints
    "fleet_extender_duration_seconds",  # where there are extenders
    "fleet_feed_samples_total",  # where there are feeds
    "fleet_inflight_events",  # while something happens during an attempt
    "fleet_placement_approvals_total",  # where placements wait for approval
    "fleet_quota_used",  # where the hub has quotas
    "fleet_room_booked",  # where placements request resources
    "fleet_leader",  # where controllers compete for a lease
}


def documented() -> dict[str, str]:
    """What is said of each metric."""
    chapter = PAGE.partition("## Metrics")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (?:counter|gauge|histogram) \| .+? \| (.+) \|$", chapter, re.MULTILINE))


def by_name(families: Iterable[Metric]) -> dict[str, Metric]:
    ours = (one for one in families if not one.name.startswith(OF_THE_PROCESS))
    return {one.name + ("_total" if one.type == "counter" else ""): one for one in ours}


def has_values(family: Metric) -> bool:
    """Something was counted or measured; a gauge is there."""
    if family.type == "gauge":
        return bool(family.samples)
    return any(one.value for one in family.samples if one.name.endswith(("_total", "_count")))


async def play(hub: HubApi, line: FaultyApi, clock: VirtualClock, controller: Manager) -> None:
    """People come and change their minds, a cluster and a snapshot say nonsense, and once the hub is unwell."""
    user = World(hub)
    await prepare(user)
    await user.join("odd", properties={"kubernetes-fleet.io/node-count": "a few"})
    async with asyncio.TaskGroup() as group:
        stand_in = group.create_task(RolloutSimulator(hub, clock=clock, jitter=no_jitter).run())
        group.create_task(controller.run())
        await controller.ready()
        await user.place("largest", LARGEST)
        for step in STEPS:
            await step(user)
            await asyncio.sleep(30)
        line.fault = in_turn(*[Refuse(500)] * 8, to=lambda request: request.method == "PUT")
        await user.place("unlucky", {"placementType": "PickAll"})
        await user.place("greedy", {"placementType": "PickN", "numberOfClusters": 50})
        await asyncio.sleep(30)
        line.fault = in_turn(Refuse(500), to=lambda request: "schedulingpolicysnapshots/greedy" in request.path)
        await user.patch(CLUSTER_SCOPED.policy_snapshot, "greedy-0", {"metadata": {"annotations": NONSENSE}})
        await asyncio.sleep(30)
        controller.stop()
        stand_in.cancel()


NONSENSE: Final = {NUMBER_OF_CLUSTERS: "many"}
LARGEST: Final = {
    "placementType": "PickN",
    "numberOfClusters": 1,
    "affinity": {
        "clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 50,
                    "preference": {
                        "propertySorter": {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending"}
                    },
                }
            ]
        }
    },
}


@pytest.fixture(scope="module")
def figures() -> dict[str, Metric]:
    """Of a controller that has worked for a while."""

    async def run() -> dict[str, Metric]:
        clock = VirtualClock()
        clock.set_by = datetime.now(UTC) - EPOCH  # heartbeats are written by the test in real time
        hub = a_hub(clock=lambda: clock.now().timestamp())
        settings = configured("eligibility.heartbeatTimeout=8760h")
        line = FaultyApi(hub)
        controller = Manager(line, settings, elects=False, clock=clock, jitter=no_jitter)
        await play(hub, line, clock, controller)
        return by_name(controller.registry.collect())

    return run_virtually(run())


def test_every_metric_is_documented_and_every_documented_metric_exists(figures: dict[str, Metric]) -> None:
    assert set(figures) == set(documented())


def test_every_metric_has_values_except_those_that_cannot(figures: dict[str, Metric]) -> None:
    without = {name for name, family in figures.items() if not has_values(family)}
    assert without - ONLY_AT_TIMES == NO_VALUES_YET


def test_the_documentation_says_which_metrics_have_no_values_yet() -> None:
    assert {name for name, meaning in documented().items() if "no values yet" in meaning} == NO_VALUES_YET


# --- throughput -------------------------------------------------------------------------------------------------------


def test_Q_44_idle_hours_do_not_slow_the_throughput_and_everything_bound_is_in_it() -> None:
    """Three placements in one second and one in another make two a second, with hours between and after them."""

    async def run() -> dict[str, set[float]]:
        clock, hub = VirtualClock(), a_hub()
        settings = configured("eligibility.heartbeatTimeout=8760h")
        controller, user = Manager(hub, settings, elects=False, clock=clock, jitter=no_jitter), World(hub)
        for name in ("ams", "dub"):
            await user.join(name)
        async with asyncio.TaskGroup() as group:
            group.create_task(controller.run())
            await controller.ready()
            for names in (("web", "cache", "queue"), ("late",)):
                await asyncio.sleep(3600.25)
                for name in names:
                    await user.place(name, {"placementType": "PickN", "numberOfClusters": 2})
                for name in names:
                    await user.soon_on(name, "ams", "dub")
            await asyncio.sleep(3600)
            figures = by_name(controller.registry.collect())
            controller.stop()
        return {name: {sample.value for sample in figures[name].samples} for name in figures if "throughput" in name}

    assert run_virtually(run()) == {
        "fleet_throughput_per_second": {2.0},
        "fleet_throughput_quantile_per_second": {3.0},
    }
