from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.model import crd_generator as crd
from fleet.model.catalog import CATALOG, KindDefinition
from fleet.model.crd_generator import build_crd, file_name, write_all
from tests.conformance.crds import parse_crd
from tests.unit.model.structural import nodes, schema_problems

CHART = Path(__file__).parents[3] / crd.DIRECTORY

resources = pytest.mark.parametrize("resource", CATALOG, ids=lambda resource: resource.kind)
served = pytest.mark.parametrize(
    "resource, version",
    [(resource, version) for resource in CATALOG for version in resource.versions],
    ids=lambda item: item if isinstance(item, str) else item.kind,
)


def a_resource(kind: str) -> KindDefinition:
    (resource,) = [resource for resource in CATALOG if resource.kind == kind]
    return resource


def schema_of(kind: str, version: str = "v1beta1") -> dict[str, Any]:
    (found,) = [item for item in build_crd(a_resource(kind))["spec"]["versions"] if item["name"] == version]
    schema: dict[str, Any] = found["schema"]["openAPIV3Schema"]
    return schema


def at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of a path such as `spec.taints[].key`."""
    for part in path.replace("[]", ".[]").split("."):
        schema = schema["items"] if part == "[]" else schema["properties"][part]
    return schema


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all files were written, and one of a kind that is gone was before."""
    folder = tmp_path_factory.mktemp("crds")
    (folder / "placement.kubernetes-fleet.io_relics.yaml").write_text("kind: Relic")
    write_all(folder)
    return folder


@resources
def test_the_file_in_the_chart_is_what_the_kinds_say(resource: KindDefinition, written: Path) -> None:
    name = file_name(resource)
    assert (CHART / name).read_text(encoding="utf-8") == (written / name).read_text(encoding="utf-8"), "run `make gen`"


def test_the_chart_has_a_file_for_every_kind_and_no_other() -> None:
    assert {path.name for path in CHART.iterdir()} == {file_name(resource) for resource in CATALOG}


def test_writing_removes_the_file_of_a_kind_that_is_gone(written: Path) -> None:
    assert {path.name for path in written.iterdir()} == {file_name(resource) for resource in CATALOG}


@resources
def test_a_file_reads_back_as_its_definition(resource: KindDefinition, written: Path) -> None:
    assert parse_crd((written / file_name(resource)).read_text(encoding="utf-8")) == build_crd(resource)


@resources
def test_a_file_says_that_it_is_generated_and_has_no_anchors(resource: KindDefinition, written: Path) -> None:
    text = (written / file_name(resource)).read_text(encoding="utf-8")
    assert text.startswith("# Generated from fleet/model by `make gen`; do not edit.\n")
    assert not any("&id" in line or "*id" in line for line in text.splitlines())


@resources
def test_a_definition_stays_small_enough_for_client_side_apply(resource: KindDefinition, written: Path) -> None:
    # kubectl keeps the applied object in an annotation, and annotations may have 256 KiB in sum.
    assert (written / file_name(resource)).stat().st_size < 256 * 1024


@served
def test_a_schema_is_structural_and_its_defaults_fit(resource: KindDefinition, version: str) -> None:
    assert schema_problems(schema_of(resource.kind, version)) == []


@pytest.mark.parametrize(
    "schema, problem",
    [
        ({}, "no type"),
        ({"type": "string", "$ref": "#/definitions/x"}, "unknown keywords {'$ref'}"),
        ({"type": "string", "anyOf": [{"type": "string"}]}, "composition beside int-or-string"),
        ({"type": "object", "properties": {}, "required": ["a"]}, "required but not declared: {'a'}"),
        ({"type": "integer", "minimum": 1, "default": 0}, "default: : 0 is below minimum 1"),
        (
            {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "list-map key name must be required or have a default",
        ),
    ],
)
def test_the_check_for_structural_schemas_finds_what_an_api_server_refuses(
    schema: dict[str, Any], problem: str
) -> None:
    assert schema_problems(schema) == [f": {problem}"]


@served
def test_every_rule_has_text_and_a_message_of_one_line(resource: KindDefinition, version: str) -> None:
    for path, node in nodes(schema_of(resource.kind, version)):
        for rule in node.get("x-kubernetes-validations", ()):
            assert rule["rule"].strip(), path
            assert rule["message"].strip(), path
            assert "\n" not in rule["message"], path


@served
def test_every_property_is_described(resource: KindDefinition, version: str) -> None:
    bare = [
        path
        for path, node in nodes(schema_of(resource.kind, version))
        if not path.endswith(("[]", "{}", ".metadata")) and not node.get("description")
    ]
    assert bare == []


@resources
def test_only_the_storage_version_is_stored_and_all_are_served(resource: KindDefinition) -> None:
    versions = build_crd(resource)["spec"]["versions"]
    assert [item["name"] for item in versions if item["storage"]] == [resource.storage]
    assert all(item["served"] for item in versions)


@resources
def test_the_status_subresource_is_declared_where_the_kind_has_it(resource: KindDefinition) -> None:
    for version in build_crd(resource)["spec"]["versions"]:
        assert ("subresources" in version) is resource.has_status


def test_wide_columns_have_priority_one() -> None:
    columns = build_crd(a_resource("MemberCluster"))["spec"]["versions"][0]["additionalPrinterColumns"]
    wide = [column["name"] for column in columns if column.get("priority") == 1]
    assert wide == ["Allocatable-CPU", "Allocatable-Memory"]


@served
def test_conditions_are_merged_by_type(resource: KindDefinition, version: str) -> None:
    for path, node in nodes(schema_of(resource.kind, version)):
        if path.endswith(".conditions"):
            assert node["x-kubernetes-list-type"] == "map", path
            assert node["x-kubernetes-list-map-keys"] == ["type"], path


@served
def test_label_selectors_are_one_value_for_server_side_apply(resource: KindDefinition, version: str) -> None:
    for path, node in nodes(schema_of(resource.kind, version)):
        if path.endswith(".labelSelector"):
            assert node["x-kubernetes-map-type"] == "atomic", path


def test_the_identity_of_a_member_is_one_value_for_server_side_apply() -> None:
    assert at(schema_of("MemberCluster"), "spec.identity")["x-kubernetes-map-type"] == "atomic"


@pytest.mark.parametrize(
    "kind, path, wanted",
    [
        ("MemberCluster", "spec.heartbeatPeriodSeconds", {"minimum": 1, "maximum": 600, "default": 60}),
        ("InternalMemberCluster", "spec.heartbeatPeriodSeconds", {"minimum": 1, "maximum": 600, "default": 60}),
        ("MemberCluster", "spec.taints", {"maxItems": 100}),
        ("MemberCluster", "spec.taints[].effect", {"enum": ["NoSchedule"]}),
        ("MemberCluster", "spec.deleteOptions.validationMode", {"enum": ["Skip", "Strict"], "default": "Strict"}),
        ("ClusterResourcePlacement", "spec.resourceSelectors", {"minItems": 1, "maxItems": 100}),
        (
            "ClusterResourcePlacement",
            "spec.resourceSelectors[].selectionScope",
            {
                "enum": ["NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"],
                "default": "NamespaceWithResources",
            },
        ),
        ("ClusterResourcePlacement", "spec.revisionHistoryLimit", {"minimum": 1, "maximum": 1000, "default": 10}),
        (
            "ClusterResourcePlacement",
            "spec.statusReportingScope",
            {"enum": ["ClusterScopeOnly", "NamespaceAccessible"], "default": "ClusterScopeOnly"},
        ),
        (
            "ClusterResourcePlacement",
            "spec.policy.placementType",
            {"enum": ["PickAll", "PickN", "PickFixed"], "default": "PickAll"},
        ),
        ("ClusterResourcePlacement", "spec.policy.clusterNames", {"maxItems": 100}),
        ("ClusterResourcePlacement", "spec.policy.numberOfClusters", {"minimum": 0, "format": "int32"}),
        ("ClusterResourcePlacement", "spec.policy.tolerations", {"maxItems": 100}),
        (
            "ClusterResourcePlacement",
            "spec.policy.tolerations[].operator",
            {"enum": ["Equal", "Exists"], "default": "Equal"},
        ),
        ("ClusterResourcePlacement", "spec.policy.topologySpreadConstraints[].maxSkew", {"minimum": 1, "default": 1}),
        (
            "ClusterResourcePlacement",
            "spec.policy.topologySpreadConstraints[].whenUnsatisfiable",
            {"enum": ["DoNotSchedule", "ScheduleAnyway"], "default": "DoNotSchedule"},
        ),
        ("ClusterResourcePlacement", "spec.strategy.type", {"default": "RollingUpdate"}),
        (
            "ClusterResourcePlacement",
            "spec.strategy.rollingUpdate.maxSurge",
            {"default": "25%", "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$", "x-kubernetes-int-or-string": True},
        ),
        (
            "ClusterResourcePlacement",
            "spec.strategy.rollingUpdate.unavailablePeriodSeconds",
            {"minimum": 0, "default": 60},
        ),
        ("ClusterResourcePlacement", "spec.strategy.deleteStrategy.propagationPolicy", {"default": "Delete"}),
        ("ClusterResourcePlacement", "spec.strategy.reportBackStrategy.type", {"default": "Disabled"}),
        ("ClusterResourcePlacement", "status.placementStatuses[].failedPlacements", {"maxItems": 100}),
        ("ClusterSchedulingPolicySnapshot", "status.targetClusters", {"maxItems": 1000}),
        ("ClusterSchedulingPolicySnapshot", "spec.policyHash", {"format": "byte"}),
        ("ClusterResourceBinding", "status.driftedPlacements", {"maxItems": 100}),
        ("ClusterResourceOverride", "spec.policy.overrideRules", {"minItems": 1, "maxItems": 20}),
        ("ClusterResourceOverride", "spec.policy.overrideRules[].jsonPatchOverrides", {"minItems": 1, "maxItems": 20}),
        ("ClusterResourceEnvelope", "data", {"minProperties": 1, "maxProperties": 50}),
        ("ClusterResourcePlacementEviction", "spec.clusterName", {"maxLength": 255}),
        ("ClusterStagedUpdateStrategy", "spec.stages", {"maxItems": 31}),
        ("ClusterStagedUpdateStrategy", "spec.stages[].name", {"maxLength": 63, "pattern": "^[a-z0-9]+$"}),
        (
            "ClusterStagedUpdateStrategy",
            "spec.stages[].maxConcurrency",
            {"default": 1, "pattern": "^(100|[1-9][0-9]?)%$"},
        ),
        ("ClusterStagedUpdateRun", "spec.state", {"enum": ["Initialize", "Run", "Stop"], "default": "Initialize"}),
        ("ClusterProfile", "status.properties[].value", {"minLength": 1, "maxLength": 1024}),
    ],
)
def test_a_field_has_the_limits_and_default_of_the_api(kind: str, path: str, wanted: dict[str, Any]) -> None:
    found = at(schema_of(kind, a_resource(kind).storage), path)
    assert {keyword: found.get(keyword) for keyword in wanted} == wanted


@pytest.mark.parametrize(
    "kind, path",
    [
        ("ClusterResourceSnapshot", "spec.selectedResources[]"),
        ("Work", "spec.workload.manifests[]"),
        ("Work", "status.manifestConditions[].backReportedStatus.observedStatus"),
    ],
)
def test_embedded_objects_are_kept_whole(kind: str, path: str) -> None:
    found = at(schema_of(kind), path)
    assert found["x-kubernetes-embedded-resource"]
    assert found["x-kubernetes-preserve-unknown-fields"]


def test_a_patch_may_carry_any_value() -> None:
    found = at(schema_of("ResourceOverride"), "spec.policy.overrideRules[].jsonPatchOverrides[].value")
    assert "type" not in found
    assert found["x-kubernetes-preserve-unknown-fields"]


@pytest.mark.parametrize(
    "kind, path",
    [
        ("ClusterResourcePlacement", "spec.strategy.deleteStrategy"),
        ("ClusterResourcePlacement", "spec.strategy.reportBackStrategy"),
        ("ResourcePlacement", "spec.strategy.deleteStrategy"),
        ("ResourcePlacement", "spec.strategy.reportBackStrategy"),
        ("MemberCluster", "spec.deleteOptions"),
        ("MemberCluster", "status.namespaces"),
        ("InternalMemberCluster", "status.namespaces"),
        ("Work", "spec.reportBackStrategy"),
        ("Work", "status.manifestConditions[].backReportedStatus"),
    ],
)
def test_a_field_exists_in_v1beta1_only(kind: str, path: str) -> None:
    parent, _, name = path.rpartition(".")
    assert name in at(schema_of(kind, "v1beta1"), parent)["properties"]
    assert name not in at(schema_of(kind, "v1"), parent)["properties"]


def test_v1_knows_no_config_map_envelopes_and_has_no_default_for_the_type() -> None:
    path = "status.selectedResources[].envelope.type"
    current = at(schema_of("ClusterResourcePlacement", "v1beta1"), path)
    old = at(schema_of("ClusterResourcePlacement", "v1"), path)
    assert current["enum"] == ["ConfigMap", "ClusterResourceEnvelope", "ResourceEnvelope"]
    assert current["default"] == "ConfigMap"
    assert old["enum"] == ["ClusterResourceEnvelope", "ResourceEnvelope"]
    assert "default" not in old


def test_apart_from_that_v1_and_v1beta1_have_the_same_fields() -> None:
    different = {
        resource.kind
        for resource in CATALOG
        if {"v1", "v1beta1"} <= set(resource.versions)
        and [path for path, _ in nodes(schema_of(resource.kind, "v1"))]
        != [path for path, _ in nodes(schema_of(resource.kind, "v1beta1"))]
    }
    assert different == {
        "MemberCluster",
        "InternalMemberCluster",
        "ClusterResourcePlacement",
        "ResourcePlacement",
        "Work",
    }


def test_an_update_run_of_v1alpha1_has_the_older_shape() -> None:
    spec = at(schema_of("ClusterStagedUpdateRun", "v1alpha1"), "spec")
    assert sorted(spec["properties"]) == ["placementName", "resourceSnapshotIndex", "stagedRolloutStrategyName"]
    assert sorted(spec["required"]) == ["placementName", "resourceSnapshotIndex", "stagedRolloutStrategyName"]
    current = at(schema_of("ClusterStagedUpdateRun", "v1beta1"), "spec")
    assert sorted(current["required"]) == ["placementName", "stagedRolloutStrategyName"]


@pytest.mark.parametrize("name", ["maxConcurrency", "beforeStageTasks"])
def test_a_stage_of_v1alpha1_lacks_what_came_later(name: str) -> None:
    stages = "spec.stages[]"
    assert name in at(schema_of("ClusterStagedUpdateStrategy", "v1"), stages)["properties"]
    assert name not in at(schema_of("ClusterStagedUpdateStrategy", "v1alpha1"), stages)["properties"]


@pytest.mark.parametrize(
    "kind, required",
    [
        (
            "ClusterResourceBinding",
            {"clusterDecision", "resourceSnapshotName", "schedulingPolicySnapshotName", "state", "targetCluster"},
        ),
        ("MemberCluster", {"identity"}),
        ("ClusterResourcePlacement", {"resourceSelectors"}),
        ("ClusterSchedulingPolicySnapshot", {"policyHash"}),
    ],
)
def test_a_spec_requires_what_the_api_requires(kind: str, required: set[str]) -> None:
    assert set(at(schema_of(kind), "spec")["required"]) == required


def test_a_decision_requires_cluster_selection_and_reason_but_no_score() -> None:
    decision = at(schema_of("ClusterResourceBinding"), "spec.clusterDecision")
    assert set(decision["required"]) == {"clusterName", "selected", "reason"}
    assert set(decision["properties"]["clusterScore"]["properties"]) == {"affinityScore", "priorityScore"}


def test_the_copy_of_a_status_has_no_spec() -> None:
    schema = schema_of("ClusterResourcePlacementStatus")
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "sourceStatus", "lastUpdatedTime"}
    assert set(schema["required"]) == {"sourceStatus", "lastUpdatedTime"}
