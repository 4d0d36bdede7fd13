"""Bindings: the decision that a placement goes to a cluster, and the progress of its rollout there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleet.model.kinds.identifiers import DiffedPlacements, DriftedPlacements, FailedPlacements
from fleet.model.kinds.meta import Conditions, Document, Model, NamespacedName
from fleet.model.kinds.rollout.strategies import ApplyStrategy
from fleet.model.kinds.snapshots import ClusterDecision


class BindingSpec(Model):
    """A placement, a cluster, and what is to run there."""

    state: Annotated[str, Field(description="Scheduled, Bound or Unscheduled.")]
    resource_snapshot_name: Annotated[
        str, Field(description="The master resource snapshot to roll out; empty until that is decided.")
    ]
    resource_override_snapshots: Annotated[
        tuple[NamespacedName, ...], Field(description="Snapshots of the namespaced overrides to apply.")
    ] = ()
    cluster_resource_override_snapshots: Annotated[
        tuple[str, ...], Field(description="Snapshots of the cluster-scoped overrides to apply.")
    ] = ()
    scheduling_policy_snapshot_name: Annotated[str, Field(description="The policy snapshot this was decided for.")]
    target_cluster: Annotated[str, Field(description="The cluster.")]
    cluster_decision: Annotated[ClusterDecision, Field(description="Why this cluster was picked.")]
    apply_strategy: Annotated[ApplyStrategy | None, Field(description="How objects are written on the member.")] = None


class BindingStatus(Model):
    """How far the cluster has come."""

    failed_placements: FailedPlacements = ()
    drifted_placements: DriftedPlacements = ()
    diffed_placements: DiffedPlacements = ()
    conditions: Annotated[
        Conditions,
        Field(description="RolloutStarted, Overridden, WorkSynchronized, Applied, Available, DiffReported."),
    ] = ()


class ClusterResourceBinding(Document):
    """Binds a ClusterResourcePlacement to a cluster."""

    spec: Annotated[BindingSpec, Field(description="What runs where.")]
    status: Annotated[BindingStatus, Field(description="How far that has come.")] = BindingStatus()


class ResourceBinding(Document):
    """Binds a ResourcePlacement to a cluster."""

    spec: Annotated[BindingSpec, Field(description="What runs where.")]
    status: Annotated[BindingStatus, Field(description="How far that has come.")] = BindingStatus()
