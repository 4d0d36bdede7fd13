"""The in-tree plugins, one module each, and the default profile."""

from __future__ import annotations

from fleet.framework.arguments import PluginFactory
from fleet.framework.profiles.registry import Registry
from plugins.balanced_allocation import BalancedAllocation
from plugins.cluster_affinity import ClusterAffinityPlugin
from plugins.cluster_eligibility import ClusterEligibility
from plugins.data_locality import DataLocality
from plugins.default_preemption import DefaultPreemption
from plugins.desired_batch import DesiredBatch
from plugins.feed_limit import FeedLimit
from plugins.feed_preference import FeedPreference
from plugins.gang_placement import GangPlacement
from plugins.hub_binding_binder import HubBindingBinder
from plugins.load_variation import LoadVariationRiskBalancing
from plugins.low_risk_overcommitment import LowRiskOverCommitment
from plugins.namespace_affinity import NamespaceAffinity
from plugins.namespace_preparation import NamespacePreparation
from plugins.peaks import Peaks
from plugins.placement_affinity import PlacementAffinity
from plugins.placement_approval import PlacementApprovalPlugin
from plugins.placement_gates import PlacementGates
from plugins.priority_sort import PrioritySort
from plugins.quota_fit import QuotaFit
from plugins.ranking_sort import RankingSort
from plugins.resource_fit import ResourceFit
from plugins.same_placement import SamePlacementAntiAffinity
from plugins.taint_toleration import TaintToleration
from plugins.target_load_packing import TargetLoadPacking
from plugins.topology_spread import TopologySpreadConstraints

IN_TREE: tuple[tuple[str, PluginFactory], ...] = (
    ("PlacementGates", PlacementGates),
    ("PrioritySort", PrioritySort),
    ("DesiredBatch", DesiredBatch),
    ("ClusterAffinity", ClusterAffinityPlugin),
    ("ClusterEligibility", ClusterEligibility),
    ("NamespaceAffinity", NamespaceAffinity),
    ("TaintToleration", TaintToleration),
    ("SamePlacementAntiAffinity", SamePlacementAntiAffinity),
    ("ResourceFit", ResourceFit),
    ("TopologySpreadConstraints", TopologySpreadConstraints),
    ("PlacementAffinity", PlacementAffinity),
    ("BalancedAllocation", BalancedAllocation),
    ("DataLocality", DataLocality),
    ("FeedLimit", FeedLimit),
    ("FeedPreference", FeedPreference),
    ("TargetLoadPacking", TargetLoadPacking),
    ("LoadVariationRiskBalancing", LoadVariationRiskBalancing),
    ("LowRiskOverCommitment", LowRiskOverCommitment),
    ("Peaks", Peaks),
    ("RankingSort", RankingSort),
    ("HubBindingBinder", HubBindingBinder),
    ("QuotaFit", QuotaFit),
    ("PlacementApproval", PlacementApprovalPlugin),
    ("DefaultPreemption", DefaultPreemption),
    ("GangPlacement", GangPlacement),
    ("NamespacePreparation", NamespacePreparation),
)


def in_tree_registry() -> Registry:
    """A registry with every in-tree plugin; still open, so that others may be added."""
    registry = Registry()
    for name, factory in IN_TREE:
        registry.register(name, factory)
    return registry
