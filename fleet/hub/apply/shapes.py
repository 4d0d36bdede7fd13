"""Shapes: the parts of a type that merging needs, from the schema of a custom resource or from the built-in tables.

Values without a schema have the deduced shape: maps are merged, lists are atomic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from fleet.hub.records import DataLine, read_records
from fleet.hub.schema.schema import Schema

JSONSchema = Mapping[str, Any]


@dataclass(eq=False)
class Shape:
    """`fields` are the declared fields of an object, `others` the values of a map. Shapes may be recursive.

    `keys` are the keys of a list-map with their defaults. `patch_key` is the merge key of strategic merge patches; an
    empty one means that scalars are merged. A closed shape allows only its declared fields; a shape with all fields
    lists only those that are not plain.
    """

    fields: dict[str, Shape] = field(default_factory=dict)
    others: Shape | None = None
    items: Shape | None = None
    keys: dict[str, Any] | None = None
    is_set: bool = False
    is_atomic: bool = False
    is_closed: bool = False
    has_all_fields: bool = False
    patch_key: str | None = None
    retains_keys: bool = False
    is_replaced: bool = False

    def declares(self, name: str) -> bool:
        """Whether the field is declared, rather than an entry of a map."""
        return name in self.fields or self.has_all_fields

    def field_shape(self, name: str) -> Shape:
        return self.fields.get(name) or self.others or DEDUCED

    @property
    def item_shape(self) -> Shape:
        return self.items or DEDUCED

    @property
    def merges_items(self) -> bool:
        return self.keys is not None or self.is_set


SCALAR: Final = Shape(is_atomic=True)
DEDUCED: Final = Shape()
DEDUCED.others = DEDUCED.items = DEDUCED


# --- custom resources -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def shape_of_schema(schema: Schema) -> Shape:
    shape = _compile_shape(schema.source)
    shape.fields = {**shape.fields, "apiVersion": SCALAR, "kind": SCALAR, "metadata": load_shapes().types["ObjectMeta"]}
    return shape


def _compile_shape(schema: JSONSchema) -> Shape:
    if "items" in schema:
        return _compile_list(schema)
    others = schema.get("additionalProperties")
    shape = Shape(
        fields={name: _compile_shape(inner) for name, inner in (schema.get("properties") or {}).items()},
        others=_compile_shape(others) if isinstance(others, Mapping) else None if _is_closed(schema) else DEDUCED,
        is_closed=_is_closed(schema),
        is_atomic=schema.get("x-kubernetes-map-type") == "atomic",
    )
    if schema.get("x-kubernetes-embedded-resource"):
        shape.fields |= {"apiVersion": SCALAR, "kind": SCALAR}
        shape.fields.setdefault("metadata", load_shapes().types["ObjectMeta"])
    return shape


def _is_closed(schema: JSONSchema) -> bool:
    return bool(schema.get("properties")) and not schema.get("x-kubernetes-preserve-unknown-fields")


def _compile_list(schema: JSONSchema) -> Shape:
    items = _compile_shape(schema["items"])
    match schema.get("x-kubernetes-list-type"):
        case "map":
            properties = schema["items"].get("properties") or {}
            keys = schema["x-kubernetes-list-map-keys"]
            return Shape(items=items, keys={key: properties.get(key, {}).get("default") for key in keys})
        case "set":
            return Shape(items=items, is_set=True)
    return Shape(items=items, is_atomic=True)


# --- built-in kinds ---------------------------------------------------------------------------------------------------

_SHAPES_FILE: Final = Path(__file__).with_name("builtin_shapes.txt")
_EMPTY_OBJECTS_FILE: Final = Path(__file__).with_name("empty_objects.txt")
_FIELD: Final = re.compile(
    r"(?P<name>\w+):(?P<form>[!\w@?{}]+(?:\[[\w,=]*\])?|\[\])(?P<merges>/\w*)?(?P<retains>\+)?(?P<replaced>=)?"
)


class _BuiltinShapes(NamedTuple):
    kinds: dict[str, Shape]
    types: dict[str, Shape]


def shape_of_kind(api_version: str, kind: str) -> Shape:
    """The shape of a built-in kind, and the deduced shape for any other."""
    return load_shapes().kinds.get(f"{api_version}.{kind}", DEDUCED)


def empty_object(api_version: str, kind: str) -> dict[str, Any]:
    return {"metadata": {}, **deepcopy(load_empty_objects().get(f"{api_version}.{kind}", {}))}


@lru_cache(maxsize=2)
def load_shapes(path: Path = _SHAPES_FILE) -> _BuiltinShapes:
    """Raises InputError with the line number for a line that does not fit."""
    shapes = _BuiltinShapes({}, {})
    listed = set()
    for record in read_records(path):
        (_, head), *words = record.words()
        if head == "kinds":
            (_, api_version), *kinds = words
            for _, kind in kinds:
                name, _, type_name = kind.partition("=")
                shapes.kinds[f"{api_version}.{name}"] = _shape_of_type(type_name or name, shapes.types)
            continue
        if head in listed:
            raise record.head.error(f"type {head} is listed twice")
        listed.add(head)
        fields = _shape_of_type(head, shapes.types).fields
        for line, word in words:
            name, shape = _parse_field(line, word, shapes.types)
            if name in fields:
                raise line.error(f"type {head} has two fields {name}")
            fields[name] = shape
    return shapes


@lru_cache(maxsize=2)
def load_empty_objects(path: Path = _EMPTY_OBJECTS_FILE) -> dict[str, dict[str, Any]]:
    """Raises InputError with the line number for a line that does not fit."""
    objects = {}
    for record in read_records(path):
        text = "".join(line.text for line in record.lines())
        api_version, _, rest = text.partition(" ")
        kind, _, content = rest.partition(" ")
        try:
            document = json.loads(content)
        except ValueError as error:
            raise record.head.error(f"not JSON: {error}") from error
        if not isinstance(document, dict):
            raise record.head.error("expected GROUP/VERSION, Kind and a JSON object")
        objects[f"{api_version}.{kind}"] = document
    return objects


def _parse_field(line: DataLine, word: str, types: dict[str, Shape]) -> tuple[str, Shape]:
    match = _FIELD.fullmatch(word)
    if match is None:
        raise line.error(f"not a field: {word}")
    shape = _parse_form(match["form"], types)
    if match["merges"]:
        shape.patch_key = match["merges"][1:]
        if shape.items is None:
            shape.items = _shape_of_type(match["form"].lstrip("!").partition("[")[0], types)
    if match["retains"] or match["replaced"]:
        shape = replace(shape, retains_keys=bool(match["retains"]), is_replaced=bool(match["replaced"]))
    return match["name"], shape


def _parse_form(form: str, types: dict[str, Shape]) -> Shape:
    if form == "?":
        return Shape(others=DEDUCED, items=DEDUCED)
    if form.startswith("!"):
        return Shape(is_atomic=True)
    if form.startswith("{"):
        return Shape(others=_shape_of_type(form[1:-1], types) if form != "{}" else SCALAR)
    if form == "[]":
        return Shape(is_set=True, items=SCALAR)
    name, bracket, keys = form.partition("[")
    if bracket:
        return Shape(items=_shape_of_type(name, types), keys=dict(_parse_keys(keys[:-1])))
    return _shape_of_type(name, types)


def _parse_keys(text: str) -> Iterator[tuple[str, str | None]]:
    for key in text.split(","):
        name, equals, default = key.partition("=")
        yield name, default if equals else None


def _shape_of_type(name: str, types: dict[str, Shape]) -> Shape:
    if name in ("", "@"):
        return SCALAR
    return types.setdefault(name, Shape(has_all_fields=True))
