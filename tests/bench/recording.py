"""What a history costs the scheduler, in bursts: how much slower it places, and the processor time of recording.

Everything is made and written by threads beside the one that schedules, so one process tells both times, and whatever
else the machine does makes both dearer alike. How fast it places is told by the clock, with a history and without in
turns, for a hub that grows and a machine that gets warm must not favour either: until a burst is placed, part of which
is written only later, and in a longer one until it is written.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from tests.bench.controller.documents import SPREAD
from tests.bench.controller.hubs import EMBEDDED, Hub, serving
from tests.bench.controller.placing import burst, create_placements, create_snapshots, join, watching
from tests.bench.controller.traffic import Traffic
from tests.bench.controller.workers import Scheduler, cpu_seconds, scheduler

WARMING_UP: Final = 50
TURNS: Final = (False, True, True, False, False, True, True, False)
"""Whether there is a history."""

LONG_TURNS: Final = (False, True, True, False)

_SpanOf = Callable[[Traffic, Scheduler, Sequence[str], str], Awaitable[float]]
"""Seconds that a burst of these placements takes."""


@dataclass(frozen=True, slots=True)
class Size:
    clusters: int
    placements: int

    def __str__(self) -> str:
        return f"{self.clusters:,} clusters"


@dataclass(frozen=True, slots=True)
class Recording:
    """Of one placement, in seconds of processor time."""

    scheduling: float
    recording: float


@dataclass(frozen=True, slots=True)
class Kept:
    """Placements per second."""

    without: float
    recorded: float

    @property
    def percent(self) -> float:
        return 100 * self.recorded / self.without


@dataclass(frozen=True, slots=True)
class _Spent:
    main: float
    all: float

    @classmethod
    def by(cls, pid: int) -> _Spent:
        return cls(cpu_seconds(f"/proc/{pid}/task/{pid}/stat"), cpu_seconds(f"/proc/{pid}/stat"))


def keep_pace(target: str, size: Size) -> Kept:
    return asyncio.run(_paces(target, size, TURNS, _until_placed))


def keep_up(target: str, size: Size) -> Kept:
    """The same where the time ends only when everything is written as well."""
    return asyncio.run(_paces(target, size, LONG_TURNS, _until_written))


async def _paces(target: str, size: Size, turns: Sequence[bool], span_of: _SpanOf) -> Kept:
    spans = {False: 0.0, True: 0.0}
    with serving(target) as hub:
        async with Traffic.to(hub) as traffic:
            await join(traffic, size.clusters)
            for turn, recorded in enumerate(turns):
                run, known = f"turn-{turn}", turn * (size.placements + WARMING_UP)
                with _history() if recorded else nullcontext():
                    async with _warm(hub, traffic, run, known=known) as worker:
                        placements = await create_placements(traffic, run, SPREAD, size.placements)
                        spans[recorded] += await span_of(traffic, worker, placements, run)
    placed = size.placements * len(turns) / 2
    return Kept(without=placed / spans[False], recorded=placed / spans[True])


async def _until_placed(traffic: Traffic, worker: Scheduler, placements: Sequence[str], run: str) -> float:
    return (await burst(traffic, worker, placements, run=run, form=SPREAD)).times.span


async def _until_written(traffic: Traffic, worker: Scheduler, placements: Sequence[str], run: str) -> float:
    async with watching(traffic, run, len(placements)) as times:
        await create_snapshots(traffic, placements, run, SPREAD)
    await worker.recorded()
    return time.perf_counter() - min(times.created.values())


@asynccontextmanager
async def _warm(hub: Hub, traffic: Traffic, run: str, *, known: int) -> AsyncIterator[Scheduler]:
    """A scheduler that has placed something, and is done with what it looks at and records when it starts."""
    with scheduler(hub) as worker:
        await worker.ready()
        warm = await create_placements(traffic, f"{run}-warm", SPREAD, WARMING_UP)
        await burst(traffic, worker, warm, run=f"{run}-warm", form=SPREAD)
        await worker.decided(known + WARMING_UP)
        await worker.recorded()
        yield worker


def record_burst(size: Size) -> Recording:
    with _history():
        return asyncio.run(_burst(size))


async def _burst(size: Size) -> Recording:
    with serving(EMBEDDED) as hub:
        async with Traffic.to(hub) as traffic:
            await join(traffic, size.clusters)
            async with _warm(hub, traffic, "recorded", known=0) as worker:
                placements = await create_placements(traffic, "recorded", SPREAD, size.placements)
                before = _Spent.by(worker.process.pid)
                await burst(traffic, worker, placements, run="recorded", form=SPREAD)
                await worker.recorded()
                after = _Spent.by(worker.process.pid)
    scheduling = after.main - before.main
    beside = after.all - before.all - scheduling
    return Recording(scheduling / size.placements, beside / size.placements)


@contextmanager
def _history() -> Iterator[None]:
    """For schedulers that are started meanwhile."""
    with tempfile.TemporaryDirectory(prefix="fleet-bench-history-") as folder:
        os.environ["FLEET_HISTORY__URL"] = f"sqlite:///{folder}/history.sqlite"
        try:
            yield
        finally:
            del os.environ["FLEET_HISTORY__URL"]
