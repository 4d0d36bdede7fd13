"""Snapshots: a policy or a selection of objects as it was at one time. Their specs are never changed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.kinds.markers import Base64, Bool, EmbeddedObject, Int32, Int64
from fleet.model.kinds.meta import Conditions, Document, Model
from fleet.model.kinds.policy import PlacementPolicy


class ClusterScore(Model):
    """What a picked cluster scored."""

    affinity_score: Annotated[Int32 | None, Field(description="Sum of the met preferences.")] = None
    priority_score: Annotated[Int32 | None, Field(description="Score for topology spread.")] = None


class ClusterDecision(Model):
    """What the scheduler decided about one cluster."""

    cluster_name: Annotated[str, Field(description="The cluster.")]
    selected: Annotated[Bool, Field(description="Whether it was picked.")]
    cluster_score: Annotated[ClusterScore | None, Field(description="What it scored.")] = None
    reason: Annotated[str, Field(description="Why it was picked or not, in words for people.")]


class PolicySnapshotSpec(Model):
    """A policy as it was at one time."""

    policy: Annotated[PlacementPolicy | None, Field(description="The policy; every cluster when absent.")] = None
    policy_hash: Annotated[Base64, Field(description="Hash of the policy without its number of clusters.")]


class PolicySnapshotStatus(Model):
    """What the scheduler decided for the policy."""

    observed_crp_generation: Annotated[
        Int64, Field(alias="observedCRPGeneration", description="Generation of the placement that was considered.")
    ]
    conditions: Annotated[Conditions, Field(description="Scheduled.")] = ()
    target_clusters: Annotated[
        tuple[ClusterDecision, ...], Field(max_length=1000, description="The decisions, picked clusters first.")
    ] = ()


class ClusterSchedulingPolicySnapshot(Document):
    """The policy of a ClusterResourcePlacement at one time, and the clusters picked for it."""

    spec: Annotated[PolicySnapshotSpec, Field(description="The policy.")]
    status: Annotated[PolicySnapshotStatus | None, Field(description="The picked clusters.")] = None


class SchedulingPolicySnapshot(Document):
    """The policy of a ResourcePlacement at one time, and the clusters picked for it."""

    spec: Annotated[PolicySnapshotSpec, Field(description="The policy.")]
    status: Annotated[PolicySnapshotStatus | None, Field(description="The picked clusters.")] = None


class ResourceSnapshotSpec(Model):
    """Selected objects as they were at one time."""

    selected_resources: Annotated[tuple[EmbeddedObject, ...], Field(description="The complete objects.")]


class ResourceSnapshotStatus(Model):
    """Declared for compatibility; nothing writes it."""

    conditions: Annotated[Conditions, Field(description="Unused.")] = ()


class ClusterResourceSnapshot(Document):
    """Objects selected by a ClusterResourcePlacement at one time; large selections are split over several."""

    spec: Annotated[ResourceSnapshotSpec, Field(description="The objects.")]
    status: Annotated[ResourceSnapshotStatus, Field(description="Unused.")] = ResourceSnapshotStatus()


class ResourceSnapshot(Document):
    """Objects selected by a ResourcePlacement at one time; large selections are split over several."""

    spec: Annotated[ResourceSnapshotSpec, Field(description="The objects.")]
    status: Annotated[ResourceSnapshotStatus, Field(description="Unused.")] = ResourceSnapshotStatus()
