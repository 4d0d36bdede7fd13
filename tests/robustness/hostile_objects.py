"""Objects that the hub accepts, from a grammar of each kind: small and large, plain and odd, and patches of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

Json = dict[str, Any]

NAMES: Final = tuple(f"n{number}" for number in range(8))
"""Few: most of them exist, and are changed again and again."""
_KEYS: Final = ("tier", "region", "app.kubernetes.io/name", "a", "x" * 63, "example.com/" + "k" * 60)
_VALUES: Final = ("", "gold", "eu-west-1", "a", "v" * 63, "0", "true")
_TEXTS: Final = ("", "a", "💥", "null", "\u0000\u001f", "{}", "x" * 5_000, "é" * 400, "\r\n\t", "${HOME}")
_PROPERTIES: Final = ("kubernetes-fleet.io/node-count", "resources.kubernetes-fleet.io/total-cpu")
_QUANTITIES: Final = ("0", "1", "100m", "4Gi", "1e3", "0.5", "999999999", "12E")
_TIME: Final = "2026-01-02T03:04:05Z"
_PLACEMENT: Final = "placement.kubernetes-fleet.io/v1beta1"


@dataclass(frozen=True)
class Kind:
    path: str
    """Of the collection."""
    api_version: str
    kind: str
    build: Callable[[Random, str], Json]
    """All of an object with this name but kind, apiVersion and metadata."""
    status: Callable[[Random], Json] | None = None
    is_custom: bool = False
    is_stored: bool = True


def build_object(rng: Random, kind: Kind, name: str) -> Json:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **_build_metadata(rng)},
        **kind.build(rng, name),
    }


def build_merge_patch(rng: Random, kind: Kind, name: str) -> Json:
    """Some fields anew, some of them taken away."""
    patch: Json = {"metadata": {"labels": {rng.choice(_KEYS): rng.choice((None, *_VALUES))}}}
    fields = kind.build(rng, name)
    for field in rng.sample(sorted(fields), rng.randint(0, len(fields))):
        patch[field] = fields[field]
    return patch


def build_json_patch(rng: Random, kind: Kind, name: str) -> list[Json]:
    """On what all objects have."""
    fields = kind.build(rng, name)
    operations: list[Json] = [
        {"op": "add", "path": "/metadata/annotations", "value": {"note": rng.choice(_TEXTS)}},
        {"op": "test", "path": "/kind", "value": kind.kind},
        {"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/copied"},
        {"op": "move", "from": "/metadata/annotations/copied", "path": "/metadata/annotations/moved~1here"},
        {"op": "remove", "path": "/metadata/annotations/note"},
    ]
    chosen = operations[: rng.randint(1, len(operations))]
    return chosen + [{"op": "add", "path": f"/{field}", "value": value} for field, value in fields.items()]


def _build_metadata(rng: Random) -> Json:
    metadata: Json = {"labels": _pick_labels(rng)}
    if rng.random() < 0.3:
        count, length = rng.choice(((1, 100), (20, 20), (300, 5), (1, 200_000)))
        metadata["annotations"] = {f"a{number}": rng.choice("ab💥") * length for number in range(count)}
    if rng.random() < 0.05:
        metadata["finalizers"] = ["example.com/held"]
    if rng.random() < 0.05:
        owner = {"apiVersion": "v1", "kind": "Namespace", "name": "gone", "uid": "0"}
        metadata["ownerReferences"] = [owner | {"uid": str(number)} for number in range(rng.choice((1, 50)))]
    return metadata


def _pick_labels(rng: Random) -> dict[str, str]:
    if rng.random() < 0.05:
        return {f"k{number}": "v" for number in range(500)}
    return {key: rng.choice(_VALUES) for key in rng.sample(_KEYS, rng.randint(1, 3))}


def _pick_count(rng: Random) -> int:
    return rng.choice((1, 1, 1, 2, 3, 10, 40))


def _build_config_map(rng: Random, name: str) -> Json:
    size = rng.choice((1, 1, 100, 10_000, 200_000))
    return {"data": {f"key.{number}": rng.choice(_TEXTS)[:size] for number in range(_pick_count(rng))}}


def _build_lease(rng: Random, name: str) -> Json:
    return {"spec": {"holderIdentity": rng.choice(("a", "💥")), "leaseDurationSeconds": rng.choice((1, 15, 2**31 - 1))}}


def _build_event(rng: Random, name: str) -> Json:
    about = {"kind": "ConfigMap", "namespace": "default", "name": rng.choice(NAMES), "apiVersion": "v1"}
    return {"involvedObject": about, "reason": "Tried", "message": rng.choice(_TEXTS), "type": "Normal", "count": 3}


def _build_role(rng: Random, name: str) -> Json:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    return {"rules": [rule | {"resourceNames": [rng.choice(NAMES)]} for _ in range(_pick_count(rng))]}


def _build_access_review(rng: Random, name: str) -> Json:
    attributes = {"verb": rng.choice(("get", "*")), "resource": "configmaps", "name": rng.choice(NAMES)}
    return {"spec": {"user": rng.choice(("weak", "💥")), "groups": ["x"] * _pick_count(rng),
                     "resourceAttributes": attributes}}  # fmt: skip


def _build_token_review(rng: Random, name: str) -> Json:
    return {"spec": {"token": rng.choice(_TEXTS[1:])}}


def _build_selector(rng: Random) -> Json:
    operators = ({"operator": "Exists"}, {"operator": "In", "values": list(_VALUES)}, {"operator": "DoesNotExist"})
    expressions = [{"key": rng.choice(_KEYS), **rng.choice(operators)} for _ in range(_pick_count(rng))]
    return rng.choice(({"matchLabels": _pick_labels(rng)}, {"matchExpressions": expressions}))


def _build_term(rng: Random) -> Json:
    expression = {"name": rng.choice(_PROPERTIES), "operator": rng.choice(("Gt", "Eq")), "values": ["3"]}
    properties = {"matchExpressions": [expression]}
    return rng.choice(({"labelSelector": _build_selector(rng)}, {"propertySelector": properties}))


def _build_policy(rng: Random, name: str) -> Json:
    """The type of a placement stays as it is."""
    kind = ("PickAll", "PickN", "PickFixed")[NAMES.index(name) % 3]
    if kind == "PickFixed":
        return {"placementType": kind, "clusterNames": [f"c{number}" for number in range(_pick_count(rng))]}
    required = [_build_term(rng) for _ in range(min(_pick_count(rng), 10))]
    affinity: Json = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": required}}
    policy: Json = {"placementType": kind, "affinity": {"clusterAffinity": affinity}}
    policy["tolerations"] = [{"key": f"k{n}", "operator": "Exists"} for n in range(rng.choice((0, 1, 40)))]
    if kind == "PickN":
        policy["numberOfClusters"] = rng.choice((0, 1, 3, 2**31 - 1))
        preferred = [{"weight": rng.randint(-100, 100), "preference": {"labelSelector": _build_selector(rng)}}]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred * rng.choice((1, 30))
        spread = {"topologyKey": rng.choice(_KEYS[:4]), "maxSkew": rng.randint(1, 9)}
        policy["topologySpreadConstraints"] = [spread] * rng.choice((0, 1))
    return policy


def build_sized_policy(rng: Random, size: int) -> Json:
    """One of the lists of a policy has so many items."""
    expressions = [{"key": f"k{number}", "operator": "Exists"} for number in range(size)]
    terms = [{"labelSelector": {"matchLabels": {f"k{number}": "v"}}} for number in range(size)]
    preferred = [{"weight": 1, "preference": term} for term in terms]
    affinities = (
        {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}},
        {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
            {"labelSelector": {"matchExpressions": expressions}}]}},
        {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
    )  # fmt: skip
    policy: Json = rng.choice(({"placementType": "PickAll"}, {"placementType": "PickN", "numberOfClusters": 3}))
    others: tuple[Json, ...] = (
        {"tolerations": [{"key": f"k{number}", "operator": "Exists"} for number in range(size)]},
        {"topologySpreadConstraints": [{"topologyKey": f"k{number}", "maxSkew": 1} for number in range(size)]},
        {"placementType": "PickFixed", "clusterNames": [f"c{number}" for number in range(size)]},
    )
    chosen: Json = rng.choice((*others, *({"affinity": {"clusterAffinity": each}} for each in affinities)))
    return {**policy, **chosen}


def _build_placement(rng: Random, name: str) -> Json:
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": f"s{n}"} for n in range(_pick_count(rng))]
    return {"spec": {"resourceSelectors": selectors, "policy": _build_policy(rng, name), "revisionHistoryLimit": 3}}


def _build_namespaced_placement(rng: Random, name: str) -> Json:
    selectors = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": f"s{n}"} for n in range(_pick_count(rng))]
    return {"spec": {"resourceSelectors": selectors, "policy": _build_policy(rng, name), "revisionHistoryLimit": 3}}


def _build_cluster(rng: Random, name: str) -> Json:
    taints = [{"key": f"k{n}", "value": "v", "effect": "NoSchedule"} for n in range(rng.choice((0, 1, 30)))]
    identity = {"kind": "ServiceAccount", "name": "agent", "namespace": "fleet-system", "apiGroup": ""}
    return {"spec": {"identity": identity, "heartbeatPeriodSeconds": rng.choice((1, 60, 600)), "taints": taints}}


def _build_condition(rng: Random) -> Json:
    return {
        "type": rng.choice(("Joined", "Healthy")), "status": rng.choice(("True", "False", "Unknown")),
        "reason": "Tried", "message": rng.choice(_TEXTS), "lastTransitionTime": _TIME,
    }  # fmt: skip


def _build_cluster_status(rng: Random) -> Json:
    quantities = {f"r{n}": rng.choice(_QUANTITIES) for n in range(_pick_count(rng))}
    properties = {f"p{n}.example.com/x": {"value": rng.choice(_QUANTITIES), "observationTime": _TIME}
                  for n in range(_pick_count(rng))}  # fmt: skip
    agent = {"type": "MemberAgent", "conditions": [_build_condition(rng)], "lastReceivedHeartbeat": _TIME}
    usage = {"capacity": quantities, "allocatable": quantities, "available": quantities, "observationTime": _TIME}
    return {"conditions": [_build_condition(rng)], "properties": properties, "resourceUsage": usage,
            "agentStatus": [agent]}  # fmt: skip


def _build_thing(rng: Random, name: str) -> Json:
    texts = [str(number) for number in range(rng.choice((1, 10, 300)))]
    return {"spec": {"texts": texts, "text": "a" * rng.choice((0, 900, 50_000)), "any": rng.choice((3, "x"))}}


_DEFAULT: Final = "/api/v1/namespaces/default"
_CLUSTERS: Final = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
KINDS: Final = (
    Kind(f"{_DEFAULT}/configmaps", "v1", "ConfigMap", _build_config_map),
    Kind(f"{_DEFAULT}/events", "v1", "Event", _build_event),
    Kind(_LEASES, "coordination.k8s.io/v1", "Lease", _build_lease),
    Kind(_ROLES, "rbac.authorization.k8s.io/v1", "ClusterRole", _build_role),
    Kind(_ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", _build_access_review, is_stored=False),
    Kind(_TOKENS, "authentication.k8s.io/v1", "TokenReview", _build_token_review, is_stored=False),
    Kind(_CLUSTERS, "cluster.kubernetes-fleet.io/v1beta1", "MemberCluster", _build_cluster, _build_cluster_status,
         is_custom=True),
    Kind(f"/apis/{_PLACEMENT}/clusterresourceplacements", _PLACEMENT, "ClusterResourcePlacement", _build_placement,
         is_custom=True),
    Kind(f"/apis/{_PLACEMENT}/namespaces/default/resourceplacements", _PLACEMENT, "ResourcePlacement",
         _build_namespaced_placement, is_custom=True),
    Kind("/apis/hostile.example.com/v1/namespaces/default/things", "hostile.example.com/v1", "Thing", _build_thing,
         is_custom=True),
)  # fmt: skip
