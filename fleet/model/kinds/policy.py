"""Placement policies: the clusters that are required, preferred and tolerated.

`PlacementPolicy` is the shape, as policy snapshots carry it. `RequestedPolicy` is the same shape with the rules for
what people may ask for; snapshots are copies of requests that passed and are not judged again. So each level down to
an operator exists twice: only a request enumerates the operators.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from fleet.model.kinds.markers import ATOMIC_LIST, CheckedKeywords, Int32, ValidationRule
from fleet.model.kinds.meta import LabelSelector, LabelSelectorRequirement, Model

AT_MOST_TEN_TERMS = CheckedKeywords(
    {"maxItems": 10}, lambda terms: len(terms) <= 10, "PO-07: at most 10 terms are allowed"
)


class PropertyRequirement(Model):
    """Compares an observed property with a value."""

    name: Annotated[str, Field(description="The property.")]
    operator: Annotated[str, Field(description="Gt, Ge, Eq, Ne, Lt or Le.")]
    values: Annotated[tuple[str, ...], Field(max_length=1, description="The quantity to compare with.")]


class PropertySelector(Model):
    """Selects clusters by observed properties."""

    match_expressions: Annotated[tuple[PropertyRequirement, ...], Field(description="Requirements that must all hold.")]


class PropertySorter(Model):
    """Ranks clusters by an observed property."""

    name: Annotated[str, Field(description="The property.")]
    sort_order: Annotated[
        Literal["Ascending", "Descending"], Field(description="Descending prefers high values, Ascending low ones.")
    ]


class ClusterSelectorTerm(Model):
    """A description of clusters; what is given must all match."""

    label_selector: Annotated[LabelSelector | None, Field(description="Labels of the cluster.")] = None
    property_selector: Annotated[
        PropertySelector | None, Field(description="Properties of the cluster; for required terms.")
    ] = None
    property_sorter: Annotated[
        PropertySorter | None, Field(description="How to rank clusters; for preferred terms.")
    ] = None


class ClusterSelector(Model):
    """Selects clusters that match any of the terms."""

    cluster_selector_terms: Annotated[
        tuple[ClusterSelectorTerm, ...],
        Field(description="Terms, of which one must match."),
        AT_MOST_TEN_TERMS,
    ]


class PreferredClusterSelector(Model):
    """A preference and how much it counts."""

    weight: Annotated[Int32, Field(ge=-100, le=100, description="What a matching cluster gains or loses.")]
    preference: Annotated[ClusterSelectorTerm, Field(description="The clusters that are preferred.")]


class ClusterAffinity(Model):
    """What clusters must be like, and what they had better be like, at the time of scheduling."""

    required_during_scheduling_ignored_during_execution: Annotated[
        ClusterSelector | None, Field(description="Clusters that do not match are never picked.")
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredClusterSelector, ...], Field(description="Weighted preferences among the others.")
    ] = ()


class Affinity(Model):
    """Which clusters a placement is drawn to."""

    cluster_affinity: Annotated[
        ClusterAffinity | None, Field(description="Affinity to clusters by label and property.")
    ] = None


class TopologySpreadConstraint(Model):
    """Spreads the picked clusters over the values of a label."""

    max_skew: Annotated[Int32, Field(ge=1, description="How far the fullest and the emptiest value may be apart.")] = 1
    topology_key: Annotated[str, Field(description="The label.")]
    when_unsatisfiable: Annotated[
        Literal["DoNotSchedule", "ScheduleAnyway"], Field(description="Whether the constraint forbids or only ranks.")
    ] = "DoNotSchedule"


class Toleration(Model):
    """Accepts a taint of a cluster."""

    key: Annotated[str, Field(description="Key of the taint; empty with Exists accepts every taint.")] = ""
    operator: Annotated[
        Literal["Equal", "Exists"], Field(description="Whether the value is compared too, or only the key.")
    ] = "Equal"
    value: Annotated[str, Field(description="Value of the taint, with Equal.")] = ""
    effect: Annotated[
        Literal["NoSchedule"] | None, Field(description="Effect of the taint; every effect when absent.")
    ] = None


class PlacementPolicy(Model):
    """Which clusters to pick."""

    placement_type: Annotated[
        Literal["PickAll", "PickN", "PickFixed"],
        Field(description="Every matching cluster, the best N of them, or exactly the named ones."),
    ] = "PickAll"
    cluster_names: Annotated[
        tuple[str, ...],
        Field(description="The clusters, with PickFixed."),
        CheckedKeywords(
            {"maxItems": 100}, lambda names: len(names) <= 100, "PO-07: at most 100 cluster names are allowed"
        ),
    ] = ()
    number_of_clusters: Annotated[
        Int32 | None,
        Field(description="How many clusters, with PickN."),
        CheckedKeywords({"minimum": 0}, lambda number: number >= 0, "PO-06: numberOfClusters must be 0 or more"),
    ] = None
    affinity: Annotated[
        Affinity | None, Field(description="What clusters must and should be like; not with PickFixed.")
    ] = None
    topology_spread_constraints: Annotated[
        tuple[TopologySpreadConstraint, ...],
        Field(description="How the picked clusters are spread; all constraints count. With PickN."),
    ] = ()
    tolerations: Annotated[
        tuple[Toleration, ...],
        Field(description="Accepted taints; not with PickFixed."),
        CheckedKeywords(
            {"maxItems": 100}, lambda items: len(items) <= 100, "PO-07: at most 100 tolerations are allowed"
        ),
    ] = ()


class RequestedLabelRequirement(LabelSelectorRequirement):
    """Compares one label with a list of values."""

    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], Field(description="In, NotIn, Exists or DoesNotExist.")
    ]


class RequestedLabelSelector(LabelSelector):
    """Selects objects by their labels; every part must match, and an empty selector matches everything."""

    match_expressions: Annotated[
        tuple[RequestedLabelRequirement, ...], Field(description="Requirements that must all hold."), ATOMIC_LIST
    ] = ()


class RequestedPropertyRequirement(PropertyRequirement):
    """Compares an observed property with a value."""

    operator: Annotated[Literal["Gt", "Ge", "Eq", "Ne", "Lt", "Le"], Field(description="Gt, Ge, Eq, Ne, Lt or Le.")]


class RequestedPropertySelector(PropertySelector):
    """Selects clusters by observed properties."""

    match_expressions: Annotated[
        tuple[RequestedPropertyRequirement, ...], Field(description="Requirements that must all hold.")
    ]


class RequestedTerm(ClusterSelectorTerm):
    """A description of clusters; what is given must all match."""

    label_selector: Annotated[RequestedLabelSelector | None, Field(description="Labels of the cluster.")] = None
    property_selector: Annotated[
        RequestedPropertySelector | None, Field(description="Properties of the cluster; for required terms.")
    ] = None


class RequestedSelector(ClusterSelector):
    """Selects clusters that match any of the terms."""

    cluster_selector_terms: Annotated[
        tuple[RequestedTerm, ...], Field(description="Terms, of which one must match."), AT_MOST_TEN_TERMS
    ]


class RequestedPreference(PreferredClusterSelector):
    """A preference and how much it counts."""

    preference: Annotated[RequestedTerm, Field(description="The clusters that are preferred.")]


class RequestedClusterAffinity(ClusterAffinity):
    """What clusters must be like, and what they had better be like, at the time of scheduling."""

    required_during_scheduling_ignored_during_execution: Annotated[
        RequestedSelector | None, Field(description="Clusters that do not match are never picked.")
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[RequestedPreference, ...], Field(description="Weighted preferences among the others.")
    ] = ()


class RequestedAffinity(Affinity):
    """Which clusters a placement is drawn to."""

    cluster_affinity: Annotated[
        RequestedClusterAffinity | None, Field(description="Affinity to clusters by label and property.")
    ] = None


def _has_no_unused_fields_for_pick_fixed(policy: PlacementPolicy) -> bool:
    unused = (policy.topology_spread_constraints, policy.tolerations)
    return policy.placement_type != "PickFixed" or (
        policy.affinity is None and policy.number_of_clusters is None and not any(unused)
    )


def _has_no_unused_fields_for_pick_all(policy: PlacementPolicy) -> bool:
    unused = (policy.cluster_names, policy.topology_spread_constraints)
    return policy.placement_type != "PickAll" or (policy.number_of_clusters is None and not any(unused))


def _has_count_for_pick_n(policy: PlacementPolicy) -> bool:
    return policy.placement_type != "PickN" or (policy.number_of_clusters is not None and not policy.cluster_names)


def _tolerations_are_well_formed(policy: PlacementPolicy) -> bool:
    return all(not item.value if item.operator == "Exists" else item.key for item in policy.tolerations)


class RequestedPolicy(PlacementPolicy):
    """Which clusters to pick."""

    affinity: Annotated[
        RequestedAffinity | None, Field(description="What clusters must and should be like; not with PickFixed.")
    ] = None

    rules = (
        ValidationRule(
            id="PO-03",
            text="only clusterNames is allowed with PickFixed",
            cel="self.placementType != 'PickFixed' || (!has(self.affinity) && !has(self.numberOfClusters)"
            " && (!has(self.topologySpreadConstraints) || size(self.topologySpreadConstraints) == 0)"
            " && (!has(self.tolerations) || size(self.tolerations) == 0))",
            holds=_has_no_unused_fields_for_pick_fixed,
        ),
        ValidationRule(
            id="PO-04",
            text="clusterNames, numberOfClusters and topologySpreadConstraints are not allowed with PickAll",
            cel="self.placementType != 'PickAll' || (!has(self.numberOfClusters)"
            " && (!has(self.clusterNames) || size(self.clusterNames) == 0)"
            " && (!has(self.topologySpreadConstraints) || size(self.topologySpreadConstraints) == 0))",
            holds=_has_no_unused_fields_for_pick_all,
        ),
        ValidationRule(
            id="PO-05",
            text="PickN needs numberOfClusters and no clusterNames",
            cel="self.placementType != 'PickN' || (has(self.numberOfClusters)"
            " && (!has(self.clusterNames) || size(self.clusterNames) == 0))",
            holds=_has_count_for_pick_n,
        ),
        ValidationRule(
            id="PO-17",
            text="tolerations: with Exists give no value; without a key use Exists",
            cel="!has(self.tolerations) || self.tolerations.all(t, t.operator == 'Exists'"
            " ? (!has(t.value) || t.value == '') : (has(t.key) && t.key != ''))",
            holds=_tolerations_are_well_formed,
        ),
    )
