"""One hub with one number of clusters: bursts of placements, the hub's own limit before and after, and a restart."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.bench.controller.documents import LIMIT, PLAIN, SPREAD
from tests.bench.controller.hubs import Hub, serving
from tests.bench.controller.placing import Placed, burst, create_placements, join, one_by_one
from tests.bench.controller.restarting import Restarted, restart
from tests.bench.controller.traffic import Traffic
from tests.bench.controller.workers import plain_client, scheduler

FORMS: Final = (SPREAD, PLAIN)
_ENOUGH: Final = 200


@dataclass(frozen=True, slots=True)
class Size:
    clusters: int
    placements: int

    @classmethod
    def parse(cls, text: str) -> Self:
        clusters, _, placements = text.partition("x")
        return cls(int(clusters), int(placements))

    def __str__(self) -> str:
        return f"{self.clusters:,} clusters, {self.placements:,} placements"

    @property
    def enough_bursts(self) -> int:
        """Small ones are over within a second and say little by themselves."""
        return max(1, _ENOUGH // self.placements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    sizes: tuple[Size, ...]
    forms: tuple[str, ...] = FORMS
    restarted: int = 0
    """Placements that a scheduler finds placed when it starts, where there are a thousand clusters."""
    most_bursts: int = 5
    alone: int = 20
    """Placements that are created one by one."""
    profile: Path | None = None
    """Where cProfile puts what it knows about the scheduler; its times are then longer than they are."""

    def bursts(self, size: Size) -> range:
        return range(min(self.most_bursts, size.enough_bursts))


@dataclass(frozen=True, slots=True)
class Bursts:
    """Several of the same kind."""

    placed: tuple[Placed, ...]
    alone: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        return statistics.median(one.rate for one in self.placed)

    @property
    def waits(self) -> list[float]:
        """Of all placements, in seconds."""
        return [wait for one in self.placed for wait in one.times.waits]

    @property
    def cpu_seconds(self) -> float:
        """Of the worker, per placement."""
        return sum(one.cpu_seconds for one in self.placed) / self.count

    @property
    def peak_bytes(self) -> int:
        return max(one.peak_bytes for one in self.placed)

    @property
    def requests(self) -> dict[str, float]:
        """Per placement, by method and subject."""
        found = sum((one.requests for one in self.placed), Counter[str]())
        return {request: number / self.count for request, number in sorted(found.items())}

    @property
    def count(self) -> int:
        return sum(one.count for one in self.placed)


@dataclass(slots=True)
class Measured:
    size: Size
    limits: list[Placed] = field(default_factory=list)
    forms: dict[str, Bursts] = field(default_factory=dict)
    restarted: Restarted | None = None

    @property
    def limit(self) -> Bursts:
        """The hub's own: of what a plain client reaches that decides nothing."""
        return Bursts(tuple(self.limits))


async def measure(target: str, size: Size, plan: Plan) -> Measured:
    found = Measured(size)
    with serving(target) as hub:
        async with Traffic.to(hub) as traffic:
            await join(traffic, size.clusters)
            found.limits += await _limits(hub, traffic, size, plan, "before")
            found.forms = await _all_forms(hub, traffic, size, plan)
            found.limits += await _limits(hub, traffic, size, plan, "after")
            if plan.restarted and size.clusters == min(1_000, max(one.clusters for one in plan.sizes)):
                found.restarted = await restart(hub, traffic, plan.restarted)
    return found


async def _limits(hub: Hub, traffic: Traffic, size: Size, plan: Plan, when: str) -> list[Placed]:
    """Half of the bursts; whatever else the machine does is then likely to slow down both sides."""
    return [await _limit(hub, traffic, size, f"{when}-{number}") for number in plan.bursts(size)[::2]]


async def _limit(hub: Hub, traffic: Traffic, size: Size, run: str) -> Placed:
    placements = await create_placements(traffic, run, LIMIT, size.placements)
    with plain_client(hub, run) as worker:
        await worker.ready()
        return await burst(traffic, worker, placements, run=run, form=LIMIT)


async def _all_forms(hub: Hub, traffic: Traffic, size: Size, plan: Plan) -> dict[str, Bursts]:
    found = {}
    with scheduler(hub, profile=plan.profile) as worker:
        await worker.ready()
        for form in plan.forms:
            placed = []
            for run in (f"{form}-{number}" for number in plan.bursts(size)):
                placements = await create_placements(traffic, run, form, size.placements)
                await worker.knows(await traffic.count_of(CLUSTER_SCOPED.placement, ""))
                placed.append(await burst(traffic, worker, placements, run=run, form=form))
            alone = await one_by_one(traffic, run=f"{form}-alone", form=form, count=plan.alone)
            found[form] = Bursts(tuple(placed), tuple(alone))
    return found
