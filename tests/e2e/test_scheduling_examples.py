"""Placements on the example fleet whose outcome was worked out by hand, down to what is published."""

from __future__ import annotations

import hashlib

from fleet.kube.resource import STATUS
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.model.keys import (
    PARENT_PLACEMENT,
    PREVIOUS_BINDING_STATE,
    SCHEDULER_BINDING_CLEANUP,
    SCHEDULER_CLEANUP,
)
from tests.e2e.example_fleet import FILTERED_C8, FILTERED_C9, example_members
from tests.e2e.scheduling import (
    ONLY_SCHEDULER,
    Json,
    Stage,
    by_cluster,
    condition,
    on_stage,
    refusals,
    scores,
    selected,
    stored_score,
    verdict,
)
from tests.e2e.world import EVENTS
from tests.oracle.example_fleet import NODE_COUNT, RATING, affinity, hard, labelled, pick_n, soft, sorted_by

REGION_IS_FULL = 'ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)'
NO_TERM_MATCHES = "ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms"
FOUND = "found all cluster needed as specified by the scheduling policy, found {} cluster(s)"


def picked(cluster: str, *, topology: int, affinity: int) -> Json:
    scored = f"affinity score: {affinity}, topology spread score: {topology}"
    return {
        "clusterName": cluster,
        "selected": True,
        "reason": f'Successfully scheduled resources for placement in "{cluster}" ({scored}): '
        "picked by scheduling policy",
        "clusterScore": {"affinityScore": affinity, "priorityScore": topology},
    }


def not_picked(cluster: str) -> Json:
    return {
        "clusterName": cluster,
        "selected": False,
        "reason": f'Cluster "{cluster}" does not score high enough (affinity score: 0, topology spread score: 0)',
        "clusterScore": {"affinityScore": 0, "priorityScore": 0},
    }


def refused(cluster: str, reason: str) -> Json:
    return {"clusterName": cluster, "selected": False, "reason": reason}


async def example(fleet: Stage) -> None:
    await fleet.bring(*example_members())


@on_stage()
async def test_two_clusters_in_different_regions(fleet: Stage) -> None:
    await example(fleet)
    placement = await fleet.place("web", pick_n(2, topologySpreadConstraints=[hard("region")]))

    status = await fleet.decided("web")

    assert status["targetClusters"] == [
        picked("c7", topology=-1, affinity=0),
        picked("c5", topology=0, affinity=0),
        *map(not_picked, ("c4", "c3", "c2", "c1")),
        refused("c6", REGION_IS_FULL),
        refused("c8", FILTERED_C8),
        refused("c9", FILTERED_C9),
    ]
    assert status["observedCRPGeneration"] == 1
    assert (
        condition(status).items()
        >= {
            "status": "True",
            "reason": "SchedulingPolicyFulfilled",
            "message": FOUND.format(2),
            "observedGeneration": 1,
        }.items()
    )
    assert by_cluster(map(without_server_fields, await fleet.bindings("web"))) == {
        "c7": binding_for("c7", placement, picked("c7", topology=-1, affinity=0)),
        "c5": binding_for("c5", placement, picked("c5", topology=0, affinity=0)),
    }


@on_stage("bindings.read=List", controllers=ONLY_SCHEDULER)
async def test_the_requests_it_takes_to_place_on_two_clusters(fleet: Stage) -> None:
    await example(fleet)
    await fleet.place("web")
    await fleet.settled()
    fleet.overheard.requests.clear()
    await fleet.snapshot("web", pick_n(2, topologySpreadConstraints=[hard("region")]))
    await fleet.decided("web")
    await fleet.settled()

    group = "/apis/placement.kubernetes-fleet.io/v1beta1"
    assert fleet.overheard.sent(group) == [
        ("PUT", f"{group}/clusterresourceplacements/web"),
        ("GET", f"{group}/clusterresourcebindings"),
        ("POST", f"{group}/clusterresourcebindings"),
        ("POST", f"{group}/clusterresourcebindings"),
        ("PUT", f"{group}/clusterschedulingpolicysnapshots/web-0/status"),
    ]
    assert SCHEDULER_CLEANUP in (await fleet.placement("web"))["metadata"]["finalizers"]


@on_stage()
async def test_hard_and_soft_constraints_with_affinity(fleet: Stage) -> None:
    await example(fleet)
    wanted = affinity(
        required=[labelled(env="prod")], preferred=[{"weight": 40, "preference": labelled(region="east")}]
    )
    constraints = [soft("env", 2), hard("region", 1)]
    await fleet.place("web", pick_n(3, affinity=wanted, topologySpreadConstraints=constraints))

    status = await fleet.decided("web")

    assert list(scores(status).items()) == [
        ("c2", (-2, 40)),
        ("c6", (-1, 0)),
        ("c5", (-999, 0)),
        ("c4", (-999, 0)),
        ("c1", None),
        ("c3", None),
        ("c7", None),
        ("c8", None),
        ("c9", None),
    ]
    assert selected(status) == ["c2", "c6", "c5"]
    assert refusals(status) == {
        "c1": REGION_IS_FULL,
        "c3": NO_TERM_MATCHES,
        "c7": NO_TERM_MATCHES,
        "c8": FILTERED_C8,
        "c9": FILTERED_C9,
    }
    stored = {name: stored_score(one) for name, one in by_cluster(await fleet.bindings("web")).items()}
    assert stored == {"c2": (-2, 40), "c5": (-999, 0), "c6": (-1, 0)}


@on_stage()
async def test_three_sorters(fleet: Stage) -> None:
    await example(fleet)
    preferred = [
        {"weight": 100, "preference": sorted_by(NODE_COUNT, "Ascending")},
        {"weight": 80, "preference": sorted_by(RATING, "Descending")},
        {"weight": 60, "preference": sorted_by("resources.kubernetes-fleet.io/allocatable-memory", "Descending")},
    ]
    await fleet.place("web", pick_n(3, affinity=affinity(preferred=preferred)))

    status = await fleet.decided("web")

    assert list(scores(status).items()) == [
        ("c1", (0, 168)),
        ("c4", (0, 146)),
        ("c6", (0, 135)),
        ("c2", (0, 108)),
        ("c3", (0, 68)),
        ("c7", (0, 60)),
        ("c5", (0, 46)),
        ("c8", None),
        ("c9", None),
    ]
    assert selected(status) == ["c1", "c4", "c6"]


@on_stage()
async def test_fewer_clusters_give_up_those_with_small_names_first(fleet: Stage) -> None:
    await example(fleet)
    await fleet.place("web", pick_n(3))
    await fleet.soon_on("web", "c5", "c6", "c7")

    await fleet.edit_policy("web", numberOfClusters=1)
    status = await fleet.decided("web")

    assert await fleet.states("web") == {"c5": "Unscheduled", "c6": "Unscheduled", "c7": "Scheduled"}
    bindings = by_cluster(await fleet.bindings("web"))
    assert remembered(bindings["c5"]) == remembered(bindings["c6"]) == "Scheduled"
    assert [one["clusterName"] for one in status["targetClusters"]] == ["c7"]
    assert verdict(status) == ("True", "SchedulingPolicyFulfilled", FOUND.format(1))


@on_stage()
async def test_fewer_clusters_give_up_what_is_not_bound_yet(fleet: Stage) -> None:
    await example(fleet)
    await fleet.place("web", pick_n(3))
    await fleet.soon_on("web", "c5", "c6", "c7")
    await fleet.bind("web", "c5")

    await fleet.edit_policy("web", numberOfClusters=1)
    await fleet.decided("web")

    assert await fleet.states("web") == {"c5": "Bound", "c6": "Unscheduled", "c7": "Unscheduled"}


def in_east_and_prod(*, written: str) -> Json:
    """The same clusters, said in two ways: two policies."""
    labels: Json = {"region": "east", "env": "prod"}
    if written == "as labels":
        return affinity(required=[labelled(**labels)])
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return affinity(required=[{"labelSelector": {"matchExpressions": expressions}}])


async def moved_away_from_c1_and_c2(fleet: Stage) -> None:
    """c1 was bound and c2 scheduled when the policy changed to canaries."""
    await example(fleet)
    await fleet.place("web", pick_n(2, affinity=in_east_and_prod(written="as labels")))
    await fleet.soon_on("web", "c1", "c2")
    await fleet.decided("web")
    await fleet.bind("web", "c1")
    await fleet.set_policy("web", pick_n(2, affinity=affinity(required=[labelled(env="canary")])))
    assert selected(await fleet.decided("web")) == ["c7", "c3"]

    bindings = by_cluster(await fleet.bindings("web"))
    assert await fleet.states("web") == {
        "c1": "Unscheduled",
        "c2": "Unscheduled",
        "c3": "Scheduled",
        "c7": "Scheduled",
    }
    assert {name: remembered(one) for name, one in bindings.items()} == {
        "c1": "Bound",
        "c2": "Scheduled",
        "c3": None,
        "c7": None,
    }
    assert {name: snapshot_of(one) for name, one in bindings.items()} == {
        "c1": "web-0",
        "c2": "web-0",
        "c3": "web-1",
        "c7": "web-1",
    }


@on_stage()
async def test_an_unscheduled_binding_is_no_advantage(fleet: Stage) -> None:
    await moved_away_from_c1_and_c2(fleet)
    before = by_cluster(await fleet.bindings("web"))

    await fleet.set_policy("web", pick_n(2, affinity=affinity(required=[labelled(env="prod")])))
    status = await fleet.decided("web")

    assert selected(status) == ["c6", "c5"]
    after = by_cluster(await fleet.bindings("web"))
    assert [before[name] for name in ("c1", "c2")] == [after[name] for name in ("c1", "c2")]
    assert await fleet.in_use("web") == {"c5", "c6"}


@on_stage()
async def test_an_unscheduled_binding_comes_back_as_what_it_was(fleet: Stage) -> None:
    await moved_away_from_c1_and_c2(fleet)
    before = by_cluster(await fleet.bindings("web"))

    await fleet.set_policy("web", pick_n(2, affinity=in_east_and_prod(written="as expressions")))
    status = await fleet.decided("web")

    assert selected(status) == ["c2", "c1"]
    assert await fleet.states("web") == {
        "c1": "Bound",
        "c2": "Scheduled",
        "c3": "Unscheduled",
        "c7": "Unscheduled",
    }
    after = by_cluster(await fleet.bindings("web"))
    for name in ("c1", "c2"):
        assert after[name]["metadata"]["uid"] == before[name]["metadata"]["uid"]
        assert snapshot_of(after[name]) == "web-2"
        assert remembered(after[name]) is None


@on_stage()
async def test_spreading_keeps_what_is_spread_already(fleet: Stage) -> None:
    await example(fleet)
    chosen = {"labelSelector": {"matchExpressions": [{"key": "chosen", "operator": "Exists"}]}}
    for name in ("c2", "c5", "c6"):
        await fleet.relabel(name, chosen="yes")
    await fleet.place("web", pick_n(3, affinity=affinity(required=[chosen])))
    await fleet.soon_on("web", "c2", "c5", "c6")
    await fleet.decided("web")
    before = by_cluster(await fleet.bindings("web"))

    await fleet.set_policy("web", pick_n(3, topologySpreadConstraints=[hard("region")]))
    status = await fleet.decided("web")

    assert selected(status) == ["c6", "c5", "c2"]
    published = scores(status)
    assert {name: published[name] for name in selected(status)} == {"c6": (-1, 0), "c5": (0, 0), "c2": (1, 0)}
    after = by_cluster(await fleet.bindings("web"))
    assert {name: one["metadata"]["uid"] for name, one in after.items()} == {
        name: one["metadata"]["uid"] for name, one in before.items()
    }
    assert {name: snapshot_of(one) for name, one in after.items()} == dict.fromkeys(("c2", "c5", "c6"), "web-1")


@on_stage()
async def test_an_unreadable_property_excludes_one_cluster_and_is_told_once(fleet: Stage) -> None:
    await example(fleet)
    unreadable = {"properties": {RATING: {"value": "high", "observationTime": "2026-01-05T10:00:00Z"}}}
    await fleet.patch(MEMBER_CLUSTERS, "c2", {"status": unreadable}, subresource=STATUS)
    rated = {"name": RATING, "operator": "Ge", "values": ["60"]}
    wanted = affinity(required=[{"propertySelector": {"matchExpressions": [rated]}}])
    await fleet.place("web", {"placementType": "PickAll", "affinity": wanted})

    status = await fleet.decided("web")
    assert selected(status) == ["c1", "c4", "c6"]
    assert refusals(status)["c2"] == NO_TERM_MATCHES
    assert verdict(status) == ("True", "SchedulingPolicyFulfilled", FOUND.format(3))

    await fleet.nudge("web")
    await fleet.decided("web")
    await fleet.all_told()
    warnings = [one for one in await fleet.told("web") if one[0] == "Warning"]
    assert [reason for _, reason, _ in warnings] == ["ClusterPropertyUnreadable"]
    assert all(word in warnings[0][2] for word in ("c2", RATING))
    assert await occurrences(fleet, "web", "ClusterPropertyUnreadable") == 1


async def occurrences(fleet: Stage, key: str, reason: str) -> int:
    uid = (await fleet.placement(key))["metadata"]["uid"]
    found = [one for one in await fleet.all(EVENTS, namespace="default") if one["involvedObject"].get("uid") == uid]
    return sum(int(one["count"]) for one in found if one["reason"] == reason)


# --- bindings ---------------------------------------------------------------------------------------------------------


def binding_for(cluster: str, placement: Json, decision: Json) -> Json:
    """The whole of it."""
    name, uid = placement["metadata"]["name"], placement["metadata"]["uid"]
    suffix = hashlib.sha256(f"{uid}/{cluster}".encode()).hexdigest()[:8]
    return {
        "apiVersion": CLUSTER_SCOPED.binding.api_version,
        "kind": "ClusterResourceBinding",
        "metadata": {
            "name": f"{name}-{cluster}-{suffix}",
            "labels": {PARENT_PLACEMENT: name},
            "finalizers": [SCHEDULER_BINDING_CLEANUP],
        },
        "spec": {
            "state": "Scheduled",
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": f"{name}-0",
            "targetCluster": cluster,
            "clusterDecision": decision,
        },
    }


def without_server_fields(binding: Json) -> Json:
    served = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
    metadata = {name: value for name, value in binding["metadata"].items() if name not in served}
    return {
        "apiVersion": CLUSTER_SCOPED.binding.api_version,
        "kind": "ClusterResourceBinding",
        **binding,
        "metadata": metadata,
    }


def remembered(binding: Json) -> str | None:
    annotations: dict[str, str] = binding["metadata"].get("annotations", {})
    return annotations.get(PREVIOUS_BINDING_STATE)


def snapshot_of(binding: Json) -> str:
    return str(binding["spec"]["schedulingPolicySnapshotName"])
