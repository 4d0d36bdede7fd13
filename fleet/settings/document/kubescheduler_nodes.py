"""YAML nodes of documents of kube-scheduler: reading and building, with the marks of the original file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import yaml

Pairs = list[tuple[yaml.Node, yaml.Node]]
_Node = TypeVar("_Node", yaml.MappingNode, yaml.SequenceNode)

_MAP: Final = "tag:yaml.org,2002:map"
_LIST: Final = "tag:yaml.org,2002:seq"
_TEXT: Final = "tag:yaml.org,2002:str"


def list_leaves(path: str, node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    if isinstance(node, yaml.MappingNode) and node.value:
        for key, value in node.value:
            yield from list_leaves(f"{path}.{key.value}", value)
    elif isinstance(node, yaml.SequenceNode) and node.value:
        for position, item in enumerate(node.value):
            yield from list_leaves(f"{path}[{position}]", item)
    else:
        yield path, node


def get_hook(path: str) -> str:
    """Of an entry in a list of plugins: `filter` of `profiles[0].plugins.filter.enabled[1]`; else empty."""
    place, _, entry = path.rpartition(".")
    return place.rpartition(".")[2] if entry.startswith(("enabled[", "disabled[")) else ""


def list_choices(plugins: yaml.Node) -> Iterator[tuple[str, bool, yaml.Node]]:
    """The hook, whether it is enabled there, and the entry of each plugin; what is malformed is left out."""
    for hook, lists in _list_pairs(plugins):
        for name, entries in _list_pairs(lists):
            if name.value in ("enabled", "disabled") and isinstance(entries, yaml.SequenceNode):
                for item in entries.value:
                    if isinstance(item, yaml.MappingNode):
                        yield str(hook.value), name.value == "enabled", item


def _list_pairs(node: yaml.Node) -> Pairs:
    return node.value if isinstance(node, yaml.MappingNode) else []


def find_text(node: yaml.Node, name: str) -> str:
    """The text of a field."""
    return next((str(value.value) for key, value in node.value if key.value == name), "")


def find_or_add(at: yaml.Node, parent: yaml.Node, name: str, empty: _Node) -> _Node:
    for key, value in parent.value:
        if key.value == name and isinstance(value, type(empty)):
            return value
    parent.value.append((build_scalar(at, name), empty))
    return empty


def merge_items(items: Iterable[yaml.Node | None]) -> list[yaml.Node]:
    """Several plugins may stand for one: of each argument the first value counts."""
    merged: dict[str, yaml.Node] = {}
    for item in items:
        if item is None:
            continue
        first = merged.setdefault(find_text(item, "name"), item)
        if first is not item:
            args = find_or_add(item, first, "args", build_mapping(item, []))
            more = find_or_add(item, item, "args", build_mapping(item, []))
            args.value += [(key, value) for key, value in more.value if not find_text(args, key.value)]
    return list(merged.values())


def build_sequence(at: yaml.Node, items: list[yaml.Node]) -> yaml.SequenceNode:
    return yaml.SequenceNode(_LIST, items, at.start_mark)


def build_mapping(at: yaml.Node, pairs: list[tuple[yaml.Node, yaml.Node]]) -> yaml.MappingNode:
    return yaml.MappingNode(_MAP, pairs, at.start_mark, at.end_mark)


def build_texts(at: yaml.Node, texts: Sequence[str]) -> yaml.SequenceNode:
    return build_sequence(at, [build_scalar(at, text) for text in texts])


def build_scalar(at: yaml.Node, text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode(_TEXT, text, at.start_mark, at.end_mark)
