"""Sources of settings: a file, the environment, the command line. Each yields names and unparsed values.

Names are checked here, because only the source can report how and where a wrong name was written. Values are checked
later: they are strings in every source and mean the same in each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from fleet.settings.document.extenders import ExtenderDocument
from fleet.settings.document.feeds import FeedDocument
from fleet.settings.document.kubescheduler import add_sources, convert_document, is_foreign, names_sources
from fleet.settings.document.model import ProfileDocument
from fleet.settings.document.nodes import is_octal
from fleet.settings.document.reading import DOCUMENT_FIELDS, is_document, read_document
from fleet.settings.document.substitution import NO_SOURCES, NamedSources, SecretValues, Substitution
from fleet.settings.names import PREFIX, known_settings, section_names
from fleet.similarity import SIMILAR, nearest

RawValue = str | tuple[str, ...]

_MERGE: Final = "tag:yaml.org,2002:merge"
_LARGEST: Final = 1_000_000
_STRINGS: Final = "tag:yaml.org,2002:str"
_NULL: Final = "tag:yaml.org,2002:null"
_NAME_SOURCES: Final = (
    "documents of kube-scheduler name none: give --substitute-env {name}, or --substitute-secret and the name of a "
    "Secret"
)
_NOT_FOREIGN: Final = (
    "--substitute-env and --substitute-secret are for documents of kube-scheduler; name the sources in its substitution"
)
_ALMOST_THE_SAME: Final = 0.85
_SERVICE_VARIABLE: Final = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""Kubernetes sets these in every container of a namespace: FLEET_API_PORT is there for a Service named fleet-api."""


@dataclass(frozen=True, slots=True)
class SettingValue:
    """One value as written in a source."""

    name: str
    value: RawValue
    origin: str
    """`fleet.yaml:7`, `env:FLEET_WORKERS`, `--set`."""
    is_quoted: bool = False
    """Whether YAML marks it as a string, which a number or a boolean is not."""
    reference: str = ""
    """What is written in its place, where the value comes from outside: messages must not show that."""


@dataclass(slots=True)
class CollectedSettings:
    """Values of all sources in the order of precedence, the highest last, and the problems with their names."""

    values: list[SettingValue] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    profiles: tuple[ProfileDocument, ...] = ()
    """Of the file, if it is a configuration document that has any."""
    extenders: tuple[ExtenderDocument, ...] = ()
    feeds: tuple[FeedDocument, ...] = ()
    max_permit_wait_seconds: int | None = None
    secret_names: tuple[str, ...] = ()
    token_secrets: tuple[str, ...] = ()
    secret_keys: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)
    misnamed: set[str] = field(default_factory=set)
    """Sections in which a value has no name: each setting there may be meant."""

    def report(self, origin: str, message: str) -> None:
        self.problems.append(f"{origin}: {message}")

    def add(self, name: str, value: RawValue, origin: str, *, is_quoted: bool = False, reference: str = "") -> None:
        if name in known_settings():
            self.values.append(SettingValue(name, value, origin, is_quoted, reference))
        elif name in section_names():
            self.report(origin, f"{name} is a section, not a setting: give a value to one of {_names_inside(name)}")
        else:
            self.misnamed.add(f"{name.partition('.')[0]}.")
            self.report(origin, f"no setting named {name!r}{_suggest_name(name)}")


def _suggest_name(name: str) -> str:
    match = nearest(name, [*known_settings(), *section_names()])
    if match:
        return f"; did you mean {match}?"
    sections = sorted({name.partition(".")[0] for name in known_settings()})
    return f"; settings begin with one of {', '.join(sections)}"


def _names_inside(section: str) -> str:
    return ", ".join(name for name in known_settings() if name.startswith(f"{section}."))


# --- the command line -------------------------------------------------------------------------------------------------


def collect_assignments(assignments: Iterable[str], collected: CollectedSettings) -> None:
    """`name=value` strings; the last one for a name wins."""
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if equals:
            collected.add(name, value, "--set")
        else:
            collected.report("--set", f"setting {assignment!r} has no value: write {assignment}=VALUE")


# --- the environment --------------------------------------------------------------------------------------------------


def collect_environment(environ: Mapping[str, str], collected: CollectedSettings) -> None:
    by_variable = {known.variable: name for name, known in known_settings().items()}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or _SERVICE_VARIABLE.search(variable):
            continue
        if variable in by_variable:
            collected.add(by_variable[variable], environ[variable].strip(), f"env:{variable}")
        elif (meant := _suggest_variable(variable, by_variable)) is not None:
            collected.report(f"env:{variable}", f"no setting has this variable{meant}")


def _suggest_variable(variable: str, known: Mapping[str, str]) -> str | None:
    """None for a variable that is not ours: no two underscores in a row, and not similar to the name of a setting."""
    words = {name.removeprefix(PREFIX): name for name in known}
    is_ours = "__" in variable
    match = nearest(variable.removeprefix(PREFIX), words, cutoff=SIMILAR if is_ours else _ALMOST_THE_SAME)
    if match is not None:
        return f"; did you mean {words[match]}?"
    return "; see the names in docs/settings.md" if is_ours else None


# --- the file ---------------------------------------------------------------------------------------------------------


def collect_file(
    path: Path,
    collected: CollectedSettings,
    environ: Mapping[str, str],
    secrets: SecretValues | None = None,
    *,
    text: str | None = None,
    sources: NamedSources = NO_SOURCES,
    are_for_native: bool = False,
) -> None:
    """A mapping of sections, or a configuration document, which may have profiles beside them. Scalars are taken as
    written, so that `Off` is a string and 1:30 is not a number."""
    is_read, root = compose_file(path, collected, text)
    if not is_read:
        return
    if is_foreign(root):
        assert isinstance(root, yaml.MappingNode)
        converted = convert_document(root, sources)
        for refused in (field for field in converted.fields if field.treatment == "refused"):
            collected.report(f"{path}:{refused.line}", f"{refused.path}: {refused.note}")
        collected.warnings += [f"{path}: {warning}" for warning in converted.warnings]
        substitution = Substitution(environ, advice=_NAME_SOURCES)
        collect_root(path, converted.root, collected, environ, secrets, substitution=substitution)
        return
    if any(sources) and not are_for_native:
        collected.report(str(path), _NOT_FOREIGN)
    elif isinstance(root, yaml.MappingNode) and not names_sources(root):
        add_sources(root, sources)
    collect_root(path, root, collected, environ, secrets)


def collect_root(
    path: Path,
    root: yaml.Node | None,
    collected: CollectedSettings,
    environ: Mapping[str, str],
    secrets: SecretValues | None = None,
    *,
    substitution: Substitution | None = None,
) -> None:
    """`substitution` counts where a document names no sources."""
    if is_document(root):
        assert isinstance(root, yaml.MappingNode)
        report = collected.report
        parts = read_document(root, str(path), environ, report, secrets=secrets, substitution=substitution)
        collected.profiles, substitution = parts.profiles, parts.substitution
        collected.extenders, collected.feeds = parts.extenders, parts.feeds
        collected.max_permit_wait_seconds = parts.max_permit_wait_seconds
        collected.token_secrets, collected.secret_keys = substitution.token_secrets, substitution.secret_keys
        collected.secret_names = (*substitution.secret_names, *substitution.token_secrets)
        collected.warnings += parts.warnings
    _File(path, collected, substitution or Substitution(), DOCUMENT_FIELDS if is_document(root) else ()).read(root)


def compose_file(path: Path, collected: CollectedSettings, text: str | None = None) -> tuple[bool, yaml.Node | None]:
    """Whether the file is YAML, and its content, which may be empty."""
    try:
        text = path.read_text(encoding="utf-8") if text is None else text
    except (OSError, UnicodeDecodeError) as error:
        collected.report(str(path), f"cannot be read: {_describe_failure(error)}")
        return False, None
    if len(text) > _LARGEST:
        collected.report(str(path), f"is too large for settings: {len(text)} characters")
        return False, None
    try:
        content = yaml.compose(text, yaml.SafeLoader)
        own = _find_recursion(content, set(), set())
        if own is None:
            wrong = _apply_merge_keys(content, set())
            for node in wrong:
                collected.report(f"{path}:{node.start_mark.line + 1}", "<<: should be a mapping, or a list of mappings")
            return not wrong, content
        collected.report(f"{path}:{own.start_mark.line + 1}", "refers to itself by an alias")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        collected.report(f"{path}:{line}", f"is not YAML: {error.problem or error.context}")
    except (yaml.YAMLError, RecursionError) as error:
        collected.report(str(path), f"is not YAML: {str(error).splitlines()[0]}")
    return False, None


def _find_recursion(node: yaml.Node | None, above: set[int], done: set[int]) -> yaml.Node | None:
    """A node that is within itself."""
    if node is None or isinstance(node, yaml.ScalarNode) or id(node) in done:
        return None
    if id(node) in above:
        return node
    above.add(id(node))
    for entry in node.value:
        inner = entry[1] if isinstance(node, yaml.MappingNode) else entry
        if (own := _find_recursion(inner, above, done)) is not None:
            return own
    above.discard(id(node))
    done.add(id(node))
    return None


def _describe_failure(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    collected: CollectedSettings
    substitution: Substitution
    elsewhere: Collection[str]
    """Names at the top that are no settings and are read by others."""

    def read(self, root: yaml.Node | None) -> None:
        if root is not None and root.tag != _NULL:
            self._section(root, "")

    def _section(self, node: yaml.Node, section: str) -> None:
        if not isinstance(node, yaml.MappingNode):
            self._report(node, f"{section or 'the file'} should hold settings, one per line as name: value")
            return
        for name, key, value in self._entries(node, section):
            if name in self.elsewhere:
                continue
            if name not in section_names():
                self._value(name, value, self._origin(key))
            elif value.tag != _NULL:  # null: all lines of the section are commented out
                self._section(value, name)

    def _entries(self, node: yaml.MappingNode, section: str) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._report(key, "a name should be a plain word")
                continue
            name = f"{section}.{key.value}" if section else key.value
            if name in seen:
                self._report(key, f"{name} is given twice; the other one is in line {seen[name]}")
                continue
            seen[name] = _line(key)
            yield name, key, value

    def _value(self, name: str, node: yaml.Node, origin: str) -> None:
        if name not in known_settings():
            self.collected.add(name, "", origin)
        elif node.tag == _NULL:
            self.collected.report(origin, f"setting {name} has no value; leave the line out for its default")
        elif is_octal(node):
            message = (
                f"setting {name}: {node.value} should stand without leading zeros, by which YAML reads it as octal"
            )
            self.collected.report(origin, message)
        elif isinstance(node, yaml.ScalarNode):
            is_quoted = node.style is not None and node.tag == _STRINGS
            text, problems = self.substitution.resolve(node.value) if self.elsewhere else (node.value, [])
            for problem in problems:
                self.collected.report(origin, f"{name}: {problem}")
            reference = node.value if text != node.value else ""
            self.collected.add(name, text, origin, is_quoted=is_quoted, reference=reference)
        elif isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
            self.collected.add(name, tuple(item.value for item in node.value), origin)
        else:
            self.collected.report(origin, f"setting {name} should be one value, or a list of words")

    def _report(self, node: yaml.Node, message: str) -> None:
        self.collected.report(self._origin(node), message)

    def _origin(self, node: yaml.Node) -> str:
        return f"{self.path}:{_line(node)}"


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _apply_merge_keys(node: yaml.Node | None, done: set[int]) -> list[yaml.Node]:
    """`<<` is replaced by the fields of the mappings that it names, as far as there are no fields of that name. Returns
    what should be a mapping."""
    if node is None or isinstance(node, yaml.ScalarNode) or id(node) in done:
        return []
    done.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [wrong for item in node.value for wrong in _apply_merge_keys(item, done)]
    assert isinstance(node, yaml.MappingNode)
    wrong = [problem for _, value in node.value for problem in _apply_merge_keys(value, done)]
    own = [(key, value) for key, value in node.value if key.tag != _MERGE]
    names = {key.value for key, _ in own if isinstance(key, yaml.ScalarNode)}
    for value in (value for key, value in node.value if key.tag == _MERGE):
        for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(source, yaml.MappingNode):
                wrong.append(source)
                continue
            fields = [
                pair for pair in source.value if isinstance(pair[0], yaml.ScalarNode) and pair[0].value not in names
            ]
            own += fields
            names |= {key.value for key, _ in fields}
    node.value = own
    return wrong
