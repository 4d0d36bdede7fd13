"""Nine clusters whose decisions can be checked by hand, and short forms for placements on them.

c8 has a stale heartbeat, c9 is leaving.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.documents import (
    COUNT_ANNOTATION,
    GENERATION_ANNOTATION,
    PARENT_LABEL,
    PREFIX,
    PREVIOUS_STATE,
    SCHEDULER_FINALIZER,
    Json,
)

NOW = "2026-01-05T10:30:00Z"
FRESH = "2026-01-05T10:29:30Z"
STALE = "2026-01-05T10:00:00Z"
RATING = "example.com/efficiency-rating"
NODE_COUNT = PREFIX + "node-count"

#        region     env     nodes  rating  cpu              memory in Gi (both total/allocatable/available)
TABLE = """
    c1   east       prod    2      100     4/3/2            4/3/2
    c2   east       prod    4      60      8/7/4            8/7/4
    c3   east       canary  6      40      12/11/6          12/11/6
    c4   central    prod    2      80      8/6/2            4/2/1
    c5   central    prod    8      40      32/30/8          16/14/4
    c6   west       prod    2      60      4/2/1            8/6/4
    c7   west       canary  8      20      16/14/4          32/30/16
    c8   east       prod    1      100     8/6/0            8/6/0
"""


def example_clusters() -> list[Json]:
    rows = [cluster_of(*line.split()) for line in TABLE.strip().splitlines()]
    leaving = a_cluster("c9", labels={"region": "central", "env": "prod"})
    leaving["metadata"]["deletionTimestamp"] = FRESH
    return [*rows, leaving]


def cluster_of(name: str, region: str, env: str, nodes: str, rating: str, cpu: str, memory: str) -> Json:
    cluster = a_cluster(name, labels={"region": region, "env": env}, heartbeat=STALE if name == "c8" else FRESH)
    cluster["status"]["properties"] = {NODE_COUNT: {"value": nodes}, RATING: {"value": rating}}
    amounts = zip(("capacity", "allocatable", "available"), cpu.split("/"), memory.split("/"), strict=True)
    cluster["status"]["resourceUsage"] = {kind: {"cpu": cpus, "memory": f"{gib}Gi"} for kind, cpus, gib in amounts}
    return cluster


def a_cluster(name: str, *, labels: dict[str, str], heartbeat: str = FRESH) -> Json:
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": STALE} for kind in ("Joined", "Healthy")]
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": conditions}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"agentStatus": [agent]}}


def a_binding(cluster: str, state: str, *, snapshot: str, previous: str = "", **metadata: Any) -> Json:
    """All scores (0, 0), as if picked among equals."""
    metadata = {
        "name": f"web-{cluster}-{snapshot}",
        "labels": {PARENT_LABEL: "web"},
        "finalizers": [SCHEDULER_FINALIZER],
        **({"annotations": {PREVIOUS_STATE: previous}} if previous else {}),
        **metadata,
    }
    decision = {"clusterName": cluster, "selected": True, "reason": "picked before"}
    spec = {
        "state": state,
        "targetCluster": cluster,
        "resourceSnapshotName": "",
        "schedulingPolicySnapshotName": snapshot,
        "clusterDecision": {**decision, "clusterScore": {"affinityScore": 0, "priorityScore": 0}},
    }
    return {"metadata": metadata, "spec": spec}


def a_scenario(
    policy: Json | None,
    *bindings: Json,
    snapshot: str = "s1",
    clusters: list[Json] | None = None,
    uid: str = "",
) -> Json:
    """The placement `web` on the example fleet; N of a PickN policy becomes the annotation that counts."""
    annotations = {GENERATION_ANNOTATION: "7"}
    if policy and "numberOfClusters" in policy:
        annotations[COUNT_ANNOTATION] = str(policy["numberOfClusters"])
    metadata = {"name": snapshot, "generation": 1, "labels": {PARENT_LABEL: "web"}, "annotations": annotations}
    return {
        "now": NOW,
        "options": {},
        "memberClusters": example_clusters() if clusters is None else clusters,
        "policySnapshot": {"metadata": metadata, "spec": {"policy": policy} if policy is not None else {}},
        "bindings": list(bindings),
        "placementUid": uid,
    }


def pick_n(number: int, **policy: Any) -> Json:
    return {"placementType": "PickN", "numberOfClusters": number, **policy}


def hard(key: str, max_skew: int = 1) -> Json:
    return {"topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": "DoNotSchedule"}


def soft(key: str, max_skew: int = 1) -> Json:
    return {"topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": "ScheduleAnyway"}


def affinity(*, required: list[Json] | None = None, preferred: list[Json] | None = None) -> Json:
    terms: Json = {}
    if required is not None:
        terms["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": required}
    if preferred is not None:
        terms["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return {"clusterAffinity": terms}


def labelled(**labels: str) -> Json:
    return {"labelSelector": {"matchLabels": labels}}


def sorted_by(name: str, order: str) -> Json:
    return {"propertySorter": {"name": name, "sortOrder": order}}
