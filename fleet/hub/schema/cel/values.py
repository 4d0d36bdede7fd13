"""Conversion of values for CEL: escaped field names, doubles and bytes."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

JSONSchema = Mapping[str, Any]
Convert = Callable[[Any], Any]

_KEYWORDS: Final = frozenset(
    {
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import"),
        *("let", "loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_TO_ESCAPE: Final = re.compile(r"__|[.\-/]")
_ESCAPED: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}


def escape(name: str) -> str:
    """The escaped name of a field in a rule."""
    if name in _KEYWORDS:
        return f"__{name}__"
    return _TO_ESCAPE.sub(lambda match: _ESCAPED[match[0]], name)


def compile_conversion(schema: JSONSchema) -> Convert | None:
    """Compiles the conversion of values to CEL values, or None if no conversion is needed (the usual case)."""
    match schema.get("type"):
        case "number":
            return float
        case "string":
            return _bytes if schema.get("format") == "byte" else None
        case "array":
            return _compile_list(schema)
    return _compile_object(schema)


def _compile_list(schema: JSONSchema) -> Convert | None:
    convert = compile_conversion(schema.get("items") or {})
    if convert is None:
        return None
    return lambda value: [None if item is None else convert(item) for item in value]


def _compile_object(schema: JSONSchema) -> Convert | None:
    fields: dict[str, tuple[str, Convert | None]] = {}
    for name, inner in (schema.get("properties") or {}).items():
        convert, escaped = compile_conversion(inner), escape(name)
        if convert is not None or escaped != name:
            fields[name] = (escaped, convert)
    others = schema.get("additionalProperties")
    additional = compile_conversion(others) if isinstance(others, Mapping) else None
    if not fields and additional is None:
        return None

    def convert_object(value: Any) -> Any:
        if type(value) is not dict:
            return value
        converted = {}
        for name, item in value.items():
            shown, convert = fields.get(name, (name, additional))
            converted[shown] = item if item is None or convert is None else convert(item)
        return converted

    return convert_object


def _bytes(text: str) -> Any:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text


def has_times(schema: JSONSchema) -> bool:
    """Whether values of the schema may contain times or durations, which the library only takes as strings."""
    if schema.get("type") == "string":
        return schema.get("format", "").replace("-", "") in ("date", "datetime", "duration")
    inner = [*(schema.get("properties") or {}).values(), schema.get("items"), schema.get("additionalProperties")]
    return any(has_times(part) for part in inner if isinstance(part, Mapping))
