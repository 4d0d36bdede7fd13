"""The settings by name, and their environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from pydantic.fields import FieldInfo

from fleet.settings.tree import Planned, Section, Settings

PREFIX: Final = "FLEET_"
_BETWEEN_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])(?!(?<=Mi)B)")  # MiB is one word
NO_EFFECT: Final = "has no effect yet"


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting: its name and where it is defined."""

    name: str
    section: type[Section]
    attribute: str

    @property
    def field(self) -> FieldInfo:
        return self.section.model_fields[self.attribute]

    @property
    def variable(self) -> str:
        """FLEET_QUEUE__MAX_DELAY for queue.maxDelay."""
        return PREFIX + "__".join(_BETWEEN_WORDS.sub("_", part).upper() for part in self.name.split("."))

    @property
    def default(self) -> Any:
        return self.field.default

    @property
    def meaning(self) -> str:
        return self.field.description or ""

    @property
    def is_planned(self) -> bool:
        return any(isinstance(mark, Planned) for mark in self.field.metadata)

    def parse(self, written: object) -> Any:
        """Raises pydantic's ValidationError."""
        read = self.section.model_validate({self.attribute: written})
        return getattr(read, self.attribute)


@cache
def known_settings() -> dict[str, SettingInfo]:
    """In the order of the tree."""
    return {known.name: known for known in _settings_of(Settings, "")}


@cache
def section_names() -> frozenset[str]:
    """`queue`, `api.budget` and so on: names that contain settings and have no value."""
    parts = [name.split(".") for name in known_settings()]
    return frozenset(".".join(part[:depth]) for part in parts for depth in range(1, len(part)))


def render_value(value: object) -> str:
    """A value in the notation of a settings file."""
    match value:
        case None | ():
            return ""
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _settings_of(section: type[Section], prefix: str) -> Iterator[SettingInfo]:
    for attribute, field in section.model_fields.items():
        if field.exclude:  # profiles, which are no single value
            continue
        name = prefix + (field.alias or attribute)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from _settings_of(field.annotation, f"{name}.")
        else:
            yield SettingInfo(name, section, attribute)
