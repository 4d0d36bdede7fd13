"""How kubectl and other clients find out what there is."""

from __future__ import annotations

import gzip
import re
from typing import Any

import pytest

from fleet.model.catalog import CATALOG, KindDefinition
from tests.conformance.crds import FOLDER, PATH, is_established, read_crds
from tests.conformance.documents import CLUSTERS, a_cluster
from tests.conformance.hub import Hub

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
CRDS = {crd["metadata"]["name"]: crd for crd in read_crds()}
kinds = pytest.mark.parametrize("resource", CATALOG, ids=lambda resource: resource.kind)


# --- definitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CRDS)
def test_a_kind_is_established(hub: Hub, name: str) -> None:
    crd = hub.http.get(f"{PATH}/{name}").ok()
    assert is_established(crd)
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["acceptedNames"]["kind"] == CRDS[name]["spec"]["names"]["kind"]
    assert crd["status"]["storedVersions"] == [
        version["name"] for version in CRDS[name]["spec"]["versions"] if version["storage"]
    ]


@pytest.mark.servers
def test_kubectl_shows_definitions(hub: Hub) -> None:
    header, row = hub.kubectl("get", "crd", "memberclusters.cluster.kubernetes-fleet.io").ok().splitlines()
    assert re.split(r" {2,}", header) == ["NAME", "CREATED AT"]
    assert row.startswith("memberclusters.cluster.kubernetes-fleet.io ")


@pytest.mark.servers
def test_kubectl_applies_all_definitions(hub: Hub) -> None:
    said = hub.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(FOLDER)).ok()
    assert set(said.splitlines()) == {
        f"customresourcedefinition.apiextensions.k8s.io/{name} serverside-applied" for name in CRDS
    }
    assert all(is_established(hub.http.get(f"{PATH}/{name}").ok()) for name in CRDS)


@pytest.mark.servers
def test_users_may_define_kinds(hub: Hub, unique: str) -> None:
    group = f"{unique}.example.com"
    schema = {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boxes.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    hub.kubectl("create", "-f", "-", input=crd).ok()
    hub.kubectl("wait", f"crd/boxes.{group}", "--for=condition=Established", "--timeout=80s").ok()
    box = {"apiVersion": f"{group}/v1", "kind": "Box", "metadata": {"name": "a"}, "size": 3}
    path = hub.path("boxes", version=f"{group}/v1")
    hub.eventually(lambda: hub.http.get(path).status == 200)
    assert hub.http.post(path, box).ok()["size"] == 3
    assert hub.http.post(path, box | {"metadata": {"name": "b"}, "size": 0}).status == 422
    hub.kubectl("delete", f"crd/boxes.{group}").ok()
    hub.eventually(lambda: hub.http.get(path).status == 404)


def test_a_definition_without_a_schema_is_refused(hub: Hub, unique: str) -> None:
    crd: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boxes.{unique}.example.com"},
        "spec": {
            "group": f"{unique}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "boxes", "kind": "Box"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    answer = hub.http.post(PATH, crd)
    assert answer.status == 422
    assert answer.message == (
        f'CustomResourceDefinition.apiextensions.k8s.io "boxes.{unique}.example.com" is invalid: '
        "spec.versions[0].schema.openAPIV3Schema: Required value"
    )


def test_a_field_to_select_by_without_its_path_is_refused(hub: Hub, unique: str) -> None:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    crd: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boxes.{unique}.example.com"},
        "spec": {
            "group": f"{unique}.example.com",
            "scope": "Namespaced",
            "names": {"plural": "boxes", "kind": "Box"},
            "versions": [version | {"selectableFields": [{}]}],
        },
    }
    answer = hub.http.post(PATH, crd)
    assert answer.status == 422
    assert answer.message == (
        f'CustomResourceDefinition.apiextensions.k8s.io "boxes.{unique}.example.com" is invalid: '
        "spec.selectableFields[0].jsonPath: Required value"
    )


# --- lists of what there is -------------------------------------------------------------------------------------------


@kinds
def test_every_kind_is_listed_with_its_names(hub: Hub, resource: KindDefinition) -> None:
    for version in resource.versions:
        listed = hub.http.get(f"/apis/{resource.group}/{version}").ok()["resources"]
        entry = next(item for item in listed if item["name"] == resource.plural)
        entry.pop("storageVersionHash", None)
        assert set(entry.pop("verbs")) == VERBS
        assert entry == {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.is_namespaced,
            "kind": resource.kind,
            **({"shortNames": [*resource.short_names]} if resource.short_names else {}),
            **({"categories": [*resource.categories]} if resource.categories else {}),
        }
        assert any(item["name"] == f"{resource.plural}/status" for item in listed) == resource.has_status


def test_groups_are_listed_with_their_versions(hub: Hub) -> None:
    groups = {group["name"]: group for group in hub.http.get("/apis").ok()["groups"]}
    fleet = groups["placement.kubernetes-fleet.io"]
    assert [version["version"] for version in fleet["versions"]] == ["v1", "v1beta1", "v1alpha1"]
    assert fleet["preferredVersion"] == {"groupVersion": "placement.kubernetes-fleet.io/v1", "version": "v1"}
    assert hub.http.get("/apis/placement.kubernetes-fleet.io").ok()["kind"] == "APIGroup"


def test_the_core_group_is_listed_apart(hub: Hub) -> None:
    assert hub.http.get("/api").ok()["versions"] == ["v1"]
    names = {item["name"] for item in hub.http.get("/api/v1").ok()["resources"]}
    assert names >= {
        "namespaces",
        "namespaces/status",
        "configmaps",
        "secrets",
        "services",
        "serviceaccounts",
        "events",
    }


def test_everything_can_be_asked_for_at_once(hub: Hub) -> None:
    answer = hub.http.request("GET", "/apis", headers={"Accept": AGGREGATED})
    assert answer.headers["Content-Type"] == AGGREGATED
    assert answer.json["kind"] == "APIGroupDiscoveryList"
    groups = {group["metadata"]["name"]: group for group in answer.json["items"]}
    first, *_ = groups["cluster.kubernetes-fleet.io"]["versions"]
    assert (first["version"], first["freshness"]) == ("v1", "Current")
    clusters = next(item for item in first["resources"] if item["resource"] == "memberclusters")
    assert clusters["responseKind"] == {
        "group": "cluster.kubernetes-fleet.io",
        "version": "v1",
        "kind": "MemberCluster",
    }
    assert (clusters["scope"], clusters["singularResource"]) == ("Cluster", "membercluster")
    assert clusters["shortNames"] == ["cluster"]
    assert [item["subresource"] for item in clusters["subresources"]] == ["status"]


@pytest.mark.servers
def test_kubectl_lists_kinds(hub: Hub) -> None:
    said = hub.kubectl("api-resources", "--api-group=cluster.kubernetes-fleet.io", "--no-headers").ok()
    assert [line.split() for line in said.splitlines()] == [
        ["internalmemberclusters", "imc", "cluster.kubernetes-fleet.io/v1", "true", "InternalMemberCluster"],
        ["memberclusters", "cluster", "cluster.kubernetes-fleet.io/v1", "false", "MemberCluster"],
    ]


@pytest.mark.servers
def test_kubectl_lists_what_belongs_to_the_fleet(hub: Hub) -> None:
    said = hub.kubectl("api-resources", "--categories=fleet", "-o", "name").ok()
    assert set(said.split()) == {resource.full_name for resource in CATALOG if "fleet" in resource.categories}


@pytest.mark.servers
def test_kubectl_lists_versions(hub: Hub) -> None:
    versions = hub.kubectl("api-versions").ok().split()
    assert {"v1", "apps/v1", "cluster.kubernetes-fleet.io/v1", "cluster.kubernetes-fleet.io/v1beta1"} <= set(versions)


@pytest.mark.servers
def test_kubectl_knows_the_servers_version(hub: Hub) -> None:
    version = hub.kubectl("version", "-o", "yaml").document["serverVersion"]
    assert re.fullmatch(r"v1\.\d+\.\d+\S*", version["gitVersion"])
    assert version["major"] == "1"


# --- documentation ----------------------------------------------------------------------------------------------------


@pytest.mark.servers
def test_kubectl_explains_a_kind(hub: Hub) -> None:
    lines = hub.kubectl("explain", "cluster").ok().splitlines()
    assert lines[:3] == ["GROUP:      cluster.kubernetes-fleet.io", "KIND:       MemberCluster", "VERSION:    v1"]
    fields = [line.strip() for line in lines if "\t" in line]
    assert fields == [
        "apiVersion\t<string>",
        "kind\t<string>",
        "metadata\t<ObjectMeta>",
        "spec\t<Object> -required-",
        "status\t<Object>",
    ]


@pytest.mark.servers
def test_kubectl_explains_a_field(hub: Hub) -> None:
    said = hub.kubectl("explain", "crp.spec.policy.placementType").ok()
    assert "FIELD: placementType <string>\nENUM:\n    PickAll\n    PickN\n    PickFixed\n" in said


@pytest.mark.servers
def test_kubectl_explains_an_old_version(hub: Hub) -> None:
    said = hub.kubectl("explain", "cluster", "--api-version=cluster.kubernetes-fleet.io/v1beta1").ok()
    assert "VERSION:    v1beta1\n" in said


@pytest.mark.servers
def test_kubectl_explains_all_fields_below(hub: Hub) -> None:
    said = hub.kubectl("explain", "cluster.spec.taints", "--recursive").ok()
    assert "  effect\t<string> -required-\n  enum: NoSchedule\n  key\t<string> -required-\n  value\t<string>\n" in said


@pytest.mark.servers
def test_kubectl_explains_a_built_in_kind(hub: Hub) -> None:
    assert "FIELD: data <map[string]string>" in hub.kubectl("explain", "configmap.data").ok()


@pytest.mark.servers
def test_kubectl_cannot_explain_what_is_not_there(hub: Hub) -> None:
    assert hub.kubectl("explain", "cluster.spec.nope").err == 'error: field "nope" does not exist\n'


@kinds
def test_every_kind_is_documented(hub: Hub, resource: KindDefinition) -> None:
    for version in resource.versions:
        paths = hub.http.get("/openapi/v3").ok()["paths"]
        location = paths[f"apis/{resource.group}/{version}"]["serverRelativeURL"]
        schemas = hub.http.get(location).ok()["components"]["schemas"].values()
        named = [{"group": resource.group, "version": version, "kind": resource.kind}]
        assert any(schema.get("x-kubernetes-group-version-kind") == named for schema in schemas)


def test_documentation_can_be_cached(hub: Hub) -> None:
    location = hub.http.get("/openapi/v3").ok()["paths"]["apis/cluster.kubernetes-fleet.io/v1"]["serverRelativeURL"]
    first = hub.http.get(location)
    assert first.headers["Etag"]
    again = hub.http.request("GET", location, headers={"If-None-Match": first.headers["Etag"]})
    assert (again.status, again.content) == (304, b"")


# --- forms of an answer -----------------------------------------------------------------------------------------------


def test_an_answer_may_be_a_table(hub: Hub, unique: str) -> None:
    hub.http.post(CLUSTERS, a_cluster(unique)).ok()
    answer = hub.http.request("GET", f"{CLUSTERS}/{unique}", headers={"Accept": TABLE}).ok()
    assert (answer["kind"], answer["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [column["name"] for column in answer["columnDefinitions"]][:3] == ["Name", "Joined", "Age"]
    assert [column["priority"] for column in answer["columnDefinitions"]] == [0, 0, 0, 0, 0, 0, 0, 1, 1]
    (row,) = answer["rows"]
    assert row["cells"][:2] == [unique, None]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == unique


def test_an_answer_may_be_metadata_alone(hub: Hub, unique: str) -> None:
    created = hub.http.post(CLUSTERS, a_cluster(unique)).ok()
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    answer = hub.http.request("GET", f"{CLUSTERS}/{unique}", headers={"Accept": accept}).ok()
    assert answer == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": created["metadata"],
    }


def test_a_long_answer_may_be_compressed(hub: Hub) -> None:
    answer = hub.http.request("GET", PATH, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert b'"kind":"CustomResourceDefinitionList"' in gzip.decompress(answer.content)
