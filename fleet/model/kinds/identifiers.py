"""Identifiers of placed objects in statuses, with the details of those that failed, drifted or differ."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.model.kinds.markers import V1, DiffersIn, Int64, Timestamp
from fleet.model.kinds.meta import Condition, Model


class EnvelopeIdentifier(Model):
    """Names the envelope an object came in. Always write the type: its default means a legacy ConfigMap."""

    name: Annotated[str, Field(description="Name of the envelope.")]
    namespace: Annotated[str, Field(description="Its namespace; empty for a cluster-scoped envelope.")] = ""
    type: Annotated[
        Literal["ConfigMap", "ClusterResourceEnvelope", "ResourceEnvelope"],
        Field(description="Kind of the envelope."),
        DiffersIn(V1, enum=("ClusterResourceEnvelope", "ResourceEnvelope")),
    ] = "ConfigMap"


class ResourceIdentifier(Model):
    """Names one object."""

    group: Annotated[str, Field(description="API group; empty for the core group.")] = ""
    version: Annotated[str, Field(description="API version.")]
    kind: Annotated[str, Field(description="Kind of the object.")]
    name: Annotated[str, Field(description="Name of the object.")]
    namespace: Annotated[str, Field(description="Its namespace; empty for a cluster-scoped object.")] = ""
    envelope: Annotated[EnvelopeIdentifier | None, Field(description="The envelope it came in.")] = None


class PatchDetail(Model):
    """One field that is not as the hub wants it."""

    path: Annotated[str, Field(description="The field, as a JSON pointer.")]
    value_in_member: Annotated[str, Field(description="Its value on the member; empty when absent.")] = ""
    value_in_hub: Annotated[str, Field(description="Its value on the hub; empty when absent.")] = ""


class FailedPlacement(ResourceIdentifier):
    """An object that could not be applied or is not available."""

    condition: Annotated[Condition, Field(description="What failed, and why.")]


class DriftedPlacement(ResourceIdentifier):
    """An object that was changed on the member after it was applied."""

    observation_time: Annotated[Timestamp, Field(description="When the drift was last seen.")]
    target_cluster_observed_generation: Annotated[
        Int64, Field(description="Generation of the object on the member at that time.")
    ]
    first_drifted_observed_time: Annotated[Timestamp, Field(description="When the drift was first seen.")]
    observed_drifts: Annotated[tuple[PatchDetail, ...], Field(description="The fields that drifted.")] = ()


class DiffedPlacement(ResourceIdentifier):
    """An object on the member that differs from the hub's and is not managed by the fleet."""

    observation_time: Annotated[Timestamp, Field(description="When the difference was last seen.")]
    target_cluster_observed_generation: Annotated[
        Int64 | None, Field(description="Generation of the object on the member at that time, if it exists.")
    ] = None
    first_diffed_observed_time: Annotated[Timestamp, Field(description="When the difference was first seen.")]
    observed_diffs: Annotated[tuple[PatchDetail, ...], Field(description="The fields that differ.")] = ()


FailedPlacements = Annotated[
    tuple[FailedPlacement, ...], Field(max_length=100, description="Objects that failed, at most 100.")
]
DriftedPlacements = Annotated[
    tuple[DriftedPlacement, ...], Field(max_length=100, description="Objects that drifted, at most 100.")
]
DiffedPlacements = Annotated[
    tuple[DiffedPlacement, ...], Field(max_length=100, description="Objects that differ, at most 100.")
]
