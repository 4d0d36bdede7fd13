"""Creating and changing objects: what is kept, what is counted, and who wins."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance.differences import wanted
from tests.conformance.documents import CLUSTERS, Object, a_cluster, a_config_map
from tests.conformance.hub import Hub
from tests.control_plane.http_client import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


@pytest.fixture
def cluster(hub: Hub, unique: str) -> Object:
    created: Object = hub.http.post(CLUSTERS, a_cluster(unique)).ok()
    return created


def _path(cluster: Object) -> str:
    return f"{CLUSTERS}/{cluster['metadata']['name']}"


def test_a_new_object_gets_its_metadata(cluster: Object) -> None:
    metadata = cluster["metadata"]
    assert metadata["generation"] == 1
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert int(metadata["resourceVersion"]) > 0


def test_defaults_are_filled_in(cluster: Object) -> None:
    assert cluster["spec"]["heartbeatPeriodSeconds"] == 60


def test_what_was_written_is_read_back(hub: Hub, cluster: Object) -> None:
    assert hub.http.get(_path(cluster)).ok() == cluster


def test_a_generated_name_has_five_letters_more(hub: Hub) -> None:
    names = {
        hub.http.post(hub.path("configmaps"), a_config_map(generateName="made-")).ok()["metadata"]["name"]
        for _ in range(3)
    }
    assert len(names) == 3
    assert all(re.fullmatch(r"made-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


def test_given_metadata_of_the_servers_own_is_ignored(hub: Hub) -> None:
    given = a_config_map("a", uid="mine", creationTimestamp="2000-01-01T00:00:00Z")
    metadata = hub.http.post(hub.path("configmaps"), given).ok()["metadata"]
    assert metadata["uid"] != "mine"
    assert not metadata["creationTimestamp"].startswith("2000")


def test_a_replacement_counts_as_a_generation(hub: Hub, cluster: Object) -> None:
    cluster["spec"]["heartbeatPeriodSeconds"] = 30
    replaced = hub.http.put(_path(cluster), cluster).ok()
    assert replaced["metadata"]["generation"] == 2
    assert int(replaced["metadata"]["resourceVersion"]) > int(cluster["metadata"]["resourceVersion"])


def test_a_label_is_no_generation(hub: Hub, cluster: Object) -> None:
    labelled = hub.http.patch(_path(cluster), {"metadata": {"labels": {"region": "eu"}}}).ok()
    assert labelled["metadata"]["generation"] == 1
    assert labelled["metadata"]["resourceVersion"] != cluster["metadata"]["resourceVersion"]


def test_a_change_that_changes_nothing_is_not_written(hub: Hub, cluster: Object) -> None:
    assert hub.http.patch(_path(cluster), {"spec": {"heartbeatPeriodSeconds": 60}}).ok() == cluster
    assert hub.http.put(_path(cluster), cluster).ok() == cluster


def test_the_second_of_two_writers_loses(hub: Hub, cluster: Object) -> None:
    hub.http.patch(_path(cluster), {"spec": {"heartbeatPeriodSeconds": 30}}).ok()
    answer = hub.http.put(_path(cluster), cluster | {"spec": cluster["spec"] | {"heartbeatPeriodSeconds": 31}})
    name = cluster["metadata"]["name"]
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert answer.message == (
        f'Operation cannot be fulfilled on memberclusters.cluster.kubernetes-fleet.io "{name}": {MODIFIED}'
    )


def test_a_patch_may_insist_on_a_version(hub: Hub, cluster: Object) -> None:
    answer = hub.http.patch(_path(cluster), {"metadata": {"resourceVersion": "1"}, "spec": {"identity": {"name": "b"}}})
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")


def test_a_custom_object_is_replaced_only_with_a_version(hub: Hub, cluster: Object) -> None:
    name = cluster["metadata"]["name"]
    answer = hub.http.put(_path(cluster), a_cluster(name))
    assert answer.status == 422
    assert answer.message == (
        f'memberclusters.cluster.kubernetes-fleet.io "{name}" is invalid: metadata.resourceVersion: '
        "Invalid value: 0: must be specified for an update"
    )


def test_a_built_in_object_is_replaced_without_a_version(hub: Hub) -> None:
    hub.http.post(hub.path("configmaps"), a_config_map("a")).ok()
    replaced = hub.http.put(hub.path("configmaps", "a"), a_config_map("a") | {"data": {"colour": "red"}}).ok()
    assert replaced["data"] == {"colour": "red"}


def test_a_new_object_has_no_version_yet(hub: Hub) -> None:
    answer = hub.http.post(hub.path("configmaps"), a_config_map("a", resourceVersion="5"))
    assert answer.status == wanted(hub.target, "status of a new object with a version", real=500)
    assert answer.message == "resourceVersion should not be set on objects to be created"


def test_what_cannot_change_cannot_be_changed(hub: Hub, cluster: Object) -> None:
    name = cluster["metadata"]["name"]
    changed = cluster | {"metadata": cluster["metadata"] | {"uid": "another"}}
    answer = hub.http.put(_path(cluster), changed)
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert f"Precondition failed: UID in precondition: another, UID in object meta: {cluster['metadata']['uid']}" in (
        answer.message
    )
    assert hub.http.get(f"{CLUSTERS}/{name}").ok() == cluster


# --- patches ----------------------------------------------------------------------------------------------------------


def test_a_merge_patch_removes_with_null(hub: Hub) -> None:
    hub.http.post(hub.path("configmaps"), a_config_map("a") | {"data": {"x": "1", "y": "2"}}).ok()
    patched = hub.http.patch(hub.path("configmaps", "a"), {"data": {"x": None, "z": "3"}}, kind=MERGE_PATCH).ok()
    assert patched["data"] == {"y": "2", "z": "3"}


def test_a_json_patch_is_all_or_nothing(hub: Hub) -> None:
    created = hub.http.post(hub.path("configmaps"), a_config_map("a")).ok()
    operations = [
        {"op": "replace", "path": "/data/colour", "value": "red"},
        {"op": "test", "path": "/data/colour", "value": "blue"},
    ]
    answer = hub.http.patch(hub.path("configmaps", "a"), operations, kind=JSON_PATCH)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert hub.http.get(hub.path("configmaps", "a")).ok() == created


@pytest.mark.parametrize(
    "operation, data",
    [
        ({"op": "add", "path": "/data/hue", "value": "x"}, {"colour": "green", "hue": "x"}),
        ({"op": "remove", "path": "/data/colour"}, None),
        ({"op": "move", "from": "/data/colour", "path": "/data/hue"}, {"hue": "green"}),
        ({"op": "copy", "from": "/data/colour", "path": "/data/hue"}, {"colour": "green", "hue": "green"}),
    ],
    ids=["add", "remove", "move", "copy"],
)
def test_a_json_patch_does(hub: Hub, operation: Object, data: Any) -> None:
    hub.http.post(hub.path("configmaps"), a_config_map("a")).ok()
    patched = hub.http.patch(hub.path("configmaps", "a"), [operation], kind=JSON_PATCH).ok()
    assert patched.get("data") == data


def test_a_json_patch_reaches_names_with_slashes(hub: Hub) -> None:
    hub.http.post(hub.path("configmaps"), a_config_map("a", annotations={"example.com/x": "1"})).ok()
    operation = {"op": "replace", "path": "/metadata/annotations/example.com~1x", "value": "2"}
    patched = hub.http.patch(hub.path("configmaps", "a"), [operation], kind=JSON_PATCH).ok()
    assert patched["metadata"]["annotations"] == {"example.com/x": "2"}


def test_a_strategic_patch_merges_lists_by_key(hub: Hub) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "secrets": [{"name": "x"}]}
    hub.http.post(hub.path("serviceaccounts"), account).ok()
    patch = {"secrets": [{"name": "y"}]}
    patched = hub.http.patch(hub.path("serviceaccounts", "a"), patch, kind=STRATEGIC_MERGE_PATCH).ok()
    assert sorted(secret["name"] for secret in patched["secrets"]) == ["x", "y"]


def test_custom_objects_take_no_strategic_patch(hub: Hub, cluster: Object) -> None:
    answer = hub.http.patch(_path(cluster), {}, kind=STRATEGIC_MERGE_PATCH)
    assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")
    assert answer.message == (
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, "
        "application/merge-patch+json, application/apply-patch+yaml"
    )


# --- dry run and field validation -------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing(hub: Hub, unique: str) -> None:
    answer = hub.http.post(CLUSTERS, a_cluster(unique), {"dryRun": "All"})
    assert answer.status == 201
    assert "resourceVersion" not in answer.json["metadata"]
    assert answer.json["spec"]["heartbeatPeriodSeconds"] == 60
    assert hub.http.get(f"{CLUSTERS}/{unique}").status == 404


def test_a_dry_run_of_a_deletion_deletes_nothing(hub: Hub, cluster: Object) -> None:
    hub.http.delete(_path(cluster), query={"dryRun": "All"}).ok()
    assert hub.http.get(_path(cluster)).ok() == cluster


def test_unknown_fields_are_dropped(hub: Hub, unique: str) -> None:
    created = hub.http.post(CLUSTERS, a_cluster(unique, colour="green")).ok()
    assert "colour" not in created["spec"]


def test_unknown_fields_are_warned_about(hub: Hub, unique: str) -> None:
    answer = hub.http.post(CLUSTERS, a_cluster(unique, colour="green"), {"fieldValidation": "Warn"})
    assert answer.status == 201
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'


def test_unknown_fields_are_refused_strictly(hub: Hub, unique: str) -> None:
    answer = hub.http.post(CLUSTERS, a_cluster(unique, colour="green"), {"fieldValidation": "Strict"})
    assert answer.status == 400
    assert answer.message == (
        'MemberCluster in version "v1" cannot be handled as a MemberCluster: strict decoding error: unknown field '
        '"spec.colour"'
    )


def test_duplicate_fields_are_refused_strictly(hub: Hub) -> None:
    body = b'{"apiVersion":"cluster.kubernetes-fleet.io/v1","kind":"MemberCluster","metadata":{"name":"c"},'
    body += b'"spec":{"heartbeatPeriodSeconds":1,"heartbeatPeriodSeconds":2,"identity":{"kind":"User","name":"x"}}}'
    answer = hub.http.request("POST", CLUSTERS, body=body, query={"fieldValidation": "Strict"})
    assert answer.status == 400
    assert answer.message.endswith('strict decoding error: duplicate field "spec.heartbeatPeriodSeconds"')


# --- status -----------------------------------------------------------------------------------------------------------

A_PROPERTY = {"value": "1", "observationTime": "2026-01-01T00:00:00Z"}


def test_a_new_object_has_no_status(hub: Hub, unique: str) -> None:
    created = hub.http.post(CLUSTERS, a_cluster(unique) | {"status": {"properties": {"a": A_PROPERTY}}}).ok()
    assert "status" not in created


def test_the_status_is_written_alone(hub: Hub, cluster: Object) -> None:
    written = cluster | {
        "status": {"properties": {"a": A_PROPERTY}},
        "spec": {"identity": {"kind": "User", "name": "z"}},
    }
    answer = hub.http.put(f"{_path(cluster)}/status", written).ok()
    assert answer["status"] == {"properties": {"a": A_PROPERTY}}
    assert answer["spec"] == cluster["spec"]
    assert answer["metadata"]["generation"] == 1


def test_the_status_does_not_label(hub: Hub, cluster: Object) -> None:
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"properties": {"a": A_PROPERTY}}}
    answer = hub.http.patch(f"{_path(cluster)}/status", patch).ok()
    assert "labels" not in answer["metadata"]


def test_the_object_does_not_write_its_status(hub: Hub, cluster: Object) -> None:
    hub.http.patch(f"{_path(cluster)}/status", {"status": {"properties": {"a": A_PROPERTY}}}).ok()
    answer = hub.http.patch(_path(cluster), {"status": None, "spec": {"heartbeatPeriodSeconds": 7}}).ok()
    assert answer["status"] == {"properties": {"a": A_PROPERTY}}
    assert answer["metadata"]["generation"] == 2


def test_the_status_can_be_read_alone(hub: Hub, cluster: Object) -> None:
    assert hub.http.get(f"{_path(cluster)}/status").ok() == cluster


def test_kinds_without_a_status_have_no_such_path(hub: Hub) -> None:
    path = "/apis/placement.kubernetes-fleet.io/v1/clusterresourceoverrides/x/status"
    assert hub.http.patch(path, {"status": {}}).status == 404
