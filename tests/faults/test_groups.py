"""Placement groups through a running controller: all members are bound, or none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from fleet.errors import Unreachable
from fleet.framework.status import Code, Status
from fleet.kube.api import Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.manager.manager import PLACEMENT, SCHEDULER
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptResult
from fleet.scheduler.background_compiler import BackgroundCompiler
from fleet.scheduler.queue.item import QueueItem
from fleet.worker_thread import WorkerThread
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING
from tests.faults.acting import acting_plugins
from tests.faults.configured import LatePlacements, Scene, a_scene
from tests.faults.test_room import ONE, join, list_bound_by, within
from tests.faults.virtual import virtual

GROUPS: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: GangPlacement}, {name: QuotaFit}]}}
- {schedulerName: plain, base: ExtendedProfile, plugins: {multiPoint: {disabled: [{name: GangPlacement}]}}}
"""
APPROVED: Final = """
profiles:
- {schedulerName: DefaultScheduler, base: ExtendedProfile, plugins: {permit: {enabled: [{name: PlacementApproval}]}}}
"""
GROUP: Final = CLUSTER_SCOPED.group
OPTIONS: Final = CLUSTER_SCOPED.options
Json = dict[str, Any]


async def a_group(scene: Scene, name: str = "web", **spec: Any) -> None:
    await scene.world.create(GROUP, {"metadata": {"name": name}, "spec": spec})


async def place(scene: Scene, *names: str, group: str = "web", cpu: str = "1", policy: Json = ONE, **more: str) -> None:
    for name in names:
        await scene.place(name, policy, **({"group": group} if group else {}), requests=f"cpu={cpu}", **more)


async def count_bound(scene: Scene) -> int:
    return len(await scene.world.all(CLUSTER_SCOPED.binding))


async def are_bound(scene: Scene, count: int) -> None:
    async def _are_bound() -> bool:
        return await count_bound(scene) == count

    await soon(_are_bound)


async def read_status(scene: Scene, name: str = "web") -> Json:
    status: Json = (await scene.world.get(GROUP, name)).get("status", {})
    return status


async def read_condition(scene: Scene, type: str = "InitiallyScheduled", name: str = "web") -> tuple[str, str, str]:
    conditions = (await read_status(scene, name)).get("conditions", ())
    return next(
        ((each["status"], each["reason"], each["message"]) for each in conditions if each["type"] == type), ("", "", "")
    )


def peek(scene: Scene, name: str) -> QueueItem | None:
    assert scene.controller.scheduler is not None
    return scene.controller.scheduler.queue.peek(PlacementKey("", name))


FIVE: Final = ("p1", "p2", "p3", "p4", "p5")


@virtual
async def test_X_18_Q_38_of_five_with_room_for_four_none_is_bound_and_for_five_all_are(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="4")
        await a_group(scene)
        await place(scene, *FIVE)
        await asyncio.sleep(120)
        assert await count_bound(scene) == 0
        assert scene.sample("fleet_room_booked", resource="cpu") in (None, 0)
        assert (await read_condition(scene))[:2] == ("False", "GroupInfeasible")
        shortage = "GroupInfeasible: 4 members of group web fit, 5 are needed"
        assert scene.attempts.of("p1")[-1].failure == shortage, "of others a member is not told"
        assert scene.attempts.of("p5")[-1].failure == f"{shortage}: no place for p5"
        await place(scene, "single", group="", cpu="4")
        await are_bound(scene, 1)
        await join(scene.world, "dub", cpu="5")
        await are_bound(scene, 6)
        await soon(lambda: _is_scheduled(scene))
        assert (await read_status(scene))["placed"] == 5


async def _is_scheduled(scene: Scene) -> bool:
    return (await read_condition(scene))[0] == "True"


@virtual
async def test_Q_41_without_the_group_its_members_are_held_until_it_is_created(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="8")
        await place(scene, "p1", "p2")
        await asyncio.sleep(60)
        assert await count_bound(scene) == 0
        assert not scene.attempts.records
        assert scene.sample("fleet_pending_placements", queue="gated") == 2
        await a_group(scene)
        await are_bound(scene, 2)


@virtual
async def test_Q_39_with_its_minimum_four_are_bound_and_the_fifth_keeps_its_place_in_the_queue(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await a_group(scene, minCount=4)
        await place(scene, *FIVE)
        await asyncio.sleep(60)
        await join(scene.world, "ams", cpu="4")
        await are_bound(scene, 4)
        await asyncio.sleep(60)
        assert len({record.started for record in scene.attempts.records if record.writes}) == 1
        assert await read_condition(scene) == ("True", "Scheduled", "enough members were bound together")
        refused = scene.attempts.of("p5")[-1]
        assert refused.result is AttemptResult.REJECTED
        assert refused.failure == "GroupInfeasible: 4 members of group web fit, 4 are needed: no place for p5"
        item = peek(scene, "p5")
        assert item is not None
        assert item.timestamp == item.added_at < item.returned_at
        await join(scene.world, "dub", cpu="1")
        await are_bound(scene, 5)


@virtual
async def test_Q_42_F3_117_once_the_rest_cannot_suffice_no_further_member_is_filtered(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="1")
        await a_group(scene, minCount=4)
        await place(scene, *FIVE)
        await asyncio.sleep(30)
        together = [record for record in scene.attempts.records if record.started == scene.attempts.records[-1].started]
        decided = [record.key.name for record in together if record.decision is not None]
        assert (len(together), decided) == (5, ["p1", "p2", "p3"])


@virtual
async def test_Q_40_two_groups_with_room_for_one_do_not_hold_each_other_up(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="3")
        await a_group(scene, "web")
        await a_group(scene, "api")
        for number in range(3):
            await place(scene, f"web-{number}")
            await place(scene, f"api-{number}", group="api")
        await are_bound(scene, 3)
        await asyncio.sleep(120)
        bound = await list_bound_by(scene.world)
        assert len({name.partition("-")[0] for name in bound}) == 1
        first = next(iter(bound)).partition("-")[0]
        for name in bound:
            await scene.world.delete(CLUSTER_SCOPED.placement, name)
        await soon(lambda: _are_all_of(scene, {"web": "api", "api": "web"}[first]))


async def _are_all_of(scene: Scene, group: str) -> bool:
    bound = await list_bound_by(scene.world)
    return sorted(bound) == [f"{group}-{number}" for number in range(3)]


@virtual
async def test_X_19_all_are_in_one_domain_the_smallest_that_fits(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        for name, cpu in {"a1": "1", "b1": "2", "b2": "1", "c1": "9", "c2": "9", "c3": "9"}.items():
            await join(scene.world, name, cpu=cpu)
            await scene.world.relabel(name, region=name[0])
        await a_group(scene, topologyKey="region")
        await place(scene, "p1", "p2", "p3")
        await are_bound(scene, 3)
        assert set((await list_bound_by(scene.world)).values()) == {"b1", "b2"}
        await soon(lambda: _is_scheduled(scene))
        assert (await read_status(scene))["domain"] == "b"
        await a_group(scene, "api", topologyKey="region", minCount=2)
        await place(scene, "q1", "q2", group="api", cpu="10")
        await asyncio.sleep(30)
        assert await count_bound(scene) == 3


@virtual
async def test_domains_that_were_tried_before_do_not_count_as_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        assert scene.controller.scheduler is not None
        recent, call = scene.controller.scheduler.recent, scene.hub.call
        expected: list[int] = []

        async def count(request: Request) -> bytes:
            if request.method is Method.POST and request.path.endswith("/clusterresourcebindings"):
                expected.append(len(recent))
            return await call(request)

        monkeypatch.setattr(scene.hub, "call", count)
        for name in ("a1", "b1", "b2"):
            await join(scene.world, name, cpu="1")
            await scene.world.relabel(name, region=name[0])
        await a_group(scene, topologyKey="region")
        await place(scene, "p1", "p2")
        await are_bound(scene, 2)
        assert expected == [2, 2]


@virtual
async def test_what_joins_a_group_stays_in_other_domains_until_its_policy_changes(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        for name in ("a1", "b1", "b2"):
            await join(scene.world, name, cpu="8")
            await scene.world.relabel(name, region=name[0])
        await place(scene, "p1", group="", policy={"placementType": "PickAll"})
        await are_bound(scene, 3)
        await a_group(scene, topologyKey="region")
        await scene.annotate("p1", group="web")
        await place(scene, "p2")
        await are_bound(scene, 4)
        await join(scene.world, "b3", cpu="8")
        await scene.world.relabel("b3", region="b")
        await asyncio.sleep(60)
        assert [cluster for cluster, _ in await list_bound_to(scene)] == ["a1", "a1", "b1", "b2"]
        tolerations = [{"key": "x", "operator": "Exists"}]
        await scene.world.patch(CLUSTER_SCOPED.placement, "p1", {"spec": {"policy": {"tolerations": tolerations}}})
        await asyncio.sleep(60)
        assert [cluster for cluster, _ in await list_bound_to(scene)] == ["a1", "a1"]


@virtual
async def test_X_18_all_are_on_the_same_clusters(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        for name, cpu in (("ams", "9"), ("big", "5"), ("dub", "4")):
            await join(scene.world, name, cpu=cpu)
        await a_group(scene, sameClusters=True)
        await place(scene, "p1", "p2", policy={"placementType": "PickN", "numberOfClusters": 2}, cpu="2500m")
        await are_bound(scene, 4)
        assert {each["spec"]["targetCluster"] for each in await scene.world.all(CLUSTER_SCOPED.binding)} == {
            "ams",
            "big",
        }


@virtual
async def test_X_18_room_that_is_given_back_wakes_the_groups_that_it_helps_although_each_member_would_fit_alone(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="2")
        await place(scene, "other", group="")
        await are_bound(scene, 1)
        for group, cpu in (("web", "1"), ("big", "9")):
            await a_group(scene, group)
            await place(scene, f"{group}-1", f"{group}-2", group=group, cpu=cpu)
        await asyncio.sleep(60)
        assert await list_bound_by(scene.world) == {"other": "ams"}
        attempts = len(scene.attempts.of("big-1"))
        await scene.world.delete(CLUSTER_SCOPED.placement, "other")
        await are_bound(scene, 2)
        await asyncio.sleep(60)
        assert await list_bound_by(scene.world) == {"web-1": "ams", "web-2": "ams"}
        assert len(scene.attempts.of("big-1")) == attempts


@virtual
async def test_X_18_a_group_that_waits_is_not_tried_again_for_placements_that_do_not_concern_it(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="3")
        await a_group(scene)
        await place(scene, "p1", "p2", cpu="9")
        await asyncio.sleep(60)
        attempts = len(scene.attempts.of("p1"))
        await place(scene, "other", group="")
        await are_bound(scene, 1)
        await asyncio.sleep(60)
        assert len(scene.attempts.of("p1")) == attempts > 0


@virtual
async def test_X_18_a_group_that_comes_again_is_decided_anew(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="1")
        for name in ("web", "db"):
            await a_group(scene, name)
            await place(scene, f"{name}-1", f"{name}-2", group=name)
        await asyncio.sleep(30)
        await scene.world.delete(GROUP, "web")
        await join(scene.world, "dub", cpu="1")
        await are_bound(scene, 2)
        await a_group(scene)
        await join(scene.world, "lux", cpu="2")
        await are_bound(scene, 4)


@virtual
async def test_X_18_the_minimum_is_edited_while_the_group_waits(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="2")
        await a_group(scene, minCount=3)
        await place(scene, "p1", "p2", "p3")
        await asyncio.sleep(30)
        assert await count_bound(scene) == 0
        await scene.world.patch(GROUP, "web", {"spec": {"minCount": 2}})
        await are_bound(scene, 2)


@virtual
async def test_X_18_after_its_time_the_group_waits_for_an_edit(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="1")
        await a_group(scene, scheduleTimeoutSeconds=60)
        await place(scene, "p1", "p2")
        await asyncio.sleep(90)
        assert (await read_condition(scene))[:2] == ("False", "TimedOut")
        assert scene.sample("fleet_pending_placements", queue="gated") == 2
        await join(scene.world, "dub", cpu="4")
        await asyncio.sleep(60)
        assert await count_bound(scene) == 0
    async with a_scene(tmp_path, GROUPS, after=scene) as again:
        await asyncio.sleep(60)
        assert await count_bound(again) == 0
        await again.world.patch(GROUP, "web", {"spec": {"scheduleTimeoutSeconds": 600}})
        await are_bound(again, 2)


@virtual
async def test_a_group_counts_quotas_of_its_members_together(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="9")
        await scene.world.create(CLUSTER_SCOPED.quota, {"metadata": {"name": "team"}, "spec": {"max": {"cpu": "2"}}})
        await a_group(scene)
        await place(scene, "p1", "p2", "p3")
        await asyncio.sleep(60)
        assert await count_bound(scene) == 0
        await scene.world.patch(CLUSTER_SCOPED.quota, "team", {"spec": {"max": {"cpu": "3"}}})
        await are_bound(scene, 3)


@virtual
async def test_a_profile_without_the_plugin_holds_members_and_says_so(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="9")
        await a_group(scene)
        await place(scene, "p1", scheduler_name="plain")
        await asyncio.sleep(60)
        assert await count_bound(scene) == 0
        item = peek(scene, "p1")
        assert item is not None
        assert item.gate is not None
        assert item.gate.message == "its group web needs plugin GangPlacement, which profile plain does not have"


KEEPING: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins:
    multiPoint: {enabled: [{name: GangPlacement}]}
    preFilter: {enabled: [{name: Keeping}]}
    reserve: {enabled: [{name: Keeping}]}
    permit: {enabled: [{name: Keeping}]}
"""


@virtual
async def test_F3_021_every_member_and_every_run_of_its_decision_has_a_state_of_its_own(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        async with a_scene(tmp_path, KEEPING) as scene:
            for name, cpu, region in (("ams", "1", "small"), ("cork", "3", "large"), ("dub", "3", "large")):
                await join(scene.world, name, cpu=cpu)
                await scene.world.relabel(name, region=region)
            await a_group(scene, topologyKey="region")
            await place(scene, "p1", "p2", "p3")
            await are_bound(scene, 3)
            decisions = [(each, kept) for each, kept, _ in script.seen if each.startswith("pre_filter")]
            assert {each for each, _ in decisions} == {"pre_filter p1", "pre_filter p2", "pre_filter p3"}
            assert len(decisions) > 3, "the small region was tried before the large one"
            assert {kept for _, kept in decisions} == {None}
            states = {id(state) for each, _, state in script.seen if each.startswith("pre_filter")}
            assert len(states) == len(decisions)
            effects = {(each, kept) for each, kept, _ in script.seen if not each.startswith("pre_filter")}
            assert effects == {(f"{hook} p{n}", f"p{n}") for hook in ("reserve", "permit") for n in (1, 2, 3)}


@virtual
async def test_X_22_no_policy_snapshot_is_written_while_the_group_waits_or_is_missing(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="1")
        await place(scene, "p1", "p2")
        await place(scene, "q1", group="missing")
        await a_group(scene)
        await asyncio.sleep(3600)
        assert (await read_condition(scene))[:2] == ("False", "GroupInfeasible")
        assert not any(map(touches_snapshot, scene.hub.requests))
        await join(scene.world, "dub", cpu="1")
        await are_bound(scene, 2)
        await asyncio.sleep(60)
        assert sum(map(touches_snapshot, scene.hub.requests)) == 2


def touches_snapshot(request: Request) -> bool:
    return "schedulingpolicysnapshots" in request.path and request.method in ("PUT", "PATCH")


# --- bound in part ----------------------------------------------------------------------------------------------------


ON: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins:
    multiPoint: {enabled: [{name: GangPlacement}]}
    preBind: {enabled: [{name: First}]}
    bind: {disabled: [{name: HubBindingBinder}], enabled: [{name: First}, {name: HubBindingBinder}]}
"""


def refuse_dub(cluster: str) -> Status | None:
    return Status.new(Code.ERROR, "not there") if cluster == "dub" else None


async def place_on_both(scene: Scene) -> None:
    for name, cluster in (("p1", "ams"), ("p2", "dub")):
        await join(scene.world, cluster, cpu="4")
        await place(scene, name, policy={"placementType": "PickFixed", "clusterNames": [cluster]})


@virtual
async def test_X_18_a_cluster_that_cannot_be_prepared_keeps_all_from_being_bound(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "pre_bind"] = refuse_dub
        async with a_scene(tmp_path, ON) as scene:
            await a_group(scene)
            await place_on_both(scene)
            await asyncio.sleep(30)
            assert await count_bound(scene) == 0
            assert (await read_condition(scene))[:2] == ("False", "GroupInfeasible")
            script.answers.clear()
            await are_bound(scene, 2)


@virtual
async def test_X_18_what_could_be_bound_is_kept_and_the_group_is_degraded(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "bind"] = refuse_dub
        async with a_scene(tmp_path, ON) as scene:
            await a_group(scene)
            await place_on_both(scene)
            await are_bound(scene, 1)
            await asyncio.sleep(5)
            degraded = await read_condition(scene, "Degraded")
            assert degraded == ("True", "PartlyBound", "p2 could not be bound with the others")
            assert (await read_status(scene))["placed"] == 1
            script.answers.clear()
            await are_bound(scene, 2)
            await soon(lambda: _is_scheduled(scene))
            assert (await read_condition(scene, "Degraded"))[0] == "False"


@virtual
async def test_X_18_what_could_be_bound_is_given_up_and_the_group_is_tried_again(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "bind"] = refuse_dub
        async with a_scene(tmp_path, ON) as scene:
            await a_group(scene, onPartialBind="unwind")
            await place_on_both(scene)
            await soon(lambda: _are_in_use(scene, 0, of=1))
            assert (await read_status(scene))["placed"] == 0
            script.answers.clear()
            await soon(lambda: _are_in_use(scene, 2, of=2))
            await soon(lambda: _is_scheduled(scene))


async def _are_in_use(scene: Scene, count: int, *, of: int) -> bool:
    bindings = await scene.world.all(CLUSTER_SCOPED.binding)
    live = [each for each in bindings if each["spec"]["state"] != "Unscheduled"]
    return (len(live), len(bindings)) == (count, of)


@virtual
async def test_the_room_of_a_planned_member_is_given_up_when_it_is_gated(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as before:
        await join(before.world, "ams", cpu="1")
        await a_group(before)
        await place(before, "p1", "p2")
        await asyncio.sleep(30)
    uid = (await before.world.placement("p2"))["metadata"]["uid"]
    plan = {"placement": "p2", "placementUID": uid, "clusters": ["ams"]}
    await before.world.patch(GROUP, "web", {"status": {"targets": [plan]}}, subresource="status")
    await before.annotate("p2", gates="review")
    async with a_scene(tmp_path, GROUPS, after=before) as scene:
        await place(scene, "single", group="")
        await asyncio.sleep(60)
        assert await list_bound_by(scene.world) == {"single": "ams"}
        assert "targets" not in await read_status(scene)
        assert await read_condition(scene, "Degraded") == ("True", "PartlyBound", "p2 is held: review")


@virtual
async def test_X_23_without_its_group_what_is_bound_stays_and_what_waits_is_held(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="4")
        await a_group(scene, minCount=2)
        await place(scene, "p1", "p2")
        await are_bound(scene, 2)
        await scene.world.delete(GROUP, "web")
        await place(scene, "p3")
        await asyncio.sleep(60)
        assert await count_bound(scene) == 2
        assert scene.sample("fleet_pending_placements", queue="gated") == 1
        for name in ("p1", "p2", "p3"):
            await scene.world.delete(CLUSTER_SCOPED.placement, name)
        await are_bound(scene, 0)
        await asyncio.sleep(60)
        assert await scene.world.all(CLUSTER_SCOPED.placement) == []
        assert scene.sample("fleet_pending_placements", queue="gated") == 0


@virtual
async def test_X_23_a_member_that_is_deleted_or_leaves_is_waited_for_no_longer(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="2")
        await a_group(scene)
        await place(scene, "p1", "p2", "p3", "p4")
        await asyncio.sleep(30)
        assert await count_bound(scene) == 0
        await scene.world.delete(CLUSTER_SCOPED.placement, "p3")
        await asyncio.sleep(30)
        assert await count_bound(scene) == 0
        await scene.annotate("p4", group=None, requests="cpu=9")
        await are_bound(scene, 2)


@virtual
async def test_X_23_a_group_without_members_tells_of_none_and_those_that_come_have_their_own_time(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="1")
        await a_group(scene, scheduleTimeoutSeconds=60)
        await place(scene, "p1", "p2")
        await asyncio.sleep(90)
        assert (await read_condition(scene))[:2] == ("False", "TimedOut")
        for name in ("p1", "p2"):
            await scene.world.delete(CLUSTER_SCOPED.placement, name)
        await asyncio.sleep(5)
        assert await read_condition(scene) == ("False", "Waiting", "it has no members")
        assert "waitingSince" not in await read_status(scene)
        await place(scene, "p3")
        await are_bound(scene, 1)


@virtual
async def test_X_23_a_group_without_members_was_not_scheduled_when_the_last_left_while_it_was_bound(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="1")
        await a_group(scene)
        with lost_bindings(scene, "p1"):
            await place(scene, "p1")
            await asyncio.sleep(30)
            assert (await read_condition(scene))[:2] == ("False", "Binding")
            await scene.annotate("p1", group=None)
            await asyncio.sleep(30)
            assert await read_condition(scene) == ("False", "Waiting", "it has no members")
            assert (await read_condition(scene, "Degraded"))[:2] == ("False", "NotDegraded")


@virtual
async def test_X_23_a_group_is_whole_when_those_have_left_that_could_not_be_bound(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "bind"] = refuse_dub
        async with a_scene(tmp_path, ON) as scene:
            await a_group(scene)
            await place_on_both(scene)
            await are_bound(scene, 1)
            await asyncio.sleep(5)
            assert (await read_condition(scene, "Degraded"))[0] == "True"
            await scene.world.delete(CLUSTER_SCOPED.placement, "p2")
            await soon(lambda: _is_scheduled(scene))
            assert (await read_condition(scene, "Degraded"))[:2] == ("False", "NotDegraded")


@virtual
async def test_members_are_named_by_options_too(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="4")
        await a_group(scene, minCount=2)
        options = {"metadata": {"name": "p1"}, "spec": {"group": "web", "requests": {"cpu": "1"}}}
        await scene.world.create(CLUSTER_SCOPED.options, options)
        await place(scene, "p1", group="")
        await asyncio.sleep(30)
        assert await count_bound(scene) == 0
        await place(scene, "p2")
        await are_bound(scene, 2)


# --- while others of the group wait for approval ----------------------------------------------------------------------

ASKING: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins:
    multiPoint: {enabled: [{name: GangPlacement}]}
    reserve: {enabled: [{name: First}]}
    permit: {enabled: [{name: First}]}
"""


def ask_on_dub(cluster: str) -> tuple[Status, timedelta] | None:
    return (Status.new(Code.WAIT, "ask the owner"), timedelta(minutes=30)) if cluster == "dub" else None


@virtual
async def test_X_18_a_first_attempt_that_is_refused_is_followed_by_another_for_room_given_back_meanwhile(
    tmp_path: Path,
) -> None:
    answers = iter((lambda: asyncio.sleep(5), lambda: Status.new(Code.UNSCHEDULABLE, "not now")))
    with acting_plugins(tmp_path) as script:
        async with a_scene(tmp_path, ASKING) as scene:
            await join(scene.world, "ams", cpu="3")
            await place(scene, "other", group="")
            await are_bound(scene, 1)
            script.answers["First", "reserve"] = lambda _: next(answers, lambda: None)()
            await a_group(scene)
            await place(scene, "p1", "p2")
            await asyncio.sleep(2)
            assert scene.attempts.of("p1") == scene.attempts.of("p2") == []
            await scene.world.delete(CLUSTER_SCOPED.placement, "other")
            await asyncio.sleep(60)
            assert await list_bound_by(scene.world) == {"p1": "ams", "p2": "ams"}


@virtual
async def test_X_18_a_group_whose_members_are_all_refused_by_a_plugin_waits(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "reserve"] = lambda _: Status.new(Code.UNSCHEDULABLE, "not now")
        async with a_scene(tmp_path, ASKING) as scene:
            await join(scene.world, "ams", cpu="3")
            await a_group(scene)
            await place(scene, "p1", "p2")
            await asyncio.sleep(60)
            assert len(scene.attempts.of("p2")) == 1
            script.answers.clear()
            await join(scene.world, "dub", cpu="3")
            await are_bound(scene, 2)


async def is_gone(scene: Scene, name: str) -> bool:
    return await scene.world.find(CLUSTER_SCOPED.placement, name) is None


@virtual
async def test_X_23_a_permitted_member_may_be_deleted_while_others_wait(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "permit"] = ask_on_dub
        async with a_scene(tmp_path, ASKING) as scene:
            await a_group(scene)
            await place_on_both(scene)
            await asyncio.sleep(30)
            await scene.world.delete(CLUSTER_SCOPED.placement, "p1")
            await asyncio.sleep(15)
            assert await is_gone(scene, "p1")


@virtual
async def test_X_23_a_permitted_member_may_leave_the_group_while_others_wait(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "permit"] = ask_on_dub
        async with a_scene(tmp_path, ASKING) as scene:
            await a_group(scene)
            await place_on_both(scene)
            await asyncio.sleep(30)
            await scene.annotate("p1", group=None)
            await asyncio.sleep(30)
            assert await list_bound_by(scene.world) == {"p1": "ams"}


@virtual
async def test_a_permitted_member_is_judged_again_when_the_others_are(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "permit"] = ask_on_dub
        async with a_scene(tmp_path, ASKING) as scene:
            await a_group(scene)
            await place_on_both(scene)
            await asyncio.sleep(30)
            await scene.world.delete(MEMBER_CLUSTERS, "ams")
            await asyncio.sleep(1)
            uid = (await scene.world.placement("p2"))["metadata"]["uid"]
            script.handles["First"].allow_waiting(uid, "First")
            await asyncio.sleep(60)
            assert "p1" not in await list_bound_by(scene.world)


async def begin_without_lux(scene: Scene) -> None:
    """p3 fits only when the other two wait for approval already, and is refused: too few have a place without them."""
    await a_group(scene, minCount=2)
    await place(scene, "p3", policy={"placementType": "PickFixed", "clusterNames": ["lux"]})
    await place_on_both(scene)
    await asyncio.sleep(30)
    await join(scene.world, "lux", cpu="4")
    await asyncio.sleep(30)
    assert scene.attempts.of("p3")[-1].failure == "GroupInfeasible: 0 members of group web fit, 2 are needed"


@virtual
async def test_X_18_a_member_that_was_refused_without_the_others_is_tried_when_they_are_bound(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "permit"] = ask_on_dub
        async with a_scene(tmp_path, ASKING) as scene:
            await begin_without_lux(scene)
            uid = (await scene.world.placement("p2"))["metadata"]["uid"]
            script.handles["First"].allow_waiting(uid, "First")
            await are_bound(scene, 3)


@virtual
async def test_X_18_a_member_that_was_refused_without_the_others_is_tried_with_them(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "permit"] = ask_on_dub
        async with a_scene(tmp_path, ASKING) as scene:
            await begin_without_lux(scene)
            uid = (await scene.world.placement("p2"))["metadata"]["uid"]
            script.answers.clear()
            script.handles["First"].reject_waiting(uid, "First", "not there")
            await are_bound(scene, 3)


@virtual
async def test_Q_38_a_member_that_comes_while_the_others_are_being_refused_is_tried_with_them(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "reserve"] = lambda cluster: asyncio.sleep(5) if cluster == "dub" else None
        async with a_scene(tmp_path, ASKING) as scene:
            for cluster in ("ams", "dub"):
                await join(scene.world, cluster, cpu="4")
            await a_group(scene, minCount=4)
            await place(scene, "slow", group="", policy={"placementType": "PickFixed", "clusterNames": ["dub"]})
            await asyncio.sleep(1)
            on_ams = {"placementType": "PickFixed", "clusterNames": ["ams"]}
            await place(scene, "p1", "p2", "p3", policy=on_ams)
            await asyncio.sleep(1)
            assert scene.attempts.records == [], "they are to be decided after the slow one"
            await place(scene, "p4", policy=on_ams)
            await are_bound(scene, 5)


@virtual
async def test_X_18_room_of_a_planned_member_is_kept_while_it_is_tried_again(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        script.answers["First", "reserve"] = lambda cluster: asyncio.sleep(15) if cluster == "dub" else None
        async with a_scene(tmp_path, ASKING) as scene:
            for cluster in ("ams", "dub"):
                await join(scene.world, cluster, cpu="2")
            await scene.world.relabel("ams", region="a")
            await a_group(scene)
            with lost_bindings(scene, "p2"):
                await place(scene, "p1", "p2", policy=within(region="a"))
                await asyncio.sleep(15)
                await place(scene, "slow", group="", policy={"placementType": "PickFixed", "clusterNames": ["dub"]})
                await asyncio.sleep(1)
                tried = len(scene.attempts.of("p2"))
                await place(scene, "other", group="", policy=within(region="a"))
                await asyncio.sleep(10)
                assert tried == len(scene.attempts.of("p2")) > 0, "it waits for the decisions before its own"
                await asyncio.sleep(20)
            await are_bound(scene, 3)
            assert await list_bound_by(scene.world) == {"p1": "ams", "p2": "ams", "slow": "dub"}


@virtual
async def test_X_18_room_is_kept_where_the_first_binding_of_a_member_is_deleted_before_the_second_is_written(
    tmp_path: Path,
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        for cluster in ("ams", "dub"):
            await join(scene.world, cluster, cpu="1")
        await scene.world.relabel("ams", region="a")
        await a_group(scene)
        with lost_bindings(scene, "dub", after=6):
            await place(scene, "p1", policy={"placementType": "PickFixed", "clusterNames": ["ams", "dub"]})
            await are_bound(scene, 1)
            await place(scene, "other", group="", policy=within(region="a"))
            await asyncio.sleep(2)
            (binding,) = await scene.world.all(CLUSTER_SCOPED.binding)
            assert binding["spec"]["targetCluster"] == "ams"
            await scene.world.delete(CLUSTER_SCOPED.binding, binding["metadata"]["name"])
            await asyncio.sleep(40)
        await are_bound(scene, 2)
        assert scene.sample("fleet_room_booked", resource="cpu") == 2
        assert await scene.world.in_use("other") == set()


@virtual
async def test_X_18_what_a_second_attempt_has_reserved_counts_once_while_it_waits(tmp_path: Path) -> None:
    with acting_plugins(tmp_path) as script:
        async with a_scene(tmp_path, ASKING) as scene:
            await join(scene.world, "ams", cpu="3")
            await a_group(scene)
            with lost_bindings(scene, "p2"):
                await place(scene, "p1", "p2")
                await are_bound(scene, 1)
                script.answers["First", "permit"] = lambda _: (Status.new(Code.WAIT, "ask"), timedelta(minutes=30))
                await asyncio.sleep(120)
                script.answers.clear()
                await place(scene, "other", group="")
                await are_bound(scene, 2)


@virtual
async def test_X_18_a_plan_that_cannot_be_stored_changes_nothing_of_those_that_were_bound_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="4")
        await a_group(scene, minCount=1)
        call, is_late = scene.hub.call, False

        async def call_slowly(request: Request) -> bytes:
            body = request.body or b""
            if request.is_write and "bindings" in request.path and b"p2" in body:
                await asyncio.sleep(10)
            if is_late and request.is_write and "groups/web" in request.path and b'"p1"' in body:
                await asyncio.sleep(20)
                raise Unreachable("scripted")
            return await call(request)

        monkeypatch.setattr(scene.hub, "call", call_slowly)
        await place(scene, "p2")
        await asyncio.sleep(3)
        is_late = True
        await place(scene, "p1")
        await asyncio.sleep(60)
        is_late = False
        await are_bound(scene, 2)
        await asyncio.sleep(60)
        assert "targets" not in await read_status(scene)


# --- after the group was bound ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [{}, {"sameClusters": True}, {"topologyKey": "region"}], ids=["", "same", "domain"])
def test_members_move_when_their_cluster_leaves(tmp_path: Path, spec: Json) -> None:
    async def move() -> None:
        async with a_scene(tmp_path, GROUPS) as scene:
            await join(scene.world, "ams", cpu="8")
            await scene.world.relabel("ams", region="a")
            await a_group(scene, **spec)
            await place(scene, "p1", "p2")
            await are_bound(scene, 2)
            await join(scene.world, "dub", cpu="8")
            await scene.world.relabel("dub", region="b")
            await asyncio.sleep(30)
            await scene.world.delete(MEMBER_CLUSTERS, "ams")
            await asyncio.sleep(300)
            assert await list_bound_to(scene) == [("dub", "Scheduled")] * 2

    virtual(move)()


async def list_bound_to(scene: Scene) -> list[tuple[str, str]]:
    """Without what was given up."""
    bindings = await scene.world.all(CLUSTER_SCOPED.binding)
    found = sorted((each["spec"]["targetCluster"], each["spec"]["state"]) for each in bindings)
    return [each for each in found if each[1] != "Unscheduled"]


@virtual
async def test_a_bound_member_gives_up_what_its_policy_allows_no_longer(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="8")
        await a_group(scene)
        await place(scene, "p1", "p2", policy={"placementType": "PickAll"})
        await are_bound(scene, 2)
        affinity = within(x="y")["affinity"]
        await scene.world.patch(CLUSTER_SCOPED.placement, "p1", {"spec": {"policy": {"affinity": affinity}}})
        await asyncio.sleep(300)
        assert await list_bound_to(scene) == [("ams", "Scheduled")]


@virtual
async def test_a_bound_member_that_wants_more_than_there_is_takes_what_there_is(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        for name in ("ams", "dub"):
            await join(scene.world, name, cpu="2")
        await a_group(scene)
        await place(scene, "p1", policy={"placementType": "PickN", "numberOfClusters": 2})
        await are_bound(scene, 2)
        await join(scene.world, "lux", cpu="2")
        await scene.world.patch(CLUSTER_SCOPED.placement, "p1", {"spec": {"policy": {"numberOfClusters": 4}}})
        await asyncio.sleep(60)
        await scene.world.delete(MEMBER_CLUSTERS, "ams")
        await asyncio.sleep(300)
        assert await list_bound_to(scene) == [("dub", "Scheduled"), ("lux", "Scheduled")]


@virtual
async def test_nothing_is_kept_of_groups_that_are_deleted(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        for number in range(5):
            await a_group(scene, f"g{number}")
            await place(scene, f"p{number}", group=f"g{number}")
        await asyncio.sleep(10)
        for number in range(5):
            await scene.world.delete(GROUP, f"g{number}")
        for number in range(5):
            await scene.world.delete(CLUSTER_SCOPED.placement, f"p{number}")
        await asyncio.sleep(60)
        assert scene.controller.scheduler is not None
        assert scene.controller.scheduler._groups._progress == {}


@virtual
async def test_X_18_a_group_that_is_recreated_is_scheduled_if_its_members_are_bound(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="8")
        await a_group(scene, minCount=3)
        await place(scene, "p1", "p2", "p3")
        await are_bound(scene, 3)
        await scene.world.delete(GROUP, "web")
        await asyncio.sleep(10)
        await a_group(scene, minCount=3)
        await asyncio.sleep(10)
        assert (await read_condition(scene))[0] == "True"
        await scene.world.delete(GROUP, "web")
        await asyncio.sleep(10)
        await a_group(scene, minCount=4)
        await asyncio.sleep(10)
        assert (await read_condition(scene))[0] == "False"
        await place(scene, "p4")
        await are_bound(scene, 4)
        assert (await read_condition(scene))[0] == "True"


# --- members that name each other ------------------------------------------------------------------------------------


async def place_labelled(scene: Scene, name: str, **options: Any) -> None:
    """With a label of its own, and in the group."""
    await scene.world.create(OPTIONS, {"metadata": {"name": name}, "spec": {"group": "web", **options}})
    spec = {"resourceSelectors": [ANYTHING], "policy": ONE}
    placement = {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
    await scene.world.create(CLUSTER_SCOPED.placement, placement)


def near(app: str, **more: Any) -> Json:
    return {"required": [{"placements": {"matchLabels": {"app": app}}, **more}]}


@virtual
@pytest.mark.parametrize("terms", [near("p1"), near("p1", anti=True)])
async def test_X_16_X_18_a_group_is_not_woken_by_what_its_own_attempt_gives_back(tmp_path: Path, terms: Json) -> None:
    async with a_scene(tmp_path, APPROVED) as scene:
        for name in ("ams", "dub"):
            await join(scene.world, name, cpu="4")
        await a_group(scene, minCount=2)
        await place_labelled(scene, "p1", approvals=[{"name": "owners"}])
        await place_labelled(scene, "p2", affinity=terms)
        await asyncio.sleep(200)
        assert [len(scene.attempts.of(name)) for name in ("p1", "p2")] == [1, 1]
        assert await count_bound(scene) == 0


@virtual
@pytest.mark.parametrize("cpu, quota", [("4", ""), ("40", "6")])
async def test_X_18_X_20_nor_by_the_room_and_the_quota_that_it_gives_back(tmp_path: Path, cpu: str, quota: str) -> None:
    async with a_scene(tmp_path, APPROVED) as scene:
        for name in ("ams", "dub"):
            await join(scene.world, name, cpu=cpu)
        if quota:
            limit = {"metadata": {"name": "all"}, "spec": {"max": {"cpu": quota}}}
            await scene.world.create(CLUSTER_SCOPED.quota, limit)
        await a_group(scene, minCount=2)
        await place_labelled(scene, "p1", approvals=[{"name": "owners"}], requests={"cpu": "3"})
        for name in ("p2", "p3"):
            await place_labelled(scene, name, requests={"cpu": "3"})
        await asyncio.sleep(200)
        assert [len(scene.attempts.of(name)) for name in ("p1", "p2", "p3")] == [1, 1, 1]
        assert await count_bound(scene) == 0


@virtual
async def test_X_16_X_18_a_member_is_woken_by_one_that_was_decided_with_it_and_is_bound(tmp_path: Path) -> None:
    """By the order of their names it was decided first."""
    async with a_scene(tmp_path, GROUPS) as scene:
        for name in ("ams", "dub"):
            await join(scene.world, name, cpu="4")
        await a_group(scene, minCount=1)
        await place_labelled(scene, "api", affinity=near("db"))
        await place_labelled(scene, "db")
        await are_bound(scene, 2)
        clusters = {each["spec"]["targetCluster"] for each in await scene.world.all(CLUSTER_SCOPED.binding)}
        assert len(clusters) == 1


# --- members that are bound late --------------------------------------------------------------------------------------


@virtual
async def test_Q_41_a_member_whose_snapshot_is_seen_before_itself_waits_for_its_group(tmp_path: Path) -> None:
    async with (
        a_scene(tmp_path, GROUPS, controllers=[PLACEMENT]) as writer,
        a_scene(tmp_path, GROUPS, after=writer, controllers=[SCHEDULER], through=LatePlacements) as scene,
    ):
        await join(scene.world, "ams", cpu="8")
        await a_group(scene, minCount=2)
        await asyncio.sleep(10)
        await place(scene, "p1")
        await asyncio.sleep(60)
        assert await count_bound(scene) == 0
        await place(scene, "p2")
        await are_bound(scene, 2)


@virtual
async def test_X_18_a_group_that_has_found_its_place_does_not_time_out_while_it_is_bound(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="1")
        await a_group(scene, scheduleTimeoutSeconds=60)
        await place(scene, "p1", "p2")
        await asyncio.sleep(50)
        assert await count_bound(scene) == 0
        with lost_bindings(scene, "p2"):
            await join(scene.world, "dub", cpu="1")
            await asyncio.sleep(25)
            assert await count_bound(scene) == 1
        await are_bound(scene, 2)


@virtual
async def test_X_18_what_is_reserved_for_a_planned_member_counts_once(tmp_path: Path) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="3")
        await a_group(scene)
        with lost_bindings(scene, "p2"):
            await place(scene, "p1", "p2")
            await asyncio.sleep(30)
            await place(scene, "other", group="")
            await are_bound(scene, 2)
            assert [record.result for record in scene.attempts.of("other")] == [AttemptResult.DECIDED]
        await are_bound(scene, 3)


_EXPRESSIONS: Final = [{"key": f"k{number}", "operator": "DoesNotExist"} for number in range(600)]
_TERMS: Final = [{"labelSelector": {"matchExpressions": _EXPRESSIONS}}]
_REQUIRED: Final = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": _TERMS}}
LARGE: Final = {**ONE, "affinity": {"clusterAffinity": _REQUIRED}}


@virtual
async def test_Q_38_a_member_with_a_large_policy_is_tried_with_the_others_and_not_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run_after_a_while(_: WorkerThread, function: Any, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0.05)
        return function(*args, **kwargs)

    monkeypatch.setattr(WorkerThread, "run", run_after_a_while)
    async with a_scene(tmp_path, GROUPS) as scene:
        await join(scene.world, "ams", cpu="2")
        await a_group(scene)
        await place(scene, "p1", policy=LARGE)
        await place(scene, "p2", "p3")
        await asyncio.sleep(60)
        before = len(scene.attempts.records)
        await asyncio.sleep(1200)
        flushes = 4
        assert len(scene.attempts.records) - before <= 3 * flushes
        await join(scene.world, "dub", cpu="1")
        await are_bound(scene, 3)


@virtual
async def test_X_18_a_planned_member_keeps_its_room_while_its_large_policy_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scene(tmp_path, GROUPS) as scene:
        with lost_bindings(scene, "p2"):
            await join(scene.world, "ams", cpu="2")
            await a_group(scene)
            await place(scene, "p1")
            await place(scene, "p2", policy=LARGE)
            await asyncio.sleep(30)
            assert await count_bound(scene) == 1
    compile_at_once = BackgroundCompiler._compile

    async def compile_behind_others(self: BackgroundCompiler, *args: Any) -> None:
        await asyncio.sleep(7)
        await compile_at_once(self, *args)

    monkeypatch.setattr(BackgroundCompiler, "_compile", compile_behind_others)
    async with a_scene(tmp_path, GROUPS, after=scene) as scene:
        await asyncio.sleep(6.5)
        await place(scene, "other", group="")
        await are_bound(scene, 2)
        await asyncio.sleep(60)
        assert await scene.world.in_use("other") == set()


@contextmanager
def lost_bindings(scene: Scene, name: str, *, after: float = 0) -> Iterator[None]:
    """What is written to bindings that name the placement or cluster does not reach the hub."""
    call = scene.hub.call

    async def lose(request: Request) -> bytes:
        if request.is_write and "bindings" in request.path and name.encode() in (request.body or b""):
            await asyncio.sleep(after)
            raise Unreachable("scripted")
        return await call(request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scene.hub, "call", lose)
        yield
