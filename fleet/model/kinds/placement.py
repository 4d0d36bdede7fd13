"""Placements: which objects go to which clusters, and how far that has come."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fleet.model.kinds.identifiers import DiffedPlacements, DriftedPlacements, FailedPlacements, ResourceIdentifier
from fleet.model.kinds.markers import CheckedKeywords, Int32, Timestamp, ValidationRule
from fleet.model.kinds.meta import Conditions, Document, LabelSelector, Model, NamespacedName
from fleet.model.kinds.policy import RequestedPolicy
from fleet.model.kinds.rollout.strategies import RolloutStrategy

CHOOSING = "NamespaceWithResourceSelectors"
"""The selection scope that takes a namespace and, of its objects, those that further selectors name."""

_NAMESPACE = "s.group == '' && s.kind == 'Namespace'"
_CHOOSING = f"{_NAMESPACE} && s.selectionScope == '{CHOOSING}'"


class ResourceSelectorTerm(Model):
    """Selects objects on the hub; with neither name nor labels, every object of the kind."""

    rules = (
        ValidationRule(
            id="PL-03",
            text="use either name or labelSelector in one selector",
            cel="!(has(self.name) && self.name != '' && has(self.labelSelector))",
            holds=lambda term: not (term.name and term.label_selector is not None),
        ),
    )

    group: Annotated[str, Field(description="API group; empty for the core group.")]
    version: Annotated[str, Field(description="API version.")]
    kind: Annotated[str, Field(description="Kind of the objects.")]
    name: Annotated[str, Field(description="Name of one object.")] = ""
    label_selector: Annotated[LabelSelector | None, Field(description="Labels of the objects.")] = None
    selection_scope: Annotated[
        Literal["NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"],
        Field(description="What a selected namespace brings along."),
    ] = "NamespaceWithResources"

    @property
    def selects_namespaces(self) -> bool:
        return self.group == "" and self.kind == "Namespace"

    @property
    def is_choosing(self) -> bool:
        return self.selects_namespaces and self.selection_scope == CHOOSING


def _namespaces(spec: PlacementSpec) -> list[ResourceSelectorTerm]:
    return [term for term in spec.resource_selectors if term.selects_namespaces]


def _choosing(spec: PlacementSpec) -> list[ResourceSelectorTerm]:
    return [term for term in spec.resource_selectors if term.is_choosing]


def _placement_type(spec: PlacementSpec) -> str:
    return "PickAll" if spec.policy is None else spec.policy.placement_type


class PlacementSpec(Model):
    """Which objects go to which clusters."""

    rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            id="PO-01",
            text="a policy can be changed but not removed",
            cel="!has(oldSelf.policy) || has(self.policy)",
            holds_after=lambda old, new: old.policy is None or new.policy is not None,
        ),
        ValidationRule(
            id="PO-02",
            text="placementType cannot be changed; create a new placement",
            cel="(has(self.policy) ? self.policy.placementType : 'PickAll')"
            " == (has(oldSelf.policy) ? oldSelf.policy.placementType : 'PickAll')",
            holds_after=lambda old, new: _placement_type(old) == _placement_type(new),
        ),
        ValidationRule(
            id="ST-01",
            text="a placement with an external strategy stays external",
            cel="!(has(oldSelf.strategy) && oldSelf.strategy.type == 'External')"
            " || (has(self.strategy) && self.strategy.type == 'External')",
            holds_after=lambda old, new: old.strategy.type != "External" or new.strategy.type == "External",
        ),
        ValidationRule(
            id="PL-08",
            text="only one namespace can be combined with resource selectors",
            cel=f"self.resourceSelectors.filter(s, {_CHOOSING}).size() <= 1",
            holds=lambda spec: len(_choosing(spec)) <= 1,
        ),
        ValidationRule(
            id="PL-09",
            text="the namespace must be selected by name in this scope",
            cel=f"self.resourceSelectors.all(s, !({_CHOOSING}) || (has(s.name) && s.name != ''))",
            holds=lambda spec: all(term.name for term in _choosing(spec)),
        ),
        ValidationRule(
            id="PL-10",
            text="other namespace selectors are not allowed in this scope",
            cel=f"!self.resourceSelectors.exists(s, {_CHOOSING})"
            f" || self.resourceSelectors.all(s, !({_NAMESPACE}) || s.selectionScope == '{CHOOSING}')",
            holds=lambda spec: not _choosing(spec) or _choosing(spec) == _namespaces(spec),
        ),
    )

    resource_selectors: Annotated[
        tuple[ResourceSelectorTerm, ...],
        Field(description="The objects to place; an object needs to match one selector."),
        CheckedKeywords(
            {"minItems": 1, "maxItems": 100},
            lambda terms: 1 <= len(terms) <= 100,
            "PL-02: between 1 and 100 resource selectors are needed",
        ),
    ]
    policy: Annotated[
        RequestedPolicy | None, Field(description="The clusters to place them on; every cluster when absent.")
    ] = None
    strategy: Annotated[RolloutStrategy, Field(description="How changes are rolled out.")] = RolloutStrategy()
    revision_history_limit: Annotated[
        Int32, Field(ge=1, le=1000, description="How many snapshots are kept for going back.")
    ] = 10
    status_reporting_scope: Annotated[
        Literal["ClusterScopeOnly", "NamespaceAccessible"],
        Field(description="Whether the status is also shown in the selected namespace; without effect if namespaced."),
    ] = "ClusterScopeOnly"


class ClusterPlacementSpec(PlacementSpec):
    """Which objects go to which clusters."""

    rules = (
        *PlacementSpec.rules,
        ValidationRule(
            id="PL-14",
            text="status can be shown in exactly one namespace: select exactly one",
            cel="self.statusReportingScope != 'NamespaceAccessible'"
            f" || self.resourceSelectors.filter(s, {_NAMESPACE}).size() == 1",
            holds=lambda spec: spec.status_reporting_scope != "NamespaceAccessible" or len(_namespaces(spec)) == 1,
        ),
        ValidationRule(
            id="PL-15",
            text="statusReportingScope cannot be changed",
            cel="!has(oldSelf.statusReportingScope) || self.statusReportingScope == oldSelf.statusReportingScope",
            holds_after=lambda old, new: old.status_reporting_scope == new.status_reporting_scope,
        ),
    )


class PerClusterPlacementStatus(Model):
    """How far one cluster has come."""

    cluster_name: Annotated[str, Field(description="The cluster; empty for a place that no cluster could take.")] = ""
    applicable_resource_overrides: Annotated[
        tuple[NamespacedName, ...], Field(description="Snapshots of the namespaced overrides that apply.")
    ] = ()
    applicable_cluster_resource_overrides: Annotated[
        tuple[str, ...], Field(description="Snapshots of the cluster-scoped overrides that apply.")
    ] = ()
    observed_resource_index: Annotated[str, Field(description="Index of the resource snapshot in use.")] = ""
    failed_placements: FailedPlacements = ()
    drifted_placements: DriftedPlacements = ()
    diffed_placements: DiffedPlacements = ()
    conditions: Annotated[Conditions, Field(description="Scheduled to Available, for this cluster.")] = ()


class PlacementStatus(Model):
    """How far the placement has come."""

    selected_resources: Annotated[
        tuple[ResourceIdentifier, ...], Field(description="The objects the selectors matched.")
    ] = ()
    observed_resource_index: Annotated[
        str, Field(description="Index of the resource snapshot this status describes.")
    ] = ""
    placement_statuses: Annotated[
        tuple[PerClusterPlacementStatus, ...], Field(description="One entry per cluster or unfilled place.")
    ] = ()
    conditions: Annotated[Conditions, Field(description="Scheduled to Available, for all clusters.")] = ()


class ClusterResourcePlacement(Document):
    """Places cluster-scoped objects, and namespaces with what is in them, on member clusters."""

    spec: Annotated[ClusterPlacementSpec, Field(description="Which objects go to which clusters.")]
    status: Annotated[PlacementStatus, Field(description="How far that has come.")] = PlacementStatus()


class ResourcePlacement(Document):
    """Places objects of its own namespace on member clusters."""

    spec: Annotated[PlacementSpec, Field(description="Which objects go to which clusters.")]
    status: Annotated[PlacementStatus, Field(description="How far that has come.")] = PlacementStatus()


class ClusterResourcePlacementStatus(Document):
    """A copy of the status of the ClusterResourcePlacement of the same name, for readers of one namespace."""

    source_status: Annotated[PlacementStatus, Field(description="The copied status.")]
    last_updated_time: Annotated[Timestamp, Field(description="When it was copied.")]
