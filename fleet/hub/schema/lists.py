"""Uniqueness checks of lists of type `set` (items) and `map` (combinations of keys)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fleet.hub.schema.field_errors import DUPLICATE, INVALID, MapKey, Path, SchemaFinding, go_json

JSONSchema = Mapping[str, Any]
Check = Callable[[Any, Path, list[SchemaFinding]], None]


def compile_list_check(schema: JSONSchema) -> Check | None:
    """Compiles a check of all such lists in and below a value, or None if the schema has none."""
    fields, others = _compile_fields(schema), _compile_others(schema)
    items = compile_list_check(schema["items"]) if "items" in schema else None
    unique = _compile_uniqueness(schema)
    if not (fields or others or items or unique):
        return None

    def check(value: Any, path: Path, findings: list[SchemaFinding]) -> None:
        if type(value) is dict:
            for name, item in value.items():
                if name in fields:
                    fields[name](item, (path, name), findings)
                elif others is not None:
                    others(item, (path, MapKey(name)), findings)
        elif type(value) is list:
            if unique is not None:
                unique(value, path, findings)
            if items is not None:
                for index, item in enumerate(value):
                    items(item, (path, index), findings)

    return check


def _compile_fields(schema: JSONSchema) -> dict[str, Check]:
    compiled = {name: compile_list_check(inner) for name, inner in (schema.get("properties") or {}).items()}
    return {name: check for name, check in compiled.items() if check is not None}


def _compile_others(schema: JSONSchema) -> Check | None:
    others = schema.get("additionalProperties")
    return compile_list_check(others) if isinstance(others, Mapping) else None


def _compile_uniqueness(schema: JSONSchema) -> Check | None:
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return _check_set
        case "map":
            return _compile_map_check(tuple(schema["x-kubernetes-list-map-keys"]))
    return None


def _check_set(value: list[Any], path: Path, findings: list[SchemaFinding]) -> None:
    for index in _repeated_indexes(value):
        findings.append(SchemaFinding(path, (path, index), DUPLICATE, value[index]))


def _compile_map_check(keys: tuple[str, ...]) -> Check:
    def check(value: list[Any], path: Path, findings: list[SchemaFinding]) -> None:
        if _are_surely_distinct(value, keys):
            return
        for index, item in enumerate(value):
            if item is not None and type(item) is not dict:
                text = "must be an object for an array of list-type map"
                findings.append(SchemaFinding(path, (path, index), INVALID, item, text))
                return
        present = [{key: item[key] for key in keys if key in item} if item else {} for item in value]
        for index in _repeated_indexes(present):
            findings.append(SchemaFinding(path, (path, index), DUPLICATE, present[index]))

    return check


def _are_surely_distinct(value: list[Any], keys: tuple[str, ...]) -> bool:
    """A fast check of the usual case: all items have all keys, and no two are equal."""
    try:
        return len({tuple([item[key] for key in keys]) for item in value}) == len(value)
    except (KeyError, TypeError):
        return False


def _repeated_indexes(values: Sequence[Any]) -> Iterator[int]:
    """The index of the second occurrence of each value; later ones are not reported."""
    seen: dict[tuple[type, Any], int] = {}
    for index, value in enumerate(values):
        identity = (type(value), go_json(value) if isinstance(value, (dict, list)) else value)
        seen[identity] = times = seen.get(identity, 0) + 1
        if times == 2:
            yield index
