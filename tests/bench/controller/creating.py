"""A burst of placements from creation to Scheduled: placement controller and scheduler in one process, with defaults.

A plain client makes the same writes as fast as a hub of the same kind takes them, before and after. Each burst has a
hub of its own, because what is stored makes the next one slower.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.bench.controller.documents import SPREAD, names, placement, selector
from tests.bench.controller.hubs import Hub, serving
from tests.bench.controller.placing import SECONDS_TO_PLACE, is_write, join
from tests.bench.controller.same_writes import Example, read_example, write_the_same
from tests.bench.controller.traffic import Traffic, for_each
from tests.bench.controller.workers import scheduler

DEFAULTS: Final = ("eligibility.heartbeatTimeout=24h",)
"""Clusters need no heartbeats while it is measured; everything else is as installed."""
SCHEDULED: Final = "ClusterResourcePlacementScheduled"
_SETTLING: Final = 1.0
_RUN: Final = "created"
_LEARNT: Final = 20
"""Placements from which the writes are learnt."""


@dataclass(slots=True)
class Created:
    """One burst, and the plain client's before and after it."""

    placements: int
    scheduled: list[float] = field(default_factory=list)
    """Seconds from the first create to Scheduled, per placement."""
    requests: Counter[str] = field(default_factory=Counter)
    """Until the last placement was Scheduled, without the creates of the driver."""
    plain: list[float] = field(default_factory=list)
    """Seconds of the plain client for the same writes."""

    @property
    def writes(self) -> int:
        return list_writes(self.requests).total()

    @property
    def rate(self) -> float:
        return self.writes / max(self.scheduled)

    @property
    def share(self) -> float:
        """Of the plain client's rate."""
        return statistics.mean(self.plain) / max(self.scheduled)

    @property
    def median_done(self) -> float:
        """The time of the median placement, as a share of the burst's."""
        return statistics.median(self.scheduled) / max(self.scheduled)


def list_writes(requests: Counter[str]) -> Counter[str]:
    """Without events, which come later."""
    return Counter({name: count for name, count in requests.items() if is_write(name) and not name.endswith(" events")})


async def create_burst(target: str, *, clusters: int, placements: int, profile: Path | None = None) -> Created:
    created = Created(placements)
    async with open_fleet(target, clusters) as (hub, traffic):
        learnt = Created(min(placements, _LEARNT))
        await run_burst(hub, traffic, learnt, None)
        example = await read_example(traffic, names(_RUN, 1)[0], learnt.requests, learnt.placements)
    for measured in ("before", "burst", "after"):
        async with open_fleet(target, clusters) as (hub, traffic):
            if measured == "burst":
                await run_burst(hub, traffic, created, profile)
            else:
                created.plain.append(await run_plain(traffic, example, placements))
    return created


@asynccontextmanager
async def open_fleet(target: str, clusters: int) -> AsyncIterator[tuple[Hub, Traffic]]:
    with serving(target) as hub:
        async with Traffic.to(hub) as traffic:
            await join(traffic, clusters)
            yield hub, traffic


async def run_plain(traffic: Traffic, example: Example, placements: int) -> float:
    started = time.perf_counter()
    await for_each(
        enumerate(names(_RUN, placements)),
        lambda numbered: write_the_same(traffic, example, _RUN, numbered[1], numbered[0]),
    )
    return time.perf_counter() - started


async def run_burst(hub: Hub, traffic: Traffic, created: Created, profile: Path | None) -> None:
    run = _RUN
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
        own = Counter({f"POST {CLUSTER_SCOPED.placement.plural}": created.placements})
        created.requests = await traffic.counted() - before - own


async def _watch(traffic: Traffic, run: str, version: str, created: Created) -> None:
    done: dict[str, float] = {}
    async for event in traffic.watch(CLUSTER_SCOPED.placement, selector(run), version):
        if event.object.has_condition(SCHEDULED):
            done.setdefault(event.object.metadata.name, time.perf_counter())
            if len(done) == created.placements:
                created.scheduled = list(done.values())
                return
