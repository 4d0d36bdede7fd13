from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.errors import DocumentError
from fleet.model.decoding import decode
from fleet.model.views import Binding, MemberCluster, Placement, PolicySnapshot


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def a_cluster(**parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": "c1", **parts.pop("metadata", {})},
        **parts,
    }


def test_a_document_becomes_its_view() -> None:
    document = a_cluster(spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    view = decode(encoded(document), MemberCluster).view
    assert view.metadata.name == "c1"
    assert [taint.key for taint in view.spec.taints] == ["gpu"]


def test_unknown_fields_survive_in_the_document() -> None:
    document = a_cluster(spec={"identity": {"kind": "User", "name": "m"}, "future": [1, {"a": None}]}, extra=True)
    assert decode(encoded(document), MemberCluster).document() == document


def test_changing_the_document_does_not_change_what_was_observed() -> None:
    observed = decode(encoded(a_cluster()), MemberCluster)
    observed.document()["metadata"]["name"] = "other"
    assert observed.document()["metadata"]["name"] == "c1"


def test_the_parts_of_a_placement_stay_encoded() -> None:
    raw = b'{"metadata":{"name":"web"},"spec":{"policy":{"placementType":"PickN"}}}'
    assert bytes(decode(raw, Placement).view.spec) == b'{"policy":{"placementType":"PickN"}}'


def test_nulls_stand_for_absent_fields_at_every_depth() -> None:
    document = a_cluster(
        metadata={"labels": None, "uid": None, "finalizers": None},
        spec={"taints": None},
        status={"agentStatus": [{"type": "MemberAgent", "conditions": None}], "properties": None},
    )
    view = decode(encoded(document), MemberCluster).view
    assert view.metadata.labels is None
    assert view.spec.taints == ()
    assert view.status.agent_status[0].conditions == ()


def test_nulls_stay_in_the_document() -> None:
    raw = encoded(a_cluster(metadata={"uid": None}, spec={"taints": None}))
    assert decode(raw, MemberCluster).raw == raw


def test_an_explicit_zero_score_is_told_from_an_absent_one() -> None:
    document = {
        "metadata": {"name": "b"},
        "spec": {"clusterDecision": {"clusterName": "c", "clusterScore": {"affinityScore": 0, "priorityScore": 0}}},
    }
    absent = {"metadata": {"name": "b"}, "spec": {"clusterDecision": {"clusterName": "c"}}}
    assert decode(encoded(document), Binding).view.spec.cluster_decision.cluster_score
    assert not decode(encoded(absent), Binding).view.spec.cluster_decision.cluster_score


@pytest.mark.parametrize(
    "document, field, value",
    [
        (a_cluster(spec={"taints": [{"key": "a"}, {"key": 5}]}), "spec.taints[1].key", 5),
        (a_cluster(metadata={"labels": {"a": "b", "tier": 7}}), "metadata.labels[tier]", 7),
        (a_cluster(metadata={"generation": "3"}), "metadata.generation", "3"),
        (a_cluster(status={"properties": {"p": {"value": "1"}, "q": {"value": []}}}), "status.properties[q].value", []),
        (
            a_cluster(status={"resourceUsage": {"available": {"cpu": True}}}),
            "status.resourceUsage.available[cpu]",
            True,
        ),
        (a_cluster(spec={"taints": [None]}), "spec.taints[0]", None),
        (a_cluster(spec="none"), "spec", "none"),
    ],
    ids=["list item", "label", "number as text", "property", "quantity", "null in a list", "whole part"],
)
def test_what_does_not_fit_is_named_by_object_field_and_value(
    document: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(DocumentError) as refusal:
        decode(encoded(document), MemberCluster)
    assert refusal.value.field == field
    assert refusal.value.value == value
    assert str(refusal.value).startswith(f"{field}: MemberCluster c1 cannot be read: Expected")
    assert str(refusal.value).endswith(json.dumps(value, separators=(",", ":")))


def test_a_namespaced_object_is_named_with_its_namespace() -> None:
    document = {"kind": "SchedulingPolicySnapshot", "metadata": {"namespace": "shop", "name": "web-0"}, "spec": 1}
    with pytest.raises(DocumentError, match="SchedulingPolicySnapshot shop/web-0 cannot be read"):
        decode(encoded(document), PolicySnapshot)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(DocumentError) as refusal:
        decode(encoded(a_cluster(spec="x" * 5000)), MemberCluster)
    assert len(str(refusal.value)) < 250


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"nonsense", b'{"metadata":{"name":"\xff"}}', b'{"spec": 1', b"[1"],
    ids=["empty", "open", "no JSON", "no UTF-8", "wrong and open", "open list"],
)
def test_what_is_no_json_is_a_document_error(raw: bytes) -> None:
    with pytest.raises(DocumentError, match="the document is not JSON"):
        decode(raw, MemberCluster)


def test_a_bottomless_document_is_a_document_error() -> None:
    with pytest.raises(DocumentError, match="nested too deeply"):
        decode(b'{"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}", MemberCluster)


@pytest.mark.parametrize("document", [[], 5, "text", None], ids=str)
def test_a_document_that_is_no_object_is_refused(document: object) -> None:
    with pytest.raises(DocumentError, match=r"the object \(no name\) cannot be read"):
        decode(encoded(document), MemberCluster)
