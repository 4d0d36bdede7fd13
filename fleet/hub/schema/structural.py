"""Validation of schemas themselves: like the API server, the hub accepts only structural schemas.

Two checks differ from the API server's on purpose. Keywords of the wrong JSON type are field errors here, where the API
server fails to decode the request. The cost of CEL rules is not estimated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final

from fleet.errors import InputError
from fleet.hub.schema.cel.rules import REASONS, compile_rule, uses_old_self
from fleet.hub.schema.defaulting import compile_defaulting
from fleet.hub.schema.field_errors import (
    FORBIDDEN,
    INVALID,
    NOT_SUPPORTED,
    REQUIRED,
    FieldError,
    MapKey,
    Path,
    SchemaFinding,
    field_error,
    format_path,
    go_quote,
)
from fleet.hub.schema.patterns import compile_pattern
from fleet.hub.schema.pruning import compile_pruning
from fleet.hub.schema.values import Checks

JSONSchema = Mapping[str, Any]

_NUMBER: Final = (int, float)
_KEYWORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("type", "format", "pattern", "description", "title", "id", "$schema", "$ref"), str),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), str),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), int),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("nullable", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"), bool),
    **dict.fromkeys(("x-kubernetes-int-or-string", "x-kubernetes-embedded-resource"), bool),
    "x-kubernetes-preserve-unknown-fields": bool,
    **dict.fromkeys(("enum", "required", "anyOf", "oneOf", "allOf", "x-kubernetes-list-map-keys"), list),
    "x-kubernetes-validations": list,
    **dict.fromkeys(("properties", "patternProperties", "definitions", "dependencies", "not"), dict),
    "items": (dict, list),
    "additionalProperties": (dict, bool),
}
_OF_TEXTS: Final = ("required", "x-kubernetes-list-map-keys")
_RULE_TEXTS: Final = ("rule", "message", "messageExpression", "reason", "fieldPath")
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES: Final = ("atomic", "set", "map")
_MAP_TYPES: Final = ("atomic", "granular")
# Keywords that define a value, forbidden inside compositions, which may only narrow it.
_EMPTY_IN_BRANCHES: Final = ("type", "title", "description", "x-kubernetes-list-map-keys")
_UNDEFINED_IN_BRANCHES: Final = ("additionalProperties", "default", "x-kubernetes-list-type", "x-kubernetes-map-type")
_FALSE_IN_BRANCHES: Final = (
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
)
_INTEGER_OR_STRING: Final = ({"type": "integer"}, {"type": "string"})


def validate_definition(schema: object) -> list[FieldError]:
    """Errors with paths relative to the schema. Types of keywords come first: the other checks rely on them."""
    return list(_validate_type(schema, None)) or list(_validate(schema, None, ""))  # type: ignore[arg-type]


# --- types of keywords ------------------------------------------------------------------------------------------------


def _validate_type(schema: object, path: Path) -> Iterator[FieldError]:
    if not isinstance(schema, dict):
        yield field_error(format_path(path), INVALID, schema, "must be a schema")
        return
    for keyword, value in schema.items():
        wanted = _KEYWORDS.get(keyword)
        is_flag = isinstance(value, bool) and wanted in (int, _NUMBER)
        if wanted is not None and value is not None and (is_flag or not isinstance(value, wanted)):
            yield field_error(format_path((path, keyword)), INVALID, value, "has the wrong JSON type")
            return
    for keyword in _OF_TEXTS:
        if not all(isinstance(item, str) for item in schema.get(keyword) or ()):
            yield field_error(format_path((path, keyword)), INVALID, schema[keyword], "must be a list of texts")
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        if not _is_rule(rule):
            place = format_path(((path, "x-kubernetes-validations"), index))
            yield field_error(place, INVALID, rule, "must be a rule")
    for inner, at in _inner_schemas(schema, path):
        yield from _validate_type(inner, at)


def _is_rule(rule: object) -> bool:
    if not isinstance(rule, dict) or not isinstance(rule.get("optionalOldSelf", False), (bool, type(None))):
        return False
    return all(isinstance(rule.get(name) or "", str) for name in _RULE_TEXTS)


def _inner_schemas(schema: JSONSchema, path: Path) -> Iterator[tuple[Any, Path]]:
    for name, inner in (schema.get("properties") or {}).items():
        yield inner, ((path, "properties"), MapKey(name))
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword], (path, keyword)
    for keyword in _BRANCHES:
        for index, inner in enumerate(schema.get(keyword) or ()):
            yield inner, ((path, keyword), index)


# --- structure --------------------------------------------------------------------------------------------------------


def _validate(schema: JSONSchema, path: Path, place: str, *, uncorrelatable: str = "") -> Iterator[FieldError]:
    """`place` describes the position of a schema that must have a type.

    `uncorrelatable` is the path of the enclosing list whose items have no old values.
    """
    yield from _validate_own(schema, path, place)
    yield from _validate_list(schema, path)
    yield from _validate_map(schema, path)
    yield from _validate_object(schema, path)
    yield from _validate_pattern(schema, path)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = ((path, "x-kubernetes-validations"), index)
        yield from _validate_rule(rule, schema, at)
        yield from _validate_old_value(rule, at, uncorrelatable)
    yield from _validate_below(schema, path, uncorrelatable)
    yield from _validate_default(schema, path)


def _validate_own(schema: JSONSchema, path: Path, place: str) -> Iterator[FieldError]:
    kind = schema.get("type")
    if schema.get("$ref"):
        yield _build_error((path, "$ref"), FORBIDDEN, detail="$ref is not supported")
    elif not kind and place and not _may_lack_type(schema):
        yield _build_error((path, "type"), REQUIRED, detail=f"must not be empty for specified {place}")
    elif kind and kind not in _TYPES:
        yield _unsupported_value((path, "type"), kind, _TYPES)
    if kind == "null":
        text = "type cannot be set to null, use nullable as an alternative"
        yield _build_error((path, "type"), FORBIDDEN, detail=text)
    if schema.get("patternProperties"):
        yield _build_error((path, "patternProperties"), FORBIDDEN, detail="patternProperties is not supported")
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield _build_error((path, "uniqueItems"), FORBIDDEN, detail=text)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        keyword = "x-kubernetes-preserve-unknown-fields"
        yield _build_error((path, keyword), INVALID, False, detail="must be true or undefined")


def _may_lack_type(schema: JSONSchema) -> bool:
    return bool(schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields"))


def _validate_list(schema: JSONSchema, path: Path) -> Iterator[FieldError]:
    kind, items, list_type = schema.get("type"), schema.get("items"), schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys")
    if kind == "array" and items is None:
        yield _build_error((path, "items"), REQUIRED, detail="must be specified")
    if isinstance(items, list):
        yield _build_error((path, "items"), FORBIDDEN, detail="items must be a schema object and not an array")
        return
    if list_type is not None and kind != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield _build_error((path, "type"), INVALID if kind else REQUIRED, kind, detail=text)
    elif list_type is not None and list_type not in _LIST_TYPES:
        yield _unsupported_value((path, "x-kubernetes-list-type"), list_type, _LIST_TYPES)
    elif keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield _build_error((path, "x-kubernetes-list-type"), REQUIRED, detail=text)
    elif list_type == "map" and items is not None:
        yield from _validate_list_map(items, keys or [], path)
    elif list_type == "set" and items is not None:
        yield from _validate_set(items, (path, "items"))


def _validate_list_map(items: JSONSchema, keys: list[str], path: Path) -> Iterator[FieldError]:
    keyword, properties = (path, "x-kubernetes-list-map-keys"), items.get("properties") or {}
    if not keys:
        yield _build_error(keyword, REQUIRED, detail="must not be empty if x-kubernetes-list-type is map")
    elif items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield _build_error(((path, "items"), "type"), INVALID, items.get("type"), detail=text)
    elif not all(key in properties for key in keys):
        yield _build_error(keyword, INVALID, list(keys), detail="entries must all be names of item properties")
    else:
        text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        for key in keys:
            if key not in (items.get("required") or ()) and properties[key].get("default") is None:
                at = ((((path, "items"), "properties"), MapKey(key)), "default")
                yield _build_error(at, REQUIRED, detail=text)


def _validate_set(items: JSONSchema, path: Path) -> Iterator[FieldError]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    for kind, keyword in (("object", "x-kubernetes-map-type"), ("array", "x-kubernetes-list-type")):
        given = items.get(keyword)
        if items.get("type") == kind and given != "atomic" and (kind == "object" or given is not None):
            yield _build_error((path, keyword), INVALID, given, detail=text)


def _validate_map(schema: JSONSchema, path: Path) -> Iterator[FieldError]:
    kind, map_type = schema.get("type"), schema.get("x-kubernetes-map-type")
    if map_type is not None and kind != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        yield _build_error((path, "type"), INVALID if kind else REQUIRED, kind, detail=text)
    elif map_type is not None and map_type not in _MAP_TYPES:
        yield _unsupported_value((path, "x-kubernetes-map-type"), map_type, _MAP_TYPES)


def _validate_object(schema: JSONSchema, path: Path) -> Iterator[FieldError]:
    if schema.get("properties") and schema.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield _build_error((path, "additionalProperties"), FORBIDDEN, detail=text)
    if not schema.get("x-kubernetes-embedded-resource"):
        return
    if not schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
        condition = "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield _build_error((path, "properties"), REQUIRED, detail=f"must not be empty if {condition}")
    if schema.get("type") != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield _build_error((path, "type"), INVALID if schema.get("type") else REQUIRED, schema.get("type"), detail=text)


def _validate_below(schema: JSONSchema, path: Path, uncorrelatable: str = "") -> Iterator[FieldError]:
    for name, inner in (schema.get("properties") or {}).items():
        at: Path = ((path, "properties"), MapKey(name))
        yield from _validate(inner, at, "object fields", uncorrelatable=uncorrelatable)
    if isinstance(schema.get("additionalProperties"), dict):
        at = (path, "additionalProperties")
        yield from _validate(schema["additionalProperties"], at, "object fields", uncorrelatable=uncorrelatable)
    if isinstance(schema.get("items"), dict):
        if schema.get("x-kubernetes-list-type") != "map":
            uncorrelatable = uncorrelatable or format_path(path) or "the schema"
        yield from _validate(schema["items"], (path, "items"), "array items", uncorrelatable=uncorrelatable)
    for inner, at in _branches(schema, path):
        is_idiom = inner in _INTEGER_OR_STRING and schema.get("x-kubernetes-int-or-string")
        yield from () if is_idiom else _validate_branch(inner, at)


def _branches(schema: JSONSchema, path: Path) -> Iterator[tuple[JSONSchema, Path]]:
    for keyword in _BRANCHES:
        for index, inner in enumerate(schema.get(keyword) or ()):
            yield inner, ((path, keyword), index)
    if schema.get("not") is not None:
        yield schema["not"], (path, "not")


def _validate_branch(schema: JSONSchema, path: Path) -> Iterator[FieldError]:
    for keywords, what in ((_EMPTY_IN_BRANCHES, "empty"), (_FALSE_IN_BRANCHES, "false")):
        for keyword in keywords:
            if schema.get(keyword):
                yield _build_error((path, keyword), FORBIDDEN, detail=f"must be {what} to be structural")
    for keyword in _UNDEFINED_IN_BRANCHES:
        if schema.get(keyword) is not None:
            yield _build_error((path, keyword), FORBIDDEN, detail="must be undefined to be structural")
    yield from _validate_pattern(schema, path)
    for name, inner in (schema.get("properties") or {}).items():
        yield from _validate_branch(inner, ((path, "properties"), MapKey(name)))
    if isinstance(schema.get("items"), dict):
        yield from _validate_branch(schema["items"], (path, "items"))
    for inner, at in _branches(schema, path):
        yield from _validate_branch(inner, at)


def _validate_pattern(schema: JSONSchema, path: Path) -> Iterator[FieldError]:
    try:
        compile_pattern(schema.get("pattern") or "")
    except InputError as error:
        text = f"must be a valid regular expression, but isn't: {error.message}"
        yield _build_error((path, "pattern"), INVALID, schema["pattern"], detail=text)


# --- rules and defaults -----------------------------------------------------------------------------------------------


def _validate_rule(rule: JSONSchema, schema: JSONSchema, path: Path) -> Iterator[FieldError]:
    message, reason = rule.get("message") or "", rule.get("reason")
    if not (rule.get("rule") or "").strip():
        yield _build_error((path, "rule"), REQUIRED, detail="rule is not specified")
    elif "\n" in message.strip():
        yield _build_error((path, "message"), INVALID, message, detail="must not contain line breaks")
    elif reason and reason not in REASONS:
        yield _unsupported_value((path, "reason"), reason, sorted(REASONS))
    else:
        try:
            if not _has_field(schema, compile_rule(rule, schema).steps):
                yield _build_error((path, "fieldPath"), INVALID, rule["fieldPath"], detail="must be a valid path")
        except InputError as error:
            shown = go_quote(str(error.value)) if error.field == "fieldPath" else _as_go_shows(rule)
            yield FieldError(
                format_path((path, error.field)), INVALID, f"Invalid value: {shown}: {error.message}", rule
            )


def _validate_old_value(rule: JSONSchema, path: Path, uncorrelatable: str) -> Iterator[FieldError]:
    text = rule.get("rule") or ""
    if uncorrelatable and uses_old_self(text):
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelatable}"
        yield _build_error((path, "rule"), INVALID, text, detail=detail)


def _has_field(schema: JSONSchema, steps: Iterable[str]) -> bool:
    current: object = schema
    for step in steps:
        if not isinstance(current, Mapping):
            return False
        properties = current.get("properties")
        current = properties.get(step) if properties else current.get("additionalProperties")
    return isinstance(current, Mapping)


def _as_go_shows(rule: JSONSchema) -> str:
    shown = {
        "Rule": rule.get("rule") or "",
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)


def _validate_default(schema: JSONSchema, path: Path) -> Iterator[FieldError]:
    """A default must be valid, complete and pruned by its own schema, which must be valid for that check."""
    default = schema.get("default")
    if default is None or any(True for _ in _validate_below(schema, None)):
        return
    completed = deepcopy(default)
    compile_defaulting(schema)(completed)
    place = format_path((path, "default"))
    if isinstance(completed, dict) and compile_pruning(schema)(deepcopy(completed)):
        yield field_error(place, INVALID, default, "must not have unknown fields")
        return
    findings: list[SchemaFinding] = []
    check = Checks(schema)[type(completed)]
    if check is not None:
        check(completed, None, findings)
    yield from (finding.as_field_error(place) for finding in findings)


def _build_error(path: Path, kind: str, value: Any = "", *, detail: str = "") -> FieldError:
    return field_error(format_path(path), kind, value, detail)


def _unsupported_value(path: Path, value: str, supported: tuple[str, ...] | list[str]) -> FieldError:
    listed = ", ".join(map(go_quote, supported))
    return field_error(format_path(path), NOT_SUPPORTED, value, f"supported values: {listed}")
