"""What is never placed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.errors import ConfigurationError
from fleet.kube.resource import Resource
from fleet.placement.selection.candidates import CandidateObject, candidate_codec
from fleet.placement.selection.resource_filter import KindList, ResourceFilter, build_resource_filter, is_placeable
from fleet.settings import Settings


def candidate(api_version: str, kind: str, name: str = "x", **fields: Any) -> CandidateObject:
    group, _, version = api_version.rpartition("/")
    resource = Resource(group, version, kind.lower() + "s", kind, namespaced=True)
    metadata = {"name": name, "namespace": "shop", **fields.pop("metadata", {})}
    return candidate_codec(resource).read(msgspec.json.encode({"metadata": metadata, **fields}))


def placeable(one: CandidateObject, *services: str) -> bool:
    return is_placeable(one.resource, one, has_service=lambda key: key in services)


@pytest.mark.parametrize(
    "api_version, kind",
    [
        ("cluster.kubernetes-fleet.io/v1beta1", "MemberCluster"),
        ("placement.kubernetes-fleet.io/v1beta1", "ClusterResourcePlacement"),
        ("placement.kubernetes-fleet.io/v1beta1", "Work"),
        ("events.k8s.io/v1", "Event"),
        ("v1", "Event"),
        ("coordination.k8s.io/v1", "Lease"),
        ("scheduling.fleet.dev/v1alpha1", "PlacementOptions"),
        ("scheduling.fleet.dev/v1alpha1", "PlacementApproval"),
        ("operator.fleet.dev/v1", "SecondaryScheduler"),
        ("metrics.k8s.io/v1beta1", "PodMetrics"),
        ("v1", "Pod"),
        ("v1", "Node"),
        ("networking.fleet.azure.com/v1alpha1", "ServiceImport"),
        ("networking.fleet.azure.com/v1beta1", "TrafficManagerProfile"),
        ("networking.fleet.azure.com/v1beta1", "TrafficManagerBackend"),
    ],
)
def test_kinds_of_the_hub_are_never_placed(api_version: str, kind: str) -> None:
    group, _, version = api_version.rpartition("/")
    assert not ResourceFilter().allows_kind(group, version, kind)


@pytest.mark.parametrize(
    "api_version, kind",
    [
        ("placement.kubernetes-fleet.io/v1beta1", "ClusterResourceEnvelope"),
        ("placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope"),
        ("placement.kubefleet.dev/v1alpha1", "ClusterPlacementPolicy"),
        ("networking.fleet.azure.com/v1alpha1", "ServiceExport"),
        ("v1", "PersistentVolumeClaim"),
        ("example.com/v1", "Pod"),
    ],
)
def test_a_kind_is_judged_by_its_group_as_well_as_its_name(api_version: str, kind: str) -> None:
    group, _, version = api_version.rpartition("/")
    assert ResourceFilter().allows_kind(group, version, kind)


def test_claims_of_volumes_stay_where_workloads_run() -> None:
    assert not ResourceFilter(workloads_on_hub=True).allows_kind("", "v1", "PersistentVolumeClaim")


@pytest.mark.parametrize(
    "text, has, has_not",
    [
        ("apps", ("apps", "v1", "Deployment"), ("batch", "v1", "Job")),
        ("apps/v1", ("apps", "v1", "Deployment"), ("apps", "v1beta1", "Deployment")),
        ("apps/v1/Deployment,StatefulSet", ("apps", "v1", "StatefulSet"), ("apps", "v1", "DaemonSet")),
        ("v1/Secret", ("", "v1", "Secret"), ("", "v1", "ConfigMap")),
        ("v1", ("", "v1", "Secret"), ("apps", "v1", "Deployment")),
        ("batch; apps/v1 ;", ("apps", "v1", "Deployment"), ("", "v1", "Secret")),
    ],
)
def test_operators_list_kinds_by_group_version_and_name(
    text: str, has: tuple[str, str, str], has_not: tuple[str, str, str]
) -> None:
    listed = KindList.parse([text])
    assert listed.has(*has)
    assert not listed.has(*has_not)


@pytest.mark.parametrize("text", ["apps/v1/Deployment/x", "apps,batch/v1/Job", "apps/", "a,b"])
def test_an_entry_that_names_no_kinds_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a list of kinds"):
        KindList.parse([text])


def test_skipped_kinds_are_not_placed() -> None:
    rules = ResourceFilter(skipped=KindList.parse(["apps"]))
    assert not rules.allows_kind("apps", "v1", "Deployment")
    assert rules.allows_kind("", "v1", "ConfigMap")


@pytest.mark.parametrize("secrets", [True, False])
def test_the_setting_says_whether_secrets_may_be_selected(*, secrets: bool) -> None:
    settings = Settings.model_validate({"selection": {"secrets": secrets}})
    assert build_resource_filter(settings).allows_kind("", "v1", "Secret") is secrets


def test_secrets_of_other_groups_are_kinds_like_any_other() -> None:
    rules = ResourceFilter(secrets=False)
    assert not rules.allows_kind("", "v1", "Secret")
    assert rules.allows_kind("example.com", "v1", "Secret")


def test_with_an_allow_list_nothing_else_is_placed_nor_what_is_never_placed() -> None:
    rules = ResourceFilter(allowed=KindList.parse(["v1/ConfigMap,Pod"]))
    assert rules.allows_kind("", "v1", "ConfigMap")
    assert not rules.allows_kind("", "v1", "Secret")
    assert not rules.allows_kind("", "v1", "Pod")


def test_one_list_excludes_the_other() -> None:
    with pytest.raises(ConfigurationError, match="one of the two"):
        ResourceFilter(skipped=KindList.parse(["apps"]), allowed=KindList.parse(["v1"]))


@pytest.mark.parametrize(
    "group, version, may",
    [("apps", "v1", False), ("batch", "v1", False), ("batch", "v2", True), ("metrics.k8s.io", "v1", False)],
)
def test_a_group_of_which_nothing_is_placed_need_not_be_read(group: str, version: str, *, may: bool) -> None:
    assert ResourceFilter(skipped=KindList.parse(["apps;batch/v1"])).may_allow_version(group, version) is may


def test_an_allow_list_says_which_groups_have_to_be_read() -> None:
    rules = ResourceFilter(allowed=KindList.parse(["apps/v1/Deployment"]))
    assert rules.may_allow_version("apps", "v1")
    assert not rules.may_allow_version("batch", "v1")


def test_reserved_namespaces() -> None:
    rules = ResourceFilter(skipped_namespaces=frozenset(("infra", "audit", "logs")))
    for name in ("fleet-member-c1", "kube-system", "default", "infra", "audit", "logs"):
        assert rules.is_reserved(name)
    for name in ("shop", "my-kube-tools", "default-shop"):
        assert not rules.is_reserved(name)


@pytest.mark.parametrize("kind", ["ReplicaSet", "ControllerRevision"])
def test_what_a_workload_made_is_not_placed_but_what_a_person_made_is(kind: str) -> None:
    assert placeable(candidate("apps/v1", kind))
    assert not placeable(candidate("apps/v1", kind, metadata={"ownerReferences": [{"uid": "u"}]}))


def test_an_owner_does_not_keep_other_kinds_from_being_placed() -> None:
    assert placeable(candidate("v1", "ConfigMap", metadata={"ownerReferences": [{"uid": "u"}]}))


@pytest.mark.parametrize(
    "one",
    [
        candidate("v1", "ConfigMap", "kube-root-ca.crt"),
        candidate("v1", "ServiceAccount", "default"),
        candidate("v1", "Secret", type="kubernetes.io/service-account-token"),
        candidate(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            metadata={"labels": {"endpointslice.kubernetes.io/managed-by": "someone"}},
        ),
        candidate("v1", "ConfigMap", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ],
    ids=["root certificate", "default account", "token", "managed slice", "being deleted"],
)
def test_what_every_cluster_makes_itself_is_not_placed(one: CandidateObject) -> None:
    assert not placeable(one)


@pytest.mark.parametrize(
    "one",
    [
        candidate("v1", "ConfigMap", "ca.crt"),
        candidate("v1", "Secret", type="Opaque"),
        candidate("example.com/v1", "Secret", type={"kind": "an object"}),
        candidate("discovery.k8s.io/v1", "EndpointSlice"),
    ],
    ids=["ConfigMap", "Secret", "foreign Secret", "slice by hand"],
)
def test_what_people_make_is_placed(one: CandidateObject) -> None:
    assert placeable(one)


def test_endpoints_go_with_their_service_unless_they_have_none() -> None:
    assert placeable(candidate("v1", "Endpoints", "web"), "shop/db")
    assert not placeable(candidate("v1", "Endpoints", "web"), "shop/web")
