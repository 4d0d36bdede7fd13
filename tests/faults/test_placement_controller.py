"""The placement controller dies, or is refused, at every single write of a placement's life: the end is the same.

The undisturbed life is lived once and its writes are counted. Then it is lived again for each of these writes, which
fails: not carried out, or carried out with the answer lost. A pass that fails is followed by a new process with empty
caches, or by another pass of the same one.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from fleet.errors import ApiError, StaleInputs
from fleet.kube.api import Request
from fleet.placement.selection.resolution import SelectionResult
from tests.fake_hub import CONFLICT, GROUP, INTERNAL, UNAVAILABLE, FakeHub, Fault, Json, Lost, Refused
from tests.faults.virtual import run_virtually
from tests.unit.placement.workbench import (
    RUNNING,
    THE_NAMESPACE,
    WEB,
    Neighbours,
    Office,
    Workbench,
    a_placement,
    an_object,
    pick_n,
)

FAULTS: Final[dict[str, Fault]] = {
    "refused": Refused(INTERNAL),
    "answer lost": Lost(INTERNAL),
    "unavailable": Refused(UNAVAILABLE),
    "unavailable after the fact": Lost(UNAVAILABLE),
    "conflict": Refused(CONFLICT),
}


RESTART: Final = "restart"
CONTINUE: Final = "continue"


@dataclass
class Fate:
    """Spoils the write of that number; none without a number."""

    at: int | None = None
    fault: Fault = None
    writes: int = 0

    def __call__(self, request: Request) -> Fault:
        if not request.is_write:
            return None
        self.writes += 1
        return self.fault if self.writes == self.at else None


@dataclass
class Life:
    """What happens to a placement, with the controller coming to rest after each event."""

    bench: Workbench
    restarts: bool
    limit: int = 10

    @property
    def hub(self) -> FakeHub:
        return self.bench.hub

    async def rest(self) -> None:
        failed = False
        for _ in range(40):
            before = self.hub.version
            try:
                await self.bench.pass_over(reads_live=failed)
                failed = False
            except (ApiError, StaleInputs):
                failed = not self.restarts
                if self.restarts:
                    await self.bench.stop()
                    await self.bench.start()
                continue
            if self.hub.version == before:
                return
        raise AssertionError("the controller never comes to rest")

    async def runs(self, *clusters: str, snapshot: str) -> None:
        others = Neighbours(self.hub)
        others.schedule(*clusters)
        await self.rest()
        for cluster in clusters:
            others.report(cluster, RUNNING, snapshot=snapshot)
        await self.rest()

    async def youth(self) -> None:
        policy = pick_n(1, tolerations=[{"key": "a", "operator": "Exists"}])
        scope = "NamespaceAccessible"
        a_placement(self.hub, policy=policy, statusReportingScope=scope, revisionHistoryLimit=self.limit)
        await self.rest()
        await self.runs("c1", snapshot="web-0-snapshot")

    async def change_of_policy(self) -> None:
        tolerations = [{"key": key, "operator": "Exists"} for key in "ab"]
        self.hub.edit(WEB, spec={"policy": {"numberOfClusters": 2, "tolerations": tolerations}})
        await self.rest()
        await self.runs("c1", "c2", snapshot="web-0-snapshot")

    async def change_of_content(self) -> None:
        self.bench.content.selected = SelectionResult((THE_NAMESPACE, an_object("settings"), an_object("more")))
        self.bench.content.enqueue("web")
        await self.rest()
        await asyncio.sleep(60)  # changes are collected for a while
        await self.rest()
        await self.runs("c1", "c2", snapshot="web-1-snapshot")

    async def end(self) -> None:
        self.hub.remove(WEB)
        await self.rest()

    async def whole(self) -> None:
        for part in (self.youth, self.change_of_policy, self.change_of_content):
            await part()


Part = Callable[[Life], Awaitable[None]]


async def lived(part: Part, fate: Fate, *, restarts: bool, limit: int = 10) -> Json:
    """The state of the hub afterwards."""
    bench = Workbench()
    async with bench:
        life = Life(bench, restarts=restarts, limit=limit)
        bench.hub.fault = fate
        await part(life)
        return bench.hub.state()


def undisturbed(part: Part, *, limit: int = 10) -> tuple[Json, int]:
    fate = Fate()
    return run_virtually(lived(part, fate, restarts=False, limit=limit)), fate.writes


async def whole_life(life: Life) -> None:
    await life.whole()


async def life_and_death(life: Life) -> None:
    await life.youth()
    await life.end()


def differences(found: Json, want: Json) -> dict[str, Any]:
    return {path: (found.get(path), want.get(path)) for path in {*found, *want} if found.get(path) != want.get(path)}


COMMON: Final = [
    ("refused", RESTART, 1),
    ("answer lost", RESTART, 1),
    ("unavailable after the fact", CONTINUE, 10),
    ("conflict", CONTINUE, 10),
]
ALL: Final = [(fault, afterwards, limit) for fault in FAULTS for afterwards in (RESTART, CONTINUE) for limit in (10, 1)]
CASES: Final = [
    pytest.param(*case, id=", ".join(map(str, case)), marks=[] if case in COMMON else [pytest.mark.long])
    for case in ALL
]


@pytest.mark.parametrize("fault, afterwards, limit", CASES)
def test_a_failure_at_any_write_changes_nothing_in_the_end(fault: str, afterwards: str, limit: int) -> None:
    want, writes = undisturbed(whole_life, limit=limit)
    assert writes > 15
    for at in range(1, writes + 1):
        fate = Fate(at, FAULTS[fault])
        found = run_virtually(lived(whole_life, fate, restarts=afterwards == RESTART, limit=limit))
        assert differences(found, want) == {}, f"after write {at} of {writes}"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_deletion_always_comes_to_its_end(fault: str) -> None:
    want, writes = undisturbed(life_and_death)
    for at in range(1, writes + 1):
        found = run_virtually(lived(life_and_death, Fate(at, FAULTS[fault]), restarts=True))
        assert differences(found, want) == {}, f"after write {at} of {writes}"
        left = {path.removeprefix(f"{GROUP}/") for path in found}
        assert left == {Neighbours(FakeHub()).binding("c1"), "namespaces/shop/clusterresourceplacementstatuses/web"}


# --- the whole controller in bad weather ------------------------------------------------------------------------------


@dataclass
class Weather:
    """Spoils requests at random, until it clears up."""

    dice: random.Random
    is_bad: bool = True
    spoilt: int = 0

    def __call__(self, request: Request) -> Fault:
        if not self.is_bad or self.dice.random() > 0.4:
            return None
        self.spoilt += 1
        faults = list(FAULTS.values()) if request.is_write else [Refused(INTERNAL), Refused(UNAVAILABLE)]
        return self.dice.choice(faults)


async def weathered(weather: Weather) -> Json:
    """The same life, with the controller running all the time."""
    async with Office() as office:
        office.hub.fault = weather

        async def rest() -> None:
            await asyncio.sleep(300)

        life = Life(office, restarts=False)
        life.rest = rest  # type: ignore[method-assign]
        await life.whole()
        weather.is_bad = False
        await asyncio.sleep(600)
        return office.hub.state()


@pytest.mark.parametrize("seed", range(3))
def test_bad_weather_delays_the_end_and_does_not_change_it(seed: int) -> None:
    want, _ = undisturbed(whole_life)
    weather = Weather(random.Random(seed))
    with capture_logs():
        found = run_virtually(weathered(weather))
    assert weather.spoilt > 5
    assert differences(found, want) == {}
