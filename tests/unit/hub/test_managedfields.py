"""Server-side apply and the notes of other writes: what the recorded histories do not reach."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.errors import ApplyError
from fleet.hub.apply.managed_fields import ApplyResult, apply, track_update
from fleet.hub.schema.schema import compile_schema

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Document = dict[str, Any]


def a_config(labels: dict[str, str] | None = None, **data: str) -> Document:
    metadata: Document = {"name": "c"}
    if labels is not None:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def applied(live: Document | None, wanted: Document, manager: str = "me", **options: Any) -> ApplyResult:
    defaults: Document = {"manager": manager, "force": False, "schema": None, "now": EARLY}
    return apply(live, wanted, **defaults | options)


def updated(old: Document | None, new: Document, manager: str = "me", **options: Any) -> Document:
    defaults: Document = {"manager": manager, "schema": None, "now": EARLY}
    return track_update(old, new, **defaults | options)


def entries(document: Document) -> list[Document]:
    found: list[Document] = document["metadata"].get("managedFields", [])
    return found


def owned(document: Document, manager: str) -> Document:
    return next((entry["fieldsV1"] for entry in entries(document) if entry["manager"] == manager), {})


def test_creating_an_object_is_noted_with_manager_operation_version_and_time() -> None:
    assert entries(updated(None, a_config(a="1"), "kubectl-create")) == [
        {
            "manager": "kubectl-create",
            "operation": "Update",
            "apiVersion": "v1",
            "time": EARLY,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
        }
    ]


def test_nobody_manages_the_fields_that_every_typed_object_has() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "i"}]}}
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"type": "Recreate"},
        "template": template,
    }
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    container: Document = {'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}}
    labels: Document = {"f:labels": {".": {}, "f:a": {}}}
    want = {"f:metadata": labels, "f:spec": {"f:containers": container}}
    assert owned(updated(None, deployment), "me") == {
        "f:spec": {"f:replicas": {}, "f:selector": {}, "f:strategy": {"f:type": {}}, "f:template": want}
    }


def test_a_conflict_about_a_status_names_the_subresource() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    live = updated(pod, {**pod, "status": {"phase": "A"}}, "kubelet", subresource="status")
    assert live["metadata"] == {"name": "p"}
    live = updated(None, {**pod, "status": {"phase": "A"}}, "kubelet", subresource="status")
    result = applied(live, {**pod, "status": {"phase": "B"}})
    want = 'Apply failed with 1 conflict: conflict with "kubelet" with subresource "status" using v1: .status.phase'
    assert result.message == want


def test_several_conflicts_are_grouped_by_manager() -> None:
    live = applied(updated(None, a_config(a="1", b="1"), "first"), a_config(c="1"), "second").object
    result = applied(live, a_config(a="2", b="2", c="2"))
    assert result.message == (
        'Apply failed with 3 conflicts: conflicts with "first" using v1:\n- .data.a\n- .data.b\n'
        'conflicts with "second":\n- .data.c'
    )


def test_an_object_that_was_never_applied_belongs_to_the_past() -> None:
    result = applied(a_config(a="1"), a_config(b="1")).object
    assert [entry["manager"] for entry in entries(result)] == ["me", "before-first-apply"]
    assert (
        applied(a_config(a="1"), a_config(a="2")).conflicts[0].message.startswith('conflict with "before-first-apply"')
    )


def test_an_update_that_changes_nothing_keeps_the_time() -> None:
    first = updated(None, a_config(a="1"))
    assert updated(first, a_config(a="1"), now=LATE) == first


def test_another_update_of_the_same_manager_extends_its_entry() -> None:
    first = updated(None, a_config(a="1"))
    second = updated(first, a_config(a="1", b="1"), now=LATE)
    assert [(entry["time"], entry["fieldsV1"]) for entry in entries(second)] == [
        (LATE, {"f:data": {".": {}, "f:a": {}, "f:b": {}}})
    ]


def test_removed_fields_belong_to_nobody() -> None:
    first = updated(None, a_config(a="1", b="1"), "first")
    assert owned(updated(first, a_config(a="1"), "second"), "first") == {"f:data": {".": {}, "f:a": {}}}


@pytest.mark.parametrize("nothing", [[], [{}]])
def test_an_empty_list_erases_all_notes(nothing: list[Any]) -> None:
    live = updated(None, a_config(a="1"))
    new = a_config(a="1")
    new["metadata"]["managedFields"] = nothing
    assert entries(updated(live, new)) == []


def test_without_notes_nothing_is_noted_on_update() -> None:
    assert entries(updated(a_config(a="1"), a_config(a="2"))) == []


def test_notes_in_a_request_count() -> None:
    """This is how kubectl turns a client-side manager into a server-side one."""
    live = updated(None, a_config(a="1"), "kubectl-client-side-apply")
    new = a_config(a="1")
    new["metadata"]["managedFields"] = [{**entries(live)[0], "manager": "kubectl", "operation": "Apply"}]
    migrated = updated(live, new, "kubectl")
    assert [(entry["manager"], entry["operation"]) for entry in entries(migrated)] == [("kubectl", "Apply")]
    assert "a" not in applied(migrated, a_config(b="1"), "kubectl").object["data"]


@pytest.mark.parametrize(
    "broken",
    [
        {"manager": "x"},
        {"manager": "x", "operation": "Frob", "apiVersion": "v1", "fieldsType": "FieldsV1"},
        {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"},
        {"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"q:x": {}}},
        {"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"k:nonsense": {}}},
        {"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": 5},
        "x",
    ],
)
def test_notes_that_cannot_be_read_are_ignored(broken: Any) -> None:
    live = updated(None, a_config(a="1"))
    new = a_config(a="1")
    new["metadata"]["managedFields"] = [broken]
    assert entries(updated(live, new)) == entries(live)


def test_notes_cannot_be_written_through_a_subresource() -> None:
    live = updated(None, a_config(a="1"))
    new = a_config(a="1")
    new["metadata"]["managedFields"] = []
    assert entries(updated(live, new, subresource="status")) == entries(live)


def test_many_managers_that_update_are_merged_into_ancient_changes() -> None:
    live = updated(None, a_config(k0="0"), "m0")
    for number in range(1, 13):
        data = {**live["data"], f"k{number}": "0"}
        live = updated(live, {**live, "data": data}, f"m{number}", now=f"2026-01-01T00:00:{number:02}Z")
    names = [entry["manager"] for entry in entries(live)]
    assert names == ["ancient-changes", *(f"m{number}" for number in range(4, 13))]
    assert owned(live, "ancient-changes") == {"f:data": {".": {}, **{f"f:k{number}": {} for number in range(4)}}}


def test_kubectl_may_take_over_what_it_applied_on_the_client_side() -> None:
    config = a_config(a="1")
    config["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(a_config(a="1"))}
    live = updated(None, config, "kubectl-client-side-apply")
    assert applied(live, a_config(a="2"), "someone").conflicts
    result = applied(live, a_config(a="2"), "kubectl").object
    assert result["data"] == {"a": "2"}
    assert json.loads(result["metadata"]["annotations"][LAST_APPLIED])["data"] == {"a": "2"}


def test_kubectl_may_not_take_over_what_changed_since() -> None:
    config = a_config(a="9")
    config["metadata"]["annotations"] = {LAST_APPLIED: json.dumps(a_config(a="1"))}
    assert applied(updated(None, config, "other"), a_config(a="2"), "kubectl").conflicts


def test_fields_that_an_endpoint_does_not_write_are_left_out() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n"}}
    new = {**pod, "status": {"phase": "A"}}
    assert owned(updated(None, new, ignored=frozenset({"status"})), "me") == {"f:spec": {"f:nodeName": {}}}


SCHEMA = compile_schema(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "items": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
                    },
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                },
            }
        },
    }
)


@pytest.mark.parametrize(
    "spec, text",
    [
        ({"items": [{"name": "a"}, {"name": "a"}]}, '.spec.items: duplicate entries for key [name="a"]'),
        ({"tags": ["a", "a"]}, '.spec.tags: duplicate entries for key [="a"]'),
        ({"frob": 1}, ".spec.frob: field not declared in schema"),
        ({"items": [None]}, ".spec.items: element 0: associative list with keys may not have a null element"),
        (
            {"items": [{}]},
            '.spec.items: element 0: associative list with keys has an element that omits all key fields ["name"]'
            " (and doesn't have default values for any key fields)",
        ),
    ],
)
def test_what_does_not_fit_the_schema_is_not_applied(spec: Document, text: str) -> None:
    apple = {"apiVersion": "d.example.com/v1", "kind": "Apple", "metadata": {"name": "q"}, "spec": spec}
    with pytest.raises(ApplyError) as raised:
        applied(None, apple, schema=SCHEMA)
    assert str(raised.value) == f"failed to create typed patch object (/q; d.example.com/v1, Kind=Apple): {text}"
