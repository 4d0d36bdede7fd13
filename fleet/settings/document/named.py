"""Extenders and feeds have in common: a list of entries with names of their own, which use services outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

import yaml

from fleet.settings.document.nodes import NodeReader


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedDocument:
    name: str
    problem: str = ""
    """Why it cannot be used: a Secret lacks a value. That changes without an edit, and costs nothing but this entry."""
    written: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    """Before substitution, by path: values from outside are not shown."""
    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False)

    def list_values(self) -> Iterator[tuple[str, Any, str]]:
        """Path, value as written and origin."""
        for path, value in self.written.items():
            yield path, value, self.origins.get(path, "default")


D = TypeVar("D", bound=NamedDocument)


def read_list(
    reader: NodeReader, node: yaml.Node, path: str, read: Callable[[NodeReader, yaml.Node, str], D]
) -> tuple[D, ...]:
    """`read` gets each entry with its path."""
    documents: list[D] = []
    seen: dict[str, str] = {}
    for position, item in enumerate(reader.list_items(node, path)):
        where, reader.missing = f"{path}[{position}]", list[str]()
        document = read(reader, item, where)
        documents.append(replace(document, problem="; ".join(reader.missing)))
        reader.missing = None
        other = seen.setdefault(document.name, where)
        if document.name and other != where:
            reader.report(item, f"{where}.name", f"{document.name} is also the name of {other}: give each its own")
    return tuple(documents)
