"""A policy that changes while a cluster is out of reach for a moment does not cost it its workload."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.kube.scopes import MEMBER_CLUSTERS
from tests.e2e.scheduling import (
    Json,
    Stage,
    on_stage,
    refusals,
    selected,
    verdict,
)
from tests.oracle.example_fleet import affinity, labelled, pick_n

PICK_ALL: dict[str, Json] = {
    "before": {"placementType": "PickAll", "affinity": affinity(required=[labelled(env="prod")])},
    "after": {"placementType": "PickAll", "affinity": affinity(required=[labelled(tier="1")])},
}
PICK_N: dict[str, Json] = {
    "before": pick_n(5, affinity=affinity(required=[labelled(env="prod")])),
    "after": pick_n(5, affinity=affinity(required=[labelled(tier="1")])),
}
BOTH = {"env": "prod", "tier": "1"}


async def five_clusters(fleet: Stage) -> None:
    for name in ("fine", "silent-shortly", "silent-long", "unwell-shortly", "unwell-long"):
        await fleet.join(name, labels=BOTH)


async def some_drop_out(fleet: Stage) -> None:
    """All of them too long ago for new work; two of them too long ago for anything."""
    await fleet.report("silent-shortly", silent_for=600)
    await fleet.report("silent-long", silent_for=1000)
    await fleet.report("unwell-shortly", healthy="False", unhealthy_for=600)
    await fleet.report("unwell-long", healthy="False", unhealthy_for=1000)


def states(gone: tuple[str, ...]) -> Mapping[str, str]:
    names = ("fine", "silent-long", "silent-shortly", "unwell-long", "unwell-shortly")
    return {name: "Unscheduled" if name in gone else "Scheduled" for name in names}


@on_stage()
async def test_what_dropped_out_shortly_before_keeps_its_place(fleet: Stage) -> None:
    await five_clusters(fleet)
    for key, policies in (("all", PICK_ALL), ("n", PICK_N)):
        await fleet.place(key, policies["before"])
        await fleet.decided(key)
    await some_drop_out(fleet)
    for key, policies in (("all", PICK_ALL), ("n", PICK_N)):
        await fleet.set_policy(key, policies["after"])
        status = await fleet.decided(key)

        assert await fleet.states(key) == states(gone=("silent-long", "unwell-long"))
        assert set(selected(status)) == {"fine", "silent-shortly", "unwell-shortly"}
        assert refusals(status).keys() == {"silent-long", "unwell-long"}
    assert verdict(await fleet.read_by("n"))[0] == "False"

    # Only what is there already is forgiven: nobody gets anything new on those clusters.
    await fleet.place("new", PICK_ALL["after"])
    assert selected(await fleet.decided("new")) == ["fine"]


@on_stage("eligibility.retention=0s")
async def test_retention_can_be_switched_off(fleet: Stage) -> None:
    await five_clusters(fleet)
    await fleet.place("all", PICK_ALL["before"])
    await fleet.decided("all")
    await some_drop_out(fleet)
    await fleet.set_policy("all", PICK_ALL["after"])

    assert selected(await fleet.decided("all")) == ["fine"]
    assert await fleet.in_use("all") == {"fine"}


@on_stage()
async def test_what_was_dropped_from_the_policy_goes_however_briefly_it_is_out(fleet: Stage) -> None:
    """Retention forgives a missing heartbeat and nothing else."""
    await fleet.join("fine", labels=BOTH)
    await fleet.join("other", labels={"env": "prod"})
    await fleet.join("leaving", labels=BOTH)
    await fleet.place("all", PICK_ALL["before"])
    await fleet.soon_on("all", "fine", "other", "leaving")
    await fleet.decided("all")
    await fleet.report("other", silent_for=600)
    await fleet.report("leaving", silent_for=600)
    await fleet.start_leaving("leaving")
    await fleet.set_policy("all", PICK_ALL["after"])

    await fleet.decided("all")
    assert await fleet.states("all") == {"fine": "Scheduled", "leaving": "Unscheduled", "other": "Unscheduled"}


@on_stage()
async def test_a_retained_cluster_of_pick_n_still_has_to_win_its_place(fleet: Stage) -> None:
    await fleet.join_all({"a": BOTH, "b": BOTH})
    await fleet.place("n", PICK_N["before"] | {"numberOfClusters": 2})
    await fleet.soon_on("n", "a", "b")
    await fleet.decided("n")
    await fleet.join("c", labels={"tier": "1", "better": "yes"})
    await fleet.report("a", silent_for=600)
    better = [{"weight": 9, "preference": labelled(better="yes")}]
    wanted = affinity(required=[labelled(tier="1")], preferred=better)
    await fleet.set_policy("n", pick_n(2, affinity=wanted))

    assert selected(await fleet.decided("n")) == ["c", "b"]
    assert await fleet.states("n") == {"a": "Unscheduled", "b": "Scheduled", "c": "Scheduled"}


@on_stage()
async def test_a_named_cluster_keeps_its_binding_and_is_published_as_not_selected(fleet: Stage) -> None:
    await five_clusters(fleet)
    names = ["fine", "silent-shortly", "silent-long"]
    await fleet.place("fixed", {"placementType": "PickFixed", "clusterNames": names})
    await fleet.soon_on("fixed", *names)
    await fleet.decided("fixed")
    await some_drop_out(fleet)
    await fleet.edit_policy("fixed", clusterNames=["silent-long", "silent-shortly", "fine"])

    status = await fleet.decided("fixed")

    assert await fleet.states("fixed") == {
        "fine": "Scheduled",
        "silent-long": "Unscheduled",
        "silent-shortly": "Scheduled",
    }
    assert [(one["clusterName"], one["selected"]) for one in status["targetClusters"]] == [
        ("fine", True),
        ("silent-long", False),
        ("silent-shortly", False),
    ]
    snapshots = {one["spec"]["schedulingPolicySnapshotName"] for one in await fleet.bindings("fixed")}
    assert snapshots == {"fixed-0", "fixed-1"}
    assert verdict(status) == (
        "False",
        "SchedulingPolicyUnfulfilled",
        "could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead",
    )


@on_stage()
async def test_a_cluster_without_an_agent_is_not_retained(fleet: Stage) -> None:
    await fleet.join_all({"a": BOTH, "b": BOTH})
    await fleet.place("all", PICK_ALL["before"])
    await fleet.soon_on("all", "a", "b")
    await fleet.decided("all")
    await fleet.patch(MEMBER_CLUSTERS, "b", {"status": {"agentStatus": []}}, subresource="status")
    await fleet.set_policy("all", PICK_ALL["after"])

    await fleet.decided("all")
    assert await fleet.in_use("all") == {"a"}
