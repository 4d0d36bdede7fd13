"""Findings of checks, and the errors of single fields that they become, with the messages of the API server.

A field error becomes an entry of `details.causes` of a Status; `wire.statuses` builds the message of the whole Status.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

REQUIRED: Final = "FieldValueRequired"
INVALID: Final = "FieldValueInvalid"
TYPE_INVALID: Final = "FieldValueTypeInvalid"
NOT_SUPPORTED: Final = "FieldValueNotSupported"
TOO_LONG: Final = "FieldValueTooLong"
TOO_MANY: Final = "FieldValueTooMany"
DUPLICATE: Final = "FieldValueDuplicate"
FORBIDDEN: Final = "FieldValueForbidden"

NO_FIELD: Final = "<nil>"
"""The field that the API server reports for errors without one."""

_WORDS: Final = {
    REQUIRED: "Required value",
    INVALID: "Invalid value",
    TYPE_INVALID: "Invalid value",
    NOT_SUPPORTED: "Unsupported value",
    TOO_LONG: "Too long",
    TOO_MANY: "Too many",
    DUPLICATE: "Duplicate value",
    FORBIDDEN: "Forbidden",
}
_WITHOUT_VALUE: Final = frozenset({REQUIRED, FORBIDDEN, TOO_LONG})
# CEL rules are not evaluated after these errors: they might fail for the wrong reason.
_BLOCKING: Final = frozenset({NOT_SUPPORTED, REQUIRED, TOO_LONG, TOO_MANY, TYPE_INVALID})
_GO_EXPONENT_FROM: Final = 6
_GO_EXPONENT_BELOW: Final = -4


@dataclass(frozen=True, slots=True)
class FieldError:
    """`field`, `reason` and `message` of a Status cause."""

    field: str
    reason: str
    message: str
    value: Any = None

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    @property
    def blocks_rules(self) -> bool:
        return self.reason in _BLOCKING


def field_error(field: str, reason: str, value: Any = "", detail: str = "") -> FieldError:
    words = _WORDS[reason] if reason in _WITHOUT_VALUE else f"{_WORDS[reason]}: {go_value(value)}"
    return FieldError(field, reason, f"{words}: {detail}" if detail else words, value)


def go_value(value: Any) -> str:
    """A value as Go prints it in messages: quoted strings, plain numbers, everything else as JSON."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, float):
        return go_number(value)
    return go_json(value)


_ESCAPES: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"'
}  # fmt: skip


def go_quote(text: str) -> str:
    """Formats a string like Go's `%q`."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escape(character) for character in text) + '"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def go_number(value: float) -> str:
    """Formats a float64 like Go's `%v`: shortest digits, with an exponent from 1e6 and below 1e-4."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    digits, _, exponent = _shortest_digits(value).partition("e")
    if not exponent or _GO_EXPONENT_BELOW <= int(exponent) < _GO_EXPONENT_FROM:
        return repr(value).removesuffix(".0")
    return f"{digits}e{int(exponent):+03d}"


def _shortest_digits(value: float) -> str:
    for precision in range(17):
        text = format(value, f".{precision}e")
        if float(text) == value:
            return text
    return repr(value)


def go_json(value: Any) -> str:
    """JSON as Go encodes it: sorted keys, no whitespace, HTML characters escaped."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character, escape in (("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")):
        text = text.replace(character, escape)
    return text


RULES_NOT_CHECKED: Final = field_error(
    NO_FIELD,
    INVALID,
    None,
    "some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation",
)


# Checks keep paths and parts of messages while they walk an object; texts are built only for errors.
# The path to a value: a pair of its parent's path and a name or index, or None for the root.
Way = tuple[Any, str | int]
Path = Way | None

NAME: Final = "\0"
"""Placeholder for the name of the field in a text that does not begin with it."""


class MapKey(str):
    """A step to a value of a map, written in brackets; type checks write it like a field."""

    __slots__ = ()


class SchemaFinding(NamedTuple):
    """`at` is the reported field, `owner` the value whose check failed: equal unless a required field is missing.

    `is_about_change` marks rules that compare with the old value: their errors are never ratcheted.
    `text` follows the name of the field in the detail; details of a composition report no field but quote its name.
    """

    owner: Path
    at: Path
    reason: str
    value: Any = ""
    text: str = ""
    is_composition: bool = False
    is_about_change: bool = False

    def as_field_error(self, prefix: str = "") -> FieldError:
        name = format_path(self.at)
        if self.is_composition:
            return field_error(prefix or NO_FIELD, INVALID, "", go_quote(name) + self.text)
        field = f"{prefix}.{name}" if prefix and name else name or prefix or NO_FIELD
        detail = name + self.text if self.text.startswith(" ") else self.text.replace(NAME, name)
        return field_error(field, self.reason, self.value, detail)


def format_path(path: Path) -> str:
    """Formats a path as `spec.items[3].name`."""
    return "".join(f".{step}" if type(step) is str else f"[{step}]" for step in steps(path)).removeprefix(".")


def steps(path: Path) -> list[str | int]:
    path_steps: list[str | int] = []
    while path is not None:
        path, step = path
        path_steps.append(step)
    return path_steps[::-1]
