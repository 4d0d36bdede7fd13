"""What the status of a placement says, from scheduling to the last object on the last cluster."""

from __future__ import annotations

from typing import Any

from fleet.kube.scopes import find_scope
from fleet.placement.status.staged_runs import CLUSTER_RUNS, NAMESPACED_RUNS
from tests.e2e.placing import (
    SCHEDULED_OK,
    Hub,
    Json,
    Places,
    by_type,
    namespace_and,
    places,
    selector,
    soon_equal,
)
from tests.e2e.scheduling import story

NS = "e2e-conditions"
BOTH = ("web", f"{NS}/web")
FIXED = {"placementType": "PickFixed", "clusterNames": ["a", "b"]}
SELECTS = {"web": namespace_and(NS, selector("ConfigMap")), f"{NS}/web": [selector("ConfigMap")]}

STARTED = "RolloutStarted True RolloutStarted"
OVERRIDDEN = "Overridden True NoOverrideSpecified"
SYNCED = "WorkSynchronized True AllWorkSynced"
APPLIED = "Applied True AllWorkHaveBeenApplied"
AVAILABLE = "Available True AllWorkAreAvailable"
REACHED = {
    "RolloutStarted": "True RolloutStarted",
    "Overridden": "True NoOverrideSpecified",
    "WorkSynchronized": "True WorkSynchronized",
    "Applied": "True ApplySucceeded",
    "Available": "True ResourceAvailable",
}

Said = tuple[str, ...]
# What the agents of clusters a and b say, and the last condition of the placement then; those before it are True.
Step = tuple[Said, Said, str, str]

STEPS: list[Step] = [
    ((), (), "RolloutStarted", "Unknown RolloutStartedUnknown"),
    (("RolloutStarted False RolloutNotStartedYet",), (), "RolloutStarted", "Unknown RolloutStartedUnknown"),
    (("RolloutStarted False RolloutNotStartedYet",), (STARTED,), "RolloutStarted", "False RolloutNotStartedYet"),
    ((STARTED,), (STARTED,), "Overridden", "Unknown OverriddenPending"),
    ((STARTED, "Overridden False OverriddenFailed"), (STARTED,), "Overridden", "Unknown OverriddenPending"),
    ((STARTED, "Overridden False OverriddenFailed"), (STARTED, OVERRIDDEN), "Overridden", "False OverriddenFailed"),
    ((STARTED, OVERRIDDEN), (STARTED, OVERRIDDEN), "WorkSynchronized", "Unknown WorkSynchronizedUnknown"),
    (
        (STARTED, OVERRIDDEN, "WorkSynchronized False SyncWorkFailed"),
        (STARTED, OVERRIDDEN, SYNCED),
        "WorkSynchronized",
        "False WorkNotSynchronizedYet",
    ),
    ((STARTED, OVERRIDDEN, SYNCED), (STARTED, OVERRIDDEN, SYNCED), "Applied", "Unknown ApplyPending"),
    (
        (STARTED, OVERRIDDEN, SYNCED, "Applied False ApplyInProgress"),
        (STARTED, OVERRIDDEN, SYNCED, APPLIED),
        "Applied",
        "False ApplyFailed",
    ),
    (
        (STARTED, OVERRIDDEN, SYNCED, "Applied False NotAllWorkHaveBeenApplied"),
        (STARTED, OVERRIDDEN, SYNCED, APPLIED, AVAILABLE),
        "Applied",
        "False ApplyFailed",
    ),
    (
        (STARTED, OVERRIDDEN, SYNCED, APPLIED),
        (STARTED, OVERRIDDEN, SYNCED, APPLIED, AVAILABLE),
        "Available",
        "Unknown ResourceAvailableUnknown",
    ),
    (
        (STARTED, OVERRIDDEN, SYNCED, APPLIED, "Available False NotAllWorkAreAvailable"),
        (STARTED, OVERRIDDEN, SYNCED, APPLIED, AVAILABLE),
        "Available",
        "False ResourceNotAvailableYet",
    ),
    (
        (STARTED, OVERRIDDEN, SYNCED, APPLIED, "Available True NotAllWorkAreAvailabilityTrackable"),
        (STARTED, OVERRIDDEN, SYNCED, APPLIED, AVAILABLE),
        "Available",
        "True ResourceAvailable",
    ),
]


def up_to(stage: str, verdict: str, **instead: str) -> dict[str, str]:
    """Everything before the stage is reached."""
    names = list(REACHED)
    reached = {name: REACHED[name] for name in names[: names.index(stage)]}
    return {**SCHEDULED_OK, **reached, **instead, stage: verdict}


async def placed_on_two(fleet: Places, **spec: Any) -> None:
    await fleet.namespace(NS)
    await fleet.join_with(NS, "a", "b")
    for key in BOTH:
        await fleet.place(key, FIXED, selects=SELECTS[key], **spec)
    for key in BOTH:
        await fleet.soon_on(key, "a", "b")
        await fleet.roll_out(key)


async def agents_of_both(fleet: Places, a: Said, b: Said, **lists: list[Json]) -> None:
    for key in BOTH:
        await fleet.agents_say(key, "a", *a, **lists)
        await fleet.agents_say(key, "b", *b)


@story
async def test_every_stage_of_a_rollout_is_told_of_both_kinds(hub: Hub) -> None:
    async with places(hub) as fleet:
        await placed_on_two(fleet)
        for a, b, stage, verdict in STEPS:
            await agents_of_both(fleet, a, b)
            for key in BOTH:
                await fleet.soon_says(key, up_to(stage, verdict))

        overridden = (STARTED, "Overridden True OverriddenSucceeded")
        await agents_of_both(fleet, overridden, (STARTED, OVERRIDDEN))
        for key in BOTH:
            # bindings without override snapshots: the placement has the one reason, a cluster what its binding reports
            await fleet.soon_says(key, up_to("WorkSynchronized", "Unknown WorkSynchronizedUnknown"))
            assert await fleet.says_of(key, "a") == {
                "Scheduled": "True Scheduled",
                "RolloutStarted": "True RolloutStarted",
                "Overridden": "True OverriddenSucceeded",
                "WorkSynchronized": "Unknown WorkSynchronizedUnknown",
            }
        everything = (STARTED, OVERRIDDEN, SYNCED, APPLIED, AVAILABLE)
        await agents_of_both(fleet, everything, everything)
        for key in BOTH:
            await fleet.soon_says(key, SCHEDULED_OK | REACHED)
            assert await fleet.message(key, "Available") == "objects available on all 2 cluster(s)"
            await fleet.soon_told(
                key,
                *("PlacementRolloutStarted", "PlacementOverriddenSucceeded", "PlacementWorkSynchronized"),
                *("PlacementApplied", "PlacementAvailable", "PlacementRolloutCompleted"),
                *("PlacementOverrideFailed", "PlacementApplyFailed", "PlacementNotAvailable"),
            )


@story
async def test_objects_that_failed_are_listed_sorted_and_cut(hub: Hub) -> None:
    async with places(hub) as fleet:
        await placed_on_two(fleet)
        failed = [object_called(f"cm-{number:03}", condition=_FAILED) for number in reversed(range(100))]
        drifted = [object_called(name, **_SINCE, firstDriftedObservedTime=_TIME) for name in ("z", "y")]
        diffed = [object_called("x", **_SINCE, firstDiffedObservedTime=_TIME)]
        lists = {"failedPlacements": failed, "driftedPlacements": drifted, "diffedPlacements": diffed}
        reached = (STARTED, OVERRIDDEN, SYNCED)
        await agents_of_both(fleet, (*reached, "Applied False NotAllWorkHaveBeenApplied"), reached, **lists)
        for key in BOTH:
            await fleet.soon_says(key, up_to("Applied", "Unknown ApplyPending"))
            await soon_equal(
                lambda key=key: listed_on_a(fleet, key), {"cm": 100, "drifted": ["y", "z"], "diffed": ["x"]}
            )
            entry = await fleet.on(key, "a")
            assert [one["name"] for one in entry["failedPlacements"]][:2] == ["cm-000", "cm-001"]

        everything = (*reached, APPLIED, AVAILABLE)
        await agents_of_both(fleet, everything, everything, **lists)
        for key in BOTH:
            await soon_equal(lambda key=key: listed_on_a(fleet, key), {"cm": 0, "drifted": ["y", "z"], "diffed": []})


_TIME = "2026-01-01T00:00:00Z"
_SINCE = {"observationTime": _TIME, "targetClusterObservedGeneration": 1}
_FAILED = {"type": "Applied", "status": "False", "reason": "Broken", "message": "", "lastTransitionTime": _TIME}


def object_called(name: str, **more: Any) -> Json:
    return {"version": "v1", "kind": "ConfigMap", "namespace": NS, "name": name, **more}


async def listed_on_a(fleet: Places, key: str) -> Json:
    entry = await fleet.on(key, "a")
    names = {kind: [one["name"] for one in entry.get(f"{kind}Placements", ())] for kind in ("drifted", "diffed")}
    return {"cm": len(entry.get("failedPlacements", ())), **names}


@story
async def test_differences_are_reported_instead_of_objects_applied(hub: Hub) -> None:
    async with places(hub) as fleet:
        await placed_on_two(fleet, strategy={"applyStrategy": {"type": "ReportDiff"}})
        reached = (STARTED, OVERRIDDEN, SYNCED)
        chain = {name: REACHED[name] for name in ("RolloutStarted", "Overridden", "WorkSynchronized")}
        for said, verdict in (
            ((), "Unknown DiffReportingPending"),
            (("DiffReported False DiffReportInProgress",), "False DiffReportingIncompleteOrFailed"),
            (("DiffReported False NotAllWorkHaveDiffReported",), "False DiffReportingIncompleteOrFailed"),
            (("DiffReported True AllWorkHaveDiffReported",), "True DiffReportingCompleted"),
        ):
            diffs = [object_called("x", **_SINCE, firstDiffedObservedTime=_TIME)]
            done = "DiffReported True AllWorkHaveDiffReported"
            await agents_of_both(fleet, (*reached, *said), (*reached, done), diffedPlacements=diffs)
            for key in BOTH:
                await fleet.soon_says(key, SCHEDULED_OK | chain | {"DiffReported": verdict})
        for key in BOTH:
            assert (await listed_on_a(fleet, key))["diffed"] == ["x"]
            await fleet.soon_told(key, "PlacementDiffReported", "PlacementRolloutCompleted")


@story
async def test_places_that_stay_empty_are_listed_without_a_name(hub: Hub) -> None:
    async with places(hub) as fleet:
        await fleet.join_all({"a": {"env": "prod"}, "b": {}, "c": {}})
        required = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"env": "prod"}}}]}
        affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        await fleet.place("two", {"placementType": "PickN", "numberOfClusters": 2, "affinity": affinity})
        await fleet.place("many", {"placementType": "PickN", "numberOfClusters": 9, "affinity": affinity})
        await fleet.place("named", {"placementType": "PickFixed", "clusterNames": ["a", "nobody"]})
        await fleet.place("all", {"placementType": "PickAll", "affinity": affinity})

        unfulfilled = {"Scheduled": "False SchedulingPolicyUnfulfilled"}
        later = {"RolloutStarted": "Unknown RolloutStartedUnknown"}
        for key, empty in (("two", 1), ("many", 2), ("named", 1)):
            await fleet.soon_says(key, unfulfilled | later)
            first, *others = await fleet.listed(key)
            assert (first["clusterName"], len(others)) == ("a", empty)
            assert all(one.keys() == {"conditions"} for one in others)
            conditions = [condition for one in others for condition in one["conditions"]]
            assert [(one["status"], one["reason"]) for one in conditions] == [("False", "ScheduleFailed")] * empty
            assert [one["message"] for one in conditions] == (await refusals_of(fleet, key))[:empty]
        await fleet.soon_says("all", SCHEDULED_OK | later)
        assert [one["clusterName"] for one in await fleet.listed("all")] == ["a"]


async def refusals_of(fleet: Places, key: str) -> list[str]:
    """What the scheduler said of clusters it did not take, in its order."""
    snapshot = await fleet.latest_snapshot(key)
    assert snapshot is not None
    return [one["reason"] for one in snapshot["status"]["targetClusters"] if not one["selected"]]


@story
async def test_a_placement_that_wants_no_cluster_is_complete(hub: Hub) -> None:
    async with places(hub, rolled_out=True) as fleet:
        await fleet.join("a")
        await fleet.place("none", {"placementType": "PickN", "numberOfClusters": 0})
        await fleet.place("nobody", {"placementType": "PickFixed", "clusterNames": []})
        for key in ("none", "nobody"):
            await fleet.soon_says(key, SCHEDULED_OK)
            assert await fleet.listed(key) == []
            await fleet.soon_told(key, "PlacementRolloutCompleted")

        await fleet.edit_policy("none", numberOfClusters=1)
        await fleet.soon_says("none", SCHEDULED_OK | REACHED)
        await fleet.edit_policy("none", numberOfClusters=0)
        await fleet.soon_says("none", SCHEDULED_OK)
        await soon_equal(lambda: fleet.bindings("none"), [])
        assert await fleet.listed("none") == []


@story
async def test_a_rollout_in_other_hands(hub: Hub) -> None:
    """The status describes what the clusters have, as long as they agree."""
    held = SCHEDULED_OK | {"RolloutStarted": "Unknown RolloutControlledByExternalController"}
    everything = (STARTED, OVERRIDDEN, SYNCED, APPLIED, AVAILABLE)
    async with places(hub) as fleet:
        await fleet.namespace(NS)
        await fleet.join_all({"a": {}, "b": {}})
        for key in BOTH:
            await fleet.place(key, FIXED, strategy={"type": "External"})
        for key in BOTH:
            await fleet.soon_on(key, "a", "b")
            await fleet.soon_says(key, held)
            assert "staged update run" in await fleet.message(key, "RolloutStarted")
            assert await fleet.resources(key) == []

            for name, placement in (("canary", "web"), ("other", "elsewhere")):
                await staged_run(fleet, key, name, placement)
            for index in (0, 1):
                await staged_group(fleet, key, index)
            await staged(fleet, key, "a", 0)
            await soon_equal(lambda key=key: indices(fleet, key), {"": None, "a": "0", "b": None})
            await fleet.soon_says(key, held)
            assert (await fleet.message(key, "RolloutStarted")).endswith("controlled by canary")

            await staged(fleet, key, "b", 0)
            await soon_equal(lambda key=key: indices(fleet, key), {"": "0", "a": "0", "b": "0"})
            selected = [{"version": "v1", "kind": "Namespace", "name": "content-0"}]
            assert (await fleet.status(key))["selectedResources"] == selected
            for cluster in ("a", "b"):
                await fleet.agents_say(key, cluster, *everything)
            await fleet.soon_says(key, SCHEDULED_OK | REACHED)

            await staged(fleet, key, "a", 1)
            await soon_equal(lambda key=key: indices(fleet, key), {"": None, "a": "1", "b": "0"})
            await fleet.soon_says(key, held)
            assert "selectedResources" not in await fleet.status(key)


async def indices(fleet: Places, key: str) -> dict[str, str | None]:
    """Observed by the placement, and of each cluster."""
    status = await fleet.status(key)
    clusters = {one["clusterName"]: one.get("observedResourceIndex") for one in status.get("placementStatuses", ())}
    return {"": status.get("observedResourceIndex"), **clusters}


async def staged(fleet: Places, key: str, cluster: str, index: int) -> None:
    """What a staged update run does with one cluster."""
    await fleet.roll_out(key, cluster, snapshot=f"web-{index}-snapshot")
    await fleet.agents_say(key, cluster, STARTED)


async def staged_run(fleet: Places, key: str, name: str, placement: str) -> None:
    kind = NAMESPACED_RUNS if "/" in key else CLUSTER_RUNS
    spec = {"placementName": placement, "stagedRolloutStrategyName": "slowly"}
    await fleet.create(kind, {"metadata": _beside(key, name), "spec": spec})


async def staged_group(fleet: Places, key: str, index: int) -> None:
    """As the staged update controller makes it."""
    labels = {"parent-CRP": "web", "is-latest-snapshot": str(index == 1).lower(), "resource-index": str(index)}
    annotations = {"number-of-resource-snapshots": "1", "number-of-enveloped-object": "0", "resource-hash": "abc"}
    metadata = {
        **_beside(key, f"web-{index}-snapshot"),
        "labels": {f"kubernetes-fleet.io/{name}": text for name, text in labels.items()},
        "annotations": {f"kubernetes-fleet.io/{name}": text for name, text in annotations.items()},
    }
    content = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"content-{index}"}}
    kind = find_scope(key).resource_snapshot
    await fleet.create(kind, {"metadata": metadata, "spec": {"selectedResources": [content]}})


def _beside(key: str, name: str) -> Json:
    """Metadata of an object where the placement is."""
    namespace = key.rpartition("/")[0]
    return {"name": name, **({"namespace": namespace} if namespace else {})}


@story
async def test_what_is_known_stays_visible_while_a_new_policy_is_scheduled(hub: Hub) -> None:
    async with places(hub, rolled_out=True) as fleet:
        await fleet.namespace(NS)
        await fleet.join_with(NS, "a", "b", "c")
        for key in BOTH:
            await fleet.place(key, {"placementType": "PickN", "numberOfClusters": 2})
        for key in BOTH:
            await fleet.soon_says(key, SCHEDULED_OK | REACHED)
        since = {key: by_type((await fleet.status(key))["conditions"]) for key in BOTH}
        seen = {key: len(fleet.written_statuses(key)) for key in BOTH}

        for key in BOTH:
            await fleet.edit_policy(key, tolerations=[{"key": "gpu", "operator": "Exists"}])
            await fleet.edit_policy(key, numberOfClusters=3)

        for key in BOTH:
            await fleet.soon_on(key, "a", "b", "c")
            await fleet.soon_says(key, SCHEDULED_OK | REACHED)
            written = fleet.written_statuses(key)[seen[key] :]
            assert written
            assert all(len(one["placementStatuses"]) >= 2 for one in written)
            assert all(len(one["conditions"]) >= 2 for one in written)
            assert len(await fleet.listed(key)) == 3
            now = by_type((await fleet.status(key))["conditions"])
            assert now.keys() == since[key].keys()


@story
async def test_pending_with_a_scheduler_that_is_away(hub: Hub) -> None:
    """The old list stays, recognisably old; nothing is said about a placement that never was scheduled."""
    async with places(hub, rolled_out=True) as fleet:
        await fleet.join_all({"a": {}, "b": {}})
        await fleet.place("web", {"placementType": "PickN", "numberOfClusters": 2})
        await fleet.soon_says("web", SCHEDULED_OK | REACHED)
        await fleet.settled()
    pending = {"Scheduled": "Unknown SchedulePending"}
    async with places(hub, controllers=("placement",)) as fleet:
        await fleet.edit_policy("web", tolerations=[{"key": "gpu", "operator": "Exists"}])
        await fleet.place("new", {"placementType": "PickN", "numberOfClusters": 2})

        await fleet.soon_says("new", pending)
        await fleet.soon_says("web", pending | {name: f"{said} (old)" for name, said in REACHED.items()})
        assert await fleet.message("web", "Scheduled") == "generation 2 has not been scheduled yet"
        assert [one["clusterName"] for one in await fleet.listed("web")] == ["b", "a"]
        assert set((await fleet.says_of("web", "a")).values()) >= {"True Scheduled (old)"}
        assert await fleet.listed("new") == []
    async with places(hub, rolled_out=True) as fleet:
        for key in ("web", "new"):
            await fleet.soon_says(key, SCHEDULED_OK | REACHED)
