"""D25: what counts as a change of a member cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.model.keys import NAMESPACE_COLLECTION_SUCCEEDED
from fleet.model.timestamps import MINUTE
from fleet.model.views import Condition, MemberCluster, Taint
from fleet.scheduler.events.cluster_diff import NO_DIFF, ClusterDiff, diff_clusters
from fleet.snapshot.eligibility import Eligibility
from tests.builders import NOW, ClusterBuilder, a_cluster

RULE = Eligibility(heartbeat_timeout=5 * MINUTE, unhealthy_timeout=5 * MINUTE)
HEALTHY = a_cluster("c1")
SILENT = HEALTHY.heard(3600)


def is_eligible(cluster: MemberCluster) -> bool:
    return RULE.of(cluster, NOW)


def change(old: ClusterBuilder | None, new: ClusterBuilder | None, *, initial: bool = False) -> ClusterDiff:
    before, after = (None if one is None else one.build() for one in (old, new))
    return diff_clusters(before, after, is_eligible=is_eligible, initial=initial)


def with_condition(cluster: ClusterBuilder, status: str | None) -> ClusterBuilder:
    """The cluster's namespace collection; None where it does not report about it."""
    conditions = () if status is None else (Condition(NAMESPACE_COLLECTION_SUCCEEDED, status),)
    return edited(cluster, "status", conditions=conditions)


def edited(cluster: ClusterBuilder, part: str, **changes: Any) -> ClusterBuilder:
    view = cluster.build()
    return ClusterBuilder(
        msgspec.structs.replace(view, **{part: msgspec.structs.replace(getattr(view, part), **changes)})
    )


# --- coming, going, being well ----------------------------------------------------------------------------------------


def test_D25_create_is_ignored_while_the_fleet_is_listed_for_the_first_time() -> None:
    assert not change(None, HEALTHY, initial=True)


def test_D25_create_after_the_initial_sync_counts_as_became_eligible() -> None:
    assert change(None, HEALTHY) == ClusterDiff(cluster="c1", joined=True, became_eligible=True)


def test_D25_create_of_a_cluster_that_is_not_eligible_yet_is_ignored() -> None:
    assert not change(None, HEALTHY.without_agent())


def test_D25_delete_is_a_change() -> None:
    assert change(HEALTHY, None) == ClusterDiff(cluster="c1", deleted=True)


def test_D25_an_update_to_terminating_is_ignored_whatever_else_it_changes() -> None:
    assert not change(HEALTHY.tainted("maintenance"), HEALTHY.labelled(region="eu").leaving())


def test_D25_old_ineligible_and_new_eligible() -> None:
    assert change(SILENT, HEALTHY) == ClusterDiff(cluster="c1", became_eligible=True)


def test_D25_both_are_judged_now_and_not_when_they_were_new() -> None:
    """The old report was fine when it came, six minutes ago."""
    assert change(HEALTHY.heard(360), HEALTHY).became_eligible


@pytest.mark.parametrize(
    "old",
    [
        HEALTHY.without_agent(),
        HEALTHY.never_heard(),
        HEALTHY.joined("False"),
        HEALTHY.healthy("False", since_seconds=3600),
        HEALTHY.leaving(),
    ],
    ids=["no agent", "no heartbeat", "not joined", "unhealthy for long", "terminating"],
)
def test_D25_whatever_made_it_ineligible(old: ClusterBuilder) -> None:
    assert change(old, HEALTHY).events == ("UpdateHealth",)


def test_D25_becoming_ineligible_is_ignored() -> None:
    assert not change(HEALTHY, HEALTHY.joined("False"))


def test_D25_a_condition_that_is_refreshed_is_ignored() -> None:
    assert not change(HEALTHY, HEALTHY.healthy("True", since_seconds=30))


def test_Q13_a_heartbeat_is_no_change() -> None:
    assert change(HEALTHY.heard(40), HEALTHY.heard(10)) is NO_DIFF


def test_Q13_a_heartbeat_of_an_ineligible_cluster_is_no_change() -> None:
    assert change(HEALTHY.joined("False").heard(40), HEALTHY.joined("False").heard(10)) is NO_DIFF


# --- labels and taints ------------------------------------------------------------------------------------------------


def test_D25_labels_that_are_added_removed_or_changed() -> None:
    old = HEALTHY.labelled(region="eu", tier="gold", same="same")
    new = HEALTHY.labelled(region="us", zone="a", same="same")
    assert change(old, new) == ClusterDiff(cluster="c1", labels=frozenset(("region", "tier", "zone")))


def test_D25_labels_count_on_an_ineligible_cluster_too() -> None:
    assert change(SILENT, SILENT.labelled(region="eu")).labels == {"region"}


def test_D25_absent_and_empty_labels_are_equal() -> None:
    assert not change(HEALTHY, HEALTHY.labelled({}))


def test_D25_a_removed_taint() -> None:
    assert change(HEALTHY.tainted("gpu").tainted("old", "v"), HEALTHY.tainted("gpu")) == ClusterDiff(
        cluster="c1", taints=(Taint("old", "v", "NoSchedule"),)
    )


def test_D25_adding_a_taint_is_no_reason() -> None:
    assert not change(HEALTHY, HEALTHY.tainted("maintenance"))


@pytest.mark.parametrize(
    "new", [HEALTHY.tainted("gpu", "b"), HEALTHY.tainted("gpu", "a", "NoExecute")], ids=["value", "effect"]
)
def test_D25_a_taint_is_the_triple_of_key_value_and_effect(new: ClusterBuilder) -> None:
    assert change(HEALTHY.tainted("gpu", "a"), new).taints == (Taint("gpu", "a", "NoSchedule"),)


def test_D25_the_order_of_taints_does_not_matter() -> None:
    assert not change(HEALTHY.tainted("a").tainted("b"), HEALTHY.tainted("b").tainted("a"))


# --- properties and usage ---------------------------------------------------------------------------------------------


def test_D25_properties_that_are_added_removed_or_changed() -> None:
    old = HEALTHY.measured({"count": "3", "price": "1", "same": "5"})
    new = HEALTHY.measured({"count": "4", "skus": "2", "same": "5"})
    assert change(old, new) == ClusterDiff(cluster="c1", properties=frozenset(("count", "price", "skus")))


def test_D25_the_time_of_observation_is_ignored() -> None:
    old, new = HEALTHY.measured({"count": "3"}), HEALTHY.measured({"count": "3"})
    later = msgspec.structs.replace(new.build().status.properties["count"], observation_time="2026-03-10T08:59:59Z")  # type: ignore[index]
    assert not change(old, edited(new, "status", properties={"count": later}))


def test_D25_usage_is_told_by_the_names_of_properties() -> None:
    old = HEALTHY.having(
        capacity={"cpu": "8"}, allocatable={"cpu": "7"}, available={"nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"}
    )
    new = HEALTHY.having(
        capacity={"cpu": "16"}, allocatable={}, available={"nvidia.com/gpu": "0", "ephemeral-storage": "1Gi"}
    )
    assert change(old, new).usage == {
        "resources.kubernetes-fleet.io/total-cpu",
        "resources.kubernetes-fleet.io/allocatable-cpu",
        "resources.kubernetes-fleet.io/available-nvidia.com/gpu",
    }


@pytest.mark.parametrize(
    "old, new",
    [("1", "1000m"), ("1Gi", "1024Mi"), ("2.0", 2), (1, 1.0), ("9007199254740993", 9007199254740993), ("many", "many")],
    ids=str,
)
def test_D25_usage_is_compared_by_value(old: str | int, new: str | int) -> None:
    assert not change(HEALTHY.having(available={"cpu": old}), HEALTHY.having(available={"cpu": new}))


@pytest.mark.parametrize(
    "old, new",
    [("4Gi", "4G"), ("9007199254740992", "9007199254740993"), ("many", "more"), ("many", "1"), ("0", "many")],
    ids=str,
)
def test_D25_usage_of_another_value_is_a_change(old: str, new: str) -> None:
    found = change(HEALTHY.having(available={"cpu": old}), HEALTHY.having(available={"cpu": new}))
    assert found == ClusterDiff(cluster="c1", usage=frozenset(("resources.kubernetes-fleet.io/available-cpu",)))


def test_D25_usage_that_is_reported_for_the_first_time() -> None:
    assert change(HEALTHY, HEALTHY.having(capacity={"cpu": "8"})).usage == {"resources.kubernetes-fleet.io/total-cpu"}


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_D25_namespaces_that_appear_or_vanish() -> None:
    assert change(HEALTHY.with_namespaces("a", "b"), HEALTHY.with_namespaces("b", "c")) == ClusterDiff(
        cluster="c1", namespaces=frozenset(("a", "c"))
    )


def test_D25_absent_and_empty_namespaces_are_equal() -> None:
    absent = with_condition(HEALTHY, "True")
    assert not change(absent, edited(absent, "status", namespaces={}))


def test_D25_names_of_works_are_ignored() -> None:
    old = HEALTHY.with_namespaces("a")
    assert not change(old, edited(old, "status", namespaces={"a": "another work"}))


@pytest.mark.parametrize(
    "before, after", [("True", None), ("False", None), ("True", "False"), ("True", "Unknown")], ids=str
)
def test_D25_a_collection_that_disappeared_or_left_true(before: str, after: str | None) -> None:
    assert change(with_condition(HEALTHY, before), with_condition(HEALTHY, after)).namespaces_unconfirmed


@pytest.mark.parametrize("before, after", [(None, "True"), ("False", "True"), ("False", "Unknown")], ids=str)
def test_D25_a_collection_that_starts_or_recovers_helps_nobody(before: str | None, after: str) -> None:
    assert not change(with_condition(HEALTHY, before), with_condition(HEALTHY, after))


# --- in one -----------------------------------------------------------------------------------------------------------


def test_D25_one_update_may_match_several_rows() -> None:
    old = SILENT.tainted("maintenance").measured({"count": "3"})
    new = HEALTHY.labelled(region="eu").measured({"count": "4"}).with_namespaces("prod")
    found = change(old, new)
    assert found.events == ("UpdateHealth", "UpdateLabels", "UpdateTaints", "UpdateProperties", "UpdateNamespaces")
    assert str(found) == "MemberCluster/UpdateHealth+UpdateLabels+UpdateTaints+UpdateProperties+UpdateNamespaces c1"


@pytest.mark.parametrize(
    "old, new, told",
    [
        (HEALTHY, None, "MemberCluster/Delete c1"),
        (None, HEALTHY, "MemberCluster/Add c1"),
        (SILENT, HEALTHY, "MemberCluster/UpdateHealth c1"),
        (HEALTHY, HEALTHY.having(capacity={"cpu": "1"}), "MemberCluster/UpdateCapacity c1"),
    ],
    ids=["gone", "joined", "well again", "grown"],
)
def test_a_change_says_what_happened(old: ClusterBuilder | None, new: ClusterBuilder | None, told: str) -> None:
    assert str(change(old, new)) == told
