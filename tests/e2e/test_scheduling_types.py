"""Every type of placement in both scopes: which clusters it gets, what its bindings are, and what is published."""

from __future__ import annotations

import hashlib
from typing import Final

from fleet.kube.resource import STATUS
from fleet.kube.scopes import MEMBER_CLUSTERS, find_scope
from fleet.model.keys import PARENT_PLACEMENT, SCHEDULER_BINDING_CLEANUP, SCHEDULER_CLEANUP
from tests.e2e.scheduling import (
    Hub,
    Json,
    Stage,
    by_cluster,
    condition,
    on_stage,
    refusals,
    scores,
    selected,
    stage,
    story,
    verdict,
)
from tests.oracle.example_fleet import affinity, labelled, pick_n

NS: Final = "e2e-types"
HERE: Final = (NS,)

FIXED: Final = 'Successfully scheduled resources for placement in "{}": picked by scheduling policy'
SCORED: Final = (
    'Successfully scheduled resources for placement in "{}" (affinity score: {}, topology spread score: 0): '
    "picked by scheduling policy"
)
STALE: Final = "cluster is not connected to the fleet: no recent heartbeat signals (last received at {})"
PREFERRED: Final = affinity(preferred=[{"weight": 7, "preference": labelled(env="prod")}])
POLICIES: Final[dict[str, Json | None]] = {
    "pick-all": {"placementType": "PickAll", "tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "pick-n": pick_n(2, affinity=PREFERRED),
    "pick-fixed": {"placementType": "PickFixed", "clusterNames": ["b", "a"]},
    "no-policy": None,
}


async def three_clusters(fleet: Stage) -> None:
    await fleet.namespace(NS)
    await fleet.join("a", labels={"env": "prod"}, namespaces=HERE)
    await fleet.join("b", namespaces=HERE)
    await fleet.join("c", taints=[{"key": "gpu", "effect": "NoSchedule"}], namespaces=HERE)


@on_stage()
async def test_bindings_of_every_type_in_both_scopes(fleet: Stage) -> None:
    await three_clusters(fleet)
    keys = [*POLICIES, *(f"{NS}/{name}" for name in POLICIES)]
    placements = {key: await fleet.place(key, POLICIES[key.rpartition("/")[2]]) for key in keys}
    statuses = {key: await fleet.decided(key) for key in keys}

    for key, placement in placements.items():
        decisions = expected_decisions(key.rpartition("/")[2])
        found = [stripped(one) for one in await fleet.bindings(key)]
        assert found == [binding(placement, one) for one in decisions], key
        assert [one for one in statuses[key]["targetClusters"] if one["selected"]] == in_pick_order(decisions), key
        assert SCHEDULER_CLEANUP in (await fleet.placement(key))["metadata"]["finalizers"]


def expected_decisions(name: str) -> list[Json]:
    """By cluster."""
    if name == "pick-fixed":
        return [{"clusterName": one, "selected": True, "reason": FIXED.format(one)} for one in ("a", "b")]
    if name == "pick-n":
        return [scored("a", 7), scored("b", 0)]
    return [scored(one, 0) for one in ("a", "b", "c")[: 3 if name == "pick-all" else 2]]


def in_pick_order(decisions: list[Json]) -> list[Json]:
    """Names as they were listed (b, a); the others by score or name, as they are."""
    return decisions if "clusterScore" in decisions[0] else decisions[::-1]


def scored(cluster: str, affinity: int) -> Json:
    return {
        "clusterName": cluster,
        "selected": True,
        "reason": SCORED.format(cluster, affinity),
        "clusterScore": {"affinityScore": affinity, "priorityScore": 0},
    }


def binding(placement: Json, decision: Json) -> Json:
    metadata, cluster = placement["metadata"], decision["clusterName"]
    suffix = hashlib.sha256(f"{metadata['uid']}/{cluster}".encode()).hexdigest()[:8]
    return {
        "metadata": {
            "name": f"{metadata['name']}-{cluster}-{suffix}",
            **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
            "labels": {PARENT_PLACEMENT: metadata["name"]},
            "finalizers": [SCHEDULER_BINDING_CLEANUP],
        },
        "spec": {
            "state": "Scheduled",
            "resourceSnapshotName": "",
            "schedulingPolicySnapshotName": f"{metadata['name']}-0",
            "targetCluster": cluster,
            "clusterDecision": decision,
        },
    }


def stripped(document: Json) -> Json:
    """Without what the server adds."""
    served = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}
    metadata = {name: value for name, value in document["metadata"].items() if name not in served}
    return {"metadata": metadata, "spec": document["spec"]}


@on_stage()
async def test_named_clusters_in_every_condition(fleet: Stage) -> None:
    """Valid, then ineligible, then unknown, each as listed. Taints and labels do not matter to a name."""
    await fleet.namespace(NS)
    await fleet.join("tainted", taints=[{"key": "gpu", "effect": "NoSchedule"}], namespaces=())
    await fleet.join("fine")
    await fleet.join("not-joined", joined="False")
    await fleet.join("unwell", healthy="False", unhealthy_for=3600)
    names = ["unknown", "unwell", "tainted", "not-joined", "fine"]
    for key in ("web", f"{NS}/web"):
        await fleet.place(key, {"placementType": "PickFixed", "clusterNames": names})

        status = await fleet.decided(key)

        unwell = await last_transition(fleet, "unwell")
        ineligible = 'Cluster "{}" is not eligible for resource placement yet: cluster is not connected to the fleet: '
        assert [(one["clusterName"], one["selected"], one["reason"]) for one in status["targetClusters"]] == [
            ("tainted", True, FIXED.format("tainted")),
            ("fine", True, FIXED.format("fine")),
            (
                "unwell",
                False,
                ineligible.format("unwell")
                + f"unhealthy for a prolonged period of time (last transitioned at {unwell})",
            ),
            ("not-joined", False, ineligible.format("not-joined") + "member agent not joined yet"),
            ("unknown", False, 'Specified cluster "unknown" is not found'),
        ]
        assert not any("clusterScore" in one for one in status["targetClusters"])
        assert verdict(status) == (
            "False",
            "SchedulingPolicyUnfulfilled",
            "could not find all clusters needed as specified by the scheduling policy, found 2 cluster(s) instead",
        )
        assert await fleet.in_use(key) == {"tainted", "fine"}

    await fleet.report("unwell")
    await fleet.report("not-joined")
    await fleet.soon_on("web", "tainted", "fine", "unwell", "not-joined")
    await fleet.join("unknown")
    await fleet.soon_on("web", *names)
    assert (await fleet.soon_scheduled("web"))["message"].endswith("found 5 cluster(s)")


async def last_transition(fleet: Stage, cluster: str) -> str:
    (agent,) = (await fleet.get(MEMBER_CLUSTERS, cluster))["status"]["agentStatus"]
    (found,) = [one for one in agent["conditions"] if one["type"] == "Healthy"]
    return str(found["lastTransitionTime"])


@on_stage()
async def test_every_way_of_being_refused(fleet: Stage) -> None:
    """The first plugin that objects gives the reason."""
    await fleet.namespace(NS)
    prod = {"env": "prod"}
    await fleet.join("fine", labels=prod, namespaces=HERE)
    await fleet.join(
        "tainted", labels=prod, taints=[{"key": "gpu", "value": "a", "effect": "NoSchedule"}], namespaces=HERE
    )
    await fleet.join("tainted-bare", labels=prod, taints=[{"key": "gpu", "effect": "NoSchedule"}], namespaces=HERE)
    await fleet.join("testing", labels={"env": "test"}, silent_for=3600, namespaces=())
    await fleet.join("never-heard", labels=prod)
    await fleet.join("elsewhere", labels=prod, namespaces=("other",))
    await fleet.join("empty", labels=prod, namespaces=())
    await fleet.join("unlisted", labels=prod, namespaces=())
    await fleet.patch(MEMBER_CLUSTERS, "unlisted", {"status": {"namespaces": None}}, subresource=STATUS)
    await fleet.join("unasked", labels=prod)
    no_agent: Json = {"status": {"agentStatus": []}}
    await fleet.patch(MEMBER_CLUSTERS, "never-heard", no_agent, subresource=STATUS)
    policy = {"placementType": "PickAll", "affinity": affinity(required=[labelled(env="prod")])}
    await fleet.place("web", policy)
    await fleet.place(f"{NS}/web", policy)

    everywhere, here = await fleet.decided("web"), await fleet.decided(f"{NS}/web")

    refused = {
        "never-heard": "ClusterUnschedulable, cluster is not connected to the fleet: member agent not online yet",
        "tainted": "ClusterUnschedulable, taint &{Key:gpu Value:a Effect:NoSchedule} cannot be tolerated",
        "tainted-bare": "ClusterUnschedulable, taint &{Key:gpu Value: Effect:NoSchedule} cannot be tolerated",
        "testing": "ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms",
    }
    assert list(refusals(everywhere).items()) == sorted(refused.items())
    assert selected(everywhere) == ["elsewhere", "empty", "fine", "unasked", "unlisted"]
    refused["elsewhere"] = "ClusterUnschedulable, target namespace does not exist on cluster"
    refused["unlisted"] = "ClusterUnschedulable, cluster has no namespace information available"
    refused["empty"] = refused["elsewhere"]
    assert list(refusals(here).items()) == sorted(refused.items())
    assert selected(here) == ["fine", "unasked"]


@on_stage()
async def test_nobody_qualifies(fleet: Stage) -> None:
    """PickAll is content with none, PickN is not."""
    await fleet.namespace(NS)
    await fleet.join("a", silent_for=3600)
    for key in ("all", f"{NS}/all"):
        await fleet.place(key)
        status = await fleet.decided(key)
        assert verdict(status)[0] == "True"
        assert condition(status)["message"].endswith("found 0 cluster(s)")
    for key in ("n", f"{NS}/n"):
        await fleet.place(key, pick_n(1))
        status = await fleet.decided(key)
        assert verdict(status)[0] == "False"
        assert condition(status)["message"].endswith("found 0 cluster(s) instead")
        assert await fleet.bindings(key) == []

    await fleet.report("a")
    for key in ("all", "n", f"{NS}/all", f"{NS}/n"):
        await fleet.soon_on(key, "a")


@story
async def test_the_same_name_in_both_scopes_and_several_namespaces(hub: Hub) -> None:
    """One name, four placements that know nothing of each other."""
    other = f"{NS}-other"
    async with stage(hub) as fleet:
        await fleet.namespace(NS)
        await fleet.namespace(other)
        await fleet.join_all({name: {} for name in "abc"})
        wanted = {"web": 1, f"{NS}/web": 2, f"{other}/web": 3}
        for key, count in wanted.items():
            await fleet.place(key, pick_n(count))
        for key in wanted:
            await fleet.soon_scheduled(key)
        assert {key: len(await fleet.in_use(key)) for key in wanted} == wanted

        await fleet.delete(find_scope(f"{NS}/web").placement, f"{NS}/web")
        await fleet.edit_policy("web", numberOfClusters=2)
        await fleet.soon_on("web", "b", "c")
        assert len(await fleet.in_use(f"{other}/web")) == 3


@on_stage()
async def test_names_with_dots_and_long_names(fleet: Stage) -> None:
    clusters = ("east.prod-1", "n" * 63)
    for cluster in clusters:
        await fleet.join(cluster)
    placements = {name: await fleet.place(name) for name in ("web.shop", "p" * 63)}
    for name, placement in placements.items():
        await fleet.soon_on(name, *clusters)
        names = {cluster: one["metadata"]["name"] for cluster, one in by_cluster(await fleet.bindings(name)).items()}
        prefix = name.replace(".", "-")[:26]
        uid = placement["metadata"]["uid"]
        assert names == {
            cluster: f"{prefix}-{cluster.replace('.', '-')[:27]}-"
            + hashlib.sha256(f"{uid}/{cluster}".encode()).hexdigest()[:8]
            for cluster in clusters
        }


@story
async def test_published_lists_are_cut_and_counts_are_not(hub: Hub) -> None:
    limits = ("status.maxDecisions=4", "status.unselectedBudget=2")
    async with stage(hub, *limits) as fleet:
        await fleet.join_all({f"ok-{number}": {} for number in range(6)})
        for number in range(4):
            await fleet.join(f"silent-{number}", silent_for=3600)
        await fleet.place("all")
        await fleet.place("n", pick_n(1))

        everything, one = await fleet.decided("all"), await fleet.decided("n")

        assert [found["clusterName"] for found in everything["targetClusters"]] == ["ok-0", "ok-1", "ok-2", "ok-3"]
        assert condition(everything)["message"].endswith("found 6 cluster(s)")
        assert list(scores(one)) == ["ok-5", "ok-4", "ok-3"]
        assert selected(one) == ["ok-5"]
        assert len(await fleet.in_use("all")) == 6
