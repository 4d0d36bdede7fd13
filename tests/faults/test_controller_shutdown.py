"""A process that was asked to stop ends in time, also where the server takes every request and answers none."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from fleet.kube.lease import LEASES
from fleet.manager.manager import Manager
from fleet.settings import Settings
from tests.e2e.hub import Hub, fresh_access
from tests.e2e.world import World, configured
from tests.fake_hub import Faults, FaultyApi, Slow, fair
from tests.faults.controller.processes import Process
from tests.faults.controller.proxy import a_proxy
from tests.faults.controller.scenario import prepare
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.scripted import Hang
from tests.faults.virtual import VirtualClock, no_jitter, within

pytestmark = pytest.mark.timeout(300)

GRACE: Final = 7.0
RELEASE: Final = 5.0
"""Seconds that giving the lease back may take."""
LEASE: Final = Settings().leader_election.key
LEASE_PATH: Final = LEASES.item(LEASE)
ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}


def slow_writes(seconds: float) -> Faults:
    return lambda request: Slow(seconds) if request.is_write else None


class Ending:
    """A leader at rest on a hub, about to be asked to stop."""

    def __init__(self, hub: HubApi, api: FaultyApi, controller: Manager, running: asyncio.Task[None]) -> None:
        self.hub = hub
        self.api = api
        self.controller = controller
        self.user = World(hub)
        self._running = running

    async def stop(self) -> float:
        """How many seconds it takes."""
        asked_at = asyncio.get_running_loop().time()
        self.controller.stop()
        await self._running
        return asyncio.get_running_loop().time() - asked_at

    def writes(self) -> list[str]:
        """That met a fault, without those about the lease."""
        return [f"{one.method} {one.path}" for one in self.api.met if one.is_write and one.path != LEASE_PATH]

    async def holder(self) -> str:
        spec: dict[str, Any] = (await self.hub.get(LEASE_PATH))["spec"]
        return str(spec["holderIdentity"])


@asynccontextmanager
async def a_leader(*assignments: str) -> AsyncIterator[Ending]:
    hub = a_hub()
    await prepare(World(hub))
    settings = configured(f"shutdown.gracePeriod={GRACE:g}s", "eligibility.heartbeatTimeout=87600h", *assignments)
    api = FaultyApi(hub)
    controller = Manager(api, settings, clock=VirtualClock(), jitter=no_jitter, identity="leader")
    running = asyncio.create_task(controller.run())
    try:
        await controller.ready()
        yield Ending(hub, api, controller, running)
    finally:
        running.cancel()
        await asyncio.wait({running})


def told(entries: list[Any], beginning: str) -> dict[str, Any]:
    (found,) = [one for one in entries if one["event"].startswith(beginning)]
    return dict(found)


@within(a_leader)
async def test_what_hangs_is_cut_off_when_the_grace_period_is_over(leader: Ending) -> None:
    leader.api.fault = lambda _: Hang()
    await leader.user.place("web", ONE)
    await asyncio.sleep(1)
    assert leader.writes() == ["PUT /apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements/web"]
    with capture_logs() as entries:
        assert await leader.stop() == pytest.approx(GRACE)
    assert leader.controller.is_cut_off
    cut_off = told(entries, "grace period exceeded")
    assert cut_off["placements"] == ["web"]
    assert cut_off["writes"] == leader.writes()


@within(a_leader)
async def test_the_lease_is_left_to_expire_while_a_write_may_still_arrive(leader: Ending) -> None:
    """Although the server answers again by then."""
    leader.api.fault = slow_writes(GRACE + 10)
    await leader.user.place("web", ONE)
    await asyncio.sleep(1)
    leader.api.fault = fair
    with capture_logs() as entries:
        assert await leader.stop() == pytest.approx(GRACE)
    assert told(entries, "not releasing the lease")["writes"] == leader.writes()
    assert await leader.holder() == "leader"


@within(a_leader)
async def test_whoever_has_nothing_under_way_ends_although_the_server_hangs(leader: Ending) -> None:
    await asyncio.sleep(1)
    leader.api.fault = lambda _: Hang()
    assert await leader.stop() <= RELEASE
    assert not leader.controller.is_cut_off


@within(a_leader)
async def test_what_is_done_in_time_is_done_and_the_lease_is_given_back(leader: Ending) -> None:
    leader.api.fault = slow_writes(0.4)
    await leader.user.place("web", ONE)
    await asyncio.sleep(1)
    leader.controller.stop()
    assert await leader.stop() < GRACE + RELEASE
    assert not leader.controller.is_cut_off
    assert await leader.holder() == ""


# --- a process --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("shutdown") / "hub"
    with fresh_access("embedded", folder) as access:
        yield Hub("embedded", access)


async def stopped_amid_writes(hub: Hub, folder: Path) -> None:
    async with hub.connected() as own, a_proxy(hub.access) as proxy:
        world = World(own)
        await prepare(world)
        process = Process(folder, proxy.kubeconfig(folder), ("shutdown.gracePeriod=1s",))
        with process.server.log.open("wb") as log:
            running = await asyncio.create_subprocess_exec(*process.server.command, stdout=log, stderr=log)
        try:
            await process.works(within=120)
            held_by = (await world.get(LEASES, LEASE))["spec"]["holderIdentity"]
            await world.place("first", ONE)
            await proxy.asked_to_write("clusterresourceplacements/first")  # its watches are open
            proxy.hold_everything()
            await world.place("web", ONE)
            await proxy.asked_to_write("clusterresourceplacements/web")
            running.send_signal(signal.SIGTERM)
            async with asyncio.timeout(120):  # a request alone may take 30 s, and is repeated
                assert await running.wait() == 1
        finally:
            if running.returncode is None:
                running.kill()
                await running.wait()
        said = process.server.log.read_text(encoding="utf-8")
        assert "grace period exceeded" in said
        assert "clusterresourceplacements/web" in said
        assert (await world.get(LEASES, LEASE))["spec"]["holderIdentity"] == held_by


def test_a_process_ends_although_its_server_takes_requests_and_answers_none(hub: Hub, tmp_path: Path) -> None:
    asyncio.run(stopped_amid_writes(hub, tmp_path))
