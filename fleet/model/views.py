"""Narrow views of the watched kinds, with only the fields that controllers decode.

Each view has a subset of the fields of its pydantic kind under the same JSON names; a test compares them field by
field. Views are tolerant where the API server has validated (enumerations are plain texts), so that an unusual object
is still readable; the code that uses a field validates its value. Unknown fields are kept in the raw document of
`Observed`, so that a PUT sends back everything that was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

QuantityText = str | int | float


class View(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all views: immutable, camelCase on the wire.

    The garbage collector leaves them out: what is decoded has no cycles, and a large policy is tens of thousands."""


class Metadata(View, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None

    def label(self, key: str) -> str | None:
        return self.labels.get(key) if self.labels else None

    def annotation(self, key: str) -> str | None:
        return self.annotations.get(key) if self.annotations else None


class Condition(View, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0


# --- member clusters ------------------------------------------------------------------------------------------------


class Taint(View, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class MemberClusterSpec(View, frozen=True):
    taints: tuple[Taint, ...] = ()


class PropertyValue(View, frozen=True):
    value: str = ""
    observation_time: str | None = None


class ResourceUsage(View, frozen=True):
    capacity: dict[str, QuantityText] | None = None
    allocatable: dict[str, QuantityText] | None = None
    available: dict[str, QuantityText] | None = None
    observation_time: str | None = None

    @property
    def quantities(self) -> tuple[dict[str, QuantityText] | None, ...]:
        """Without the time, which differs in every report."""
        return self.capacity, self.allocatable, self.available


class AgentStatus(View, frozen=True):
    type: str = ""
    conditions: tuple[Condition, ...] = ()
    last_received_heartbeat: str | None = None


class MemberClusterStatus(View, frozen=True):
    conditions: tuple[Condition, ...] = ()
    properties: dict[str, PropertyValue] | None = None
    resource_usage: ResourceUsage | None = None
    agent_status: tuple[AgentStatus, ...] = ()
    namespaces: dict[str, str] | None = None


class MemberCluster(View, frozen=True):
    metadata: Metadata = Metadata()
    spec: MemberClusterSpec = MemberClusterSpec()
    status: MemberClusterStatus = MemberClusterStatus()


# --- placement policies ---------------------------------------------------------------------------------------------


class SelectorRequirement(View, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(View, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[SelectorRequirement, ...] = ()


class PropertyRequirement(View, frozen=True):
    name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class PropertySelector(View, frozen=True):
    match_expressions: tuple[PropertyRequirement, ...] = ()


class PropertySorter(View, frozen=True):
    name: str = ""
    sort_order: str = ""


class ClusterSelectorTerm(View, frozen=True):
    label_selector: LabelSelector | None = None
    property_selector: PropertySelector | None = None
    property_sorter: PropertySorter | None = None


class ClusterSelector(View, frozen=True):
    cluster_selector_terms: tuple[ClusterSelectorTerm, ...] = ()


class PreferredClusterSelector(View, frozen=True):
    weight: int = 0
    preference: ClusterSelectorTerm = ClusterSelectorTerm()


class ClusterAffinity(View, frozen=True):
    required: ClusterSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredClusterSelector, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(View, frozen=True):
    cluster_affinity: ClusterAffinity | None = None


class TopologySpreadConstraint(View, frozen=True):
    topology_key: str = ""
    max_skew: int = 1
    when_unsatisfiable: str = "DoNotSchedule"


class Toleration(View, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class PlacementPolicy(View, frozen=True):
    placement_type: str = "PickAll"
    cluster_names: tuple[str, ...] = ()
    number_of_clusters: int | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


# --- policy snapshots -----------------------------------------------------------------------------------------------


class ClusterScore(View, frozen=True, omit_defaults=False):
    """An absent part is not zero: it stays absent when the score is published again."""

    affinity_score: int | msgspec.UnsetType = msgspec.UNSET
    priority_score: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def affinity(self) -> int:
        return 0 if self.affinity_score is msgspec.UNSET else self.affinity_score

    @property
    def topology(self) -> int:
        return 0 if self.priority_score is msgspec.UNSET else self.priority_score


class ClusterDecision(View, frozen=True, omit_defaults=False):
    cluster_name: str = ""
    selected: bool = False
    reason: str = ""
    cluster_score: ClusterScore | msgspec.UnsetType | None = msgspec.UNSET


class PolicySnapshotSpec(View, frozen=True):
    policy: PlacementPolicy | None = None


class PolicySnapshotStatus(View, frozen=True):
    observed_crp_generation: int = msgspec.field(default=0, name="observedCRPGeneration")
    conditions: tuple[Condition, ...] = ()
    target_clusters: tuple[ClusterDecision, ...] = ()


class PolicySnapshot(View, frozen=True):
    """ClusterSchedulingPolicySnapshot and SchedulingPolicySnapshot: the latter has a namespace."""

    metadata: Metadata = Metadata()
    spec: PolicySnapshotSpec = PolicySnapshotSpec()
    status: PolicySnapshotStatus = PolicySnapshotStatus()


# --- bindings -------------------------------------------------------------------------------------------------------


class BindingSpec(View, frozen=True):
    state: str = ""
    target_cluster: str = ""
    scheduling_policy_snapshot_name: str = ""
    resource_snapshot_name: str = ""
    cluster_decision: ClusterDecision = ClusterDecision()


class Binding(View, frozen=True):
    """ClusterResourceBinding and ResourceBinding: the latter has a namespace."""

    metadata: Metadata = Metadata()
    spec: BindingSpec = BindingSpec()


# --- placements -----------------------------------------------------------------------------------------------------


class Placement(View, frozen=True):
    """ClusterResourcePlacement and ResourcePlacement for the scheduler: metadata, the rest on demand."""

    metadata: Metadata = Metadata()
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class ApplyStrategy(View, frozen=True):
    type: str = "ClientSideApply"


class RolloutStrategy(View, frozen=True):
    type: str = "RollingUpdate"
    apply_strategy: ApplyStrategy | None = None


class PlacementSpec(View, frozen=True):
    """Read from the `spec` of a `Placement`. The policy stays raw: snapshots contain it unchanged."""

    policy: msgspec.Raw = msgspec.Raw(b"")
    strategy: RolloutStrategy = RolloutStrategy()
    revision_history_limit: int = 10
    status_reporting_scope: str = "ClusterScopeOnly"


class PerClusterPlacementStatus(View, frozen=True):
    cluster_name: str = ""
    conditions: tuple[Condition, ...] = ()


class PlacementStatus(View, frozen=True):
    """Read from the `status` of a `Placement`: the fields that the next status depends on."""

    observed_resource_index: str = ""
    placement_statuses: tuple[PerClusterPlacementStatus, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ClusterResourcePlacementStatus(View, frozen=True):
    metadata: Metadata = Metadata()


# --- reports of members ---------------------------------------------------------------------------------------------


class BoundSpec(View, frozen=True):
    state: str = ""
    target_cluster: str = ""
    scheduling_policy_snapshot_name: str = ""
    resource_snapshot_name: str = ""
    resource_override_snapshots: tuple[msgspec.Raw, ...] = ()
    cluster_resource_override_snapshots: tuple[str, ...] = ()


class BindingStatus(View, frozen=True):
    """The lists stay raw: they are passed on, not interpreted."""

    conditions: tuple[Condition, ...] = ()
    failed_placements: tuple[msgspec.Raw, ...] = ()
    drifted_placements: tuple[msgspec.Raw, ...] = ()
    diffed_placements: tuple[msgspec.Raw, ...] = ()


class BindingReport(View, frozen=True):
    """A binding for the placement controller: the rollout of the scheduler's decision."""

    metadata: Metadata = Metadata()
    spec: BoundSpec = BoundSpec()
    status: BindingStatus = BindingStatus()


class StagedUpdateRunSpec(View, frozen=True):
    placement_name: str = ""


class StagedUpdateRun(View, frozen=True):
    """ClusterStagedUpdateRun and StagedUpdateRun: the latter has a namespace."""

    metadata: Metadata = Metadata()
    spec: StagedUpdateRunSpec = StagedUpdateRunSpec()


# --- companions of placements ---------------------------------------------------------------------------------------


class Gate(View, frozen=True):
    name: str = ""
    message: str = ""


class Approvers(View, frozen=True):
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


class ApprovalRule(View, frozen=True):
    name: str = ""
    clusters: LabelSelector | None = None
    approvers: Approvers = Approvers()
    count: int = 1
    hold_seconds: int = 0
    valid_for: str = "24h"
    sticky: bool = False


class DataSet(View, frozen=True):
    name: str = ""
    bytes: QuantityText = 0


class PlacementTerm(View, frozen=True):
    """Which placements it is about, and where they count as near."""

    placements: LabelSelector | None = None
    topology_key: str = ""
    """Clusters with equal values of this label are one domain; without a key every cluster is its own."""
    anti: bool = False


class WeightedPlacementTerm(PlacementTerm, frozen=True):
    weight: int = 0


class PlacementTerms(View, frozen=True):
    required: tuple[PlacementTerm, ...] = ()
    preferred: tuple[WeightedPlacementTerm, ...] = ()


class PlacementHint(View, frozen=True):
    cluster: str = ""
    owner: str = ""
    expires_at: str = ""


class PlacementOptionsSpec(View, frozen=True):
    scheduler_name: str = ""
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    gates: tuple[Gate, ...] = ()
    approvals: tuple[ApprovalRule, ...] = ()
    requests: dict[str, QuantityText] | None = None
    affinity: PlacementTerms | None = None
    locality: tuple[DataSet, ...] | None = None
    placement_hints: tuple[PlacementHint, ...] = ()
    min_targets: int | None = None
    group: str = ""


class WaitingTarget(View, frozen=True):
    cluster: str = ""
    plugin: str = ""
    rule: str = ""
    since: str = ""
    deadline: str | None = None


class NominatedTarget(View, frozen=True):
    cluster: str = ""
    since: str = ""
    cause: str = ""


class PriorityClass(View, frozen=True):
    """Of Kubernetes itself."""

    metadata: Metadata = Metadata()
    value: int = 0
    preemption_policy: str | None = None


class DisruptionBudgetSpec(View, frozen=True):
    max_unavailable: int | str | None = None
    min_available: int | str | None = None


class DisruptionBudget(View, frozen=True):
    """ClusterResourcePlacementDisruptionBudget."""

    metadata: Metadata = Metadata()
    spec: DisruptionBudgetSpec = DisruptionBudgetSpec()


class PreemptionStatus(View, frozen=True):
    cluster: str = ""
    priority: int = 0
    phase: str = ""
    victims: tuple[str, ...] = ()
    since: str = ""


class PlacementOptionsStatus(View, frozen=True):
    observed_generation: int = 0
    placement_uid: str = msgspec.field(default="", name="placementUID")
    placement_generation: int = 0
    options_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    waiting: tuple[WaitingTarget, ...] = ()
    nominated_targets: tuple[NominatedTarget, ...] = ()
    preemptions: tuple[PreemptionStatus, ...] = ()


class PlacementOptions(View, frozen=True):
    """ClusterPlacementOptions and PlacementOptions: the latter has a namespace."""

    metadata: Metadata = Metadata()
    spec: PlacementOptionsSpec = PlacementOptionsSpec()
    status: PlacementOptionsStatus = PlacementOptionsStatus()


class Approver(View, frozen=True):
    user: str = ""
    groups: tuple[str, ...] = ()


class PlacementQuotaSpec(View, frozen=True):
    placements: LabelSelector | None = None
    min: dict[str, QuantityText] | None = None
    max: dict[str, QuantityText] | None = None


class PlacementQuotaStatus(View, frozen=True):
    used: dict[str, QuantityText] | None = None
    borrowed: dict[str, QuantityText] | None = None


class PlacementQuota(View, frozen=True):
    """ClusterPlacementQuota and PlacementQuota: the latter has a namespace, and selects all placements there."""

    metadata: Metadata = Metadata()
    spec: PlacementQuotaSpec = PlacementQuotaSpec()
    status: PlacementQuotaStatus = PlacementQuotaStatus()


class PlacementGroupSpec(View, frozen=True):
    min_count: int | None = None
    schedule_timeout_seconds: int = 0
    same_clusters: bool = False
    topology_key: str = ""
    on_partial_bind: str = "keep"


class GroupTarget(View, frozen=True):
    placement: str = ""
    placement_uid: str = msgspec.field(default="", name="placementUID")
    clusters: tuple[str, ...] = ()


class PlacementGroupStatus(View, frozen=True):
    observed_generation: int = 0
    members: int = 0
    placed: int = 0
    domain: str = ""
    waiting_since: str | None = None
    conditions: tuple[Condition, ...] = ()
    targets: tuple[GroupTarget, ...] = ()


class PlacementGroup(View, frozen=True):
    """ClusterPlacementGroup and PlacementGroup: the latter has a namespace."""

    metadata: Metadata = Metadata()
    spec: PlacementGroupSpec = PlacementGroupSpec()
    status: PlacementGroupStatus = PlacementGroupStatus()


class ReservationEntry(View, frozen=True):
    owner: str = ""
    placement: str = ""
    uid: str = ""
    requests: dict[str, QuantityText] = {}
    expires_at: str | None = None


class ClusterReservationSpec(View, frozen=True):
    entries: tuple[ReservationEntry, ...] = ()


class ClusterReservation(View, frozen=True):
    metadata: Metadata = Metadata()
    spec: ClusterReservationSpec = ClusterReservationSpec()


class PlacementApprovalSpec(View, frozen=True):
    placement: str = ""
    placement_uid: str = msgspec.field(default="", name="placementUID")
    rule: str = ""
    cluster: str = ""
    decision: str = ""
    by: Approver = Approver()
    message: str = ""
    expires_at: str | None = None
    selection: str = ""


class PlacementApproval(View, frozen=True):
    """ClusterPlacementApproval and PlacementApproval: the latter has a namespace."""

    metadata: Metadata = Metadata()
    spec: PlacementApprovalSpec = PlacementApprovalSpec()


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An absent effect means every effect, an absent operator means Equal; an unknown operator matches no taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    if toleration.operator in ("", "Equal"):
        return toleration.key == taint.key and toleration.value == taint.value
    return False


def find_untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """The first taint, in the order of the cluster, that no toleration accepts."""
    for taint in taints:
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


V = TypeVar("V", bound=View)


class Observed(msgspec.Struct, Generic[V], frozen=True):
    """A view together with the document it was read from."""

    view: V
    raw: bytes
    spec_span: tuple[int, int] = (0, 0)
    """Where the spec of a large document begins and ends."""

    def document(self) -> dict[str, Any]:
        """The whole document as read, unknown fields included: edit it and send it back."""
        decoded: dict[str, Any] = msgspec.json.decode(self.raw)
        return decoded

    def status_document(self) -> dict[str, Any]:
        """The status as read; the rest is not decoded, which takes long where a policy is large."""
        return _decode_status(self.raw).status or {}

    def document_around_spec(self) -> dict[str, Any]:
        """As `document`, with the spec as read, which takes long to decode where a policy is large."""
        fields = _decode_fields(self.raw)
        return {name: text if name == "spec" else msgspec.json.decode(text) for name, text in fields.items()}


class _WithStatus(msgspec.Struct, frozen=True):
    status: dict[str, Any] | None = None


_decode_status = msgspec.json.Decoder(_WithStatus).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
