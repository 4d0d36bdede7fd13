"""What it costs the scheduler that eight callers ask for everything, again and again, while it works through a burst.

Throughput is told by the clock, in bursts that take turns. Where `fleet api` runs alone, most of what asking costs on
one machine are its cores. So the same questions are also put to the API of another hub: that machine is as busy, and
what remains is what Fleet itself is to blame for.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.bench.asking import Callers, Server, answering, answering_alone, asking, create_questions
from tests.bench.controller.documents import SPREAD
from tests.bench.controller.hubs import EMBEDDED, REAL, Hub, serving
from tests.bench.controller.placing import burst, create_placements, join
from tests.bench.controller.traffic import Traffic
from tests.bench.controller.workers import Worker, scheduler
from tests.bench.figures import Figure, Kind
from tests.bench.measuring import Run

_THROUGHPUT_KEPT: Final = 95.0
_WARMING_UP: Final = 50
_NANOSECONDS: Final = 1e9
_EVERYTHING: Final = "explain=all&limit=500"


class Asked(enum.Enum):
    NOBODY = "nobody"
    ELSEWHERE = "the API of another hub"
    HERE = "the API of this hub"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    clusters: int
    placements: int
    rounds: int


FULL: Final = {
    EMBEDDED: Size(clusters=1_000, placements=1_000, rounds=2),
    REAL: Size(clusters=1_000, placements=300, rounds=2),
}
QUICK: Final = {EMBEDDED: Size(clusters=100, placements=200, rounds=1)}


@dataclass(slots=True)
class Bursts:
    """All that met the same."""

    placements: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Of the scheduler's process."""
    answers: int = 0

    @property
    def rate(self) -> float:
        return self.placements / self.seconds

    @property
    def cpu(self) -> float:
        return self.cpu_seconds / self.placements


@dataclass(frozen=True, slots=True)
class Scene:
    hub: Hub
    traffic: Traffic
    paths: tuple[str, ...]
    """To ask."""


def meanwhile(run: Run) -> Iterator[Figure]:
    for target, size in (QUICK if run.quick else FULL).items():
        yield from _beside_figures(run, f"{target} hub, in one process", asyncio.run(beside(target, size)))
        yield from _alone_figures(run, f"{target} hub, `fleet api`", asyncio.run(alone(target, size)))


def _beside_figures(run: Run, case: str, found: dict[Asked, Bursts]) -> Iterator[Figure]:
    quiet, here = found[Asked.NOBODY], found[Asked.HERE]
    yield run.number(case, "placed, no questions", Kind.PER_SECOND, quiet.rate, informal=True)
    yield run.number(case, "placed, eight ask", Kind.PER_SECOND, here.rate, informal=True)
    yield run.number(case, "answers", Kind.PER_SECOND, here.answers / here.seconds, informal=True)
    yield run.number(case, "throughput kept", Kind.PERCENT, 100 * here.rate / quiet.rate, target=_THROUGHPUT_KEPT)


def _alone_figures(run: Run, case: str, found: dict[Asked, Bursts]) -> Iterator[Figure]:
    quiet, busy, here = (found[one] for one in (Asked.NOBODY, Asked.ELSEWHERE, Asked.HERE))
    yield run.number(case, "placed, no questions", Kind.PER_SECOND, quiet.rate, informal=True)
    yield run.number(case, "placed, eight ask elsewhere", Kind.PER_SECOND, busy.rate, informal=True)
    yield run.number(case, "placed, eight ask", Kind.PER_SECOND, here.rate, informal=True)
    yield run.number(case, "answers", Kind.PER_SECOND, here.answers / here.seconds, informal=True)
    for name, one in (("no questions", quiet), ("eight ask elsewhere", busy), ("eight ask", here)):
        yield run.number(case, f"CPU, {name}", Kind.MILLISECONDS, one.cpu * _NANOSECONDS, informal=True)
    yield run.number(case, "throughput kept", Kind.PERCENT, 100 * here.rate / busy.rate, target=_THROUGHPUT_KEPT)


# --- arrangements -----------------------------------------------------------------------------------------------------


async def beside(target: str, size: Size) -> dict[Asked, Bursts]:
    """The API is in the scheduler's own process."""
    found = {asked: Bursts() for asked in (Asked.NOBODY, Asked.HERE)}
    async with _scene(target, size) as scene:
        for number, asked in enumerate(_turns(found, size)):
            with answering(scene.hub, ["tests.bench.beside"]) as both:
                callers = both if asked is Asked.HERE else None
                await _add(found[asked], scene, both, callers, run=f"beside-{number}", count=size.placements)
    return found


async def alone(target: str, size: Size) -> dict[Asked, Bursts]:
    """The API is a process of its own, and so is one for another hub: both are there all the time, asked or not."""
    found = {asked: Bursts() for asked in Asked}
    async with _scene(target, size) as scene, _scene(EMBEDDED, size) as other:
        with answering_alone(scene.hub) as here, answering_alone(other.hub) as elsewhere:
            servers = {Asked.HERE: here, Asked.ELSEWHERE: elsewhere}
            for number, asked in enumerate(_turns(found, size)):
                with scheduler(scene.hub) as worker:
                    callers = servers.get(asked)
                    await _add(found[asked], scene, worker, callers, run=f"alone-{number}", count=size.placements)
    return found


def _turns(kinds: dict[Asked, Bursts], size: Size) -> list[Asked]:
    """There and back again: a hub that grows and a machine that gets warm favour nobody."""
    return [*kinds, *reversed(kinds)] * size.rounds


@asynccontextmanager
async def _scene(target: str, size: Size) -> AsyncIterator[Scene]:
    with serving(target) as hub:
        async with Traffic.to(hub) as traffic:
            await join(traffic, size.clusters)
            questions = await create_questions(traffic)
            paths = tuple(f"{path}?{_EVERYTHING}" for several in questions.values() for path in several)
            yield Scene(hub, traffic, paths)


async def _add(bursts: Bursts, scene: Scene, worker: Worker, asked: Server | None, *, run: str, count: int) -> None:
    await worker.ready()
    warm = await create_placements(scene.traffic, f"{run}-warm", SPREAD, _WARMING_UP)
    await burst(scene.traffic, worker, warm, run=f"{run}-warm", form=SPREAD)
    placements = await create_placements(scene.traffic, run, SPREAD, count)
    async with _asking(asked, scene.paths) as callers:
        placed = await burst(scene.traffic, worker, placements, run=run, form=SPREAD)
        bursts.answers += callers.answered
    bursts.placements += count
    bursts.seconds += placed.times.span
    bursts.cpu_seconds += placed.cpu_seconds


@asynccontextmanager
async def _asking(server: Server | None, paths: Iterable[str]) -> AsyncIterator[Callers]:
    if server is None:
        yield Callers()
        return
    async with asking(server, tuple(paths)) as callers:
        yield callers
