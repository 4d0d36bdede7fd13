"""Deleting: at once, or when the last finalizer is gone."""

from __future__ import annotations

import re

import pytest

from tests.conformance.documents import CLUSTERS, Object, a_cluster, a_config_map
from tests.conformance.hub import Hub


@pytest.fixture
def config_map(hub: Hub) -> Object:
    created: Object = hub.http.post(hub.path("configmaps"), a_config_map("a")).ok()
    return created


@pytest.fixture
def held(hub: Hub) -> str:
    """The path of an object that is being deleted but held back."""
    path = hub.path("configmaps", "held")
    hub.http.post(hub.path("configmaps"), a_config_map("held", finalizers=["example.com/hold"])).ok()
    hub.http.delete(path).ok()
    return path


def test_a_deleted_object_is_gone(hub: Hub, config_map: Object) -> None:
    path = hub.path("configmaps", "a")
    answer = hub.http.delete(path).ok()
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": config_map["metadata"]["uid"]}
    assert hub.http.get(path).status == 404


def test_a_deleted_custom_object_is_gone(hub: Hub, unique: str) -> None:
    created = hub.http.post(CLUSTERS, a_cluster(unique)).ok()
    assert hub.http.delete(f"{CLUSTERS}/{unique}").ok()["details"] == {
        "name": unique,
        "group": "cluster.kubernetes-fleet.io",
        "kind": "memberclusters",
        "uid": created["metadata"]["uid"],
    }


def test_an_object_with_a_finalizer_stays_and_says_since_when(hub: Hub, held: str) -> None:
    metadata = hub.http.get(held).ok()["metadata"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["deletionTimestamp"])
    assert metadata["deletionGracePeriodSeconds"] == 0
    assert metadata["finalizers"] == ["example.com/hold"]


def test_deleting_it_again_changes_nothing(hub: Hub, held: str) -> None:
    before = hub.http.get(held).ok()
    assert hub.http.delete(held).ok() == before


def test_it_goes_with_its_last_finalizer(hub: Hub, held: str) -> None:
    hub.http.patch(held, {"metadata": {"finalizers": None}}).ok()
    assert hub.http.get(held).status == 404


def test_it_gets_no_new_finalizers(hub: Hub, held: str) -> None:
    answer = hub.http.patch(held, {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    assert answer.status == 422
    assert answer.message == (
        'ConfigMap "held" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is '
        'being deleted, found new finalizers []string{"example.com/more"}'
    )


def test_it_can_still_be_changed(hub: Hub, held: str) -> None:
    assert hub.http.patch(held, {"data": {"colour": "red"}}).ok()["data"] == {"colour": "red"}


def test_the_deletion_of_a_custom_object_counts_as_a_generation(hub: Hub, unique: str) -> None:
    hub.http.post(CLUSTERS, a_cluster(unique, metadata={"finalizers": ["example.com/hold"]})).ok()
    assert hub.http.delete(f"{CLUSTERS}/{unique}").ok()["metadata"]["generation"] == 2
    hub.http.patch(f"{CLUSTERS}/{unique}", {"metadata": {"finalizers": []}}).ok()


def test_a_deletion_may_insist_on_an_object(hub: Hub, config_map: Object) -> None:
    answer = hub.http.delete(hub.path("configmaps", "a"), {"preconditions": {"uid": "another"}})
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (another) does not match the UID '
        f"in record ({config_map['metadata']['uid']}). The object might have been deleted and then recreated"
    )


def test_a_deletion_may_insist_on_a_version(hub: Hub, config_map: Object) -> None:
    answer = hub.http.delete(hub.path("configmaps", "a"), {"preconditions": {"resourceVersion": "1"}})
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition (1) does not match '
        f"the ResourceVersion in record ({config_map['metadata']['resourceVersion']}). The object might have been "
        "modified"
    )


def test_a_collection_is_deleted_by_selector(hub: Hub) -> None:
    for name, colour in (("a", "red"), ("b", "red"), ("c", "blue")):
        hub.http.post(hub.path("configmaps"), a_config_map(name, labels={"colour": colour})).ok()
    answer = hub.http.delete(hub.path("configmaps"), query={"labelSelector": "colour=red"}).ok()
    assert answer["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
    left = hub.http.get(hub.path("configmaps")).ok()["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


@pytest.mark.parametrize(
    "policy, finalizers", [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])], ids=["foreground", "orphan"]
)
def test_dependents_are_dealt_with_first(hub: Hub, config_map: Object, policy: str, finalizers: list[str]) -> None:
    answer = hub.http.delete(hub.path("configmaps", "a"), {"propagationPolicy": policy}).ok()
    assert answer["metadata"]["finalizers"] == finalizers
