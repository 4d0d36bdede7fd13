"""Side data about clusters: placed bindings, residents, nominations, feeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
import numpy as np

from fleet.snapshot.columns.bitset import BoolArray, FloatArray, Int64Array

REPORTED: Final = ""
"""In place of the name of a feed of loads: what members report as not available."""
RECENT_PLACEMENTS: Final = "placements.recent"
"""A feed of the process itself: the placements that every cluster got and that a load may not contain yet. Feeds of
documents have no dot in their names."""


PLACED_LIMITS: Final = "placements.limits"
"""Another one: by how much the limits of the placements on every cluster exceed their requests, by resource."""


class CpuUse(NamedTuple):
    """What the use of cpu by the containers of a placement on a cluster is expected from, in thousandths."""

    limited: int = 0
    """The sum of limits, and the overhead of pods."""
    requested: tuple[tuple[int, int], ...] = ()
    """The requests of containers without a limit, each with the number of such containers."""
    unsized: int = 0
    """How many containers have neither; 1 for a placement of which nothing is known."""


def list_recent_columns(load: str) -> tuple[str, str, str, str]:
    """Of recent placements, for a feed of loads: how many there are, and the sums of what is limited, requested and
    unsized of them."""
    return load, f"{load}/limited", f"{load}/requested", f"{load}/unsized"


LEAVING: Final = "Leaving"
"""State of a binding that is given up, whose object is still there."""
WAITING: Final = "Waiting"
"""State of a cluster that is reserved while its placement waits for permission: there is no binding yet."""


class PlacedBinding(NamedTuple):
    """A placement's binding on a cluster."""

    placement: str
    priority: int = 0
    started: int = 0
    """Nanoseconds since the epoch."""
    state: str = ""
    requests: tuple[tuple[str, int], ...] = ()
    """The room that it takes."""
    disruptions: int = 0
    """How many bindings of its placement may be evicted."""
    quotas: tuple[str, ...] = ()
    """Those that it counts in."""


class ResidentGroup(msgspec.Struct, frozen=True, array_like=True, order=True, cache_hash=True):
    """What placements on clusters have in common, as far as others look at it."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    """Sorted."""
    affinity: str
    """The terms that they require, as text; empty without any."""


Residents = Mapping[ResidentGroup, Mapping[str, frozenset[str]]]
"""The placements on each cluster, by group. Values never change."""
NO_RESIDENTS: Final[Residents] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ResidentIndex:
    """Residents as columns: which placement of which group is on which row. Those on unknown clusters are left out."""

    groups: tuple[ResidentGroup, ...]
    group_of: Int64Array
    rows: Int64Array
    placements: tuple[str, ...]

    def count(self, selects: Callable[[ResidentGroup], bool], *, size: int, beside: str) -> Int64Array:
        """How many placements of such groups are on each row, beside one placement."""
        counts: Int64Array = np.bincount(self.rows[self._select(selects, beside)], minlength=size).astype(np.int64)
        return counts

    def list_placements(self, selects: Callable[[ResidentGroup], bool], *, among: BoolArray, beside: str) -> list[str]:
        """Those of such groups that are on some of these rows, beside one placement."""
        chosen = self._select(selects, beside)
        chosen[chosen] = among[self.rows[chosen]]
        return [self.placements[position] for position in np.flatnonzero(chosen).tolist()]

    def _select(self, selects: Callable[[ResidentGroup], bool], beside: str) -> BoolArray:
        selected = np.fromiter(map(selects, self.groups), dtype=np.bool_, count=len(self.groups))
        chosen = selected[self.group_of] if self.groups else np.zeros(0, dtype=np.bool_)
        position = -1
        for _ in range(self.placements.count(beside)):
            position = self.placements.index(beside, position + 1)
            chosen[position] = False
        return chosen


def index_residents(residents: Residents, row_of: Callable[[str], int | None]) -> ResidentIndex:
    entries = [
        (position, row, name)
        for position, on in enumerate(residents.values())
        for row, there in zip(map(row_of, on), on.values(), strict=True)
        if row is not None
        for name in there
    ]
    group_of, rows, placements = zip(*entries, strict=True) if entries else ((), (), ())
    columns = np.array((group_of, rows), dtype=np.int64)
    columns.flags.writeable = False
    return ResidentIndex(tuple(residents), columns[0], columns[1], placements)


@dataclass(frozen=True, slots=True)
class Nomination:
    """Capacity on a cluster that a placement waits for, typically while evicted work drains."""

    cluster: str
    placement: str
    priority: int
    requests: Mapping[str, int]
    victims: tuple[str, ...] = ()
    """Placements whose bindings leave the cluster for that: they do not come back."""
    remaining: tuple[str, ...] = ()
    """Those that are there still."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Bindings row after row: those of row *i* are at `pointers[i]` up to `pointers[i + 1]`."""

    pointers: Int64Array
    placements: tuple[str, ...]
    priorities: Int64Array
    started: Int64Array
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Feed:
    """Side data sampled by the shell, such as load averages: columns by name, each with NaN where unknown."""

    columns: Mapping[str, FloatArray]
    sampled_at: Int64Array
    """Per row, nanoseconds since the epoch; 0 where never sampled."""
    max_age: int = 0
    """Nanoseconds after which a sample counts as stale; 0: never."""
    error: str = ""
    """Why there is no newer sample, for explanations; empty after a success."""

    def is_stale(self, row: int, now: int) -> bool:
        return 0 < self.max_age < now - int(self.sampled_at[row])


@dataclass(frozen=True, slots=True)
class FeedSample:
    """What a feed says: by column the number of each cluster, all sampled at one moment."""

    columns: Mapping[str, Mapping[str, float]]
    sampled_at: int
    max_age: int = 0
    error: str = ""
    """Why there is no newer one."""

    @property
    def clusters(self) -> frozenset[str]:
        return frozenset(name for values in self.columns.values() for name in values)


def presence(placed: Iterable[tuple[PlacedBinding, ...]]) -> Presence:
    rows = list(placed)
    pointers = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=pointers[1:])
    flat = [binding for row in rows for binding in row]
    columns = (
        pointers,
        np.array([binding.priority for binding in flat], dtype=np.int64),
        np.array([binding.started for binding in flat], dtype=np.int64),
    )
    for column in columns:
        column.flags.writeable = False
    return Presence(
        pointers=columns[0],
        placements=tuple(binding.placement for binding in flat),
        priorities=columns[1],
        started=columns[2],
        states=tuple(binding.state for binding in flat),
    )
