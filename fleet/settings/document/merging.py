"""Merging lists of plugins: a profile's changes into the lists of its base, as kube-scheduler does it.

An entry that is both disabled and enabled in one list leaves its place and is added anew: this is how a default is
moved (docs/adr/0020).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from fleet.settings.document.model import MULTI_POINT, PluginChoice, PluginSet

ALL: Final = "*"

Implements = Callable[[str, str], bool]
"""Whether a plugin implements a hook."""


@dataclass(frozen=True, slots=True)
class BaseLists:
    """The plugins that a profile starts from."""

    by_hook: Mapping[str, Sequence[PluginChoice]] = field(default_factory=lambda: MappingProxyType({}))
    multi_point: Sequence[PluginChoice] = ()


def merge_list(defaults: Sequence[PluginChoice], changes: PluginSet) -> list[PluginChoice]:
    """The defaults that stay, each replaced in place if it is listed again, then the other entries as written."""
    disabled = changes.disabled_names
    kept = [] if ALL in disabled else [default for default in defaults if default.name not in disabled]
    listed = {choice.name: choice for choice in changes.enabled}
    merged = [listed.get(default.name, default) for default in kept]
    names = {default.name for default in kept}
    return merged + [choice for choice in changes.enabled if choice.name not in names]


def merge_profile(
    base: BaseLists, changes: Mapping[str, PluginSet], hooks: Sequence[str], implements: Implements
) -> dict[str, list[PluginChoice]]:
    """The plugins of each hook that has any, in the order they run."""
    multi_point = merge_list(base.multi_point, changes.get(MULTI_POINT, PluginSet()))
    merged = {}
    for hook in hooks:
        own = changes.get(hook, PluginSet())
        explicit = merge_list(base.by_hook.get(hook, ()), own)
        disabled = own.disabled_names
        general = (
            [] if ALL in disabled else [each for each in multi_point if _applies(each, hook, disabled, implements)]
        )
        merged[hook] = _expand(explicit, general)
    return {hook: choices for hook, choices in merged.items() if choices}


def _applies(choice: PluginChoice, hook: str, disabled: frozenset[str], implements: Implements) -> bool:
    return choice.name not in disabled and implements(choice.name, hook)


def _expand(explicit: list[PluginChoice], general: list[PluginChoice]) -> list[PluginChoice]:
    """Entries of the hook that override `multiPoint`, then its others, then the other entries of the hook."""
    anywhere, here = {choice.name for choice in general}, {choice.name for choice in explicit}
    overriding = [choice for choice in explicit if choice.name in anywhere]
    inherited = [choice for choice in general if choice.name not in here]
    return overriding + inherited + [choice for choice in explicit if choice.name not in anywhere]
