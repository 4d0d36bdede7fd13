from __future__ import annotations

import copy
from typing import Any

from fleet.placement.selection.sanitizing import sanitize

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
REVISION = "deployment.kubernetes.io/revision"


def sanitised(document: dict[str, Any], *, api_version: str = "v1", kind: str = "ConfigMap") -> dict[str, Any]:
    return sanitize(copy.deepcopy(document), api_version=api_version, kind=kind)


def service(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = sanitised({"metadata": {"name": "web"}, "spec": spec}, kind="Service")["spec"]
    return found


def job(**spec: Any) -> dict[str, Any]:
    document = {"metadata": {"name": "once"}, "spec": spec}
    found: dict[str, Any] = sanitised(document, api_version="batch/v1", kind="Job")["spec"]
    return found


def test_what_belongs_to_the_hub_goes_and_the_rest_stays() -> None:
    metadata = {
        "name": "web",
        "namespace": "shop",
        "generateName": "we",
        "labels": {"a": "b"},
        "annotations": {LAST_APPLIED: "{}", REVISION: "3", "mine": "stays"},
        "finalizers": ["example.com/f"],
        "resourceVersion": "7",
        "generation": 2,
        "uid": "u",
        "selfLink": "/x",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [],
        "ownerReferences": [{"uid": "o"}],
    }
    assert sanitised({"metadata": metadata, "data": {"a": "b"}, "status": {"phase": "x"}}) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "web",
            "namespace": "shop",
            "generateName": "we",
            "labels": {"a": "b"},
            "annotations": {"mine": "stays"},
            "finalizers": ["example.com/f"],
        },
        "data": {"a": "b"},
    }


def test_annotations_that_become_empty_are_no_annotations() -> None:
    assert sanitised({"metadata": {"name": "a", "annotations": {LAST_APPLIED: "{}"}}})["metadata"] == {"name": "a"}


def test_what_the_hub_gave_a_service_goes() -> None:
    spec = service(
        clusterIP="10.0.0.1",
        clusterIPs=["10.0.0.1"],
        healthCheckNodePort=31000,
        ports=[{"port": 80, "nodePort": 30000}, {"port": 81}],
    )
    assert spec == {"ports": [{"port": 80}, {"port": 81}]}


def test_a_headless_service_stays_headless() -> None:
    assert service(clusterIP="None", clusterIPs=["None"]) == {"clusterIP": "None", "clusterIPs": ["None"]}


def test_only_services_of_the_core_group_have_cluster_addresses() -> None:
    document = {"metadata": {"name": "a"}, "spec": {"clusterIP": "10.0.0.1"}}
    kept = sanitised(document, api_version="serving.example.com/v1", kind="Service")
    assert kept["spec"] == {"clusterIP": "10.0.0.1"}


def test_a_job_loses_the_selector_that_the_hub_chose() -> None:
    uids = {"controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"}
    spec = job(
        selector={"matchLabels": {**uids}},
        template={"metadata": {"creationTimestamp": None, "labels": {**uids, "app": "x"}}, "spec": {}},
    )
    assert spec == {"selector": {"matchLabels": {}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": {}}}


def test_a_job_with_a_selector_of_its_own_keeps_it() -> None:
    spec = {"manualSelector": True, "selector": {"matchLabels": {"controller-uid": "mine"}}}
    assert job(**spec) == spec
