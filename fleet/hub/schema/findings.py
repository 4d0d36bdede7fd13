"""Findings of checks while they walk an object. Cheap: paths and messages are built only for errors."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fleet.hub.schema.field_errors import INVALID, NO_FIELD, FieldError, field_error, go_quote

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
