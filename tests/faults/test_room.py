"""Room on clusters, through a running controller: what is placed counts before any report does, and never twice."""

from __future__ import annotations

import asyncio
import gc
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.framework.types import Verdict
from fleet.kube.api import Method, Request
from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.model.keys import PARENT_PLACEMENT
from fleet.scheduler.binding.binding_cycle import BindingCycle
from fleet.snapshot.frame import Frame
from plugins.capacity.resource_fit import ResourceFit
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING, World
from tests.fake_hub import UNAVAILABLE, Fault, Lost, Refused, refusal
from tests.faults.acting import Running, running
from tests.faults.configured import HEAD, Attempts, Scene, a_scene
from tests.faults.hub_api import HubApi, a_hub
from tests.faults.test_controller_leaders import Candidate
from tests.faults.virtual import VirtualClock, run_virtually, virtual

ROOMY: Final = """
profiles:
- {schedulerName: DefaultScheduler, base: ExtendedProfile}
- {schedulerName: second, base: ExtendedProfile}
"""
ASKING: Final = """
profiles:
- base: ExtendedProfile
  backoffOnRejection: false
  plugins: {permit: {enabled: [{name: PlacementApproval}]}}
  pluginConfig: [{name: PlacementApproval, args: {rules: [{name: owner, approvers: {users: [ann]}}]}}]
"""
ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
ALL: Final = {"placementType": "PickAll"}


def within(**labels: str) -> dict[str, Any]:
    """One of the clusters with these labels."""
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]}
    return {**ONE, "affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


async def join(world: World, name: str, *, cpu: str, free: str | None = None, at: datetime | None = None) -> None:
    await world.join(name)
    await report_usage(world, name, cpu=cpu, free=free, at=at)


async def report_usage(
    world: World, name: str, *, cpu: str, free: str | None = None, at: datetime | None = None
) -> None:
    usage: dict[str, Any] = {
        "capacity": {"cpu": cpu},
        "allocatable": {"cpu": cpu},
        "available": {"cpu": cpu if free is None else free},
    }
    if at is not None:
        usage["observationTime"] = write_time(at)
    await world.patch(MEMBER_CLUSTERS, name, {"status": {"resourceUsage": usage}}, subresource=STATUS)


def write_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def place_many(scene: Scene, count: int, *, start: int = 0, **annotations: str) -> None:
    for number in range(start, start + count):
        own = {"scheduler_name": "second"} if number % 2 else {}
        await scene.place(f"p{number:03}", ONE, **{"requests": "cpu=1", **own, **annotations})


async def list_bound(scene: Scene) -> dict[str, str]:
    return await list_bound_by(scene.world)


async def list_bound_by(world: World) -> dict[str, str]:
    """Cluster by placement."""
    bindings = await world.all(CLUSTER_SCOPED.binding)
    return {each["metadata"]["labels"][PARENT_PLACEMENT]: each["spec"]["targetCluster"] for each in bindings}


async def apply_all(scene: Scene, *, at: datetime) -> None:
    """What the agents do with their bindings."""
    condition = {"type": "Applied", "status": "True", "reason": "Applied", "message": ""}
    for binding in await scene.world.all(CLUSTER_SCOPED.binding):
        status = {"conditions": [{**condition, "lastTransitionTime": write_time(at), "observedGeneration": 1}]}
        await scene.world.patch(
            CLUSTER_SCOPED.binding, binding["metadata"]["name"], {"status": status}, subresource=STATUS
        )


def count_attempts(scene: Scene) -> int:
    return len(scene.attempts.records)


# --- a burst ----------------------------------------------------------------------------------------------------------


@virtual
async def test_X_13_F3_136_of_100_placements_30_fit_before_any_report_and_after_a_restart(tmp_path: Path) -> None:
    """Two profiles decide them, on one ledger."""
    async with a_scene(tmp_path, ROOMY) as scene:
        for name in ("ams", "dub", "lon"):
            await join(scene.world, name, cpu="10")
        await place_many(scene, 100)
        await soon(lambda: _has_bound(scene, 30))
        await asyncio.sleep(600)
        bound = await list_bound(scene)
        assert len(bound) == 30
        assert scene.sample("fleet_room_booked", resource="cpu") == 30
    async with a_scene(tmp_path, ROOMY, after=scene) as again:
        await asyncio.sleep(600)
        assert await list_bound(again) == bound
    per_cluster = sorted(list(bound.values()).count(name) for name in ("ams", "dub", "lon"))
    assert per_cluster == [10, 10, 10]


@virtual
async def test_X_13_a_restart_in_the_middle_of_a_burst_books_nothing_twice(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        for name in ("ams", "dub", "lon"):
            await join(scene.world, name, cpu="10")
        await place_many(scene, 50)
        await soon(lambda: _has_bound(scene, 7))
    async with a_scene(tmp_path, ROOMY, after=scene) as again:
        await place_many(again, 50, start=50)
        await soon(lambda: _has_bound(again, 30))
        await asyncio.sleep(600)
        assert len(await list_bound(again)) == 30


@virtual
async def test_X_13_a_standby_that_takes_over_in_the_middle_of_a_burst_books_nothing_twice(tmp_path: Path) -> None:
    file, clock = tmp_path / "fleet.yaml", VirtualClock()
    file.write_text(HEAD + ROOMY, encoding="utf-8")
    hub = a_hub(clock=lambda: clock.now().timestamp())
    first = Candidate(hub, clock, "first", file=file)
    await first.controller.ready()
    second = Candidate(hub, clock, "second", file=file)
    scene = Scene(hub, World(hub), first.controller, Attempts(), clock)
    for name in ("ams", "dub", "lon"):
        await join(scene.world, name, cpu="10")
    placing = asyncio.create_task(place_many(scene, 100))
    await soon(lambda: _has_bound(scene, 7))
    await first.die()
    assert len(await list_bound(scene)) < 30
    await placing
    await second.controller.ready()
    await asyncio.sleep(600)
    assert second.controller.is_working
    assert Counter((await list_bound(scene)).values()) == {"ams": 10, "dub": 10, "lon": 10}
    await second.die()


async def _has_bound(scene: Scene, count: int) -> bool:
    return len(await list_bound(scene)) >= count


@virtual
async def test_X_13_reports_that_come_early_late_or_never_let_no_more_in(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        start = scene.clock.now()
        for name in ("early", "late", "never"):
            await join(scene.world, name, cpu="2")
        await place_many(scene, 20)
        await soon(lambda: _has_bound(scene, 6))
        await apply_all(scene, at=start + timedelta(seconds=60))
        # It was made before everything was applied, and includes half of it.
        await report_usage(scene.world, "early", cpu="2", free="1", at=start + timedelta(seconds=30))
        await report_usage(scene.world, "late", cpu="2", free="0", at=start + timedelta(seconds=300))
        await asyncio.sleep(900)
        assert len(await list_bound(scene)) == 6


@virtual
async def test_X_13_a_report_that_includes_the_binding_ends_its_booking(tmp_path: Path) -> None:
    """The workload takes less than it had requested: another one fits."""
    async with a_scene(tmp_path, ROOMY) as scene:
        start = scene.clock.now()
        await join(scene.world, "ams", cpu="1")
        await place_many(scene, 3)
        await soon(lambda: _has_bound(scene, 1))
        await apply_all(scene, at=start)
        await report_usage(scene.world, "ams", cpu="1", free="1", at=start + timedelta(seconds=30))
        await soon(lambda: _has_bound(scene, 2))
        await asyncio.sleep(600)
        assert len(await list_bound(scene)) == 2


@virtual
async def test_X_13_without_word_of_the_agent_a_report_counts_after_ten_minutes(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        await join(scene.world, "ams", cpu="1")
        await place_many(scene, 2)
        await soon(lambda: _has_bound(scene, 1))
        created = scene.clock.now()
        await report_usage(scene.world, "ams", cpu="1", free="1", at=created + timedelta(seconds=590))
        await asyncio.sleep(600)
        assert len(await list_bound(scene)) == 1
        await report_usage(scene.world, "ams", cpu="1", free="1", at=created + timedelta(hours=2))
        await soon(lambda: _has_bound(scene, 2))


# --- who is woken -----------------------------------------------------------------------------------------------------


def test_Q_08_a_cluster_that_is_too_small_wakes_none_and_a_big_one_those_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Placements with equal requests are judged at once: as often for 12 of them as for 4."""
    judged: list[int] = []
    ask = ResourceFit.filter

    def count(*args: Any) -> Verdict:
        judged[-1] += 1
        return ask(*args)

    monkeypatch.setattr(ResourceFit, "filter", count)
    for size in (2, 6):
        judged.append(0)
        run_virtually(_judge_newcomers(tmp_path, size, judged))
    assert 0 < judged[0] == judged[1] < 8


async def _judge_newcomers(folder: Path, size: int, judged: list[int]) -> None:
    async with a_scene(folder, ROOMY) as scene:
        await join(scene.world, "full", cpu="1")
        for number in range(size):
            await scene.place(f"small{number}", ONE, requests="cpu=4")
            await scene.place(f"big{number}", ONE, requests="cpu=16")
        await asyncio.sleep(60)
        before, judged[-1] = count_attempts(scene), 0
        await scene.world.join("tiny", available={"cpu": "2"})
        await asyncio.sleep(1)
        assert count_attempts(scene) == before
        calls = judged[-1]
        await scene.world.join("fits-small", available={"cpu": "8"})
        await asyncio.sleep(10)
        woken = scene.attempts.records[before:]
        assert len(await list_bound(scene)) == 2
        assert {record.key.name for record in woken} == {f"small{number}" for number in range(size)}
        judged[-1] = calls


@virtual
async def test_room_that_is_given_back_wakes_those_that_fit_there(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        await join(scene.world, "ams", cpu="4")
        await scene.place("first", ONE, requests="cpu=4")
        await soon(lambda: _has_bound(scene, 1))
        await scene.place("fits", ONE, requests="cpu=3")
        await scene.place("does-not", ONE, requests="cpu=5")
        await asyncio.sleep(60)
        attempts = {name: len(scene.attempts.of(name)) for name in ("fits", "does-not")}
        await scene.world.delete(CLUSTER_SCOPED.placement, "first")
        await soon(lambda: _is_on(scene, "fits", "ams"))
        await asyncio.sleep(30)
        assert len(scene.attempts.of("does-not")) == attempts["does-not"]


@virtual
async def test_room_that_is_given_back_is_taken_by_a_placement_that_takes_every_cluster_and_does_not_wait(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        await join(scene.world, "ams", cpu="1")
        await scene.place("filler", ONE, requests="cpu=1")
        await soon(lambda: _is_on(scene, "filler", "ams"))
        await join(scene.world, "dub", cpu="10")
        await scene.place("all", ALL, requests="cpu=1")
        await soon(lambda: _uses(scene, "all", "dub"))
        await asyncio.sleep(30)

        await scene.world.delete(CLUSTER_SCOPED.placement, "filler")

        await soon(lambda: _uses(scene, "all", "ams", "dub"))


@pytest.mark.parametrize("policy", [ONE, ALL], ids=["one", "all"])
def test_room_that_is_given_back_is_taken_where_another_filter_refused_the_last_attempt(
    tmp_path: Path, policy: dict[str, Any]
) -> None:
    """The cluster was full when it could be taken again, so that no attempt has seen it lack room."""

    async def story() -> None:
        async with a_scene(tmp_path, ROOMY) as scene:
            await join(scene.world, "ams", cpu="1")
            await scene.place("filler", ONE, requests="cpu=1")
            await soon(lambda: _is_on(scene, "filler", "ams"))
            await scene.world.taint("ams", {"key": "gpu", "effect": "NoSchedule"})
            await asyncio.sleep(30)
            await scene.place("web", policy, requests="cpu=1")
            await asyncio.sleep(30)
            attempts = len(scene.attempts.of("web"))
            await scene.world.taint("ams")
            await asyncio.sleep(30)
            assert len(scene.attempts.of("web")) == attempts

            await scene.world.delete(CLUSTER_SCOPED.placement, "filler")

            await soon(lambda: _uses(scene, "web", "ams"))

    run_virtually(story())


@virtual
async def test_the_default_profile_looks_neither_at_room_nor_at_quotas_and_evicts_nothing(tmp_path: Path) -> None:
    async with a_scene(tmp_path, "profiles: [{schedulerName: DefaultScheduler}]\n") as scene:
        await join(scene.world, "ams", cpu="1")
        await scene.world.create(CLUSTER_SCOPED.quota, {"metadata": {"name": "all"}, "spec": {"max": {"cpu": "1"}}})
        await scene.place("low", ONE, requests="cpu=9")
        await soon(lambda: _is_on(scene, "low", "ams"))
        await scene.place("vip", ONE, requests="cpu=9", priority="100")
        await soon(lambda: _is_on(scene, "vip", "ams"))
        await asyncio.sleep(60)
        assert await list_bound(scene) == {"low": "ams", "vip": "ams"}


@virtual
async def test_X_24_nothing_of_an_attempt_waits_for_the_garbage_collector(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        await join(scene.world, "ams", cpu="10")
        gc.collect()
        flags = gc.get_debug()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await scene.place("web", ONE, requests="cpu=1")
            await soon(lambda: _is_on(scene, "web", "ams"))
            await asyncio.sleep(1)
            gc.collect()
            left = [each for each in gc.garbage if isinstance(each, BindingCycle | Frame)]
        finally:
            gc.set_debug(flags)
            gc.garbage.clear()
        assert left == []


async def _is_on(scene: Scene, placement: str, cluster: str) -> bool:
    return (await list_bound(scene)).get(placement) == cluster


@virtual
async def test_refused_attempts_that_give_room_back_do_not_wake_each_other_without_end(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ASKING) as scene:
        await join(scene.world, "ams", cpu="1")
        await place_many(scene, 6, scheduler_name="")
        await asyncio.sleep(3600)
        assert await list_bound(scene) == {}
        assert max(len(scene.attempts.of(f"p{number:03}")) for number in range(6)) < 20


# --- what a placement has ---------------------------------------------------------------------------------------------


@virtual
async def test_a_placement_keeps_the_clusters_that_it_is_on(tmp_path: Path) -> None:
    """It would not fit there a second time."""
    async with a_scene(tmp_path, ROOMY) as scene:
        for name in ("ams", "dub"):
            await join(scene.world, name, cpu="1")
        await scene.place("everywhere", ALL, requests="cpu=1")
        await soon(lambda: _uses(scene, "everywhere", "ams", "dub"))
        await scene.world.relabel("ams", changed="yes")
        await scene.world.edit_policy("everywhere", tolerations=[{"key": "new", "operator": "Exists"}])
        await asyncio.sleep(60)
        assert await scene.world.in_use("everywhere") == {"ams", "dub"}


@virtual
async def test_a_cluster_that_was_given_up_is_taken_back_although_it_is_full_of_the_placement(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        await join(scene.world, "ams", cpu="1")
        await scene.place("web", ONE, requests="cpu=1")
        await soon(lambda: _has_bound(scene, 1))
        await scene.world.edit_policy("web", numberOfClusters=0)
        await asyncio.sleep(10)
        assert await scene.world.in_use("web") == set()
        await scene.world.edit_policy("web", numberOfClusters=1)
        await asyncio.sleep(30)
        assert await scene.world.in_use("web") == {"ams"}


@virtual
async def test_absurd_requests_neither_free_room_nor_stop_the_next_process(tmp_path: Path) -> None:
    """Each is the largest there may be: their sum does not fit into 64 bits."""
    fixed = {"placementType": "PickFixed", "clusterNames": ["ams"]}
    async with a_scene(tmp_path, ROOMY) as scene:
        await join(scene.world, "ams", cpu="1")
        for number in range(12):
            await scene.place(f"huge{number}", fixed, requests=f"cpu={2**60 // 1000}")
        await soon(lambda: _has_bound(scene, 12))
        await scene.place("web", ONE, requests="cpu=1")
        await asyncio.sleep(30)
        assert "web" not in await list_bound(scene)
    async with a_scene(tmp_path, ROOMY, after=scene) as again:
        await asyncio.sleep(30)
        assert "web" not in await list_bound(again)
        for number in range(12):
            await again.world.delete(CLUSTER_SCOPED.placement, f"huge{number}")
        await soon(lambda: _is_on(again, "web", "ams"))


async def _uses(scene: Scene, placement: str, *clusters: str) -> bool:
    return await scene.world.in_use(placement) == set(clusters)


@virtual
async def test_requests_of_the_options_win_and_an_unreadable_request_is_refused(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        await join(scene.world, "ams", cpu="4")
        await scene.world.create(
            CLUSTER_SCOPED.options, {"metadata": {"name": "web"}, "spec": {"requests": {"cpu": "8"}}}
        )
        await scene.place("web", ONE, requests="cpu=1")
        await scene.place("odd", ONE, requests="cpu=lots")
        await asyncio.sleep(30)
        assert await list_bound(scene) == {}
        (refused,) = scene.attempts.of("odd")
        assert "'lots' is no quantity for cpu: write cpu=4, 500m or 16Gi" in refused.failure
        await scene.world.patch(CLUSTER_SCOPED.options, "web", {"spec": {"requests": {"cpu": "2"}}})
        await scene.annotate("odd", requests="cpu=2")
        await soon(lambda: _has_bound(scene, 2))


# --- faults -----------------------------------------------------------------------------------------------------------


class StalledWatches:
    """A line on which nothing is heard of bindings but what is asked for."""

    def __init__(self, hub: HubApi) -> None:
        self._hub = hub
        self.are_heard = asyncio.Event()

    async def call(self, request: Request) -> bytes:
        return await self._hub.call(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._hub.stream(request) as lines:
            yield self._delay(lines) if "resourcebindings" in request.path else lines

    async def _delay(self, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        await self.are_heard.wait()
        async for line in lines:
            yield line


@virtual
async def test_X_13_room_stays_taken_while_the_outcome_of_a_write_is_unknown(tmp_path: Path) -> None:
    """The binding is on the hub, and neither an answer nor the watch tells so."""
    hub, is_down = a_hub(), False
    line = StalledWatches(hub)

    def fault(request: Request) -> Fault:
        if not is_down or "resourcebindings" not in request.path:
            return None
        if request.method is Method.POST:
            return Lost() if b"first" in (request.body or b"") else None
        return Refused(UNAVAILABLE)

    settings = "eligibility.heartbeatTimeout=24h"
    async with running(hub, tmp_path / "fleet.yaml", HEAD + ROOMY, settings, fault=fault, through=line) as site:
        world = World(hub)
        await join(world, "ams", cpu="1")
        is_down = True
        await place(world, "first")
        await soon(lambda: _has_ended(site, "first"))
        await place(world, "second")
        await asyncio.sleep(300)
        assert await list_bound_by(world) == {"first": "ams"}
        is_down = False
        line.are_heard.set()
        await asyncio.sleep(600)
        assert await list_bound_by(world) == {"first": "ams"}
        await world.delete(CLUSTER_SCOPED.placement, "first")
        await soon(lambda: _is_bound_instead(world, "second"))


class UnheardDeletion:
    """The first binding is deleted before the answer to its creation arrives, and between two lists of the informer."""

    def __init__(self, hub: HubApi) -> None:
        self._hub = hub
        self._is_expired = asyncio.Event()
        self._is_listed = asyncio.Event()

    async def call(self, request: Request) -> bytes:
        answer, is_about = await self._hub.call(request), "clusterresourcebindings" in request.path
        if is_about and request.method is Method.POST and not self._is_expired.is_set():
            name = json.loads(answer)["metadata"]["name"]
            await World(self._hub).patch(CLUSTER_SCOPED.binding, name, {"metadata": {"finalizers": None}})
            await World(self._hub).delete(CLUSTER_SCOPED.binding, name)
            self._is_expired.set()
            await self._is_listed.wait()
            await asyncio.sleep(1)
        elif is_about and self._is_expired.is_set():
            self._is_listed.set()
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        is_first = "clusterresourcebindings" in request.path and not self._is_expired.is_set()
        async with self._hub.stream(request) as lines:
            yield self._expire() if is_first else lines
            if is_first:
                await self._is_expired.wait()

    async def _expire(self) -> AsyncIterator[bytes]:
        await self._is_expired.wait()
        raise refusal(410, "Expired")
        yield b""


@virtual
async def test_X_13_a_binding_that_came_and_went_unheard_leaves_no_room_taken(tmp_path: Path) -> None:
    hub = a_hub()
    line = UnheardDeletion(hub)
    settings = "eligibility.heartbeatTimeout=24h"
    async with running(hub, tmp_path / "fleet.yaml", HEAD + ROOMY, settings, through=line) as site:
        world = World(hub)
        await join(world, "ams", cpu="1")
        await place(world, "first")
        await soon(lambda: _has_ended(site, "first"))
        assert await list_bound_by(world) == {}
        await place(world, "second")
        await soon(lambda: _is_bound_instead(world, "second"))


async def _has_ended(site: Running, placement: str) -> bool:
    return bool(site.of(placement))


async def place(world: World, name: str) -> None:
    metadata = {"name": name, "annotations": {"scheduling.fleet.dev/requests": "cpu=1"}}
    spec = {"resourceSelectors": [ANYTHING], "policy": ONE}
    await world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})


async def _is_bound_instead(world: World, name: str) -> bool:
    return name in await list_bound_by(world)
