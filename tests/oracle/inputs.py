"""The input check before any write: annotations, placement type and the parts of the policy this type evaluates."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.oracle.affinity import preferred_terms, required_terms
from tests.oracle.documents import COUNT_ANNOTATION, GENERATION_ANNOTATION, RESOURCE_PREFIX, Json, annotations_of, dig
from tests.oracle.quantities import NotAQuantity, parse_quantity
from tests.oracle.selectors import USAGE_MAPS, split_resource

PICK_ALL, PICK_N, PICK_FIXED = "PickAll", "PickN", "PickFixed"
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
PROPERTY_OPERATORS = ("Eq", "Ne", "Gt", "Ge", "Lt", "Le")


class InputError(Exception):
    """The policy cannot be evaluated; the text says why."""


@dataclass(frozen=True)
class Inputs:
    generation: int
    placement_type: str
    wanted: int = 0


def policy_of(snapshot: Json) -> Json:
    return dig(snapshot, "spec", "policy") or {}


def placement_type_of(policy: Json) -> str:
    return policy.get("placementType") or PICK_ALL


def read_inputs(snapshot: Json) -> Inputs:
    generation = count_annotation(snapshot, GENERATION_ANNOTATION)
    policy = policy_of(snapshot)
    kind = placement_type_of(policy)
    if kind not in (PICK_ALL, PICK_N, PICK_FIXED):
        raise InputError(f"unknown placement type {kind!r}")
    wanted = count_annotation(snapshot, COUNT_ANNOTATION) if kind == PICK_N else 0
    if kind in (PICK_ALL, PICK_N):
        for term in required_terms(policy):
            check_label_selector(term.get("labelSelector"))
            check_property_selector(term.get("propertySelector"))
    if kind == PICK_N:
        for preferred in preferred_terms(policy):
            check_preferred(preferred)
    return Inputs(generation, kind, wanted)


def count_annotation(snapshot: Json, key: str) -> int:
    text = annotations_of(snapshot).get(key)
    if text is None:
        raise InputError(f"annotation {key} is missing")
    if not re.fullmatch(r"[0-9]+", text):
        raise InputError(f"annotation {key} is {text!r}, not a number of at least 0")
    return int(text)


def check_label_selector(selector: Json | None) -> None:
    for expression in (selector or {}).get("matchExpressions") or []:
        if expression.get("operator") not in LABEL_OPERATORS:
            raise InputError(f"label selector operator {expression.get('operator')!r} does not exist")


def check_property_selector(selector: Json | None) -> None:
    for expression in (selector or {}).get("matchExpressions") or []:
        check_property_name(expression["name"])
        if expression.get("operator") not in PROPERTY_OPERATORS:
            raise InputError(f"property operator {expression.get('operator')!r} does not exist")
        values = expression.get("values") or []
        if len(values) != 1:
            raise InputError(f"property {expression['name']} is compared with {len(values)} values instead of one")
        try:
            parse_quantity(values[0])
        except NotAQuantity as error:
            raise InputError(f"property {expression['name']}: {error}") from error


def check_property_name(name: str) -> None:
    if not name.startswith(RESOURCE_PREFIX):
        return
    capacity, resource = split_resource(name)
    if capacity not in USAGE_MAPS or not resource:
        raise InputError(f"{name!r} does not name a resource as total-, allocatable- or available-<resource>")


def check_preferred(preferred: Json) -> None:
    """A term of weight zero is never evaluated, and a property selector in a preferred term is ignored."""
    if not preferred.get("weight"):
        return
    term = preferred.get("preference") or {}
    check_label_selector(term.get("labelSelector"))
    if term.get("propertySorter") is not None:
        check_property_name(term["propertySorter"]["name"])
