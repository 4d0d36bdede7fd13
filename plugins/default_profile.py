"""The default profile: its plugins per hook, in order.

The order is part of the contract: the first plugin that rejects a cluster is the reason its owner sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fleet.framework.arguments import RawArgs
from fleet.framework.handle import Handle, NoWatches, OfflineHandle
from fleet.framework.profiles.profile import CompiledProfile, PluginRef, Profile, StatusLimits, compile_profile
from fleet.framework.profiles.registry import Registry
from fleet.framework.request import DEFAULT_SCHEDULER
from plugins import in_tree_registry

SCHEDULER_NAME: Final = DEFAULT_SCHEDULER

DEFAULT_PLUGINS: Final[Mapping[str, tuple[PluginRef, ...]]] = {
    "queueSort": (PluginRef("PrioritySort"),),
    "batch": (PluginRef("DesiredBatch"),),
    "postBatch": (PluginRef("TopologySpreadConstraints"),),
    "preFilter": (
        PluginRef("ClusterAffinity"),
        PluginRef("NamespaceAffinity"),
        PluginRef("TopologySpreadConstraints"),
    ),
    "filter": (
        PluginRef("ClusterAffinity"),
        PluginRef("ClusterEligibility"),
        PluginRef("NamespaceAffinity"),
        PluginRef("TaintToleration"),
        PluginRef("SamePlacementAntiAffinity"),
        PluginRef("TopologySpreadConstraints"),
    ),
    "preScore": (PluginRef("ClusterAffinity"), PluginRef("TopologySpreadConstraints")),
    "score": (
        PluginRef("ClusterAffinity"),
        PluginRef("SamePlacementAntiAffinity"),
        PluginRef("TopologySpreadConstraints"),
    ),
    "sort": (PluginRef("RankingSort"),),
    "bind": (PluginRef("HubBindingBinder"),),
}


def default_profile(
    *, args: Mapping[str, Mapping[str, Any]] | None = None, limits: StatusLimits | None = None, **changes: Any
) -> Profile:
    """`args` are plugin arguments by plugin name; `changes` are any other fields of the profile."""
    return Profile(
        scheduler_name=SCHEDULER_NAME,
        plugins=changes.pop("plugins", DEFAULT_PLUGINS),
        plugin_config=tuple((name, RawArgs(content)) for name, content in (args or {}).items()),
        limits=limits or StatusLimits(),
        **changes,
    )


def compile_default(
    profile: Profile | None = None, *, registry: Registry | None = None, handle: Handle | None = None
) -> CompiledProfile:
    return compile_profile(
        registry or in_tree_registry(), profile or default_profile(), handle or OfflineHandle(watches=NoWatches())
    )
