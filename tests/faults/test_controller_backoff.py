"""Profiles with `backoffOnRejection`: rejected placements, by the attempts that the history is given."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from fleet.clock import SECOND
from fleet.kube.api import Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.manager.manager import Manager
from fleet.model.keys import SCHEDULER_NAME
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.queue.sub_queues import TIMEOUT
from tests.e2e.world import ANYTHING, World, configured
from tests.fake_hub import UNAVAILABLE, Fault, Faults, Refused
from tests.faults.acting import running
from tests.faults.hub_api import a_hub
from tests.faults.virtual import VirtualClock, no_jitter, run_virtually, virtual

DOCUMENT: Final = """\
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles:
  - schedulerName: DefaultScheduler
  - schedulerName: patient
    backoffOnRejection: true
"""
PATIENT: Final = "patient"
BETWEEN_EVENTS: Final = 0.25
"""Virtual seconds."""


@dataclass
class Attempts:
    records: list[AttemptRecord] = field(default_factory=list)

    def record(self, attempt: AttemptRecord) -> None:
        if attempt.result is AttemptResult.SHORT:
            self.records.append(attempt)

    @property
    def delays(self) -> list[float]:
        return [(after.started - before.started) / SECOND for before, after in pairwise(self.records)]


@dataclass
class Scene:
    world: World
    attempts: Attempts

    async def lacks_clusters(self, *, profile: str) -> None:
        """Spread over a label, so that every change of that label of a cluster is an event for it."""
        await self.world.join("one", labels={"zone": "z0"})
        spread = [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
        policy = {"placementType": "PickN", "numberOfClusters": 9, "topologySpreadConstraints": spread}
        annotations = {SCHEDULER_NAME: profile} if profile else {}
        spec = {"resourceSelectors": [ANYTHING], "policy": policy}
        await self.world.create(
            CLUSTER_SCOPED.placement, {"metadata": {"name": "web", "annotations": annotations}, "spec": spec}
        )
        while not self.attempts.records:
            await asyncio.sleep(BETWEEN_EVENTS)

    async def relabel_for(self, seconds: float) -> None:
        for number in range(1, int(seconds / BETWEEN_EVENTS)):
            await self.world.relabel("one", zone=f"z{number}")
            await asyncio.sleep(BETWEEN_EVENTS)


@asynccontextmanager
async def a_scene(folder: Path, *assignments: str) -> AsyncIterator[Scene]:
    file = folder / "fleet.yaml"
    file.write_text(DOCUMENT, encoding="utf-8")
    clock, attempts = VirtualClock(), Attempts()
    hub = a_hub(clock=lambda: clock.now().timestamp())
    settings = configured("eligibility.heartbeatTimeout=24h", *assignments, file=file)
    controller = Manager(hub, settings, elects=False, recorder=attempts, clock=clock, jitter=no_jitter)
    async with asyncio.TaskGroup() as group:
        group.create_task(controller.run(), name="controller")
        await controller.ready()
        yield Scene(World(hub), attempts)
        controller.stop()


def test_Q_01_Q_18_rejections_back_off_twice_as_long_each_up_to_the_limit(tmp_path: Path) -> None:
    async def scene() -> list[float]:
        async with a_scene(tmp_path, "queue.earlyPop=false") as scene:
            await scene.lacks_clusters(profile=PATIENT)
            await scene.relabel_for(50)
            return scene.attempts.delays[-20:]

    delays = run_virtually(scene())
    first = delays.index(next(delay for delay in delays if delay > 1))
    for delay, backoff in zip(delays[first : first + 5], (1, 2, 4, 8, 10), strict=True):
        assert backoff < delay <= backoff + 1 + BETWEEN_EVENTS


@pytest.mark.parametrize("profile, early", [(PATIENT, "true"), ("", "false")], ids=["early pop", "no backoff"])
def test_Q_16_idle_workers_and_other_profiles_do_not_wait(tmp_path: Path, profile: str, early: str) -> None:
    async def scene() -> list[float]:
        async with a_scene(tmp_path, f"queue.earlyPop={early}") as scene:
            await scene.lacks_clusters(profile=profile)
            await scene.relabel_for(10)
            return scene.attempts.delays

    delays = run_virtually(scene())
    assert len(delays) > 20
    assert max(delays) <= 2 * BETWEEN_EVENTS


@pytest.mark.parametrize(
    "profile, limit, expected", [(PATIENT, 45, 2), (PATIENT, 0, 0), ("", 45, 0)], ids=["45 s", "never", "default"]
)
def test_Q_04_a_placement_without_events_is_tried_again_after_a_while(
    tmp_path: Path, profile: str, limit: int, expected: int
) -> None:
    async def scene() -> tuple[list[AttemptRecord], list[float]]:
        async with a_scene(tmp_path, f"queue.maxInUnschedulableSeconds={limit}") as scene:
            await scene.lacks_clusters(profile=profile)
            await asyncio.sleep(10)
            scene.attempts.records[:-1] = []
            await asyncio.sleep(150)
            return scene.attempts.records[1:], scene.attempts.delays

    records, delays = run_virtually(scene())
    assert len(records) >= expected
    assert bool(records) == bool(expected)
    assert all(record.triggers == (TIMEOUT,) for record in records)
    assert all(limit < delay <= limit + 31 for delay in delays)


def refuses_bindings(failing: list[str]) -> Faults:
    """While there is anything in the list."""

    def fault(request: Request) -> Fault:
        is_new = request.method is Method.POST and request.path.endswith("bindings")
        return Refused(UNAVAILABLE) if failing and is_new else None

    return fault


@virtual
async def test_Q_03_errors_do_not_count_for_the_backoff_after_a_rejection(tmp_path: Path) -> None:
    hub, failing = a_hub(), ["now"]
    world = World(hub)
    await world.join("ams")
    text = DOCUMENT.replace("DefaultScheduler\n", "DefaultScheduler\n    backoffOnRejection: true\n")
    fault = refuses_bindings(failing)
    async with running(hub, tmp_path / "fleet.yaml", text, "queue.earlyPop=false", fault=fault) as site:
        await world.place("web", {"placementType": "PickN", "numberOfClusters": 1})
        while site.endings("web").count(AttemptResult.TRANSIENT) < 3:
            await asyncio.sleep(0.001)
        item = site.scheduler.queue.peek(PlacementKey.parse("web"))
        assert (item.consecutive_errors_count >= 3, item.unschedulable_count) == (True, 0)
        await world.taint("ams", {"key": "a", "value": "b", "effect": "NoSchedule"})
        failing.clear()
        while AttemptResult.SHORT not in site.endings("web"):
            await asyncio.sleep(0.001)
        item = site.scheduler.queue.peek(PlacementKey.parse("web"))
        assert (item.consecutive_errors_count, item.unschedulable_count) == (0, 1)
        await world.taint("ams")
        await world.soon_on("web", "ams")
    rejected, bound = site.of("web")[-2:]
    assert (rejected.result, bound.result) == (AttemptResult.SHORT, AttemptResult.DECIDED)
    assert 1 < (bound.started - rejected.started) / SECOND <= 2 + BETWEEN_EVENTS


@virtual
async def test_Q_16_a_placement_that_failed_is_not_taken_early(tmp_path: Path) -> None:
    """Although nothing else is to be done, each attempt waits twice as long as the one before."""
    hub, failing = a_hub(), ["always"]
    world = World(hub)
    await world.join("ams")
    text = DOCUMENT.replace("DefaultScheduler\n", "DefaultScheduler\n    backoffOnRejection: true\n")
    fault = refuses_bindings(failing)
    async with running(hub, tmp_path / "fleet.yaml", text, "queue.earlyPop=true", fault=fault) as site:
        await world.place("web", {"placementType": "PickN", "numberOfClusters": 1})
        await asyncio.sleep(10)
        failed = [each.started / SECOND for each in site.of("web") if each.result is AttemptResult.TRANSIENT]
    delays = [after - before for before, after in pairwise(failed)]
    waits = [delay - delays[0] for delay in delays[1:]]  # the first one is hardly more than the retries of an attempt
    assert len(waits) > 5
    assert all(1.8 < (after - before) / (before - earlier) < 2.2 for earlier, before, after in triples(waits))
    assert waits[-1] > 1


def triples(values: list[float]) -> Iterator[tuple[float, float, float]]:
    return zip(values, values[1:], values[2:], strict=False)
