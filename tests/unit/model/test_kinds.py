"""Every kind, read and written again: complete documents made from the CRDs, and limits with a rule of their own."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.errors import DocumentError
from fleet.model.catalog import CATALOG, KindDefinition
from fleet.model.crd_generator import build_crd
from fleet.model.documents import read_document
from tests.unit.model.structural import broken_rules, value_problems

resources = pytest.mark.parametrize("resource", CATALOG, ids=lambda resource: resource.kind)

TEXTS = ["some text", "stage1", "10%", "1h", "16Gi"]
EMBEDDED = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": None, "b": [1, {}]}}
NOVELTY = {"since": "a later release", "empty": None, "list": [1, "a", {}]}

# Fields that exclude others, or that the first value of an enumeration forbids.
LEFT_OUT = [
    r"spec\.policy\.(clusterNames|numberOfClusters|topologySpreadConstraints)",
    r".*esourceSelectors\[\]\.labelSelector",
    r"spec\.minAvailable",
    r".*\.beforeStageTasks",
    r"spec\.topology\.highlyAvailableTopology",
    r"spec\.capacity\.clusterSelector",
]


def schema_of(resource: KindDefinition) -> dict[str, Any]:
    versions = build_crd(resource)["spec"]["versions"]
    (schema,) = [item["schema"]["openAPIV3Schema"] for item in versions if item["storage"]]
    return dict(schema)


def a_complete_document(resource: KindDefinition, *, novelties: bool = False) -> dict[str, Any]:
    """An object of the kind in which every field has a value and, if wanted, every part a field nobody knows."""
    schema = schema_of(resource)
    document = {
        name: a_value(inner, name, novelties=novelties)
        for name, inner in schema["properties"].items()
        if name not in ("apiVersion", "kind", "metadata")
    }
    if "sameClusters" in document.get("spec", {}):
        document["spec"]["topologyKey"] = ""  # a group has one or the other
    metadata = {"name": "one", "uid": "u", "labels": {"a": "b"}, "resourceVersion": "7"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **document}


def a_value(schema: dict[str, Any], path: str, *, novelties: bool) -> Any:
    if "default" in schema:
        return schema["default"]
    match schema.get("type"):
        case "object":
            return an_object(schema, path, novelties=novelties)
        case "array":
            return [a_value(schema["items"], f"{path}[]", novelties=novelties)]
        case "boolean":
            return True
        case "integer":
            return schema.get("maximum", 7)
    return a_text(schema)


def an_object(schema: dict[str, Any], path: str, *, novelties: bool) -> dict[str, Any]:
    if schema.get("x-kubernetes-embedded-resource"):
        return EMBEDDED
    if "additionalProperties" in schema:
        return {"some": a_value(schema["additionalProperties"], f"{path}{{}}", novelties=novelties)}
    values = {
        name: a_value(inner, f"{path}.{name}", novelties=novelties)
        for name, inner in schema["properties"].items()
        if not any(re.fullmatch(pattern, f"{path}.{name}") for pattern in LEFT_OUT)
    }
    return {**values, "novelty": NOVELTY} if novelties else values


def a_text(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return str(schema["enum"][0])
    return next(text for text in TEXTS if re.search(schema.get("pattern", ""), text))


@pytest.mark.cel
@resources
def test_a_complete_object_is_accepted_by_the_crd(resource: KindDefinition) -> None:
    document = a_complete_document(resource)
    assert value_problems(schema_of(resource), document) == []
    assert broken_rules(schema_of(resource), document) == []


@resources
def test_a_complete_object_survives_reading_and_writing(resource: KindDefinition) -> None:
    document = a_complete_document(resource)
    assert read_document(document).to_document() == document


@resources
def test_unknown_fields_survive_at_every_depth(resource: KindDefinition) -> None:
    document = a_complete_document(resource, novelties=True)
    assert read_document(document).to_document() == document


@resources
def test_what_the_crd_requires_is_required_here(resource: KindDefinition) -> None:
    for name in schema_of(resource).get("required", ()):
        document = a_complete_document(resource)
        del document[name]
        with pytest.raises(DocumentError, match=rf"{name}: Field required"):
            read_document(document)


@resources
def test_an_object_cannot_be_changed_in_place(resource: KindDefinition) -> None:
    found = read_document(a_complete_document(resource))
    with pytest.raises(ValueError, match="frozen"):
        found.metadata.name = "other"  # type: ignore[misc]


def a_spec(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    group = next(resource.api_version for resource in CATALOG if resource.kind == kind)
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "one"}, "spec": spec}


SECRETS = {"group": "", "version": "v1", "kind": "Secret"}


def a_placement(selectors: int = 1, **spec: Any) -> dict[str, Any]:
    return a_spec("ResourcePlacement", {"resourceSelectors": [SECRETS] * selectors, **spec})


def rolling(**update: Any) -> dict[str, Any]:
    return a_placement(strategy={"rollingUpdate": update})


@pytest.mark.parametrize(
    "document, message",
    [
        (a_placement(selectors=0), "PL-02: between 1 and 100 resource selectors are needed"),
        (a_placement(selectors=101), "PL-02: between 1 and 100 resource selectors are needed"),
        (a_placement(policy={"numberOfClusters": -1}), "PO-06: numberOfClusters must be 0 or more"),
        (
            a_placement(policy={"placementType": "PickFixed", "clusterNames": ["c"] * 101}),
            "PO-07: at most 100 cluster names are allowed",
        ),
        (
            a_placement(policy={"tolerations": [{"operator": "Exists"}] * 101}),
            "PO-07: at most 100 tolerations are allowed",
        ),
        (
            a_placement(
                policy={
                    "affinity": {
                        "clusterAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{}] * 11}
                        }
                    }
                }
            ),
            "PO-07: at most 10 terms are allowed",
        ),
        (rolling(maxSurge="101%"), "ST-03: maxSurge must be a whole number ≥ 0 or a percentage from 0 to 100"),
        (rolling(maxUnavailable="-1"), "ST-03: maxUnavailable must be a whole number ≥ 0 or a percentage"),
        (
            a_spec("ClusterResourcePlacementDisruptionBudget", {"minAvailable": "half"}),
            "DB-01: give maxUnavailable or minAvailable, as a whole number ≥ 0 or a percentage",
        ),
        (
            a_spec("StagedUpdateStrategy", {"stages": [{"name": "a", "maxConcurrency": "0%"}]}),
            "SU-02: maxConcurrency must be a whole number ≥ 1 or a percentage from 1 to 100",
        ),
        (
            a_spec("StagedUpdateStrategy", {"stages": [{"name": "a"}] * 32}),
            "SU-02: at most 31 stages are allowed",
        ),
    ],
)
def test_a_limit_with_a_rule_is_reported_with_it(document: dict[str, Any], message: str) -> None:
    with pytest.raises(DocumentError) as refusal:
        read_document(document)
    assert message in str(refusal.value)
    (schema,) = [schema_of(resource) for resource in CATALOG if resource.kind == document["kind"]]
    assert value_problems(schema, document) != []


@pytest.mark.parametrize("value", [0, 7, "0%", "100%", "7"], ids=repr)
def test_a_pace_is_a_count_or_a_percentage(value: int | str) -> None:
    assert read_document(rolling(maxSurge=value)).to_document()["spec"]["strategy"]["rollingUpdate"] == {
        "maxSurge": value
    }


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1, 99999999999999999999])
def test_a_number_that_its_format_cannot_hold_is_refused(number: int) -> None:
    policy = {"placementType": "PickN", "numberOfClusters": number}
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "x"}
    document = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": [selector], "policy": policy},
    }

    with pytest.raises(DocumentError, match="numberOfClusters"):
        read_document(document)
