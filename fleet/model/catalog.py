"""Catalog of the kinds that Fleet works with: API resource, printer columns and class of each."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from fleet.model.keys import CLUSTER_GROUP, OPERATOR_GROUP, PLACEMENT_GROUP, SCHEDULING_GROUP
from fleet.model.kinds.binding import ClusterResourceBinding, ResourceBinding
from fleet.model.kinds.cluster import InternalMemberCluster, MemberCluster
from fleet.model.kinds.clusterprofile import ClusterProfile
from fleet.model.kinds.envelope import ClusterResourceEnvelope, ResourceEnvelope
from fleet.model.kinds.markers import V1, V1ALPHA1, V1BETA1
from fleet.model.kinds.meta import Document
from fleet.model.kinds.placement import ClusterResourcePlacement, ClusterResourcePlacementStatus, ResourcePlacement
from fleet.model.kinds.placement_group import ClusterPlacementGroup, PlacementGroup
from fleet.model.kinds.quota import ClusterPlacementQuota, PlacementQuota
from fleet.model.kinds.reservation import ClusterReservation
from fleet.model.kinds.rollout.eviction import (
    ClusterResourcePlacementDisruptionBudget,
    ClusterResourcePlacementEviction,
)
from fleet.model.kinds.rollout.override import (
    ClusterResourceOverride,
    ClusterResourceOverrideSnapshot,
    ResourceOverride,
    ResourceOverrideSnapshot,
)
from fleet.model.kinds.rollout.stagedupdate import (
    ApprovalRequest,
    ClusterApprovalRequest,
    ClusterStagedUpdateRun,
    ClusterStagedUpdateStrategy,
    StagedUpdateRun,
    StagedUpdateStrategy,
)
from fleet.model.kinds.scheduling import (
    ClusterPlacementApproval,
    ClusterPlacementOptions,
    PlacementApproval,
    PlacementOptions,
)
from fleet.model.kinds.secondary import SecondaryScheduler
from fleet.model.kinds.snapshots import (
    ClusterResourceSnapshot,
    ClusterSchedulingPolicySnapshot,
    ResourceSnapshot,
    SchedulingPolicySnapshot,
)
from fleet.model.kinds.work import AppliedWork, Work

PROFILE_GROUP: Final = "multicluster.x-k8s.io"
CLUSTER_SCOPE: Final = "Cluster"
NAMESPACED_SCOPE: Final = "Namespaced"


@dataclass(frozen=True)
class PrinterColumn:
    """A column of `kubectl get`; `wide` columns need `-o wide`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False


@dataclass(frozen=True)
class KindDefinition:
    """One kind of the API. `model` describes the storage version."""

    model: type[Document]
    plural: str
    versions: tuple[str, ...]
    _: KW_ONLY
    scope: str
    storage: str = V1BETA1
    group: str = PLACEMENT_GROUP
    short_name: str = ""
    has_status: bool = True
    columns: tuple[PrinterColumn, ...] = ()
    on_member: bool = False

    @property
    def kind(self) -> str:
        return self.model.__name__

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def full_name(self) -> str:
        """The name of the CRD."""
        return f"{self.plural}.{self.group}"

    @property
    def short_names(self) -> tuple[str, ...]:
        return (self.short_name,) if self.short_name else ()

    @property
    def categories(self) -> tuple[str, ...]:
        if self.group in (SCHEDULING_GROUP, OPERATOR_GROUP):
            return ("fleet",)
        family = {PLACEMENT_GROUP: "fleet-placement", CLUSTER_GROUP: "fleet-cluster"}.get(self.group)
        return ("fleet", family) if family else ()

    @property
    def is_namespaced(self) -> bool:
        return self.scope == NAMESPACED_SCOPE

    @property
    def api_version(self) -> str:
        """Group and storage version, which is the one Fleet reads and writes."""
        return f"{self.group}/{self.storage}"

    def serves(self, api_version: str) -> bool:
        group, _, version = api_version.rpartition("/")
        return group == self.group and version in self.versions


AGE: Final = PrinterColumn("Age", ".metadata.creationTimestamp", "date")
GENERATION: Final = PrinterColumn("Gen", ".metadata.generation")


def _condition_column(name: str, type: str, *, field: str = "status", wide: bool = False) -> PrinterColumn:
    return PrinterColumn(name, f'.status.conditions[?(@.type=="{type}")].{field}', wide=wide)


def _build_placement_columns(prefix: str) -> tuple[PrinterColumn, ...]:
    generation = "observedGeneration"
    return (
        GENERATION,
        PrinterColumn("Type", ".spec.policy.placementType", wide=True),
        _condition_column("Scheduled", f"{prefix}Scheduled"),
        _condition_column("Scheduled-Gen", f"{prefix}Scheduled", field=generation),
        _condition_column("Work-Synchronized", f"{prefix}WorkSynchronized", wide=True),
        _condition_column("Work-Synchronized-Gen", f"{prefix}WorkSynchronized", field=generation, wide=True),
        _condition_column("Available", f"{prefix}Available"),
        _condition_column("Available-Gen", f"{prefix}Available", field=generation),
        AGE,
    )


_CLUSTER_COLUMNS: Final = (
    _condition_column("Joined", "Joined"),
    AGE,
    PrinterColumn(
        "Member-Agent-Last-Seen", '.status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat', "date"
    ),
    PrinterColumn("Node-Count", r".status.properties.kubernetes-fleet\.io/node-count.value"),
    PrinterColumn("Available-CPU", ".status.resourceUsage.available.cpu"),
    PrinterColumn("Available-Memory", ".status.resourceUsage.available.memory"),
    PrinterColumn("Allocatable-CPU", ".status.resourceUsage.allocatable.cpu", wide=True),
    PrinterColumn("Allocatable-Memory", ".status.resourceUsage.allocatable.memory", wide=True),
)
_PLACEMENT_STATUS_COLUMNS: Final = (
    PrinterColumn("Resource-Index", ".sourceStatus.observedResourceIndex"),
    PrinterColumn("Last-Updated", ".lastUpdatedTime", "date"),
    AGE,
)
_SNAPSHOT_COLUMNS: Final = (GENERATION, AGE)
_BINDING_COLUMNS: Final = (
    _condition_column("WorkSynchronized", "WorkSynchronized"),
    _condition_column("ResourcesApplied", "Applied"),
    _condition_column("ResourceAvailable", "Available", wide=True),
    AGE,
)
_EVICTION_COLUMNS: Final = (_condition_column("Valid", "Valid"), _condition_column("Executed", "Executed"))
_RUN_COLUMNS: Final = (
    PrinterColumn("Placement", ".spec.placementName"),
    PrinterColumn("Resource-Snapshot-Index", ".spec.resourceSnapshotIndex"),
    PrinterColumn("Policy-Snapshot-Index", ".status.policySnapshotIndexUsed"),
    _condition_column("Initialized", "Initialized"),
    _condition_column("Progressing", "Progressing"),
    _condition_column("Succeeded", "Succeeded"),
    AGE,
    PrinterColumn("Strategy", ".spec.stagedRolloutStrategyName", wide=True),
)
_APPROVAL_COLUMNS: Final = (
    PrinterColumn("Update-Run", ".spec.parentStageRollout"),
    PrinterColumn("Stage", ".spec.targetStage"),
    _condition_column("Approved", "Approved"),
    AGE,
)
_OPTIONS_COLUMNS: Final = (
    PrinterColumn("Scheduler", ".spec.schedulerName"),
    PrinterColumn("Priority", ".spec.priority", "integer"),
    _condition_column("Gated", "Gated"),
    _condition_column("Waiting", "Waiting"),
    AGE,
)
_ANSWER_COLUMNS: Final = (
    PrinterColumn("Placement", ".spec.placement"),
    PrinterColumn("Cluster", ".spec.cluster"),
    PrinterColumn("Decision", ".spec.decision"),
    PrinterColumn("By", ".spec.by.user"),
    AGE,
)
_QUOTA_COLUMNS: Final = (
    PrinterColumn("Min-CPU", ".spec.min.cpu"),
    PrinterColumn("Max-CPU", ".spec.max.cpu"),
    PrinterColumn("Used-CPU", ".status.used.cpu"),
    PrinterColumn("Borrowed-CPU", ".status.borrowed.cpu"),
    AGE,
)
_GROUP_COLUMNS: Final = (
    PrinterColumn("Members", ".status.members", type="integer"),
    PrinterColumn("Placed", ".status.placed", type="integer"),
    PrinterColumn("Min", ".spec.minCount", type="integer"),
    _condition_column("Scheduled", "InitiallyScheduled"),
    AGE,
)
_SECONDARY_COLUMNS: Final = (
    PrinterColumn("State", ".spec.managementState"),
    _condition_column("Available", "Available"),
    _condition_column("Progressing", "Progressing"),
    _condition_column("Degraded", "Degraded"),
    PrinterColumn("Image", ".status.image.reference", wide=True),
    AGE,
)

_BOTH: Final = (V1, V1BETA1)
_ALL: Final = (V1, V1ALPHA1, V1BETA1)
_BETA: Final = (V1BETA1,)
_ALPHA_AND_BETA: Final = (V1ALPHA1, V1BETA1)


_cluster_scoped = partial(KindDefinition, scope=CLUSTER_SCOPE)
_namespaced = partial(KindDefinition, scope=NAMESPACED_SCOPE)

CATALOG: Final[tuple[KindDefinition, ...]] = (
    _cluster_scoped(
        MemberCluster,
        "memberclusters",
        _BOTH,
        short_name="cluster",
        group=CLUSTER_GROUP,
        columns=_CLUSTER_COLUMNS,
    ),
    _namespaced(
        InternalMemberCluster,
        "internalmemberclusters",
        _BOTH,
        short_name="imc",
        group=CLUSTER_GROUP,
        columns=(AGE,),
    ),
    _cluster_scoped(
        ClusterResourcePlacement,
        "clusterresourceplacements",
        _BOTH,
        short_name="crp",
        columns=_build_placement_columns("ClusterResourcePlacement"),
    ),
    _namespaced(
        ResourcePlacement,
        "resourceplacements",
        _BOTH,
        short_name="rp",
        columns=_build_placement_columns("ResourcePlacement"),
    ),
    _namespaced(
        ClusterResourcePlacementStatus,
        "clusterresourceplacementstatuses",
        _BOTH,
        short_name="crps",
        has_status=False,
        columns=_PLACEMENT_STATUS_COLUMNS,
    ),
    _cluster_scoped(
        ClusterSchedulingPolicySnapshot,
        "clusterschedulingpolicysnapshots",
        _BOTH,
        short_name="csps",
        columns=_SNAPSHOT_COLUMNS,
    ),
    _namespaced(
        SchedulingPolicySnapshot, "schedulingpolicysnapshots", _BETA, short_name="sps", columns=_SNAPSHOT_COLUMNS
    ),
    _cluster_scoped(
        ClusterResourceSnapshot, "clusterresourcesnapshots", _BOTH, short_name="crs", columns=_SNAPSHOT_COLUMNS
    ),
    _namespaced(ResourceSnapshot, "resourcesnapshots", _BETA, short_name="rs", columns=_SNAPSHOT_COLUMNS),
    _cluster_scoped(
        ClusterResourceBinding, "clusterresourcebindings", _BOTH, short_name="crb", columns=_BINDING_COLUMNS
    ),
    _namespaced(ResourceBinding, "resourcebindings", _BETA, short_name="rb", columns=_BINDING_COLUMNS),
    _namespaced(Work, "works", _BOTH),
    _cluster_scoped(AppliedWork, "appliedworks", _BOTH, on_member=True),
    _cluster_scoped(ClusterResourceOverride, "clusterresourceoverrides", _ALL, has_status=False),
    _namespaced(ResourceOverride, "resourceoverrides", _ALL, has_status=False),
    _cluster_scoped(ClusterResourceOverrideSnapshot, "clusterresourceoverridesnapshots", _ALL, has_status=False),
    _namespaced(ResourceOverrideSnapshot, "resourceoverridesnapshots", _ALL, has_status=False),
    _cluster_scoped(ClusterResourceEnvelope, "clusterresourceenvelopes", _BETA, has_status=False),
    _namespaced(ResourceEnvelope, "resourceenvelopes", _BETA, has_status=False),
    _cluster_scoped(
        ClusterResourcePlacementEviction,
        "clusterresourceplacementevictions",
        _ALPHA_AND_BETA,
        short_name="crpe",
        columns=_EVICTION_COLUMNS,
    ),
    _cluster_scoped(
        ClusterResourcePlacementDisruptionBudget,
        "clusterresourceplacementdisruptionbudgets",
        _ALPHA_AND_BETA,
        short_name="crpdb",
        has_status=False,
    ),
    _cluster_scoped(ClusterStagedUpdateRun, "clusterstagedupdateruns", _ALL, short_name="csur", columns=_RUN_COLUMNS),
    _namespaced(StagedUpdateRun, "stagedupdateruns", _BOTH, short_name="sur", columns=_RUN_COLUMNS),
    # The status subresource of the first is declared although the kind has no status; the second has none.
    _cluster_scoped(ClusterStagedUpdateStrategy, "clusterstagedupdatestrategies", _ALL, short_name="csus"),
    _namespaced(StagedUpdateStrategy, "stagedupdatestrategies", _BOTH, short_name="sus", has_status=False),
    _cluster_scoped(
        ClusterApprovalRequest, "clusterapprovalrequests", _ALL, short_name="careq", columns=_APPROVAL_COLUMNS
    ),
    _namespaced(ApprovalRequest, "approvalrequests", _BOTH, short_name="areq", columns=_APPROVAL_COLUMNS),
    _namespaced(ClusterProfile, "clusterprofiles", (V1ALPHA1,), group=PROFILE_GROUP, storage=V1ALPHA1),
    _namespaced(
        PlacementOptions,
        "placementoptions",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="po",
        columns=_OPTIONS_COLUMNS,
    ),
    _cluster_scoped(
        ClusterPlacementOptions,
        "clusterplacementoptions",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="cpo",
        columns=_OPTIONS_COLUMNS,
    ),
    _namespaced(
        PlacementApproval,
        "placementapprovals",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="pa",
        has_status=False,
        columns=_ANSWER_COLUMNS,
    ),
    _cluster_scoped(
        ClusterPlacementApproval,
        "clusterplacementapprovals",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="cpa",
        has_status=False,
        columns=_ANSWER_COLUMNS,
    ),
    _namespaced(
        PlacementQuota,
        "placementquotas",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="pq",
        columns=_QUOTA_COLUMNS,
    ),
    _cluster_scoped(
        ClusterPlacementQuota,
        "clusterplacementquotas",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="cpq",
        columns=_QUOTA_COLUMNS,
    ),
    _cluster_scoped(
        ClusterReservation,
        "clusterreservations",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="cres",
        has_status=False,
    ),
    _namespaced(
        PlacementGroup,
        "placementgroups",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="pg",
        columns=_GROUP_COLUMNS,
    ),
    _cluster_scoped(
        ClusterPlacementGroup,
        "clusterplacementgroups",
        (V1ALPHA1,),
        group=SCHEDULING_GROUP,
        storage=V1ALPHA1,
        short_name="cpg",
        columns=_GROUP_COLUMNS,
    ),
    _namespaced(
        SecondaryScheduler,
        "secondaryschedulers",
        (V1,),
        group=OPERATOR_GROUP,
        storage=V1,
        columns=_SECONDARY_COLUMNS,
    ),
)

_BY_GROUP_AND_KIND: Final = {(resource.group, resource.kind): resource for resource in CATALOG}


def find_kind(api_version: str, kind: str) -> KindDefinition | None:
    """The kind served under this apiVersion. The name alone is ambiguous: other groups reuse names."""
    resource = _BY_GROUP_AND_KIND.get((api_version.rpartition("/")[0], kind))
    return resource if resource is not None and resource.serves(api_version) else None
