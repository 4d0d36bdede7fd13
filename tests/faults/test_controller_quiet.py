"""Quiet means quiet: while nothing changes but heartbeats, nothing is written and nobody is woken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

import pytest

from fleet.clock import epoch_nanoseconds
from fleet.demo.agents import RolloutSimulator
from fleet.kube.api import Request
from fleet.kube.resource import STATUS
from fleet.kube.scopes import MEMBER_CLUSTERS
from fleet.manager.manager import Manager
from fleet.model.timestamps import format_timestamp
from fleet.placement.controller import RECHECK
from fleet.snapshot.frame import Frame
from tests.conftest import LONG
from tests.e2e.world import NAMESPACES, World, configured, member_status
from tests.faults.controller.line import Line
from tests.faults.controller.stage import Checkpoint, checkpoints, staged
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import EPOCH, VirtualClock, no_jitter, run_virtually

pytestmark = pytest.mark.timeout(1200)

CLUSTERS: Final = 5000 if LONG else 100
ROUNDS: Final = 2
BETWEEN_BEATS: Final = 10.0
"""Virtual seconds."""
LATENCY: Final = BETWEEN_BEATS / CLUSTERS / 4
"""Virtual seconds at most: a line that delivers heartbeats more slowly than they come would hide the last of them."""
PROPERTY: Final = "kubernetes-fleet.io/node-count"


@dataclass
class Fleet:
    """Members that say all the time that they are well, and nothing new."""

    world: World
    clock: VirtualClock
    said: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def join(self) -> None:
        for number in range(CLUSTERS):
            labels = {"region": f"r{number % 7}", "env": "prod" if number % 2 else "test"}
            properties, available = {PROPERTY: str(number % 50)}, {"cpu": "16", "memory": "64Gi"}
            status = member_status(properties=properties, available=available)
            await self.world.join(_name(number), labels=labels)
            await self.world.patch(MEMBER_CLUSTERS, _name(number), {"status": status}, subresource=STATUS)
            self.said[_name(number)] = status

    async def beat(self) -> None:
        """All of them once, spread over the time until the next."""
        for name, status in self.said.items():
            now = format_timestamp(epoch_nanoseconds(self.clock))
            status["agentStatus"][0]["lastReceivedHeartbeat"] = now
            status["properties"][PROPERTY]["observationTime"] = now
            await self.world.patch(MEMBER_CLUSTERS, name, {"status": status}, subresource=STATUS)
            await asyncio.sleep(BETWEEN_BEATS / CLUSTERS)

    def last_heartbeats(self) -> dict[str, str]:
        return {name: status["agentStatus"][0]["lastReceivedHeartbeat"] for name, status in self.said.items()}


def last_heartbeats(frame: Frame) -> dict[str, str | None]:
    clusters = (cluster for cluster in frame.clusters if cluster)
    return {one.metadata.name: one.status.agent_status[0].last_received_heartbeat for one in clusters}


def _name(number: int) -> str:
    return f"member-{number:04d}"


def _in(region: str) -> dict[str, Any]:
    required = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": region}}}]}
    return {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


POLICIES: Final[dict[str, dict[str, Any]]] = {
    "everywhere-there": {"placementType": "PickAll", "affinity": _in("r3")},
    "two": {"placementType": "PickN", "numberOfClusters": 2},
    "spread": {
        "placementType": "PickN",
        "numberOfClusters": 10,
        "topologySpreadConstraints": [
            {"topologyKey": "region", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
            {"topologyKey": "env", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
        ],
    },
    "too-many": {"placementType": "PickN", "numberOfClusters": 4, "affinity": _in("nowhere")},
    "named": {"placementType": "PickFixed", "clusterNames": [_name(1), _name(2), "nobody"]},
    "largest": {
        "placementType": "PickN",
        "numberOfClusters": 3,
        "affinity": {
            "clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 50, "preference": {"propertySorter": {"name": PROPERTY, "sortOrder": "Descending"}}}
                ]
            }
        },
    },
}


@asynccontextmanager
async def controlled(hub: HubApi, clock: VirtualClock, *, elects: bool) -> AsyncIterator[tuple[Manager, Line]]:
    line = Line(hub, rng=Random(0), slowest=LATENCY)
    controller = Manager(line, configured(), elects=elects, clock=clock, jitter=no_jitter)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(), name="controller")
        yield controller, line
        controller.stop()


def counters(controller: Manager) -> dict[tuple[object, ...], float]:
    """Everything that the controller counts: what it took up, decided, wrote, and whom it woke."""
    found: dict[tuple[object, ...], float] = {}
    for metric in controller.registry.collect():
        if metric.name.startswith(("process_", "python_")):
            continue
        for sample in metric.samples:
            if sample.name.endswith(("_total", "_count")):
                found[sample.name, *sorted(sample.labels.items())] = sample.value
    return found


def writes(line: Line, *, since: int = 0) -> Iterator[Request]:
    """Without renewals of the lease."""
    return (one for one in line.requests[since:] if one.is_write and "/leases" not in one.path)


async def come_to_rest(hub: HubApi) -> None:
    revision = -1
    while revision != hub.hub.store.revision:
        revision = hub.hub.store.revision
        await asyncio.sleep(50)


async def all_beat() -> None:
    clock = VirtualClock()
    clock.set_by = datetime.now(UTC) - EPOCH
    hub = a_hub(clock=lambda: clock.now().timestamp())
    fleet = Fleet(World(hub), clock)
    await fleet.join()
    await fleet.world.create(NAMESPACES, {"metadata": {"name": "shop"}})
    async with controlled(hub, clock, elects=False) as (controller, line), stood_in(hub, clock):
        await controller.ready()
        for name, policy in POLICIES.items():
            await fleet.world.place(name, policy)
            await fleet.world.place(f"shop/{name}", policy)
        await come_to_rest(hub)
        assert len(await fleet.world.in_use("everywhere-there")) == len(range(3, CLUSTERS, 7))
        scheduler = controller.scheduler
        assert scheduler is not None
        before, sent, generation = counters(controller), len(line.requests), scheduler.table.frame().generation
        for _ in range(ROUNDS):
            await fleet.beat()
        frame = scheduler.table.frame()
        assert last_heartbeats(frame) == fleet.last_heartbeats()
        assert list(writes(line, since=sent)) == []
        changed = {name for name, value in counters(controller).items() if value != before.get(name)}
        assert changed == set()
        assert frame.generation == generation


@asynccontextmanager
async def stood_in(hub: HubApi, clock: VirtualClock) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(RolloutSimulator(hub, clock=clock, jitter=no_jitter).run())
        yield
        task.cancel()


def test_Q_13_heartbeats_wake_no_placement_and_cause_no_write() -> None:
    run_virtually(all_beat())


async def nothing_is_rewritten(start: Checkpoint) -> None:
    async with staged(start) as stage:
        await asyncio.sleep(RECHECK * 1.1)
        (line,) = stage.lines
        assert [f"{one.method} {one.path}" for one in writes(line)] == []
        assert stage.outcome() == start.outcome


def test_a_controller_that_begins_on_a_hub_at_rest_writes_nothing() -> None:
    """Not even when each placement is looked at for no reason."""
    known = checkpoints()
    for start in known:
        run_virtually(nothing_is_rewritten(start))
