"""A log of the rows that change, to tell two frames apart without a look at their columns.

A table logs the rows that it changes, and a frame remembers how long the log was. A fork goes on with a log of its own,
so that frames of forks can be compared with those of the table, and with each other.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_LONGEST: Final = 1024
_DEEPEST: Final = 64


class RowLog:
    """The rows that were changed, in the order of the changes."""

    __slots__ = ("depth", "rows", "start")

    def __init__(self, start: LogPosition | None = None) -> None:
        """`start` is where a fork left another log."""
        self.start = start if start is not None and start.log.depth < _DEEPEST else None
        self.depth: int = self.start.log.depth + 1 if self.start is not None else 0
        self.rows: list[int] = []

    @property
    def is_full(self) -> bool:
        return len(self.rows) >= _LONGEST


class LogPosition(NamedTuple):
    log: RowLog
    length: int


def find_changed(before: LogPosition, now: LogPosition) -> list[int] | None:
    """All rows that differ, and maybe some that do not; None if the two have no log in common."""
    changed: list[int] = []
    while before.log is not now.log:
        before, now = sorted((before, now), key=lambda position: position.log.depth)
        if now.log.start is None:
            return None
        changed += now.log.rows[: now.length]
        now = now.log.start
    first, last = sorted((before.length, now.length))
    return changed + now.log.rows[first:last]
