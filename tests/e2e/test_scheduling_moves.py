"""Who stays and who moves, when clusters, policies and numbers change under a placement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import sha256

from fleet.kube.scopes import CLUSTER_SCOPED, find_scope
from fleet.model.keys import PREVIOUS_BINDING_STATE, WORK_CLEANUP
from tests.e2e.scheduling import (
    ONLY_SCHEDULER,
    Hub,
    Json,
    Stage,
    by_cluster,
    condition,
    key_in,
    on_stage,
    refusals,
    selected,
    soon,
    stage,
    story,
    verdict,
    versions,
)
from tests.oracle.example_fleet import affinity, labelled, pick_n, sorted_by

LOAD = "example.com/idle"
NS = "e2e-moves"
WANTED = affinity(
    required=[labelled(env="prod")], preferred=[{"weight": 100, "preference": sorted_by(LOAD, "Descending")}]
)

# --- active bindings stay ---------------------------------------------------------------------------------------------

Loss = Callable[[Stage, str], Awaitable[object]]
LOSSES: dict[str, Loss] = {
    "labels": lambda fleet, name: fleet.relabel(name, env=None),
    "tolerance": lambda fleet, name: fleet.taint(name, {"key": "gpu", "effect": "NoSchedule"}),
    "health": lambda fleet, name: fleet.report(name, healthy="False"),
    "heartbeat": lambda fleet, name: fleet.report(name, silent_for=100_000),
    "namespace": lambda fleet, name: fleet.report(name, namespaces=("elsewhere",)),
    "score": lambda fleet, name: fleet.report(name, properties={LOAD: "1"}, namespaces=(NS,)),
}


@story
async def test_active_bindings_stay_whatever_their_clusters_lose(hub: Hub) -> None:
    """Every cluster is called after what it loses. In the end there is a better one for whoever would move."""
    old_ones = {"placementType": "PickAll", "affinity": affinity(required=[labelled(env="prod", old="yes")])}
    policies: dict[str, Json | None] = {
        "all": old_ones,
        "n": pick_n(len(LOSSES), affinity=WANTED),
        "fixed": {"placementType": "PickFixed", "clusterNames": list(LOSSES)},
        f"{NS}/n": pick_n(len(LOSSES), affinity=WANTED),
        f"{NS}/all": old_ones,
    }
    everywhere = {key: dict.fromkeys(sorted(LOSSES), "Scheduled") for key in policies}
    async with stage(hub) as fleet:
        await fleet.namespace(NS)
        for cluster in LOSSES:
            labels = {"env": "prod", "old": "yes"}
            await fleet.join(cluster, labels=labels, properties={LOAD: "9"}, namespaces=(NS,))
        for key, policy in policies.items():
            await fleet.place(key, policy)
            await fleet.decided(key)
        before = {key: versions(await fleet.bindings(key)) for key in policies}
        assert {key: await fleet.states(key) for key in policies} == everywhere

        for cluster, lose in LOSSES.items():
            await lose(fleet, cluster)
        await fleet.join("zz-better", labels={"env": "prod"}, properties={LOAD: "99"}, namespaces=(NS,))
        for key in policies:
            await fleet.nudge(key)

        generations = {key: (await fleet.decided(key))["observedCRPGeneration"] for key in policies}
        assert generations == dict.fromkeys(policies, 2)
        assert {key: versions(await fleet.bindings(key)) for key in policies} == before
        assert {key: await fleet.states(key) for key in policies} == everywhere


# --- clusters that leave ----------------------------------------------------------------------------------------------


@on_stage()
async def test_a_leaving_cluster_is_replaced_in_the_next_cycle(fleet: Stage) -> None:
    await fleet.join_all({name: {} for name in "abcd"})
    await fleet.place("n", pick_n(2))
    await fleet.place("all")
    await fleet.soon_on("n", "c", "d")
    await fleet.decided("n")
    await fleet.bind("n", "d")
    await fleet.start_leaving("d")
    await fleet.nudge("n")
    await fleet.nudge("all")

    assert selected(await fleet.decided("n")) == ["b", "c"]
    assert selected(await fleet.decided("all")) == ["a", "b", "c"]
    assert await fleet.states("n") == {"b": "Scheduled", "c": "Scheduled", "d": "Unscheduled"}
    remembered = by_cluster(await fleet.bindings("n"))["d"]["metadata"]["annotations"][PREVIOUS_BINDING_STATE]
    assert remembered == "Bound"
    assert refusals(await fleet.read_by("n"))["d"] == "ClusterUnschedulable, cluster has left the fleet"


@on_stage(controllers=ONLY_SCHEDULER)
async def test_a_cluster_that_is_gone_is_replaced_at_once_in_one_cycle(fleet: Stage) -> None:
    await fleet.join_all({name: {} for name in "abcd"})
    await fleet.place("n")
    await fleet.snapshot("n", pick_n(2))
    await fleet.settled()
    fleet.overheard.requests.clear()

    assert await fleet.woken_by(fleet.leave("d")) == {"n"}

    assert await fleet.states("n") == {"b": "Scheduled", "c": "Scheduled", "d": "Unscheduled"}
    assert fleet.overheard.writes() == [
        ("PATCH", "clusterresourcebindings"),
        ("POST", "clusterresourcebindings"),
        ("PUT", "clusterschedulingpolicysnapshots/status"),
    ]


# --- policies that change ---------------------------------------------------------------------------------------------


@on_stage()
async def test_a_new_policy_of_pick_all_is_asked_about_every_cluster(fleet: Stage) -> None:
    await fleet.join_all({"a": {"env": "prod"}, "b": {"env": "prod", "tier": "1"}, "c": {"tier": "1"}})
    await fleet.place("web", {"placementType": "PickAll", "affinity": affinity(required=[labelled(env="prod")])})
    await fleet.soon_on("web", "a", "b")
    await fleet.decided("web")
    await fleet.bind("web", "a", "b")
    before = by_cluster(await fleet.bindings("web"))

    await fleet.set_policy("web", {"placementType": "PickAll", "affinity": affinity(required=[labelled(tier="1")])})
    status = await fleet.decided("web")

    assert selected(status) == ["c", "b"]
    assert await fleet.states("web") == {"a": "Unscheduled", "b": "Bound", "c": "Scheduled"}
    after = by_cluster(await fleet.bindings("web"))
    assert after["b"]["metadata"]["uid"] == before["b"]["metadata"]["uid"]
    assert after["b"]["spec"]["schedulingPolicySnapshotName"] == "web-1"
    assert after["a"]["spec"]["schedulingPolicySnapshotName"] == "web-0"
    assert after["a"]["spec"]["clusterDecision"] == before["a"]["spec"]["clusterDecision"]


@on_stage()
async def test_a_new_list_of_names(fleet: Stage) -> None:
    await fleet.join_all({name: {} for name in "abc"})
    await fleet.place("web", {"placementType": "PickFixed", "clusterNames": ["a", "b"]})
    await fleet.soon_on("web", "a", "b")
    await fleet.decided("web")
    kept = by_cluster(await fleet.bindings("web"))["b"]["metadata"]["uid"]

    await fleet.edit_policy("web", clusterNames=["c", "b"])
    status = await fleet.decided("web")
    assert selected(status) == ["c", "b"]
    assert await fleet.states("web") == {"a": "Unscheduled", "b": "Scheduled", "c": "Scheduled"}
    assert by_cluster(await fleet.bindings("web"))["b"]["metadata"]["uid"] == kept

    await fleet.edit_policy("web", clusterNames=[])
    status = await fleet.decided("web")
    assert set((await fleet.states("web")).values()) == {"Unscheduled"}
    assert status.get("targetClusters", []) == []
    assert verdict(status)[0] == "True"
    assert "found 0 cluster(s)" in condition(status)["message"]


@on_stage()
async def test_a_new_policy_of_pick_n_lets_all_compete_and_old_bindings_win_ties(fleet: Stage) -> None:
    await fleet.join_all({"a": {"old": "yes"}, "b": {"old": "yes", "good": "yes"}, "c": {}, "d": {"good": "yes"}})
    await fleet.place("web", pick_n(2, affinity=affinity(required=[labelled(old="yes")])))
    await fleet.soon_on("web", "a", "b")
    await fleet.decided("web")

    better = [{"weight": 5, "preference": labelled(good="yes")}]
    await fleet.set_policy("web", pick_n(3, affinity=affinity(preferred=better)))
    status = await fleet.decided("web")

    # b and d by score, b first because it is old; a before c because it is old, although c is the greater name.
    assert [one["clusterName"] for one in status["targetClusters"] if one["selected"]] == ["d", "b", "a"]
    assert {name: one["spec"]["schedulingPolicySnapshotName"] for name, one in await bindings(fleet)} == {
        "a": "web-1",
        "b": "web-1",
        "d": "web-1",
    }


async def bindings(fleet: Stage) -> list[tuple[str, Json]]:
    return list(by_cluster(await fleet.bindings("web")).items())


@on_stage()
async def test_numbers_go_up_and_down(fleet: Stage) -> None:
    await fleet.join_all({name: {} for name in "abcde"})
    await fleet.place("web", pick_n(2))
    await fleet.soon_on("web", "d", "e")
    await fleet.decided("web")
    first = by_cluster(await fleet.bindings("web"))

    await fleet.edit_policy("web", numberOfClusters=4)
    assert selected(await fleet.decided("web")) == ["c", "b", "d", "e"]
    more = by_cluster(await fleet.bindings("web"))
    assert {name: more[name] for name in "de"} == first

    await fleet.edit_policy("web", numberOfClusters=3)
    status = await fleet.decided("web")
    assert [one["clusterName"] for one in status["targetClusters"]] == ["c", "d", "e"]

    await fleet.edit_policy("web", numberOfClusters=0)
    status = await fleet.decided("web")
    assert set((await fleet.states("web")).values()) == {"Unscheduled"}
    assert status.get("targetClusters", []) == []
    assert verdict(status)[0] == "True"

    await fleet.edit_policy("web", numberOfClusters=1)
    assert selected(await fleet.decided("web")) == ["e"]
    assert by_cluster(await fleet.bindings("web"))["e"]["metadata"]["uid"] == first["e"]["metadata"]["uid"]


@story
async def test_a_new_generation_alone_is_only_acknowledged(hub: Hub) -> None:
    """What was published about the clusters that were not picked is kept as well."""
    policies: dict[str, Json | None] = {
        "all": None,
        "n": pick_n(1),
        "n-lacks": pick_n(9),
        "fixed": {"placementType": "PickFixed", "clusterNames": ["a"]},
    }
    async with stage(hub) as fleet:
        await fleet.join_all({name: {} for name in "abc"})
        for key, policy in policies.items():
            await fleet.place(key, policy)
        before = {key: await fleet.decided(key) for key in policies}
        stored = {key: versions(await fleet.bindings(key)) for key in policies}
        for key in policies:
            await fleet.nudge(key)
        after = {key: await fleet.decided(key) for key in policies}

        assert {key: status.pop("observedCRPGeneration") for key, status in before.items()} == dict.fromkeys(
            policies, 1
        )
        assert {key: status.pop("observedCRPGeneration") for key, status in after.items()} == dict.fromkeys(policies, 2)
        assert {key: in_any_order(status) for key, status in after.items()} == {
            key: in_any_order(status) for key, status in before.items()
        }
        assert len(after["n"]["targetClusters"]) == 3
        assert {key: versions(await fleet.bindings(key)) for key in policies} == stored


def in_any_order(status: Json) -> Json:
    """What was picked in this cycle comes in the order of picking, what was there before by name."""
    return {**status, "targetClusters": sorted(status["targetClusters"], key=lambda one: str(one["clusterName"]))}


@on_stage(controllers=ONLY_SCHEDULER)
async def test_the_latest_label_goes_back_to_an_older_snapshot(fleet: Stage) -> None:
    await fleet.join_all({"a": {"env": "prod"}, "b": {"env": "prod"}, "c": {"env": "test"}})
    await fleet.place("web")
    await fleet.snapshot("web", pick_n(2, affinity=affinity(required=[labelled(env="prod")])))
    await fleet.soon_on("web", "a", "b")
    await fleet.settled()
    first = by_cluster(await fleet.bindings("web"))
    await fleet.mark("web", 0, latest="false")
    await fleet.snapshot("web", pick_n(2), index=1)
    await fleet.soon_on("web", "a", "b")
    await fleet.mark("web", 1, latest="false")
    await fleet.snapshot("web", pick_n(1, affinity=affinity(required=[labelled(env="test")])), index=2)
    await fleet.soon_on("web", "c")
    await fleet.settled()

    await fleet.mark("web", 2, latest="false")
    await fleet.mark("web", 0, latest="true")
    await fleet.soon_on("web", "a", "b")
    await fleet.settled()

    after = by_cluster(await fleet.bindings("web"))
    assert await fleet.states("web") == {"a": "Scheduled", "b": "Scheduled", "c": "Unscheduled"}
    for name in "ab":
        assert after[name]["metadata"]["uid"] == first[name]["metadata"]["uid"]
        assert after[name]["spec"] == first[name]["spec"]
    assert verdict(await fleet.read_by("web"))[2].endswith("found 2 cluster(s)")


# --- bindings that others delete --------------------------------------------------------------------------------------


@on_stage()
async def test_a_deleted_binding_may_come_back_on_its_cluster_unless_a_taint_forbids_it(fleet: Stage) -> None:
    await fleet.join_all({name: {} for name in "abc"})
    await fleet.place("web", pick_n(1))
    await fleet.soon_on("web", "c")
    (first,) = await fleet.bindings("web")
    await fleet.delete(CLUSTER_SCOPED.binding, key_in(first))

    async def another() -> Json | None:
        found = [one for one in await fleet.bindings("web") if one["metadata"]["uid"] != first["metadata"]["uid"]]
        return found[0] if found else None

    second = await soon(another)
    assert second["spec"]["targetCluster"] == "c"

    await fleet.taint("c", {"key": "away", "effect": "NoSchedule"})
    await fleet.delete(CLUSTER_SCOPED.binding, key_in(second))
    await fleet.soon_on("web", "b")


@on_stage()
async def test_a_foreign_finalizer_holds_the_name_and_the_cluster_gets_another_binding(fleet: Stage) -> None:
    """The terminating one keeps its content; only our finalizer goes."""
    await fleet.namespace(NS)
    await fleet.join_all({"c": {}})
    for key in ("web", f"{NS}/web"):
        resource = find_scope(key).binding
        await fleet.place(key, pick_n(1))
        await fleet.soon_on(key, "c")
        await fleet.decided(key)
        await fleet.bind(key, "c")
        (first,) = await fleet.bindings(key)
        finalizers = [*first["metadata"]["finalizers"], WORK_CLEANUP]
        await fleet.patch(resource, key_in(first), {"metadata": {"finalizers": finalizers}})
        await fleet.delete(resource, key_in(first))

        await fleet.soon_on(key, "c")
        assert await fleet.states(key) == {"c": "Scheduled+Terminating"}
        held = await fleet.get(resource, key_in(first))
        assert held["metadata"]["finalizers"] == [WORK_CLEANUP]
        assert held["spec"] == first["spec"] | {"state": "Bound"}
        (second,) = [one for one in await fleet.bindings(key) if one["metadata"]["uid"] != held["metadata"]["uid"]]
        assert second["metadata"]["name"] == fallback_name("web", "c", await fleet.placement(key), holder=held)


def fallback_name(prefix: str, cluster: str, placement: Json, *, holder: Json) -> str:
    text = f"{placement['metadata']['uid']}/{cluster}/{holder['metadata']['uid']}"
    return f"{prefix}-{cluster}-{sha256(text.encode()).hexdigest()[:8]}"
