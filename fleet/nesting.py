"""How deep documents are nested: what reads them is recursive, and could exhaust the stack."""

from __future__ import annotations

from math import inf
from typing import Any

from fleet.checkpoint import split


def count_brackets(text: bytes) -> int:
    """As many lists and mappings as a document in JSON has at most: texts in it may have brackets, too."""
    return text.count(b"{") + text.count(b"[")


def is_nested_deeper(document: Any, levels: int, *, containers: float = inf) -> bool:
    """Level by level. With how many lists and mappings there are at most, it ends where those that are left are too
    few: of a large document, most are in the last level."""
    level = [document]
    for depth in range(1, levels + 1):
        containers -= len(level)
        if depth + containers <= levels:
            return False
        level = [
            child
            for part in split(level)
            for value in part
            for child in (value.values() if isinstance(value, dict) else value)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True
