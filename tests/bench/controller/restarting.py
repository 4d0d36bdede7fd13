"""A scheduler that starts where everything is placed: how long until it knows that, and that it writes nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.bench.controller.documents import PLAIN
from tests.bench.controller.hubs import Hub
from tests.bench.controller.placing import SNAPSHOT, asked_of_fleet, burst, create_placements, is_write
from tests.bench.controller.traffic import Traffic
from tests.bench.controller.workers import scheduler


@dataclass(frozen=True, slots=True)
class Restarted:
    placements: int
    seconds: float
    """From the start of the process until the last placement was looked at."""
    cpu_seconds: float
    peak_bytes: int
    writes: int


async def restart(hub: Hub, traffic: Traffic, placements: int) -> Restarted:
    """With so many placements; those that are not there yet are placed first, by a scheduler of their own."""
    placed = await traffic.count_of(SNAPSHOT, "kubernetes-fleet.io/is-latest-snapshot%3Dtrue")
    if placements > placed:
        await _place(hub, traffic, placements - placed)
        placed = placements
    before = asked_of_fleet(await traffic.counted())
    started = time.perf_counter()
    with scheduler(hub) as again:
        await again.ready()
        await again.decided(placed)
        seconds, effort = time.perf_counter() - started, again.effort
    asked = asked_of_fleet(await traffic.counted()) - before
    writes = sum(count for request, count in asked.items() if is_write(request))
    return Restarted(placed, seconds, effort.cpu_seconds, effort.peak_bytes, writes)


async def _place(hub: Hub, traffic: Traffic, count: int) -> None:
    names = await create_placements(traffic, "more", PLAIN, count)
    with scheduler(hub) as worker:
        await worker.ready()
        await burst(traffic, worker, names, run="more", form=PLAIN)
