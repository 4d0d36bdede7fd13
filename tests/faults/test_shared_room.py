"""Room that two schedulers share, each a controller of its own on one hub, with answers and watches that come late."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.api import Api, Request
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS, RESERVATIONS
from fleet.manager.manager import CONTROLLERS, SCHEDULER, Manager
from tests.conftest import LONG
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING, World, configured
from tests.fake_hub import UNAVAILABLE, Fault, FaultyApi, Lost, Refused, Slow
from tests.faults.configured import HEAD
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.test_room import join, list_bound_by, write_time
from tests.faults.virtual import VirtualClock, no_jitter, run_virtually, virtual

DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
SHARED: Final = "capacity.reservation=Shared"
NAMES: Final = ("first", "second")
SEEDS: Final = 20 if LONG else 4
"""1,000 schedules in the long form."""


class LateWatches:
    """Each piece of a watch comes up to so many seconds late."""

    def __init__(self, api: Api, rng: random.Random, most: float) -> None:
        self._api, self._rng, self._most = api, rng, most

    async def call(self, request: Request) -> bytes:
        return await self._api.call(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._api.stream(request) as pieces, asyncio.TaskGroup() as group:
            arrived: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
            receiving = group.create_task(self._receive(pieces, arrived))
            yield self._deliver(arrived)
            receiving.cancel()

    async def _receive(self, pieces: AsyncIterator[bytes], arrived: asyncio.Queue[tuple[float, bytes] | None]) -> None:
        async for piece in pieces:
            arrived.put_nowait((asyncio.get_running_loop().time() + self._rng.uniform(0, self._most), piece))
        arrived.put_nowait(None)

    async def _deliver(self, arrived: asyncio.Queue[tuple[float, bytes] | None]) -> AsyncIterator[bytes]:
        while (due := await arrived.get()) is not None:
            await asyncio.sleep(max(0.0, due[0] - asyncio.get_running_loop().time()))
            yield due[1]


@dataclass
class Scene:
    hub: HubApi
    world: World
    controllers: list[Manager]
    clock: VirtualClock

    async def place(self, name: str, scheduler: str, *clusters: str, requests: str = "cpu=1") -> None:
        annotations = {"scheduler-name": scheduler, "requests": requests}
        terms = [{"key": "room", "operator": "In", "values": list(clusters)}]
        required = {"clusterSelectorTerms": [{"labelSelector": {"matchExpressions": terms}}]}
        affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        policy = {"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity}
        given = {f"scheduling.fleet.dev/{key}": text for key, text in annotations.items()}
        spec = {"resourceSelectors": [ANYTHING], "policy": policy}
        await self.world.create(
            CLUSTER_SCOPED.placement, {"metadata": {"name": name, "annotations": given}, "spec": spec}
        )

    async def join(self, name: str, *, cpu: str) -> None:
        await join(self.world, name, cpu=cpu)
        await self.world.patch(MEMBER_CLUSTERS, name, {"metadata": {"labels": {"room": name}}})

    async def list_entries(self, cluster: str) -> list[dict[str, Any]]:
        reservation = await self.world.find(RESERVATIONS, cluster)
        return [] if reservation is None else list(reservation["spec"]["entries"])


@asynccontextmanager
async def a_scene(
    folder: Path, *assignments: str, seed: int | None = None, without_definition: bool = False, troubles: bool = False
) -> AsyncIterator[Scene]:
    """With a seed, answers and watches come late."""
    clock = VirtualClock()
    hub = a_hub(clock=lambda: clock.now().timestamp())
    if without_definition:
        await World(hub).delete(DEFINITIONS, f"{RESERVATIONS.plural}.{RESERVATIONS.group}")
    controllers = []
    for name in NAMES:
        file = folder / f"{name}.yaml"
        file.write_text(
            f"{HEAD}profiles: [{{schedulerName: {name}, base: ExtendedProfile, backoffOnRejection: false}}]\n",
            encoding="utf-8",
        )
        lease = f"leaderElection.resourceName={name}"
        settings = configured("eligibility.heartbeatTimeout=24h", lease, *assignments, file=file)
        api: Api = hub
        if seed is not None:
            rng = random.Random(f"{seed} {name}")
            api = LateWatches(FaultyApi(hub, partial(_delay, rng=rng, troubles=troubles)), rng, 2.0)
        parts = CONTROLLERS if name == NAMES[0] else [SCHEDULER]
        controllers.append(Manager(api, settings, controllers=parts, elects=False, clock=clock, jitter=no_jitter))
    async with asyncio.TaskGroup() as group:
        for controller in controllers:
            group.create_task(controller.run())
        for controller in controllers:
            await controller.ready()
        yield Scene(hub, World(hub), controllers, clock)
        for controller in controllers:
            controller.stop()


def _delay(request: Request, *, rng: random.Random, troubles: bool) -> Fault:
    if not request.is_write:
        return None
    if troubles and rng.random() < 0.1:
        return rng.choice((Lost(after=rng.uniform(0, 1)), Refused(UNAVAILABLE, after=rng.uniform(0, 1))))
    return Slow(rng.uniform(0, 0.5), rng.uniform(0, 0.5))


async def race(folder: Path, seed: int, rounds: int, *assignments: str, troubles: bool = False) -> Counter[str]:
    """On each cluster there is room for one, which two schedulers want at almost the same time. Returns the placements
    per cluster."""
    rng = random.Random(seed)
    async with a_scene(folder, *assignments, seed=seed, troubles=troubles) as scene:
        for number in range(rounds):
            await scene.join(f"c{number:03}", cpu="1")
        await asyncio.sleep(10)
        for number in range(rounds):
            for name in rng.sample(NAMES, 2):
                await scene.place(f"{name}-{number:03}", name, f"c{number:03}")
                await asyncio.sleep(rng.uniform(0, 0.4))
        await asyncio.sleep(120)
        return Counter((await list_bound_by(scene.world)).values())


SCHEDULES: Final = 50 if LONG else 15
"""Of one scene."""


@pytest.mark.parametrize("seed", range(SEEDS))
def test_O_17_X_21_the_room_of_one_is_never_taken_twice(tmp_path: Path, seed: int) -> None:
    """In every fourth scene writes fail, or their answers are lost."""
    taken = run_virtually(race(tmp_path, seed, SCHEDULES, SHARED, troubles=seed % 4 == 3))
    assert taken == {f"c{number:03}": 1 for number in range(SCHEDULES)}


def test_without_reservations_two_schedulers_take_the_same_room(tmp_path: Path) -> None:
    taken = run_virtually(race(tmp_path, 0, SCHEDULES))
    assert max(taken.values()) == 2


@virtual
async def test_X_21_entries_go_once_their_bindings_are_known(tmp_path: Path) -> None:
    async with a_scene(tmp_path, SHARED) as scene:
        await scene.join("ams", cpu="2")
        await scene.place("web", "second", "ams", requests="cpu=500m,memory=1Gi")
        await soon(lambda: list_bound_by(scene.world))
        (entry,) = await scene.list_entries("ams")
        assert (entry["owner"], entry["placement"]) == ("fleet-system/second", "web")
        assert entry["requests"] == {"cpu": "500m", "memory": "1Gi"}
        await asyncio.sleep(70)
        assert await scene.list_entries("ams") == []
        assert await list_bound_by(scene.world) == {"web": "ams"}


@pytest.mark.alone
@virtual
async def test_X_21_nothing_is_kept_of_clusters_that_are_gone(tmp_path: Path) -> None:
    names = [f"ams-{number}" for number in range(5)]
    async with a_scene(tmp_path, SHARED) as scene:
        locks = count_locks()
        for name in names:
            await scene.join(name, cpu="2")
            await scene.place(f"web-{name}", "second", name)
        await asyncio.sleep(10)
        assert [len(await scene.list_entries(name)) for name in names] == [1] * 5
        await asyncio.sleep(70)
        assert len(await scene.world.all(RESERVATIONS)) == 5, "the clusters are there"
        assert count_locks() <= locks
        for name in names[1:]:
            await scene.world.delete(CLUSTER_SCOPED.placement, f"web-{name}")
            await scene.world.delete(MEMBER_CLUSTERS, name)
        await asyncio.sleep(70)
        assert [each["metadata"]["name"] for each in await scene.world.all(RESERVATIONS)] == names[:1]
        await scene.join(names[1], cpu="2")
        await scene.place("again", "second", names[1])
        await asyncio.sleep(10)
        assert len(await scene.list_entries(names[1])) == 1


@virtual
async def test_reservations_of_clusters_that_another_scheduler_decides_about_are_left_alone(tmp_path: Path) -> None:
    """They look like those of clusters that are gone."""
    async with a_scene(tmp_path, SHARED, "capacity.clusterSelector=zone=here") as scene:
        for name, zone in (("ams", "here"), ("dub", "there")):
            await scene.join(name, cpu="2")
            await scene.world.relabel(name, zone=zone)
            await scene.world.create(RESERVATIONS, {"metadata": {"name": name}, "spec": {"entries": []}})
        await asyncio.sleep(70)
        await scene.world.delete(MEMBER_CLUSTERS, "ams")
        await asyncio.sleep(70)
        assert [each["metadata"]["name"] for each in await scene.world.all(RESERVATIONS)] == ["dub"]


def count_locks() -> int:
    gc.collect()
    return sum(type(each) is asyncio.Lock for each in gc.get_objects())


@virtual
async def test_X_21_room_of_a_scheduler_that_is_gone_is_free_when_its_entry_expires(tmp_path: Path) -> None:
    async with a_scene(tmp_path, SHARED) as scene:
        await scene.join("ams", cpu="1")
        until = scene.clock.now() + timedelta(seconds=300)
        entry = {"owner": "x/gone", "placement": "other", "uid": "1", "requests": {"cpu": "500m"}}
        spec = {"entries": [{**entry, "expiresAt": write_time(until)}]}
        await scene.world.create(RESERVATIONS, {"metadata": {"name": "ams"}, "spec": spec})
        await asyncio.sleep(5)
        await scene.place("web", "second", "ams")
        await asyncio.sleep(280)
        assert await list_bound_by(scene.world) == {}
        await asyncio.sleep(30)
        assert await list_bound_by(scene.world) == {"web": "ams"}


def an_entry(cpu: str, expires_at: str) -> dict[str, Any]:
    entry = {"owner": "x/other", "placement": "theirs", "uid": "1", "requests": {"cpu": cpu}, "expiresAt": expires_at}
    return {"spec": {"entries": [entry]}}


@virtual
async def test_X_21_room_that_two_schedulers_reserve_for_one_placement_counts_once_and_until_both_give_it_up(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, SHARED) as scene:
        await scene.join("ams", cpu="4")
        until = write_time(scene.clock.now() + timedelta(seconds=590))
        (entry,) = an_entry("2", until)["spec"]["entries"]
        former = {**entry, "owner": "x/former", "requests": {"cpu": "1"}}
        await scene.world.create(RESERVATIONS, {"metadata": {"name": "ams"}, "spec": {"entries": [entry, former]}})
        await asyncio.sleep(2)
        await scene.place("web", "second", "ams", requests="cpu=2")
        await asyncio.sleep(30)
        assert await list_bound_by(scene.world) == {"web": "ams"}, "2 of 4 are reserved"
        await scene.place("late", "second", "ams", requests="cpu=1")
        await asyncio.sleep(30)
        others = (each for each in await scene.list_entries("ams") if each["owner"] not in ("x/other", "x/former"))
        await scene.world.patch(RESERVATIONS, "ams", {"spec": {"entries": [entry, *others]}})
        await asyncio.sleep(30)
        assert await list_bound_by(scene.world) == {"web": "ams"}, "the other one still reserves 2"
        others = (each for each in await scene.list_entries("ams") if each["owner"] != "x/other")
        await scene.world.patch(RESERVATIONS, "ams", {"spec": {"entries": [*others]}})
        await asyncio.sleep(60)
        assert await list_bound_by(scene.world) == {"web": "ams", "late": "ams"}


@pytest.mark.parametrize("first, seconds", [("1", 590), ("4", -2)], ids=["less", "expired"])
def test_X_21_an_entry_that_others_replace_is_booked_as_it_is(tmp_path: Path, first: str, seconds: int) -> None:
    async def replace_entry() -> None:
        async with a_scene(tmp_path, SHARED) as scene:
            await scene.join("ams", cpu="4")
            earlier, later = (write_time(scene.clock.now() + timedelta(seconds=each)) for each in (seconds, 590))
            await scene.world.create(RESERVATIONS, {"metadata": {"name": "ams"}, **an_entry(first, earlier)})
            await asyncio.sleep(1)
            await scene.world.patch(RESERVATIONS, "ams", an_entry("4", later))
            await asyncio.sleep(2)
            await scene.place("web", "second", "ams", requests="cpu=3")
            await asyncio.sleep(60)
            assert await list_bound_by(scene.world) == {}

    virtual(replace_entry)()


@virtual
async def test_X_21_named_clusters_are_reserved_whatever_is_free(tmp_path: Path) -> None:
    """And a placement that is refused does not ask again at once."""
    async with a_scene(tmp_path, SHARED) as scene:
        await scene.join("ams", cpu="1")
        policy = {"placementType": "PickFixed", "clusterNames": ["ams"]}
        annotations = {"scheduling.fleet.dev/requests": "cpu=3", "scheduling.fleet.dev/scheduler-name": "second"}
        document = {
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"resourceSelectors": [ANYTHING], "policy": policy},
        }
        await scene.world.create(CLUSTER_SCOPED.placement, document)
        await asyncio.sleep(30)
        assert await list_bound_by(scene.world) == {"web": "ams"}
        assert [each["requests"] for each in await scene.list_entries("ams")] == [{"cpu": "3"}]


@virtual
async def test_X_21_a_hub_without_the_definition_schedules_without_reservations(tmp_path: Path) -> None:
    async with a_scene(tmp_path, SHARED, without_definition=True) as scene:
        await scene.join("ams", cpu="1")
        await scene.place("web", "second", "ams")
        await soon(lambda: list_bound_by(scene.world))
        assert scene.controllers[1].list_unsynced() == []


@virtual
async def test_X_21_nothing_is_reserved_for_others_unless_asked_for(tmp_path: Path) -> None:
    async with a_scene(tmp_path) as scene:
        await scene.join("ams", cpu="1")
        await scene.place("web", "second", "ams")
        await soon(lambda: list_bound_by(scene.world))
        assert not [each for each in scene.hub.requests if RESERVATIONS.plural in each.path]


@virtual
async def test_O_17_a_scheduler_knows_only_the_clusters_of_its_partition(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "capacity.clusterSelector=room in (ams, dub)") as scene:
        await scene.join("ams", cpu="1")
        await scene.join("lon", cpu="9")
        await asyncio.sleep(5)
        assert [list(each.caches.clusters) for each in scene.controllers] == [["ams"], ["ams"]]
        await scene.place("web", "second", "ams", "lon")
        await scene.place("api", "second", "ams", "lon")
        await asyncio.sleep(60)
        assert list((await list_bound_by(scene.world)).values()) == ["ams"]
