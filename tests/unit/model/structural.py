"""What an API server does with the schema of a CRD, as far as these tests need it.

Written from the documented rules of apiextensions.k8s.io/v1, not from the generator: which schemas are accepted, how
defaults are filled in, which values fit, and which CEL rules an object breaks.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

Schema = dict[str, Any]

ANY_OF_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
KEYWORDS = {
    *("type", "description", "properties", "additionalProperties", "items", "required", "enum", "format", "default"),
    *("pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "anyOf"),
    *("minProperties", "maxProperties", "x-kubernetes-validations", "x-kubernetes-int-or-string"),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
    *("x-kubernetes-embedded-resource", "x-kubernetes-preserve-unknown-fields"),
}
PYTHON_TYPES: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}
UNTYPED = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """The schema and everything below it, with paths."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def schema_problems(schema: Schema) -> list[str]:
    """Why the API server would refuse the CRD."""
    return [
        f"{path}: {problem}"
        for path, node in nodes(schema)
        for problem in (*_node_problems(node), *_transition_problems(path, node))
    ]


def _transition_problems(path: str, node: Schema) -> Iterator[str]:
    """An item of a plain list has no old value to compare with."""
    rules = node.get("x-kubernetes-validations", ())
    if "[]" in path and any("oldSelf" in rule["rule"] for rule in rules):
        yield "a rule about changes inside a list"


def _node_problems(node: Schema) -> Iterator[str]:
    if unknown := set(node) - KEYWORDS:
        yield f"unknown keywords {unknown}"
    if "type" not in node and not any(node.get(keyword) for keyword in UNTYPED):
        yield "no type"
    if "anyOf" in node and (node["anyOf"] != ANY_OF_INT_OR_STRING or not node.get("x-kubernetes-int-or-string")):
        yield "composition beside int-or-string"
    if "properties" in node and "additionalProperties" in node:
        yield "properties and additionalProperties exclude each other"
    if missing := set(node.get("required", ())) - set(node.get("properties", {})):
        yield f"required but not declared: {missing}"
    if node.get("x-kubernetes-embedded-resource") and node.get("type") != "object":
        yield "an embedded resource must be an object"
    yield from _list_map_problems(node)
    if "default" in node:
        yield from (f"default: {problem}" for problem in value_problems(node, node["default"]))


def _list_map_problems(node: Schema) -> Iterator[str]:
    if node.get("x-kubernetes-list-type") != "map":
        return
    items = node["items"]
    for key in node.get("x-kubernetes-list-map-keys") or ["(no keys)"]:
        declared = items.get("properties", {}).get(key, {})
        if key not in items.get("required", ()) and "default" not in declared:
            yield f"list-map key {key} must be required or have a default"


def with_defaults(schema: Schema, value: Any) -> Any:
    """A copy with defaults filled in and unknown fields pruned."""
    if isinstance(value, dict) and "properties" in schema:
        return _object_with_defaults(schema["properties"], value)
    if isinstance(value, dict) and "additionalProperties" in schema:
        return {key: with_defaults(schema["additionalProperties"], item) for key, item in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(schema["items"], item) for item in value]
    return copy.deepcopy(value)


def _object_with_defaults(properties: Schema, value: Schema) -> Schema:
    present = {name: value[name] for name in properties if name in value}
    missing = {name: inner["default"] for name, inner in properties.items() if "default" in inner and name not in value}
    return {name: with_defaults(properties[name], item) for name, item in {**present, **missing}.items()}


def value_problems(schema: Schema, value: Any, path: str = "") -> list[str]:
    """Why the API server would refuse a value, rules aside."""
    found = [f"{path}: {problem}" for problem in _own_problems(schema, value)]
    for inner_path, inner, item in children(schema, value):
        found += value_problems(inner, item, path + inner_path)
    return found


def _own_problems(schema: Schema, value: Any) -> Iterator[str]:
    if not _has_type(schema, value):
        yield f"{value!r} has another type"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{value!r} is not one of {schema['enum']}"
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{value!r} does not match {schema['pattern']}"
    if isinstance(value, dict):
        yield from (f"{name} is required" for name in schema.get("required", ()) if name not in value)
    yield from _limit_problems(schema, value)


def _has_type(schema: Schema, value: Any) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    wanted = PYTHON_TYPES.get(schema.get("type", ""), object)
    return isinstance(value, wanted) and not (wanted is int and isinstance(value, bool))


def _limit_problems(schema: Schema, value: Any) -> Iterator[str]:
    suffixes: dict[type, str] = {str: "Length", list: "Items", dict: "Properties"}
    suffix = suffixes.get(type(value))
    low, high = (f"min{suffix}", f"max{suffix}") if suffix else ("minimum", "maximum")
    size = len(value) if suffix else value
    if low in schema and size < schema[low]:
        yield f"{value!r} is below {low} {schema[low]}"
    if high in schema and size > schema[high]:
        yield f"{value!r} is above {high} {schema[high]}"


def children(schema: Schema, value: Any) -> Iterator[tuple[str, Schema, Any]]:
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            if name in properties:
                yield f".{name}", properties[name], item
            elif others is not None:
                yield f"[{name}]", others, item
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield f"[{index}]", schema["items"], item


@cache
def _environment() -> Any:
    cel: Any = import_module("cel_expr_python.cel")
    return cel.NewEnv(variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN})


@cache
def _compiled(rule: str) -> Any:
    return _environment().compile(rule)


def broken_rules(schema: Schema, new: Any, old: Any = None) -> list[str]:
    """Messages of the CEL rules that a value breaks, as a create or, with `old`, as an update."""
    found = [_message(rule, new) for rule in schema.get("x-kubernetes-validations", ()) if not _holds(rule, new, old)]
    for path, inner, item in children(schema, new):
        found += broken_rules(inner, item, _counterpart(old, path))
    return found


def _counterpart(old: Any, path: str) -> Any:
    """The old value at the same place; items of a list have none, unless it is a list-map."""
    return old.get(path[1:]) if isinstance(old, dict) and path.startswith(".") else None


def _holds(rule: Schema, new: Any, old: Any) -> bool:
    if "oldSelf" in rule["rule"] and old is None:
        return True
    result = _compiled(rule["rule"]).eval(data={"self": new, "oldSelf": old}).plain_value()
    assert isinstance(result, bool), f"{rule['rule']} gives {result!r} for {new!r}"
    return result


def _message(rule: Schema, value: Any) -> str:
    if "messageExpression" not in rule:
        return str(rule["message"])
    return str(_compiled(rule["messageExpression"]).eval(data={"self": value}).plain_value())
