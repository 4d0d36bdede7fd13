"""Plugins that act, in a scenario: nothing outside its hub may notice that it was played.

The in-tree plugins act on the hub of their handle only. A plugin of a package acts if it declares the same; else it
decides, and its hooks that act are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from fleet.framework.profiles.profile import BoundHook, CompiledProfile, is_acting, is_in_tree
from fleet.framework.runtime.effects import EFFECT_HOOKS
from fleet.framework.runtime.framework import Framework
from fleet.framework.types import PluginTraits
from plugins.acting.hub_binding_binder import HubBindingBinder


def leave_out_actors(frameworks: Iterable[Framework]) -> dict[str, tuple[str, ...]]:
    """The hooks at which a plugin does not run, by its name."""
    left_out: dict[str, tuple[str, ...]] = {}
    for framework in frameworks:
        profile = framework.profile
        for hook in EFFECT_HOOKS:
            for entry in profile.hooks[hook]:
                if not _may_act(entry):
                    left_out[entry.name] = tuple(dict.fromkeys((*left_out.get(entry.name, ()), hook)))
        framework.install(_limit(profile))
    return left_out


def _may_act(entry: BoundHook) -> bool:
    return is_in_tree(entry.plugin) or getattr(entry.plugin, "ACTS_ON_HUB_ONLY", PluginTraits.ACTS_ON_HUB_ONLY)


def _limit(profile: CompiledProfile) -> CompiledProfile:
    """The same decisions, with the same digests."""
    hooks: Mapping[str, tuple[BoundHook, ...]] = {
        hook: tuple(filter(_may_act, bound)) if hook in EFFECT_HOOKS else bound for hook, bound in profile.hooks.items()
    }
    if not hooks["bind"]:
        binder = HubBindingBinder()
        hooks = {**hooks, "bind": (BoundHook(binder.name(), binder, binder.bind, scalar=False, weight=1),)}
    return replace(profile, hooks=MappingProxyType(hooks), has_effects=is_acting(hooks))
