"""What a document makes of the object it is applied to: as an apply on a hub."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.cli.input.object_merge import LAST_APPLIED, merge_document

Json = dict[str, Any]


def an_object(spec: Json, **metadata: Any) -> Json:
    return {"metadata": {"name": "web", "uid": "u-1", "generation": 3, **metadata}, "spec": spec}


def applied_by_kubectl(spec: Json, **labels: str) -> Json:
    """The annotation that `kubectl apply` leaves."""
    last = {"metadata": {"name": "web", "labels": labels}, "spec": spec}
    return {"annotations": {LAST_APPLIED: json.dumps(last)}}


def applied_by(manager: str, fields: Json, *, operation: str = "Apply", subresource: str = "") -> Json:
    entry = {"manager": manager, "operation": operation, "subresource": subresource, "fieldsV1": fields}
    return {"managedFields": [entry]}


def test_mappings_are_merged_and_lists_replaced() -> None:
    before = an_object({"policy": {"a": 1, "b": 2}, "taints": [1, 2]}, labels={"x": "1", "y": "1"})

    after = merge_document(before, an_object({"policy": {"b": 3}, "taints": [3]}, labels={"y": "2"}))

    assert after["spec"] == {"policy": {"a": 1, "b": 3}, "taints": [3]}
    assert after["metadata"]["labels"] == {"x": "1", "y": "2"}


def test_names_and_versions_stay_those_of_the_object() -> None:
    given = {"metadata": {"name": "web", "uid": "other", "resourceVersion": "1", "generation": 9}, "spec": {}}

    assert merge_document(an_object({}, resourceVersion="7"), given)["metadata"] == {
        "name": "web", "uid": "u-1", "resourceVersion": "7", "generation": 3,
    }  # fmt: skip


def test_a_field_that_kubectl_applied_before_leaves_with_it() -> None:
    before = an_object(
        {"policy": {"mine": 1, "other": 2, "count": 3}},
        labels={"mine": "1", "other": "1"},
        **applied_by_kubectl({"policy": {"mine": 1, "count": 3}}, mine="1"),
    )

    given = {"metadata": {"name": "web", "labels": {"new": "1"}}, "spec": {"policy": {"count": 4}}}
    after = merge_document(before, given)

    assert after["spec"] == {"policy": {"other": 2, "count": 4}}
    assert after["metadata"]["labels"] == {"other": "1", "new": "1"}


def test_a_mapping_that_kubectl_applied_before_leaves_whole() -> None:
    """Its patch sets the mapping to null."""
    before = an_object({}, labels={"mine": "1", "other": "1"}, **applied_by_kubectl({}, mine="1"))

    assert "labels" not in merge_document(before, {"metadata": {"name": "web"}, "spec": {}})["metadata"]


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "null"])
def test_an_unreadable_record_of_kubectl_removes_nothing(text: str) -> None:
    before = an_object({"a": 1}, annotations={LAST_APPLIED: text})

    assert merge_document(before, an_object({"b": 2}))["spec"] == {"a": 1, "b": 2}


FIELDS: Json = {
    "f:metadata": {"f:labels": {"f:mine": {}}},
    "f:spec": {"f:policy": {"f:affinity": {"f:cluster": {"f:required": {}}}, "f:count": {}}, "f:list": {"v:1": {}}},
}
OWNED: Json = {"policy": {"affinity": {"cluster": {"required": [1]}}, "count": 3, "other": 1}, "list": [1]}


def test_a_field_of_a_server_side_apply_leaves_with_it() -> None:
    before = an_object(OWNED, labels={"mine": "1", "other": "1"}, **applied_by("fleet-apply", FIELDS))

    after = merge_document(before, {"metadata": {"name": "web"}, "spec": {"policy": {"count": 4}}})

    assert after["spec"] == {"policy": {"count": 4, "other": 1}}
    assert after["metadata"]["labels"] == {"other": "1"}


@pytest.mark.parametrize(
    "record",
    [
        applied_by("other", FIELDS),
        applied_by("fleet-apply", FIELDS, operation="Update"),
        applied_by("fleet-apply", FIELDS, subresource="status"),
    ],
    ids=["another manager", "no apply", "a subresource"],
)
def test_fields_of_others_stay(record: Json) -> None:
    after = merge_document(an_object(OWNED, **record), {"metadata": {"name": "web"}, "spec": {"policy": {"count": 4}}})

    assert after["spec"] == {**OWNED, "policy": {**OWNED["policy"], "count": 4}}


def test_the_manager_can_be_named() -> None:
    before = an_object(OWNED, **applied_by("argocd-controller", FIELDS))

    after = merge_document(before, {"metadata": {"name": "web"}, "spec": {}}, manager="argocd-controller")

    assert after["spec"] == {"policy": {"other": 1}}


def test_a_field_that_another_manager_owns_as_well_stays() -> None:
    """As on a hub: `kubectl label` set it, an apply of the same value came later, and the file has it no more."""
    labels: Json = {"f:metadata": {"f:labels": {"f:region": {}, "f:env": {}}}}
    theirs: Json = {"f:metadata": {"f:labels": {".": {}, "f:region": {}}}}
    records = applied_by("fleet-apply", labels)["managedFields"]
    records += applied_by("kubectl-label", theirs, operation="Update")["managedFields"]
    before = an_object({}, labels={"region": "eu", "env": "test"}, managedFields=records)

    after = merge_document(before, an_object({}, labels={}))

    assert after["metadata"]["labels"] == {"region": "eu"}
