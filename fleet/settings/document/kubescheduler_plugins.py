"""Plugins of kube-scheduler and of its plugin collection, with their counterparts. Data, and the looks into it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from fleet.settings.document.model import MULTI_POINT

FITS_MOST: Final = "NodeResourcesMostAllocated"
LEAST, MOST, BALANCED = "LeastAllocated", "MostAllocated", "BalancedAllocation"
_QUEUE_SORT: Final = "queueSort"
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
    is_lifted: bool = False
    """Whether enabling it at any hook enables its counterpart at all hooks that this has."""


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
        "DefaultPreemption": Counterpart("DefaultPreemption", is_lifted=True),
        "NodeResourcesFit": Counterpart(
            "ResourceFit",
            {"scoringStrategy.type": "strategy", "scoringStrategy.resources[].name": "resources"},
            (LEAST, MOST),
        ),
        "NodeResourcesLeastAllocated": Counterpart("ResourceFit", _OF_RESOURCES),
        FITS_MOST: Counterpart("ResourceFit", _OF_RESOURCES),
        "NodeResourcesBalancedAllocation": Counterpart("BalancedAllocation", _OF_RESOURCES),
        "NodeResourceTopologyMatch": Counterpart(
            "PoolTopologyMatch", {"scoringStrategy.type": "strategy"}, (LEAST, MOST, BALANCED)
        ),
        "Coscheduling": Counterpart("GangPlacement", at_hooks={_QUEUE_SORT: "PrioritySort"}, is_lifted=True),
        "CapacityScheduling": Counterpart("QuotaFit", at_hooks={"postFilter": "DefaultPreemption"}, is_lifted=True),
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


def is_lifted(name: str, hook: str) -> bool:
    counterpart = COUNTERPARTS.get(name)
    return counterpart is not None and counterpart.is_lifted and hook not in (MULTI_POINT, _QUEUE_SORT)


def find_native(name: str, hook: str) -> str:
    """Of plugins of others the name itself."""
    counterpart = COUNTERPARTS.get(name)
    return name if counterpart is None else counterpart.at_hooks.get(hook, counterpart.native)
