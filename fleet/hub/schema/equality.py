"""Equality of JSON values."""

from __future__ import annotations

from typing import Any

import msgspec


def is_same(left: Any, right: Any) -> bool:
    """True is not 1, but 1 is 1.0."""
    if left is right:
        return True
    if left != right:
        return False
    return msgspec.json.encode(left) == msgspec.json.encode(right) or _is_same_inside(left, right)


def _is_same_inside(left: Any, right: Any) -> bool:
    """Of values that Python takes for equal, maybe with their fields in another order."""
    if isinstance(left, dict):
        return all(_is_same_inside(item, right[name]) for name, item in left.items())
    if isinstance(left, list):
        return all(map(_is_same_inside, left, right))
    return isinstance(left, bool) is isinstance(right, bool)
