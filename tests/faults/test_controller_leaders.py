"""Who takes over decides on what is there, not on what it had heard of while it waited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Final

import pytest

from fleet.kube.api import Request
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.manager.manager import Manager
from tests.e2e.world import World, configured
from tests.faults.controller.faults import is_watch
from tests.faults.controller.guard import Guard
from tests.faults.controller.line import Broken, Fault, Faults, Line, fair
from tests.faults.controller.outcome import outcome_of
from tests.faults.controller.scenario import place, prepare, want_more
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import EPOCH, VirtualClock, run_virtually

pytestmark = pytest.mark.timeout(300)

LONGER_THAN_A_LEASE: Final = 90.0
DEAF_TO: Final = [flavour.binding.plural for flavour in (CLUSTER_SCOPED, NAMESPACED)]


def deaf(_: int, request: Request) -> Fault:
    """Watches of bindings open and never say anything."""
    plural = request.path.rpartition("/")[2]
    return Broken("silent") if is_watch(request) and plural in DEAF_TO else None


class Candidate:
    def __init__(
        self, hub: HubApi, clock: VirtualClock, name: str, *, faults: Faults = fair, file: Path | None = None
    ) -> None:
        self.line = Line(hub, faults=faults, rng=Random(name))
        settings = configured("eligibility.heartbeatTimeout=8760h", file=file)
        jitter = Random(name).random
        controller = Manager(self.line, settings, elects=True, clock=clock, jitter=jitter, identity=name)
        self.controller = controller
        self.running = asyncio.create_task(controller.run(), name=name)

    async def die(self) -> None:
        self.line.cut(None)
        self.running.cancel()
        await asyncio.wait({self.running})

    def writes(self) -> Iterator[str]:
        """Without those about the lease."""
        asked = (one for one in self.line.requests if one.is_write and "/leases" not in one.path)
        return (f"{one.method} {one.path}" for one in asked)


@asynccontextmanager
async def a_pair(*, faults: Faults = fair) -> AsyncIterator[tuple[VirtualClock, HubApi, World, Candidate, Candidate]]:
    """A leader at work, and a standby with these faults that leads in the end."""
    clock = VirtualClock()
    clock.set_by = datetime.now(UTC) - EPOCH
    hub, guard = a_hub(clock=lambda: clock.now().timestamp()), Guard()
    guard.watch(hub.hub.store)
    world = World(hub)
    await prepare(world)
    first = Candidate(hub, clock, "first")
    await first.controller.ready()
    second = Candidate(hub, clock, "second", faults=faults)
    await place(world)
    yield clock, hub, world, first, second
    assert guard.broken == []
    await second.die()


async def a_deaf_standby_takes_over() -> None:
    async with a_pair(faults=deaf) as (_, hub, world, first, second):
        await asyncio.sleep(LONGER_THAN_A_LEASE / 3)
        settled = outcome_of(hub.hub)
        assert len(settled[CLUSTER_SCOPED.binding.plural]) > 0
        assert not second.controller.is_working

        await first.die()
        await second.controller.ready()
        await asyncio.sleep(5)
        assert list(second.writes()) == []
        assert outcome_of(hub.hub) == settled

        await want_more(world)
        await asyncio.sleep(5)
        assert len(await world.in_use("some")) == len(await world.in_use("shop/some")) == 5


def test_a_standby_that_heard_nothing_of_bindings_takes_over_without_a_single_write() -> None:
    run_virtually(a_deaf_standby_takes_over())


async def a_standby_takes_over() -> None:
    async with a_pair() as (clock, _, world, first, second):
        await asyncio.sleep(LONGER_THAN_A_LEASE)
        assert not second.controller.is_working
        assert list(second.writes()) == []

        await want_more(world)
        died = clock.monotonic()
        await first.die()
        while not second.controller.is_working:
            await asyncio.sleep(0.1)
        lease = configured().leader_election
        assert clock.monotonic() - died <= lease.lease_duration.seconds + lease.retry_period.seconds
        await asyncio.sleep(5)
        assert len(await world.in_use("some")) == len(await world.in_use("shop/some")) == 5


def test_C_10_a_standby_takes_over_within_lease_and_retry_and_nothing_is_bound_twice() -> None:
    run_virtually(a_standby_takes_over())
