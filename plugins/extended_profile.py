"""The extended profile: weighted ranking of the in-tree plugins, each enabled at every hook it implements.

What a user expressed outweighs what the product prefers on its own. Quotas and groups do nothing without their objects.
DefaultPreemption is not here, as nothing is evicted unless a profile names it. Placements that name their clusters need
no plugin: the framework takes these in every profile.
"""

from __future__ import annotations

from typing import Final

from fleet.framework.profiles.profile import PluginRef
from fleet.framework.types import Ranking, TieBreak

EXTENDED_PLUGINS: Final = (
    PluginRef("PlacementGates"),
    PluginRef("PrioritySort"),
    PluginRef("DesiredBatch"),
    PluginRef("RankingSort"),
    PluginRef("ClusterEligibility"),
    PluginRef("TaintToleration"),
    PluginRef("ClusterAffinity", 2),
    PluginRef("NamespaceAffinity"),
    PluginRef("SamePlacementAntiAffinity"),
    PluginRef("ResourceFit"),
    PluginRef("QuotaFit"),
    PluginRef("TopologySpreadConstraints", 2),
    PluginRef("PlacementAffinity", 2),
    PluginRef("GangPlacement"),
    PluginRef("BalancedAllocation"),
    PluginRef("DataLocality"),
    PluginRef("HubBindingBinder"),
)
RANKING: Final[Ranking] = "weighted"
TIE_BREAK: Final[TieBreak] = "nameAscending"
