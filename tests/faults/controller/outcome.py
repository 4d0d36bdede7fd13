"""What a hub has come to, without what may differ between two good runs: names, times, versions, and explanations of
clusters that were not picked (a status that is lost with its process is not reconstructed word for word)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from fleet.hub.hub import Hub
from fleet.hub.storage.entries import StoredEntry
from fleet.kube.resource import Resource
from fleet.kube.scopes import CLUSTER_SCOPED, NAMESPACED
from fleet.model.keys import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_CLUSTERS,
    PARENT_PLACEMENT,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
    RESOURCE_INDEX,
)
from fleet.placement.status.namespaced_status import COPIES

Json = dict[str, Any]
Outcome = dict[str, Any]


def outcome_of(hub: Hub) -> Outcome:
    return {resource.plural: _told(resource, (one.document() for one in _stored(hub, resource))) for resource in _TOLD}


async def outcome_of_all(all_of: Callable[[Resource], Awaitable[list[Json]]]) -> Outcome:
    """The same, of a hub that has to be asked."""
    return {resource.plural: _told(resource, await all_of(resource)) for resource in _TOLD}


def _stored(hub: Hub, resource: Resource) -> Iterable[StoredEntry]:
    return hub.store.collection(f"{resource.plural}.{resource.group}").scan()


def _told(resource: Resource, documents: Iterable[Json]) -> list[Json]:
    return sorted((_TOLD[resource](one) for one in documents), key=str)


def _placement(document: Json) -> Json:
    return {
        "name": document["metadata"]["name"],
        **_finalizers(document),
        "status": _placement_status(document.get("status") or {}),
    }


def _placement_status(status: Json) -> Json:
    # Clusters that were not chosen come last and without a name of their own where there is no status to keep them in.
    chosen = [one for one in status.get("placementStatuses", ()) if one.get("clusterName")]
    clusters = [{**one, "conditions": _conditions(one)} for one in chosen if _is_scheduled(one)]
    return {
        "conditions": _conditions(status),
        "index": status.get("observedResourceIndex"),
        "resources": status.get("selectedResources"),
        "clusters": sorted(clusters, key=lambda one: str(one["clusterName"])),
    }


def _is_scheduled(cluster: Json) -> bool:
    return any(one["status"] == "True" for one in cluster.get("conditions", ()) if one["type"].endswith("Scheduled"))


def _conditions(status: Json) -> list[tuple[str, ...]]:
    names = ("type", "status", "reason", "observedGeneration")
    return sorted(tuple(str(one.get(name)) for name in names) for one in status.get("conditions", ()))


def _policy_snapshot(document: Json) -> Json:
    metadata, status = document["metadata"], document.get("status") or {}
    annotations = metadata["annotations"]
    return {
        **_owned(document, POLICY_INDEX),
        "policy": document["spec"].get("policy"),
        "wanted": annotations.get(NUMBER_OF_CLUSTERS),
        "generation": annotations.get(PLACEMENT_GENERATION),
        "observed": status.get("observedCRPGeneration"),
        "conditions": _conditions(status),
        "selected": sorted(one["clusterName"] for one in status.get("targetClusters", ()) if one["selected"]),
    }


def _binding(document: Json) -> Json:
    spec = document["spec"]
    return {
        **_owned(document),
        "cluster": spec["targetCluster"],
        "state": spec["state"],
        "policy": spec["schedulingPolicySnapshotName"],
        "resources": spec["resourceSnapshotName"],
        "terminating": "deletionTimestamp" in document["metadata"],
    }


def _resource_snapshot(document: Json) -> Json:
    return {**_owned(document, RESOURCE_INDEX), "spec": document["spec"]}


def _visible(document: Json) -> Json:
    metadata = document["metadata"]
    return {"key": (metadata["namespace"], metadata["name"]), "status": _placement_status(document["sourceStatus"])}


def _owned(document: Json, index: str = "") -> Json:
    labels = document["metadata"]["labels"]
    return {
        "owner": (document["metadata"].get("namespace", ""), labels[PARENT_PLACEMENT]),
        "index": labels.get(index),
        "latest": labels.get(IS_LATEST_SNAPSHOT),
        **_finalizers(document),
    }


def _finalizers(document: Json) -> Json:
    return {"finalizers": sorted(document["metadata"].get("finalizers") or ())}


_TOLD: Final[dict[Resource, Callable[[Json], Json]]] = {
    COPIES: _visible,
    **{
        resource: told
        for flavour in (CLUSTER_SCOPED, NAMESPACED)
        for resource, told in (
            (flavour.placement, _placement),
            (flavour.policy_snapshot, _policy_snapshot),
            (flavour.binding, _binding),
            (flavour.resource_snapshot, _resource_snapshot),
        )
    },
}


def difference(found: Outcome, wanted: Outcome) -> str:
    """Where two outcomes differ, for a person who has to find out why."""
    lines: list[str] = []
    for kind, each in wanted.items():
        lines += [f"{kind}: missing {one}" for one in each if one not in found[kind]]
        lines += [f"{kind}: unwanted {one}" for one in found[kind] if one not in each]
    return "\n".join(lines)
