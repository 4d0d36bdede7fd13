"""What checks note while they walk an object, cheaply: paths and texts are made only when something is wrong."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from fleet.hub.schema.field_errors import INVALID, NO_FIELD, FieldError, field_error, go_quote

# The way to a value: a pair of the way to its parent and a name or an index, or None for the root.
Way = tuple[Any, str | int]
Path = Way | None

NAME: Final = "\0"
"""Stands for the name of the field in a text that does not begin with it."""


class MapKey(str):
    """A step to a value of a map, where it is written in brackets; checks of types write it like a field."""

    __slots__ = ()


class SchemaFinding(NamedTuple):
    """`at` is the field to blame, `owner` the value whose check failed: equal unless a required field is missing.

    `is_about_change` is set by rules that compare with the old value, whose errors are never old.
    `text` follows the name of the field in the detail; details of a composition blame no field but quote the name.
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
    """`spec.items[3].name`."""
    return "".join(f".{step}" if type(step) is str else f"[{step}]" for step in steps(path)).removeprefix(".")


def steps(path: Path) -> list[str | int]:
    path_steps: list[str | int] = []
    while path is not None:
        path, step = path
        path_steps.append(step)
    return path_steps[::-1]
