"""Loading: merges the sources into the effective settings, and records the origin of each value.

The command line overrides the environment, which overrides the file, which overrides the defaults. All problems of all
sources are reported at once, even those of values that another source overrides.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleet.errors import ConfigurationError
from fleet.settings.consistency import find_contradictions
from fleet.settings.document.substitution import NO_SOURCES, NamedSources, SecretValues
from fleet.settings.names import SettingInfo, known_settings, render_value
from fleet.settings.sources import (
    CollectedSettings,
    SettingValue,
    collect_assignments,
    collect_environment,
    collect_file,
    collect_root,
)
from fleet.settings.tree import Settings, is_deciding
from fleet.settings.values import Duration
from fleet.similarity import nearest

DEFAULT: Final = "default"

FindProblems = Callable[[Settings, Sequence[str]], Iterable[str]]
"""Called with what could be read of settings with problems, and these; returns those that only others can find."""

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
    """The settings in effect."""

    settings: Settings
    origins: Mapping[str, str]
    """The origin of each setting, by name: `default`, `fleet.yaml:7`, `env:FLEET_WORKERS`, `--set`."""
    warnings: tuple[str, ...] = ()
    """About the file, which is used nevertheless."""
    secret_names: tuple[str, ...] = ()
    """Secrets that the file takes values from."""
    token_secrets: tuple[str, ...] = ()
    """Those of them whose keys no reference names."""
    secret_keys: frozenset[str] = frozenset()
    """Of these Secrets, what the file refers to."""
    secrets: SecretValues | None = None
    """What they hold, if they were read."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line option that sets a setting."""

    option: str
    name: str
    value: str


def load_settings(
    file: Path | None,
    environ: Mapping[str, str],
    assignments: Iterable[str],
    *,
    flags: Iterable[Flag] = (),
    secrets: SecretValues | None = None,
    text: str | None = None,
    find_more: FindProblems | None = None,
    sources: NamedSources = NO_SOURCES,
    are_for_native: bool = False,
) -> Effective:
    """Raises ConfigurationError with all problems, one per line; `find_more` is asked if there are any. `secrets` is
    what the Secrets hold that the file names; without it references to them stay as written. `text` is what the file
    had when it was read before, `sources` those of references in a document of kube-scheduler, and with
    `are_for_native` in a native one that names none."""
    collected = CollectedSettings()
    if file is not None:
        collect_file(file, collected, environ, secrets, text=text, sources=sources, are_for_native=are_for_native)
    collect_environment(environ, collected)
    collect_assignments(assignments, collected)
    for flag in flags:
        collected.add(flag.name, flag.value, flag.option)
    return replace(_build_effective(collected, find_more), secrets=secrets)


def read_settings(
    assignments: Iterable[str],
    file: Path | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    *,
    find_more: FindProblems | None = None,
    sources: NamedSources = NO_SOURCES,
) -> Settings:
    """The settings that affect a single decision, from `name=value` strings; the last one for a name wins, and over the
    file. `environ` is what the file substitutes from; `find_more` and `sources` as for `load_settings`."""
    collected = CollectedSettings()
    if file is not None:
        collect_file(file, collected, environ, sources=sources)
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals:
            collected.problems.append(f"setting {assignment!r} has no value: write {assignment}=VALUE")
        elif name not in deciding_settings():
            collected.problems.append(_reject_name(name))
        else:
            collected.add(name, value, "")
    return _build_effective(collected, find_more).settings


def list_converted_problems(file: Path, root: yaml.Node) -> list[str]:
    """Of a document that was converted, apart from variables, whose sources are named when it is loaded."""
    collected = CollectedSettings()
    collect_root(file, root, collected, {})
    problems = collected.problems + [problem for value in collected.values for problem in _check_value(value)]
    return [problem for problem in problems if "${" not in problem]


def deciding_settings() -> dict[str, SettingInfo]:
    return {name: setting for name, setting in known_settings().items() if is_deciding(name) and not setting.is_planned}


def _reject_name(name: str) -> str:
    if name in known_settings():
        return f"setting {name} has no influence on a decision: it is one of `fleet controller`"
    known = list(deciding_settings())
    near = nearest(name, known)
    return f"no setting named {name!r}" + (
        f"; did you mean {near}?" if near else f"; known settings are {', '.join(known)}"
    )


def _build_effective(collected: CollectedSettings, find_more: FindProblems | None = None) -> Effective:
    checked = [(value, _check_value(value)) for value in collected.values]
    problems = collected.problems + [problem for _, complaints in checked for problem in complaints]
    settings = _build_settings(collected, [value for value, complaints in checked if not complaints])
    origins = dict.fromkeys(known_settings(), DEFAULT) | {value.name: value.origin for value in collected.values}
    unknown = {value.name for value, complaints in checked if complaints} | collected.misnamed
    problems += [
        f"{_format_origins(names, origins)}{message}"
        for names, message in find_contradictions(settings)
        if not any(name.startswith(tuple(unknown)) for name in names)
    ]
    if problems:
        if find_more is not None and collected.profiles:
            problems += find_more(settings, tuple(problems))
        raise ConfigurationError("\n".join(problems))
    return Effective(
        settings,
        origins,
        tuple(collected.warnings),
        collected.secret_names,
        collected.token_secrets,
        frozenset(collected.secret_keys),
    )


def _build_settings(collected: CollectedSettings, values: Iterable[SettingValue]) -> Settings:
    parts: dict[str, Any] = {
        "profiles": collected.profiles,
        "extenders": collected.extenders,
        "feeds": collected.feeds,
    }
    if collected.max_permit_wait_seconds is not None:
        parts["max_permit_wait_seconds"] = collected.max_permit_wait_seconds
    return Settings.model_validate(_build_tree(values) | parts)


def _check_value(given: SettingValue) -> list[str]:
    known = known_settings()[given.name]
    where = f"{given.origin}: " if given.origin else ""
    if isinstance(given.value, tuple) and not isinstance(known.default, tuple):
        return [f"{where}setting {given.name}: should be one value, not a list"]
    text = ",".join(given.value) if isinstance(given.value, tuple) else given.value
    written = reprlib.repr(given.reference or text)
    try:
        value = known.parse(given.value)
    except ValidationError as error:
        return [f"{where}setting {given.name}: {written} {_describe_expected(error.errors(include_url=False)[0])}"]
    if given.is_quoted and isinstance(value, int | float):
        return [f"{where}setting {given.name}: {written} should stand without quotation marks"]
    if known.is_planned and not _is_same_value(value, known.default):
        default = render_value(known.default)
        return [f"{where}setting {given.name}: {written} would have no effect yet; only {default} is accepted"]
    return []


def _describe_expected(error: ErrorDetails) -> str:
    return _EXPECTED.get(error["type"]) or error["msg"].replace("Input should", "should")


def _is_same_value(value: object, other: object) -> bool:
    if isinstance(value, Duration) and isinstance(other, Duration):
        return value.seconds == other.seconds
    return value == other


def _format_origins(names: Iterable[str], origins: Mapping[str, str]) -> str:
    places = dict.fromkeys(origins[name] for name in names if origins[name] not in (DEFAULT, ""))
    return f"{', '.join(places)}: " if places else ""


def _build_tree(values: Iterable[SettingValue]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for given in values:
        *sections, name = given.name.split(".")
        inner = tree
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = given.value
    return tree
