"""Placement groups: placements that are bound together or not at all."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.model.kinds.markers import Bool, Int32, Int64, Timestamp, ValidationRule, list_map
from fleet.model.kinds.meta import Conditions, Document, Model


class PlacementGroupSpec(Model):
    """When its members, the placements that name it, are bound."""

    rules = (
        ValidationRule(
            id="PG-01",
            text="sameClusters and topologyKey exclude each other",
            cel="!(has(self.sameClusters) && self.sameClusters && has(self.topologyKey) && self.topologyKey != '')",
        ),
    )

    min_count: Annotated[
        Int32 | None,
        Field(ge=1, description="Fewer members are not bound; all that name the group when absent."),
    ] = None
    schedule_timeout_seconds: Annotated[
        Int32, Field(ge=0, description="After this time without a place its members wait for an edit; 0: never.")
    ] = 0
    same_clusters: Annotated[Bool, Field(description="Whether all members get the same clusters.")] = False
    topology_key: Annotated[
        str, Field(max_length=317, description="All clusters of all members have an equal value of this label.")
    ] = ""
    on_partial_bind: Annotated[
        Literal["keep", "unwind"],
        Field(description="What becomes of members that are bound when others of the same decision cannot be."),
    ] = "keep"


class GroupTarget(Model):
    """Clusters that were chosen for a member and are being bound."""

    placement: Annotated[str, Field(description="Name of the placement.")]
    placement_uid: Annotated[str, Field(alias="placementUID", description="UID of the placement.")]
    clusters: Annotated[tuple[str, ...], Field(max_length=1000, description="Its clusters.")] = ()


class PlacementGroupStatus(Model):
    """What has become of the group, written by the scheduler only."""

    observed_generation: Annotated[Int64, Field(description="The generation that the conditions are about.")] = 0
    members: Annotated[Int32, Field(description="How many placements name the group.")] = 0
    placed: Annotated[Int32, Field(description="How many of them are bound.")] = 0
    domain: Annotated[str, Field(description="The value of the topology key that the members have in common.")] = ""
    waiting_since: Annotated[
        Timestamp | None, Field(description="Since when the group waits; absent once it was placed.")
    ] = None
    conditions: Annotated[Conditions, Field(description="InitiallyScheduled and Degraded.")] = ()
    targets: Annotated[
        tuple[GroupTarget, ...],
        Field(description="Members that were decided together and are not all bound yet."),
        list_map("placement"),
    ] = ()


class PlacementGroup(Document):
    """ResourcePlacements of its namespace that are bound together."""

    spec: Annotated[PlacementGroupSpec, Field(description="When they are bound.")]
    status: Annotated[PlacementGroupStatus, Field(description="What has become of them.")] = PlacementGroupStatus()


class ClusterPlacementGroup(Document):
    """ClusterResourcePlacements that are bound together."""

    spec: Annotated[PlacementGroupSpec, Field(description="When they are bound.")]
    status: Annotated[PlacementGroupStatus, Field(description="What has become of them.")] = PlacementGroupStatus()
