"""Pruning: removes fields that are not in the schema, and returns their paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fleet.hub.schema.field_errors import Path, format_path

JSONSchema = Mapping[str, Any]
Prune = Callable[[Any, Path, list[Path]], None]

_OF_EVERY_OBJECT: Final = frozenset({"apiVersion", "kind", "metadata"})
_OWNER_REFERENCE: Final = frozenset({"apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"})
_MANAGED_FIELDS: Final = frozenset(
    {"apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time"}
)
_METADATA: Final = frozenset(
    {
        *("annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers"),
        *("generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences"),
        *("resourceVersion", "selfLink", "uid"),
    }
)


def compile_pruning(schema: JSONSchema) -> Callable[[dict[str, Any]], list[str]]:
    """Compiles a function that prunes an object in place and returns the sorted paths of removed fields."""
    prune_root = _compile(schema, is_root=True)

    def prune(document: dict[str, Any]) -> list[str]:
        dropped: list[Path] = []
        prune_root(document, None, dropped)
        return sorted(map(format_path, dropped)) if dropped else []

    return prune


def _compile(schema: JSONSchema, *, is_root: bool = False) -> Prune:
    fields = {name: _compile(inner) for name, inner in (schema.get("properties") or {}).items()}
    others = _compile_others(schema, keeps_unknown=bool(schema.get("x-kubernetes-preserve-unknown-fields")))
    is_object = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    if is_object:
        fields |= {"apiVersion": _keep, "kind": _keep, "metadata": _prune_metadata}
    prune_item = _compile_items(schema)

    def prune(value: Any, path: Path, dropped: list[Path]) -> None:
        if type(value) is dict:
            unknown = None
            for name, item in value.items():
                prune_field = fields.get(name, others)
                if prune_field is None:
                    unknown = [*(unknown or ()), name]
                elif type(item) is dict or type(item) is list:
                    prune_field(item, (path, name), dropped)
            if unknown:
                _drop(value, unknown, path, dropped)
        else:
            for index, item in enumerate(value):
                if type(item) is dict or type(item) is list:
                    prune_item(item, (path, index), dropped)

    return prune


def _compile_others(schema: JSONSchema, *, keeps_unknown: bool) -> Prune | None:
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        return _compile(others)
    # `true` allows any value, but declares no fields.
    return _keep if keeps_unknown else _drop_all if others is True else None


def _compile_items(schema: JSONSchema) -> Prune:
    """Items without a schema are kept as they are where unknown fields are preserved."""
    keeps_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    items = schema.get("items")
    if items is None:
        return _keep if keeps_unknown else _drop_all
    return _compile({**items, "x-kubernetes-preserve-unknown-fields": True} if keeps_unknown else items)


def _keep(_value: Any, _path: Path, _dropped: list[Path]) -> None:
    pass


def _drop_all(value: Any, path: Path, dropped: list[Path]) -> None:
    if type(value) is dict:
        _drop(value, list(value), path, dropped)
    else:
        for index, item in enumerate(value):
            if type(item) is dict or type(item) is list:
                _drop_all(item, (path, index), dropped)


def _drop(value: dict[str, Any], names: list[str], path: Path, dropped: list[Path]) -> None:
    for name in names:
        del value[name]
        dropped.append((path, name))


def _prune_metadata(value: Any, path: Path, dropped: list[Path]) -> None:
    if type(value) is not dict:
        return
    _drop(value, [name for name in value if name not in _METADATA], path, dropped)
    for field, known in (("ownerReferences", _OWNER_REFERENCE), ("managedFields", _MANAGED_FIELDS)):
        items = value.get(field)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if type(item) is dict:
                unknown = [name for name in item if name not in known]
                _drop(item, unknown, ((path, field), index), dropped)
