"""When each member is heard: evenly over the interval, however many there are and in whatever order they came.

The k-th member takes the k-th multiple of the golden ratio as its place in the interval. Of all sequences of places,
this one leaves the most even gaps at every length, so nobody has to move when members join or leave.
"""

from __future__ import annotations

import heapq
import math
from typing import Final

_GOLDEN: Final = 0.6180339887498949


class HeartbeatSchedule:
    """Times are seconds of any clock that never goes back. A change of the interval counts from the next time on."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._places: dict[str, float] = {}
        self._due: list[tuple[float, str]] = []
        self._given = 0

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __len__(self) -> int:
        return len(self._places)

    def add(self, name: str, now: float) -> None:
        """Due at once, and then at its place in every interval."""
        if name not in self._places:
            self._given += 1
            self._places[name] = self._given * _GOLDEN % 1
            heapq.heappush(self._due, (now, name))

    def remove(self, name: str) -> None:
        if self._places.pop(name, None) is not None:
            self._due = [entry for entry in self._due if entry[1] != name]
            heapq.heapify(self._due)

    def due(self, now: float) -> list[str]:
        """Whoever is to be heard by now, the latest first; each is planned again."""
        names: list[str] = []
        while self._due and self._due[0][0] <= now:
            name = self._due[0][1]
            names.append(name)
            heapq.heapreplace(self._due, (self._after(now, self._places[name]), name))
        return names

    def wait(self, now: float) -> float:
        """Seconds until somebody is due; forever if there is nobody."""
        return max(self._due[0][0] - now, 0.0) if self._due else math.inf

    def _after(self, now: float, place: float) -> float:
        """The next time at that place in an interval; one that is missed is not made up for."""
        due = (now // self.interval + place) * self.interval
        return due if due > now else due + self.interval
