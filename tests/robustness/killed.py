"""What is killed by `make kills`, each on a stage with the rest of the fleet beside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from fleet.clock import SystemClock
from fleet.history import migrate
from fleet.kube.client.transport import Transport
from tests.conformance.crds import install_crds
from tests.control_plane.access import ADMIN
from tests.control_plane.assets import assets
from tests.control_plane.instance import ControlPlane
from tests.control_plane.process import ServerProcess
from tests.e2e.hub import LEASE_NAMESPACE
from tests.e2e.world import NAMESPACES, World
from tests.faults.controller.processes import SETTINGS
from tests.postgres import Postgres, running_postgres
from tests.robustness import power
from tests.robustness.faults import SECONDS_TO_START, HubProcess
from tests.robustness.fleet import FleetProcesses, write_kubeconfig
from tests.robustness.forwarder import forwarding

UP, CONTROLLER, API, ETCD, POSTGRESQL = "up", "controller", "api", "etcd", "postgresql"
NAMES: Final = (UP, CONTROLLER, API, ETCD, POSTGRESQL)
_SHARE_OF_POWER: Final = 0.2
_SHARE_AT_START: Final = 0.5
_SHARE_OF_STOPS: Final = 0.3
_LONGEST_LIFE: Final = 2.0
"""Seconds."""
_LONGEST_OUTAGE: Final = 1.0
_WITHOUT_LEASE: Final = ("leaderElection.leaderElect=false",)
"""There is none of a killed one to wait for."""


@dataclass
class KillReport:
    kills: int = 0
    at_start: int = 0
    """Of the kills, those of a process that was not ready yet."""
    of_power: int = 0
    stops: int = 0
    """Of the kills, those that were a SIGSTOP, with SIGCONT after a while."""
    acknowledged: int = 0
    checkpoints: int = 0
    slowest: float = 0.0
    """Seconds from the last start until everything was as it has to be."""
    violations: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def describe(self) -> str:
        counts = f"{self.kills} kills, {self.at_start} of them at start, {self.of_power} with lost unsynced writes and "
        counts += f"{self.stops} stops instead"
        found = f"{len(self.violations)} violations" if self.violations else "no violation"
        settled = f"{self.checkpoints} checkpoints, each after at most {self.slowest:.1f} s"
        return f"{counts}; {self.acknowledged} acknowledged writes; {settled}: {found}; {self.seconds:.0f} s"


class Killed(Protocol):
    async def kill(self, report: KillReport) -> None: ...

    async def settle(self) -> None:
        """Lets it run undisturbed."""

    async def resume(self) -> None:
        """After `settle`, before the next kill."""

    async def check(self) -> list[str]:
        """Violations of what is promised of it in particular, while it runs undisturbed."""


@dataclass(frozen=True)
class Stage:
    world: World
    fleet: FleetProcesses
    killed: Killed


class KilledUp:
    """`fleet up` with a data directory: the hub, the controllers and the API in one process."""

    def __init__(self, hub: HubProcess, rng: Random) -> None:
        self._hub, self._rng = hub, rng

    async def kill(self, report: KillReport) -> None:
        if self._rng.random() < _SHARE_AT_START:
            self._hub.launch()
            await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_LIFE))
            report.at_start += not self._hub.is_ready
        else:
            await self._hub.start()
            await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_LIFE))
        if power.IS_POSSIBLE and self._rng.random() < _SHARE_OF_POWER:
            self._hub.lose_power()
            report.of_power += 1
        else:
            self._hub.kill()

    async def settle(self) -> None:
        await self._hub.start()

    async def resume(self) -> None:
        self._hub.kill()

    async def check(self) -> list[str]:
        return []


class KilledProcess:
    """The controller or the API."""

    def __init__(
        self, process: ServerProcess, start: Callable[[], None], is_ready: Callable[[], bool], rng: Random
    ) -> None:
        self._process, self._start, self._is_ready, self._rng = process, start, is_ready, rng

    async def kill(self, report: KillReport) -> None:
        self._start()
        if self._rng.random() >= _SHARE_AT_START:
            await _wait_for(self._is_ready)
        await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_LIFE))
        report.at_start += not self._is_ready()
        self._process.kill()

    async def settle(self) -> None:
        self._start()

    async def resume(self) -> None:
        self._process.kill()

    async def check(self) -> list[str]:
        return []


class KilledEtcd:
    """Under the API server, which goes on."""

    def __init__(self, control_plane: ControlPlane, rng: Random) -> None:
        self._control_plane, self._rng = control_plane, rng

    async def kill(self, report: KillReport) -> None:
        if self._rng.random() >= _SHARE_AT_START:
            await self.settle()
        await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_LIFE))
        report.at_start += not await asyncio.to_thread(self._control_plane.is_ready)
        await asyncio.to_thread(self._control_plane.etcd.kill)
        await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_OUTAGE))
        self._control_plane.etcd.start()

    async def settle(self) -> None:
        if not self._control_plane.api_server.is_running:
            self._control_plane.api_server.start()
        await asyncio.to_thread(self._control_plane.wait_until_ready)

    async def resume(self) -> None:
        pass

    async def check(self) -> list[str]:
        return []


class KilledPostgres:
    """The history's server: while it is away or silent, placements are decided and explained."""

    def __init__(self, server: Postgres, fleet: FleetProcesses, rng: Random) -> None:
        self._server, self._fleet, self._rng = server, fleet, rng

    async def kill(self, report: KillReport) -> None:
        await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_LIFE))
        is_stop = self._rng.random() < _SHARE_OF_STOPS
        async with self._away(is_stop=is_stop):
            await asyncio.sleep(self._rng.uniform(0.0, _LONGEST_OUTAGE))
        report.stops += is_stop

    async def settle(self) -> None:
        pass

    async def resume(self) -> None:
        pass

    async def check(self) -> list[str]:
        async with self._away(is_stop=self._rng.random() < _SHARE_AT_START):
            violations = await self._fleet.change_and_check()
            violations += await self._fleet.wait_until_told(is_unavailable=True)
        violations += await self._fleet.wait_until_told(is_unavailable=False)
        return [*violations, *await self._fleet.find_unrecorded()]

    @asynccontextmanager
    async def _away(self, *, is_stop: bool) -> AsyncIterator[None]:
        if is_stop:
            with self._server.paused():
                yield
            return
        await asyncio.to_thread(self._server.kill)
        try:
            yield
        finally:
            await asyncio.to_thread(self._server.start_again)


async def _wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_TO_START):
        while not is_so():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def staged(folder: Path, process: str, rng: Random) -> AsyncIterator[Stage]:
    open_stage = _on_api_server if process == ETCD else _on_hub
    async with open_stage(folder, process, rng) as stage:
        yield stage


@asynccontextmanager
async def _on_hub(folder: Path, process: str, rng: Random) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        forwarder = await stack.enter_async_context(forwarding())
        settings = [f"--set={each}" for each in SETTINGS]
        up = ("fleet.cli", "up", "--quiet", "--clusters", "2", *settings)
        hub = HubProcess(folder, forwarder, program=up if process == UP else ("fleet.hub",))
        stack.callback(hub.server.stop)
        await hub.start()
        options: dict[str, Any] = {"settings": _WITHOUT_LEASE, "api_ready": hub.ready_file if process == UP else None}
        server = None
        if process == POSTGRESQL:
            server = stack.enter_context(running_postgres(synchronous_commit="on"))
            options["history"] = server.url("postgres")
            migrate(options["history"])
        kubeconfig = write_kubeconfig(folder, hub.forwarder.port)
        world = World(await stack.enter_async_context(await Transport.from_kubeconfig(kubeconfig, clock=SystemClock())))
        fleet = FleetProcesses(folder, world, kubeconfig=kubeconfig, token=hub.token, **options)
        stack.callback(fleet.stop)
        await fleet.prepare()
        match process:
            case "up":
                hub.kill()
                yield Stage(world, fleet, KilledUp(hub, rng))
            case "controller":
                fleet.start_api()
                starts = _Starts(fleet.controller)
                yield Stage(world, fleet, KilledProcess(fleet.controller, starts.start, starts.has_begun, rng))
            case "api":
                fleet.controller.start()
                yield Stage(world, fleet, KilledProcess(fleet.api, fleet.start_api, lambda: fleet.is_api_ready, rng))
            case _:
                assert server is not None
                await stack.enter_async_context(fleet.supervised())
                yield Stage(world, fleet, KilledPostgres(server, fleet, rng))


@asynccontextmanager
async def _on_api_server(folder: Path, process: str, rng: Random) -> AsyncIterator[Stage]:
    del process
    async with AsyncExitStack() as stack:
        control_plane = ControlPlane(folder / "control-plane", programs=assets())
        stack.callback(control_plane.stop)
        await asyncio.to_thread(control_plane.start)
        access = control_plane.access
        await asyncio.to_thread(install_crds, access)
        transport = await Transport.from_kubeconfig(access.kubeconfig, clock=SystemClock())
        world = World(await stack.enter_async_context(transport))
        fleet = FleetProcesses(folder, world, kubeconfig=access.kubeconfig, token=access.tokens[ADMIN])
        await world.create(NAMESPACES, {"metadata": {"name": LEASE_NAMESPACE}})
        await fleet.prepare()
        await stack.enter_async_context(fleet.supervised())
        yield Stage(world, fleet, KilledEtcd(control_plane, rng))


class _Starts:
    """Of a controller, as its log has them."""

    def __init__(self, controller: ServerProcess) -> None:
        self._controller, self._before = controller, 0

    def start(self) -> None:
        self._before = self._count()
        self._controller.start()

    def has_begun(self) -> bool:
        return self._count() > self._before

    def _count(self) -> int:
        log = self._controller.log
        return log.read_bytes().count(b'"event":"leader: controllers started"') if log.exists() else 0
