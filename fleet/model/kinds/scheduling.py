"""Companions of placements: options that the placement itself has no field for, and approvals."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.model.kinds.markers import Bool, Int32, Int64, Quantities, Quantity, Timestamp, ValidationRule, list_map
from fleet.model.kinds.meta import Conditions, Document, LabelSelector, Model

LARGEST_PRIORITY = 1_000_000_000
LABEL_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_DURATION_PATTERN = "^([1-9][0-9]*(s|m|h))+$"

_Label = Annotated[str, Field(max_length=63, pattern=LABEL_PATTERN)]
_Names = Annotated[tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=32)]


class Gate(Model):
    """Holds the placement until it is removed from the list."""

    name: Annotated[_Label, Field(description="Name of the gate.")]
    message: Annotated[str, Field(max_length=1024, description="What the placement waits for.")] = ""


class Approvers(Model):
    """Who may approve; everyone with the right to, if both lists are empty."""

    users: Annotated[_Names, Field(description="Names of users.")] = ()
    groups: Annotated[_Names, Field(description="Groups, of which any member may approve.")] = ()


class ApprovalRule(Model):
    """Chosen clusters that need approval before anything is placed there."""

    name: Annotated[_Label, Field(description="Name of the rule.")]
    clusters: Annotated[
        LabelSelector | None, Field(description="Labels of the clusters that need approval; every cluster when absent.")
    ] = None
    approvers: Annotated[Approvers, Field(description="Who may approve.")] = Approvers()
    count: Annotated[Int32, Field(ge=1, le=16, description="How many different approvers are needed.")] = 1
    hold_seconds: Annotated[
        Int32,
        Field(ge=0, le=900, description="How long the chosen clusters stay reserved for an answer."),
    ] = 0
    valid_for: Annotated[
        str, Field(max_length=32, pattern=_DURATION_PATTERN, description="How long an approval counts, such as 24h.")
    ] = "24h"
    sticky: Annotated[
        Bool, Field(description="Whether approvals still count after the selected resources or the policy changed.")
    ] = False


class DataSet(Model):
    """A data set or an image that the copy on a cluster reads."""

    name: Annotated[
        str,
        Field(max_length=63, pattern="^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", description="Name of the data set."),
    ]
    bytes: Annotated[Quantity, Field(description="Its size.")]


class PlacementHint(Model):
    """A cluster that a service outside would choose."""

    cluster: Annotated[str, Field(min_length=1, max_length=253, description="Name of the cluster.")]
    owner: Annotated[str, Field(min_length=1, max_length=253, description="Who gives the hint.")]
    expires_at: Annotated[
        Timestamp, Field(description="When it ends; it counts in the 24 hours before, and not earlier.")
    ]


class PlacementTerm(Model):
    """Placements that this one belongs with, or keeps away from."""

    placements: Annotated[
        LabelSelector, Field(description="Labels of the placements, of the same namespace; all when empty.")
    ]
    topology_key: Annotated[
        str,
        Field(
            max_length=317,
            description="Clusters with equal values of this label are one place; each cluster for itself when empty.",
        ),
    ] = ""
    anti: Annotated[Bool, Field(description="Whether it keeps away from them.")] = False


class WeightedPlacementTerm(PlacementTerm):
    """A preference."""

    weight: Annotated[Int32, Field(ge=1, le=100, description="How much it counts.")]


class PlacementTerms(Model):
    """Places that are near to other placements, or far from them."""

    required: Annotated[
        tuple[PlacementTerm, ...], Field(max_length=8, description="Terms that a cluster must meet, all of them.")
    ] = ()
    preferred: Annotated[
        tuple[WeightedPlacementTerm, ...], Field(max_length=8, description="Terms that clusters are ranked by.")
    ] = ()


class PlacementOptionsSpec(Model):
    """How the placement of the same name is scheduled."""

    rules = (
        ValidationRule(
            id="OP-01",
            text="gates can be removed, but not added",
            cel="!has(self.gates)"
            " || self.gates.all(g, has(oldSelf.gates) && oldSelf.gates.exists(o, o.name == g.name))",
            holds_after=lambda old, new: {gate.name for gate in new.gates} <= {gate.name for gate in old.gates},
        ),
    )

    scheduler_name: Annotated[
        str,
        Field(
            max_length=63,
            pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?|DefaultScheduler)?$",
            description="The profile that decides the placement; that of its annotation when empty.",
        ),
    ] = ""
    priority_class_name: Annotated[
        str, Field(max_length=253, description="Name of a PriorityClass of the hub that sets the priority.")
    ] = ""
    priority: Annotated[
        Int32 | None,
        Field(
            ge=-LARGEST_PRIORITY,
            le=LARGEST_PRIORITY,
            description="Placements with a higher priority are scheduled first; 0 when absent.",
        ),
    ] = None
    preemption_policy: Annotated[
        Literal["PreemptLowerPriority", "Never"] | None,
        Field(
            description="Whether room may be made for the placement, where its profile does that; "
            "by default as its PriorityClass says."
        ),
    ] = None
    gates: Annotated[
        tuple[Gate, ...],
        Field(max_length=16, description="The placement is not scheduled while any is left."),
        list_map("name"),
    ] = ()
    approvals: Annotated[
        tuple[ApprovalRule, ...],
        Field(max_length=8, description="Chosen clusters that need approval."),
        list_map("name"),
    ] = ()
    requests: Annotated[
        Quantities | None,
        Field(max_length=32, description="What the copy on one cluster needs, by resource; wins over the annotation."),
    ] = None
    affinity: Annotated[
        PlacementTerms | None, Field(description="Other placements that it belongs with, or keeps away from.")
    ] = None
    locality: Annotated[
        tuple[DataSet, ...] | None,
        Field(
            max_length=16,
            description="What the copy on a cluster reads: clusters that have it are preferred.",
        ),
        list_map("name"),
    ] = None
    placement_hints: Annotated[
        tuple[PlacementHint, ...],
        Field(max_length=32, description="Clusters to try first; nothing is reserved there."),
        list_map("cluster", "owner"),
    ] = ()
    min_targets: Annotated[
        Int32 | None,
        Field(
            ge=1,
            description="Without that many clusters no further one is taken; not more than numberOfClusters.",
        ),
    ] = None
    group: Annotated[str, Field(max_length=253, description="The placement group that it belongs to.")] = ""


class WaitingTarget(Model):
    """A chosen cluster that waits for an answer."""

    cluster: Annotated[str, Field(description="The cluster.")]
    plugin: Annotated[str, Field(description="The plugin that waits.")]
    rule: Annotated[str, Field(description="The approval rule; empty if the plugin has none.")]
    since: Annotated[Timestamp, Field(description="Since when it waits.")]
    deadline: Annotated[
        Timestamp | None, Field(description="When the cluster is given up; absent if nothing is reserved.")
    ] = None


class NominatedTarget(Model):
    """A cluster that the next attempt tries first."""

    cluster: Annotated[str, Field(description="The cluster.")]
    since: Annotated[Timestamp, Field(description="When it was chosen.")]
    cause: Annotated[Literal["Preemption", "Permit", "PreBind"], Field(description="Why it is remembered.")]


class PreemptionStatus(Model):
    """A cluster where room is made for the placement."""

    cluster: Annotated[str, Field(description="The cluster.")]
    priority: Annotated[Int32, Field(description="The priority for which it is kept.")] = 0
    phase: Annotated[Literal["Selected", "Evicting", "Drained"], Field(description="How far that is.")]
    victims: Annotated[tuple[str, ...], Field(max_length=1000, description="Placements that have to leave it.")] = ()
    since: Annotated[Timestamp, Field(description="When the phase began.")]


class PlacementOptionsStatus(Model):
    """What the scheduler makes of the options, written by the scheduler only."""

    observed_generation: Annotated[Int64, Field(description="The generation of the options that this is about.")] = 0
    placement_uid: Annotated[str, Field(alias="placementUID", description="UID of the placement.")] = ""
    placement_generation: Annotated[
        Int64, Field(description="The generation of the placement that the clusters below were chosen for.")
    ] = 0
    options_generation: Annotated[
        Int64, Field(description="The generation of the options then; 0 where the scheduler made them.")
    ] = 0
    conditions: Annotated[Conditions, Field(description="Accepted, Gated, Waiting and Preempting.")] = ()
    waiting: Annotated[
        tuple[WaitingTarget, ...],
        Field(description="Chosen clusters that wait for an answer."),
        list_map("cluster", "plugin", "rule"),
    ] = ()
    nominated_targets: Annotated[
        tuple[NominatedTarget, ...],
        Field(description="Clusters that the next attempt tries first."),
        list_map("cluster"),
    ] = ()
    preemptions: Annotated[
        tuple[PreemptionStatus, ...],
        Field(description="Clusters where room is made."),
        list_map("cluster"),
    ] = ()


class PlacementOptions(Document):
    """Options of the ResourcePlacement of the same name."""

    spec: Annotated[PlacementOptionsSpec, Field(description="How it is scheduled.")]
    status: Annotated[PlacementOptionsStatus, Field(description="What the scheduler makes of it.")] = (
        PlacementOptionsStatus()
    )


class ClusterPlacementOptions(Document):
    """Options of the ClusterResourcePlacement of the same name."""

    spec: Annotated[PlacementOptionsSpec, Field(description="How it is scheduled.")]
    status: Annotated[PlacementOptionsStatus, Field(description="What the scheduler makes of it.")] = (
        PlacementOptionsStatus()
    )


class Approver(Model):
    """Who answered."""

    user: Annotated[str, Field(min_length=1, max_length=253, description="Name of the user.")]
    groups: Annotated[
        tuple[Annotated[str, Field(max_length=253)], ...], Field(max_length=128, description="The user's groups.")
    ] = ()


class PlacementApprovalSpec(Model):
    """An answer about one chosen cluster."""

    rules = (ValidationRule(id="AP-01", text="an approval cannot be edited; create a new one", cel="self == oldSelf"),)

    placement: Annotated[str, Field(min_length=1, max_length=253, description="Name of the placement.")]
    placement_uid: Annotated[
        str, Field(alias="placementUID", min_length=1, max_length=63, description="UID of the placement.")
    ]
    rule: Annotated[_Label, Field(description="The approval rule that is answered.")]
    cluster: Annotated[str, Field(min_length=1, max_length=253, description="The chosen cluster.")]
    decision: Annotated[Literal["Approved", "Denied"], Field(description="The answer.")]
    by: Annotated[Approver, Field(description="Who answered.")]
    message: Annotated[str, Field(max_length=1024, description="Why.")] = ""
    expires_at: Annotated[
        Timestamp | None,
        Field(description="Until when it counts, if that is earlier than the rule says."),
    ] = None
    selection: Annotated[
        str,
        Field(
            max_length=64,
            description="Digest of the placement's resource selectors and policy that were approved; any when empty.",
        ),
    ] = ""


class PlacementApproval(Document):
    """An answer to a ResourcePlacement that waits for approval."""

    spec: Annotated[PlacementApprovalSpec, Field(description="The answer.")]


class ClusterPlacementApproval(Document):
    """An answer to a ClusterResourcePlacement that waits for approval."""

    spec: Annotated[PlacementApprovalSpec, Field(description="The answer.")]
