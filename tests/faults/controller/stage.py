"""A hub in virtual time with everything around it.

A controller that is started again whenever it dies, the stand-in for rollout, somebody who acts, and the guard who
watches every write.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from fleet.demo.agents import NO_DELAYS, AgentDelays, RolloutSimulator
from fleet.hub.access.authentication import Tokens
from fleet.hub.hub import Hub
from fleet.hub.storage.entries import StoredEntry
from fleet.kube.api import Api
from fleet.manager.manager import Manager
from tests.e2e.world import World, configured
from tests.faults.controller.guard import Guard
from tests.faults.controller.line import Faults, Line, fair
from tests.faults.controller.outcome import Outcome, difference, outcome_of
from tests.faults.controller.scenario import STEPS, Step, prepare
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import EPOCH, VirtualClock, no_jitter, run_virtually

PATIENCE: Final = 900.0
"""Virtual seconds for a step. Less than the time after which everything is looked at for no reason, so that nothing can
hide behind that."""
QUIET: Final = 240.0
"""Longer than a watch may be silent, and than any wait after a failure."""
_LOOK_EVERY: Final = 0.25

Script = Callable[[int], Faults]
"""The faults of each life of the controller: first, second, …"""


def undisturbed(_: int) -> Faults:
    return fair


@dataclass
class Stage:
    hub: HubApi
    clock: VirtualClock
    rng: Random
    script: Script = undisturbed
    downtime: float = 0.0
    """Longest time between the end of one life and the beginning of the next, in seconds."""
    assignments: tuple[str, ...] = ("eligibility.heartbeatTimeout=8760h",)
    guard: Guard = field(default_factory=Guard)
    lines: list[Line] = field(default_factory=list)

    @property
    def user(self) -> World:
        return World(self.hub)

    def outcome(self) -> Outcome:
        return outcome_of(self.hub.hub)

    # --- lives --------------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """One life after another. A controller that ends on its own fails the test."""
        while True:
            dead = asyncio.Event()
            line = Line(self.hub, faults=self.script(len(self.lines)), rng=self.rng, on_kill=dead.set)
            self.lines.append(line)
            living = asyncio.create_task(self.controller(line).run(), name=f"life {len(self.lines)}")
            dying = asyncio.create_task(dead.wait(), name="death")
            try:
                await asyncio.wait({living, dying}, return_when=asyncio.FIRST_COMPLETED)
                if living.done():
                    await living
                    raise AssertionError("the controller ended on its own")
            finally:
                await _end(line, living, dying)
            await asyncio.sleep(self.rng.uniform(0, self.downtime))

    def controller(self, api: Api) -> Manager:
        return Manager(api, configured(*self.assignments), elects=False, clock=self.clock, jitter=self.rng.random)

    @property
    def is_on_the_way(self) -> bool:
        """Whether the hub may yet hear of something that a former life sent."""
        return any(line.is_cut and line.on_the_way for line in self.lines)

    async def arrival(self, key: str) -> None:
        """Until the placement has a binding."""
        while not await self.user.bindings(key):
            await asyncio.sleep(0.005)

    # --- coming to rest -----------------------------------------------------------------------------------------------

    async def rest(self) -> None:
        """Until nothing has been written for a while."""
        revision = -1
        while revision != self.hub.hub.store.revision:
            revision = self.hub.hub.store.revision
            await asyncio.sleep(QUIET)
        self.guard.at_rest()

    async def reach(self, wanted: Outcome) -> None:
        """Until the hub is as it should be."""
        loop, seen = asyncio.get_running_loop(), -1
        deadline = loop.time() + PATIENCE
        while True:
            if not self.is_on_the_way and seen != self.hub.hub.store.revision:
                seen = self.hub.hub.store.revision
                if self.outcome() == wanted:
                    self.guard.at_rest()
                    return
            assert loop.time() < deadline, self._told(f"not reached within {PATIENCE:g} s", wanted)
            await asyncio.sleep(_LOOK_EVERY)

    async def stay(self, wanted: Outcome) -> None:
        """Whatever is still on its way changes nothing any more."""
        await self.rest()
        assert self.outcome() == wanted, self._told("not stable", wanted)
        self.check()

    def check(self) -> None:
        assert not self.guard.broken, self._told("\n".join(self.guard.broken))

    def _told(self, what: str, wanted: Outcome | None = None) -> str:
        met = [f"{request.method} {request.path}: {fault}" for line in self.lines for request, fault in line.met]
        lines = [what, *(f"fault: {one}" for one in met)]
        return "\n".join(lines) + ("" if wanted is None else "\n" + difference(self.outcome(), wanted))


@dataclass(frozen=True)
class Checkpoint:
    """A hub at rest, to go on from as often as needed."""

    revision: int
    entries: tuple[tuple[str, StoredEntry], ...]
    elapsed: float
    outcome: Outcome

    @classmethod
    def of(cls, stage: Stage) -> Checkpoint:
        store = stage.hub.hub.store
        entries = tuple((one.resource, entry) for one in store.collections for entry in one.scan())
        return cls(store.revision, entries, stage.clock.monotonic(), stage.outcome())


@asynccontextmanager
async def staged(
    start: Checkpoint | None = None,
    *,
    seed: int = 0,
    script: Script = undisturbed,
    downtime: float = 0.0,
    delays: AgentDelays = NO_DELAYS,
) -> AsyncIterator[Stage]:
    """From the beginning, or from a checkpoint on; with the delays of the stand-in for rollout."""
    rng, clock = Random(seed), VirtualClock()
    clock.set_by = datetime.now(UTC) - EPOCH  # heartbeats are written by the test in real time
    hub = await _hub(start, clock)
    stage = Stage(hub, clock, rng, script, downtime)
    stage.guard.watch(hub.hub.store)
    around = Line(hub, rng=rng)
    stand_in = RolloutSimulator(around, clock=clock, jitter=no_jitter, pace=delays)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(stand_in.run()), group.create_task(stage.live())]
        yield stage
        for task in tasks:
            task.cancel()


async def _hub(start: Checkpoint | None, clock: VirtualClock) -> HubApi:
    def time() -> float:
        return clock.now().timestamp()

    if start is None:
        hub = a_hub(clock=time)
        await prepare(World(hub))
        return hub
    clock.set_by += timedelta(seconds=start.elapsed)
    return HubApi(Hub(Tokens({}), revision=start.revision, entries=start.entries, clock=time))


async def play(stage: Stage, steps: Sequence[Step] = STEPS) -> list[Checkpoint]:
    """Each step from rest to rest; what the hub was like before the first, and at the end of each."""
    await stage.rest()
    checkpoints = [Checkpoint.of(stage)]
    for step in steps:
        await step(stage.user)
        await stage.rest()
        checkpoints.append(Checkpoint.of(stage))
    stage.check()
    return checkpoints


async def replay(stage: Stage, outcomes: Sequence[Outcome], steps: Sequence[Step] = STEPS) -> None:
    """Whatever happens on the way, each step ends as it did before."""
    for step, outcome in zip(steps, outcomes, strict=True):
        await step(stage.user)
        await stage.reach(outcome)
    await stage.stay(outcomes[-1])


@functools.cache
def checkpoints() -> tuple[Checkpoint, ...]:
    """Of the undisturbed run: before the first step, and after each."""

    async def run() -> tuple[Checkpoint, ...]:
        async with staged() as stage:
            return tuple(await play(stage))

    return run_virtually(run())


async def _end(line: Line, living: asyncio.Task[None], dying: asyncio.Task[bool]) -> None:
    if not line.is_cut:
        line.cut(None)
    for task in (living, dying):
        task.cancel()
    await asyncio.wait({living, dying})
    with suppress(asyncio.CancelledError, BaseException):
        living.result()
