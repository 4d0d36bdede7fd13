"""Defaulting: sets the defaults of a schema, and removes nulls where the schema is not nullable.

A null in a field that is not nullable counts as missing: it is replaced by the default or removed. Default values are
defaulted themselves. Lists keep their length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

JSONSchema = Mapping[str, Any]
Fill = Callable[[Any], None]


def compile_defaulting(schema: JSONSchema) -> Fill:
    """Compiles a function that sets defaults in place."""
    return _compile(schema) or _leave


def _leave(_value: Any) -> None:
    pass


def _compile(schema: JSONSchema) -> Fill | None:
    fill_object, fill_list = _compile_object(schema), _compile_list(schema)
    if fill_object is None and fill_list is None:
        return None

    def fill(value: Any) -> None:
        if type(value) is dict:
            if fill_object is not None:
                fill_object(value)
        elif type(value) is list and fill_list is not None:
            fill_list(value)

    return fill


def _compile_object(schema: JSONSchema) -> Callable[[dict[str, Any]], None] | None:
    properties: JSONSchema = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    additional = others if isinstance(others, Mapping) else None
    if not properties and additional is None:
        return None
    defaults = [(name, inner["default"]) for name, inner in properties.items() if inner.get("default") is not None]
    fills = {name: fill for name, inner in properties.items() if (fill := _compile(inner))}
    fill_other = _compile(additional) if additional is not None else None

    def fill_fields(value: dict[str, Any]) -> None:
        if None in value.values():
            _remove_nulls(value, properties, additional)
        for name, default in defaults:
            if name not in value:
                value[name] = deepcopy(default)
        for name, fill_field in fills.items():
            if name in value:
                fill_field(value[name])
        if fill_other is not None:
            for name in value.keys() - properties.keys():
                fill_other(value[name])

    return fill_fields


def _remove_nulls(value: dict[str, Any], properties: JSONSchema, additional: JSONSchema | None) -> None:
    for name in [name for name, item in value.items() if item is None]:
        schema = properties.get(name, additional)
        if schema is None or schema.get("nullable"):
            continue
        default = schema.get("default")
        if default is None:
            del value[name]
        else:
            value[name] = deepcopy(default)


def _compile_list(schema: JSONSchema) -> Callable[[list[Any]], None] | None:
    items = schema.get("items")
    if not items:
        return None
    fill_item, default = _compile(items), items.get("default")
    replaces_null = default is not None and not items.get("nullable")
    if fill_item is None and not replaces_null:
        return None

    def fill(value: list[Any]) -> None:
        for index, item in enumerate(value):
            if item is None and replaces_null:
                value[index] = item = deepcopy(default)
            if fill_item is not None:
                fill_item(item)

    return fill
