"""D25: what counts as a change of a member cluster."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.model.keys import NAMESPACE_COLLECTION_SUCCEEDED
from fleet.model.timestamps import MINUTE
from fleet.model.views import Condition, MemberCluster
from fleet.scheduler.events.cluster_diff import NO_DIFF, ClusterDiff, diff_clusters
from fleet.snapshot.columns.signals import Eligibility
from tests.builders import NOW, ClusterBuilder, a_cluster

RULE = Eligibility(heartbeat_timeout=5 * MINUTE, unhealthy_timeout=5 * MINUTE)
HEALTHY = a_cluster("c1")
SILENT = HEALTHY.heard(3600)


def became_eligible(old: MemberCluster | None, new: MemberCluster) -> bool:
    return RULE.of(new, NOW) and (old is None or not RULE.of(old, NOW))


def change(old: ClusterBuilder | None, new: ClusterBuilder | None, *, initial: bool = False) -> ClusterDiff:
    before, after = (None if one is None else one.build() for one in (old, new))
    return diff_clusters(before, after, became_eligible=became_eligible, initial=initial)


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


def test_D25_an_update_to_terminating_is_ignored_whatever_else_it_changes() -> None:
    assert not change(HEALTHY.tainted("maintenance"), HEALTHY.labelled(region="eu").leaving())


def test_D25_both_are_judged_now_and_not_when_they_were_new() -> None:
    """The old report was fine when it came, six minutes ago."""
    assert change(HEALTHY.heard(360), HEALTHY).became_eligible


def test_Q13_a_heartbeat_is_no_change() -> None:
    assert change(HEALTHY.heard(40), HEALTHY.heard(10)) is NO_DIFF


def test_Q13_a_heartbeat_of_an_ineligible_cluster_is_no_change() -> None:
    assert change(HEALTHY.joined("False").heard(40), HEALTHY.joined("False").heard(10)) is NO_DIFF


# --- properties and usage ---------------------------------------------------------------------------------------------


def test_D25_the_time_of_observation_is_ignored() -> None:
    old, new = HEALTHY.measured({"count": "3"}), HEALTHY.measured({"count": "3"})
    later = msgspec.structs.replace(new.build().status.properties["count"], observation_time="2026-03-10T08:59:59Z")  # type: ignore[index]
    assert not change(old, edited(new, "status", properties={"count": later}))


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


# --- namespaces -------------------------------------------------------------------------------------------------------


def test_D25_names_of_works_are_ignored() -> None:
    old = HEALTHY.with_namespaces("a")
    assert not change(old, edited(old, "status", namespaces={"a": "another work"}))


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
