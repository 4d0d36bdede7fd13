"""A controller and an API beside the clients: killed, stopped, started again, and held to what placements ask for."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

from fleet.clock import SystemClock
from fleet.errors import AlreadyExists, ApiError
from fleet.history import migrate
from fleet.kube.client.transport import Transport
from tests.control_plane.process import ServerProcess
from tests.e2e.world import World
from tests.faults.controller.processes import Process
from tests.robustness.clocks import give_clock
from tests.robustness.faults import HubProcess
from tests.robustness.requests import NoAnswer, request

CLUSTERS: Final = 6
PLACEMENTS: Final = ("p0", "p1", "p2")
SECONDS_TO_CONVERGE: Final = 600.0
_LEASE: Final = (
    "leaderElection.leaseDuration=15s",
    "leaderElection.renewDeadline=10s",
    "leaderElection.retryPeriod=2s",
)


class FleetProcesses:
    """What runs on the hub, as processes of their own."""

    def __init__(
        self,
        folder: Path,
        world: World,
        *,
        kubeconfig: Path,
        token: str,
        history: str = "",
        settings: tuple[str, ...] = _LEASE,
        api_ready: Path | None = None,
    ) -> None:
        """`token` is of a caller of the API; `history` is the URL of a current database, or empty for a file in the
        folder. `settings` are of the controller; `api_ready` is where the API of another process says where it is."""
        self._world = world
        self._token = token
        self._wanted = dict.fromkeys(PLACEMENTS, 1)
        self.history_file = folder / "history.sqlite"
        if not history:
            history = f"sqlite:///{self.history_file}"
            migrate(history)
        settings = (*settings, f"history.url={history}")
        self.controller = give_clock(Process(folder, kubeconfig, settings=settings).server)
        own_ready = folder / "api.json"
        self._api_ready = api_ready or own_ready
        command = [sys.executable, "-m", "fleet.cli", "api", "--address", "127.0.0.1:0"]
        files = ["--kubeconfig", str(kubeconfig), "--ready-file", str(own_ready), "--set", f"history.url={history}"]
        self.api = give_clock(ServerProcess([*command, *files], log=folder / "api.log"))

    async def prepare(self) -> None:
        for number in range(CLUSTERS):
            await self._world.join(f"cluster-{number}")
        for name in PLACEMENTS:
            await self._world.place(name, {"placementType": "PickN", "numberOfClusters": 1})

    async def supervise(self) -> None:
        """Starts what has ended, as a cluster does with containers."""
        while True:
            if not self.controller.is_running:
                self.controller.start()
            if not self.api.is_running:
                self.start_api()
            await asyncio.sleep(0.1)

    def start_api(self) -> None:
        self._api_ready.unlink(missing_ok=True)
        self.api.start()

    @property
    def is_api_ready(self) -> bool:
        return self._api_ready.exists()

    @asynccontextmanager
    async def supervised(self) -> AsyncIterator[None]:
        supervision = asyncio.create_task(self.supervise(), name="supervision")
        try:
            yield
        finally:
            supervision.cancel()
            await asyncio.wait({supervision})
            self.stop()

    async def edit(self, rng: Random) -> None:
        """Asks for other numbers of clusters, until cancelled."""
        while True:
            name, number = rng.choice(PLACEMENTS), rng.randint(1, CLUSTERS)
            await _insist(lambda: self._world.edit_policy(name, numberOfClusters=number))  # noqa: B023
            self._wanted[name] = number
            await asyncio.sleep(rng.uniform(0.0, 0.5))

    async def change_and_check(self) -> list[str]:
        """What `check` finds after every placement got another number of clusters."""
        self._wanted = {name: number % CLUSTERS + 1 for name, number in self._wanted.items()}
        return await self.check()

    async def check(self) -> list[str]:
        """Violations that remain although the fleet had time to converge."""
        for name, number in self._wanted.items():  # an edit that was cut off may have been applied, or not
            await _insist(lambda: self._world.edit_policy(name, numberOfClusters=number))  # noqa: B023
        violations = ["never looked"]
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_TO_CONVERGE):
                while violations:
                    with suppress(ApiError):
                        violations = await self._find_violations()
                    await asyncio.sleep(0.1)
        return violations

    async def _find_violations(self) -> list[str]:
        violations = []
        for name, number in self._wanted.items():
            states = await self._world.states(name)
            used = [cluster for cluster, state in states.items() if state in ("Scheduled", "Bound")]
            if doubled := [cluster for cluster, state in states.items() if "+" in state]:
                violations.append(f"{name} has several bindings for {', '.join(doubled)}")
            if len(used) != number:
                violations.append(f"{name} uses {len(used)} clusters instead of {number}")
            if await self._world.scheduled(name) is None:
                violations.append(f"the status of {name} is not of its last change")
            if (code := await self.ask_why(name)) != 200:
                violations.append(f"the API answers {code} about {name}")
        return violations

    async def ask_why(self, name: str) -> int:
        """The status code, or 0 without an answer."""
        return (await self.ask(f"/v1/placements/-/{name}/why"))[0]

    async def find_unrecorded(self) -> list[str]:
        """Placements whose last change is not in the history, although the history had time to recover."""
        unrecorded = ["never looked"]
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_TO_CONVERGE):
                while unrecorded:
                    unrecorded = [name for name in PLACEMENTS if not await self._is_recorded(name)]
                    await asyncio.sleep(0.1)
        return [f"the last decision of {name} is not in the history" for name in unrecorded]

    async def _is_recorded(self, name: str) -> bool:
        generation = (await self._world.placement(name))["metadata"]["generation"]
        _, page = await self.ask(f"/v1/placements/-/{name}/history")
        newest = (page.get("items") or [{}])[0]
        return (newest.get("generation"), newest.get("wanted")) == (generation, self._wanted[name])

    async def wait_until_told(self, *, is_unavailable: bool) -> list[str]:
        """Until the probe of the API tells so of the history; it is ready in any case."""
        seen: tuple[int, dict[str, Any]] = (0, {})
        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS_TO_CONVERGE):
                while True:
                    code, document = seen = await self.ask("/readyz")
                    if code == 200 and (document["status"] == "degraded") == is_unavailable:
                        return []
                    await asyncio.sleep(0.1)
        return [f"the API never told that the history is {'un' * is_unavailable}available: {seen}"]

    async def ask(self, path: str) -> tuple[int, dict[str, Any]]:
        """The status code and the answer of the API; 0 without one."""
        try:
            port = int(json.loads(self._api_ready.read_text())["api"].rpartition(":")[2])
            return await request(port, "GET", path, token=self._token)
        except (OSError, NoAnswer):
            return 0, {}

    def stop(self) -> None:
        self.controller.stop()
        self.api.stop()


@asynccontextmanager
async def fleet_on(
    folder: Path, hub: HubProcess, *, history: str = "", settings: tuple[str, ...] = ()
) -> AsyncIterator[FleetProcesses]:
    """As `FleetProcesses` takes them, with a lease and a supervisor."""
    kubeconfig = write_kubeconfig(folder, hub.forwarder.port)
    async with await Transport.from_kubeconfig(kubeconfig, clock=SystemClock()) as transport:
        world = World(transport)
        fleet = FleetProcesses(
            folder, world, kubeconfig=kubeconfig, token=hub.token, history=history, settings=(*_LEASE, *settings)
        )
        await fleet.prepare()
        async with fleet.supervised():
            yield fleet


async def _insist(call: Callable[[], Awaitable[Any]]) -> None:
    while True:
        try:
            await call()
        except AlreadyExists:
            return
        except ApiError:
            await asyncio.sleep(0.05)
        else:
            return


def write_kubeconfig(folder: Path, port: int) -> Path:
    """For the port of a forwarder, which stays."""
    cluster = {"name": "hub", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "hub", "context": {"cluster": "hub", "user": "local"}}
    document = {"apiVersion": "v1", "kind": "Config", "current-context": "hub", "contexts": [context]}
    path = folder / "kubeconfig"
    path.write_text(json.dumps({**document, "clusters": [cluster], "users": [{"name": "local", "user": {}}]}))
    return path
