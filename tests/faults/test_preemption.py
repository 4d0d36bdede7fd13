"""Preemption through a running controller: who leaves, when the room is taken, and by whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.framework.request import PlacementRequest
from fleet.framework.state import StateKey
from fleet.framework.status import Code
from fleet.framework.types import Reason, ReasonTable, Verdict
from fleet.kube.api import Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED, DISRUPTION_BUDGETS, PRIORITY_CLASSES
from fleet.model.keys import PARENT_PLACEMENT
from fleet.scheduler.attempt_record import AttemptResult
from fleet.snapshot.columns.bitset import from_rows
from plugins.capacity.default_preemption import DefaultPreemption
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING, World
from tests.fake_hub import UNAVAILABLE, Fault, Refused, Slow
from tests.faults.acting import Running, running
from tests.faults.configured import HEAD, Scene, a_scene
from tests.faults.hub_api import a_hub
from tests.faults.test_room import ONE, ROOMY, apply_all, join, list_bound_by, report_usage
from tests.faults.virtual import virtual
from tests.installed import an_installed_package

EVICTING: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: DefaultPreemption}]}}
- {schedulerName: careless}
- {schedulerName: roomy, base: ExtendedProfile}
"""
QUIET: Final = "eligibility.heartbeatTimeout=24h"
OPTIONS: Final = CLUSTER_SCOPED.options
BINDING: Final = CLUSTER_SCOPED.binding
FIXED: Final = {"placementType": "PickFixed", "clusterNames": ["ams"]}


async def place(
    world: World, name: str, *, cpu: int, priority: int = 0, policy: Any = ONE, by: str = "", **options: Any
) -> None:
    """With options of its own."""
    spec = {"priority": priority, "requests": {"cpu": str(cpu)}, "schedulerName": by, **options}
    await world.create(OPTIONS, {"metadata": {"name": name}, "spec": spec})
    await world.create(
        CLUSTER_SCOPED.placement,
        {"metadata": {"name": name}, "spec": {"resourceSelectors": [ANYTHING], "policy": policy}},
    )


async def find_bindings(world: World, placement: str) -> list[dict[str, Any]]:
    bindings = await world.all(BINDING)
    return [each for each in bindings if each["metadata"]["labels"][PARENT_PLACEMENT] == placement]


async def has_state(world: World, placement: str, *states: str) -> bool:
    return [each["spec"]["state"] for each in await find_bindings(world, placement)] == list(states)


async def is_given_up(world: World, placement: str) -> None:
    await soon(lambda: has_state(world, placement, "Unscheduled"))


async def is_placed(world: World, placement: str, *clusters: str) -> None:
    await soon(lambda: _is_on(world, placement, {*clusters}))


async def _is_on(world: World, placement: str, clusters: set[str]) -> bool:
    return await world.in_use(placement) == clusters


async def roll_out(world: World, *placements: str) -> None:
    """What KubeFleet does with bindings that were given up: it deletes them."""
    for binding in [each for name in placements for each in await find_bindings(world, name)]:
        if binding["spec"]["state"] == "Unscheduled":
            await world.delete(BINDING, binding["metadata"]["name"])


async def end_workloads(scene: Scene, cluster: str) -> None:
    """Its member reports that nothing runs there any more; the bindings are still there."""
    now = scene.clock.now()
    await apply_all(scene, at=now)
    await report_usage(scene.world, cluster, cpu="4", at=now + timedelta(seconds=30))


async def read_preemptions(world: World, name: str) -> list[tuple[str, str, list[str]]]:
    options = await world.find(OPTIONS, name)
    preemptions = (options or {}).get("status", {}).get("preemptions", ())
    return [(each["cluster"], each["phase"], each["victims"]) for each in preemptions]


async def read_condition(world: World, name: str) -> tuple[str, str, str] | None:
    conditions = (await world.get(OPTIONS, name)).get("status", {}).get("conditions", ())
    return next(
        ((each["status"], each["reason"], each["message"]) for each in conditions if each["type"] == "Preempting"),
        None,
    )


async def fill(world: World, *clusters: str, priority: int = 0, cpu: int = 4, **options: Any) -> None:
    """Each cluster with one placement that takes all of it."""
    for name in clusters:
        await join(world, name, cpu=str(cpu))
        await world.relabel(name, place=name)
        await place(world, f"on-{name}", cpu=cpu, priority=priority, policy=only_on(name), **options)
        await is_placed(world, f"on-{name}", name)


def only_on(cluster: str, policy: dict[str, Any] = ONE) -> dict[str, Any]:
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"place": cluster}}}]}
    return {**policy, "affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def count_evictions(requests: list[Request]) -> int:
    return sum(request.method is Method.PATCH and b'"Unscheduled"' in (request.body or b"") for request in requests)


# --- the whole way ----------------------------------------------------------------------------------------------------


@virtual
async def test_Q_23_room_is_made_and_taken_only_when_the_victims_object_is_gone(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await place(world, "vip", cpu=3, priority=100)
        await is_given_up(world, "on-ams")
        await end_workloads(scene, "ams")
        await asyncio.sleep(60)
        assert await find_bindings(world, "vip") == []
        assert await read_preemptions(world, "vip") == [("ams", "Evicting", ["on-ams"])]
        text = "room is made for the placement: waits for on-ams to leave ams"
        assert await read_condition(world, "vip") == ("True", "Evicting", text)
        (victim,) = await find_bindings(world, "on-ams")
        name = victim["metadata"]["name"]
        await world.patch(BINDING, name, {"metadata": {"finalizers": ["kubernetes-fleet.io/work-cleanup"]}})
        await roll_out(world, "on-ams")
        await asyncio.sleep(60)
        assert await find_bindings(world, "vip") == []
        await world.patch(BINDING, name, {"metadata": {"finalizers": None}})
        await is_placed(world, "vip", "ams")
        await asyncio.sleep(1200)
        assert await list_bound_by(world) == {"vip": "ams"}
        assert await read_preemptions(world, "vip") == []
        assert (await read_condition(world, "vip") or "")[0] == "False"
        assert count_evictions(scene.hub.requests) == 1
        assert scene.sample("fleet_preemption_victims_count") == 1
        assert scene.sample("fleet_preemption_victims_sum") == 1


@virtual
async def test_the_least_important_leave_and_no_more_than_needed(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await join(world, "ams", cpu="6")
        for name, cpu, priority in (("low", 1, 1), ("lower", 2, 0), ("high", 2, 50), ("equal", 1, 100)):
            await place(world, name, cpu=cpu, priority=priority)
            await is_placed(world, name, "ams")
        await place(world, "vip", cpu=2, priority=100)
        await is_given_up(world, "lower")
        await roll_out(world, "lower")
        await is_placed(world, "vip", "ams")
        await asyncio.sleep(600)
        assert set(await list_bound_by(world)) == {"low", "high", "equal", "vip"}


@virtual
async def test_the_cluster_where_least_is_lost_is_taken_and_the_victim_finds_another(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", priority=20)
        await join(world, "dub", cpu="4")
        await place(world, "mobile", cpu=4, priority=10)
        await is_placed(world, "mobile", "dub")
        await place(world, "vip", cpu=3, priority=100)
        await is_given_up(world, "mobile")
        await roll_out(world, "mobile")
        await is_placed(world, "vip", "dub")
        await join(world, "osl", cpu="4")
        await is_placed(world, "mobile", "osl")
        assert await world.in_use("on-ams") == {"ams"}


@virtual
async def test_a_victim_does_not_take_its_cluster_back(tmp_path: Path) -> None:
    """Although it was there, and although it is tried again at once."""
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await join(world, "ams", cpu="4")
        await place(world, "everywhere", cpu=4, policy={"placementType": "PickAll"})
        await is_placed(world, "everywhere", "ams")
        await place(world, "vip", cpu=1, priority=1)
        await is_given_up(world, "everywhere")
        await world.relabel("ams", changed="yes")
        await world.edit_policy("everywhere", tolerations=[{"key": "new", "operator": "Exists"}])
        await asyncio.sleep(120)
        assert await has_state(world, "everywhere", "Unscheduled")
        assert "Preemption/Evicted" in [each for record in scene.attempts.of("everywhere") for each in record.triggers]
        await world.delete(CLUSTER_SCOPED.placement, "vip")
        await is_placed(world, "everywhere", "ams")


# --- who may be evicted, and by whom ----------------------------------------------------------------------------------


@virtual
async def test_Q_25_F3_009_what_may_not_leave_stays(tmp_path: Path) -> None:
    """Of equal priority, protected by a budget, chosen by name, decided by a profile that does not look at room; and
    where the cluster is too small in any case."""
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        budget = {"metadata": {"name": "on-dub"}, "spec": {"minAvailable": 1}}
        await world.create(DISRUPTION_BUDGETS, budget)
        await fill(world, "ams", priority=100)
        await fill(world, "dub")
        await fill(world, "tiny", cpu=2)
        await join(world, "lon", cpu="4")
        await place(world, "fixed", cpu=4, policy={"placementType": "PickFixed", "clusterNames": ["lon"]})
        await is_placed(world, "fixed", "lon")
        await join(world, "osl", cpu="4")
        await place(world, "careless", cpu=4, by="careless", policy=only_on("osl", {"placementType": "PickAll"}))
        await world.relabel("osl", place="osl")
        await is_placed(world, "careless", "osl")
        await place(world, "vip", cpu=3, priority=100)
        await asyncio.sleep(900)
        assert await find_bindings(world, "vip") == []
        assert count_evictions(scene.hub.requests) == 0
        assert await read_condition(world, "vip") is None
        decision = scene.attempts.of("vip")[-1].decision
        assert decision is not None
        assert "of 5 clusters, 0 have bindings that could leave" in decision.notes["DefaultPreemption"]["preemption"]
        await world.delete(DISRUPTION_BUDGETS, "on-dub")
        await is_given_up(world, "on-dub")


@virtual
async def test_an_event_searches_once_for_all_equal_placements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    post_filter = DefaultPreemption.post_filter

    def count(plugin: DefaultPreemption, ctx: Any, state: Any, req: PlacementRequest, *rest: Any) -> Any:
        searched.append(req.key)
        return post_filter(plugin, ctx, state, req, *rest)

    monkeypatch.setattr(DefaultPreemption, "post_filter", count)
    async with a_scene(tmp_path, EVICTING.replace("plugins", "backoffOnRejection: false\n  plugins", 1)) as scene:
        world = scene.world
        await fill(world, "ams", priority=5000)
        for number in range(12):
            await place(world, f"vip{number}", cpu=4, priority=100 if number < 9 else 200)
        await asyncio.sleep(120)
        attempts = len(scene.attempts.records)
        searched.clear()
        await world.relabel("ams", any="label")
        await asyncio.sleep(30)
        assert len(searched) == 2, "one of each priority"
        assert len(scene.attempts.records) == attempts


@virtual
async def test_room_that_can_be_made_on_one_of_many_clusters_is_found(tmp_path: Path) -> None:
    """Whatever number of others have bindings that are less important, too."""
    async with a_scene(tmp_path, EVICTING.replace("plugins", "backoffOnRejection: false\n  plugins", 1)) as scene:
        world = scene.world
        await fill(world, "zrh", priority=1000)
        names = [f"c{number:03}" for number in range(104)]
        for name in names:
            await join(world, name, cpu="4", free="2")
            await world.relabel(name, place="small")
        await place(world, "low", cpu=2, priority=1, policy=only_on("small", {"placementType": "PickAll"}))
        await is_placed(world, "low", *names)
        await place(world, "vip", cpu=3, priority=100)
        await world.soon_scheduled("vip", status="False")
        await world.patch(OPTIONS, "on-zrh", {"spec": {"priority": 2}})
        await is_given_up(world, "on-zrh")


@virtual
async def test_Q_25_Never_evicts_nothing_in_options_or_by_the_class(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await world.create(PRIORITY_CLASSES, {"metadata": {"name": "meek"}, "value": 100, "preemptionPolicy": "Never"})
        await fill(world, "ams")
        await place(world, "by-options", cpu=3, priority=100, preemptionPolicy="Never")
        await world.create(OPTIONS, {"metadata": {"name": "by-class"}, "spec": {"requests": {"cpu": "3"}}})
        await scene.place("by-class", ONE, priority_class="meek")
        await asyncio.sleep(900)
        assert await list_bound_by(world) == {"on-ams": "ams"}
        assert count_evictions(scene.hub.requests) == 0
        await world.patch(OPTIONS, "by-options", {"spec": {"preemptionPolicy": "PreemptLowerPriority"}})
        await is_given_up(world, "on-ams")


@virtual
async def test_a_budget_is_looked_at_again_before_each_eviction(tmp_path: Path) -> None:
    """It appears while the plan is written."""
    hub = a_hub()

    def fault(request: Request) -> Fault:
        return Slow(before=20) if request.path.endswith("/vip/status") and "options" in request.path else None

    async with running(hub, tmp_path / "fleet.yaml", HEAD + EVICTING, QUIET, fault=fault):
        world = World(hub)
        await fill(world, "ams")
        await place(world, "vip", cpu=3, priority=100)
        await asyncio.sleep(10)
        await world.create(DISRUPTION_BUDGETS, {"metadata": {"name": "on-ams"}, "spec": {"minAvailable": "100%"}})
        await asyncio.sleep(900)
        assert await has_state(world, "on-ams", "Scheduled")
        assert await read_preemptions(world, "vip") == []
        assert (await read_condition(world, "vip") or "")[0] == "False"


@virtual
async def test_profiles_that_do_not_name_the_plugin_evict_nothing_and_watch_no_budget(tmp_path: Path) -> None:
    async with a_scene(tmp_path, ROOMY) as scene:
        await fill(scene.world, "ams")
        await place(scene.world, "vip", cpu=3, priority=100)
        await asyncio.sleep(900)
        assert await list_bound_by(scene.world) == {"on-ams": "ams"}
        assert not any(DISRUPTION_BUDGETS.plural in request.path for request in scene.hub.requests)
        assert await read_condition(scene.world, "vip") is None


class Lonely:
    """Accepts clusters that have no binding of another placement, as PreFilter has counted them."""

    READS = ("bindings",)
    ROW_LOCAL = True
    REASONS = ReasonTable(Reason("Crowded", Code.UNSCHEDULABLE, "others are there"))

    def __init__(self, raw: Any = None, handle: Any = None) -> None:
        pass

    def name(self) -> str:
        return type(self).__name__

    def pre_filter(self, ctx: Any, state: Any, req: Any, frame: Any) -> Any:
        others = [[each for each in frame.placed[row] if each.placement != req.key] for row in range(frame.size)]
        state.write(StateKey("Lonely"), _Counts({row: len(each) for row, each in enumerate(others)}))

    def pre_filter_extensions(self) -> Lonely:
        return self

    def add(self, ctx: Any, state: Any, req: Any, frame: Any, deltas: Any) -> None:
        for delta in deltas:
            state.read(StateKey("Lonely")).by_row[delta.row] += delta.sign

    remove = add

    def filter(self, ctx: Any, state: Any, req: Any, frame: Any, alive: int) -> Any:
        counts = state.read(StateKey("Lonely")).by_row
        return Verdict(ok=from_rows(row for row, count in counts.items() if self.likes(count, sum(counts.values()))))

    def likes(self, here: int, in_all: int) -> bool:
        return not here


class Coupled(Lonely):
    """Beside one other at most."""

    def likes(self, here: int, in_all: int) -> bool:
        return here <= 1


class Neighbour(Lonely):
    """Not where others are, but only while others are somewhere."""

    ROW_LOCAL = False

    def likes(self, here: int, in_all: int) -> bool:
        return here == 0 < in_all


class _Counts:
    def __init__(self, by_row: dict[int, int]) -> None:
        self.by_row = by_row

    def clone(self) -> _Counts:
        return _Counts(dict(self.by_row))


@virtual
async def test_F3_052_F3_054_F3_079_what_pre_filter_counted_follows_the_bindings_that_are_taken_away(
    tmp_path: Path,
) -> None:
    """There is room enough, but the plugin wants none beside its placement, and sees no room that is kept. Other
    plugins have no extensions."""
    async with a_scene_beside(tmp_path, "Lonely") as scene:
        world = scene.world
        await join(world, "ams", cpu="8")
        await place(world, "low", cpu=1)
        await is_placed(world, "low", "ams")
        await place(world, "lower", cpu=1, priority=-1, preemptionPolicy="Never")
        await place(world, "vip", cpu=1, priority=10)
        await is_given_up(world, "low")
        assert await find_bindings(world, "vip") == []
        await roll_out(world, "low")
        await is_placed(world, "vip", "ams")
        assert await find_bindings(world, "lower") == []


@asynccontextmanager
async def a_scene_beside(folder: Path, plugin: str) -> AsyncIterator[Scene]:
    """An out-of-tree plugin of this module, in a profile that evicts."""
    document = EVICTING.replace("[{name: DefaultPreemption}]", f"[{{name: DefaultPreemption}}, {{name: {plugin}}}]", 1)
    source = f"from tests.faults.test_preemption import {plugin} as made\n"
    with an_installed_package(folder, source, {plugin: "made"}):
        async with a_scene(folder, document) as scene:
            yield scene


@virtual
async def test_F3_052_F3_053_F3_078_what_pre_filter_counted_follows_the_bindings_that_are_put_back(
    tmp_path: Path,
) -> None:
    """The more important one is, so that the plugin counts one, and then rejects the other."""
    async with a_scene_beside(tmp_path, "Coupled") as scene:
        world = scene.world
        await join(world, "ams", cpu="8")
        for name, priority in (("lower", -1), ("low", 0)):
            await place(world, name, cpu=1, priority=priority)
            await is_placed(world, name, "ams")
        await place(world, "vip", cpu=1, priority=10)
        await is_given_up(world, "lower")
        await roll_out(world, "lower")
        await is_placed(world, "vip", "ams")
        assert await has_state(world, "low", "Scheduled")
        assert count_evictions(scene.hub.requests) == 1


@virtual
async def test_F3_134_clusters_are_tried_as_if_only_one_of_them_changed(tmp_path: Path) -> None:
    """The plugin would reject both if the bindings of both were gone."""
    async with a_scene_beside(tmp_path, "Neighbour") as scene:
        world = scene.world
        await fill(world, "ams", by="roomy")
        await fill(world, "dub", by="roomy", priority=1)
        await place(world, "vip", cpu=1, priority=10)
        await is_given_up(world, "on-ams")
        await roll_out(world, "on-ams")
        await is_placed(world, "vip", "ams")
        assert await has_state(world, "on-dub", "Scheduled")
        assert count_evictions(scene.hub.requests) == 1


@virtual
async def test_Q_45_searches_and_victims_are_counted(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", priority=50)
        await place(world, "plain", cpu=1)
        await soon(partial(_is_short, scene, "plain"))
        assert scene.sample("fleet_preemption_victims_count") == 0
        await place(world, "vip", cpu=1, priority=100)
        await is_given_up(world, "on-ams")
        short = [each for each in scene.attempts.records if each.result is AttemptResult.SHORT]
        assert scene.sample("fleet_preemption_attempts_total") == len(short) >= 2
        assert scene.sample("fleet_preemption_victims_count") == 1


async def _is_short(scene: Scene, name: str) -> bool:
    return any(each.result is AttemptResult.SHORT for each in scene.attempts.of(name))


# --- the room that is kept --------------------------------------------------------------------------------------------


@virtual
async def test_Q_20_equal_priority_cannot_take_the_room_higher_can_and_others_go_on(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await place(world, "vip", cpu=4, priority=100)
        await is_given_up(world, "on-ams")
        await place(world, "equal", cpu=1, priority=100)
        await place(world, "roomy", cpu=1, priority=100, by="roomy")
        await join(world, "dub", cpu="1")
        await asyncio.sleep(60)
        assert [len(await world.in_use(name)) for name in ("equal", "roomy")] in ([0, 1], [1, 0])  # the one on dub
        assert count_evictions(scene.hub.requests) == 1
        await place(world, "king", cpu=4, priority=1000)
        await soon(lambda: _is_preempting(world, "king"))
        await roll_out(world, "on-ams")
        await is_placed(world, "king", "ams")
        await asyncio.sleep(1200)
        assert await find_bindings(world, "vip") == []
        assert await read_preemptions(world, "vip") == []
        assert count_evictions(scene.hub.requests) == 1


@virtual
async def test_Q_20_room_that_is_free_already_is_kept_from_equal_priority_but_not_from_higher(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await place(world, "vip", cpu=4, priority=100)
        await is_given_up(world, "on-ams")
        await end_workloads(scene, "ams")
        await place(world, "equal", cpu=1, priority=100)
        await asyncio.sleep(60)
        assert await find_bindings(world, "equal") == []
        await place(world, "king", cpu=1, priority=1000)
        await is_placed(world, "king", "ams")


async def _is_preempting(world: World, name: str) -> bool:
    return bool(await read_preemptions(world, name))


@virtual
async def test_the_room_goes_to_the_nominee_although_others_were_first(tmp_path: Path) -> None:
    """They have waited for longer, and would fit."""
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", priority=50)
        for number in range(5):
            await place(world, f"early{number}", cpu=4, priority=50)
        await asyncio.sleep(60)
        await place(world, "vip", cpu=4, priority=51)
        await is_given_up(world, "on-ams")
        await asyncio.sleep(60)
        await roll_out(world, "on-ams")
        await is_placed(world, "vip", "ams")
        await asyncio.sleep(60)
        assert await list_bound_by(world) == {"vip": "ams"}


@virtual
async def test_room_elsewhere_is_taken_and_what_was_kept_is_free_again(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await place(world, "vip", cpu=4, priority=100)
        await is_given_up(world, "on-ams")
        await join(world, "dub", cpu="4")
        await is_placed(world, "vip", "dub")
        await is_placed(world, "on-ams", "ams")  # revived
        assert await read_preemptions(world, "vip") == []


@virtual
async def test_room_that_does_not_come_is_given_up_after_ten_minutes(tmp_path: Path) -> None:
    """The member goes on reporting that nothing is available."""
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await place(world, "vip", cpu=4, priority=100)
        await is_given_up(world, "on-ams")
        await report_usage(world, "ams", cpu="4", free="0")
        await roll_out(world, "on-ams")
        await soon(lambda: is_drained(world, "vip"))
        await asyncio.sleep(500)
        assert await read_preemptions(world, "vip") == [("ams", "Drained", ["on-ams"])]
        await asyncio.sleep(200)
        assert await read_preemptions(world, "vip") == []


async def is_drained(world: World, name: str) -> bool:
    return [phase for _, phase, _ in await read_preemptions(world, name)] == ["Drained"]


@virtual
async def test_a_changed_request_begins_anew(tmp_path: Path) -> None:
    """A smaller request fits after fewer have left; what was kept for the greater one is free."""
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await place(world, "vip", cpu=4, priority=100)
        await is_given_up(world, "on-ams")
        await world.patch(OPTIONS, "vip", {"spec": {"priority": -1}})
        await is_placed(world, "on-ams", "ams")
        assert await read_preemptions(world, "vip") == []


# --- the hub ----------------------------------------------------------------------------------------------------------


async def _was_tried(site: Running, name: str, times: int) -> bool:
    return len(site.of(name)) >= times


@virtual
async def test_Q_19_an_attempt_that_evicts_takes_no_longer_than_one_that_fails(tmp_path: Path) -> None:
    hub, is_slow = a_hub(), False

    def fault(request: Request) -> Fault:
        return Slow(before=5) if is_slow else None

    async with running(hub, tmp_path / "fleet.yaml", HEAD + EVICTING, QUIET, fault=fault) as site:
        world = World(hub)
        await fill(world, "ams")
        is_slow = True
        for name, priority in (("plain", 0), ("vip", 100)):
            await place(world, name, cpu=3, priority=priority)
            await soon(partial(_was_tried, site, name, 1))
        plain, vip = site.of("plain")[0], site.of("vip")[0]
        assert vip.decision is not None
        assert vip.decision.nomination == ("ams",)
        assert sum(vip.seconds.values()) == pytest.approx(sum(plain.seconds.values()))
        await is_given_up(world, "on-ams")


@virtual
async def test_Q_21_Q_23_after_a_failed_eviction_the_placement_is_tried_at_once(tmp_path: Path) -> None:
    """And the eviction is repeated, without another plan."""
    hub = a_hub()
    failures = [0]

    def fault(request: Request) -> Fault:
        if request.method is Method.PATCH and b'"Unscheduled"' in (request.body or b""):
            failures[0] += 1
            return Refused(UNAVAILABLE) if failures[0] < 30 else None
        return None

    async with running(hub, tmp_path / "fleet.yaml", HEAD + EVICTING, QUIET, fault=fault) as site:
        world = World(hub)
        await fill(world, "ams")
        await place(world, "vip", cpu=3, priority=100)
        await soon(partial(_was_tried, site, "vip", 2))
        second = site.of("vip")[1]
        assert second.triggers == ("Preemption/EvictionFailed",)
        assert second.decision is not None
        assert second.decision.nomination == ()
        assert await read_preemptions(world, "vip") == [("ams", "Evicting", ["on-ams"])]
        await is_given_up(world, "on-ams")
        assert [bool(each.decision and each.decision.nomination) for each in site.of("vip")].count(True) == 1
        await roll_out(world, "on-ams")
        await is_placed(world, "vip", "ams")


@virtual
async def test_Q_22_an_eviction_that_is_seen_before_its_call_returns_wakes_the_placement(tmp_path: Path) -> None:
    hub = a_hub()

    def fault(request: Request) -> Fault:
        evicts = request.method is Method.PATCH and b'"Unscheduled"' in (request.body or b"")
        return Slow(after=20) if evicts else None

    async with running(hub, tmp_path / "fleet.yaml", HEAD + EVICTING, QUIET, fault=fault) as site:
        world = World(hub)
        await fill(world, "ams")
        await place(world, "vip", cpu=3, priority=100)
        await is_given_up(world, "on-ams")
        began = asyncio.get_running_loop().time()
        (victim,) = await find_bindings(world, "on-ams")
        name = victim["metadata"]["name"]
        await world.patch(BINDING, name, {"metadata": {"finalizers": None}})
        await world.delete(BINDING, name)
        await is_placed(world, "vip", "ams")
        assert asyncio.get_running_loop().time() - began < 5
        await asyncio.sleep(60)
        assert await read_preemptions(world, "vip") == []
        assert len([each for each in site.of("vip") if each.result is AttemptResult.DECIDED]) <= 2
