"""Policies on their way into snapshots, and what is left when a placement goes."""

from __future__ import annotations

from base64 import b64decode
from hashlib import sha256

from fleet.kube.scopes import find_scope
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_CLEANUP,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
    SCHEDULER_CLEANUP,
    WORK_CLEANUP,
)
from tests.e2e.placing import COPIES, Hub, Json, Places, names_of, namespace_and, places, selector, soon, soon_equal
from tests.e2e.scheduling import FOREIGN, key_in, story

NS = "e2e-policy"
BOTH = ("web", f"{NS}/web")
TWO = {"placementType": "PickN", "numberOfClusters": 2}
SELECTS = {"web": namespace_and(NS, selector("ConfigMap")), f"{NS}/web": [selector("ConfigMap")]}


async def three_clusters(fleet: Places) -> None:
    await fleet.namespace(NS)
    await fleet.join_with(NS, "a", "b", "c")


def hash_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


async def marks(fleet: Places, key: str) -> list[tuple[str, str, str]]:
    """Of each policy snapshot: name, index and whether it is the latest."""
    found = sorted(await fleet.policies(key), key=lambda one: int(one["metadata"]["labels"][POLICY_INDEX]))
    labels = [one["metadata"]["labels"] for one in found]
    indices = [(one[POLICY_INDEX], one[IS_LATEST_SNAPSHOT]) for one in labels]
    return [(name, *found) for name, found in zip(names_of(found), indices, strict=True)]


@story
async def test_a_number_is_an_annotation_and_everything_else_a_new_snapshot(hub: Hub) -> None:
    async with places(hub) as fleet:
        await three_clusters(fleet)
        for key in BOTH:
            await fleet.place(key, TWO, selects=SELECTS[key], revisionHistoryLimit=2)
        for key in BOTH:
            await fleet.soon_on(key, "b", "c")
            (first,) = await fleet.policies(key)
            metadata, placement = first["metadata"], await fleet.placement(key)
            assert metadata["name"] == "web-0"
            assert metadata["labels"] == {PARENT_PLACEMENT: "web", IS_LATEST_SNAPSHOT: "true", POLICY_INDEX: "0"}
            assert metadata["annotations"] == {PLACEMENT_GENERATION: "1", NUMBER_OF_CLUSTERS: "2"}
            assert [one["uid"] for one in metadata["ownerReferences"]] == [placement["metadata"]["uid"]]
            assert b64decode(first["spec"]["policyHash"]).decode() == hash_of('{"placementType":"PickN"}')
            assert set(placement["metadata"]["finalizers"]) == {PLACEMENT_CLEANUP, SCHEDULER_CLEANUP}

            await fleet.edit_policy(key, numberOfClusters=3)
            await fleet.soon_on(key, "a", "b", "c")
            (same,) = await fleet.policies(key)
            assert same["metadata"]["annotations"] == {PLACEMENT_GENERATION: "2", NUMBER_OF_CLUSTERS: "3"}
            assert same["spec"] == first["spec"]
            assert same["metadata"]["generation"] == first["metadata"]["generation"]

            tolerations: list[Json] = []
            for number in range(1, 4):
                tolerations.append({"key": f"taint-{number}", "operator": "Exists"})
                await fleet.edit_policy(key, tolerations=tolerations)
                before, last = f"web-{number - 1}", f"web-{number}"
                await soon_equal(
                    lambda key=key: marks(fleet, key),
                    [(before, before[-1], "false"), (last, last[-1], "true")],
                )
            await fleet.soon_scheduled(key)
            assert {one["spec"]["schedulingPolicySnapshotName"] for one in await fleet.bindings(key)} == {"web-3"}

            await fleet.patch(find_scope(key).placement, key, {"spec": {"revisionHistoryLimit": 1}})
            await fleet.edit_policy(key, tolerations=[*tolerations, {"key": "last", "operator": "Exists"}])
            await soon_equal(lambda key=key: marks(fleet, key), [("web-4", "4", "true")])
            await fleet.soon_scheduled(key)


@story
async def test_a_placement_without_a_policy_picks_all(hub: Hub) -> None:
    async with places(hub) as fleet:
        await three_clusters(fleet)
        for key in BOTH:
            await fleet.place(key, selects=SELECTS[key])
            await fleet.soon_on(key, "a", "b", "c")
            (snapshot,) = await fleet.policies(key)
            assert "policy" not in snapshot["spec"]
            assert snapshot["metadata"]["annotations"] == {PLACEMENT_GENERATION: "1"}
            assert b64decode(snapshot["spec"]["policyHash"]).decode() == hash_of("null")
            # Said in other words, it is still the same policy.
            await fleet.set_policy(key, {"placementType": "PickAll"})
            await soon_equal(lambda key=key: generation_observed(fleet, key), 2)
            assert names_of(await fleet.policies(key)) == ["web-0"]


async def generation_observed(fleet: Places, key: str) -> int:
    snapshot = await fleet.latest_snapshot(key)
    assert snapshot is not None
    return int((snapshot.get("status") or {}).get("observedCRPGeneration", 0))


# --- the end ----------------------------------------------------------------------------------------------------------


@story
async def test_whatever_its_state_a_deleted_placement_leaves_nothing(hub: Hub) -> None:
    """Bound, unscheduled, refused, unfulfilled, external, shown elsewhere, and deleted before anything was done."""
    fixed = {"placementType": "PickFixed", "clusterNames": ["a", "nobody"]}
    async with places(hub, rolled_out=True) as fleet:
        await three_clusters(fleet)
        await fleet.config_map(f"{NS}/settings", mode="1")
        selects = [selector("Namespace", NS)]
        await fleet.place("shown", TWO, selects=selects, statusReportingScope="NamespaceAccessible")
        await fleet.place("refused", TWO, selects=[selector("Gadget", group="example.com")])
        await fleet.place("external", TWO, strategy={"type": "External"})
        keys = ["shown", "refused", "external"]
        for scope in ("", f"{NS}/"):
            await fleet.place(f"{scope}bound", TWO, selects=SELECTS[f"{scope}web"])
            await fleet.place(f"{scope}unfulfilled", fixed, selects=SELECTS[f"{scope}web"])
            await fleet.place(f"{scope}new", TWO, selects=SELECTS[f"{scope}web"])
            await fleet.delete(find_scope(f"{scope}new").placement, f"{scope}new")
            keys += [f"{scope}bound", f"{scope}unfulfilled"]
        for key in keys:
            await soon(lambda key=key: has_been_seen_to(fleet, key))
        await soon(lambda: fleet.find(COPIES, f"{NS}/shown"))
        uids = {key: (await fleet.placement(key))["metadata"]["uid"] for key in keys}

        for key in keys:
            await fleet.delete(find_scope(key).placement, key)
        for key in (*keys, "new", f"{NS}/new"):
            await soon_equal(lambda key=key: everything_of(fleet, key), [])
        for key in keys:
            told = "PlacementCleanupFinalizerRemoved"
            await soon(lambda key=key, told=told: told_of(fleet, key, uids[key], told))


async def told_of(fleet: Places, key: str, uid: str, reason: str) -> bool:
    return reason in await fleet.reasons_told(key, uid)


async def has_been_seen_to(fleet: Places, key: str) -> bool:
    says = await fleet.says(key)
    return bool(says) and not says["Scheduled"].startswith("Unknown")


async def everything_of(fleet: Places, key: str) -> list[str]:
    owned = await fleet.policies(key) + await fleet.resources(key) + await fleet.bindings(key)
    left = await fleet.find(find_scope(key).placement, key)
    return names_of([*owned, *([left] if left else [])])


@story
async def test_finalizers_of_others_hold_only_what_they_are_on(hub: Hub) -> None:
    async with places(hub) as fleet:
        await three_clusters(fleet)
        for key in BOTH:
            await fleet.place(key, TWO, selects=SELECTS[key])
            await fleet.soon_on(key, "b", "c")
            await fleet.roll_out(key)
            for one in await fleet.bindings(key):
                kept = [*one["metadata"]["finalizers"], WORK_CLEANUP]
                await fleet.patch(find_scope(key).binding, key_in(one), {"metadata": {"finalizers": kept}})
            placement = await fleet.placement(key)
            kept = [*placement["metadata"]["finalizers"], FOREIGN]
            await fleet.patch(find_scope(key).placement, key, {"metadata": {"finalizers": kept}})

        for key in BOTH:
            await fleet.delete(find_scope(key).placement, key)
        for key in BOTH:
            await soon_equal(lambda key=key: finalizers(fleet, key), [FOREIGN])
            await soon_equal(lambda key=key: binding_finalizers(fleet, key), [[WORK_CLEANUP], [WORK_CLEANUP]])
            assert await fleet.policies(key) + await fleet.resources(key) == []
            await fleet.patch(find_scope(key).placement, key, {"metadata": {"finalizers": None}})
            assert await fleet.find(find_scope(key).placement, key) is None
            for one in await fleet.bindings(key):
                await fleet.patch(find_scope(key).binding, key_in(one), {"metadata": {"finalizers": None}})
            assert await fleet.bindings(key) == []


async def finalizers(fleet: Places, key: str) -> list[str]:
    found: list[str] = (await fleet.placement(key))["metadata"]["finalizers"]
    return found


async def binding_finalizers(fleet: Places, key: str) -> list[list[str]]:
    return [one["metadata"]["finalizers"] for one in await fleet.bindings(key)]


@story
async def test_the_same_name_may_come_back_while_old_bindings_linger(hub: Hub) -> None:
    async with places(hub) as fleet:
        await three_clusters(fleet)
        await fleet.place("web", {"placementType": "PickFixed", "clusterNames": ["a"]})
        await fleet.soon_on("web", "a")
        (old,) = await fleet.bindings("web")
        kept = [*old["metadata"]["finalizers"], FOREIGN]
        await fleet.patch(find_scope("web").binding, old["metadata"]["name"], {"metadata": {"finalizers": kept}})
        await fleet.delete(find_scope("web").placement, "web")
        await soon_equal(lambda: fleet.find(find_scope("web").placement, "web"), None)

        await fleet.place("web", {"placementType": "PickFixed", "clusterNames": ["a"]})
        await fleet.soon_scheduled("web")
        assert await fleet.states("web") == {"a": "Scheduled+Terminating"}
        assert await marks(fleet, "web") == [("web-0", "0", "true")]
