"""Lists of names in messages, cut where they get long."""

from __future__ import annotations

from collections.abc import Sequence


def join_first(names: Sequence[str], most: int, *, separator: str = ", ") -> str:
    """`a, b, c and 2 more`."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")
