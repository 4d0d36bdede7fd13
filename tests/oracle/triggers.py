"""Whether a placement reacts to a change of a member cluster, read off the documents without any index."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

from tests.oracle.documents import (
    GENERATION_ANNOTATION,
    RESOURCE_PREFIX,
    Json,
    annotations_of,
    condition_of,
    dig,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
)
from tests.oracle.eligibility import eligibility_failure
from tests.oracle.filters import tolerates
from tests.oracle.quantities import NotAQuantity, parse_quantity
from tests.oracle.selectors import USAGE_MAPS, raw_property, split_resource
from tests.oracle.settings import Settings


def reacts(snapshot: Json, old: Json | None, new: Json | None, now: datetime.datetime, settings: Settings) -> bool:
    """After the initial sync."""
    if new is None:
        return old is not None
    if is_terminating(new):
        return False
    welcome = (old is None or eligibility_failure(old, now, settings) is not None) and (
        eligibility_failure(new, now, settings) is None
    )
    policy = dig(snapshot, "spec", "policy") or {}
    match policy.get("placementType") or "PickAll":
        case "PickAll":
            return welcome or (old is not None and reads_a_difference(snapshot, policy, old, new))
        case "PickN":
            return is_short(snapshot) and (
                welcome or (old is not None and reads_a_difference(snapshot, policy, old, new))
            )
        case "PickFixed":
            return is_short(snapshot) and welcome and name_of(new) in (policy.get("clusterNames") or [])
    return False


def is_short(snapshot: Json) -> bool:
    condition = condition_of(dig(snapshot, "status", "conditions"), "Scheduled") or {}
    generation = annotations_of(snapshot).get(GENERATION_ANNOTATION, "")
    return not (
        condition.get("status") == "True"
        and condition.get("observedGeneration") == snapshot["metadata"]["generation"]
        and generation.isdecimal()
        and dig(snapshot, "status", "observedCRPGeneration") == int(generation)
    )


def reads_a_difference(snapshot: Json, policy: Json, old: Json, new: Json) -> bool:
    return (
        any(labels_of(old).get(key) != labels_of(new).get(key) for key in label_keys(policy))
        or any(differs(old, new, name) for name in property_names(policy))
        or lost_a_hindrance(policy, old, new)
        or (bool(namespace_of(snapshot)) and namespace_differs(namespace_of(snapshot), old, new))
    )


def terms(policy: Json) -> tuple[list[Json], list[Json]]:
    affinity = dig(policy, "affinity", "clusterAffinity") or {}
    required = dig(affinity, "requiredDuringSchedulingIgnoredDuringExecution", "clusterSelectorTerms") or []
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    return required, [one["preference"] for one in preferred]


def label_keys(policy: Json) -> Iterator[str]:
    for constraint in policy.get("topologySpreadConstraints") or []:
        yield constraint["topologyKey"]
    required, preferred = terms(policy)
    for term in required + preferred:
        yield from dig(term, "labelSelector", "matchLabels") or {}
        for expression in dig(term, "labelSelector", "matchExpressions") or []:
            yield expression["key"]


def property_names(policy: Json) -> Iterator[str]:
    required, preferred = terms(policy)
    for term in required:
        for expression in dig(term, "propertySelector", "matchExpressions") or []:
            yield expression["name"]
    for term in preferred:
        if term.get("propertySorter"):
            yield term["propertySorter"]["name"]


def differs(old: Json, new: Json, name: str) -> bool:
    if not name.startswith(RESOURCE_PREFIX):
        return bool(raw_property(old, name) != raw_property(new, name))
    capacity, resource = split_resource(name)
    if capacity not in USAGE_MAPS or not resource:
        return False
    return bool(by_value(raw_property(old, name)) != by_value(raw_property(new, name)))


def by_value(raw: Any) -> Any:
    try:
        return None if raw is None else parse_quantity(raw)
    except NotAQuantity:
        return str(raw)


def lost_a_hindrance(policy: Json, old: Json, new: Json) -> bool:
    left = [triple(taint) for taint in dig(new, "spec", "taints") or []]
    return any(
        triple(taint) not in left and not any(tolerates(one, taint) for one in policy.get("tolerations") or [])
        for taint in dig(old, "spec", "taints") or []
    )


def triple(taint: Json) -> tuple[str, str, str]:
    return taint["key"], taint.get("value") or "", taint.get("effect") or ""


def namespace_differs(namespace: str, old: Json, new: Json) -> bool:
    before, after = (namespace in (dig(one, "status", "namespaces") or {}) for one in (old, new))
    return before != after or lost_confirmation(collection(old), collection(new))


def collection(cluster: Json) -> str | None:
    found = condition_of(dig(cluster, "status", "conditions"), "NamespaceCollectionSucceeded")
    return None if found is None else str(found["status"])


def lost_confirmation(before: str | None, after: str | None) -> bool:
    return before is not None and (after is None or (before == "True" and after != "True"))
