"""Plugins of kube-scheduler and of its plugin collection, with their counterparts. Data, and the looks into it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

FITS_MOST: Final = "NodeResourcesMostAllocated"
FITS_LEAST: Final = "NodeResourcesLeastAllocated"
"""Both are strategies of NodeResourcesFit since v1beta2."""
LEAST, MOST, BALANCED = "LeastAllocated", "MostAllocated", "BalancedAllocation"
QUEUE_SORT: Final = "queueSort"
_POST_FILTER: Final = "postFilter"
_INDEX: Final = re.compile(r"\[\d+\]")


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Counterpart:
    native: str
    arguments: Mapping[str, str] = field(default_factory=_nothing)
    """From the paths of arguments that mean the same to native arguments; `[]` stands for every item."""
    strategies: tuple[str, ...] = ()
    """Values of the native argument `strategy`."""
    at_hooks: Mapping[str, str] = field(default_factory=_nothing)
    """Other plugins that stand for it at single hooks."""
    is_off: bool = False
    """Whether the counterpart is not in `ExtendedProfile`."""
    hooks: tuple[str, ...] = ()
    """Those of a counterpart that has all of them or none, whichever hook names it: it is lifted."""
    essential: str = ""
    """The hook without which it does nothing: no plugins there, no counterpart."""


_OF_RESOURCES: Final = MappingProxyType({"resources[].name": "resources"})

COUNTERPARTS: Final[Mapping[str, Counterpart]] = MappingProxyType(
    {
        "NodeAffinity": Counterpart("ClusterAffinity"),
        "NodeUnschedulable": Counterpart("ClusterEligibility"),
        "TaintToleration": Counterpart("TaintToleration"),
        "PrioritySort": Counterpart("PrioritySort"),
        "PodTopologySpread": Counterpart("TopologySpreadConstraints"),
        "SelectorSpread": Counterpart("TopologySpreadConstraints"),
        "InterPodAffinity": Counterpart("PlacementAffinity"),
        "ImageLocality": Counterpart("DataLocality"),
        "DefaultBinder": Counterpart("HubBindingBinder"),
        "SchedulingGates": Counterpart("PlacementGates"),
        "DefaultPreemption": Counterpart(
            "DefaultPreemption", is_off=True, hooks=("filter", _POST_FILTER), essential=_POST_FILTER
        ),
        "NodeResourcesFit": Counterpart(
            "ResourceFit",
            {"scoringStrategy.type": "strategy", "scoringStrategy.resources[].name": "resources"},
            (LEAST, MOST),
        ),
        FITS_LEAST: Counterpart("ResourceFit", _OF_RESOURCES),
        FITS_MOST: Counterpart("ResourceFit", _OF_RESOURCES),
        "NodeResourcesBalancedAllocation": Counterpart("BalancedAllocation", _OF_RESOURCES),
        "NodeResourceTopologyMatch": Counterpart(
            "PoolTopologyMatch", {"scoringStrategy.type": "strategy"}, (LEAST, MOST, BALANCED), is_off=True
        ),
        "Coscheduling": Counterpart(
            "GangPlacement",
            at_hooks={QUEUE_SORT: "PrioritySort"},
            hooks=("preEnqueue",),
            essential="permit",
        ),
        "CapacityScheduling": Counterpart(
            "QuotaFit",
            at_hooks={_POST_FILTER: "DefaultPreemption"},
            hooks=("preFilter", "postBatch", "filter", "reserve"),
            essential="preFilter",
        ),
    }
)
NEEDS_NO_PLUGIN: Final = MappingProxyType({"NodeName": "placements of type PickFixed name their clusters"})
WITHOUT_COUNTERPART: Final = frozenset(
    (
        "NodePorts", "NodePreferAvoidPods", "NodeLabel", "ServiceAffinity", "RequestedToCapacityRatio",
        "VolumeBinding", "VolumeRestrictions", "VolumeZone",
        "NodeVolumeLimits", "EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits", "DynamicResources",
        "NodeResourcesAllocatable", "NetworkOverhead", "TopologicalSort", "PreemptionToleration", "PodState",
        "QOSSort", "CrossNodePreemption", "NodeMetadata", "SySched",
    )
)  # fmt: skip


def find_argument(counterpart: Counterpart, path: str) -> str:
    """The native argument for a path such as `scoringStrategy.resources[0].name`; empty if there is none."""
    return counterpart.arguments.get(_INDEX.sub("[]", path), "")


def find_native(name: str, hook: str) -> str:
    """Of plugins of others the name itself."""
    counterpart = COUNTERPARTS.get(name)
    return name if counterpart is None else counterpart.at_hooks.get(hook, counterpart.native)
