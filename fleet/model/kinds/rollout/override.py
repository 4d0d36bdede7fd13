"""Overrides: changes to selected objects on selected clusters, and the snapshots that rollouts use."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from fleet.model.kinds.markers import V1, V1BETA1, AnyJSON, Base64, ValidationRule
from fleet.model.kinds.meta import Document, Model
from fleet.model.kinds.placement import ResourceSelectorTerm
from fleet.model.kinds.policy import ClusterSelector

_OV_01 = "placement is fixed at creation; a cluster override can only refer to a cluster-scoped placement"

_PLACEMENT_IS_FIXED = ValidationRule(
    id="OV-01",
    text=_OV_01,
    cel="has(self.spec.placement) == has(oldSelf.spec.placement)"
    " && (!has(self.spec.placement) || self.spec.placement == oldSelf.spec.placement)",
    versions=frozenset({V1, V1BETA1}),
)


class PlacementReference(Model):
    """Names the placement an override is for."""

    name: Annotated[str, Field(description="Name of the placement.")]
    scope: Annotated[
        Literal["Cluster", "Namespaced"],
        Field(description="Whether it is a ClusterResourcePlacement, or a ResourcePlacement of this namespace."),
    ] = "Cluster"


class JSONPatchOverride(Model):
    """One operation of a JSON patch."""

    op: Annotated[Literal["add", "remove", "replace"], Field(description="What to do.")]
    path: Annotated[str, Field(description="Where, as a JSON pointer.")]
    value: Annotated[
        AnyJSON,
        Field(description="With what; variables such as the cluster's name and labels are filled in."),
    ] = None


class OverrideRule(Model):
    """Changes on the clusters it selects."""

    cluster_selector: Annotated[
        ClusterSelector | None,
        Field(description="Clusters by label; no term selects all clusters, no selector none."),
    ] = None
    override_type: Annotated[
        Literal["JSONPatch", "Delete"], Field(description="Whether the object is patched or left out.")
    ] = "JSONPatch"
    json_patch_overrides: Annotated[
        tuple[JSONPatchOverride, ...],
        Field(alias="jsonPatchOverrides", min_length=1, max_length=20, description="The patch."),
    ] = ()


class OverridePolicy(Model):
    """Rules in the order in which they are applied; later ones win."""

    override_rules: Annotated[tuple[OverrideRule, ...], Field(min_length=1, max_length=20, description="The rules.")]


class ClusterResourceOverrideSpec(Model):
    """Which cluster-scoped objects change, and how."""

    placement: Annotated[
        PlacementReference | None, Field(description="The placement to change at once; any placement when absent.")
    ] = None
    cluster_resource_selectors: Annotated[
        tuple[ResourceSelectorTerm, ...],
        Field(min_length=1, max_length=20, description="The objects, by name; a namespace stands for its objects."),
    ]
    policy: Annotated[OverridePolicy, Field(description="The changes.")]


class ResourceSelector(Model):
    """Names an object of the same namespace."""

    group: Annotated[str, Field(description="API group; empty for the core group.")]
    version: Annotated[str, Field(description="API version.")]
    kind: Annotated[str, Field(description="Kind of the object.")]
    name: Annotated[str, Field(description="Name of the object.")]


class ResourceOverrideSpec(Model):
    """Which objects of the namespace change, and how."""

    placement: Annotated[
        PlacementReference | None, Field(description="The placement to change at once; any placement when absent.")
    ] = None
    resource_selectors: Annotated[
        tuple[ResourceSelector, ...], Field(min_length=1, max_length=20, description="The objects.")
    ]
    policy: Annotated[OverridePolicy, Field(description="The changes.")]


def _is_for_a_cluster_placement(override: Any) -> bool:
    placement: PlacementReference | None = override.spec.placement
    return placement is None or placement.scope != "Namespaced"


class ClusterResourceOverride(Document):
    """Changes cluster-scoped objects on some clusters."""

    rules = (
        _PLACEMENT_IS_FIXED,
        ValidationRule(
            id="OV-01",
            text=_OV_01,
            cel="!has(self.spec.placement) || self.spec.placement.scope != 'Namespaced'",
            holds=_is_for_a_cluster_placement,
        ),
    )

    spec: Annotated[ClusterResourceOverrideSpec, Field(description="What changes.")]


class ResourceOverride(Document):
    """Changes objects of its namespace on some clusters."""

    rules = (_PLACEMENT_IS_FIXED,)

    spec: Annotated[ResourceOverrideSpec, Field(description="What changes.")]


class ClusterResourceOverrideSnapshotSpec(Model):
    """An override as it was at one time."""

    override_spec: Annotated[ClusterResourceOverrideSpec, Field(description="The copied spec.")]
    override_hash: Annotated[Base64, Field(description="Hash of the copied spec.")]


class ClusterResourceOverrideSnapshot(Document):
    """A ClusterResourceOverride as it was at one time."""

    spec: Annotated[ClusterResourceOverrideSnapshotSpec, Field(description="The override.")]


class ResourceOverrideSnapshotSpec(Model):
    """An override as it was at one time."""

    override_spec: Annotated[ResourceOverrideSpec, Field(description="The copied spec.")]
    override_hash: Annotated[Base64, Field(description="Hash of the copied spec.")]


class ResourceOverrideSnapshot(Document):
    """A ResourceOverride as it was at one time."""

    spec: Annotated[ResourceOverrideSnapshotSpec, Field(description="The override.")]
