"""Rows of the view."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.demo.status_rows import HeartbeatThresholds, State, cluster_rows, is_decided, placement_row
from fleet.model.views import MemberCluster, Observed, Placement
from tests.builders import NOW, a_cluster

PATIENCE = HeartbeatThresholds(late=15, silent=60)


def the_state(cluster: MemberCluster) -> State:
    return cluster_rows([cluster], now=NOW, thresholds=PATIENCE)[0].state


def a_placement(
    *conditions: tuple[str, str],
    policy: dict[str, Any] | None = None,
    kind: str = "ClusterResourcePlacement",
    **rest: Any,
) -> Observed[Placement]:
    """Generation 2, and conditions of it unless said otherwise."""
    generation = rest.pop("observed", 2)
    clusters = [{"clusterName": name} for name in rest.pop("clusters", ())]
    found = [
        {"type": f"{kind}{type}", "status": status, "observedGeneration": generation} for type, status in conditions
    ]
    document = {
        "metadata": {"name": "web", "generation": 2, **rest},
        "spec": {"resourceSelectors": [], **({"policy": policy} if policy else {})},
        "status": {"conditions": found, "placementStatuses": clusters},
    }
    raw = msgspec.json.encode(document)
    return Observed(msgspec.json.decode(raw, type=Placement), raw)


DONE = [
    ("Scheduled", "True"),
    ("RolloutStarted", "True"),
    ("Overridden", "True"),
    ("WorkSynchronized", "True"),
    ("Applied", "True"),
    ("Available", "True"),
]


# --- clusters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "seconds, want",
    [(0, State.CONNECTED), (15, State.CONNECTED), (16, State.LATE), (60, State.LATE), (61, State.SILENT)],
)
def test_the_state_of_a_cluster_follows_from_its_last_heartbeat(seconds: int, want: State) -> None:
    assert the_state(a_cluster("c").heard(seconds).build()) is want


def test_a_cluster_without_an_agent_is_joining() -> None:
    assert the_state(MemberCluster()) is State.JOINING


def test_a_cluster_that_is_being_deleted_is_leaving_however_long_it_was_silent() -> None:
    assert the_state(a_cluster("c").heard(3600).leaving().build()) is State.LEAVING


def test_clusters_that_need_attention_come_first() -> None:
    fleet = [a_cluster("b"), a_cluster("a"), a_cluster("z").heard(3600), a_cluster("y").heard(20)]
    rows = cluster_rows([one.build() for one in fleet], now=NOW, thresholds=PATIENCE)

    assert [row.name for row in rows] == ["z", "y", "a", "b"]


def test_a_row_tells_region_age_and_taints() -> None:
    cluster = a_cluster("c").labelled(region="eu-west").heard(7).tainted("gpu").build()
    row = cluster_rows([cluster], now=NOW, thresholds=PATIENCE)[0]

    assert (row.region, row.age, row.taints) == ("eu-west", 7, "gpu")


# --- placements -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, type, wanted",
    [
        (None, "PickAll", "all"),
        ({"placementType": "PickAll"}, "PickAll", "all"),
        ({"placementType": "PickN", "numberOfClusters": 4}, "PickN", "4"),
        ({"placementType": "PickFixed", "clusterNames": ["a", "b"]}, "PickFixed", "2"),
    ],
)
def test_a_row_tells_what_is_wanted(policy: dict[str, Any] | None, type: str, wanted: str) -> None:
    row = placement_row(a_placement(policy=policy))

    assert (row.key, row.type, row.wanted) == ("web", type, wanted)


def test_places_without_a_cluster_are_not_selected_clusters() -> None:
    assert placement_row(a_placement(clusters=["a", "", "b"])).selected == ("a", "b")


@pytest.mark.parametrize(
    "conditions, want, is_settled",
    [
        ([], "waiting for the controller", False),
        ([("Scheduled", "Unknown")], "waiting for the controller", False),
        ([("Scheduled", "True")], "scheduled", True),
        ([("Scheduled", "True"), ("RolloutStarted", "Unknown")], "rollout not started", False),
        ([*DONE[:4], ("Applied", "False")], "applying", False),
        (DONE, "available", True),
        ([("Scheduled", "False"), *DONE[1:]], "not enough clusters", False),
        ([("Scheduled", "False"), ("RolloutStarted", "False")], "not enough clusters, rollout not started", False),
    ],
)
def test_the_status_is_the_first_thing_that_is_not_done(
    *, conditions: list[tuple[str, str]], want: str, is_settled: bool
) -> None:
    row = placement_row(a_placement(*conditions))

    assert (row.status, row.is_settled) == (want, is_settled)


def test_conditions_of_namespaced_placements_are_read_too() -> None:
    placement = a_placement(*DONE, kind="ResourcePlacement", namespace="shop")

    assert placement_row(placement)[0] == "shop/web"
    assert placement_row(placement).status == "available"


def test_conditions_of_an_older_generation_say_nothing() -> None:
    assert placement_row(a_placement(*DONE, observed=1)).status == "waiting for the controller"
    assert not is_decided(a_placement(*DONE, observed=1))


def test_a_placement_that_is_being_deleted_says_so() -> None:
    assert placement_row(a_placement(*DONE, deletionTimestamp="2026-01-01T00:00:00Z")).status == "being deleted"


@pytest.mark.parametrize("status, want", [("True", True), ("False", True), ("Unknown", False)])
def test_a_placement_is_decided_whatever_the_answer_was(status: str, *, want: bool) -> None:
    assert is_decided(a_placement(("Scheduled", status))) is want
