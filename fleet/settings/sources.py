"""Where settings are written: a file, the environment, the command line. What each of them says, as texts.

Names are checked here, because only the source knows what a wrong one looked like and where it stands. Values are not:
they are texts in every source, and mean the same in each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from fleet.settings.names import PREFIX, SIMILAR, known_settings, nearest, section_names

Written = str | tuple[str, ...]

_LARGEST: Final = 1_000_000
_STRINGS: Final = "tag:yaml.org,2002:str"
_NULL: Final = "tag:yaml.org,2002:null"
_ALMOST_THE_SAME: Final = 0.85
_OF_A_SERVICE: Final = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""Kubernetes puts these into every container of a namespace: FLEET_API_PORT tells of a service called fleet-api."""


@dataclass(frozen=True, slots=True)
class Given:
    """One value that somebody wrote."""

    name: str
    value: Written
    origin: str
    """`fleet.yaml:7`, `env:FLEET_WORKERS`, `--set`."""
    is_quoted: bool = False
    """Whether it was marked as a text, which a number or a truth value is not."""


@dataclass(slots=True)
class Gathered:
    """In the order of precedence: what comes later counts more."""

    values: list[Given] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def complain(self, origin: str, message: str) -> None:
        self.problems.append(f"{origin}: {message}")

    def add(self, name: str, value: Written, origin: str, *, is_quoted: bool = False) -> None:
        if name in known_settings():
            self.values.append(Given(name, value, origin, is_quoted))
        elif name in section_names():
            self.complain(origin, f"{name} is a section, not a setting: give a value to one of {_inside(name)}")
        else:
            self.complain(origin, f"no setting named {name!r}{_suggestion(name)}")


def _suggestion(name: str) -> str:
    found = nearest(name, [*known_settings(), *section_names()])
    if found:
        return f"; did you mean {found}?"
    sections = sorted({one.partition(".")[0] for one in known_settings()})
    return f"; settings begin with one of {', '.join(sections)}"


def _inside(section: str) -> str:
    return ", ".join(name for name in known_settings() if name.startswith(f"{section}."))


# --- the command line -------------------------------------------------------------------------------------------------


def from_assignments(assignments: Iterable[str], gathered: Gathered) -> None:
    """`name=value` texts; of several for one name the last counts."""
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if equals:
            gathered.add(name, value, "--set")
        else:
            gathered.complain("--set", f"setting {assignment!r} has no value: write {assignment}=VALUE")


# --- the environment --------------------------------------------------------------------------------------------------


def from_environment(environ: Mapping[str, str], gathered: Gathered) -> None:
    by_variable = {known.variable: name for name, known in known_settings().items()}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or _OF_A_SERVICE.search(variable):
            continue
        if variable in by_variable:
            gathered.add(by_variable[variable], environ[variable].strip(), f"env:{variable}")
        elif (meant := _meant(variable, by_variable)) is not None:
            gathered.complain(f"env:{variable}", f"no setting has this variable{meant}")


def _meant(variable: str, known: Mapping[str, str]) -> str | None:
    """None for a variable of somebody else: neither two underscores in a row nor nearly the name of a setting."""
    words = {one.removeprefix(PREFIX): one for one in known}
    is_ours = "__" in variable
    found = nearest(variable.removeprefix(PREFIX), words, cutoff=SIMILAR if is_ours else _ALMOST_THE_SAME)
    if found is not None:
        return f"; did you mean {words[found]}?"
    return "; see the names in docs/settings.md" if is_ours else None


# --- the file ---------------------------------------------------------------------------------------------------------


def from_file(path: Path, gathered: Gathered) -> None:
    """A mapping of sections; scalars are taken as they are written, so that `Off` is a word and 1:30 no number."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        gathered.complain(str(path), f"cannot be read: {_reason(error)}")
        return
    if len(text) > _LARGEST:
        gathered.complain(str(path), f"is too large for settings: {len(text)} characters")
        return
    try:
        root = yaml.compose(text, yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        gathered.complain(f"{path}:{line}", f"is not YAML: {error.problem or error.context}")
    except (yaml.YAMLError, RecursionError) as error:
        gathered.complain(str(path), f"is not YAML: {str(error).splitlines()[0]}")
    else:
        _File(path, gathered).read(root)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    gathered: Gathered

    def read(self, root: yaml.Node | None) -> None:
        if root is not None and root.tag != _NULL:
            self._section(root, "")

    def _section(self, node: yaml.Node, section: str) -> None:
        if not isinstance(node, yaml.MappingNode):
            self._complain(node, f"{section or 'the file'} should hold settings, one per line as name: value")
            return
        for name, key, value in self._entries(node, section):
            if name not in section_names():
                self._value(name, value, self._origin(key))
            elif value.tag != _NULL:  # a section whose every line is commented out
                self._section(value, name)

    def _entries(self, node: yaml.MappingNode, section: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._complain(key, "a name should be a plain word")
                continue
            name = f"{section}.{key.value}" if section else key.value
            if name in seen:
                self._complain(key, f"{name} is given twice; the other one is in line {seen[name]}")
                continue
            seen[name] = _line(key)
            yield name, key, value

    def _value(self, name: str, node: yaml.Node, origin: str) -> None:
        if name not in known_settings():
            self.gathered.add(name, "", origin)
        elif node.tag == _NULL:
            self.gathered.complain(origin, f"setting {name} has no value; leave the line out for its default")
        elif isinstance(node, yaml.ScalarNode):
            is_quoted = node.style is not None and node.tag == _STRINGS
            self.gathered.add(name, node.value, origin, is_quoted=is_quoted)
        elif isinstance(node, yaml.SequenceNode) and all(isinstance(one, yaml.ScalarNode) for one in node.value):
            self.gathered.add(name, tuple(one.value for one in node.value), origin)
        else:
            self.gathered.complain(origin, f"setting {name} should be one value, or a list of words")

    def _complain(self, node: yaml.Node, message: str) -> None:
        self.gathered.complain(self._origin(node), message)

    def _origin(self, node: yaml.Node) -> str:
        return f"{self.path}:{_line(node)}"


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1
