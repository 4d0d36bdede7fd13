"""The cluster does what installations rely on: pods that are scheduled, run and end, rights that add up, an audit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.control_plane.cluster import NODE, ClearedCluster, Cluster
from tests.control_plane.http_client import HttpClient
from tests.control_plane.waiting import soon

PODS = "/api/v1/namespaces/default/pods"
NAMESPACES = "/api/v1/namespaces"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/v1/things"
RIGHTS = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def cluster(clusters: ClearedCluster) -> Cluster:
    return clusters.cleared()


def a_pod(name: str, *, image: str = "none", **spec: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": image}], **spec}}


@pytest.mark.parametrize(
    "policy, image, phase",
    [("Always", "none:1", "Running"), ("Never", "none:1", "Succeeded"), ("Never", "none:broken", "Failed")],
)
def test_a_pod_is_scheduled_and_lives_as_it_is_meant_to(cluster: Cluster, policy: str, image: str, phase: str) -> None:
    client, name = HttpClient(cluster.access), phase.lower()
    client.post(PODS, a_pod(name, image=image, restartPolicy=policy)).ok()
    soon(lambda: client.get(f"{PODS}/{name}").ok()["status"]["phase"] == phase)
    assert client.get(f"{PODS}/{name}").ok()["spec"]["nodeName"] == NODE


def test_a_pod_whose_volume_nobody_has_waits(cluster: Cluster) -> None:
    client = HttpClient(cluster.access)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    client.post(PODS, a_pod("waits", volumes=[volume])).ok()

    def is_refused() -> bool:
        conditions = client.get(f"{PODS}/waits").ok()["status"].get("conditions", ())
        return any("missing" in one.get("message", "") for one in conditions)

    soon(is_refused)


def test_a_namespace_goes_with_everything_in_it(cluster: Cluster) -> None:
    client = HttpClient(cluster.access)
    client.post("/api/v1/namespaces", {"metadata": {"name": "goes"}}).ok()
    client.post("/api/v1/namespaces/goes/configmaps", {"metadata": {"name": "with"}}).ok()
    client.delete("/api/v1/namespaces/goes").ok()
    soon(lambda: client.get("/api/v1/namespaces/goes").status == 404)


def test_it_is_cleared_of_all_that_came_and_of_all_changes(cluster: Cluster) -> None:
    client, kind = HttpClient(cluster.access), {"apiVersion": "example.com/v1", "kind": "Thing"}
    held = {"name": "held", "finalizers": ["example.com/nobody-takes-this-away"]}
    schema = {"openAPIV3Schema": {"type": "object"}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": "example.com", "scope": "Cluster", "names": {"kind": "Thing", "plural": "things"}}
    for _ in range(2):  # what is gone can come again
        client.post(
            DEFINITIONS, {"metadata": {"name": "things.example.com"}, "spec": {**spec, "versions": versions}}
        ).ok()
        soon(lambda: client.post(THINGS, {**kind, "metadata": held}).status == 201)
        client.post(NAMESPACES, {"metadata": {"name": "held"}}).ok()
        client.post(f"{NAMESPACES}/held/configmaps", {"metadata": held}).ok()
        for doomed in (f"{NAMESPACES}/held", f"{DEFINITIONS}/things.example.com", f"{RIGHTS}/clusterroles/view"):
            client.delete(doomed).ok()
        client.patch(f"{NAMESPACES}/default", {"metadata": {"labels": {"changed": "yes"}}}).ok()
        cluster.audit_log.write_text("{}")

        cluster.clear()

        for gone in (f"{NAMESPACES}/held", f"{DEFINITIONS}/things.example.com", THINGS):
            assert client.get(gone).status == 404
        assert client.get(f"{RIGHTS}/clusterroles/view").status == 200
        assert "changed" not in client.get(f"{NAMESPACES}/default").ok()["metadata"]["labels"]
        assert cluster.audit_log.read_text() == ""


def test_one_that_cannot_be_cleared_is_replaced(clusters: ClearedCluster) -> None:
    before = clusters.cleared()
    assert clusters.cleared() is before
    before.helpers[0].kill()
    assert clusters.cleared().access.url != before.access.url


def test_the_requests_of_service_accounts_are_written_down(cluster: Cluster) -> None:
    client = HttpClient(cluster.access)
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    client.post(accounts, {"metadata": {"name": "curious"}}).ok()
    token = client.post(f"{accounts}/curious/token", {"spec": {}}).ok()["status"]["token"]
    curious = HttpClient(cluster.access.known_as("curious", token), user="curious")
    assert curious.get("/api/v1/secrets").status == 403

    def events() -> list[Any]:
        whole, _, _ = cluster.audit_log.read_text(encoding="utf-8").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def mine() -> list[Any]:
        return [one for one in events() if one["user"]["username"] == "system:serviceaccount:default:curious"]

    soon(lambda: bool(mine()))
    assert [(one["verb"], one["objectRef"]["resource"], one["responseStatus"]["code"]) for one in mine()] == [
        ("list", "secrets", 403)
    ]
    assert not [one for one in events() if one["user"]["username"] == "admin"]
