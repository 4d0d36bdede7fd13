"""Plugin factories by name. Sealed once a framework is built from it."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.errors import ConfigurationError, DuplicatePlugin, UnknownPlugin
from fleet.framework.arguments import PluginFactory


class Registry(dict[str, PluginFactory]):
    """Sealed by the first framework built from it, so that what runs is what was registered."""

    sealed = False

    def register(self, name: str, factory: PluginFactory) -> None:
        self._require_unsealed()
        if name in self:
            raise DuplicatePlugin(name)
        self[name] = factory

    def unregister(self, name: str) -> None:
        self._require_unsealed()
        if name not in self:
            raise UnknownPlugin(name)
        del self[name]

    def merge(self, other: Mapping[str, PluginFactory]) -> None:
        """All of the other's plugins, or, when one name is taken, none."""
        self._require_unsealed()
        for name in other:
            if name in self:
                raise DuplicatePlugin(name)
        self.update(other)

    def seal(self) -> None:
        self.sealed = True

    def _require_unsealed(self) -> None:
        if self.sealed:
            raise ConfigurationError("the registry is sealed: register plugins before a framework is built from it")
