"""Loops of rules: what each step may read as a whole.

The library counts the steps of loops and not what a step costs. A step that reads `self` may copy or search all of it,
and `map` and `filter` copy the list that they build with every step: it has no more than the list that they go through.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

LARGEST_COST: Final = 10_000
"""Values of an object times readings in each step. With the steps that the library allows, about two seconds."""
_CHARACTERS: Final = 64
"""Of a text that cost as much as a value."""
_LOOP: Final = re.compile(
    r"(?:\bself((?:\s*\.\s*\w+)+))?\s*\.\s*(all|exists|exists_one|existsOne|map|filter|transform\w+)\s*\("
)
_BINDING: Final = re.compile(r"\bcel\s*\.\s*bind\s*\(")
_READING: Final = re.compile(r"\b(?:self|oldSelf)\b")
_COPYING: Final = frozenset({"map", "filter"})


@dataclass(frozen=True, slots=True)
class LoopReadings:
    """What the steps of a rule's loops read, beside their items."""

    of_all: int
    """Readings of the whole value in each step."""
    lists: tuple[tuple[str, ...], ...] = ()
    """Fields of the value that are copied in each step."""

    def is_too_costly(self, value: Any) -> bool:
        read = [(value, self.of_all), *((_find_field(value, names), 1) for names in self.lists)]
        return any(count and _measure(each, LARGEST_COST // count) > LARGEST_COST // count for each, count in read)


def find_readings(text: str) -> LoopReadings:
    """Of a rule without its text literals."""
    loops = list(_list_loops(text))
    of_all, lists = len(_BINDING.findall(text)) if loops else 0, []
    for names, name, body in loops:
        of_all += len(_READING.findall(body))
        if name in _COPYING and names:
            lists.append(names)
        elif name in _COPYING:
            of_all += 1
    return LoopReadings(of_all, tuple(lists))


def _find_field(value: Any, names: tuple[str, ...]) -> Any:
    """All of it where there is none of that name: field names may be escaped."""
    for name in names:
        if not isinstance(value, dict) or name not in value:
            break
        value = value[name]
    return value


def _list_loops(text: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The field of `self` that each goes through, if it is one, its name, and what is between its parentheses."""
    for match in _LOOP.finditer(text):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        names = tuple(name.strip() for name in (match[1] or "").split(".")[1:])
        yield names, match[2], text[match.end() : end]


def _measure(value: Any, enough: int) -> int:
    """How many values there are in it; no more than a few beyond enough are counted."""
    size, pending = 0, [value]
    while pending and size <= enough:
        inner = pending.pop()
        size += 1 + (len(inner) // _CHARACTERS if isinstance(inner, str) else 0)
        if isinstance(inner, dict):
            pending.extend(inner.values())
        elif isinstance(inner, list):
            pending.extend(inner[: enough + 1])
    return size
