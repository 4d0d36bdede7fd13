"""Levels: counts per domain of one topology key, and the change of skew and score by one more pick."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from fleet.framework.request import Constraint
from fleet.snapshot.columns.bitset import BoolArray, Int64Array
from fleet.snapshot.columns.interned import Domains

VIOLATED: Final = -(2**31)
"""In place of points: the domain must not be used."""
SOFT_VIOLATION: Final = -1000


class Points(NamedTuple):
    """What a pick earns by the count of its domain; VIOLATED where a hard constraint forbids it."""

    lowest: int
    highest: int
    between: int


class Level:
    """One constraint with the count of every domain. Counts only change by picking or un-picking."""

    __slots__ = ("_members", "constraint", "counts", "domains", "high", "low", "usable")

    def __init__(self, constraint: Constraint, domains: Domains, counts: Int64Array, usable: BoolArray | None) -> None:
        self.constraint, self.domains, self.counts, self.usable = constraint, domains, counts, usable
        counted = counts if usable is None else counts[usable]
        members = np.bincount(counted).tolist()
        self._members = {count: domains for count, domains in enumerate(members) if domains}
        """How many domains have each count."""
        self.low = min(self._members, default=0)
        self.high = max(self._members, default=0)

    def clone(self) -> Level:
        copy = Level.__new__(Level)
        copy.constraint, copy.domains, copy.usable = self.constraint, self.domains, self.usable
        copy.counts, copy._members = self.counts.copy(), dict(self._members)
        copy.low, copy.high = self.low, self.high
        return copy

    @property
    def skew(self) -> int:
        return self.high - self.low

    def add(self, domain: int, change: int = 1) -> None:
        """One binding more, or fewer, in a domain; -1 is the domain of unlabelled clusters and is not counted."""
        if domain < 0 or (self.usable is not None and not self.usable[domain]):
            return
        before = int(self.counts[domain])
        self.counts[domain] = before + change
        self._members[before] -= 1
        self._members[before + change] = self._members.get(before + change, 0) + 1
        if not self._members[before]:
            del self._members[before]
        if before in (self.low, self.high) or not self.low <= before + change <= self.high:
            self.low, self.high = min(self._members), max(self._members)

    def points(self) -> Points:
        if self.low == self.high:
            same = self._worth(1)
            return Points(same, same, same)
        alone = self._members[self.low] == 1
        return Points(lowest=self._worth(-1 if alone else 0), highest=self._worth(1), between=self._worth(0))

    def by_domain(self) -> Int64Array:
        """Points of every domain, and, last, the 0 of unlabelled clusters, so that -1 is a valid index."""
        points = self.points()
        worth = np.full(len(self.counts) + 1, points.between, dtype=np.int64)
        worth[:-1][self.counts == self.high] = points.highest
        worth[:-1][self.counts == self.low] = points.lowest
        worth[-1] = 0
        return worth

    def lowest(self) -> list[int]:
        """The domains that count and hold the fewest."""
        emptiest = self.counts == self.low
        domains: list[int] = np.flatnonzero(emptiest if self.usable is None else emptiest & self.usable).tolist()
        return domains

    def _worth(self, delta: int) -> int:
        if self.skew + delta > self.constraint.max_skew:
            return VIOLATED if self.constraint.hard else SOFT_VIOLATION
        return -delta
