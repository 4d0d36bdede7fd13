"""From what is written in several places to the settings that hold, and whose word each of them is.

The command line counts more than the environment, that more than the file, and that more than the defaults. Whatever is
wrong in any of them is told, all at once, even where something that counts more would hide it.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleet.errors import ConfigurationError
from fleet.settings.consistency import contradictions
from fleet.settings.names import Known, known_settings, nearest, shown
from fleet.settings.sources import Gathered, Given, from_assignments, from_environment, from_file
from fleet.settings.tree import DECIDING, Settings
from fleet.settings.values import Duration

DEFAULT: Final = "default"

_EXPECTED: Final = {
    "bool_parsing": "should be true or false",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "int_parsing_size": "should be a smaller number",
    "float_parsing": "should be a number",
    "string_pattern_mismatch": "should be a name of lower-case letters, digits, dots and dashes",
    "finite_number": "should be a number",
}


@dataclass(frozen=True, slots=True)
class Effective:
    """The settings that hold."""

    settings: Settings
    origins: Mapping[str, str]
    """Whose word each setting is, by name: `default`, `fleet.yaml:7`, `env:FLEET_WORKERS`, `--set`."""


@dataclass(frozen=True, slots=True)
class Flag:
    """An option of the command line that is another way to write a setting."""

    option: str
    name: str
    value: str


def load_settings(
    file: Path | None, environ: Mapping[str, str], assignments: Iterable[str], *, flags: Iterable[Flag] = ()
) -> Effective:
    """Raises ConfigurationError with everything that is wrong, one line each."""
    gathered = Gathered()
    if file is not None:
        from_file(file, gathered)
    from_environment(environ, gathered)
    from_assignments(assignments, gathered)
    for flag in flags:
        gathered.add(flag.name, flag.value, flag.option)
    return _effective(gathered)


def read_settings(assignments: Iterable[str]) -> Settings:
    """The settings a single decision depends on, from `name=value` texts; of several for one name the last counts."""
    gathered = Gathered()
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals:
            gathered.problems.append(f"setting {assignment!r} has no value: write {assignment}=VALUE")
        elif name not in deciding_settings():
            gathered.problems.append(_not_deciding(name))
        else:
            gathered.add(name, value, "")
    return _effective(gathered).settings


def deciding_settings() -> dict[str, Known]:
    return {name: one for name, one in known_settings().items() if name.partition(".")[0] in DECIDING}


def _not_deciding(name: str) -> str:
    if name in known_settings():
        return f"setting {name} has no influence on a decision: it is one of `fleet controller`"
    known = list(deciding_settings())
    near = nearest(name, known)
    return f"no setting named {name!r}" + (
        f"; did you mean {near}?" if near else f"; known settings are {', '.join(known)}"
    )


def _effective(gathered: Gathered) -> Effective:
    problems = gathered.problems + [problem for one in gathered.values for problem in _problems_of(one)]
    if problems:
        raise ConfigurationError("\n".join(problems))
    settings = Settings.model_validate(_tree(gathered.values))
    origins = dict.fromkeys(known_settings(), DEFAULT) | {one.name: one.origin for one in gathered.values}
    problems = [f"{_blamed(names, origins)}{message}" for names, message in contradictions(settings)]
    if problems:
        raise ConfigurationError("\n".join(problems))
    return Effective(settings, origins)


def _problems_of(given: Given) -> list[str]:
    known = known_settings()[given.name]
    where = f"{given.origin}: " if given.origin else ""
    if isinstance(given.value, tuple) and not isinstance(known.default, tuple):
        return [f"{where}setting {given.name}: should be one value, not a list"]
    written = reprlib.repr(",".join(given.value) if isinstance(given.value, tuple) else given.value)
    try:
        value = known.value_of(given.value)
    except ValidationError as error:
        return [f"{where}setting {given.name}: {written} {_expected(error.errors(include_url=False)[0])}"]
    if given.is_quoted and isinstance(value, int | float):
        return [f"{where}setting {given.name}: {written} should stand without quotation marks"]
    if known.is_planned and not _means_the_same(value, known.default):
        default = shown(known.default)
        return [f"{where}setting {given.name}: {written} would have no effect yet; only {default} is accepted"]
    return []


def _expected(error: ErrorDetails) -> str:
    return _EXPECTED.get(error["type"]) or error["msg"].replace("Input should", "should")


def _means_the_same(value: object, other: object) -> bool:
    if isinstance(value, Duration) and isinstance(other, Duration):
        return value.seconds == other.seconds
    return value == other


def _blamed(names: Iterable[str], origins: Mapping[str, str]) -> str:
    found = dict.fromkeys(origins[name] for name in names if origins[name] not in (DEFAULT, ""))
    return "".join(f"{one}: " for one in [", ".join(found)] if one)


def _tree(values: Iterable[Given]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for given in values:
        *sections, name = given.name.split(".")
        inner = tree
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = given.value
    return tree
