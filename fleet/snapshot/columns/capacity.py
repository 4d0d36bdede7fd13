"""Room on clusters, in whole units: what a cluster can give, what is taken, promised and left.

Members report usage as quantities; here they are int64 columns, in thousandths for cpu, in bytes for memory and in
plain numbers for everything else. What is left also subtracts what Reserve has booked and the members do not show
yet, and the room that waiting placements of at least the same priority were told they would get.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from fleet.snapshot.columns.bitset import BoolArray, Int64Array

if TYPE_CHECKING:
    from fleet.snapshot.frame import Frame

MILLI: Final = frozenset({"cpu"})
"""Resources that are counted in thousandths."""
_LARGEST: Final = 2.0**62


def assumed_ledger(resource: str) -> str:
    """The ledger in which Reserve books a resource."""
    return f"assumed/{resource}"


class PlacedBinding(NamedTuple):
    """Some placement's presence on a cluster."""

    placement: str
    priority: int = 0
    started: int = 0
    state: str = ""


@dataclass(frozen=True, slots=True)
class Nomination:
    """Room on a cluster that a placement waits for, typically while evicted work drains."""

    cluster: str
    placement: str
    priority: int
    requests: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Presence:
    """Who is where, row after row: the bindings of row *i* are at `pointers[i]` up to `pointers[i + 1]`."""

    pointers: Int64Array
    placements: tuple[str, ...]
    priorities: Int64Array
    started: Int64Array
    states: tuple[str, ...]


class Capacity:
    """One resource over all rows. `known` marks rows that report it; elsewhere all numbers are 0."""

    __slots__ = ("_frame", "_resource", "alloc", "assumed", "known", "used")

    def __init__(self, frame: Frame, resource: str) -> None:
        scale = 1000 if resource in MILLI else 1
        allocatable = frame.usage("allocatable", resource).values
        available = frame.usage("available", resource).values
        self._frame, self._resource = frame, resource
        self.known: BoolArray = allocatable == allocatable
        self.alloc: Int64Array = _whole(allocatable * scale)
        taken = self.alloc - _whole(available * scale)
        self.used: Int64Array = np.where(available == available, np.maximum(taken, 0), 0)
        self.assumed: Int64Array = frame.ledger(assumed_ledger(resource))
        for column in (self.known, self.alloc, self.used):
            column.flags.writeable = False

    def free(self, *, priority: int) -> Int64Array:
        """What a placement of this priority may count on."""
        left: Int64Array = self.alloc - self.used - self.assumed
        for nomination in self._frame.nominations:
            row = self._frame.row_of(nomination.cluster)
            if row is not None and nomination.priority >= priority:
                left[row] -= nomination.requests.get(self._resource, 0)
        return left


def presence(placed: Iterable[tuple[PlacedBinding, ...]]) -> Presence:
    rows = list(placed)
    pointers = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=pointers[1:])
    flat = [binding for row in rows for binding in row]
    columns = (
        pointers,
        np.array([one.priority for one in flat], dtype=np.int64),
        np.array([one.started for one in flat], dtype=np.int64),
    )
    for column in columns:
        column.flags.writeable = False
    return Presence(
        pointers=columns[0],
        placements=tuple(one.placement for one in flat),
        priorities=columns[1],
        started=columns[2],
        states=tuple(one.state for one in flat),
    )


def _whole(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Int64Array:
    """Whole units, rounded down; absent values are 0 and absurd ones are cut."""
    known = np.where(values == values, values, 0.0)
    # A hair above the product, so that 1.1 cores are 1100 thousandths although 1.1 is no double.
    whole: Int64Array = np.floor(np.clip(known, -_LARGEST, _LARGEST) * (1 + 2**-50)).astype(np.int64)
    return whole
