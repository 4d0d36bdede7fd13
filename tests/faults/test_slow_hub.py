"""A hub that takes its time: attempts go on, calls wait in order, and the end comes all the same. In virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from fleet.errors import QueueClosed
from fleet.kube.api import Api, Method, Request
from fleet.kube.client.rate_limiter import RateLimit, RateLimiter
from fleet.scheduler.dispatch.call_queue import Call, CallResult, CallType
from tests.e2e.world import World
from tests.fake_hub import Slow
from tests.faults.acting import running
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.virtual import VirtualClock, virtual

DEFAULT: Final = "api: {}\n"
ONE: Final[dict[str, Any]] = {"placementType": "PickN", "numberOfClusters": 1}


class Pace:
    """How long each write takes; none until a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slowed: list[str] = []

    def __call__(self, request: Request) -> Slow | None:
        if not request.is_write or not self.seconds:
            return None
        self.slowed.append(request.path)
        return Slow(self.seconds)


async def a_fleet(*names: str) -> tuple[HubApi, World]:
    hub = a_hub()
    world = World(hub)
    for name in names:
        await world.join(name)
    return hub, world


@virtual
async def test_attempts_do_not_wait_for_each_others_writes(tmp_path: Path) -> None:
    """One worker, two seconds a write, and twenty placements that one cluster helps: 40 s one after the other."""
    hub, world = await a_fleet()
    pace = Pace()
    names = [f"web-{number}" for number in range(20)]
    async with running(hub, tmp_path / "fleet.yaml", DEFAULT, "workers=1", fault=pace):
        for name in names:
            await world.place(name, ONE)
        for name in names:
            await world.soon_scheduled(name, status="False")
        pace.seconds = 2
        started = asyncio.get_running_loop().time()
        await world.join("ams")
        for name in names:
            await world.soon_on(name, "ams")
        assert asyncio.get_running_loop().time() - started < 3
        assert len([path for path in pace.slowed if path.endswith("bindings")]) == len(names)


# --- the calls of a running controller --------------------------------------------------------------------------------


class Counting:
    """The line to the hub: notes how many writes about an object are under way at a time, and holds writes to the rates
    of their classes."""

    def __init__(self, api: Api, *, seconds: float = 0, **rates: float) -> None:
        self.most: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._api, self._seconds = api, seconds
        limits = {call_class: RateLimit(rate, 1) for call_class, rate in rates.items()}
        self._limiter = RateLimiter(VirtualClock(), limits)

    async def call(self, request: Request) -> bytes:
        if not request.is_write or request.call_class not in ("bind", "status"):
            return await self._api.call(request)
        name = name_object(request)
        self.sent[name] += 1
        self._under_way[name] += 1
        self.most[name] = max(self.most[name], self._under_way[name])
        try:
            await self._limiter.acquire(request.call_class)
            await asyncio.sleep(self._seconds)
            return await self._api.call(request)
        finally:
            self._under_way[name] -= 1

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._api.stream(request)


def name_object(request: Request) -> str:
    if request.method is not Method.POST:
        return request.path
    return f"{request.path}/{msgspec.json.decode(request.body or b'{}')['metadata'].get('name')}"


@dataclass(frozen=True)
class Filler(Call[None]):
    """The status of something else."""

    number: int
    line: Counting
    type: ClassVar[CallType] = CallType.STATUS

    @property
    def key(self) -> str:
        return f"filler-{self.number}"

    async def send(self) -> None:
        await self.line.call(Request(Method.PUT, f"/api/v1/nothing/{self.key}", call_class="status"))


@virtual
async def test_Q_30_ten_thousand_statuses_that_wait_do_not_hold_up_a_binding(tmp_path: Path) -> None:
    """Statuses are held to ten in a second, bindings to a hundred."""
    hub, world = await a_fleet("ams")
    line = Counting(hub, status=10, bind=100)

    async def measure(name: str) -> float:
        started = asyncio.get_running_loop().time()
        await world.place(name, ONE)
        await world.soon_on(name, "ams")
        return asyncio.get_running_loop().time() - started

    async with running(hub, tmp_path / "fleet.yaml", DEFAULT, through=line) as site:
        alone = await measure("alone")
        await asyncio.sleep(5)
        dispatcher = site.scheduler._dispatcher
        flood = [dispatcher.submit(Filler(number, line)) for number in range(10_000)]
        await asyncio.sleep(1)
        assert dispatcher.count_waiting()[CallType.STATUS] > 9_900
        assert await measure("beside") <= alone + 0.01
        assert not flood[-1].done()


@virtual
async def test_Q_31_of_two_writes_about_an_object_one_waits_for_the_other(tmp_path: Path) -> None:
    """Each takes a second, and whatever is written is to be written anew soon after."""
    hub, world = await a_fleet("ams", "dub", "osl")
    line = Counting(hub, seconds=1)
    async with running(hub, tmp_path / "fleet.yaml", DEFAULT, through=line):
        await world.place("web", ONE)
        for turn in range(30):
            await world.edit_policy("web", numberOfClusters=3 - 2 * (turn % 2))
            await asyncio.sleep(turn % 10)
        await world.edit_policy("web", numberOfClusters=3)
        await world.soon_on("web", "ams", "dub", "osl")
    written = Counter(name.partition("v1beta1/")[2].partition("/")[0] for name, times in line.sent.items() if times > 1)
    assert written["clusterresourcebindings"] > 1
    assert set(line.most.values()) == {1}


@virtual
async def test_Q_32_at_the_end_every_caller_has_an_answer(tmp_path: Path) -> None:
    """Of a hub that answers no write, while calls are in flight and others wait."""
    hub, world = await a_fleet("ams")
    line = Counting(hub, seconds=10**6)
    async with running(hub, tmp_path / "fleet.yaml", DEFAULT, "shutdown.gracePeriod=20s", through=line) as site:
        for number in range(40):
            await world.place(f"web-{number}", ONE)
        await asyncio.sleep(20)
        dispatcher = site.scheduler._dispatcher
        waiting = [dispatcher.submit(Filler(number, line)) for number in range(100)]
        await asyncio.sleep(1)
        assert dispatcher.count_waiting()[CallType.STATUS] > 50
        started = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - started < 60
    outcomes = [call.result() for call in waiting]
    assert {outcome.result for outcome in outcomes} == {CallResult.FAILED}
    assert all(isinstance(outcome.error, QueueClosed) for outcome in outcomes)
    assert (await dispatcher.submit(Filler(0, line))).result is CallResult.FAILED
    assert asyncio.all_tasks() == {asyncio.current_task()}
