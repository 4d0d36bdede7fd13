"""Policy snapshots: when there is a new one, what it looks like, and that there is exactly one latest."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

import pytest

from fleet.errors import Conflict, StaleInputs
from fleet.kube.api import Method, Request
from fleet.placement.snapshots.hashing import policy_hash
from fleet.placement.snapshots.policy_snapshots import SeveralLatest
from tests.fake_hub import FakeHub, Json
from tests.faults.virtual import within
from tests.unit.placement.workbench import SNAPSHOT, WEB, Neighbours, Workbench, a_placement, pick_n

SNAPSHOTS = "clusterschedulingpolicysnapshots"
AFFINITY: Json = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}


def tolerating(*keys: str) -> Json:
    return {"placementType": "PickAll", "tolerations": [{"key": key, "operator": "Exists"} for key in keys]}


def labels(hub: FakeHub, name: str) -> Json:
    found: Json = hub.get(f"{SNAPSHOTS}/{name}")["metadata"]["labels"]
    return found


def latest_of(hub: FakeHub, name: str) -> str:
    found: str = labels(hub, name)["kubernetes-fleet.io/is-latest-snapshot"]
    return found


def latest(hub: FakeHub) -> list[str]:
    return [
        name for name in hub.names(SNAPSHOTS) if labels(hub, name)["kubernetes-fleet.io/is-latest-snapshot"] == "true"
    ]


def a_snapshot(hub: FakeHub, name: str, *, index: str | None, latest: str = "true", policy: Any = None) -> Json:
    """As another controller may have made it."""
    found = {"kubernetes-fleet.io/parent-CRP": "web", "kubernetes-fleet.io/is-latest-snapshot": latest}
    if index is not None:
        found["kubernetes-fleet.io/policy-index"] = index
    spec = {"policyHash": "", **({} if policy is None else {"policy": policy})}
    return hub.put(f"{SNAPSHOTS}/{name}", {"metadata": {"labels": found}, "spec": spec})


# --- the first --------------------------------------------------------------------------------------------------------


@within(Workbench)
async def test_the_first_snapshot_says_what_it_is_and_whose(bench: Workbench) -> None:
    placement = a_placement(bench.hub, policy=pick_n(3, affinity=AFFINITY))
    await bench.settle()
    snapshot = bench.hub.get(SNAPSHOT)
    assert snapshot["metadata"]["labels"] == {
        "kubernetes-fleet.io/parent-CRP": "web",
        "kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/policy-index": "0",
    }
    assert snapshot["metadata"]["annotations"] == {
        "kubernetes-fleet.io/CRP-generation": "1",
        "kubernetes-fleet.io/number-of-clusters": "3",
    }
    assert snapshot["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacement",
            "name": "web",
            "uid": placement["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert snapshot["spec"]["policy"] == pick_n(3, affinity=AFFINITY)
    assert base64.b64decode(snapshot["spec"]["policyHash"]).decode() == policy_hash(pick_n(3, affinity=AFFINITY))


@within(Workbench)
async def test_the_finalizer_comes_before_everything_else(bench: Workbench) -> None:
    a_placement(bench.hub)
    await bench.settle()
    assert bench.hub.writes()[:2] == ["PUT clusterresourceplacements/web", f"POST {SNAPSHOTS}"]
    assert bench.hub.get(WEB)["metadata"]["finalizers"] == ["kubernetes-fleet.io/crp-cleanup"]


@within(Workbench)
@pytest.mark.parametrize("policy", [None, tolerating("a")], ids=["no policy", "all"])
async def test_only_pick_n_has_a_number_of_clusters(bench: Workbench, policy: Json | None) -> None:
    a_placement(bench.hub, policy=policy)
    await bench.settle()
    snapshot = bench.hub.get(SNAPSHOT)
    assert snapshot["metadata"]["annotations"] == {"kubernetes-fleet.io/CRP-generation": "1"}
    assert snapshot["spec"].get("policy") == policy


# --- the same policy --------------------------------------------------------------------------------------------------


@within(Workbench)
async def test_another_number_of_clusters_changes_two_annotations_in_one_write(bench: Workbench) -> None:
    a_placement(bench.hub, policy=pick_n(2))
    await bench.settle()
    Neighbours(bench.hub).schedule("c1", "c2")
    await bench.settle()
    before = bench.hub.get(SNAPSHOT)
    bench.hub.edit(WEB, spec={"policy": {"numberOfClusters": 3}})
    bench.hub.forget_requests()
    await bench.settle()
    after = bench.hub.get(SNAPSHOT)
    assert after["metadata"]["annotations"] == {
        "kubernetes-fleet.io/CRP-generation": "2",
        "kubernetes-fleet.io/number-of-clusters": "3",
    }
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert bench.hub.writes() == [f"PUT {SNAPSHOTS}/web-0", "PUT clusterresourceplacements/web/status"]


@within(Workbench)
@pytest.mark.parametrize(
    "written",
    [
        {"placementType": "PickAll", "tolerations": [{"key": "a", "operator": "Exists"}]},
        {"tolerations": [{"operator": "Exists", "key": "a"}]},
    ],
    ids=["complete", "without defaults"],
)
async def test_a_policy_of_equal_content_is_unchanged_whatever_the_hash(bench: Workbench, written: Json) -> None:
    a_snapshot(bench.hub, "web-0", index="0", policy=written)
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.settle()
    assert bench.hub.names(SNAPSHOTS) == ["web-0"]


@within(Workbench)
async def test_the_scheduler_writing_at_the_same_time_loses_nothing(bench: Workbench) -> None:
    a_placement(bench.hub, policy=pick_n(1))
    await bench.settle()
    bench.hub.edit(WEB, spec={"policy": {"numberOfClusters": 2}})
    await bench.catch_up()
    bench.hub.before_write = [lambda: Neighbours(bench.hub).schedule("c1")]
    await bench.reconciler.reconcile("web")
    snapshot = bench.hub.get(SNAPSHOT)
    assert snapshot["status"]["targetClusters"][0]["clusterName"] == "c1"
    assert snapshot["metadata"]["annotations"]["kubernetes-fleet.io/number-of-clusters"] == "2"


# --- another policy ---------------------------------------------------------------------------------------------------


@within(Workbench)
async def test_another_policy_is_a_new_latest_snapshot(bench: Workbench) -> None:
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.settle()
    bench.hub.edit(WEB, spec={"policy": tolerating("a", "b")})
    bench.hub.forget_requests()
    await bench.settle()
    assert bench.hub.names(SNAPSHOTS) == ["web-0", "web-1"]
    assert latest(bench.hub) == ["web-1"]
    assert bench.hub.writes()[:2] == [f"PUT {SNAPSHOTS}/web-0", f"POST {SNAPSHOTS}"]


@within(Workbench)
async def test_going_back_to_an_older_policy_is_a_new_snapshot_too(bench: Workbench) -> None:
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.settle()
    for policy in (tolerating("b"), tolerating("a")):
        bench.hub.edit(WEB, spec={"policy": policy})
        await bench.settle()
    assert latest(bench.hub) == ["web-2"]


@within(Workbench)
@pytest.mark.parametrize(
    "limit, left", [(1, ["web-4"]), (2, ["web-3", "web-4"]), (9, [f"web-{index}" for index in range(5)])]
)
async def test_as_many_snapshots_are_kept_as_the_history_allows(bench: Workbench, limit: int, left: list[str]) -> None:
    a_placement(bench.hub, policy=tolerating("0"), revisionHistoryLimit=limit)
    await bench.settle()
    for key in "1234":
        bench.hub.edit(WEB, spec={"policy": tolerating(key)})
        await bench.settle()
    assert bench.hub.names(SNAPSHOTS) == left
    assert latest(bench.hub) == ["web-4"]


@within(Workbench)
async def test_what_took_the_name_of_an_old_snapshot_is_spared_and_looked_at_in_the_next_pass(bench: Workbench) -> None:
    a_snapshot(bench.hub, "web-0", index="0", latest="false", policy=tolerating("a"))
    a_snapshot(bench.hub, "web-1", index="1", policy=tolerating("b"))
    a_placement(bench.hub, policy=tolerating("b"), revisionHistoryLimit=1)
    await bench.catch_up()

    def succeed(request: Request) -> None:
        if request.method is Method.DELETE:
            bench.hub.succeed(f"{SNAPSHOTS}/web-0", {"metadata": {}})

    bench.hub.fault = succeed
    with pytest.raises(Conflict):
        await bench.reconciler.reconcile("web")

    assert bench.hub.names(SNAPSHOTS) == ["web-0", "web-1"]


# --- half-done, foreign and wrong -------------------------------------------------------------------------------------


@within(Workbench)
async def test_without_a_latest_snapshot_the_greatest_index_stands_for_it(bench: Workbench) -> None:
    a_snapshot(bench.hub, "web-9", index="9", latest="false", policy=tolerating("x"))
    a_snapshot(bench.hub, "web-10", index="10", latest="false", policy=tolerating("a"))
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.settle()
    assert latest(bench.hub) == ["web-10"]
    assert len(bench.hub.names(SNAPSHOTS)) == 2


@within(Workbench)
async def test_a_half_done_change_of_policy_is_completed(bench: Workbench) -> None:
    a_snapshot(bench.hub, "web-0", index="0", latest="false", policy=tolerating("a"))
    a_placement(bench.hub, policy=tolerating("b"))
    await bench.settle()
    assert bench.hub.names(SNAPSHOTS) == ["web-0", "web-1"]
    assert latest(bench.hub) == ["web-1"]


@within(Workbench)
async def test_a_half_done_change_that_was_taken_back_leaves_the_old_snapshot_the_latest(bench: Workbench) -> None:
    a_snapshot(bench.hub, "web-0", index="0", latest="false", policy=tolerating("a"))
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.settle()
    assert latest(bench.hub) == bench.hub.names(SNAPSHOTS) == ["web-0"]


@within(Workbench)
async def test_that_there_is_no_latest_snapshot_is_never_believed_of_the_cache(bench: Workbench) -> None:
    old = a_snapshot(bench.hub, "web-0", index="0", latest="false", policy=tolerating("a"))
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.catch_up()
    a_snapshot(bench.hub, "web-1", index="1", policy=tolerating("b"))
    await bench.reconciler.reconcile("web")
    assert bench.hub.get(f"{SNAPSHOTS}/web-0") == old
    assert latest(bench.hub) == ["web-2"]


@within(Workbench)
async def test_snapshots_of_another_controller_are_taken_over_under_their_names(bench: Workbench) -> None:
    a_snapshot(bench.hub, "web-x7k2p", index="4", policy=tolerating("a"))
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.settle()
    assert bench.hub.names(SNAPSHOTS) == ["web-x7k2p"]
    bench.hub.edit(WEB, spec={"policy": tolerating("b")})
    await bench.settle()
    assert bench.hub.names(SNAPSHOTS) == ["web-5", "web-x7k2p"]
    assert labels(bench.hub, "web-5")["kubernetes-fleet.io/policy-index"] == "5"


@within(Workbench)
@pytest.mark.parametrize("index", [None, "", "two", "-1", "٣"])
async def test_an_index_that_cannot_be_read_counts_as_the_oldest(bench: Workbench, index: str | None) -> None:
    a_snapshot(bench.hub, "web-old", index=index, latest="false", policy=tolerating("a"))
    a_snapshot(bench.hub, "web-0", index="0", policy=tolerating("b"))
    a_placement(bench.hub, policy=tolerating("c"), revisionHistoryLimit=2)
    await bench.settle()
    assert bench.hub.names(SNAPSHOTS) == ["web-0", "web-1"]


@within(Workbench)
async def test_a_name_that_somebody_else_has_is_passed_over(bench: Workbench) -> None:
    foreign = bench.hub.put(f"{SNAPSHOTS}/web-0", {"metadata": {"labels": {"app": "other"}}, "spec": {}})
    a_placement(bench.hub)
    await bench.settle()
    assert latest_of(bench.hub, "web-1") == "true"
    assert bench.hub.get(f"{SNAPSHOTS}/web-0") == foreign


@within(Workbench)
async def test_leftovers_of_a_deleted_placement_of_the_same_name_are_left_to_the_garbage_collector(
    bench: Workbench,
) -> None:
    snapshot = a_snapshot(bench.hub, "web-0", index="0", latest="false", policy=tolerating("a"))
    owner = {"kind": "ClusterResourcePlacement", "name": "web", "uid": "of-the-former"}
    left = bench.hub.edit(f"{SNAPSHOTS}/web-0", metadata={**snapshot["metadata"], "ownerReferences": [owner]})
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.settle()
    assert bench.hub.get(f"{SNAPSHOTS}/web-0") == left
    assert latest(bench.hub) == ["web-1"]


@within(Workbench)
@pytest.mark.parametrize("policy", ["a", "b"])
@pytest.mark.parametrize("limit", [1, 10])
async def test_leftovers_that_are_marked_latest_stay_as_they_are(bench: Workbench, policy: str, limit: int) -> None:
    left = []
    for index in "01":
        snapshot = a_snapshot(bench.hub, f"web-{index}", index=index, latest="true", policy=tolerating("a"))
        owner = {"kind": "ClusterResourcePlacement", "name": "web", "uid": "of-the-former"}
        metadata = {**snapshot["metadata"], "ownerReferences": [owner]}
        left.append(bench.hub.edit(f"{SNAPSHOTS}/web-{index}", metadata=metadata))
    a_placement(bench.hub, policy=tolerating(policy), revisionHistoryLimit=limit)
    await bench.settle()
    assert [bench.hub.get(f"{SNAPSHOTS}/web-{index}") for index in "01"] == left
    assert latest(bench.hub) == ["web-0", "web-1", "web-2"]


@within(Workbench)
async def test_two_latest_snapshots_are_reported_and_nothing_is_touched(bench: Workbench) -> None:
    for index in "01":
        a_snapshot(bench.hub, f"web-{index}", index=index)
    a_placement(bench.hub)
    with pytest.raises(SeveralLatest, match="web-0, web-1"):
        await bench.pass_over()
    assert bench.hub.writes() == ["PUT clusterresourceplacements/web"]


@within(Workbench)
async def test_a_snapshot_that_the_cache_does_not_know_yet_is_found_under_its_name(bench: Workbench) -> None:
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.catch_up()
    ours = partial(a_snapshot, bench.hub, "web-0", index="0", policy=tolerating("a"))
    bench.hub.before_write = [lambda: None, ours]
    await bench.reconciler.reconcile("web")
    assert bench.hub.names(SNAPSHOTS) == latest(bench.hub) == ["web-0"]


@within(Workbench)
async def test_a_snapshot_of_another_policy_under_our_next_name_means_that_the_cache_is_behind(
    bench: Workbench,
) -> None:
    a_placement(bench.hub, policy=tolerating("a"))
    await bench.catch_up()
    newer = partial(a_snapshot, bench.hub, "web-0", index="0", policy=tolerating("b"))
    bench.hub.before_write = [lambda: None, newer]
    with pytest.raises(StaleInputs, match="web-0 exists already with another policy"):
        await bench.reconciler.reconcile("web")
    await bench.settle()
    assert latest(bench.hub) == ["web-1"]


@within(Workbench)
async def test_a_snapshot_that_is_being_deleted_is_no_snapshot_any_more(bench: Workbench) -> None:
    a_placement(bench.hub)
    await bench.settle()
    bench.hub.edit(SNAPSHOT, metadata={"finalizers": ["a/b"], "deletionTimestamp": "2026-01-01T00:00:00Z"})
    await bench.settle()
    assert latest_of(bench.hub, "web-1") == "true"
