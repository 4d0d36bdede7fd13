"""Room for groups at the expense of others: for as many members as are needed, or for none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.errors import Unreachable
from fleet.informers.cache import PlacementKinds
from fleet.kube.scopes import CLUSTER_SCOPED, DISRUPTION_BUDGETS
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt import AttemptRunner, AttemptScope
from fleet.snapshot.sidedata import LEAVING
from tests.e2e.hub import soon
from tests.e2e.world import World
from tests.faults.configured import a_scene
from tests.faults.test_groups import a_group, are_bound, read_condition
from tests.faults.test_preemption import (
    EVICTING,
    count_evictions,
    fill,
    find_bindings,
    has_state,
    is_given_up,
    is_placed,
    only_on,
    place,
    read_preemptions,
    roll_out,
)
from tests.faults.test_quotas import allow
from tests.faults.test_quotas import place as place_with_quota
from tests.faults.test_room import ONE, join, list_bound_by
from tests.faults.virtual import virtual

VIP: Final = 100


async def place_members(world: World, *names: str, cpu: int = 3, priority: int = VIP, **options: Any) -> None:
    for name in names:
        await place(world, name, cpu=cpu, priority=priority, group="web", **options)


@virtual
async def test_X_18_all_members_get_room_and_are_bound_when_the_last_victim_is_gone(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2")
        for victim in ("on-ams", "on-dub"):
            await is_given_up(world, victim)
        await soon(lambda: says(scene, "room is being made for p1, p2"))
        await roll_out(world, "on-ams")
        await asyncio.sleep(60)
        assert [each for name in ("p1", "p2") for each in await find_bindings(world, name)] == []
        await roll_out(world, "on-dub")
        await are_bound(scene, 2)
        assert {*(await list_bound_by(world)).values()} == {"ams", "dub"}
        await asyncio.sleep(1200)
        assert [await read_preemptions(world, name) for name in ("p1", "p2")] == [[], []]
        assert count_evictions(scene.hub.requests) == 2


async def says(scene: Any, text: str) -> bool:
    return text in (await read_condition(scene))[2]


@virtual
async def test_X_18_nothing_leaves_if_the_group_does_not_fit_even_then(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "lux")
        await fill(world, "dub", priority=VIP)
        await a_group(scene, minCount=3)
        await place_members(world, "p1", "p2", "p3")
        await asyncio.sleep(900)
        assert count_evictions(scene.hub.requests) == 0
        assert (await read_condition(scene))[1] == "GroupInfeasible"
        await join(world, "oslo", cpu="3")
        for victim in ("on-ams", "on-lux"):
            await is_given_up(world, victim)
        assert await has_state(world, "on-dub", "Scheduled")


@virtual
async def test_where_nothing_leaves_members_show_the_decisions_of_the_best_domain(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        for name, cpu in (("a1", "9"), ("b1", "1"), ("b2", "1")):
            await join(world, name, cpu=cpu)
            await world.relabel(name, region=name[0])
        await a_group(scene, minCount=4, topologyKey="region")
        await place_members(world, "p1", "p2", "p3", "p4")
        await asyncio.sleep(60)
        decisions = [scene.attempts.of(name)[-1].decision for name in ("p1", "p2", "p3", "p4")]
        shown = [[target.cluster for target in each.targets] for each in decisions if each is not None]
        assert shown == [["a1"], ["a1"], ["a1"], []]


@virtual
async def test_no_more_leave_than_the_minimum_needs_and_what_is_free_is_kept_meanwhile(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        await join(world, "free", cpu="3")
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2", "p3")
        await asyncio.sleep(30)
        await place(world, "late", cpu=3)
        await asyncio.sleep(60)
        assert await find_bindings(world, "late") == []
        assert count_evictions(scene.hub.requests) == 1
        await roll_out(world, "on-ams", "on-dub")
        await soon(lambda: are_members_bound(world, 2))
        assert await find_bindings(world, "late") == []


async def are_members_bound(world: World, count: int) -> bool:
    return len([name for name in await list_bound_by(world) if name.startswith("p")]) == count


@virtual
async def test_members_together_stay_within_a_disruption_budget(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        for name in ("ams", "dub"):
            await join(world, name, cpu="4")
        await world.create(DISRUPTION_BUDGETS, {"metadata": {"name": "wide"}, "spec": {"maxUnavailable": 1}})
        await place(world, "wide", cpu=4, policy={"placementType": "PickN", "numberOfClusters": 2})
        await is_placed(world, "wide", "ams", "dub")
        for binding in await find_bindings(world, "wide"):
            condition = {"type": "Available", "status": "True", "reason": "Available", "message": ""}
            condition |= {"observedGeneration": binding["metadata"]["generation"]}
            condition |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
            patch = {"status": {"conditions": [condition]}}
            await world.patch(CLUSTER_SCOPED.binding, binding["metadata"]["name"], patch, subresource="status")
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2")
        await asyncio.sleep(600)
        assert await has_state(world, "wide", "Scheduled", "Scheduled")
        await world.patch(DISRUPTION_BUDGETS, "wide", {"spec": {"maxUnavailable": 2}})
        await soon(lambda: has_state(world, "wide", "Unscheduled", "Unscheduled"))
        await roll_out(world, "wide")
        await soon(lambda: are_members_bound(world, 2))


@virtual
async def test_two_members_share_the_room_of_one_victim(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2", cpu=2)
        await asyncio.sleep(60)
        assert count_evictions(scene.hub.requests) == 1
        await roll_out(world, "on-ams", "on-dub")
        await place(world, "late", cpu=2, priority=1)
        await soon(lambda: are_members_bound(world, 2))
        assert len({on for name, on in (await list_bound_by(world)).items() if name.startswith("p")}) == 1


@virtual
async def test_room_is_made_in_one_domain(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        for region, clusters in {"a": ("a1",), "b": ("b1", "b2"), "c": ("c1", "c2", "c3")}.items():
            await fill(world, *clusters)
            for name in clusters:
                await world.relabel(name, region=region)
        await a_group(scene, minCount=2, topologyKey="region")
        await place_members(world, "p1", "p2")
        for victim in ("on-b1", "on-b2"):
            await is_given_up(world, victim)
        await roll_out(world, "on-b1", "on-b2")
        await soon(lambda: are_members_bound(world, 2))
        assert count_evictions(scene.hub.requests) == 2


@virtual
async def test_a_group_that_never_preempts_waits(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        await fill(scene.world, "ams", "dub")
        await a_group(scene, minCount=2)
        await place_members(scene.world, "p1", "p2", preemptionPolicy="Never")
        await asyncio.sleep(600)
        assert count_evictions(scene.hub.requests) == 0


@virtual
async def test_X_18_the_next_leader_goes_on_with_the_room_of_all(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as before:
        await fill(before.world, "ams", "dub")
        await join(before.world, "free", cpu="3")
        await a_group(before, minCount=3)
        await place_members(before.world, "p1", "p2", "p3")
        for victim in ("on-ams", "on-dub"):
            await is_given_up(before.world, victim)
        await roll_out(before.world, "on-ams")
    async with a_scene(tmp_path, EVICTING, after=before) as scene:
        await place(scene.world, "late", cpu=3, priority=1)
        await asyncio.sleep(60)
        assert await find_bindings(scene.world, "late") == []
        assert await are_members_bound(scene.world, 0)
        await roll_out(scene.world, "on-dub")
        await soon(lambda: are_members_bound(scene.world, 3))
        assert count_evictions(scene.hub.requests) == 2


@virtual
async def test_a_member_whose_room_went_to_a_more_important_placement_gets_other_room(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2")
        for victim in ("on-ams", "on-dub"):
            await is_given_up(world, victim)
        await fill(world, "lux")
        await place(world, "top", cpu=3, priority=1000, policy=only_on("ams"))
        await is_given_up(world, "on-lux")
        await roll_out(world, "on-ams", "on-dub", "on-lux")
        await soon(lambda: are_members_bound(world, 2))
        assert {on for name, on in (await list_bound_by(world)).items() if name.startswith("p")} == {"dub", "lux"}


@virtual
async def test_members_without_an_attempt_count_where_room_is_made_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub", "lux", "oslo")
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2", "p3", "p4")
        await soon(lambda: says(scene, "room is being made for p1, p2"))
        read_bindings = AttemptRunner._read_bindings

        async def fail_for_two(runner: AttemptRunner, kinds: PlacementKinds, key: PlacementKey) -> Any:
            if key.name in ("p1", "p2"):
                raise Unreachable("no answer")
            return await read_bindings(runner, kinds, key)

        monkeypatch.setattr(AttemptRunner, "_read_bindings", fail_for_two)
        for seconds in (9000, 9001):
            await world.patch(CLUSTER_SCOPED.group, "web", {"spec": {"scheduleTimeoutSeconds": seconds}})
            await asyncio.sleep(20)
        assert count_evictions(scene.hub.requests) == 2
        assert [await read_preemptions(world, name) for name in ("p3", "p4")] == [[], []]
        assert await says(scene, "room is being made for p1, p2")


@virtual
async def test_room_is_kept_for_members_that_never_evict(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        for name in ("free", "open"):
            await join(world, name, cpu="3")
        await a_group(scene, minCount=3)
        await place_members(world, "p1", preemptionPolicy="Never")
        await place_members(world, "p2", priority=50)
        await place_members(world, "p3", by="roomy")
        await is_given_up(world, "on-ams")
        await place(world, "late", cpu=3)
        await asyncio.sleep(10)
        assert await find_bindings(world, "late") == []
        await roll_out(world, "on-ams")
        await soon(lambda: are_members_bound(world, 3))
        assert count_evictions(scene.hub.requests) == 1


TEAMS: Final = """
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: DefaultPreemption}, {name: QuotaFit}]}}
"""


async def share_between_teams(scene: Any, *lent: int, **options: Any) -> None:
    """Team a has these on ams, and half of it from what team b is guaranteed, which wants it for two members."""
    await scene.world.join("ams")
    for team in "ab":
        await allow(scene, f"team-{team}", min={"cpu": "10"}, max={"cpu": "20"}, team=team)
    for number, cpu in enumerate(lent):
        await place_with_quota(scene, f"a{number}", f"cpu={cpu}", ONE, team="a")
        await is_placed(scene.world, f"a{number}", "ams")
        await asyncio.sleep(2)
    await a_group(scene, minCount=2)
    for name in ("p1", "p2"):
        await scene.world.create(
            CLUSTER_SCOPED.options, {"metadata": {"name": name}, "spec": {"group": "web"} | options}
        )
        await place_with_quota(scene, name, "cpu=5", ONE, team="b")
    await asyncio.sleep(30)


@virtual
async def test_a_group_without_a_priority_takes_back_what_its_quota_guarantees(tmp_path: Path) -> None:
    async with a_scene(tmp_path, TEAMS) as scene:
        await share_between_teams(scene, 10, 10)
        await is_given_up(scene.world, "a1")
        await roll_out(scene.world, "a1")
        await soon(lambda: are_members_bound(scene.world, 2))


@virtual
@pytest.mark.parametrize("lent", [(10, 10), (5, 5, 5, 5)])
async def test_what_leaves_a_quota_counts_for_the_members_that_come_after(
    tmp_path: Path, lent: tuple[int, ...]
) -> None:
    async with a_scene(tmp_path, TEAMS) as scene:
        await share_between_teams(scene, *lent, priority=1)
        gone = [f"a{number}" for number in range(len(lent) // 2, len(lent))]
        assert count_evictions(scene.hub.requests) == len(gone)
        await roll_out(scene.world, *gone)
        await soon(lambda: are_members_bound(scene.world, 2))
        assert sorted(name for name in await list_bound_by(scene.world) if name.startswith("a")) == [
            f"a{number}" for number in range(len(lent) // 2)
        ]


@virtual
async def test_an_error_of_one_member_leaves_the_room_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams", "dub")
        decide, seen = AttemptRunner._decide, list[str]()

        async def fail_at_the_second(runner: AttemptRunner, scope: AttemptScope, *rest: Any) -> Any:
            name = scope.record.key.name
            seen.append(name)
            if name == "p2" and seen.count(name) == 2:
                raise Unreachable("no answer")
            return await decide(runner, scope, *rest)

        monkeypatch.setattr(AttemptRunner, "_decide", fail_at_the_second)
        await a_group(scene, minCount=2)
        await place_members(world, "p1", "p2", "p3")
        await soon(lambda: says(scene, "room is being made for p1, p3"))
        assert [scene.attempts.of(name)[0].result.name for name in ("p1", "p2", "p3")] == [
            "REJECTED",
            "TRANSIENT",
            "REJECTED",
        ]


@virtual
async def test_members_of_the_same_clusters_get_room_where_the_first_would_not_go_alone(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "big", cpu=6)
        await join(world, "small", cpu="3")
        await a_group(scene, minCount=2, sameClusters=True)
        await place_members(world, "p1", "p2")
        await is_given_up(world, "on-big")
        await roll_out(world, "on-big")
        await soon(lambda: are_members_bound(world, 2))
        assert {on for name, on in (await list_bound_by(world)).items() if name.startswith("p")} == {"big"}


@virtual
async def test_attempts_tell_of_no_eviction_that_is_not_begun(tmp_path: Path) -> None:
    async with a_scene(tmp_path, EVICTING) as scene:
        world = scene.world
        await fill(world, "ams")
        await a_group(scene, minCount=3)
        await place_members(world, "p1", "p2", "p3")
        await soon(lambda: says(scene, "no place for p1, p2, p3"))
        records = [scene.attempts.of(name)[-1] for name in ("p1", "p2", "p3")]
        assert [each.decision.nomination for each in records if each.decision is not None] == [(), (), ()]
        for each in records:
            assert each.failed is not None
            assert each.decision is not None
            note = each.decision.notes["DefaultPreemption"]["preemption"]
            assert note == "nothing is evicted: the placement is not to evict anything by itself"
            assert [trial["fits"] for trial in each.failed.status.details["trials"]] == [False]


@virtual
async def test_a_binding_that_is_being_deleted_takes_nothing_of_quotas(tmp_path: Path) -> None:
    async with a_scene(tmp_path, TEAMS) as scene:
        await share_between_teams(scene, 10, 10, priority=1)
        await is_given_up(scene.world, "a1")
        name = (await find_bindings(scene.world, "a1"))[0]["metadata"]["name"]
        assert find_leaving(scene) == [("a1", ("team-a",))]
        await scene.world.patch(CLUSTER_SCOPED.binding, name, {"metadata": {"finalizers": ["test/held"]}})
        await scene.world.delete(CLUSTER_SCOPED.binding, name)
        await asyncio.sleep(5)
        assert find_leaving(scene) == [("a1", ())]


def find_leaving(scene: Any) -> list[tuple[str, tuple[str, ...]]]:
    placed = scene.controller.scheduler.table.frame().placed
    return [(each.placement, each.quotas) for on in placed for each in on if each.state == LEAVING]
