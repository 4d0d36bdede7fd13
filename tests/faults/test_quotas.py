"""Quotas of tenants, through a running controller: nothing goes beyond them, and what is given back wakes what fits."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.keys import PARENT_PLACEMENT
from fleet.scheduler.quotas.quota_sums import QuotaSums
from tests.e2e.hub import soon
from tests.faults.configured import Scene, a_scene
from tests.faults.virtual import virtual

QUOTAS: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: QuotaFit}]}}
- schedulerName: second
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: QuotaFit}]}}
"""
NAMESPACE: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)

Json = dict[str, Any]


def pick(number: int) -> Json:
    return {"placementType": "PickN", "numberOfClusters": number}


async def allow(scene: Scene, name: str, *, min: Json | None = None, max: Json | None = None, **labels: str) -> None:
    """A quota of the placements with these labels."""
    spec: Json = {"min": min or {}, "max": max or {}} | ({"placements": {"matchLabels": labels}} if labels else {})
    await scene.world.create(CLUSTER_SCOPED.quota, {"metadata": {"name": name}, "spec": spec})


async def edit_quota(scene: Scene, name: str, **spec: Json) -> None:
    await scene.world.patch(CLUSTER_SCOPED.quota, name, {"spec": spec})


async def place(
    scene: Scene, name: str, requests: str = "", policy: Json | None = None, scheduler: str = "", **labels: str
) -> None:
    given = {"requests": requests, "scheduler-name": scheduler}
    annotations = {f"scheduling.fleet.dev/{key}": text for key, text in given.items() if text}
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing"}
    document = {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"resourceSelectors": [selector], "policy": policy or pick(1)},
    }
    await scene.world.create(CLUSTER_SCOPED.placement, document)


async def join(scene: Scene, *names: str) -> None:
    for name in names:
        await scene.world.join(name)


async def count_placed(scene: Scene, *prefixes: str) -> int:
    bindings = await scene.world.all(CLUSTER_SCOPED.binding)
    return sum(not prefixes or each["metadata"]["name"].startswith(prefixes) for each in bindings)


async def _have_placed(scene: Scene, count: int, *prefixes: str) -> bool:
    return await count_placed(scene, *prefixes) == count


async def _uses(scene: Scene, placement: str, count: int) -> bool:
    return len(await scene.world.in_use(placement)) == count


async def read_message(scene: Scene, placement: str) -> str:
    """Why clusters were not picked."""
    await scene.world.soon_scheduled(placement, status="False")
    snapshot = await scene.world.latest_snapshot(placement)
    assert snapshot is not None
    return "; ".join(each["reason"] for each in snapshot["status"]["targetClusters"])


# --- a limit ----------------------------------------------------------------------------------------------------------


@virtual
async def test_X_20_of_40_placements_30_fit_the_quota_in_two_profiles_and_after_a_restart(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams", "dub", "lon")
        await allow(scene, "team-a", max={"cpu": "30"}, team="a")
        for number in range(40):
            await place(scene, f"p{number:02}", "cpu=1", scheduler="second" if number % 2 else "", team="a")
        await place(scene, "other", "cpu=20", team="b")
        await soon(lambda: _have_placed(scene, 31))
        await asyncio.sleep(300)
        assert await count_placed(scene, "p") == 30
        assert scene.sample("fleet_quota_used", quota="team-a", resource="cpu") == 30
    async with a_scene(tmp_path, QUOTAS, after=scene) as again:
        await asyncio.sleep(300)
        assert await count_placed(again, "p") == 30


@virtual
async def test_X_20_the_answer_has_the_numbers(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams")
        await allow(scene, "team-a", max={"cpu": "40"}, team="a")
        await place(scene, "first", "cpu=30", team="a")
        await soon(lambda: _uses(scene, "first", 1))
        await place(scene, "second", "cpu=12", team="a")
        assert "quota team-a: cpu 30 of 40 used, asked 12, 2 short" in await read_message(scene, "second")


@virtual
async def test_X_20_what_is_given_back_wakes_those_that_fit_and_no_others(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams")
        await allow(scene, "team-a", max={"cpu": "4"}, team="a")
        await place(scene, "first", "cpu=4", team="a")
        await soon(lambda: _uses(scene, "first", 1))
        await place(scene, "fits", "cpu=3", team="a")
        await place(scene, "does-not", "cpu=5", team="a")
        await asyncio.sleep(60)
        attempts = len(scene.attempts.of("does-not"))
        await scene.world.delete(CLUSTER_SCOPED.placement, "first")
        await soon(lambda: _uses(scene, "fits", 1), within=10)
        await asyncio.sleep(10)
        assert len(scene.attempts.of("does-not")) == attempts
        await edit_quota(scene, "team-a", max={"cpu": "8"})
        await soon(lambda: _uses(scene, "does-not", 1), within=10)


@virtual
async def test_X_20_a_cluster_that_joins_wakes_nothing_that_a_quota_keeps_out(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams")
        await allow(scene, "team-a", max={"cpu": "1"}, team="a")
        await place(scene, "large", "cpu=2", team="a")
        await asyncio.sleep(60)
        attempts = len(scene.attempts.of("large"))
        await join(scene, "dub")
        await asyncio.sleep(10)
        assert len(scene.attempts.of("large")) == attempts


# --- clusters ---------------------------------------------------------------------------------------------------------


@virtual
async def test_X_20_events_wake_those_that_they_help_also_after_the_last_quota_is_gone(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS.replace("plugins", "backoffOnRejection: false\n  plugins")) as scene:
        await scene.world.join("ams", available={"cpu": "3"})
        await allow(scene, "all", max={"cpu": "3"})
        await place(scene, "first", "cpu=2")
        await soon(lambda: _uses(scene, "first", 1))
        await place(scene, "second", "cpu=2")
        await scene.world.soon_scheduled("second", status="False")
        await scene.world.delete(CLUSTER_SCOPED.quota, "all")
        await asyncio.sleep(60)
        assert await count_placed(scene) == 1
        await scene.world.join("dub", available={"cpu": "30"})
        await soon(lambda: _uses(scene, "second", 1))
        await allow(scene, "all", max={"cpu": "5"})
        await place(scene, "third", "cpu=2")
        assert "4 of 5 used, asked 2" in await read_message(scene, "third")


@virtual
async def test_X_20_an_event_sums_quotas_once_however_many_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed: list[str] = []
    list_shares = QuotaSums.list_shares

    def count(sums: QuotaSums, name: str, *kept: Any) -> Any:
        summed.append(name)
        return list_shares(sums, name, *kept)

    monkeypatch.setattr(QuotaSums, "list_shares", count)
    async with a_scene(tmp_path, QUOTAS.replace("plugins", "backoffOnRejection: false\n  plugins")) as scene:
        await scene.world.join("ams", available={"cpu": "1"})
        for name in ("small", "large"):
            await allow(scene, name, min={"cpu": "10"}, max={"cpu": "30"})
        for number in range(12):
            await place(scene, f"web{number}", "cpu=2")
        await asyncio.sleep(60)
        attempts = len(scene.attempts.records)
        summed.clear()
        await scene.world.relabel("ams", any="label")
        await scene.world.join("dub", available={"cpu": "1"})
        await asyncio.sleep(30)
        assert len(summed) <= 4, "both quotas, for either event"
        assert len(scene.attempts.records) == attempts


@virtual
async def test_X_20_the_resource_clusters_counts_targets_also_where_nothing_is_requested(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams", "dub", "lon", "osl", "par")
        await allow(scene, "five", max={"clusters": "5"}, team="a")
        await place(scene, "wide", policy=pick(3), team="a")
        await soon(lambda: _uses(scene, "wide", 3))
        await place(scene, "more", policy=pick(4), team="a")
        await soon(lambda: _uses(scene, "more", 2))
        message = await read_message(scene, "more")
        assert "quota five: clusters 5 of 5 used, asked 1, 1 short" in message
        await scene.world.edit_policy("wide", numberOfClusters=1)
        await soon(lambda: _uses(scene, "wide", 1))
        for binding in await scene.world.bindings("wide"):
            if binding["spec"]["state"] == "Unscheduled":
                await scene.world.delete(CLUSTER_SCOPED.binding, binding["metadata"]["name"])
        await soon(lambda: _uses(scene, "more", 4))


@virtual
async def test_X_20_policies_that_take_every_cluster_get_as_many_as_fit(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams", "dub", "lon", "osl")
        await allow(scene, "team-a", max={"cpu": "5"}, team="a")
        await place(scene, "all", "cpu=2", {"placementType": "PickAll"}, team="a")
        await soon(lambda: _uses(scene, "all", 2))
        await asyncio.sleep(60)
        assert await scene.world.in_use("all") == {"ams", "dub"}
        await edit_quota(scene, "team-a", max={"cpu": "7"})
        await soon(lambda: _uses(scene, "all", 3))


@virtual
async def test_X_20_named_clusters_count_as_well(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams", "dub", "lon")
        await allow(scene, "team-a", max={"cpu": "4"}, team="a")
        fixed = {"placementType": "PickFixed", "clusterNames": ["ams", "dub", "lon"]}
        await place(scene, "named", "cpu=2", fixed, team="a")
        await soon(lambda: _uses(scene, "named", 2))
        await asyncio.sleep(60)
        assert await scene.world.in_use("named") == {"ams", "dub"}


@virtual
async def test_X_20_a_changed_policy_moves_a_placement_that_uses_all_of_its_quota(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await scene.world.join("ams", labels={"zone": "a"})
        await scene.world.join("dub", labels={"zone": "b"})
        await allow(scene, "team-a", max={"cpu": "2"}, team="a")
        await place(scene, "moves", "cpu=2", team="a")
        await soon(lambda: _uses(scene, "moves", 1))
        other = "dub" if await scene.world.in_use("moves") == {"ams"} else "ams"
        zone = {"ams": "a", "dub": "b"}[other]
        terms = [{"labelSelector": {"matchLabels": {"zone": zone}}}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
        await scene.world.edit_policy("moves", affinity={"clusterAffinity": required})
        await soon(lambda: _is_on(scene, "moves", other))


async def _is_on(scene: Scene, placement: str, *clusters: str) -> bool:
    return await scene.world.in_use(placement) == set(clusters)


# --- borrowing --------------------------------------------------------------------------------------------------------


@virtual
async def test_X_20_T_13_unused_guarantees_are_lent_up_to_the_sum_of_all(tmp_path: Path) -> None:
    """A guarantees 10 of at most 20 and uses 12, B guarantees 10 and uses 5: A may take 3 more, and not 4."""
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams")
        await allow(scene, "a", min={"cpu": "10"}, max={"cpu": "20"}, team="a")
        await allow(scene, "b", min={"cpu": "10"}, team="b")
        await place(scene, "a-first", "cpu=12", team="a")
        await place(scene, "b-first", "cpu=5", team="b")
        await soon(lambda: _have_placed(scene, 2))
        await place(scene, "a-four", "cpu=4", team="a")
        message = await read_message(scene, "a-four")
        assert "quota a: cpu 12 of 20 used, 17 of 20 by all, asked 4, 1 short" in message
        await place(scene, "a-three", "cpu=3", team="a")
        await soon(lambda: _uses(scene, "a-three", 1))
        await soon(lambda: _tells(scene, "a", used="15", borrowed="5"))
        await soon(lambda: _tells(scene, "b", used="5", borrowed="0"))
        await place(scene, "b-second", "cpu=5", team="b")
        assert "quota b: cpu 5 of 10 used, 20 of 20 by all, asked 5, 5 short" in await read_message(scene, "b-second")
        await scene.world.delete(CLUSTER_SCOPED.placement, "a-first")
        await soon(lambda: _uses(scene, "b-second", 1))


async def _tells(scene: Scene, quota: str, *, used: str, borrowed: str) -> bool:
    status = (await scene.world.get(CLUSTER_SCOPED.quota, quota)).get("status") or {}
    return status == {"used": {"cpu": used}, "borrowed": {"cpu": borrowed}}


@virtual
async def test_X_20_a_placement_must_fit_all_quotas_that_it_belongs_to(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams")
        await allow(scene, "everyone", max={"cpu": "10"})
        await allow(scene, "team-a", max={"cpu": "6"}, team="a")
        await place(scene, "first", "cpu=5", team="a")
        await soon(lambda: _uses(scene, "first", 1))
        await place(scene, "too-much-for-a", "cpu=2", team="a")
        assert "quota team-a: cpu 5 of 6 used" in await read_message(scene, "too-much-for-a")
        await place(scene, "second", "cpu=5", team="b")
        await soon(lambda: _uses(scene, "second", 1))
        await place(scene, "too-much-for-all", "cpu=1", team="a")
        assert "quota everyone: cpu 10 of 10 used" in await read_message(scene, "too-much-for-all")


@virtual
async def test_X_20_the_quota_of_a_namespace_counts_its_own_placements(tmp_path: Path) -> None:
    async with a_scene(tmp_path, QUOTAS) as scene:
        await join(scene, "ams")
        for namespace in ("shop", "bank"):
            await scene.world.create(NAMESPACE, {"metadata": {"name": namespace}})
            await scene.world.report("ams", namespaces={"shop": "w1", "bank": "w2"})
        quota = {"metadata": {"name": "team", "namespace": "shop"}, "spec": {"max": {"clusters": "1"}}}
        await scene.world.create(NAMESPACED.quota, quota)
        for key in ("shop/a", "shop/b", "bank/c"):
            await scene.world.place(key, pick(1))
        await soon(lambda: _uses(scene, "bank/c", 1))
        await asyncio.sleep(60)
        used = [len(await scene.world.in_use(key)) for key in ("shop/a", "shop/b")]
        assert sorted(used) == [0, 1]
        assert scene.sample("fleet_quota_used", quota="shop/team", resource="clusters") == 1


# --- none -------------------------------------------------------------------------------------------------------------


@virtual
async def test_X_20_profiles_without_the_plugin_do_not_ask_for_quotas(tmp_path: Path) -> None:
    document = "profiles: [{base: ExtendedProfile, plugins: {multiPoint: {disabled: [{name: QuotaFit}]}}}]\n"
    async with a_scene(tmp_path, document) as scene:
        await join(scene, "ams")
        await allow(scene, "team-a", max={"cpu": "1"}, team="a")
        await place(scene, "large", "cpu=20", team="a")
        await soon(lambda: _uses(scene, "large", 1))
        assert "clusterplacementquotas" not in scene.controller.caches.sizes()


# --- what is borrowed is taken back -----------------------------------------------------------------------------------

RECLAIMING: Final = """
profiles:
- base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: QuotaFit}, {name: DefaultPreemption}]}}
"""


async def lend(scene: Scene, *clusters: str) -> None:
    """Team a uses 12 of its 10, team b 5 of its 10."""
    await join(scene, *(clusters or ("ams",)))
    for team in ("a", "b"):
        await allow(scene, f"team-{team}", min={"cpu": "10"}, max={"cpu": "20"}, team=team)
    for name, requests, team in (("a-own", "cpu=10", "a"), ("b-own", "cpu=5", "b"), ("a-more", "cpu=2", "a")):
        await place(scene, name, requests, team=team)
        await soon(lambda name=name: _uses(scene, name, 1))


async def _is_given_up(scene: Scene, *placements: str) -> bool:
    bindings = await scene.world.all(CLUSTER_SCOPED.binding)
    given_up = {each["metadata"]["labels"][PARENT_PLACEMENT] for each in bindings if is_unscheduled(each)}
    return given_up == set(placements)


def is_unscheduled(binding: Json) -> bool:
    return bool(binding["spec"]["state"] == "Unscheduled")


async def roll_out(scene: Scene) -> None:
    for binding in await scene.world.all(CLUSTER_SCOPED.binding):
        if is_unscheduled(binding):
            await scene.world.delete(CLUSTER_SCOPED.binding, binding["metadata"]["name"])


@virtual
async def test_T_13_X_20_a_guarantee_takes_back_what_others_borrowed_and_no_more(tmp_path: Path) -> None:
    """Of equal priority. What was taken back is not borrowed again while it is kept, also not over a restart."""
    async with a_scene(tmp_path, RECLAIMING) as scene:
        await lend(scene)
        await place(scene, "a-four", "cpu=4", team="a")
        assert "cpu 12 of 20 used, 17 of 20 by all, asked 4, 1 short" in await read_message(scene, "a-four")
        await scene.world.delete(CLUSTER_SCOPED.placement, "a-four")
        await place(scene, "b-more", "cpu=5", team="b")
        await soon(lambda: _is_given_up(scene, "a-more"))
        await place(scene, "a-small", "cpu=1", team="a")
        await asyncio.sleep(60)
        assert await scene.world.in_use("a-small") == set()
    async with a_scene(tmp_path, RECLAIMING, after=scene) as again:
        await asyncio.sleep(60)
        assert await again.world.in_use("a-small") == set()
        await roll_out(again)
        await soon(lambda: _uses(again, "b-more", 1))
        await asyncio.sleep(600)
        assert await _uses(again, "a-own", 1)
        assert [await again.world.in_use(name) for name in ("a-more", "a-small")] == [set(), set()]
        assert again.sample("fleet_quota_used", quota="team-a", resource="cpu") == 10
        assert again.sample("fleet_quota_used", quota="team-b", resource="cpu") == 10


@virtual
async def test_X_20_what_a_quota_guarantees_is_not_taken_whatever_the_priority(tmp_path: Path) -> None:
    """Neither to borrow, nor to go back within a guarantee; within one quota priorities count."""
    async with a_scene(tmp_path, RECLAIMING) as scene:
        await lend(scene)
        await place(scene, "b-large", "cpu=6", team="b")
        await asyncio.sleep(120)
        assert await _is_given_up(scene), "it would borrow itself"
        await scene.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": "a-vip"}, "spec": {"priority": 1000}})
        await place(scene, "a-vip", "cpu=4", team="a")
        await asyncio.sleep(30)
        await roll_out(scene)
        await soon(lambda: _uses(scene, "a-vip", 1))
        await asyncio.sleep(60)
        assert await scene.world.in_use("b-own") == {"ams"}


@virtual
async def test_X_20_clusters_and_several_at_once_are_taken_back(tmp_path: Path) -> None:
    async with a_scene(tmp_path, RECLAIMING) as scene:
        await join(scene, "ams", "dub", "lon")
        for team in ("a", "b"):
            await allow(scene, f"team-{team}", min={"clusters": "2"}, team=team)
        for name in ("a-1", "a-2"):
            await place(scene, name, team="a", policy=pick(2))
        await soon(lambda: _have_placed(scene, 4))
        options = {"metadata": {"name": "b-two"}, "spec": {"minTargets": 2}}
        await scene.world.create(CLUSTER_SCOPED.options, options)
        await place(scene, "b-two", team="b", policy=pick(2))
        await asyncio.sleep(30)
        await roll_out(scene)
        await soon(lambda: _uses(scene, "b-two", 2))
        await asyncio.sleep(600)
        assert await count_placed(scene, "a-") == 2
        assert await count_placed(scene, "b-") == 2
