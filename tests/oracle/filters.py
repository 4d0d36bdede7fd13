"""The filters of the default profile in their order, without topology spreading, which depends on the step."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from tests.oracle.affinity import affinity_rejection
from tests.oracle.documents import Json, condition_of, dig, name_of
from tests.oracle.eligibility import eligibility_failure
from tests.oracle.settings import Settings


@dataclass(frozen=True)
class Problem:
    """What one evaluation is about; nothing in it changes during a cycle."""

    clusters: list[Json]
    policy: Json
    namespace: str
    obsolete: frozenset[str]
    now: datetime.datetime
    settings: Settings


@dataclass(frozen=True)
class Rejection:
    plugin: str
    reason: str | None
    """None: the cluster is already selected, which is no reason against it."""


def static_rejection(cluster: Json, problem: Problem, holding: set[str]) -> Rejection | None:
    """The first filter before topology spreading that turns the cluster down."""
    checks = (
        ("ClusterAffinity", affinity_rejection(problem.policy, cluster)),
        ("ClusterEligibility", eligibility_rejection(cluster, problem)),
        ("NamespaceAffinity", namespace_rejection(cluster, problem.namespace)),
        ("TaintToleration", taint_rejection(cluster, problem.policy.get("tolerations") or [])),
    )
    for plugin, reason in checks:
        if reason is not None:
            return Rejection(plugin, reason)
    return Rejection("SamePlacementAntiAffinity", None) if name_of(cluster) in holding else None


def eligibility_rejection(cluster: Json, problem: Problem) -> str | None:
    failure = eligibility_failure(cluster, problem.now, problem.settings)
    if failure is None or (name_of(cluster) in problem.obsolete and failure.may_be_retained(problem.settings)):
        return None
    return failure.reason


def namespace_rejection(cluster: Json, namespace: str) -> str | None:
    collected = condition_of(dig(cluster, "status", "conditions"), "NamespaceCollectionSucceeded")
    namespaces = dig(cluster, "status", "namespaces")
    if not namespace or collected is None or namespace in (namespaces or {}):
        return None
    if collected.get("status") != "True":
        return None
    if namespaces is None:
        return "cluster has no namespace information available"
    return "target namespace does not exist on cluster"


def taint_rejection(cluster: Json, tolerations: list[Json]) -> str | None:
    for taint in dig(cluster, "spec", "taints") or []:
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            key, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
            return f"taint &{{Key:{key} Value:{value} Effect:{effect}}} cannot be tolerated"
    return None


def tolerates(toleration: Json, taint: Json) -> bool:
    key, value, effect = (toleration.get(field) or "" for field in ("key", "value", "effect"))
    if effect and effect != (taint.get("effect") or ""):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return not key or key == taint["key"]
        case "Equal":
            return bool(key == taint["key"] and value == (taint.get("value") or ""))
        case _:
            return False
