"""Heartbeat schedule: spreads the heartbeats of members evenly over the interval, in any number and order.

The k-th member takes the k-th multiple of the golden ratio as its offset in the interval. This sequence leaves the most
even gaps at every length, so no offset has to change when members join or leave.
"""

from __future__ import annotations

import heapq
import math
from typing import Final

_GOLDEN: Final = 0.6180339887498949


class HeartbeatSchedule:
    """Times are seconds of any monotonic clock. A change of the interval counts from the next time on."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._offsets: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []
        self._count = 0

    def __contains__(self, name: object) -> bool:
        return name in self._offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, name: str, now: float) -> None:
        """Due at once, and then at its offset in every interval."""
        if name not in self._offsets:
            self._count += 1
            self._offsets[name] = self._count * _GOLDEN % 1
            heapq.heappush(self._due, (now, name))

    def remove(self, name: str) -> None:
        if self._offsets.pop(name, None) is not None:
            self._due = [entry for entry in self._due if entry[1] != name]
            heapq.heapify(self._due)

    def due(self, now: float) -> list[str]:
        """Members whose heartbeat is due, the most overdue first; each is scheduled again."""
        names: list[str] = []
        while self._due and self._due[0][0] <= now:
            name = self._due[0][1]
            names.append(name)
            heapq.heapreplace(self._due, (self._after(now, self._offsets[name]), name))
        return names

    def wait(self, now: float) -> float:
        """Seconds until the next heartbeat is due; infinity without members."""
        return max(self._due[0][0] - now, 0.0) if self._due else math.inf

    def _after(self, now: float, place: float) -> float:
        """The next time at that offset; a missed heartbeat is skipped."""
        due = (now // self.interval + place) * self.interval
        return due if due > now else due + self.interval
