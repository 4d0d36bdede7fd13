"""Checks of values against a schema: types, limits, patterns, formats, required fields.

A schema is compiled into one function per JSON type of a value, or None where such a value is always valid: a valid
object costs one dictionary lookup and at most one call per value. Most parts of a schema never see most types, so each
function is compiled for the first value of its type. `composition` has `anyOf` and the like.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final

from fleet.hub.schema.composition import compile_composition
from fleet.hub.schema.field_errors import (
    INVALID,
    NAME,
    NOT_SUPPORTED,
    REQUIRED,
    TOO_LONG,
    TOO_MANY,
    TYPE_INVALID,
    Path,
    SchemaFinding,
    go_json,
    go_number,
    go_quote,
)
from fleet.hub.schema.formats import find_format_check
from fleet.hub.schema.patterns import compile_pattern

JSONSchema = Mapping[str, Any]
Findings = list[SchemaFinding]
Check = Callable[[Any, Path, Findings], None]

NAMES: Final[dict[type, str]] = {
    str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array", NoneType: "null"
}  # fmt: skip
_VALUE_FORMATS: Final[dict[type, str]] = {int: "int64", float: "float64"}
_SMALLEST_INT: Final = -(2**63)
_LARGEST_INT: Final = 2**63 - 1
_EXACT_AS_FLOAT: Final = 2**53


class Checks(dict[type, Check | None]):
    def __init__(self, schema: JSONSchema) -> None:
        super().__init__()
        self._schema = schema

    def __missing__(self, kind: type) -> Check | None:
        check = self[kind] = _chain(_compile_for_type(self._schema, kind))
        return check


_NO_CHECKS: Final = Checks({})


def _compile_for_type(schema: JSONSchema, kind: type) -> list[Check | None]:
    if kind is NoneType:
        return [_compile_type_check(schema, kind), _compile_enum_check(schema)]
    shared = [_compile_type_check(schema, kind), compile_composition(schema, Checks)]
    return [
        *shared,
        *_compile_own(schema, kind),
        _compile_enum_check(schema),
        _compile_object_check(schema) if kind is dict else None,
    ]


def _compile_own(schema: JSONSchema, kind: type) -> list[Check | None]:
    if kind is str:
        return [_compile_string_check(schema), _compile_format_check(schema)]
    if kind is int or kind is float:
        return [_compile_number_check(schema)]
    return [_compile_list_check(schema)] if kind is list else []


def _chain(checks: list[Check | None]) -> Check | None:
    present = [check for check in checks if check is not None]
    if len(present) < 2:
        return present[0] if present else None

    def check_all(value: Any, path: Path, findings: Findings) -> None:
        for check in present:
            check(value, path, findings)

    return check_all


# --- types ------------------------------------------------------------------------------------------------------------


def types_of(schema: JSONSchema) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (schema["type"],) if schema.get("type") else ()


def known_format(schema: JSONSchema) -> str:
    name: str = schema.get("format", "")
    return name if name and find_format_check(name) else ""


def _compile_type_check(schema: JSONSchema, kind: type) -> Check | None:
    types, wanted = types_of(schema), known_format(schema)
    if kind is NoneType:
        return _build_type_error(types, "null") if types and not schema.get("nullable") else None
    if not types and not wanted:
        return None
    is_numeric = not {"number", "integer"}.isdisjoint(types)
    if wanted and kind in (str, list) and not is_numeric:
        return None
    return _compile_plain_type_check(types, kind, wanted)


def _compile_plain_type_check(types: tuple[str, ...], kind: type, wanted: str) -> Check | None:
    if kind is float and "number" not in types and "integer" in types:
        return _build_whole_number_check(types)
    if kind is int and ("integer" in types or "number" in types):
        return _build_integer_range_check(types) if "number" not in types else None
    if NAMES[kind] in types:
        return None
    if wanted and kind not in (str, list):
        return _build_type_error((wanted,), _VALUE_FORMATS.get(kind, ""))
    return _build_type_error(types, NAMES[kind])


def _build_type_error(types: tuple[str, ...], actual: str) -> Check:
    text = f" in body must be of type {','.join(types)}: {go_quote(actual)}"

    def check(_value: Any, path: Path, findings: Findings) -> None:
        findings.append(SchemaFinding(path, path, TYPE_INVALID, actual, text))

    return check


def _build_whole_number_check(types: tuple[str, ...]) -> Check:
    """A float without a fraction, such as 1e3, counts as an integer while floats are exact."""
    fail = _build_type_error(types, "number")

    def check(value: float, path: Path, findings: Findings) -> None:
        if not _is_whole(value):
            fail(value, path, findings)

    return check


def _build_integer_range_check(types: tuple[str, ...]) -> Check:
    """Go decodes larger integers as floats, which are not integers."""
    fail = _build_type_error(types, "number")

    def check(value: int, path: Path, findings: Findings) -> None:
        if not _SMALLEST_INT <= value <= _LARGEST_INT:
            fail(value, path, findings)

    return check


# --- texts ------------------------------------------------------------------------------------------------------------


def _compile_string_check(schema: JSONSchema) -> Check | None:
    """Only the first failure of length and pattern is reported."""
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern = schema.get("pattern", "")
    matches = compile_pattern(pattern) if pattern else None
    if longest is None and shortest is None and matches is None:
        return None

    def check(value: str, path: Path, findings: Findings) -> None:
        if longest is not None and len(value) > longest:
            findings.append(SchemaFinding(path, path, TOO_LONG, "<value omitted>", _format_max_length(longest)))
        elif shortest is not None and len(value) < shortest:
            findings.append(
                SchemaFinding(path, path, INVALID, value, f" in body should be at least {shortest} chars long")
            )
        elif matches is not None and not matches(value):
            findings.append(SchemaFinding(path, path, INVALID, value, f" in body should match '{pattern}'"))

    return check


def _format_max_length(longest: int) -> str:
    return f"may not be more than {longest} byte{'' if longest == 1 else 's'}"


def _compile_format_check(schema: JSONSchema) -> Check | None:
    wanted = known_format(schema)
    has_format = find_format_check(wanted) if wanted else None
    if has_format is None:
        return None

    def check(value: str, path: Path, findings: Findings) -> None:
        if not has_format(value):
            text = f" in body must be of type {wanted}: {go_quote(value)}"
            findings.append(SchemaFinding(path, path, TYPE_INVALID, value, text))

    return check


# --- numbers ----------------------------------------------------------------------------------------------------------


def _compile_number_check(schema: JSONSchema) -> Check | None:
    check_all = _chain(
        [_compile_multiple_check(schema), _compile_minimum_check(schema), _compile_maximum_check(schema)]
    )
    if check_all is None:
        return None

    def check(value: float, path: Path, findings: Findings) -> None:
        is_exact = isinstance(value, float) or _SMALLEST_INT <= value <= _LARGEST_INT
        check_all(value if is_exact else _as_float(value), path, findings)

    return check


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _compile_multiple_check(schema: JSONSchema) -> Check | None:
    factor = schema.get("multipleOf")
    if factor is None:
        return None

    def check(value: float, path: Path, findings: Findings) -> None:
        step = int(factor) if isinstance(value, int) else factor
        if step <= 0:
            # Go truncates the factor for integers, possibly to zero.
            text = f"factor MultipleOf declared for {NAME} must be positive: {step}"
            findings.append(SchemaFinding(path, path, INVALID, step, text))
        elif value % step if isinstance(value, int) else not _is_whole(value / step):
            text = f" in body should be a multiple of {_format_bound(factor, like=value)}"
            findings.append(SchemaFinding(path, path, INVALID, value, text))

    return check


def _is_whole(value: float) -> bool:
    return value.is_integer() and abs(value) < _EXACT_AS_FLOAT


def _compile_minimum_check(schema: JSONSchema) -> Check | None:
    bound, excludes = schema.get("minimum"), bool(schema.get("exclusiveMinimum"))
    if bound is None:
        return None
    words = "greater than" if excludes else "greater than or equal to"

    def check(value: float, path: Path, findings: Findings) -> None:
        limit = int(bound) if isinstance(value, int) else bound
        if value < limit or (excludes and value == limit):
            text = f" in body should be {words} {_format_bound(bound, like=value)}"
            findings.append(SchemaFinding(path, path, INVALID, value, text))

    return check


def _compile_maximum_check(schema: JSONSchema) -> Check | None:
    bound, excludes = schema.get("maximum"), bool(schema.get("exclusiveMaximum"))
    if bound is None:
        return None
    words = "less than" if excludes else "less than or equal to"

    def check(value: float, path: Path, findings: Findings) -> None:
        limit = int(bound) if isinstance(value, int) else bound
        if value > limit or (excludes and value == limit):
            text = f" in body should be {words} {_format_bound(bound, like=value)}"
            findings.append(SchemaFinding(path, path, INVALID, value, text))

    return check


def _format_bound(bound: float, *, like: float) -> str:
    """Formats a bound in the type of the value."""
    return str(int(bound)) if isinstance(like, int) else go_number(float(bound))


# --- lists and enumerations -------------------------------------------------------------------------------------------


def _compile_list_check(schema: JSONSchema) -> Check | None:
    items = Checks(schema["items"]) if "items" in schema else None
    shortest, longest = schema.get("minItems"), schema.get("maxItems")
    if items is None and shortest is None and longest is None:
        return None

    def check(value: list[Any], path: Path, findings: Findings) -> None:
        if items is not None:
            for index, item in enumerate(value):
                check_item = items[type(item)]
                if check_item is not None:
                    check_item(item, (path, index), findings)
        if shortest is not None and len(value) < shortest:
            text = f" in body should have at least {shortest} items"
            findings.append(SchemaFinding(path, path, INVALID, len(value), text))
        if longest is not None and len(value) > longest:
            findings.append(SchemaFinding(path, path, TOO_MANY, len(value), _format_max_items(longest)))

    return check


def _format_max_items(most: int) -> str:
    return f"must have at most {most} item{'' if most == 1 else 's'}"


def _compile_enum_check(schema: JSONSchema) -> Check | None:
    allowed: list[Any] = schema.get("enum") or []
    if not allowed:
        return None
    listed = ", ".join(go_quote(item if isinstance(item, str) else go_json(item)) for item in allowed)
    text = f"supported values: {listed}"
    texts = frozenset(item for item in allowed if isinstance(item, str))

    def check(value: Any, path: Path, findings: Findings) -> None:
        if type(value) is str and value in texts:
            return
        # Null never matches, even if it is listed.
        if value is None or not any(
            value == item and isinstance(value, bool) is isinstance(item, bool) for item in allowed
        ):
            findings.append(SchemaFinding(path, path, NOT_SUPPORTED, value, text))

    return check


# --- objects ----------------------------------------------------------------------------------------------------------


def _compile_object_check(schema: JSONSchema) -> Check | None:
    checks = [_compile_size_check(schema), _compile_fields_check(schema), _compile_required_check(schema)]
    return _chain(checks)


def _compile_size_check(schema: JSONSchema) -> Check | None:
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    if fewest is None and most is None:
        return None

    def check(value: dict[str, Any], path: Path, findings: Findings) -> None:
        if fewest is not None and len(value) < fewest:
            text = f" in body should have at least {fewest} properties"
            findings.append(SchemaFinding(path, path, INVALID, len(value), text))
        if most is not None and len(value) > most:
            findings.append(SchemaFinding(path, path, TOO_MANY, len(value), _format_max_items(most)))

    return check


def _compile_fields_check(schema: JSONSchema) -> Check | None:
    properties = {name: Checks(inner) for name, inner in (schema.get("properties") or {}).items()}
    others = schema.get("additionalProperties")
    additional = Checks(others) if isinstance(others, Mapping) else _NO_CHECKS
    if not properties and additional is _NO_CHECKS:
        return None

    def check(value: dict[str, Any], path: Path, findings: Findings) -> None:
        for name, item in value.items():
            check_item = properties.get(name, additional)[type(item)]
            if check_item is not None:
                check_item(item, (path, name), findings)

    return check


def _compile_required_check(schema: JSONSchema) -> Check | None:
    required = tuple(schema.get("required") or ())
    if not required:
        return None

    def check(value: dict[str, Any], path: Path, findings: Findings) -> None:
        for name in required:
            if name not in value:
                findings.append(SchemaFinding(path, (path, name), REQUIRED))

    return check
