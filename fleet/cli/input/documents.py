"""Parsing of YAML and JSON into plain documents with the line of each field.

YAML is read as Kubernetes reads it: timestamps remain strings, keys become strings, and mistakes (a duplicate key, an
alias inside itself) are rejected instead of being resolved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from fleet.cli.input.files import SourceText
from fleet.cli.input.problems import Findings, SourceLocation

Steps = Sequence[str | int]

_VALUES_PER_CHARACTER: Final = 2
"""Bounds the expansion of aliases; without them a value takes at least one character."""
_VALUES_FOR_FREE: Final = 10_000
_MARKER: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_LONGEST_JSON_WITH_LINES: Final = 200_000
_DEEPEST: Final = 500
_TOO_DEEP: Final = "exceeded maximum nesting depth"
"""The C library's word for it, where it reads ahead."""
_REPLACED: Final = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int"})
_WHOLE_NUMBER: Final = re.compile(r"^(?:[-+]?0b[01]+|[-+]?0x[0-9a-fA-F]+|[-+]?0o?[0-7]*|[-+]?[1-9][0-9]*)$")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Without timestamps and sexagesimal numbers."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _WHOLE_NUMBER, list("-+0123456789"))


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """One document, or one item of a list."""

    place: SourceLocation
    content: Any
    node: yaml.Node | None = None
    offset: int = 0
    """Number of lines before the part of the file that was parsed separately."""

    def line_of(self, steps: Steps) -> int:
        """The line of a field's name, or of the deepest existing part of its path."""
        node, line = self.node, self.place.line
        for step in steps:
            start, node = _child(node, step)
            if start is None:
                break
            line = _line(start, self.offset)
        return line

    def at(self, steps: Steps) -> SourceLocation:
        return SourceLocation(self.place.file, self.line_of(steps), self.place.document)

    def source_text(self, steps: Steps) -> str | None:
        """A scalar as written in the file."""
        node = self._node(steps)
        return node.value if isinstance(node, yaml.ScalarNode) else None

    def part(self, steps: Steps, content: Any) -> ParsedDocument:
        """A part as a separate document, with other content."""
        return ParsedDocument(self.at(steps), content, self._node(steps), self.offset)

    def _node(self, steps: Steps) -> yaml.Node | None:
        node = self.node
        for step in steps:
            _, node = _child(node, step)
        return node


def parse_documents(text: SourceText, findings: Findings) -> Iterator[ParsedDocument]:
    """The non-empty documents of a text."""
    yield from _parse_json(text, findings) if text.is_json else _parse_yaml(text, findings)


def _parse_json(text: SourceText, findings: Findings) -> Iterator[ParsedDocument]:
    try:
        content = json.loads(text.content, object_pairs_hook=_reject_duplicates)
    except json.JSONDecodeError as error:
        findings.report(SourceLocation(text.file, error.lineno), f"is not JSON: {error.msg} at column {error.colno}")
    except _InvalidDocument as error:
        findings.report(SourceLocation(text.file), str(error))
    except RecursionError:
        findings.report(SourceLocation(text.file), "is nested too deeply")
    else:
        if content is not None:
            node = _json_nodes(text.content)
            yield ParsedDocument(SourceLocation(text.file, 1 if node else 0, 1), content, node)


def _json_nodes(content: str) -> yaml.Node | None:
    """JSON is almost YAML: good enough to find lines in files written by hand."""
    if len(content) > _LONGEST_JSON_WITH_LINES:
        return None
    try:
        _check_depth(content)
        return yaml.compose(content, _Loader)
    except (yaml.YAMLError, RecursionError, _InvalidDocument):
        return None


def _check_depth(content: str) -> None:
    """The composer of the C library is recursive and crashes on very deep nesting."""
    indents = max((len(line) - len(line.lstrip(" -?:")) for line in content.splitlines()), default=0)
    if content.count("[") + content.count("{") <= _DEEPEST and indents <= _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(content, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise _InvalidDocument("is nested too deeply", event.start_mark.line + 1 if event.start_mark else 1)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _parse_yaml(text: SourceText, findings: Findings) -> Iterator[ParsedDocument]:
    for number, (offset, part) in enumerate(_parts(text.content), start=1):
        try:
            _check_depth(part)
            yield from _documents(part, SourceLocation(text.file, offset, number))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, where = (_line_at(mark, offset), f" at column {mark.column + 1}") if mark else (offset + 1, "")
            problem = f"is not YAML: {error.problem or error.context}{where}"
            if error.problem == _TOO_DEEP:
                problem = "is nested too deeply"
            findings.report(SourceLocation(text.file, line, number), problem)
        except yaml.YAMLError as error:
            findings.report(SourceLocation(text.file, offset + 1, number), f"is not YAML: {str(error).splitlines()[0]}")
        except _InvalidDocument as error:
            findings.report(SourceLocation(text.file, error.line + offset, number), str(error))
        except RecursionError:
            findings.report(SourceLocation(text.file, offset + 1, number), "is nested too deeply")


def _parts(content: str) -> Iterator[tuple[int, str]]:
    """The documents of a stream with the lines before each, so that an invalid document does not hide others."""
    starts = [match.start() for match in _MARKER.finditer(content)]
    if not starts or content[: starts[0]].strip():
        starts.insert(0, 0)
    lines = content.count("\n", 0, starts[0])
    for start, end in zip(starts, [*starts[1:], len(content)], strict=True):
        part = content[start:end]
        yield lines, part
        lines += part.count("\n")


def _documents(part: str, before: SourceLocation) -> Iterator[ParsedDocument]:
    loader = _Loader(part)
    while loader.check_node():
        node = loader.get_node()
        content = _Reader(loader, most=_VALUES_PER_CHARACTER * len(part) + _VALUES_FOR_FREE).read(node)
        if content is not None:
            place = SourceLocation(before.file, _line(node, before.line), before.document)
            yield ParsedDocument(place, content, node, before.line)


def _line(node: yaml.Node, offset: int) -> int:
    return _line_at(node.start_mark, offset)


def _line_at(mark: yaml.Mark, offset: int) -> int:
    line: int = mark.line
    return line + 1 + offset


class _InvalidDocument(Exception):
    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class _Reader:
    """Converts the nodes of one document to plain data."""

    def __init__(self, loader: Any, *, most: int) -> None:
        self._loader, self._most = loader, most
        self._open: set[int] = set()
        self._flattened: set[int] = set()
        self._read = 0

    def read(self, node: yaml.Node) -> Any:
        self._read += 1
        line = node.start_mark.line + 1
        if self._read > self._most:
            raise _InvalidDocument("aliases expand this document too much", line)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise _InvalidDocument("an alias refers to the value it is part of", line)
        self._open.add(id(node))
        content = (
            self._mapping(node) if isinstance(node, yaml.MappingNode) else [self.read(item) for item in node.value]
        )
        self._open.remove(id(node))
        return content

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            problem = getattr(error, "problem", None) or error
            raise _InvalidDocument(f"{node.value!r} cannot be read: {problem}", node.start_mark.line + 1) from error

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        if id(node) not in self._flattened:
            self._flattened.add(id(node))
            self._check_keys(node)
            self._loader.flatten_mapping(node)
        return {self._key(key)[0]: self.read(value) for key, value in node.value}

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen = set()
        for key_node, _ in node.value:
            key, line = self._key(key_node)
            if key in seen:
                raise _InvalidDocument(f"duplicate key {key!r} in one mapping", line)
            seen.add(key)

    def _key(self, node: yaml.Node) -> tuple[str, int]:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            raise _InvalidDocument("a key should be a string, not a list or a mapping", line)
        return str(node.value), line


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """The node where a field or an item starts, and its value."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        item = node.value[step] if step < len(node.value) else None
        return item, item
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), (None, None))
    return None, None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        twice = next(key for position, (key, _) in enumerate(pairs) if key in dict(pairs[:position]))
        raise _InvalidDocument(f"duplicate key {twice!r} in one object")
    return mapping
