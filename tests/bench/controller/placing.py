"""A burst of placements: all their snapshots at once, and how long until the last one is Scheduled.

When something happened is when the driver's own watch showed it, for the beginning and for the end alike.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from tests.bench.controller.documents import LIMIT, member_cluster, names, placement, selector, snapshot
from tests.bench.controller.traffic import Traffic, for_each, read_seen
from tests.bench.controller.workers import Worker

SECONDS_TO_PLACE: Final = 600.0
_SETTLING: Final = 0.3
_SECONDS_TO_TELL: Final = 60.0
"""That a scheduler gets to send its events, of which it drops some where there are too many."""
SNAPSHOT: Final = CLUSTER_SCOPED.policy_snapshot


@dataclass(slots=True)
class Times:
    """By name of the snapshot, in seconds of one clock."""

    created: dict[str, float] = field(default_factory=dict)
    scheduled: dict[str, float] = field(default_factory=dict)

    @property
    def waits(self) -> list[float]:
        return [at - self.created[name] for name, at in self.scheduled.items()]

    @property
    def span(self) -> float:
        return max(self.scheduled.values()) - min(self.created.values())


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of a burst."""

    count: int
    times: Times
    requests: Counter[str]
    """That the hub answered meanwhile, without the driver's own."""
    cpu_seconds: float
    peak_bytes: int

    @property
    def rate(self) -> float:
        return self.count / self.times.span

    @property
    def p50(self) -> float:
        return statistics.median(self.times.waits)

    @property
    def p99(self) -> float:
        return quantile(self.times.waits, 0.99)


async def join(traffic: Traffic, clusters: int) -> None:
    async def join_one(number: int) -> None:
        document = member_cluster(number)
        made = read_seen(await traffic.post(MEMBER_CLUSTERS, document))
        about = {"name": made.metadata.name, "resourceVersion": made.metadata.resource_version}
        await traffic.put_status(MEMBER_CLUSTERS, {**document, "metadata": {**document["metadata"], **about}})

    await for_each(range(clusters), join_one)


async def create_placements(traffic: Traffic, run: str, form: str, count: int) -> list[str]:
    found = names(run, count)
    await for_each(found, lambda name: traffic.post(CLUSTER_SCOPED.placement, placement(name, run=run, form=form)))
    return found


async def create_snapshots(traffic: Traffic, placements: Sequence[str], run: str, form: str) -> None:
    await for_each(placements, lambda name: traffic.post(SNAPSHOT, snapshot(name, run=run, form=form)))


async def burst(traffic: Traffic, worker: Worker, placements: Sequence[str], *, run: str, form: str) -> Placed:
    """The worker is ready, the placements exist, and all their snapshots come at once."""
    before, effort = await traffic.counted(), worker.effort
    async with watching(traffic, run, len(placements)) as times:
        await create_snapshots(traffic, placements, run, form)
    requests = await _settled(before, traffic, placements, form=form) - Counter(
        {f"POST {SNAPSHOT.plural}": len(placements)}
    )
    spent = worker.effort
    return Placed(len(placements), times, requests, spent.cpu_seconds - effort.cpu_seconds, spent.peak_bytes)


async def one_by_one(traffic: Traffic, *, run: str, form: str, count: int) -> list[float]:
    """Seconds from the snapshot to Scheduled where nobody else is in the way."""
    waits: list[float] = []
    before, placements = await traffic.counted(), await create_placements(traffic, run, form, count)
    for number, name in enumerate(placements, start=1):
        async with watching(traffic, run, number) as times:
            await create_snapshots(traffic, [name], run, form)
        waits.append(times.scheduled[f"{name}-0"] - times.created[f"{name}-0"])
    await _settled(before, traffic, placements, form=form)
    return waits


@asynccontextmanager
async def watching(traffic: Traffic, run: str, count: int) -> AsyncIterator[Times]:
    """Ends when so many snapshots of the run are Scheduled, those included that already are."""
    times = Times()
    listed = await traffic.list(SNAPSHOT, selector(run))
    for known in map(read_seen, listed.items or ()):
        count -= known.is_scheduled

    async def note() -> None:
        async for event in traffic.watch(SNAPSHOT, selector(run), listed.metadata.resource_version):
            now = time.perf_counter()
            times.created.setdefault(event.object.metadata.name, now)
            if event.object.is_scheduled:
                times.scheduled.setdefault(event.object.metadata.name, now)
            if len(times.scheduled) == count:
                return

    async with asyncio.timeout(SECONDS_TO_PLACE), asyncio.TaskGroup() as group:
        group.create_task(note())
        yield times


async def _settled(before: Counter[str], traffic: Traffic, placements: Sequence[str], *, form: str) -> Counter[str]:
    """What schedulers asked since then, once no questions any more: an event for each placement follows later."""
    told, deadline = 0 if form == LIMIT else len(placements), time.perf_counter() + _SECONDS_TO_TELL
    last: Counter[str] | None = None
    while True:
        found = asked_of_fleet(await traffic.counted() - before)
        if found == last and (found["POST events"] >= told or time.perf_counter() > deadline):
            return found
        last = found
        await asyncio.sleep(_SETTLING)


def asked_of_fleet(requests: Counter[str]) -> Counter[str]:
    wanted = {CLUSTER_SCOPED.placement.plural, SNAPSHOT.plural, CLUSTER_SCOPED.binding.plural, "events"}
    return Counter({key: n for key, n in requests.items() if key.split()[1].partition("/")[0] in wanted})


def is_write(request: str) -> bool:
    return request.partition(" ")[0] not in ("GET", "LIST", "WATCH")


def is_read(request: str) -> bool:
    """By a scheduler while it places: watches end when they like, and snapshots are what the driver reads."""
    return request.partition(" ")[0] in ("GET", "LIST") and not request.endswith(SNAPSHOT.plural)


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
