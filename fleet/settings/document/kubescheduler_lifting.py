"""Plugins of kube-scheduler whose counterparts have other hooks than they have.

A profile has such a counterpart at all of its hooks or at none, whichever hook the document names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import yaml

from fleet.settings.document.kubescheduler_nodes import (
    build_mapping,
    build_scalar,
    build_sequence,
    find_or_add,
    find_text,
    list_choices,
)
from fleet.settings.document.kubescheduler_plugins import COUNTERPARTS, FITS_MOST, QUEUE_SORT, find_native
from fleet.settings.document.merging import ALL
from fleet.settings.document.model import MULTI_POINT

Entries = dict[str, yaml.Node]
"""Of documents, by the native names of their plugins."""

_LIFTED: Final = {each.native: each for each in COUNTERPARTS.values() if each.hooks}


@dataclass(slots=True)
class Lifted:
    """Of one profile."""

    on: Entries = field(default_factory=dict)
    off: Entries = field(default_factory=dict)

    def judge(self, name: str, hook: str, *, is_enabled: bool) -> tuple[bool, str]:
        """Whether an entry that is not kept has an effect, and a note about it; an empty note keeps the entry."""
        counterpart = COUNTERPARTS.get(name)
        if counterpart is None:
            return False, ""
        native, is_general = counterpart.native, hook == MULTI_POINT
        if is_enabled:
            if is_general and native in self.off:
                return False, f"{native} is off: a hook disables it"
            is_lifted = bool(counterpart.hooks) and not is_general and hook != QUEUE_SORT
            return is_lifted, f"{find_native(name, hook)}, at all of its hooks" if is_lifted else ""
        if name == FITS_MOST or (is_general and counterpart.is_off):
            return False, f"{name if name == FITS_MOST else native} is off unless it is enabled"
        if is_general or not counterpart.hooks:
            return False, ""
        if native in self.off:
            return True, f"{native} is off at all of its hooks"
        is_on = native in self.on and hook not in counterpart.at_hooks
        return False, f"{native} is on: a hook enables it" if is_on else f"{native} has no {hook} hook"

    def add_to(self, profile: yaml.MappingNode) -> None:
        for native, at in self.off.items():
            if not _LIFTED[native].is_off:
                _add(at, profile, MULTI_POINT, "disabled", native)
        for native, at in self.on.items():
            _add(at, profile, MULTI_POINT, "enabled", native)
            for hook in _list_emptied(profile):
                if hook in _LIFTED[native].hooks:
                    _add(at, profile, hook, "enabled", native)


def find_lifted(plugins: yaml.Node) -> Lifted:
    """A hook that enables counts more than one that disables, and this more than `multiPoint`."""
    on: Entries = {}
    off: Entries = {}
    generally: Entries = {}
    elsewhere: Entries = {}
    """What is disabled where another plugin is its counterpart."""
    for hook, is_enabled, item in list_choices(plugins):
        name = find_text(item, "name")
        counterpart = COUNTERPARTS.get(name)
        if name == ALL and not is_enabled:
            off |= {native: item for native, each in _LIFTED.items() if each.essential == hook}
        elif counterpart is None or not counterpart.hooks:
            continue
        elif is_enabled and hook != QUEUE_SORT:
            (generally if hook == MULTI_POINT else on).setdefault(find_native(name, hook), item)
        elif not is_enabled and hook != MULTI_POINT:
            (elsewhere if hook in counterpart.at_hooks else off).setdefault(counterpart.native, item)
    off |= {native: item for native, item in elsewhere.items() if native not in generally}
    off = {native: item for native, item in off.items() if native not in on}
    return Lifted({native: item for native, item in (generally | on).items() if native not in off}, off)


def _list_emptied(profile: yaml.MappingNode) -> list[str]:
    """Hooks where the profile takes nothing from its base."""
    plugins = (value for key, value in profile.value if key.value == "plugins")
    choices = [each for node in plugins for each in list_choices(node)]
    return [hook for hook, is_enabled, item in choices if not is_enabled and find_text(item, "name") == ALL]


def _add(at: yaml.Node, profile: yaml.MappingNode, hook: str, to: str, native: str) -> None:
    plugins = find_or_add(at, profile, "plugins", build_mapping(at, []))
    lists = find_or_add(at, plugins, hook, build_mapping(at, []))
    items = find_or_add(at, lists, to, build_sequence(at, []))
    if all(find_text(item, "name") != native for item in items.value):
        items.value.append(build_mapping(at, [(build_scalar(at, "name"), build_scalar(at, native))]))
