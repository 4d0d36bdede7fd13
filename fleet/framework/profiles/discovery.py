"""Plugins of other distributions, found by entry points. The decision core never imports this module.

A distribution lists its plugins under the entry-point group `fleet.plugins`, each under the plugin's own name. A listed
plugin is available; it runs where a profile names it. In-tree plugins are not looked up here, and their names are
reserved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from fleet.errors import ConfigurationError
from fleet.framework.arguments import PluginFactory
from fleet.framework.profiles.registry import Registry

GROUP: Final = "fleet.plugins"


def register_installed(
    registry: Registry, *, only: Collection[str] | None = None, entries: Iterable[EntryPoint] | None = None
) -> tuple[str, ...]:
    """Add the installed plugins, all of them or those in `only`; their names, sorted. `entries` may have been read
    before.

    Either every plugin is added, or none, and a ConfigurationError names all that could not be added.
    """
    listed = read_entries() if entries is None else entries
    wanted = sorted(
        (entry for entry in listed if only is None or entry.name in only),
        key=lambda entry: (entry.name, _locate(entry)),
    )
    problems: list[str] = []
    factories: dict[str, PluginFactory] = {}
    taken = dict.fromkeys(registry, "in-tree")
    for entry in wanted:
        try:
            factories[entry.name] = _load_factory(entry, taken)
            taken[entry.name] = _locate(entry)
        except ConfigurationError as error:
            problems.append(str(error))
    if problems:
        raise ConfigurationError("\n".join(problems))
    registry.merge(factories)
    return tuple(factories)


def read_entries() -> tuple[EntryPoint, ...]:
    """Of all plugins that are installed. Reads the metadata of all distributions, and imports nothing."""
    return tuple(entry_points(group=GROUP))


def list_installed(entries: Iterable[EntryPoint] | None = None) -> dict[str, str]:
    """The distribution of each installed plugin, name and version, by the plugin's name."""
    listed = read_entries() if entries is None else entries
    return {entry.name: _origin(entry) for entry in sorted(listed, key=lambda entry: entry.name)}


def _load_factory(entry: EntryPoint, taken: dict[str, str]) -> PluginFactory:
    where = f"{_locate(entry)}, entry point {entry.name} = {entry.value}"
    if entry.name in taken:
        raise ConfigurationError(f"{where}: a plugin named {entry.name} already exists ({taken[entry.name]})")
    try:
        factory: PluginFactory = entry.load()
    except Exception as error:
        raise ConfigurationError(f"{where}: {type(error).__name__}: {error}") from error
    if not callable(factory):
        raise ConfigurationError(f"{where}: expected a factory that takes arguments and handle, found {factory!r}")
    return factory


def _locate(entry: EntryPoint) -> str:
    return f"distribution {_origin(entry)}"


def _origin(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
