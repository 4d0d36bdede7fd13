"""From text to plain documents that remember where each of their fields was written.

YAML is read as Kubernetes reads it: times stay texts, keys become texts, and what a person could only have written by
mistake (a key twice in one mapping, an alias inside itself) is refused instead of being resolved somehow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from fleet.cli.input.files import Text
from fleet.cli.input.problems import Findings, Place

Steps = Sequence[str | int]

_VALUES_PER_CHARACTER: Final = 2
"""Aliases can make a small file expand beyond all memory; without them a value takes at least one character."""
_VALUES_FOR_FREE: Final = 10_000
_MARKER: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_LONGEST_JSON_WITH_LINES: Final = 200_000
_DEEPEST: Final = 500
_REPLACED: Final = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int"})
_WHOLE_NUMBER: Final = re.compile(r"^(?:[-+]?0b[01]+|[-+]?0x[0-9a-fA-F]+|[-+]?0o?[0-7]*|[-+]?[1-9][0-9]*)$")


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Without times, and without numbers to the base of sixty."""

    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _WHOLE_NUMBER, list("-+0123456789"))


@dataclass(frozen=True, slots=True)
class Parsed:
    """One document, or one item of a list."""

    place: Place
    content: Any
    node: yaml.Node | None = None
    offset: int = 0
    """Lines before the part of the file that the node's own line numbers refer to."""

    def line_of(self, steps: Steps) -> int:
        """The line where a field's name stands, or of the deepest part of the path that exists."""
        node, line = self.node, self.place.line
        for step in steps:
            start, node = _child(node, step)
            if start is None:
                break
            line = _line(start, self.offset)
        return line

    def at(self, steps: Steps) -> Place:
        return Place(self.place.file, self.line_of(steps), self.place.document)

    def written(self, steps: Steps) -> str | None:
        """A plain value as it stands in the file."""
        node = self._node(steps)
        return node.value if isinstance(node, yaml.ScalarNode) else None

    def part(self, steps: Steps, content: Any) -> Parsed:
        """A part as a document of its own, with other content."""
        return Parsed(self.at(steps), content, self._node(steps), self.offset)

    def _node(self, steps: Steps) -> yaml.Node | None:
        node = self.node
        for step in steps:
            _, node = _child(node, step)
        return node


def parse(text: Text, findings: Findings) -> Iterator[Parsed]:
    """The documents of one text, without empty ones."""
    yield from _parse_json(text, findings) if text.is_json else _parse_yaml(text, findings)


def _parse_json(text: Text, findings: Findings) -> Iterator[Parsed]:
    try:
        content = json.loads(text.content, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        findings.wrong(Place(text.file, error.lineno), f"is not JSON: {error.msg} at column {error.colno}")
    except _Mistake as error:
        findings.wrong(Place(text.file), str(error))
    except RecursionError:
        findings.wrong(Place(text.file), "is nested too deeply")
    else:
        if content is not None:
            node = _json_nodes(text.content)
            yield Parsed(Place(text.file, 1 if node else 0, 1), content, node)


def _json_nodes(content: str) -> yaml.Node | None:
    """JSON is YAML, nearly: good enough to find lines in what people wrote by hand."""
    if len(content) > _LONGEST_JSON_WITH_LINES:
        return None
    try:
        _refuse_deep(content)
        return yaml.compose(content, _Loader)
    except (yaml.YAMLError, RecursionError, _Mistake):
        return None


def _refuse_deep(content: str) -> None:
    """The composer of the C library calls itself for every level and does not survive too many of them."""
    indents = max((len(line) - len(line.lstrip(" -?:")) for line in content.splitlines()), default=0)
    if content.count("[") + content.count("{") <= _DEEPEST and indents <= _DEEPEST:
        return
    depth = 0
    for event in yaml.parse(content, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise _Mistake("is nested too deeply", event.start_mark.line + 1 if event.start_mark else 1)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _parse_yaml(text: Text, findings: Findings) -> Iterator[Parsed]:
    for number, (offset, part) in enumerate(_parts(text.content), start=1):
        try:
            _refuse_deep(part)
            yield from _documents(part, Place(text.file, offset, number))
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, where = (_line_at(mark, offset), f" at column {mark.column + 1}") if mark else (offset + 1, "")
            findings.wrong(Place(text.file, line, number), f"is not YAML: {error.problem or error.context}{where}")
        except yaml.YAMLError as error:
            findings.wrong(Place(text.file, offset + 1, number), f"is not YAML: {str(error).splitlines()[0]}")
        except _Mistake as error:
            findings.wrong(Place(text.file, error.line + offset, number), str(error))
        except RecursionError:
            findings.wrong(Place(text.file, offset + 1, number), "is nested too deeply")


def _parts(content: str) -> Iterator[tuple[int, str]]:
    """The documents of a stream with the number of lines before each, so that one bad document hides no other."""
    starts = [match.start() for match in _MARKER.finditer(content)]
    if not starts or content[: starts[0]].strip():
        starts.insert(0, 0)
    lines = content.count("\n", 0, starts[0])
    for start, end in zip(starts, [*starts[1:], len(content)], strict=True):
        part = content[start:end]
        yield lines, part
        lines += part.count("\n")


def _documents(part: str, before: Place) -> Iterator[Parsed]:
    loader = _Loader(part)
    while loader.check_node():
        node = loader.get_node()
        content = _Reader(loader, most=_VALUES_PER_CHARACTER * len(part) + _VALUES_FOR_FREE).read(node)
        if content is not None:
            place = Place(before.file, _line(node, before.line), before.document)
            yield Parsed(place, content, node, before.line)


def _line(node: yaml.Node, offset: int) -> int:
    return _line_at(node.start_mark, offset)


def _line_at(mark: yaml.Mark, offset: int) -> int:
    line: int = mark.line
    return line + 1 + offset


class _Mistake(Exception):
    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class _Reader:
    """Plain data of one document's nodes."""

    def __init__(self, loader: Any, *, most: int) -> None:
        self._loader, self._most = loader, most
        self._open: set[int] = set()
        self._flattened: set[int] = set()
        self._read = 0

    def read(self, node: yaml.Node) -> Any:
        self._read += 1
        line = node.start_mark.line + 1
        if self._read > self._most:
            raise _Mistake("aliases expand this document beyond all measure", line)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise _Mistake("an alias refers to the value it is part of", line)
        self._open.add(id(node))
        content = self._mapping(node) if isinstance(node, yaml.MappingNode) else [self.read(one) for one in node.value]
        self._open.remove(id(node))
        return content

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return self._loader.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            problem = getattr(error, "problem", None) or error
            raise _Mistake(f"{node.value!r} cannot be read: {problem}", node.start_mark.line + 1) from error

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
                raise _Mistake(f"key {key!r} stands twice in one mapping", line)
            seen.add(key)

    def _key(self, node: yaml.Node) -> tuple[str, int]:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            raise _Mistake("a key should be a text, not a list or a mapping", line)
        return str(node.value), line


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Where a field or an item starts, and its value."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        item = node.value[step] if step < len(node.value) else None
        return item, item
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in node.value if key.value == step), (None, None))
    return None, None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for position, (key, _) in enumerate(pairs) if key in dict(pairs[:position]))
        raise _Mistake(f"key {twice!r} stands twice in one object")
    return found
