"""The in-tree plugins, one module each, and the default profile."""

from __future__ import annotations

from fleet.framework.arguments import PluginFactory
from fleet.framework.profiles.registry import Registry
from plugins.acting.gang_placement import GangPlacement
from plugins.acting.hub_binding_binder import HubBindingBinder
from plugins.acting.namespace_preparation import NamespacePreparation
from plugins.acting.placement_approval import PlacementApprovalPlugin
from plugins.acting.placement_gates import PlacementGates
from plugins.affinity.cluster_affinity import ClusterAffinityPlugin
from plugins.affinity.data_locality import DataLocality
from plugins.affinity.namespace_affinity import NamespaceAffinity
from plugins.affinity.placement_affinity import PlacementAffinity
from plugins.affinity.same_placement import SamePlacementAntiAffinity
from plugins.capacity.balanced_allocation import BalancedAllocation
from plugins.capacity.default_preemption import DefaultPreemption
from plugins.capacity.pool_topology import PoolTopologyMatch
from plugins.capacity.quota_fit import QuotaFit
from plugins.capacity.resource_fit import ResourceFit
from plugins.cluster_eligibility import ClusterEligibility
from plugins.desired_batch import DesiredBatch
from plugins.feeds.feed_limit import FeedLimit
from plugins.feeds.feed_preference import FeedPreference
from plugins.feeds.load_variation import LoadVariationRiskBalancing
from plugins.feeds.low_risk_overcommitment import LowRiskOverCommitment
from plugins.feeds.peaks import Peaks
from plugins.feeds.target_load_packing import TargetLoadPacking
from plugins.priority_sort import PrioritySort
from plugins.ranking_sort import RankingSort
from plugins.taint_toleration import TaintToleration
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
    ("PoolTopologyMatch", PoolTopologyMatch),
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
