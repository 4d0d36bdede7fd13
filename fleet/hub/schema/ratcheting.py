"""Ratcheting validation: an update is not refused for errors in values that it does not change.

An error is dropped if its value, or any enclosing value, equals its counterpart in the old object. Items of lists have
a counterpart only in lists of type `map`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.hub.schema.equality import is_same
from fleet.hub.schema.field_errors import Path, steps

JSONSchema = Mapping[str, Any]


def is_unchanged(path: Path, new: Any, old: Any, schema: JSONSchema) -> bool:
    """`new` and `old` are whole objects of the schema; `path` is a path in the new one."""
    way = steps(path)
    if old is None or way[:1] in (["apiVersion"], ["kind"]):
        return False
    for step in way:
        if is_same(new, old):
            return True
        if isinstance(step, int):
            old = _counterpart(new[step], old, schema)
            schema = schema.get("items") or {}
        else:
            old = old.get(step) if isinstance(old, dict) else None
            schema = (schema.get("properties") or {}).get(step) or schema.get("additionalProperties") or {}
        if old is None or not isinstance(schema, Mapping):
            return False
        new = new[step]
    return is_same(new, old)


def _counterpart(item: Any, old: Any, schema: JSONSchema) -> Any:
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list) or not isinstance(item, dict):
        return None
    keys = schema["x-kubernetes-list-map-keys"]
    wanted = [item.get(key) for key in keys]
    return next(
        (known for known in old if isinstance(known, dict) and [known.get(key) for key in keys] == wanted), None
    )
