from __future__ import annotations

import pytest

from fleet.model.catalog import CATALOG, KindDefinition, find_kind
from fleet.model.keys import CLUSTER_GROUP, OPERATOR_GROUP, PLACEMENT_GROUP, SCHEDULING_GROUP

BOTH, ALL, BETA = ("v1", "v1beta1"), ("v1", "v1alpha1", "v1beta1"), ("v1beta1",)
ALPHA_AND_BETA = ("v1alpha1", "v1beta1")

# kind: plural, scope, short name, versions, status subresource
WIRE: dict[str, tuple[str, str, str, tuple[str, ...], bool]] = {
    "MemberCluster": ("memberclusters", "Cluster", "cluster", BOTH, True),
    "InternalMemberCluster": ("internalmemberclusters", "Namespaced", "imc", BOTH, True),
    "ClusterResourcePlacement": ("clusterresourceplacements", "Cluster", "crp", BOTH, True),
    "ResourcePlacement": ("resourceplacements", "Namespaced", "rp", BOTH, True),
    "ClusterResourcePlacementStatus": ("clusterresourceplacementstatuses", "Namespaced", "crps", BOTH, False),
    "ClusterSchedulingPolicySnapshot": ("clusterschedulingpolicysnapshots", "Cluster", "csps", BOTH, True),
    "SchedulingPolicySnapshot": ("schedulingpolicysnapshots", "Namespaced", "sps", BETA, True),
    "ClusterResourceSnapshot": ("clusterresourcesnapshots", "Cluster", "crs", BOTH, True),
    "ResourceSnapshot": ("resourcesnapshots", "Namespaced", "rs", BETA, True),
    "ClusterResourceBinding": ("clusterresourcebindings", "Cluster", "crb", BOTH, True),
    "ResourceBinding": ("resourcebindings", "Namespaced", "rb", BETA, True),
    "Work": ("works", "Namespaced", "", BOTH, True),
    "AppliedWork": ("appliedworks", "Cluster", "", BOTH, True),
    "ClusterResourceOverride": ("clusterresourceoverrides", "Cluster", "", ALL, False),
    "ResourceOverride": ("resourceoverrides", "Namespaced", "", ALL, False),
    "ClusterResourceOverrideSnapshot": ("clusterresourceoverridesnapshots", "Cluster", "", ALL, False),
    "ResourceOverrideSnapshot": ("resourceoverridesnapshots", "Namespaced", "", ALL, False),
    "ClusterResourceEnvelope": ("clusterresourceenvelopes", "Cluster", "", BETA, False),
    "ResourceEnvelope": ("resourceenvelopes", "Namespaced", "", BETA, False),
    "ClusterResourcePlacementEviction": (
        "clusterresourceplacementevictions",
        "Cluster",
        "crpe",
        ALPHA_AND_BETA,
        True,
    ),
    "ClusterResourcePlacementDisruptionBudget": (
        "clusterresourceplacementdisruptionbudgets",
        "Cluster",
        "crpdb",
        ALPHA_AND_BETA,
        False,
    ),
    "ClusterStagedUpdateRun": ("clusterstagedupdateruns", "Cluster", "csur", ALL, True),
    "StagedUpdateRun": ("stagedupdateruns", "Namespaced", "sur", BOTH, True),
    "ClusterStagedUpdateStrategy": ("clusterstagedupdatestrategies", "Cluster", "csus", ALL, True),
    "StagedUpdateStrategy": ("stagedupdatestrategies", "Namespaced", "sus", BOTH, False),
    "ClusterApprovalRequest": ("clusterapprovalrequests", "Cluster", "careq", ALL, True),
    "ApprovalRequest": ("approvalrequests", "Namespaced", "areq", BOTH, True),
    "ClusterProfile": ("clusterprofiles", "Namespaced", "", ("v1alpha1",), True),
    "PlacementOptions": ("placementoptions", "Namespaced", "po", ("v1alpha1",), True),
    "ClusterPlacementOptions": ("clusterplacementoptions", "Cluster", "cpo", ("v1alpha1",), True),
    "PlacementApproval": ("placementapprovals", "Namespaced", "pa", ("v1alpha1",), False),
    "ClusterPlacementApproval": ("clusterplacementapprovals", "Cluster", "cpa", ("v1alpha1",), False),
    "PlacementQuota": ("placementquotas", "Namespaced", "pq", ("v1alpha1",), True),
    "ClusterPlacementQuota": ("clusterplacementquotas", "Cluster", "cpq", ("v1alpha1",), True),
    "PlacementGroup": ("placementgroups", "Namespaced", "pg", ("v1alpha1",), True),
    "ClusterPlacementGroup": ("clusterplacementgroups", "Cluster", "cpg", ("v1alpha1",), True),
    "ClusterReservation": ("clusterreservations", "Cluster", "cres", ("v1alpha1",), False),
    "SecondaryScheduler": ("secondaryschedulers", "Namespaced", "", ("v1",), True),
}

resources = pytest.mark.parametrize("resource", CATALOG, ids=lambda resource: resource.kind)


@resources
def test_a_kind_has_its_names_scope_versions_and_status_on_the_wire(resource: KindDefinition) -> None:
    found = (resource.plural, resource.scope, resource.short_name, resource.versions, resource.has_status)
    assert found == WIRE[resource.kind]


def test_every_kind_is_in_the_catalogue_once() -> None:
    assert sorted(resource.kind for resource in CATALOG) == sorted(WIRE)


@resources
def test_the_storage_version_is_served_and_is_v1beta1_but_for_newer_kinds(resource: KindDefinition) -> None:
    assert resource.storage in resource.versions
    is_newer = resource.group not in (CLUSTER_GROUP, PLACEMENT_GROUP)
    newer = "v1" if resource.group == OPERATOR_GROUP else "v1alpha1"
    assert resource.storage == (newer if is_newer else "v1beta1")


@resources
def test_a_kind_belongs_to_the_categories_of_its_group(resource: KindDefinition) -> None:
    categories = {
        CLUSTER_GROUP: ("fleet", "fleet-cluster"),
        PLACEMENT_GROUP: ("fleet", "fleet-placement"),
        SCHEDULING_GROUP: ("fleet",),
        OPERATOR_GROUP: ("fleet",),
    }
    assert resource.categories == categories.get(resource.group, ())


def test_short_names_are_unique() -> None:
    names = [name for resource in CATALOG for name in resource.short_names]
    assert len(names) == len(set(names))


def test_only_applied_work_lives_on_members() -> None:
    assert [resource.kind for resource in CATALOG if resource.on_member] == ["AppliedWork"]


def test_a_kind_is_found_under_every_served_version() -> None:
    for version in ("v1", "v1beta1"):
        found = find_kind(f"{CLUSTER_GROUP}/{version}", "MemberCluster")
        assert found is not None
        assert found.full_name == "memberclusters.cluster.kubernetes-fleet.io"


@pytest.mark.parametrize(
    "api_version, kind",
    [
        ("cluster.kubernetes-fleet.io/v1alpha1", "MemberCluster"),
        ("placement.kubernetes-fleet.io/v1beta1", "MemberCluster"),
        ("placement.kubefleet.dev/v1alpha1", "ClusterStagedUpdateRun"),
        ("v1", "MemberCluster"),
        ("", ""),
    ],
)
def test_another_group_or_version_is_another_kind(api_version: str, kind: str) -> None:
    assert find_kind(api_version, kind) is None


COLUMNS = {
    "MemberCluster": "Joined Age Member-Agent-Last-Seen Node-Count Available-CPU Available-Memory"
    " Allocatable-CPU+ Allocatable-Memory+",
    "InternalMemberCluster": "Age",
    "ClusterResourcePlacement": "Gen Type+ Scheduled Scheduled-Gen Work-Synchronized+ Work-Synchronized-Gen+"
    " Available Available-Gen Age",
    "ResourcePlacement": "Gen Type+ Scheduled Scheduled-Gen Work-Synchronized+ Work-Synchronized-Gen+"
    " Available Available-Gen Age",
    "ClusterResourcePlacementStatus": "Resource-Index Last-Updated Age",
    "ClusterSchedulingPolicySnapshot": "Gen Age",
    "SchedulingPolicySnapshot": "Gen Age",
    "ClusterResourceSnapshot": "Gen Age",
    "ResourceSnapshot": "Gen Age",
    "ClusterResourceBinding": "WorkSynchronized ResourcesApplied ResourceAvailable+ Age",
    "ResourceBinding": "WorkSynchronized ResourcesApplied ResourceAvailable+ Age",
    "ClusterResourcePlacementEviction": "Valid Executed",
    "ClusterStagedUpdateRun": "Placement Resource-Snapshot-Index Policy-Snapshot-Index Initialized Progressing"
    " Succeeded Age Strategy+",
    "StagedUpdateRun": "Placement Resource-Snapshot-Index Policy-Snapshot-Index Initialized Progressing"
    " Succeeded Age Strategy+",
    "ClusterApprovalRequest": "Update-Run Stage Approved Age",
    "ApprovalRequest": "Update-Run Stage Approved Age",
    "PlacementOptions": "Scheduler Priority Gated Waiting Age",
    "ClusterPlacementOptions": "Scheduler Priority Gated Waiting Age",
    "PlacementApproval": "Placement Cluster Decision By Age",
    "ClusterPlacementApproval": "Placement Cluster Decision By Age",
    "PlacementQuota": "Min-CPU Max-CPU Used-CPU Borrowed-CPU Age",
    "ClusterPlacementQuota": "Min-CPU Max-CPU Used-CPU Borrowed-CPU Age",
    "PlacementGroup": "Members Placed Min Scheduled Age",
    "ClusterPlacementGroup": "Members Placed Min Scheduled Age",
    "SecondaryScheduler": "State Available Progressing Degraded Image+ Age",
}


@resources
def test_kubectl_shows_the_columns_of_the_kind(resource: KindDefinition) -> None:
    shown = " ".join(f"{column.name}{'+' if column.wide else ''}" for column in resource.columns)
    assert shown == COLUMNS.get(resource.kind, "")


@pytest.mark.parametrize("kind", ["ClusterResourcePlacement", "ResourcePlacement"])
def test_the_columns_of_a_placement_read_conditions_of_its_own_kind(kind: str) -> None:
    resource = find_kind("placement.kubernetes-fleet.io/v1beta1", kind)
    assert resource is not None
    (path,) = [column.path for column in resource.columns if column.name == "Scheduled"]
    assert path == f'.status.conditions[?(@.type=="{kind}Scheduled")].status'
