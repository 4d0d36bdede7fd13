"""The objects the tests write, as a person would: only what is needed."""

from __future__ import annotations

from typing import Any, Final

CLUSTER_API: Final = "cluster.kubernetes-fleet.io/v1"
PLACEMENT_API: Final = "placement.kubernetes-fleet.io/v1"
CLUSTERS: Final = f"/apis/{CLUSTER_API}/memberclusters"
PLACEMENTS: Final = f"/apis/{PLACEMENT_API}/clusterresourceplacements"

Object = dict[str, Any]


def a_config_map(name: str = "", **metadata: Any) -> Object:
    named = {"name": name} if name else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named | metadata, "data": {"colour": "green"}}


def a_cluster(name: str = "", *, metadata: Object | None = None, **spec: Any) -> Object:
    named = {"name": name} if name else {}
    return {
        "apiVersion": CLUSTER_API,
        "kind": "MemberCluster",
        "metadata": named | (metadata or {}),
        "spec": {"identity": {"kind": "User", "name": "agent"}} | spec,
    }


def a_selector(name: str = "web", **fields: Any) -> Object:
    return {"group": "", "version": "v1", "kind": "Namespace", "name": name} | fields


def pick(number: int, **fields: Any) -> Object:
    return {"placementType": "PickN", "numberOfClusters": number} | fields


def a_placement(name: str, *, policy: Object | None = None, **spec: Any) -> Object:
    return {
        "apiVersion": PLACEMENT_API,
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [a_selector()]} | ({"policy": policy} if policy else {}) | spec,
    }
