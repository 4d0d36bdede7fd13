from __future__ import annotations

from typing import Any

from fleet.operator.ownership import MANAGER, has_fields_of_others, transfer_fields

TIME = "2026-11-27T09:00:00Z"
FIELDS = "FieldsV1"


def an_entry(manager: str, operation: str, fields: dict[str, Any], **others: str) -> dict[str, Any]:
    head = {"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": TIME, "fieldsType": FIELDS}
    return {**head, "fieldsV1": fields, **others}


def a_deployment(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"managedFields": list(entries)}}


STATUS = an_entry("kube-controller-manager", "Update", {"f:status": {"f:replicas": {}}}, subresource="status")
REVISION = an_entry("kube-controller-manager", "Update", {"f:metadata": {"f:annotations": {"f:revision": {}}}})


def test_O_12_what_controllers_own_stays_theirs() -> None:
    applied = an_entry(MANAGER, "Apply", {"f:spec": {"f:replicas": {}}})
    document = a_deployment(applied, REVISION, STATUS)
    assert not has_fields_of_others(document)
    assert transfer_fields(document) is None


def test_O_12_all_that_the_operator_created_is_as_if_it_had_applied_it() -> None:
    created = {"f:metadata": {"f:labels": {"f:app": {}}}, "f:spec": {"f:replicas": {}}}
    document = a_deployment(an_entry(MANAGER, "Update", created), STATUS)
    assert not has_fields_of_others(document)
    entries = transfer_fields(document)
    assert entries is not None
    (own, kept) = entries
    assert (own["manager"], own["operation"], own["fieldsV1"], kept) == (MANAGER, "Apply", created, STATUS)


def test_O_12_fields_of_others_join_those_that_were_applied() -> None:
    container = 'k:{"name":"scheduler"}'
    pod: dict[str, Any] = {"f:containers": {container: {".": {}, "f:image": {}}}}
    variable: dict[str, Any] = {"f:containers": {container: {"f:env": {}}}}
    restart: dict[str, Any] = {"f:annotations": {".": {}, "f:restarted": {}}}
    edit = {
        "f:metadata": {"f:labels": {"f:team": {}}},
        "f:spec": {"f:paused": {}, "f:template": {"f:metadata": restart, "f:spec": variable}},
    }
    document = a_deployment(
        an_entry(MANAGER, "Apply", {"f:spec": {"f:template": {"f:spec": pod}}}),
        an_entry("kubectl-edit", "Update", edit),
        an_entry("kubectl", "Update", {"f:spec": {"f:replicas": {}}}, subresource="scale"),
    )
    assert has_fields_of_others(document)
    entries = transfer_fields(document)
    assert entries is not None
    (own, kept) = entries
    both: dict[str, Any] = {"f:containers": {container: {".": {}, "f:image": {}, "f:env": {}}}}
    assert own["fieldsV1"] == {"f:spec": {"f:replicas": {}, "f:paused": {}, "f:template": {"f:spec": both}}}
    left = {"f:metadata": {"f:labels": {"f:team": {}}}, "f:spec": {"f:template": {"f:metadata": restart}}}
    assert (kept["manager"], kept["fieldsV1"]) == ("kubectl-edit", left)


def test_O_12_an_object_without_managed_fields_has_none_of_others() -> None:
    document = {"apiVersion": "v1", "metadata": {}}
    assert not has_fields_of_others(document)
    assert transfer_fields(document) is None
