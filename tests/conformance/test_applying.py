"""Server-side apply: who owns which field, and what happens when two want the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.differences import wanted
from tests.conformance.documents import CLUSTER_API, CLUSTERS, Object, a_cluster, a_config_map
from tests.conformance.hub import Hub
from tests.control_plane.http_client import APPLY_PATCH, JSON_PATCH, Query, Response

A_TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


def _data(name: str, **data: str) -> Object:
    return a_config_map(name) | {"data": data}


def _owners(document: Object) -> dict[str, Any]:
    """What each manager owns, by manager and operation."""
    return {
        f"{entry['manager']} {entry['operation']}": entry["fieldsV1"] for entry in document["metadata"]["managedFields"]
    }


def _apply(hub: Hub, manager: str, *, force: bool = False, **data: str) -> Response:
    return hub.http.apply(hub.path("configmaps", "a"), _data("a", **data), manager=manager, force=force)


def test_applying_creates(hub: Hub) -> None:
    answer = _apply(hub, "one", x="1")
    assert answer.status == 201
    (entry,) = answer.json["metadata"]["managedFields"]
    assert entry.pop("time")
    assert entry == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:x": {}}},
    }


def test_applying_again_changes_nothing(hub: Hub) -> None:
    created = _apply(hub, "one", x="1").ok()
    again = _apply(hub, "one", x="1")
    assert again.status == 200
    assert again.json == created


def test_two_managers_can_agree(hub: Hub) -> None:
    _apply(hub, "one", x="1", y="1").ok()
    both = _apply(hub, "two", y="1", z="1").ok()
    assert both["data"] == {"x": "1", "y": "1", "z": "1"}
    assert _owners(both) == {
        "one Apply": {"f:data": {"f:x": {}, "f:y": {}}},
        "two Apply": {"f:data": {"f:y": {}, "f:z": {}}},
    }


def test_what_is_left_out_is_removed_unless_another_owns_it(hub: Hub) -> None:
    _apply(hub, "one", x="1", y="1").ok()
    _apply(hub, "two", y="1").ok()
    assert _apply(hub, "one", z="1").ok()["data"] == {"y": "1", "z": "1"}


def test_two_managers_can_disagree(hub: Hub) -> None:
    _apply(hub, "one", x="1").ok()
    answer = _apply(hub, "two", x="2")
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert answer.message == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert answer.json["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
    ]


def test_several_conflicts_are_counted(hub: Hub) -> None:
    _apply(hub, "one", x="1", y="1").ok()
    assert _apply(hub, "two", x="2", y="2").message == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .data.x\n- .data.y'
    )


def test_force_takes_the_field_over(hub: Hub) -> None:
    _apply(hub, "one", x="1", y="1").ok()
    taken = _apply(hub, "two", x="2", force=True).ok()
    assert taken["data"] == {"x": "2", "y": "1"}
    assert _owners(taken) == {"one Apply": {"f:data": {"f:y": {}}}, "two Apply": {"f:data": {"f:x": {}}}}


def test_a_plain_write_takes_the_field_over(hub: Hub) -> None:
    _apply(hub, "one", x="1", y="1").ok()
    query = {"fieldManager": "editor"}
    written = hub.http.patch(hub.path("configmaps", "a"), {"data": {"x": "2"}}, query).ok()
    assert _owners(written) == {
        "one Apply": {"f:data": {"f:y": {}}},
        "editor Update": {"f:data": {"f:x": {}}},
    }
    assert _apply(hub, "one", x="1").message == (
        'Apply failed with 1 conflict: conflict with "editor" using v1: .data.x'
    )


def test_a_created_object_belongs_to_its_creator(hub: Hub) -> None:
    created = hub.http.post(hub.path("configmaps"), _data("a", x="1"), {"fieldManager": "maker"}).ok()
    assert _owners(created) == {"maker Update": {"f:data": {".": {}, "f:x": {}}}}


def test_the_status_has_owners_of_its_own(hub: Hub, unique: str) -> None:
    path = f"{CLUSTERS}/{unique}"
    hub.http.apply(path, a_cluster(unique), manager="one").ok()
    usage = {"status": {"resourceUsage": {"observationTime": "2026-01-01T00:00:00Z"}}}
    patched = hub.http.patch(f"{path}/status", usage, {"fieldManager": "agent"}).ok()
    entries = {entry["manager"]: entry for entry in patched["metadata"]["managedFields"]}
    assert entries["agent"]["subresource"] == "status"
    assert entries["agent"]["operation"] == "Update"
    assert entries["agent"]["fieldsV1"] == {
        "f:status": {".": {}, "f:resourceUsage": {".": {}, "f:observationTime": {}}}
    }
    assert "subresource" not in entries["one"]


def test_atomic_fields_are_owned_whole(hub: Hub, unique: str) -> None:
    applied = hub.http.apply(f"{CLUSTERS}/{unique}", a_cluster(unique, taints=[A_TAINT]), manager="one").ok()
    assert applied["metadata"]["managedFields"][0]["apiVersion"] == CLUSTER_API
    assert _owners(applied) == {"one Apply": {"f:spec": {"f:identity": {}, "f:taints": {}}}}


def test_what_is_left_out_falls_back_to_its_default(hub: Hub, unique: str) -> None:
    path = f"{CLUSTERS}/{unique}"
    hub.http.apply(path, a_cluster(unique, heartbeatPeriodSeconds=5), manager="one").ok()
    assert hub.http.apply(path, a_cluster(unique), manager="one").ok()["spec"]["heartbeatPeriodSeconds"] == 60


def test_list_items_are_owned_by_their_key(hub: Hub) -> None:
    container = {"name": "web", "image": "web:1"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        },
    }
    path = hub.path("deployments", "web", version="apps/v1")
    spec = _owners(hub.http.apply(path, deployment, manager="one").ok())["one Apply"]["f:spec"]
    assert spec["f:selector"] == {}
    assert spec["f:template"]["f:spec"]["f:containers"] == {'k:{"name":"web"}': {".": {}, "f:image": {}, "f:name": {}}}


def test_owners_can_be_forgotten(hub: Hub) -> None:
    _apply(hub, "one", x="1").ok()
    operation = {"op": "replace", "path": "/metadata/managedFields", "value": [{}]}
    forgotten = hub.http.patch(hub.path("configmaps", "a"), [operation], kind=JSON_PATCH).ok()
    assert "managedFields" not in forgotten["metadata"]
    assert forgotten["data"] == {"x": "1"}


INVALID = 'PatchOptions.meta.k8s.io "" is invalid: '


@pytest.mark.parametrize(
    "query, message",
    [
        ({}, f"{INVALID}fieldManager: Required value: is required for apply patch"),
        ({"fieldManager": "x" * 129}, f"{INVALID}fieldManager: Too long: may not be more than 128 bytes"),
    ],
    ids=["nobody", "a long name"],
)
def test_a_manager_has_a_name(hub: Hub, query: Query, message: str) -> None:
    path = hub.path("configmaps", "a")
    answer = hub.http.patch(path, a_config_map("a"), query, kind=APPLY_PATCH)
    assert (answer.status, answer.message) == (422, message)


def test_force_is_for_applying(hub: Hub) -> None:
    _apply(hub, "one", x="1").ok()
    answer = hub.http.patch(hub.path("configmaps", "a"), {}, {"force": True})
    assert (answer.status, answer.message) == (
        422,
        f"{INVALID}force: Forbidden: may not be specified for non-apply patch",
    )


def test_owners_are_not_applied(hub: Hub) -> None:
    body = a_config_map("a", managedFields=[])
    answer = hub.http.apply(hub.path("configmaps", "a"), body, manager="one")
    assert (answer.status, answer.message) == (400, "metadata.managedFields must be nil")


def test_only_known_fields_can_be_owned(hub: Hub, unique: str) -> None:
    answer = hub.http.apply(f"{CLUSTERS}/{unique}", a_cluster(unique, colour="green"), manager="one")
    assert answer.status == wanted(hub.target, "status of applying an unknown field", real=500)
    assert answer.message == (
        f"failed to create typed patch object (/{unique}; {CLUSTER_API}, Kind=MemberCluster): .spec.colour: field not "
        "declared in schema"
    )


def test_what_is_applied_may_be_yaml(hub: Hub) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n"
    path = hub.path("configmaps", "a")
    headers = {"Content-Type": APPLY_PATCH}
    answer = hub.http.request("PATCH", path, body=body, query={"fieldManager": "one"}, headers=headers)
    assert answer.ok()["data"] == {"x": "1"}


@pytest.mark.servers
def test_a_table_of_contents_is_kept_apart_from_the_content(hub: Hub) -> None:
    """kubectl hides the owners unless it is asked for them."""
    _apply(hub, "one", x="1").ok()
    assert "managedFields" not in json.loads(hub.kubectl("get", "cm", "a", "-o", "json").ok())["metadata"]
    shown = hub.kubectl("get", "cm", "a", "-o", "json", "--show-managed-fields").ok()
    assert _owners(json.loads(shown)) == {"one Apply": {"f:data": {"f:x": {}}}}
