"""Since when the history does not answer, as far as was noticed here: to ask it that would take as long again."""

from __future__ import annotations


class Outage:
    def __init__(self) -> None:
        self._since: int | None = None

    def noticed(self, now: int) -> int:
        """When it was noticed first."""
        if self._since is None:
            self._since = now
        return self._since

    def over(self) -> None:
        self._since = None
