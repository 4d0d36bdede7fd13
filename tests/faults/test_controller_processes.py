"""Real processes on real hubs: killed at random moments, or stopped for longer than their lease and continued."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

import pytest

from fleet.clock import SystemClock
from fleet.demo.agents import RolloutSimulator
from fleet.errors import ApiError
from fleet.kube.lease import LEASES
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.placement.status.namespaced_status import COPIES
from fleet.settings import Settings
from tests.conformance.targets import targets
from tests.control_plane.access import Access
from tests.e2e.hub import Hub, fresh_access
from tests.e2e.world import World
from tests.faults.controller.outcome import Outcome, difference, outcome_of_all
from tests.faults.controller.processes import Process
from tests.faults.controller.proxy import Proxy, a_proxy
from tests.faults.controller.scenario import STEPS, prepare
from tests.faults.controller.stage import checkpoints
from tests.faults.virtual import no_jitter

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.servers,
    pytest.mark.early,
]  # processes that are killed for a minute

LEASE: Final = Settings().leader_election.key
SHORT_LEASE: Final = (
    "leaderElection.leaseDuration=5s",
    "leaderElection.renewDeadline=4s",
    "leaderElection.retryPeriod=500ms",
)
PATIENCE: Final = 120.0
AMID_DEATHS: Final = 300.0
"""Seconds for a step while the controller dies: on a slow machine most of its lives end before they begin to work."""


@pytest.fixture(scope="module", params=targets())
def target(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def access(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with fresh_access(target, tmp_path_factory.mktemp(f"faults-{target}") / "hub") as access:
        yield access


@pytest.fixture
def hub(target: str, access: Access) -> Hub:
    found = Hub(target, access)
    found.empty()
    return found


# --- killed -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def acted_on(hub: Hub) -> AsyncIterator[World]:
    """With a stand-in for rollout beside."""
    async with hub.connected() as own, hub.connected() as around, asyncio.TaskGroup() as group:
        stand_in = group.create_task(RolloutSimulator(around, clock=SystemClock(), jitter=no_jitter).run())
        yield World(own)
        stand_in.cancel()


def collected(outcome: Outcome) -> Outcome:
    """Without what only a garbage collector takes away: a bare API server has none."""
    return {kind: found for kind, found in outcome.items() if kind != COPIES.plural}


async def reach(world: World, wanted: Outcome, *, killing: asyncio.Task[None] | None = None) -> None:
    deadline = asyncio.get_running_loop().time() + AMID_DEATHS
    while (found := collected(await outcome_of_all(world.all))) != collected(wanted):
        assert asyncio.get_running_loop().time() < deadline, difference(found, collected(wanted))
        assert killing is None or not killing.done() or killing.exception() is None
        await asyncio.sleep(0.1)


async def die_often(process: Process, rng: Random, deaths: int) -> None:
    """While it starts, or some time after it has begun to work."""
    for _ in range(deaths):
        process.start()
        if rng.random() < 0.7:
            await process.works(within=PATIENCE)
        await asyncio.sleep(rng.uniform(0.0, 1.5))
        assert process.server.is_running, process.server.last_words()
        process.server.kill()
    process.start()


async def killed_and_right(hub: Hub, folder: Path, outcomes: list[Outcome], *, seed: int, deaths: int) -> None:
    rng = Random(seed)
    process = Process(folder, hub.access.kubeconfig, ("leaderElection.leaderElect=false",))
    try:
        async with acted_on(hub) as world:
            await prepare(world)
            killing = asyncio.create_task(die_often(process, rng, deaths))
            for step, outcome in zip(STEPS, outcomes, strict=True):
                await step(world)
                await reach(world, outcome, killing=killing)
            await killing
            await asyncio.sleep(3)
            await reach(world, outcomes[-1])
    finally:
        process.server.kill()


@pytest.mark.parametrize("seed", [7])
def test_a_process_that_is_killed_again_and_again_ends_where_it_should(
    hub: Hub, tmp_path: Path, seed: int, *, long: bool
) -> None:
    outcomes = [one.outcome for one in checkpoints()[1:]]
    asyncio.run(killed_and_right(hub, tmp_path, outcomes, seed=seed, deaths=100 if long else 12))


# --- stopped and continued --------------------------------------------------------------------------------------------


async def holder(world: World) -> str:
    found = await world.find(LEASES, LEASE)
    return "" if found is None else str(found["spec"].get("holderIdentity") or "")


async def become_leader(world: World, process: Process, *, other_than: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while await holder(world) in ("", other_than):
        process.keep_running()
        assert asyncio.get_running_loop().time() < deadline, "nobody takes the lease"
        await asyncio.sleep(0.02)


async def keep_busy(world: World) -> None:
    """Placements come and change all the time."""
    for number in itertools.count():
        with suppress(ApiError):
            await world.place(f"p{number}", {"placementType": "PickN", "numberOfClusters": 2})
            await world.edit_policy(f"p{number // 2}", numberOfClusters=number % 3 + 1)
            if number >= 20:
                await world.delete(CLUSTER_SCOPED.placement, f"p{number - 20}")
        await asyncio.sleep(0.05)


async def at_work(world: World, processes: tuple[Process, ...], proxies: tuple[Proxy, ...]) -> tuple[int, str]:
    """Which of them leads and writes, and the name it has on the lease. Both run: who leads may change at any time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while loop.time() < deadline:
        for process in processes:
            process.keep_running()
        name, now = await holder(world), loop.time()
        await asyncio.sleep(0.2)
        writing = [number for number, proxy in enumerate(proxies) if proxy.writes(since=now)]
        if name and len(writing) == 1 and await holder(world) == name:
            return writing[0], name
    raise AssertionError("nobody leads and writes")


async def eventually_writing(process: Process, proxy: Proxy) -> None:
    now = asyncio.get_running_loop().time()
    deadline = now + PATIENCE
    while not proxy.writes(since=now):
        process.keep_running()
        assert asyncio.get_running_loop().time() < deadline, "nothing is written"
        await asyncio.sleep(0.05)


async def handed_over(hub: Hub, folder: Path, *, rounds: int) -> None:
    async with hub.connected() as own, a_proxy(hub.access) as first, a_proxy(hub.access) as second:
        world = World(own)
        await prepare(world)
        proxies = (first, second)
        processes = tuple(
            Process(folder, proxy.kubeconfig(folder), SHORT_LEASE, name=f"controller-{number}")
            for number, proxy in enumerate(proxies)
        )
        busy = asyncio.create_task(keep_busy(world))
        try:
            for _ in range(rounds):
                await depose(world, processes, proxies)
            assert not busy.done() or busy.exception() is None
        finally:
            busy.cancel()
            await asyncio.wait({busy})
            for process in processes:
                process.server.kill()


async def pause_in_waiting(process: Process, proxy: Proxy) -> None:
    """Stopped while it waits for answers, with as many writes under way as it ever has. Not between the fence and the
    socket: what has passed the fence leaves, however long the machine takes over it, and nothing can call it back."""
    proxy.hold()
    await proxy.waits(while_=lambda: process.server.is_running)
    process.server.pause()
    proxy.let_pass()


async def depose(world: World, processes: tuple[Process, ...], proxies: tuple[Proxy, ...]) -> None:
    loop = asyncio.get_running_loop()
    leading, former = await at_work(world, processes, proxies)
    next_one = 1 - leading
    await pause_in_waiting(processes[leading], proxies[leading])
    await become_leader(world, processes[next_one], other_than=former)
    taken_over_at = loop.time()
    await eventually_writing(processes[next_one], proxies[next_one])
    processes[leading].server.resume()
    assert await processes[leading].ended(within=PATIENCE), "a deposed leader goes on"
    await eventually_writing(processes[next_one], proxies[next_one])
    assert proxies[leading].writes(since=taken_over_at) == []


def test_a_leader_that_was_stopped_beyond_its_lease_writes_nothing_when_it_is_continued(
    hub: Hub, tmp_path: Path, *, long: bool
) -> None:
    asyncio.run(handed_over(hub, tmp_path, rounds=10 if long else 3))
