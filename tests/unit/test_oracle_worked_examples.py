"""The worked examples of the scheduling contract, computed by hand there, on every engine."""

from __future__ import annotations

import pytest

from tests.oracle.documents import Json
from tests.oracle.example_fleet import (
    NODE_COUNT,
    RATING,
    a_binding,
    a_scenario,
    affinity,
    example_clusters,
    hard,
    labelled,
    pick_n,
    soft,
    sorted_by,
)
from tests.vectors.comparison import Outcome
from tests.vectors.runner import ENGINES, Engine, engine_named


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return engine_named(request.param)


def selected(result: Outcome) -> list[str]:
    return [decision["clusterName"] for decision in result.decisions if decision["selected"]]


def scores(result: Outcome) -> dict[str, tuple[int, int]]:
    """Topology and affinity of all published entries that have a score."""
    scored = {each["clusterName"]: each["clusterScore"] for each in result.decisions if "clusterScore" in each}
    return {cluster: (score["priorityScore"], score["affinityScore"]) for cluster, score in scored.items()}


def reasons(result: Outcome) -> dict[str, str]:
    return {each["clusterName"]: each["reason"] for each in result.decisions if "clusterScore" not in each}


def states(result: Outcome) -> dict[str, tuple[str, str, str]]:
    """State, snapshot and remembered state per cluster."""
    return {
        each["cluster"]: (each["state"], each["snapshot"], each.get("previousState", "")) for each in result.bindings
    }


def operations(result: Outcome) -> list[tuple[str, str]]:
    return [(each["operation"], each["cluster"]) for each in result.operations]


def test_two_clusters_spread_over_regions(engine: Engine) -> None:
    result = engine(a_scenario(pick_n(2, topologySpreadConstraints=[hard("region")])))

    listed = [decision["clusterName"] for decision in result.decisions]
    assert listed == ["c7", "c5", "c4", "c3", "c2", "c1", "c6", "c8", "c9"]
    assert selected(result) == ["c7", "c5"]
    assert scores(result) == {"c7": (-1, 0)} | dict.fromkeys(["c5", "c4", "c3", "c2", "c1"], (0, 0))
    assert reasons(result) == {
        "c6": 'ClusterUnschedulable, violated doNotSchedule topology spread constraint "region" (max skew 1)',
        "c8": "ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals "
        "(last received at 2026-01-05T10:00:00Z)",
        "c9": "ClusterUnschedulable, cluster has left the fleet",
    }
    assert operations(result) == [("create", "c7"), ("create", "c5")]
    assert result.condition is not None
    assert (result.condition["status"], result.condition["reason"]) == ("True", "SchedulingPolicyFulfilled")
    assert result.condition["message"].endswith("found 2 cluster(s)")


def test_hard_and_soft_constraints_with_affinity(engine: Engine) -> None:
    east_first = {"weight": 40, "preference": labelled(region="east")}
    policy = pick_n(
        3,
        affinity=affinity(required=[labelled(env="prod")], preferred=[east_first]),
        topologySpreadConstraints=[soft("env", 2), hard("region")],
    )

    result = engine(a_scenario(policy))

    assert selected(result) == ["c2", "c6", "c5"]
    assert scores(result) == {"c2": (-2, 40), "c6": (-1, 0), "c5": (-999, 0), "c4": (-999, 0)}
    assert {cluster: verdict.plugin for cluster, verdict in result.verdicts.items() if verdict.plugin} == {
        "c1": "TopologySpreadConstraints",
        "c3": "ClusterAffinity",
        "c7": "ClusterAffinity",
        "c8": "ClusterEligibility",
        "c9": "ClusterEligibility",
    }
    assert [result.verdicts[cluster].step for cluster in ("c2", "c6", "c5")] == [1, 2, 3]


def test_three_sorters(engine: Engine) -> None:
    memory = "resources.kubernetes-fleet.io/allocatable-memory"
    preferred = [
        {"weight": 100, "preference": sorted_by(NODE_COUNT, "Ascending")},
        {"weight": 80, "preference": sorted_by(RATING, "Descending")},
        {"weight": 60, "preference": sorted_by(memory, "Descending")},
    ]

    result = engine(a_scenario(pick_n(3, affinity=affinity(preferred=preferred))))

    assert selected(result) == ["c1", "c4", "c6"]
    assert {cluster: score for cluster, (_, score) in scores(result).items()} == {
        "c1": 168,
        "c2": 108,
        "c3": 68,
        "c4": 146,
        "c5": 46,
        "c6": 135,
        "c7": 60,
    }


def test_downscaling_removes_the_smaller_names_of_equal_bindings(engine: Engine) -> None:
    before = [a_binding(cluster, "Scheduled", snapshot="s1") for cluster in ("c5", "c6", "c7")]

    result = engine(a_scenario(pick_n(1), *before))

    assert states(result) == {
        "c5": ("Unscheduled", "s1", "Scheduled"),
        "c6": ("Unscheduled", "s1", "Scheduled"),
        "c7": ("Scheduled", "s1", ""),
    }
    assert [decision["clusterName"] for decision in result.decisions] == ["c7"]
    assert result.condition is not None
    assert result.condition["message"].endswith("found 1 cluster(s)")


def test_downscaling_removes_scheduled_before_bound(engine: Engine) -> None:
    before = [a_binding("c5", "Bound", snapshot="s1")]
    before += [a_binding(cluster, "Scheduled", snapshot="s1") for cluster in ("c6", "c7")]

    result = engine(a_scenario(pick_n(1), *before))

    assert {cluster: state for cluster, (state, *_) in states(result).items()} == {
        "c5": "Bound",
        "c6": "Unscheduled",
        "c7": "Unscheduled",
    }


def test_a_policy_change_creates_before_it_unschedules(engine: Engine) -> None:
    before = [a_binding("c1", "Bound", snapshot="s1"), a_binding("c2", "Scheduled", snapshot="s1")]
    canary = pick_n(2, affinity=affinity(required=[labelled(env="canary")]))

    result = engine(a_scenario(canary, *before, snapshot="s2"))

    assert operations(result) == [("create", "c7"), ("create", "c3"), ("unschedule", "c1"), ("unschedule", "c2")]
    assert states(result) == {
        "c1": ("Unscheduled", "s1", "Bound"),
        "c2": ("Unscheduled", "s1", "Scheduled"),
        "c3": ("Scheduled", "s2", ""),
        "c7": ("Scheduled", "s2", ""),
    }


@pytest.fixture
def between_two_changes() -> list[Json]:
    """After a move from prod to canary clusters, before the old bindings are gone."""
    return [
        a_binding("c1", "Unscheduled", snapshot="s1", previous="Bound"),
        a_binding("c2", "Unscheduled", snapshot="s1", previous="Scheduled"),
        a_binding("c3", "Scheduled", snapshot="s2"),
        a_binding("c7", "Scheduled", snapshot="s2"),
    ]


def test_an_unscheduled_binding_gives_no_bonus(engine: Engine, between_two_changes: list[Json]) -> None:
    prod = pick_n(2, affinity=affinity(required=[labelled(env="prod")]))

    result = engine(a_scenario(prod, *between_two_changes, snapshot="s3"))

    assert selected(result) == ["c6", "c5"]
    assert states(result) == {
        "c1": ("Unscheduled", "s1", "Bound"),
        "c2": ("Unscheduled", "s1", "Scheduled"),
        "c3": ("Unscheduled", "s2", "Scheduled"),
        "c5": ("Scheduled", "s3", ""),
        "c6": ("Scheduled", "s3", ""),
        "c7": ("Unscheduled", "s2", "Scheduled"),
    }


def test_a_revived_binding_returns_to_its_state(engine: Engine, between_two_changes: list[Json]) -> None:
    eastern_prod = pick_n(2, affinity=affinity(required=[labelled(env="prod", region="east")]))

    result = engine(a_scenario(eastern_prod, *between_two_changes, snapshot="s3"))

    assert selected(result) == ["c2", "c1"]
    assert states(result)["c1"] == ("Bound", "s3", "")
    assert states(result)["c2"] == ("Scheduled", "s3", "")


def test_spreading_prefers_old_clusters_in_every_step(engine: Engine) -> None:
    before = [a_binding(cluster, "Bound", snapshot="s1") for cluster in ("c2", "c5", "c6")]

    result = engine(a_scenario(pick_n(3, topologySpreadConstraints=[hard("region")]), *before, snapshot="s2"))

    assert selected(result) == ["c6", "c5", "c2"]
    assert {cluster: score for cluster, (score, _) in scores(result).items() if cluster in selected(result)} == {
        "c6": -1,
        "c5": 0,
        "c2": 1,
    }
    assert operations(result) == [("refresh", "c6"), ("refresh", "c5"), ("refresh", "c2")]


def test_an_unreadable_property_is_missing_on_that_cluster_only(engine: Engine) -> None:
    clusters = example_clusters()
    clusters[1]["status"]["properties"][RATING]["value"] = "high"
    efficient = {"matchExpressions": [{"name": RATING, "operator": "Ge", "values": ["60"]}]}
    policy = {"placementType": "PickAll", "affinity": affinity(required=[{"propertySelector": efficient}])}

    result = engine(a_scenario(policy, clusters=clusters))

    assert selected(result) == ["c1", "c4", "c6"]
    assert reasons(result)["c2"] == (
        "ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms"
    )


UID = "5d0c1b52-7f6e-4f0e-9a54-0c1f2b7a9e11"


def test_a_new_binding_has_a_deterministic_name(engine: Engine) -> None:
    result = engine(a_scenario(pick_n(1), uid=UID))

    assert [binding["name"] for binding in result.bindings] == ["web-c7-029abe88"]


def test_a_name_held_by_a_terminating_binding_is_replaced_by_the_fallback(engine: Engine) -> None:
    holder = a_binding(
        "c7",
        "Bound",
        snapshot="s1",
        name="web-c7-029abe88",
        uid="9a1d7c44-0d2c-4f8e-8a3b-6f1f5a0b2c33",
        deletionTimestamp="2026-01-05T10:29:00Z",
        finalizers=["kubernetes-fleet.io/work-cleanup"],
    )

    result = engine(a_scenario(pick_n(1), holder, uid=UID))

    assert [binding["name"] for binding in result.bindings] == ["web-c7-029abe88", "web-c7-d6f302cd"]
