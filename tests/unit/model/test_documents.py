from __future__ import annotations

from typing import Any

import pytest

from fleet.errors import DocumentError
from fleet.model.documents import read_document, read_written_document
from fleet.model.fields import check_fields
from fleet.model.kinds.placement import ClusterResourcePlacement


def a_placement(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}], **spec},
    }


def test_a_document_becomes_an_object_of_its_kind() -> None:
    placement = read_document(a_placement(policy={"placementType": "PickN", "numberOfClusters": 3}))
    assert isinstance(placement, ClusterResourcePlacement)
    assert placement.spec.policy is not None
    assert placement.spec.policy.number_of_clusters == 3


def test_what_was_not_given_has_the_defaults_of_the_api() -> None:
    placement = read_document(a_placement(policy={}))
    assert isinstance(placement, ClusterResourcePlacement)
    assert placement.spec.policy is not None
    assert placement.spec.policy.placement_type == "PickAll"
    assert placement.spec.strategy.type == "RollingUpdate"
    assert placement.spec.revision_history_limit == 10
    assert placement.spec.resource_selectors[0].selection_scope == "NamespaceWithResources"


def test_a_round_trip_returns_exactly_what_was_given() -> None:
    document = a_placement(
        policy={"placementType": "PickN", "numberOfClusters": 0, "clusterNames": [], "novel": {"a": [1, None]}},
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "10%"}},
    )
    document["future"] = {"field": True}
    document["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    assert read_document(document).to_document() == document


def test_nulls_in_the_metadata_are_absent_values() -> None:
    document = a_placement()
    document["metadata"]["creationTimestamp"] = None
    assert read_document(document).metadata.creation_timestamp is None


def test_everything_wrong_is_told_at_once_with_object_and_path() -> None:
    document = a_placement(
        policy={"placementType": "PickN", "clusterNames": ["c1"]},
        revisionHistoryLimit=0,
        strategy={"type": "Sometimes"},
    )
    with pytest.raises(DocumentError) as refusal:
        read_document(document)
    message = str(refusal.value)
    assert message.startswith("ClusterResourcePlacement web is invalid: ")
    assert "spec.policy: PO-05: PickN needs numberOfClusters and no clusterNames" in message
    assert "spec.revisionHistoryLimit: " in message
    assert "spec.strategy.type: " in message


def test_a_path_through_a_list_has_its_index() -> None:
    document = a_placement(resourceSelectors=[{"group": "", "version": "v1", "kind": "Secret"}, {"group": ""}])
    with pytest.raises(DocumentError, match=r"spec\.resourceSelectors\[1\]\.version: Field required"):
        read_document(document)


def test_a_wrong_item_does_not_make_its_list_too_short() -> None:
    document = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceOverride",
        "metadata": {"name": "o"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Secret"}],
            "policy": {"overrideRules": []},
        },
    }
    with pytest.raises(DocumentError) as refusal:
        read_document(document)
    assert "spec.resourceSelectors[0].name: Field required" in str(refusal.value)
    assert "spec.resourceSelectors:" not in str(refusal.value)
    assert "spec.policy.overrideRules: " in str(refusal.value)


def test_a_namespaced_object_is_named_with_its_namespace() -> None:
    document = a_placement(resourceSelectors=[])
    document["kind"] = "ResourcePlacement"
    document["metadata"]["namespace"] = "shop"
    with pytest.raises(DocumentError, match=r"ResourcePlacement shop/web is invalid: .*PL-02"):
        read_document(document)


@pytest.mark.parametrize(
    "document", [{}, {"kind": "Pod", "apiVersion": "v1"}, {"kind": "Work"}, {"kind": 5, "apiVersion": []}], ids=str
)
def test_a_foreign_kind_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(DocumentError, match="is not one of Fleet's"):
        read_document(document)


@pytest.mark.parametrize("wrong", ["60", True, 1.5], ids=str)
def test_a_number_of_another_type_is_refused_as_the_api_server_does(wrong: object) -> None:
    document = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": "c1"},
        "spec": {"identity": {"kind": "User", "name": "c1"}, "heartbeatPeriodSeconds": wrong},
    }
    with pytest.raises(DocumentError, match=r"MemberCluster c1 is invalid: spec\.heartbeatPeriodSeconds"):
        read_document(document)


def test_a_written_document_has_no_fields_that_its_kind_has_not() -> None:
    with pytest.raises(DocumentError) as refusal:
        read_written_document(a_placement(policy={"placementType": "PickN", "numberofClusters": 3}))

    unknown = "spec.policy.numberofClusters: unknown field; did you mean numberOfClusters?"
    assert refusal.value.field == "spec.policy.numberofClusters"
    assert refusal.value.message.startswith("ClusterResourcePlacement web is invalid: spec.policy: PO-05: ")
    assert refusal.value.message.endswith(f"; {unknown}")


def test_a_written_document_with_countless_mistakes_is_refused_with_some_of_them() -> None:
    document = a_placement() | {f"novel{number}": 1 for number in range(1000)}

    with pytest.raises(DocumentError) as refusal:
        read_written_document(document)

    assert refusal.value.message.count("unknown field") == 20


def test_of_countless_unknown_fields_in_one_mapping_the_first_hundred_are_compared_with_the_known_names() -> None:
    novel: dict[str, Any] = {f"novel{number}": 1 for number in range(1000)}

    _, problems = check_fields(a_placement() | novel, ClusterResourcePlacement)
    assert len(problems) == 100


def test_nulls_that_a_user_wrote_are_dropped_as_the_api_server_does() -> None:
    document = a_placement(policy=None, revisionHistoryLimit=None)

    assert read_written_document(document).to_document() == a_placement()
