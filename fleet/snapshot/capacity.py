"""Capacity of clusters, in whole units: allocatable, used, assumed, nominated and free.

Members report usage as quantities; here they are int64 columns, in thousandths for cpu, in bytes for memory and in
plain numbers for everything else. Free capacity also excludes what Reserve has booked and members do not report yet,
and the capacity nominated to waiting placements of at least the same priority.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from fleet.snapshot.columns.bitset import BoolArray, FloatArray, Int64Array, Rows, from_bools, writable
from fleet.snapshot.sidedata import Nomination

MILLI: Final = frozenset({"cpu"})
"""Resources that are counted in thousandths."""
_LARGEST: Final = 2.0**60
MOST_BOOKED: Final = 2**60
"""Of a resource on a cluster: sums with what is reported stay within 64 bits."""


def assumed_ledger(resource: str) -> str:
    """The ledger in which Reserve books a resource."""
    return f"assumed/{resource}"


def list_booked_resources(ledgers: Iterable[str]) -> list[str]:
    """The resources of those ledgers in which room is booked, sorted."""
    prefix = assumed_ledger("")
    return sorted(name.removeprefix(prefix) for name in ledgers if name.startswith(prefix))


class Reported(NamedTuple):
    """Of one resource, what clusters report: whether they do, what there is of it, and what is used."""

    known: BoolArray
    alloc: Int64Array
    used: Int64Array
    unbooked: Int64Array
    """What is not used."""
    divisor: FloatArray
    """`alloc`, and 1 where there is none."""
    is_everywhere: bool
    """No row is without any."""
    unknown: int
    """The rows that do not, free ones included; of pools, where a row has several values, 0."""


class Room(NamedTuple):
    """Of one resource on some rows. Read-only."""

    alloc: Int64Array
    free: Int64Array
    divisor: FloatArray
    """`alloc`, and 1 where there is none."""
    some: BoolArray | None
    """Where there is any; None if all rows have some, free ones included."""


class Capacity:
    """One resource over all rows. `known` marks rows that report what there is of it and what is available; elsewhere
    all numbers are 0."""

    __slots__ = (
        "_latest",
        "_left",
        "_promised",
        "_unbooked",
        "alloc",
        "assumed",
        "divisor",
        "is_everywhere",
        "known",
        "unknown",
        "used",
    )

    def __init__(
        self,
        resource: str,
        *,
        reported: Reported,
        assumed: Int64Array,
        nominations: Iterable[tuple[int, Nomination]],
    ) -> None:
        """Nominations have the row of their cluster."""
        self._promised = [
            (row, nomination, amount)
            for row, nomination in nominations
            if (amount := nomination.requests.get(resource, 0))
        ]
        self.known, self.alloc, self.used, self._unbooked, self.divisor, self.is_everywhere, self.unknown = reported
        self.assumed: Int64Array = assumed
        self._left: Int64Array | None = None
        self._latest: tuple[Rows | slice, Room] | None = None

    def free(self, *, priority: int, placement: str = "") -> Int64Array:
        """The capacity available to a placement of this priority; what is nominated to itself is. Read-only unless
        something is nominated to others."""
        left = self._left
        if left is None:
            left = self._unbooked - self.assumed
            left.flags.writeable = False
            self._left = left  # complete: other threads may read it
        for row, nomination, amount in self._promised:
            if nomination.priority >= priority and nomination.placement != placement:
                left = writable(left)
                left[row] -= amount
        return left

    def room_on(self, rows: Rows | slice, *, priority: int, placement: str = "") -> Room:
        """Several plugins look at the same rows one after the other: what is read for the first serves all. Where
        nothing is nominated, the other rows are not looked at."""
        latest = self._latest
        if latest is None or latest[0] is not rows:
            alloc, divisor = self.alloc[rows], self.divisor[rows]
            free: Int64Array = self._unbooked[rows] - self.assumed[rows]
            some = None if self.is_everywhere else alloc > 0
            for column in (alloc, free, divisor):
                column.flags.writeable = False
            latest = self._latest = rows, Room(alloc, free, divisor, some)
        room = latest[1]
        return room._replace(free=self.free(priority=priority, placement=placement)[rows]) if self._promised else room


def read_reported(resource: str, *, allocatable: FloatArray, available: FloatArray) -> Reported:
    scale = 1000 if resource in MILLI else 1
    known: BoolArray = ~np.isnan(allocatable) & ~np.isnan(available)
    alloc: Int64Array = np.where(known, _whole(allocatable * scale), 0)
    used: Int64Array = np.where(known, np.maximum(alloc - _whole(available * scale), 0), 0)
    divisor: FloatArray = np.maximum(alloc, 1).astype(np.float64)
    unbooked: Int64Array = alloc - used
    for column in (known, alloc, used, unbooked, divisor):
        column.flags.writeable = False
    unknown = from_bools(~known) if known.ndim == 1 else 0
    return Reported(known, alloc, used, unbooked, divisor, bool((alloc > 0).all()), unknown)


def _whole(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Int64Array:
    """Whole units, rounded down; absent values are 0 and absurd ones are cut."""
    known = np.where(values == values, values, 0.0)
    # A hair above the product, so that 1.1 cores are 1100 thousandths although no double equals 1.1.
    within = np.clip(known, -_LARGEST, _LARGEST)
    whole: Int64Array = np.floor(within + np.abs(within) * 2**-50).astype(np.int64)
    return whole
