"""Label selectors, property selectors and the terms made of them.

Everything here assumes that `inputs` has accepted the policy: operators and expected values are valid.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from tests.oracle.documents import RESOURCE_PREFIX, Json, dig, labels_of
from tests.oracle.quantities import NotAQuantity, parse_quantity

USAGE_MAPS = {"total": "capacity", "allocatable": "allocatable", "available": "available"}


def matches_term(term: Json, cluster: Json) -> bool:
    label_selector = term.get("labelSelector")
    property_selector = term.get("propertySelector")
    if label_selector is not None and not matches_labels(label_selector, labels_of(cluster)):
        return False
    return property_selector is None or matches_properties(property_selector, cluster)


def matches_labels(selector: Json, labels: dict[str, str]) -> bool:
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(holds_for_labels(expression, labels) for expression in selector.get("matchExpressions") or [])


def holds_for_labels(expression: Json, labels: dict[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    match expression["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise AssertionError(f"operator {expression['operator']!r} passed the input check")


def matches_properties(selector: Json, cluster: Json) -> bool:
    return all(holds_for_properties(expression, cluster) for expression in selector.get("matchExpressions") or [])


def holds_for_properties(expression: Json, cluster: Json) -> bool:
    observed = observed_property(cluster, expression["name"])
    if observed is None:
        return False
    expected = parse_quantity(expression["values"][0])
    match expression["operator"]:
        case "Eq":
            return observed == expected
        case "Ne":
            return observed != expected
        case "Gt":
            return observed > expected
        case "Ge":
            return observed >= expected
        case "Lt":
            return observed < expected
        case "Le":
            return observed <= expected
    raise AssertionError(f"operator {expression['operator']!r} passed the input check")


def observed_property(cluster: Json, name: str) -> Fraction | None:
    """The value on the cluster; None if it is missing or no quantity."""
    raw = raw_property(cluster, name)
    if raw is None:
        return None
    try:
        return parse_quantity(raw)
    except NotAQuantity:
        return None


def raw_property(cluster: Json, name: str) -> Any:
    if name.startswith(RESOURCE_PREFIX):
        capacity, resource = split_resource(name)
        return dig(cluster, "status", "resourceUsage", USAGE_MAPS[capacity], resource)
    return dig(cluster, "status", "properties", name, "value")


def split_resource(name: str) -> tuple[str, str]:
    capacity, _, resource = name.removeprefix(RESOURCE_PREFIX).partition("-")
    return capacity, resource
