"""Loops of rules: how often each step may read the whole value.

The library counts the steps of loops and not what a step costs. A step that reads `self` may copy or search all of it,
and `map` and `filter` copy the list that they build with every step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

LARGEST_COST: Final = 10_000
"""Values of an object times readings in each step. With the steps that the library allows, about two seconds."""
_CHARACTERS: Final = 64
"""Of a text that cost as much as a value."""
_LOOP: Final = re.compile(r"\.\s*(all|exists|exists_one|existsOne|map|filter|transform\w+)\s*\(")
_BINDING: Final = re.compile(r"\bcel\s*\.\s*bind\s*\(")
_READING: Final = re.compile(r"\b(?:self|oldSelf)\b")
_COPYING: Final = frozenset({"map", "filter"})


def count_readings(text: str) -> int:
    """In the loops of a rule without its text literals; 0 if a step reads no more than an item."""
    loops = list(_list_loops(text))
    bindings = len(_BINDING.findall(text)) if loops else 0
    return bindings + sum(len(_READING.findall(body)) + (name in _COPYING) for name, body in loops)


def is_too_costly(value: Any, readings: int) -> bool:
    return readings > 0 and _measure(value, LARGEST_COST // readings) > LARGEST_COST // readings


def _list_loops(text: str) -> Iterator[tuple[str, str]]:
    """The name of each, and what is between its parentheses."""
    for match in _LOOP.finditer(text):
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield match[1], text[match.end() : end]


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
