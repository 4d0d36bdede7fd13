"""Plugin factories, and the arguments that plugins are built with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from fleet.errors import ConfigurationError
from fleet.framework.handle import Handle

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RawArgs:
    """A plugin's arguments as configured: a mapping, or a JSON or YAML text."""

    content: Mapping[str, Any] | str | bytes
    content_type: str = "application/json"

    def parse(self) -> Any:
        if isinstance(self.content, Mapping):
            return self.content
        try:
            match self.content_type:
                case "application/json":
                    return msgspec.json.decode(self.content)
                case "application/yaml":
                    return msgspec.yaml.decode(self.content)
        except msgspec.DecodeError as error:
            raise ConfigurationError(f"arguments are not valid {self.content_type}: {error}") from error
        raise ConfigurationError(f"not supported content type {self.content_type}")


PluginFactory = Callable[[RawArgs | None, Handle], Any]


def decode_into(raw: RawArgs | None, kind: type[T]) -> T:
    """A plugin's typed arguments. Strict and case-sensitive; absent arguments leave the defaults."""
    if raw is None:
        return kind()
    content = raw.parse()
    if not isinstance(content, Mapping):
        raise ConfigurationError(f"{kind.__name__}: expected a mapping, got {type(content).__name__}")
    unknown = [f"{path}: unknown field" for path in _unknown_fields(content, inspect.type_info(kind), kind.__name__)]
    if unknown:
        raise ConfigurationError("\n".join(unknown))
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{kind.__name__}: {error}") from error


def _unknown_fields(content: Any, kind: inspect.Type, path: str) -> Iterator[str]:
    """Paths in `content` that `kind` has no field for; conversion itself would drop them without a word."""
    match content, kind:
        case dict(), inspect.DataclassType(fields=fields) | inspect.StructType(fields=fields):
            known = {field.encode_name: field.type for field in fields}
            for name, value in content.items():
                if name in known:
                    yield from _unknown_fields(value, known[name], f"{path}.{name}")
                else:
                    yield f"{path}.{name}"
        case dict(), inspect.DictType(value_type=inner):
            for name, value in content.items():
                yield from _unknown_fields(value, inner, f"{path}.{name}")
        case list(), inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
            for position, value in enumerate(content):
                yield from _unknown_fields(value, inner, f"{path}[{position}]")
        case _, inspect.UnionType(types=kinds):
            objects = [member for member in kinds if isinstance(member, inspect.DataclassType | inspect.StructType)]
            if len(objects) == 1:
                yield from _unknown_fields(content, objects[0], path)
