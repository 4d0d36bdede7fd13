"""Values of a document, from YAML nodes: strict, with the line of each, and every problem reported."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

import yaml

from fleet.settings.document.substitution import Substitution
from fleet.similarity import nearest

_OCTAL: Final = re.compile(r"[-+]?0[0-9_]+")
_NULL: Final = "tag:yaml.org,2002:null"
_STRING: Final = "tag:yaml.org,2002:str"

Report = Callable[[str, str], None]
"""Called with the place and the problem."""


class NodeReader:
    def __init__(self, file: str, report: Report) -> None:
        self._file, self._report_to = file, report
        self.substitution = Substitution()
        self.missing: list[str] | None = None
        """Collects what the Secrets lack, where it is no mistake of the document."""
        self.warnings: list[str] = []
        self.origins: dict[str, str] = {}

    def list_fields(
        self, node: yaml.Node, path: str, *, known: Collection[str] | None = None
    ) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Name, key and value. Values that are null are left out, as if all their lines were commented out."""
        if not isinstance(node, yaml.MappingNode):
            if node.tag != _NULL:
                self.report(node, path, "should be a mapping, one field per line as name: value")
            return
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.report(key, path, "a name should be a plain word")
                continue
            name, where = key.value, f"{path}.{key.value}" if path else key.value
            if name in seen:
                if path:  # at the top, the settings are read in the same way and report it
                    self.report(key, where, f"is given twice; the other one is in line {seen[name]}")
                continue
            seen[name] = key.start_mark.line + 1
            if known is not None and name not in known:
                near = nearest(name, known)
                self.report(key, where, f"unknown field{f'; did you mean {near}?' if near else ''}")
                continue
            self.origins[where] = self.origin(key)
            if value.tag != _NULL:
                yield name, key, value

    def list_items(self, node: yaml.Node, path: str) -> Iterator[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self.origins[f"{path}[{position}]"] = self.origin(item)
                yield item
        elif node.tag != _NULL:
            self.report(node, path, "should be a list, one entry per line as - entry")

    def read_string(self, node: yaml.Node, path: str) -> str | None:
        if not isinstance(node, yaml.ScalarNode) or node.tag != _STRING:
            self.report(node, path, f"{show_node(node)} should be a text")
            return None
        if not node.value:
            self.report(node, path, "is empty")
            return None
        missing = self.substitution.list_missing(node.value)
        if missing and self.missing is not None:
            self.missing += missing
            return str(node.value)
        text, problems = self.substitution.resolve(node.value)
        for problem in problems:
            self.report(node, path, problem)
        return None if problems else text

    def read_secret(self, name: str, key: str) -> str:
        """What a Secret holds under the key; empty where it is not read. The document need not list the Secret."""
        self.substitution = self.substitution.add_token_secret(name)
        value, missing = self.substitution.find_secret(name, key)
        if missing and self.missing is not None:
            self.missing.append(missing)
        return value

    def read_number(self, node: yaml.Node, path: str, *, most: int) -> int | None:
        text = node.value if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":int") else ""
        if is_octal(node):
            self.report(node, path, f"{text} should stand without leading zeros, by which YAML reads it as octal")
            return None
        if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > most:
            self.report(node, path, f"{show_node(node)} should be a whole number of 0 to {most}")
            return None
        return int(text)

    def read_mapping(self, node: yaml.Node, path: str) -> dict[str, Any]:
        return {name: self.read_any(value, f"{path}.{name}") for name, _, value in self.list_fields(node, path)}

    def read_any(self, node: yaml.Node, path: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.read_mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.read_any(item, f"{path}[{at}]") for at, item in enumerate(self.list_items(node, path))]
        assert isinstance(node, yaml.ScalarNode)
        if node.tag == _STRING:
            for problem in self.substitution.resolve(node.value)[1]:
                self.report(node, path, problem)
            return node.value
        return _construct(node)

    def report(self, node: yaml.Node, path: str, message: str) -> None:
        self._report_to(self.origin(node), f"{path}: {message}" if path else message)

    def origin(self, node: yaml.Node) -> str:
        return f"{self._file}:{node.start_mark.line + 1}"

    def read_word(self, fields: Mapping[str, yaml.Node], name: str, path: str, words: Collection[str]) -> str | None:
        if name not in fields:
            return None
        text = self.read_string(fields[name], f"{path}.{name}")
        if text and text not in words:
            self.report(fields[name], f"{path}.{name}", f"{text!r} should be one of {', '.join(words)}")
            return None
        return text or None

    def read_flag(self, fields: Mapping[str, yaml.Node], name: str, path: str) -> bool | None:
        if name not in fields:
            return None
        text = show_node(fields[name])
        if text not in ("true", "false"):
            self.report(fields[name], f"{path}.{name}", f"{text} should be true or false")
        return text == "true"


def is_octal(node: yaml.Node) -> bool:
    """Whether a number is meant as decimal, most likely, and is another one to YAML."""
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":int") and bool(_OCTAL.fullmatch(node.value))


def _construct(node: yaml.ScalarNode) -> Any:
    """Numbers, booleans and dates, as YAML reads them; dates stay text."""
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node)
    except (ValueError, yaml.YAMLError):
        return node.value
    finally:
        loader.dispose()
    return value if isinstance(value, bool | int | float | None) else node.value


def show_node(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value) if node.style in ("'", '"') else str(node.value)
    return "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
