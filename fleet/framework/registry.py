"""Plugins by name, how they are made, and the arguments they are made with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from fleet.errors import ConfigurationError, DuplicatePlugin, UnknownPlugin
from fleet.framework.handle import Handle

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RawArgs:
    """A plugin's arguments as configured: a mapping, or a JSON or YAML text."""

    content: Mapping[str, Any] | str | bytes
    content_type: str = "application/json"


PluginFactory = Callable[[RawArgs | None, Handle], Any]


class Registry(dict[str, PluginFactory]):
    """Sealed by the first framework built from it, so that what runs is what was registered."""

    sealed = False

    def register(self, name: str, factory: PluginFactory) -> None:
        self._must_be_open()
        if name in self:
            raise DuplicatePlugin(name)
        self[name] = factory

    def unregister(self, name: str) -> None:
        self._must_be_open()
        if name not in self:
            raise UnknownPlugin(name)
        del self[name]

    def merge(self, other: Mapping[str, PluginFactory]) -> None:
        """All of the other's plugins, or, when one name is taken, none."""
        self._must_be_open()
        for name in other:
            if name in self:
                raise DuplicatePlugin(name)
        self.update(other)

    def seal(self) -> None:
        self.sealed = True

    def _must_be_open(self) -> None:
        if self.sealed:
            raise ConfigurationError("the registry is sealed: register plugins before a framework is built from it")


def decode_into(raw: RawArgs | None, kind: type[T]) -> T:
    """A plugin's typed arguments. Strict and case-sensitive; absent arguments leave the defaults."""
    if raw is None:
        return kind()
    content = _parsed(raw)
    if not isinstance(content, Mapping):
        raise ConfigurationError(f"{kind.__name__}: expected a mapping, got {type(content).__name__}")
    if dataclasses.is_dataclass(kind):
        unknown = sorted(set(content) - {one.name for one in dataclasses.fields(kind)})
        if unknown:
            raise ConfigurationError(f"{kind.__name__}.{unknown[0]}: unknown field")
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{kind.__name__}: {error}") from error


def _parsed(raw: RawArgs) -> Any:
    if isinstance(raw.content, Mapping):
        return raw.content
    try:
        match raw.content_type:
            case "application/json":
                return msgspec.json.decode(raw.content)
            case "application/yaml":
                return msgspec.yaml.decode(raw.content)
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"arguments are not valid {raw.content_type}: {error}") from error
    raise ConfigurationError(f"not supported content type {raw.content_type}")
