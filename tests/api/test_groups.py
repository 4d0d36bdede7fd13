"""Placement groups as the API answers about them: what they wait for, and where their members could not be placed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from api.app import create_app
from api.auth.access import HubAuthorizer
from api.live.live import LiveState
from fleet.clock import SystemClock
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.keys import GROUP, REQUESTS
from fleet.settings.loading import load_settings
from tests.api.stage import (
    ADMIN,
    AUTHOR,
    BINDINGS,
    HIDDEN,
    PATIENT,
    PLACEMENT_GROUP,
    READER,
    ROLES,
    STRANGER,
    Stage,
    a_stage,
)
from tests.api.test_room import report_all
from tests.e2e.hub import soon
from tests.e2e.world import ANYTHING

GROUPS: Final = """
apiVersion: scheduling.fleet.dev/v1
kind: FleetSchedulerConfiguration
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: GangPlacement}]}}
- schedulerName: approved
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: GangPlacement}]}, permit: {enabled: [{name: PlacementApproval}]}}
"""
Json = dict[str, Any]
ONE: Final = {"placementType": "PickN", "numberOfClusters": 1}
WHY: Final = "/v1/groups/-/shards/why"


def with_groups(test: Callable[[Stage], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Makes a test of a coroutine that has a stage whose profiles decide groups; all clusters report 4 cpu or less."""

    def run(tmp_path: Path) -> None:
        async def main() -> None:
            file = tmp_path / "fleet.yaml"
            file.write_text(GROUPS, encoding="utf-8")
            async with a_stage(tmp_path, file=file) as stage:
                await report_all(stage)
                await test(stage)

        asyncio.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def make_group(stage: Stage, name: str = "shards", **spec: Any) -> None:
    await stage.world.create(CLUSTER_SCOPED.group, {"metadata": {"name": name}, "spec": spec})


async def place(
    stage: Stage, name: str, *, cpu: str, group: str = "shards", policy: Json = ONE, **options: Any
) -> None:
    if options:
        await stage.world.create(CLUSTER_SCOPED.options, {"metadata": {"name": name}, "spec": options})
    metadata = {"name": name, "annotations": {GROUP: "shards", REQUESTS: f"cpu={cpu}"}}
    spec = {"resourceSelectors": [ANYTHING], "policy": ONE}
    await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": metadata, "spec": spec})


async def soon_why(stage: Stage, holds: Callable[[Json], Any], path: str = WHY, token: str = ADMIN) -> Json:
    async def look() -> Json | None:
        answer = await stage.get(path, token)
        why = answer.json() if answer.status_code == 200 else {}
        return why if why and holds(why) else None

    found: Json = await soon(look)
    return found


def read_states(why: Json) -> dict[str, str]:
    return {member["key"]: member["state"] for member in why["members"]}


@with_groups
async def test_X_22_W_04_a_group_without_room_says_who_fails_where_by_which_plugin(stage: Stage) -> None:
    await fill_group(stage)
    why = await soon_why(stage, is_refused)
    group = why["group"]
    assert (group["state"], group["needed"], group["members"], group["placed"], group["hidden"]) == (
        "Waiting",
        2,
        2,
        0,
        0,
    )
    assert group["message"] == "0 members of group shards fit, 2 are needed: no place for big-shard"
    assert group["since"] < group["deadline"]
    assert (why["fitting"], why["blocking"], why["note"]) == (0, ["big-shard"], "")
    assert read_states(why) == {"big-shard": "Unschedulable", "small-shard": "WaitingForGroup"}
    big, small = why["members"]
    assert [(trial["domain"], trial["fits"]) for trial in big["trials"]] == [
        ("osl", False),
        ("ams", False),
        ("dub", False),
    ]
    (taint,), (room,), _ = (trial["rejections"] for trial in big["trials"])
    assert (taint["plugin"], taint["reason"], taint["clusters"]) == ("TaintToleration", "UntoleratedTaint", ["osl-1"])
    assert (room["plugin"], room["reason"], room["count"]) == ("ResourceFit", "NeverFits", 2)
    assert (room["clusters"], room["message"]) == (["ams-1", "ams-2"], "needs cpu 100, and the cluster has 4 in all")
    assert [trial["fits"] for trial in small["trials"]] == [None, None, None]
    assert await stage.json(big["why"])
    assert await stage.json("/v1/groups/-/shards") == group
    assert (await stage.json("/v1/groups"))["items"] == [group]


@with_groups
async def test_X_22_the_status_says_of_members_that_their_group_waits(stage: Stage) -> None:
    await fill_group(stage)
    await soon_why(stage, is_refused)
    troubled = {each["key"]: each["why"] for each in (await stage.json("/v1/status"))["trouble"]}
    said = "its group shards waits: 0 members of group shards fit, 2 are needed: no place for big-shard"
    assert (troubled["big-shard"], troubled["small-shard"]) == (said, said)


@with_groups
async def test_X_22_the_text_and_the_answer_about_a_member_say_the_same(stage: Stage) -> None:
    await fill_group(stage)
    await soon_why(stage, is_refused)
    text = (await stage.get(WHY, Accept="text/plain")).text
    assert text.startswith("ClusterPlacementGroup shards: Waiting, GroupInfeasible\n0 members of group shards fit")
    assert "2 members, 0 bound, 2 needed, 0 fit in the best place that was found" in text
    assert "ams-1, ams-2: needs cpu 100, and the cluster has 4 in all" in text
    assert "not looked at: the others cannot reach the minimum" in text
    assert "no place for big-shard" in (await stage.get("/v1/groups", Accept="text/plain")).text
    for member in ("big-shard", "small-shard"):
        own = await stage.json(f"/v1/placements/-/{member}/why")
        assert (own["group"]["name"], own["group"]["state"]) == ("shards", "Waiting")
        assert own["verdict"]["state"] in ("Unschedulable", "BackingOff")
        said = (await stage.get(f"/v1/placements/-/{member}/why", Accept="text/plain")).text
        assert "its group shards waits since " in said
        assert "2 are needed: no place for big-shard" in said
        alone = "nothing is bound before its group shards has places for 2 members; by itself: "
        assert own["verdict"]["summary"].startswith(alone)
        assert alone.strip() in " ".join(said.split())
        assert "\nSELECTED" not in said


@with_groups
async def test_X_22_W_02_an_attempt_that_was_refused_does_not_count_as_one_that_selected(stage: Stage) -> None:
    await make_group(stage, minCount=2)
    for name in ("one-shard", "two-shard"):
        await place(stage, name, cpu="1", schedulerName="approved", approvals=[{"name": "owners"}])
    await soon_why(stage, lambda why: read_states(why) == {"one-shard": "Waiting", "two-shard": "Waiting"})
    await stage.wait_until_recorded()
    path = "/v1/placements/-/one-shard"
    history = (await stage.json(f"{path}/history"))["items"]
    refused = next(each for each in history if each["outcome"] == "Selected")
    assert (refused["ending"], refused["result"], refused["fulfilled"]) == ("Rejected", "Rejected", True)
    text = (await stage.get(f"{path}/history", Accept="text/plain")).text
    assert "Rejected" in text
    assert "Selected" not in text
    why = await stage.json(f"{path}/why?attempt={refused['n']}")
    assert why["verdict"]["state"] == "Unschedulable"
    refusal = "PlacementApproval at permit of cluster ams-1: owners: waits for an approval: 1/5 clusters selected"
    assert why["verdict"]["summary"].startswith(refusal)
    assert {past["outcome"] for past in why["history"]} == {"Rejected"}
    own = (await stage.get(f"{path}/why?attempt={refused['n']}", Accept="text/plain")).text
    assert "\nWOULD BE SELECTED" in own
    assert "\nSELECTED" not in own
    hidden = await stage.json(f"{path}/why?attempt={refused['n']}", AUTHOR)
    assert hidden["verdict"]["state"] == "Unschedulable"
    assert hidden["verdict"]["summary"].startswith("it ended as Rejected: ")


@with_groups
async def test_what_is_bound_and_joins_a_group_that_waits_is_not_said_to_be_unbound(stage: Stage) -> None:
    spec = {"resourceSelectors": [ANYTHING], "policy": ONE}
    await stage.world.create(CLUSTER_SCOPED.placement, {"metadata": {"name": "early"}, "spec": spec})
    await stage.world.soon_scheduled("early")
    await make_group(stage)
    await place(stage, "big-shard", cpu="100")
    await stage.world.patch(CLUSTER_SCOPED.placement, "early", {"metadata": {"annotations": {GROUP: "shards"}}})

    path = "/v1/placements/-/early/why"
    why = await soon_why(
        stage, lambda why: why["group"] and (why["group"]["placed"], why["group"]["needed"]) == (1, 2), path
    )

    assert why["group"]["state"] == "Waiting"
    assert "nothing is bound" not in why["verdict"]["summary"]


@with_groups
async def test_an_answer_about_a_group_names_no_cluster_and_no_domain_that_is_hidden(stage: Stage) -> None:
    await fill_group(stage)
    await soon_why(stage, is_refused)
    why = await stage.json(WHY, AUTHOR)
    assert [trial["domain"] for trial in why["members"][0]["trials"]] == ["", "ams", ""]
    assert [trial["clusters"] for trial in why["members"][0]["trials"]] == [1, 2, 2]
    text = (await stage.get(WHY, AUTHOR, Accept="text/plain")).text
    for word in (*HIDDEN, "dub", "osl", "dedicated"):
        assert word not in text
        assert word not in (await stage.get(WHY, AUTHOR)).text


@with_groups
async def test_who_may_not_read_a_member_does_not_see_it(stage: Stage) -> None:
    await fill_group(stage)
    await soon_why(stage, is_refused)
    for name in ("shards", "there-is-none"):
        for path in (f"/v1/groups/-/{name}", f"/v1/groups/-/{name}/why"):
            assert [(await stage.get(path, token)).status_code for token in (READER, STRANGER)] == [403, 403]
    unknown = await stage.get("/v1/groups/-/there-is-none/why")
    assert (unknown.status_code, unknown.json()["detail"]) == (404, "there is no group there-is-none")
    assert (await stage.json("/v1/groups", READER))["items"] == []
    await allow_reading(stage, "small-shard")

    async def look() -> bool:
        return (await stage.get(WHY, READER)).status_code == 200

    await soon(look)
    why = await stage.json(WHY, READER)
    assert [member["key"] for member in why["members"]] == ["small-shard"]
    assert (why["group"]["members"], why["group"]["hidden"], why["group"]["message"], why["blocking"]) == (2, 1, "", [])
    for path in (WHY, "/v1/groups/-/shards", "/v1/groups", "/v1/placements/-/small-shard/why"):
        for accept in ("text/plain", "application/json"):
            answer = await stage.get(path, READER, Accept=accept)
            assert answer.status_code == 200
            assert "big-shard" not in answer.text
    assert "and 1 members that you may not read" in (await stage.get(WHY, READER, Accept="text/plain")).text


@with_groups
async def test_X_22_members_that_are_held_or_wait_for_approval_say_so_and_then_all_are_bound(stage: Stage) -> None:
    rule = {"name": "owners", "approvers": {"users": ["root"]}}
    await make_group(stage)
    await place(stage, "asked", cpu="1", schedulerName="approved", approvals=[rule])
    await place(stage, "held", cpu="1", gates=[{"name": "review", "message": "ask the owners"}])
    why = await soon_why(stage, lambda why: read_states(why).get("held") == "Gated")
    held = next(member for member in why["members"] if member["key"] == "held")
    assert held["gate"]["gates"] == ["review"]
    assert "held by PlacementGates: review: ask the owners" in (await stage.get(WHY, Accept="text/plain")).text
    assert (await stage.post("/v1/placements/-/held/gates/review/clear", {})).status_code == 200
    why = await soon_why(stage, lambda why: read_states(why) == {"asked": "Waiting", "held": "WaitingForGroup"})
    (target,) = why["members"][0]["waiting"]["waiting"]
    assert (target["rule"], target["users"], target["mayAnswer"]) == ("owners", ["root"], True)
    uid = why["members"][0]["waiting"]["uid"]
    assert (await stage.post(f"/v1/waiting/{uid}/allow", {"plugin": "PlacementApproval"})).status_code == 200
    why = await soon_why(stage, lambda why: why["group"]["state"] == "Scheduled")
    assert read_states(why) == {"asked": "Bound", "held": "Bound"}
    assert (why["group"]["placed"], why["fitting"], why["blocking"]) == (2, None, [])
    assert all(member["clusters"] for member in why["members"])
    assert not any(member["trials"] for member in why["members"])
    own = (await stage.get("/v1/placements/-/asked/why", Accept="text/plain")).text
    assert "its group shards is scheduled: 2 of 2 members are bound" in own


@with_groups
async def test_X_22_a_group_that_is_missing_or_timed_out_says_so(stage: Stage) -> None:
    await place(stage, "alone", cpu="100")
    why = await soon_why(stage, lambda why: read_states(why) == {"alone": "Gated"})
    assert (why["group"]["state"], why["group"]["message"]) == ("Missing", "there is no ClusterPlacementGroup shards")
    await make_group(stage, scheduleTimeoutSeconds=1)
    why = await soon_why(stage, lambda why: why["group"]["state"] == "TimedOut")
    assert "it is tried again when its spec is edited" in (await stage.get(WHY, Accept="text/plain")).text


def test_an_api_without_a_controller_tells_what_the_hub_knows_of_a_group(tmp_path: Path) -> None:
    @with_groups
    async def test(stage: Stage) -> None:
        await fill_group(stage)
        await soon_why(stage, is_refused)
        settings, clock = load_settings(tmp_path / "fleet.yaml", {}, [PATIENT]), SystemClock()
        live = LiveState.standalone(stage.hub, settings.settings, clock=clock, jitter=lambda: 0.0)
        watching = asyncio.create_task(live.run())
        beside = replace(stage, app=create_app(live, None, HubAuthorizer(stage.hub, clock=clock), settings))
        try:
            await live.caches.wait_until_synced()
            why = await beside.json(WHY)
            assert why["group"] == (await stage.json(WHY))["group"]
            assert why["note"].startswith("this process has no history of decisions")
            assert (why["fitting"], why["members"][0]["trials"]) == (None, [])
        finally:
            watching.cancel()
            await asyncio.wait((watching,))

    test(tmp_path)


@with_groups
async def test_a_group_of_a_namespace_is_asked_for_by_its_namespace(stage: Stage) -> None:
    group = {"metadata": {"name": "shards", "namespace": "shop"}, "spec": {}}
    await stage.world.create(NAMESPACED.group, group)
    metadata = {"name": "web", "namespace": "shop", "annotations": {GROUP: "shards", REQUESTS: "cpu=1"}}
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "nothing"}
    spec = {"resourceSelectors": [selector], "policy": ONE}
    await stage.world.create(NAMESPACED.placement, {"metadata": metadata, "spec": spec})
    why = await soon_why(stage, lambda why: why["group"]["state"] == "Scheduled", "/v1/groups/shop/shards/why")
    assert (why["group"]["kind"], why["group"]["namespace"]) == ("PlacementGroup", "shop")
    assert read_states(why) == {"shop/web": "Bound"}
    assert (await stage.get(WHY)).status_code == 404


async def fill_group(stage: Stage) -> None:
    await make_group(stage, topologyKey="region", scheduleTimeoutSeconds=3600)
    await place(stage, "big-shard", cpu="100")
    await place(stage, "small-shard", cpu="100m")


def is_refused(why: Json) -> bool:
    """With both members, and the attempt of each is recorded."""
    has_both = "2 are needed" in why["group"]["message"] and len(why["members"]) == 2
    return has_both and why["fitting"] is not None and all(member["trials"] for member in why["members"])


async def allow_reading(stage: Stage, *placements: str) -> None:
    rule = {
        "apiGroups": [PLACEMENT_GROUP],
        "resources": ["clusterresourceplacements"],
        "resourceNames": [*placements],
        "verbs": ["get"],
    }
    await stage.world.create(ROLES, {"metadata": {"name": "reads-members"}, "rules": [rule]})
    subject = {"kind": "User", "name": "rosa", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "reads-members", "apiGroup": "rbac.authorization.k8s.io"}
    document = {"metadata": {"name": "reads-members"}, "roleRef": role, "subjects": [subject]}
    await stage.world.create(BINDINGS, document)
