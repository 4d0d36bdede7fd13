"""A burst of placements from creation to Scheduled: placement controller and scheduler in one process, with defaults.

The plain client creates bindings as fast as the same hub takes them.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.bench.controller.documents import PICKS, SPREAD, binding, names, placement, selector
from tests.bench.controller.hubs import Hub, serving
from tests.bench.controller.placing import SECONDS_TO_PLACE, is_write, join
from tests.bench.controller.traffic import Traffic, for_each
from tests.bench.controller.workers import scheduler
from tests.bench.fleets import name_of

DEFAULTS: Final = ("eligibility.heartbeatTimeout=24h",)
"""Clusters need no heartbeats while it is measured; everything else is as installed."""
SCHEDULED: Final = "ClusterResourcePlacementScheduled"
_SETTLING: Final = 1.0


@dataclass(slots=True)
class Created:
    """One burst, and the plain client's before and after it."""

    placements: int
    scheduled: list[float] = field(default_factory=list)
    """Seconds from the first create to Scheduled, per placement."""
    writes: int = 0
    """Until the last placement was Scheduled, without the creates of the driver and without events."""
    plain: list[float] = field(default_factory=list)
    """Creates of bindings per second."""

    @property
    def rate(self) -> float:
        return self.writes / max(self.scheduled)

    @property
    def share(self) -> float:
        return self.rate / statistics.mean(self.plain)

    @property
    def median_done(self) -> float:
        """The time of the median placement, as a share of the burst's."""
        return statistics.median(self.scheduled) / max(self.scheduled)


async def create_burst(target: str, *, clusters: int, placements: int, profile: Path | None = None) -> Created:
    created = Created(placements)
    with serving(target) as hub:
        async with Traffic.to(hub) as traffic:
            await join(traffic, clusters)
            created.plain.append(await _measure_plain_creates(traffic, "before", placements))
            await _measure_burst(hub, traffic, created, profile)
            created.plain.append(await _measure_plain_creates(traffic, "after", placements))
    return created


async def _measure_plain_creates(traffic: Traffic, run: str, placements: int) -> float:
    """The bindings of as many placements, which are gone when it returns."""
    documents = [binding(name, name_of(number)) for name in names(run, placements) for number in range(PICKS)]
    for document in documents:
        document["metadata"] |= {"labels": {"bench": run}, "finalizers": []}
    started = time.perf_counter()
    await for_each(documents, lambda document: traffic.post(CLUSTER_SCOPED.binding, document))
    rate = len(documents) / (time.perf_counter() - started)
    await traffic.send("DELETE", f"{CLUSTER_SCOPED.binding.collection()}?labelSelector={selector(run)}")
    return rate


async def _measure_burst(hub: Hub, traffic: Traffic, created: Created, profile: Path | None) -> None:
    run = "created"
    with scheduler(hub, profile=profile, controllers="placement,scheduler", settings=DEFAULTS) as worker:
        await worker.ready()
        before = await traffic.counted()
        listed = await traffic.list(CLUSTER_SCOPED.placement, selector(run))
        started = time.perf_counter()
        async with asyncio.timeout(SECONDS_TO_PLACE), asyncio.TaskGroup() as group:
            watching = group.create_task(_watch(traffic, run, listed.metadata.resource_version, created))
            await for_each(
                names(run, created.placements),
                lambda name: traffic.post(CLUSTER_SCOPED.placement, placement(name, run=run, form=SPREAD)),
            )
            await watching
        created.scheduled = [at - started for at in created.scheduled]
        await asyncio.sleep(_SETTLING)
        requests = await traffic.counted() - before
        writes = sum(count for request, count in requests.items() if is_write(request) and "events" not in request)
        created.writes = writes - created.placements


async def _watch(traffic: Traffic, run: str, version: str, created: Created) -> None:
    done: dict[str, float] = {}
    async for event in traffic.watch(CLUSTER_SCOPED.placement, selector(run), version):
        if event.object.has_condition(SCHEDULED):
            done.setdefault(event.object.metadata.name, time.perf_counter())
            if len(done) == created.placements:
                created.scheduled = list(done.values())
                return
