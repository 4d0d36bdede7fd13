"""The status of a placement, made by whole passes: every condition and reason, the per-cluster list, and what stays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from fleet.errors import StaleInputs
from fleet.kube.api import Method
from fleet.kube.objects import RetryPolicy, update_with_retries
from fleet.model.placement_key import PlacementKey
from fleet.placement.status.placement_status import is_same_but_for_times
from tests.fake_hub import Json, Slow, in_turn
from tests.faults.virtual import no_jitter, virtual, within
from tests.unit.placement.workbench import (
    ROLLED_OUT,
    RUNNING,
    SNAPSHOT,
    WEB,
    Neighbours,
    Workbench,
    a_placement,
    pick_n,
)

REPORTED: Final = {**ROLLED_OUT, "DiffReported": ("True", "AllWorkHaveDiffReported")}
REPORT_DIFF: Final = {"type": "RollingUpdate", "applyStrategy": {"type": "ReportDiff"}}


@asynccontextmanager
async def scheduled(*clusters: str, **spec: Any) -> AsyncIterator[tuple[Workbench, Neighbours]]:
    """A placement for which the scheduler has just picked these clusters."""
    async with Workbench() as bench:
        a_placement(bench.hub, **{"policy": pick_n(len(clusters)), **spec})
        await bench.settle()
        others = Neighbours(bench.hub)
        others.schedule(*clusters)
        yield bench, others


def conditions(**changes: tuple[str, str] | None) -> Mapping[str, tuple[str, str]]:
    """Everything is fine but for the changes."""
    found = {**RUNNING, **changes}
    return {name: said for name, said in found.items() if said is not None}


# --- scheduled --------------------------------------------------------------------------------------------------------


@within(Workbench)
async def test_until_the_scheduler_has_spoken_nothing_is_known(bench: Workbench) -> None:
    a_placement(bench.hub, policy=pick_n(2))
    await bench.settle()
    text = "generation 1 has not been scheduled yet"
    assert bench.condition("Scheduled") == ("Unknown", "SchedulePending", text)
    assert bench.conditions() == {"Scheduled": "Unknown"}
    assert "placementStatuses" not in bench.status()


@virtual
@pytest.mark.parametrize(
    "status, reason", [("True", "SchedulingPolicyFulfilled"), ("False", "SchedulingPolicyUnfulfilled")]
)
async def test_the_scheduler_s_words_are_passed_on(status: str, reason: str) -> None:
    async with scheduled("c1", "c2") as (bench, others):
        others.schedule("c1", "c2", fulfilled=status == "True")
        await bench.settle()
        assert bench.condition("Scheduled") == (status, reason, "found 2 cluster(s)")


@virtual
@pytest.mark.parametrize(
    "stale",
    [
        {"observedCRPGeneration": 0},
        {"conditions": [{"observedGeneration": 0}]},
        {"conditions": [{"status": "Unknown"}]},
        {"conditions": []},
    ],
    ids=["older placement", "older snapshot", "unknown", "no condition"],
)
async def test_what_the_scheduler_said_about_something_else_does_not_count(stale: Json) -> None:
    async with scheduled("c1") as (bench, _):
        snapshot = bench.hub.get(SNAPSHOT)
        status = snapshot["status"]
        changed = [{**status["conditions"][0], **one} for one in stale.get("conditions", [{}])]
        bench.hub.put(SNAPSHOT, {**snapshot, "status": {**status, **stale, "conditions": changed}})
        await bench.settle()
        assert bench.condition("Scheduled")[:2] == ("Unknown", "SchedulePending")


@virtual
async def test_while_a_change_is_being_scheduled_the_last_known_state_stays() -> None:
    async with scheduled("c1", "c2") as (bench, others):
        for cluster in ("c1", "c2"):
            others.report(cluster, RUNNING)
        await bench.settle()
        before = bench.status()
        bench.hub.edit(WEB, spec={"policy": {"numberOfClusters": 3}})
        await bench.settle()
        after = bench.status()
        assert after["placementStatuses"] == before["placementStatuses"]
        assert after["conditions"][1:] == before["conditions"][1:]
        assert [one["observedGeneration"] for one in after["conditions"]] == [2, 1, 1, 1, 1, 1]


@virtual
async def test_a_wrong_selection_is_said_and_touches_nothing_else() -> None:
    async with scheduled("c1") as (bench, others):
        others.report("c1", RUNNING)
        await bench.settle()
        before = bench.status()
        bench.hub.edit(WEB, spec={"policy": {"numberOfClusters": 9}})
        bench.content.reject("PL-05: kind apps/v1 Web does not exist on the hub")
        bench.hub.forget_requests()
        await bench.settle()
        want = ("False", "InvalidResourceSelectors", "PL-05: kind apps/v1 Web does not exist on the hub")
        assert bench.condition("Scheduled") == want
        assert bench.hub.writes() == ["PUT clusterresourceplacements/web/status"]
        assert {**bench.status(), "conditions": bench.status()["conditions"][1:]} == {
            **before,
            "conditions": before["conditions"][1:],
        }


@within(Workbench)
async def test_PL_01_a_name_that_is_no_label_value_is_a_wrong_selection(bench: Workbench) -> None:
    name = "w" * 64
    a_placement(bench.hub, f"clusterresourceplacements/{name}")
    await bench.settle(name)
    status, reason, message = bench.condition("Scheduled", f"clusterresourceplacements/{name}")
    assert (status, reason) == ("False", "InvalidResourceSelectors")
    assert message.startswith("PL-01: name has 64 characters")
    assert bench.hub.names("clusterschedulingpolicysnapshots") == []


# --- the chain --------------------------------------------------------------------------------------------------------

CHAIN: Final = [
    ("RolloutStarted", None, "Unknown", "RolloutStartedUnknown", "rollout not decided yet on c2"),
    ("RolloutStarted", "RolloutNotStarted", "False", "RolloutNotStartedYet", "rollout strategy is holding back c2"),
    ("Overridden", None, "Unknown", "OverriddenPending", "overrides not evaluated yet on c2"),
    (
        "Overridden",
        "OverriddenFailed",
        "False",
        "OverriddenFailed",
        "overrides cannot be applied on c2: c2: OverriddenFailed",
    ),
    ("WorkSynchronized", None, "Unknown", "WorkSynchronizedUnknown", "waiting for work on c2"),
    (
        "WorkSynchronized",
        "SyncWorkFailed",
        "False",
        "WorkNotSynchronizedYet",
        "work could not be written for c2: c2: SyncWorkFailed",
    ),
    ("Applied", None, "Unknown", "ApplyPending", "waiting for an apply result from c2"),
    (
        "Applied",
        "NotAllWorkHaveBeenApplied",
        "False",
        "ApplyFailed",
        "objects failed to apply on c2; see failedPlacements",
    ),
    ("Available", None, "Unknown", "ResourceAvailableUnknown", "waiting for availability from c2"),
    (
        "Available",
        "NotAllWorkAreAvailable",
        "False",
        "ResourceNotAvailableYet",
        "objects are not available on c2; see failedPlacements",
    ),
]
ORDER: Final = ["Scheduled", *RUNNING]


@virtual
@pytest.mark.parametrize("name, said, status, reason, message", CHAIN, ids=[f"{one[0]}-{one[2]}" for one in CHAIN])
async def test_the_first_stage_that_a_cluster_has_not_reached_is_the_last_condition(
    name: str, said: str | None, status: str, reason: str, message: str
) -> None:
    async with scheduled("c1", "c2") as (bench, others):
        others.report("c1", RUNNING)
        others.report("c2", conditions(**{name: None if said is None else ("False", said)}))
        await bench.settle()
        assert bench.condition(name) == (status, reason, message)
        assert list(bench.conditions()) == ORDER[: ORDER.index(name) + 1]
        of_cluster = reason if said is None else said
        assert bench.of_cluster("c2", name)[:2] == (status, of_cluster)
        assert [one["type"] for one in bench.entry("c2")["conditions"]] == ORDER[: ORDER.index(name) + 1]
        assert [one["type"] for one in bench.entry("c1")["conditions"]] == ORDER


@virtual
async def test_when_all_clusters_are_done_every_condition_is_true() -> None:
    async with scheduled("c1", "c2") as (bench, others):
        for cluster in ("c1", "c2"):
            bench.hub.edit(others.binding(cluster), spec={"clusterResourceOverrideSnapshots": ["cro-1"]})
            others.report(cluster, conditions(Overridden=("True", "OverriddenSucceeded")))
        await bench.settle()
        assert bench.condition("RolloutStarted") == ("True", "RolloutStarted", "rollout started on all 2 cluster(s)")
        assert bench.condition("Overridden") == (
            "True",
            "OverriddenSucceeded",
            "overrides applied on all 2 cluster(s)",
        )
        assert bench.condition("WorkSynchronized") == (
            "True",
            "WorkSynchronized",
            "work is up to date for all 2 cluster(s)",
        )
        assert bench.condition("Applied") == ("True", "ApplySucceeded", "objects applied on all 2 cluster(s)")
        assert bench.condition("Available") == ("True", "ResourceAvailable", "objects available on all 2 cluster(s)")
        assert bench.of_cluster("c1", "Available") == ("True", "AllWorkAreAvailable", "c1: AllWorkAreAvailable")


@virtual
@pytest.mark.parametrize(
    "names, want",
    [
        ({}, ("True", "NoOverrideSpecified", "no override matches")),
        (
            {"clusterResourceOverrideSnapshots": ["cro-1"]},
            ("True", "OverriddenSucceeded", "overrides applied on all 2 cluster(s)"),
        ),
        (
            {"resourceOverrideSnapshots": [{"name": "ro-0", "namespace": "shop"}]},
            ("True", "OverriddenSucceeded", "overrides applied on all 2 cluster(s)"),
        ),
    ],
    ids=["none", "cluster-scoped", "namespaced"],
)
@pytest.mark.parametrize("reported", ["NoOverrideSpecified", "OverriddenSucceeded"])
async def test_no_override_is_reported_if_no_binding_names_one(
    names: Json, want: tuple[str, str, str], reported: str
) -> None:
    async with scheduled("c1", "c2") as (bench, others):
        bench.hub.edit(others.binding("c2"), spec=names)
        for cluster in ("c1", "c2"):
            others.report(cluster, conditions(Overridden=("True", reported)))
        await bench.settle()
        assert bench.condition("Overridden") == want
        assert bench.of_cluster("c2", "Overridden")[1] == reported


@virtual
async def test_not_knowing_outranks_failing_outranks_success() -> None:
    async with scheduled("c1", "c2", "c3") as (bench, others):
        others.report("c1", RUNNING)
        others.report("c2", conditions(Applied=("False", "ApplyInProgress")))
        others.report("c3", conditions(Applied=None))
        await bench.settle()
        assert bench.condition("Applied")[:2] == ("Unknown", "ApplyPending")
        others.report("c3", RUNNING)
        await bench.settle()
        assert bench.condition("Applied")[:2] == ("False", "ApplyFailed")


@virtual
@pytest.mark.parametrize(
    "said, want",
    [
        (None, ("Unknown", "DiffReportingPending", "waiting for a diff report from c1")),
        (
            ("False", "NotAllWorkHaveDiffReported"),
            ("False", "DiffReportingIncompleteOrFailed", "diff report incomplete on c1"),
        ),
        (
            ("True", "AllWorkHaveDiffReported"),
            ("True", "DiffReportingCompleted", "diff reported by all 1 cluster(s)"),
        ),
    ],
    ids=["pending", "incomplete", "complete"],
)
async def test_reporting_diffs_ends_with_the_report(said: tuple[str, str] | None, want: tuple[str, str, str]) -> None:
    async with scheduled("c1", strategy=REPORT_DIFF) as (bench, others):
        others.report("c1", {**ROLLED_OUT, **({} if said is None else {"DiffReported": said})})
        await bench.settle()
        assert bench.condition("DiffReported") == want
        assert list(bench.conditions()) == ["Scheduled", *ROLLED_OUT, "DiffReported"]


@virtual
async def test_a_condition_about_an_older_binding_is_not_known_any_more() -> None:
    async with scheduled("c1") as (bench, others):
        others.report("c1", RUNNING)
        bench.hub.edit(others.binding("c1"), spec={"applyStrategy": {"type": "ServerSideApply"}})
        await bench.settle()
        assert bench.condition("RolloutStarted")[:2] == ("Unknown", "RolloutStartedUnknown")


@virtual
async def test_a_rollout_of_older_content_is_no_rollout_of_this_one() -> None:
    async with scheduled("c1") as (bench, others):
        others.report("c1", RUNNING, snapshot="web-older-snapshot")
        await bench.settle()
        assert bench.conditions() == {"Scheduled": "True", "RolloutStarted": "Unknown"}
        others.report("c1", {"RolloutStarted": ("False", "RolloutNotStarted")}, snapshot="web-older-snapshot")
        await bench.settle()
        assert bench.condition("RolloutStarted")[1] == "RolloutNotStartedYet"


@virtual
@pytest.mark.parametrize("change", ["terminating", "obsolete"])
async def test_only_a_living_binding_of_the_latest_policy_counts(change: str) -> None:
    async with scheduled("c1") as (bench, others):
        others.report("c1", RUNNING)
        if change == "terminating":
            metadata = {"finalizers": ["a/b"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
            bench.hub.edit(others.binding("c1"), metadata=metadata)
        else:
            bench.hub.edit(others.binding("c1"), spec={"schedulingPolicySnapshotName": "web-7"})
            others.report("c1", RUNNING)
        await bench.settle()
        assert bench.of_cluster("c1", "RolloutStarted")[:2] == ("Unknown", "RolloutStartedUnknown")


# --- the per-cluster list ---------------------------------------------------------------------------------------------


@virtual
async def test_clusters_come_in_the_scheduler_s_order_then_the_empty_places() -> None:
    async with scheduled("c9", "c1", policy=pick_n(4)) as (bench, others):
        others.schedule("c9", "c1", refused=["c5", "c3", "c4"], fulfilled=False)
        await bench.settle()
        entries = bench.status()["placementStatuses"]
        assert [one.get("clusterName") for one in entries] == ["c9", "c1", None, None]
        refusals = [one["conditions"][0] for one in entries[2:]]
        assert [(one["status"], one["reason"], one["message"]) for one in refusals] == [
            ("False", "ScheduleFailed", "c5 is full"),
            ("False", "ScheduleFailed", "c3 is full"),
        ]
        assert bench.of_cluster("c9", "Scheduled") == ("True", "Scheduled", "picked c9")


@virtual
@pytest.mark.parametrize(
    "policy, places",
    [
        (pick_n(2), 1),
        (pick_n(1), 0),
        (pick_n(9), 3),
        ({"placementType": "PickFixed", "clusterNames": ["c1", "c2", "c3"]}, 2),
        ({"placementType": "PickAll"}, 0),
        (None, 0),
    ],
    ids=["one short", "enough", "no more than refusals", "fixed", "all", "no policy"],
)
async def test_as_many_places_are_empty_as_were_asked_for_and_refused(policy: Json | None, places: int) -> None:
    async with scheduled("c1", policy=policy) as (bench, others):
        others.schedule("c1", refused=["c2", "c3", "c4"])
        await bench.settle()
        empty = [one for one in bench.status()["placementStatuses"] if "clusterName" not in one]
        assert len(empty) == places


@virtual
async def test_without_a_picked_cluster_only_scheduled_is_said() -> None:
    async with scheduled("c1") as (bench, others):
        others.report("c1", RUNNING)
        await bench.settle()
        others.schedule(refused=["c1"], fulfilled=False)
        await bench.settle()
        assert bench.conditions() == {"Scheduled": "False"}


@virtual
async def test_times_move_only_with_the_status() -> None:
    async with scheduled("c1") as (bench, others):
        others.report("c1", conditions(Applied=None))
        await bench.settle()
        first = {one["type"]: one["lastTransitionTime"] for one in bench.entry("c1")["conditions"]}
        others.report("c1", RUNNING)
        await bench.settle()
        later = {one["type"]: one["lastTransitionTime"] for one in bench.entry("c1")["conditions"]}
        assert {name for name, time in first.items() if later[name] != time} == {"Applied"}


@virtual
async def test_an_entry_says_which_content_and_which_overrides_the_cluster_has() -> None:
    async with scheduled("c1") as (bench, others):
        overrides = {
            "clusterResourceOverrideSnapshots": ["cro-1"],
            "resourceOverrideSnapshots": [{"name": "ro-0", "namespace": "shop"}],
        }
        bench.hub.edit(others.binding("c1"), spec=overrides)
        others.report("c1", RUNNING)
        await bench.settle()
        entry = bench.entry("c1")
        assert entry["observedResourceIndex"] == "0"
        assert entry["applicableClusterResourceOverrides"] == ["cro-1"]
        assert entry["applicableResourceOverrides"] == [{"name": "ro-0", "namespace": "shop"}]


def placed(number: int) -> Json:
    return {"version": "v1", "kind": "ConfigMap", "name": f"m{number:03}", "namespace": "shop"}


LISTS: Final[dict[str, Any]] = {
    "failedPlacements": [placed(1)],
    "driftedPlacements": [placed(2)],
    "diffedPlacements": [placed(3)],
}


@virtual
@pytest.mark.parametrize(
    "said, strategy, want",
    [
        (RUNNING, None, {"driftedPlacements"}),
        (conditions(Applied=("False", "NotAllWorkHaveBeenApplied")), None, set(LISTS)),
        (conditions(Available=("False", "NotAllWorkAreAvailable")), None, set(LISTS)),
        ({}, None, {"driftedPlacements"}),
        (REPORTED, REPORT_DIFF, {"driftedPlacements", "diffedPlacements"}),
    ],
    ids=["fine", "not applied", "not available", "nothing known", "diffs reported"],
)
async def test_failures_and_diffs_are_listed_where_they_explain_a_condition_and_drifts_always(
    said: Mapping[str, tuple[str, str]], strategy: Json | None, want: set[str]
) -> None:
    async with scheduled("c1", strategy=strategy) as (bench, others):
        others.report("c1", said, **LISTS)
        await bench.settle()
        assert set(bench.entry("c1")) & set(LISTS) == want


@virtual
async def test_lists_are_sorted_before_they_are_cut_at_a_hundred() -> None:
    async with scheduled("c1") as (bench, others):
        others.report("c1", RUNNING, driftedPlacements=[placed(number) for number in reversed(range(130))])
        await bench.settle()
        assert bench.entry("c1")["driftedPlacements"] == [placed(number) for number in range(100)]


# --- complete without a cluster ---------------------------------------------------------------------------------------


@virtual
@pytest.mark.parametrize(
    "policy", [pick_n(0), {"placementType": "PickFixed", "clusterNames": []}], ids=["none of n", "no name"]
)
async def test_asking_for_no_cluster_is_complete_without_one(policy: Json) -> None:
    async with scheduled(policy=policy) as (bench, _):
        await bench.settle()
        assert bench.conditions() == {"Scheduled": "True"}
        assert bench.told.series["", "web"] == ("Completed", "True", "Completed")
        assert bench.told.reasons() == ["PlacementRolloutCompleted"]


# --- writing ----------------------------------------------------------------------------------------------------------


@virtual
async def test_a_pass_that_has_nothing_new_to_say_writes_nothing() -> None:
    async with scheduled("c1") as (bench, others):
        others.report("c1", RUNNING)
        await bench.settle()
        bench.hub.forget_requests()
        for _ in range(3):
            await bench.pass_over()
        assert bench.hub.requests == []


@virtual
async def test_a_status_that_differs_only_in_times_is_not_written() -> None:
    async with scheduled("c1") as (bench, others):
        seen = {**placed(1), "observationTime": "2026-01-01T00:00:00Z"}
        others.report("c1", RUNNING, driftedPlacements=[seen])
        await bench.settle()
        bench.hub.forget_requests()
        others.report("c1", RUNNING, driftedPlacements=[{**seen, "observationTime": "2026-01-02T00:00:00Z"}])
        await bench.settle()
        assert bench.hub.writes() == []


def test_statuses_are_equal_when_only_times_differ_at_any_depth() -> None:
    status = {"a": [{"b": {"observationTime": "1", "c": 1}}], "d": 2}
    later = {"a": [{"b": {"observationTime": "2", "c": 1, "lastTransitionTime": "3"}}], "d": 2}
    assert is_same_but_for_times(status, later)
    for other in (
        {"a": [{"b": {"observationTime": "1", "c": 2}}], "d": 2},
        {"a": [{"b": {"observationTime": "1"}}], "d": 2},
        {"a": [{"b": {"observationTime": "1", "c": 1}}, {}], "d": 2},
        {"a": [{"b": {"observationTime": "2", "c": 1}}], "d": 3},
        {"a": {"b": {"observationTime": "2", "c": 1}}, "d": 2},
        {"a": [{"b": {"observationTime": "2", "c": 1}}], "d": 2, "e": None},
    ):
        assert not is_same_but_for_times(status, other)
        assert not is_same_but_for_times(other, status)


@virtual
async def test_after_a_conflict_the_status_is_composed_for_the_placement_as_it_is() -> None:
    async with scheduled("c1") as (bench, _):
        await bench.catch_up()
        bench.hub.before_write = [
            lambda: bench.hub.edit(WEB, metadata={"finalizers": ["kubernetes-fleet.io/crp-cleanup", "a/b"]})
        ]
        await bench.reconciler.reconcile("web")
        assert bench.hub.get(WEB)["metadata"]["finalizers"] == ["kubernetes-fleet.io/crp-cleanup", "a/b"]
        assert bench.condition("Scheduled")[0] == "True"


@virtual
async def test_a_finalizer_added_meanwhile_is_no_conflict_where_the_cache_has_it() -> None:
    async with Workbench() as bench:
        a_placement(bench.hub, policy=pick_n(1))
        await bench.catch_up()
        theirs = {"type": "acme.io/Audited", "status": "True", "reason": "Ok", "message": ""}

        async def add_finalizer() -> None:
            finalizers = ["kubernetes-fleet.io/crp-cleanup", "a/b"]
            bench.hub.edit(WEB, metadata={"finalizers": finalizers}, status={"conditions": [theirs]})
            await bench.catch_up()

        bench.content.meanwhile = add_finalizer
        bench.hub.forget_requests()
        await bench.reconciler.reconcile("web")
        assert [request for request in bench.hub.requests if request.method is Method.GET] == []
        assert bench.condition("Scheduled")[1] == "SchedulePending"
        assert theirs in bench.status()["conditions"]


@virtual
async def test_a_finalizer_that_is_being_added_is_no_conflict() -> None:
    async with Workbench() as bench:
        a_placement(bench.hub, policy=pick_n(1))
        await bench.catch_up()
        kinds = bench.caches.kinds_of(PlacementKey.parse("web"))
        adding = set()

        async def add_finalizer() -> None:
            bench.hub.fault = in_turn(Slow(before=0.2))
            finalizers = ["kubernetes-fleet.io/crp-cleanup", "a/b"]
            adding.add(
                asyncio.create_task(
                    update_with_retries(
                        kinds.placements.objects,
                        "web",
                        lambda document: {**document, "metadata": {**document["metadata"], "finalizers": finalizers}},
                        retry_policy=RetryPolicy(bench.clock, no_jitter),
                        cached=kinds.placements.store.get("web"),
                    )
                )
            )
            await asyncio.sleep(0)

        bench.content.meanwhile = add_finalizer
        bench.hub.forget_requests()
        await bench.reconciler.reconcile("web")
        assert [task.exception() for task in adding] == [None]
        assert [request for request in bench.hub.requests if request.method is Method.GET] == []
        assert "a/b" in bench.hub.get(WEB)["metadata"]["finalizers"]
        assert bench.condition("Scheduled")[1] == "SchedulePending"


@virtual
async def test_a_status_is_not_written_over_a_newer_spec() -> None:
    async with scheduled("c1") as (bench, _):
        await bench.catch_up()
        bench.hub.before_write = [lambda: bench.hub.edit(WEB, spec={"policy": {"numberOfClusters": 5}})]
        with pytest.raises(StaleInputs, match="placement web was changed meanwhile"):
            await bench.reconciler.reconcile("web")
        await bench.settle()
        assert bench.condition("Scheduled")[1] == "SchedulePending"


@within(Workbench)
async def test_fields_and_conditions_of_others_survive(bench: Workbench) -> None:
    a_placement(bench.hub)
    theirs = {"type": "acme.io/Audited", "status": "True", "reason": "Ok", "message": ""}
    bench.hub.put(WEB, {**bench.hub.get(WEB), "status": {"novelty": 1, "conditions": [theirs]}})
    await bench.settle()
    assert bench.status()["novelty"] == 1
    assert theirs in bench.status()["conditions"]


@within(Workbench)
async def test_a_status_says_which_objects_are_selected(bench: Workbench) -> None:
    a_placement(bench.hub)
    await bench.settle()
    assert bench.status()["observedResourceIndex"] == "0"
    assert bench.status()["selectedResources"] == [
        {"version": "v1", "kind": "Namespace", "name": "shop"},
        {"version": "v1", "kind": "ConfigMap", "name": "settings", "namespace": "shop"},
    ]


@within(Workbench)
async def test_namespaced_placements_use_their_own_kinds_and_condition_types(bench: Workbench) -> None:
    path = "namespaces/shop/resourceplacements/web"
    a_placement(bench.hub, path, policy=pick_n(1))
    await bench.settle("shop/web")
    others = Neighbours(bench.hub, namespace="shop")
    others.schedule("c1")
    others.report("c1", RUNNING)
    await bench.settle("shop/web")
    assert bench.condition("Available", path)[:2] == ("True", "ResourceAvailable")
    assert bench.hub.names("schedulingpolicysnapshots") == ["web-0"]
    assert bench.hub.names("clusterschedulingpolicysnapshots") == []
