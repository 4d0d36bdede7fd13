"""Hubs on which another controller worked before us: what it left is understood, kept, and carried on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fleet.kube.api import Method
from fleet.kube.resource import STATUS
from fleet.kube.scopes import find_scope
from fleet.model.keys import (
    BOUND,
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_CLEANUP,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
    PREVIOUS_BINDING_STATE,
    RESOURCE_INDEX,
    SCHEDULER_BINDING_CLEANUP,
    SCHEDULER_CLEANUP,
    UNSCHEDULED,
    WORK_CLEANUP,
)
from tests.e2e.placing import (
    ENVELOPES,
    GROUP_SIZE,
    RESOURCE_HASH,
    SCHEDULED_OK,
    Hub,
    Json,
    Places,
    binding_condition,
    names_of,
    namespace_and,
    places,
    selector,
    soon,
    soon_equal,
)
from tests.e2e.scheduling import FOREIGN, by_cluster, condition, story, versions
from tests.e2e.world import CONFIG_MAPS, NAMESPACES, World

NS: Final = "e2e-takeover"
BOTH: Final = ("web", f"{NS}/web")
SELECTS: Final = {"web": namespace_and(NS, selector("ConfigMap")), f"{NS}/web": [selector("ConfigMap")]}
LONG_AGO: Final = "2026-01-01T00:00:00Z"
LABEL: Final = {"tests.example.com/team": "web"}
REACHED: Final = (
    "RolloutStarted True RolloutStarted",
    "Overridden True NoOverrideSpecified",
    "WorkSynchronized True AllWorkSynced",
    "Applied True AllWorkHaveBeenApplied",
    "Available True AllWorkAreAvailable",
)
AVAILABLE: Final = {
    "RolloutStarted": "True RolloutStarted",
    "Overridden": "True NoOverrideSpecified",
    "WorkSynchronized": "True WorkSynchronized",
    "Applied": "True ApplySucceeded",
    "Available": "True ResourceAvailable",
}
THEIRS: Final = {"SomethingOfTheirs": "True Known"}


class Predecessor(World):
    """Writes what another controller would: names, hashes and texts of its own, and two clusters that run the lot."""

    async def leave_behind(self, key: str) -> None:
        flavour = find_scope(key)
        policy = {"placementType": "PickN", "numberOfClusters": 2}
        placement = await self.place(key, policy, selects=SELECTS[key])
        kept = {"finalizers": [PLACEMENT_CLEANUP, SCHEDULER_CLEANUP, FOREIGN], "labels": LABEL}
        placement = await self.patch(flavour.placement, key, {"metadata": kept})
        for index, latest in ((6, "false"), (7, "true")):
            await self._policy(placement, index, latest)
        for index, latest in ((2, "false"), (3, "true")):
            await self._resources(placement, index, latest)
        for cluster, suffix in (("c", "x7k2m"), ("b", "0f91aa")):
            await self._binding(placement, cluster, suffix)
        await self._status(placement, key)

    async def _policy(self, placement: Json, index: int, latest: str) -> None:
        """The number in the spec is the first one ever asked for, the one in force is the annotation's."""
        marks = {POLICY_INDEX: str(index), IS_LATEST_SNAPSHOT: latest}
        notes = {PLACEMENT_GENERATION: "1", NUMBER_OF_CLUSTERS: "2", "tests.example.com/note": "stale"}
        spec = {"policyHash": "YW5vdGhlcg==", "policy": {"placementType": "PickN", "numberOfClusters": 5}}
        if latest == "false":
            spec["policy"]["tolerations"] = [{"key": "old", "operator": "Exists"}]  # type: ignore[index]
        kind = find_scope(_key(placement)).policy_snapshot
        document = {"metadata": _owned(placement, f"web-{index}", marks, notes), "spec": spec}
        await self.create(kind, document)
        told = {"type": "Scheduled", "status": "True", "reason": "SchedulingPolicyFulfilled", "observedGeneration": 1}
        text = "found all cluster needed as specified by the scheduling policy, found 2 cluster(s)"
        status = {
            "observedCRPGeneration": 1,
            "conditions": [{**told, "message": text, "lastTransitionTime": LONG_AGO}],
            "targetClusters": [_decision("b"), _decision("c"), _not_picked("a")],
        }
        await self.patch(kind, _within(placement, f"web-{index}"), {"status": status}, subresource=STATUS)

    async def _resources(self, placement: Json, index: int, latest: str) -> None:
        marks = {RESOURCE_INDEX: str(index), IS_LATEST_SNAPSHOT: latest}
        notes = {RESOURCE_HASH: f"hash-{index}-of-another", GROUP_SIZE: "1", ENVELOPES: "0"}
        settings = await self.get(CONFIG_MAPS, f"{NS}/settings")
        content: list[Json] = [_stored("ConfigMap", settings)]
        if not placement["metadata"].get("namespace"):
            content.insert(0, _stored("Namespace", await self.get(NAMESPACES, NS)))
        if latest == "false":
            content.pop()
        metadata = _owned(placement, f"web-{index}-snapshot", marks, notes)
        document = {"metadata": metadata, "spec": {"selectedResources": content}}
        await self.create(find_scope(_key(placement)).resource_snapshot, document)

    async def _binding(self, placement: Json, cluster: str, suffix: str) -> None:
        metadata = _owned(placement, f"web-{cluster}-{suffix}", LABEL, {PREVIOUS_BINDING_STATE: "Scheduled"})
        del metadata["ownerReferences"]
        metadata["finalizers"] = [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP, FOREIGN]
        spec = {
            "state": BOUND,
            "targetCluster": cluster,
            "resourceSnapshotName": "web-3-snapshot",
            "schedulingPolicySnapshotName": "web-7",
            "clusterDecision": _decision(cluster),
        }
        kind = find_scope(_key(placement)).binding
        await self.create(kind, {"metadata": metadata, "spec": spec})
        status = {"conditions": [binding_condition(said, 1) for said in REACHED]}
        await self.patch(kind, _within(placement, metadata["name"]), {"status": status}, subresource=STATUS)

    async def _status(self, placement: Json, key: str) -> None:
        prefix = find_scope(key).condition_prefix
        said = SCHEDULED_OK | AVAILABLE
        conditions = [_said_by_another(f"{prefix}{name}", told) for name, told in said.items()]
        scheduled = _said_by_another("Scheduled", "True Scheduled")
        status = {
            "conditions": [*conditions, _said_by_another("SomethingOfTheirs", "True Known")],
            "observedResourceIndex": "3",
            "placementStatuses": [{"clusterName": "b", "conditions": [scheduled]}],
        }
        await self.patch(find_scope(key).placement, key, {"status": status}, subresource=STATUS)


def _key(placement: Json) -> str:
    return _within(placement, placement["metadata"]["name"])


def _within(placement: Json, name: str) -> str:
    namespace = placement["metadata"].get("namespace")
    return f"{namespace}/{name}" if namespace else name


def _owned(placement: Json, name: str, labels: dict[str, str], annotations: dict[str, str]) -> Json:
    owner = placement["metadata"]
    reference = {"apiVersion": placement["apiVersion"], "kind": placement["kind"], "name": "web", "uid": owner["uid"]}
    return {
        "name": name,
        **({"namespace": owner["namespace"]} if owner.get("namespace") else {}),
        "labels": {PARENT_PLACEMENT: "web", **LABEL, **labels},
        "annotations": annotations,
        "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
    }


def _decision(cluster: str) -> Json:
    text = (
        f'Successfully scheduled resources for placement in "{cluster}" (affinity score: 0, topology spread score: 0): '
        "picked by scheduling policy"
    )
    score = {"affinityScore": 0, "priorityScore": 0}
    return {"clusterName": cluster, "selected": True, "reason": text, "clusterScore": score}


def _not_picked(cluster: str) -> Json:
    text = f'Cluster "{cluster}" does not score high enough (affinity score: 0, topology spread score: 0)'
    return {**_decision(cluster), "selected": False, "reason": text}


def _stored(kind: str, document: Json) -> Json:
    """Keys in an order of its own."""
    named = document["metadata"]
    metadata = {name: named[name] for name in ("namespace", "name", "labels") if name in named}
    kept: Json = {name: document[name] for name in ("data", "spec") if name in document}
    return {**kept, "metadata": metadata, "kind": kind, "apiVersion": "v1"}


def _said_by_another(kind: str, told: str) -> Json:
    status, reason = told.split()
    said = {"type": kind, "status": status, "reason": reason, "message": "in words of another controller"}
    return {**said, "observedGeneration": 1, "lastTransitionTime": LONG_AGO}


@asynccontextmanager
async def left_behind(hub: Hub) -> AsyncIterator[Predecessor]:
    async with hub.connected() as connection:
        before = Predecessor(connection)
        if await before.find(NAMESPACES, NS) is None:
            await before.create(NAMESPACES, {"metadata": {"name": NS}})
        if await before.find(CONFIG_MAPS, f"{NS}/settings") is not None:
            await before.delete(CONFIG_MAPS, f"{NS}/settings")
        await before.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": NS}, "data": {"mode": "1"}})
        for name in ("a", "b", "c"):
            await before.join(name, namespaces=(NS,))
        for key in BOTH:
            await before.leave_behind(key)
        yield before


async def everything(fleet: World) -> Json:
    """Names and versions of all that both placements own."""
    found: dict[str, Any] = {}
    for key in BOTH:
        for kind in (find_scope(key).policy_snapshot, find_scope(key).resource_snapshot, find_scope(key).binding):
            owned = await fleet.all(kind, namespace=key.rpartition("/")[0], labels=f"{PARENT_PLACEMENT}=web")
            found[f"{key} {kind.kind}"] = versions(owned)
    return found


# --- taking over ------------------------------------------------------------------------------------------------------


@story
async def test_nothing_is_rewritten_but_the_words_of_the_status(hub: Hub) -> None:
    async with left_behind(hub) as before:
        as_left = await everything(before)
        async with places(hub) as fleet:
            await passes_of_both(fleet)
            for key in BOTH:
                assert await fleet.says(key) == SCHEDULED_OK | AVAILABLE | THEIRS
            written = sorted(one.path for one in fleet.overheard.requests if one.is_write and "/events" not in one.path)
            assert written == sorted(find_scope(key).placement.item(key, STATUS) for key in BOTH)
            assert await everything(fleet) == as_left
            for key in BOTH:
                status = await fleet.status(key)
                assert (status["observedResourceIndex"], status["selectedResources"][-1]["name"]) == ("3", "settings")
                assert [one["clusterName"] for one in status["placementStatuses"]] == ["b", "c"]
                # The status is the same, so it holds since then.
                assert {one["lastTransitionTime"] for one in status["conditions"]} == {LONG_AGO}
                assert (await fleet.placement(key))["metadata"]["labels"] == LABEL

        async with places(hub) as again:
            await passes_of_both(again)
            assert [one.path for one in again.overheard.requests if one.is_write] == []
            assert await everything(again) == as_left


async def passes_of_both(fleet: Places) -> None:
    """Both controllers have looked at both placements."""

    async def look() -> bool:
        kinds = [find_scope(key).placement.plural for key in BOTH]
        passes = [fleet.count("fleet_workload_reconcile_total", controller=one, result="success") for one in kinds]
        return min(passes) >= 1 and {str(one.key) for one in fleet.notebook.attempts} >= set(BOTH)

    await soon(look)
    await fleet.settled()


@story
async def test_edits_go_on_from_what_was_left(hub: Hub) -> None:
    async with left_behind(hub), places(hub) as fleet:
        await passes_of_both(fleet)
        theirs = {key: versions(await fleet.bindings(key)).keys() for key in BOTH}

        for key in BOTH:
            await fleet.edit_policy(key, numberOfClusters=3)
            await fleet.soon_on(key, "a", "b", "c")
            await fleet.soon_scheduled(key)
            assert sorted(names_of(await fleet.policies(key))) == ["web-6", "web-7"]
            snapshot = await fleet.latest_snapshot(key)
            assert snapshot is not None
            notes = {PLACEMENT_GENERATION: "2", NUMBER_OF_CLUSTERS: "3", "tests.example.com/note": "stale"}
            assert snapshot["metadata"]["annotations"] == notes
            assert snapshot["spec"]["policyHash"] == "YW5vdGhlcg=="
            bindings = by_cluster(await fleet.bindings(key))
            assert bindings["a"]["metadata"]["name"].startswith("web-a-")
            assert {bindings[name]["metadata"]["name"] for name in ("b", "c")} == theirs[key]
            assert bindings["b"]["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: "Scheduled"}

        await fleet.patch(CONFIG_MAPS, f"{NS}/settings", {"data": {"mode": "2"}})
        for key in BOTH:
            await soon_equal(lambda key=key: latest_group(fleet, key), "web-4-snapshot")

        for key in BOTH:
            await fleet.edit_policy(key, tolerations=[{"key": "gpu", "operator": "Exists"}])
            await soon(lambda key=key: follows(fleet, key, "web-8"))
            bindings = by_cluster(await fleet.bindings(key))
            assert {bindings[name]["metadata"]["name"] for name in ("b", "c")} == theirs[key]
            for name in ("b", "c"):
                metadata = bindings[name]["metadata"]
                assert metadata["finalizers"] == [SCHEDULER_BINDING_CLEANUP, WORK_CLEANUP, FOREIGN]
                assert metadata["labels"] == {PARENT_PLACEMENT: "web", **LABEL}
                assert bindings[name]["spec"]["state"] == BOUND

        for key in BOTH:
            await fleet.edit_policy(key, numberOfClusters=1)
            await fleet.soon_on(key, "c")
            given_up = by_cluster(await fleet.bindings(key))["b"]
            assert given_up["spec"]["state"] == UNSCHEDULED
            assert given_up["metadata"]["annotations"] == {PREVIOUS_BINDING_STATE: BOUND}

        for key in BOTH:
            await fleet.delete(find_scope(key).placement, key)
            await soon_equal(lambda key=key: left_of(fleet, key), [[WORK_CLEANUP, FOREIGN]] * 2)
            assert (await fleet.placement(key))["metadata"]["finalizers"] == [FOREIGN]
            assert await fleet.policies(key) + await fleet.resources(key) == []


async def latest_group(fleet: Places, key: str) -> str:
    return str((await fleet.master(key))["metadata"]["name"])


async def follows(fleet: Places, key: str, snapshot: str) -> bool:
    found = {one["spec"]["schedulingPolicySnapshotName"] for one in await fleet.bindings(key)}
    return found == {snapshot} and await fleet.scheduled(key) is not None


async def left_of(fleet: Places, key: str) -> list[list[str]]:
    """Finalizers of the bindings that remain, and nothing else of the placement does."""
    if len((await fleet.placement(key))["metadata"]["finalizers"]) > 1:
        return []
    return [one["metadata"]["finalizers"] for one in await fleet.bindings(key)]


@story
async def test_two_latest_snapshots_stop_everything_until_somebody_decides(hub: Hub) -> None:
    async with left_behind(hub) as before:
        for key in BOTH:
            await mark(before, key, 6, latest="true")
        as_left = await everything(before)
        async with places(hub) as fleet:
            for key in BOTH:
                await fleet.edit_policy(key, numberOfClusters=3)
            await soon(lambda: has_failed_twice(fleet))
            assert fleet.overheard.writes() == []
            assert await everything(fleet) == as_left

            for key in BOTH:
                await mark(fleet, key, 6, latest="false")
            for key in BOTH:
                await fleet.soon_on(key, "a", "b", "c")
                await fleet.soon_scheduled(key)
                assert sorted(names_of(await fleet.policies(key))) == ["web-6", "web-7"]
                snapshot = await fleet.latest_snapshot(key)
                assert snapshot is not None
                assert condition(snapshot["status"])["status"] == "True"


async def mark(fleet: World, key: str, index: int, *, latest: str) -> None:
    kind, name = find_scope(key).policy_snapshot, f"{key}-{index}"
    await fleet.patch(kind, name, {"metadata": {"labels": {IS_LATEST_SNAPSHOT: latest}}})


async def has_failed_twice(fleet: Places) -> bool:
    """Passes over both kinds of placements, the second ones with all the edits in sight."""
    kinds = [find_scope(key).placement.plural for key in BOTH]
    return min(fleet.count("fleet_workload_reconcile_errors_total", controller=one) for one in kinds) >= 2


@story
async def test_without_a_latest_snapshot_the_newest_is_taken_up_again(hub: Hub) -> None:
    """The window between two writes of a controller that died in it."""
    async with left_behind(hub) as before:
        for key in BOTH:
            await mark(before, key, 7, latest="false")
            kind = find_scope(key).resource_snapshot
            labels = {"metadata": {"labels": {IS_LATEST_SNAPSHOT: "false"}}}
            await before.patch(kind, f"{key}-3-snapshot", labels)
        bindings = {key: versions(await before.bindings(key)) for key in BOTH}
        async with places(hub) as fleet:
            await passes_of_both(fleet)
            for key in BOTH:
                await fleet.soon_says(key, SCHEDULED_OK | AVAILABLE | THEIRS)
                assert await latest_group(fleet, key) == "web-3-snapshot"
                assert versions(await fleet.bindings(key)) == bindings[key]
            created = [one.path for one in fleet.overheard.requests if one.method is Method.POST]
            assert [path for path in created if "/events" not in path] == []
