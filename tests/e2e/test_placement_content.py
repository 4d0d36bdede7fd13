"""From what a placement selects to the snapshots that are rolled out, on hubs with real content."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from fleet.kube.api import Method
from fleet.kube.resource import Resource
from fleet.kube.scopes import find_scope
from fleet.model.keys import IS_LATEST_SNAPSHOT
from fleet.model.timestamps import parse_timestamp
from tests.e2e.placing import (
    CHANGE_SEEN_AT,
    COPIES,
    ENVELOPES,
    GROUP_SIZE,
    RESOURCE_HASH,
    SCHEDULED_OK,
    SUBINDEX,
    Hub,
    Json,
    Places,
    by_type,
    index_in,
    names_of,
    namespace_and,
    places,
    selector,
    soon,
    soon_equal,
)
from tests.e2e.scheduling import story
from tests.e2e.world import CONFIG_MAPS, NAMESPACES

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
SERVICES = Resource("", "v1", "services", "Service", namespaced=True)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
NOTHING_SELECTED = "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1"
ONE = {"placementType": "PickN", "numberOfClusters": 1}
KIB = 1024


# --- groups -----------------------------------------------------------------------------------------------------------


@story
async def test_real_content_is_stored_clean_and_in_order(hub: Hub) -> None:
    namespace = "e2e-content"
    async with places(hub) as fleet:
        await fleet.join("a", namespaces=(namespace,))
        await fleet.create(NAMESPACES, {"metadata": {"name": namespace, "labels": {"team": "web"}}})
        await fleet.config_map(f"{namespace}/settings", mode="fast")
        await fleet.create(SERVICES, service(namespace))
        await fleet.create(DEPLOYMENTS, deployment(namespace))
        await fleet.place("web", ONE, selects=[selector("Namespace", namespace)])
        await fleet.place(f"{namespace}/web", ONE, selects=[selector("Service"), deployments_by(app="web")])

        stored = await stored_objects(fleet, "web")
        assert [one["kind"] for one in stored] == ["Namespace", "ConfigMap", "Service", "Deployment"]
        for one in stored:
            assert "status" not in one
            assert one["metadata"].keys() <= {"name", "namespace", "labels", "annotations", "finalizers"}
        assert stored[0]["metadata"]["labels"]["team"] == "web"
        assert stored[1]["data"] == {"mode": "fast"}
        assert "clusterIP" not in stored[2]["spec"]
        assert "clusterIPs" not in stored[2]["spec"]
        assert ["nodePort" in port for port in stored[2]["spec"]["ports"]] == [False]
        assert stored[3]["metadata"]["annotations"] == {"note": "kept"}

        master = await fleet.master("web")
        assert master["metadata"]["name"] == "web-0-snapshot"
        text = json.dumps({"selectedResources": stored}, separators=(",", ":"), sort_keys=True)
        assert notes(master) == {
            RESOURCE_HASH: sha256(text.encode()).hexdigest(),
            GROUP_SIZE: "1",
            ENVELOPES: "0",
        }
        (owner,) = master["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == ((await fleet.placement("web"))["metadata"]["uid"], True)
        await soon_equal(
            lambda: selected_by(fleet, "web"), [f"{one['kind']} {one['metadata']['name']}" for one in stored]
        )
        await soon_equal(lambda: selected_by(fleet, f"{namespace}/web"), ["Service front", "Deployment back"])
        assert [one["kind"] for one in await stored_objects(fleet, f"{namespace}/web")] == ["Service", "Deployment"]


def service(namespace: str) -> Json:
    metadata = {"name": "front", "namespace": namespace}
    return {"metadata": metadata, "spec": {"selector": {"app": "web"}, "type": "NodePort", "ports": [{"port": 80}]}}


def deployment(namespace: str) -> Json:
    labels = {"app": "web"}
    written = {"note": "kept", "deployment.kubernetes.io/revision": "4"}
    return {
        "metadata": {"name": "back", "namespace": namespace, "labels": labels, "annotations": written},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}},
        },
    }


def deployments_by(**labels: str) -> Json:
    return selector("Deployment", group="apps", labelSelector={"matchLabels": labels})


@story
async def test_content_follows_its_objects(hub: Hub) -> None:
    """Created, changed, relabelled and deleted objects, of both kinds of placements; what is the same makes nothing."""
    namespace = "e2e-following"
    async with places(hub) as fleet:
        await fleet.join("a", namespaces=(namespace,))
        await fleet.namespace(namespace)
        await fleet.place("web", ONE, selects=namespace_and(namespace, selector("ConfigMap")))
        await fleet.place(f"{namespace}/web", ONE, selects=[selector("ConfigMap", "settings")])
        both = ("web", f"{namespace}/web")
        await fleet.soon_told(f"{namespace}/web", "SelectorMatchedNothing")
        await fleet.master("web")  # without any settings: a group for each state of them follows
        assert notes(await fleet.master(f"{namespace}/web"))[RESOURCE_HASH] == NOTHING_SELECTED

        await fleet.config_map(f"{namespace}/settings", mode="slow")
        for key in both:
            await soon_equal(lambda key=key: stored_modes(fleet, key), ["slow"])
        await fleet.patch(CONFIG_MAPS, f"{namespace}/settings", {"data": {"mode": "fast"}})
        for key in both:
            await soon_equal(lambda key=key: stored_modes(fleet, key), ["fast"])
            await soon_equal(lambda key=key: observed_index(fleet, key), "2")
            latest = [one["metadata"]["labels"][IS_LATEST_SNAPSHOT] for one in await fleet.resources(key)]
            assert latest == ["false", "false", "true"]

        before = {key: names_of(await fleet.resources(key)) for key in both}
        written = {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}}
        await fleet.patch(CONFIG_MAPS, f"{namespace}/settings", written)
        await fleet.config_map(f"{namespace}/another", mode="other")
        await soon_equal(lambda: stored_modes(fleet, "web"), ["other", "fast"])
        assert names_of(await fleet.resources(both[1])) == before[both[1]]

        await fleet.delete(CONFIG_MAPS, f"{namespace}/settings")
        await soon_equal(lambda: stored_modes(fleet, "web"), ["other"])
        await soon_equal(lambda: stored_modes(fleet, both[1]), [])
        await soon_equal(lambda: selected_by(fleet, both[1]), [])


@story
async def test_large_content_is_split_and_old_groups_go(hub: Hub) -> None:
    namespace = "e2e-large"
    async with places(hub) as fleet:
        await fleet.join("a", namespaces=(namespace,))
        await fleet.namespace(namespace)
        names = [f"big-{number}" for number in range(4)]
        for name in names:
            await fleet.config_map(f"{namespace}/{name}", text="x" * 300 * KIB)
        both = ("web", f"{namespace}/web")
        for key in both:
            selects = [selector("ConfigMap")] if "/" in key else namespace_and(namespace, selector("ConfigMap"))
            await fleet.place(key, ONE, selects=selects, revisionHistoryLimit=2)
        for key in both:
            await soon_equal(lambda key=key: parts(fleet, key), ["web-0-0 0", "web-0-snapshot 2"])
            await soon_equal(lambda key=key: selected_by(fleet, key), listed(key, names))
            stored = [one["spec"]["selectedResources"] for one in await fleet.resources(key)]
            assert sum(map(len, stored)) == len(listed(key, names))

        for number in range(1, 4):
            await fleet.patch(CONFIG_MAPS, f"{namespace}/{names[0]}", {"data": {"more": str(number)}})
            for key in both:
                await soon_equal(lambda key=key, number=number: observed_index(fleet, key), str(number))
        for name in names[1:]:
            await fleet.delete(CONFIG_MAPS, f"{namespace}/{name}")
        for key in both:
            await soon_equal(lambda key=key: selected_by(fleet, key), listed(key, names[:1]))
            stored = await fleet.resources(key)
            assert len({index_in(one) for one in stored}) == 2
            assert part(stored[-1]) == f"{(await fleet.master(key))['metadata']['name']} 1"


def listed(key: str, names: list[str]) -> list[str]:
    found = [f"ConfigMap {name}" for name in names]
    return found if "/" in key else [_NAMESPACE, *found]


_NAMESPACE = "Namespace e2e-large"


async def parts(fleet: Places, key: str) -> list[str]:
    """Name, and the place in the group or its size."""
    return [part(one) for one in await fleet.resources(key)]


def part(snapshot: Json) -> str:
    found = notes(snapshot)
    return f"{snapshot['metadata']['name']} {found.get(SUBINDEX) or found[GROUP_SIZE]}"


@story
async def test_changes_are_collected_and_groups_are_not_made_too_often(hub: Hub) -> None:
    """Both changes have to be seen within the time of collection, whatever keeps the hub busy."""
    namespace, paced = "e2e-paced", ("resourceSnapshots.minimumInterval=10s", "resourceSnapshots.collectionTime=8s")
    async with places(hub, *paced) as fleet:
        await fleet.join("a")
        await fleet.namespace(namespace)
        await fleet.config_map(f"{namespace}/settings", mode="1")
        await fleet.place("web", ONE, selects=namespace_and(namespace, selector("ConfigMap")))
        first = await fleet.master("web")
        await soon_equal(lambda: observed_index(fleet, "web"), "0")

        await fleet.patch(CONFIG_MAPS, f"{namespace}/settings", {"data": {"mode": "2"}})
        await soon(lambda: seen_at(fleet))
        assert await observed_index(fleet, "web") == "0"
        await fleet.patch(CONFIG_MAPS, f"{namespace}/settings", {"data": {"mode": "3"}})
        await soon_equal(lambda: stored_modes(fleet, "web"), ["3"])

        (noticed,) = await seen_at(fleet)
        second = await fleet.master("web")
        assert second["metadata"]["name"] == "web-1-snapshot"
        created = parse_timestamp(second["metadata"]["creationTimestamp"])
        assert created >= parse_timestamp(first["metadata"]["creationTimestamp"]) + 10 * 10**9
        assert created >= parse_timestamp(noticed) + 8 * 10**9
        assert all(CHANGE_SEEN_AT not in notes(one) for one in await fleet.resources("web"))
        await soon_equal(lambda: observed_index(fleet, "web"), "1")


async def seen_at(fleet: Places) -> list[str]:
    """When the controller wrote down that a change was seen first, each time it did."""
    path = find_scope("web").resource_snapshot.item("web-0-snapshot")
    bodies = [one.body for one in fleet.overheard.requests if one.method is Method.PATCH and one.path == path]
    changes = [json.loads(body)["metadata"].get("annotations", {}) for body in bodies if body is not None]
    return [one[CHANGE_SEEN_AT] for one in changes if one.get(CHANGE_SEEN_AT)]


# --- what users get wrong ---------------------------------------------------------------------------------------------


@story
async def test_a_wrong_selection_touches_nothing_until_it_is_repaired(hub: Hub) -> None:
    namespace = "e2e-wrong"
    own = selector("ConfigMap", "settings")
    wrong: dict[str, tuple[str, list[Json]]] = {
        "web": ("PL-05", [selector("Gadget", group="example.com")]),
        "inside": ("PL-06", [own]),
        "nowhere": ("PL-11", namespace_and("e2e-nowhere", own)),
        "twice": ("PL-12", namespace_and(namespace, own, selector("ConfigMap"))),
        "reserved": ("PL-13", [selector("Namespace", "kube-system")]),
        "badly": ("PL-04", [selector("Namespace", labelSelector=_UNREADABLE)]),
        "x" * 64: ("PL-01", namespace_and(namespace, own)),
        f"{namespace}/other": ("PL-07", [selector("ClusterRole", "any", group="rbac.authorization.k8s.io")]),
        f"{namespace}/twice": ("PL-12", [own, own]),
    }
    async with places(hub, rolled_out=True) as fleet:
        await fleet.join("a", namespaces=(namespace,))
        await fleet.namespace(namespace)
        await fleet.config_map(f"{namespace}/settings", mode="1")
        right = {key: [own] if "/" in key else namespace_and(namespace, own) for key in wrong}
        for key, (_, selects) in wrong.items():
            first = right[key] if key == "web" else selects
            await fleet.place(key, ONE, selects=first)
        await soon_equal(lambda: fleet.in_use("web"), {"a"})
        await soon(lambda: is_complete(fleet, "web"))
        settled = await fleet.resources("web") + await fleet.bindings("web") + await fleet.policies("web")
        later = {name: f"{said} (old)" for name, said in (await fleet.says("web")).items() if name != "Scheduled"}

        await fleet.patch(find_scope("web").placement, "web", {"spec": {"resourceSelectors": wrong["web"][1]}})

        refused = {"Scheduled": "False InvalidResourceSelectors"}
        for key, (rule, _) in wrong.items():
            await fleet.soon_says(key, refused | (later if key == "web" else {}))
            assert (await fleet.message(key, "Scheduled")).startswith(f"{rule}: ")
            await fleet.soon_told(key, "PlacementSelectorInvalid")
            if key != "web":
                assert await nothing_of(fleet, key)
        assert await fleet.resources("web") + await fleet.bindings("web") + await fleet.policies("web") == settled

        del wrong["x" * 64]  # a name is for ever
        for key in wrong:
            await fleet.patch(find_scope(key).placement, key, {"spec": {"resourceSelectors": right[key]}})
        for key in wrong:
            await soon(lambda key=key: is_complete(fleet, key))
            assert (await selected_by(fleet, key))[-1] == "ConfigMap settings"


async def nothing_of(fleet: Places, key: str) -> bool:
    """Nothing could carry a label with a longer name."""
    return len(key) > 63 or not (await fleet.policies(key) + await fleet.resources(key) + await fleet.bindings(key))


_UNREADABLE: Json = {"matchExpressions": [{"key": "team", "operator": "In", "values": []}]}


async def is_complete(fleet: Places, key: str) -> bool:
    found = await fleet.says(key)
    return found.get("Available") == "True ResourceAvailable" and found["Scheduled"] == SCHEDULED_OK["Scheduled"]


@story
async def test_a_mistake_is_repaired_by_what_appears_on_the_hub(hub: Hub) -> None:
    namespace = "e2e-appearing"
    async with places(hub) as fleet:
        await fleet.join("a")
        await fleet.place("web", ONE, selects=namespace_and(namespace, selector("ConfigMap")))
        await fleet.soon_says("web", {"Scheduled": "False InvalidResourceSelectors"})
        await fleet.namespace(namespace)
        await fleet.config_map(f"{namespace}/settings", mode="1")
        await soon_equal(lambda: stored_modes(fleet, "web"), ["1"])
        await fleet.soon_says("web", SCHEDULED_OK | {"RolloutStarted": "Unknown RolloutStartedUnknown"})


@story
async def test_one_object_of_a_kind_everywhere(hub: Hub) -> None:
    """Cluster-scoped objects by name, by label and all of a kind."""
    async with places(hub) as fleet:
        await fleet.join("a")
        for name in ("e2e-red", "e2e-blue"):
            await fleet.create(CLUSTER_ROLES, {"metadata": {"name": name, "labels": {"e2e": name}}, "rules": []})
        kind = {"kind": "ClusterRole", "group": "rbac.authorization.k8s.io"}
        await fleet.place("named", ONE, selects=[selector(**kind, name="e2e-red")])
        expression = {"matchExpressions": [{"key": "e2e", "operator": "In", "values": ["e2e-red", "e2e-blue"]}]}
        await fleet.place("labelled", ONE, selects=[selector(**kind, labelSelector=expression)])
        await soon_equal(lambda: selected_by(fleet, "named"), ["ClusterRole e2e-red"])
        await soon_equal(lambda: selected_by(fleet, "labelled"), ["ClusterRole e2e-blue", "ClusterRole e2e-red"])
        await fleet.patch(CLUSTER_ROLES, "e2e-blue", {"metadata": {"labels": {"e2e": "green"}}})
        await soon_equal(lambda: selected_by(fleet, "labelled"), ["ClusterRole e2e-red"])
        for name in ("e2e-red", "e2e-blue"):
            await fleet.delete(CLUSTER_ROLES, name)


# --- the status for those who see one namespace only ------------------------------------------------------------------


@story
async def test_the_status_is_shown_in_the_namespace(hub: Hub) -> None:
    namespace, copy = "e2e-visible", "e2e-visible/web"
    async with places(hub, rolled_out=True) as fleet:
        await fleet.join_all({"a": {}, "b": {}})
        await fleet.namespace(namespace)
        await fleet.place(
            "web", ONE, selects=[selector("Namespace", namespace)], statusReportingScope="NamespaceAccessible"
        )
        await soon(lambda: is_complete(fleet, "web"))
        await soon_equal(lambda: copied(fleet, copy), await without_sync(fleet))
        assert (await fleet.says("web"))["StatusSynced"] == "True StatusSyncSucceeded"
        first = await fleet.get(COPIES, copy)
        placement = await fleet.placement("web")
        assert [one["uid"] for one in first["metadata"]["ownerReferences"]] == [placement["metadata"]["uid"]]

        await fleet.delete(COPIES, copy)
        again = await soon(lambda: fleet.find(COPIES, copy))
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        assert again["sourceStatus"] == first["sourceStatus"]

        await fleet.edit_policy("web", numberOfClusters=2)
        await fleet.soon_on("web", "a", "b")
        await soon(lambda: is_complete(fleet, "web"))
        await soon_equal(lambda: copied(fleet, copy), await without_sync(fleet))
        assert len((await copied(fleet, copy) or {})["placementStatuses"]) == 2

        await fleet.namespace("e2e-invisible")
        elsewhere = {"spec": {"resourceSelectors": [selector("Namespace", "e2e-invisible")]}}
        await fleet.patch(find_scope("web").placement, "web", elsewhere)
        await soon(lambda: is_refused(fleet, "PL-16"))
        assert await fleet.find(COPIES, "e2e-invisible/web") is None
        await soon_equal(lambda: copied(fleet, copy), await without_sync(fleet))


@story
async def test_a_status_that_cannot_be_shown(hub: Hub) -> None:
    async with places(hub) as fleet:
        await fleet.join("a")
        missing = [selector("Namespace", "e2e-missing")]
        await fleet.place("web", ONE, selects=missing, statusReportingScope="NamespaceAccessible")

        async def look() -> bool:
            return (await fleet.says("web")).get("StatusSynced") == "False StatusSyncFailed"

        await soon(look)
        await fleet.soon_told("web", "PlacementStatusSyncFailed")
        await fleet.namespace("e2e-missing")
        await soon(lambda: fleet.find(COPIES, "e2e-missing/web"))
        await soon_equal(lambda: synced(fleet), "True StatusSyncSucceeded")


async def synced(fleet: Places) -> str | None:
    return (await fleet.says("web")).get("StatusSynced")


async def is_refused(fleet: Places, rule: str) -> bool:
    return (await fleet.message("web", "Scheduled")).startswith(f"{rule}: ")


async def copied(fleet: Places, key: str) -> Json | None:
    found = await fleet.find(COPIES, key)
    return None if found is None else dict(found["sourceStatus"])


async def without_sync(fleet: Places) -> Json:
    status = await fleet.status("web")
    kept = [one for one in status["conditions"] if not one["type"].endswith("StatusSynced")]
    assert len(by_type(kept)) == len(status["conditions"]) - 1
    return status | {"conditions": kept}


# --- reading snapshots ------------------------------------------------------------------------------------------------


def notes(document: Json) -> dict[str, Any]:
    return document["metadata"].get("annotations") or {}


async def stored_objects(fleet: Places, key: str) -> list[Json]:
    """Of the latest group, if it has one part."""
    found: list[Json] = (await fleet.master(key))["spec"]["selectedResources"]
    return found


async def stored_modes(fleet: Places, key: str) -> list[str]:
    return [one["data"]["mode"] for one in await stored_objects(fleet, key) if one["kind"] == "ConfigMap"]


async def selected_by(fleet: Places, key: str) -> list[str]:
    return [f"{one['kind']} {one['name']}" for one in (await fleet.status(key)).get("selectedResources", ())]


async def observed_index(fleet: Places, key: str) -> str | None:
    return (await fleet.status(key)).get("observedResourceIndex")
