"""A column of pools: what the node pools, or zones, of each cluster have and have left.

Members report it as properties, two for each resource of a pool: `allocatable.pools.fleet.dev/<pool>.<resource>` and
`available.pools.fleet.dev/<pool>.<resource>`, with `_` for the `/` in the name of a resource. A row holds its pools in
the order of their names, so a pool has the same position for all resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from fleet.model.quantity import quantity_to_float
from fleet.model.timestamps import timestamp_or_none
from fleet.model.views import MemberCluster, PropertyValue
from fleet.snapshot.columns.bitset import BoolArray, FloatArray, Int32Array, Int64Array, enlarge, writable

POOLS: Final = "pools.fleet.dev"
"""Also the name under which a change of any pool is announced."""
MOST_POOLS: Final = 64
"""Of a cluster. Those that come later by name do not count."""
ALWAYS_FRESH: Final = 2**62
"""In place of the time of a report that has none."""
_KINDS: Final = {f"allocatable.{POOLS}": 0, f"available.{POOLS}": 1}


class PoolProperty(NamedTuple):
    pool: str
    resource: str
    kind: int
    """0: allocatable, 1: available."""


Quantities = tuple[float, float]
"""Allocatable and available; NaN where it is not reported, or no quantity."""


class PoolReport(NamedTuple):
    pools: tuple[str, ...] = ()
    """Sorted."""
    observed_at: int = 0
    """Nanoseconds since the epoch, of the oldest part."""
    quantities: Mapping[str, tuple[Quantities, ...]] = MappingProxyType({})
    """By resource, of each pool."""


NO_REPORT: Final = PoolReport()
_UNKNOWN: Final = float("nan")


@lru_cache(1 << 16)
def parse_pool_property(name: str) -> PoolProperty | None:
    prefix, _, rest = name.partition("/")
    pool, _, resource = rest.partition(".")
    if prefix not in _KINDS or not pool or not resource:
        return None
    return PoolProperty(pool, resource.replace("_", "/", 1), _KINDS[prefix])


def read_pools(properties: Mapping[str, PropertyValue] | None) -> PoolReport:
    reported = [
        (parsed, value)
        for name, value in (properties or {}).items()
        if POOLS in name and (parsed := parse_pool_property(name)) is not None
    ]
    if not reported:
        return NO_REPORT
    pools = tuple(sorted({parsed.pool for parsed, _ in reported})[:MOST_POOLS])
    position_of = {pool: position for position, pool in enumerate(pools)}
    quantities: dict[str, list[list[float]]] = {}
    times: list[int] = []
    for parsed, value in reported:
        observed_at = timestamp_or_none(value.observation_time)
        times.append(ALWAYS_FRESH if observed_at is None else min(max(observed_at, 0), ALWAYS_FRESH))
        if parsed.pool in position_of:
            of_pools = quantities.setdefault(parsed.resource, [[_UNKNOWN, _UNKNOWN] for _ in pools])
            of_pools[position_of[parsed.pool]][parsed.kind] = quantity_to_float(value.value)
    return PoolReport(
        pools,
        min(times),
        {name: tuple((each[0], each[1]) for each in of_pools) for name, of_pools in quantities.items()},
    )


def is_report_fresh(cluster: MemberCluster, now: int, *, longest: int) -> bool:
    """Also where there is none. Times are in nanoseconds."""
    report = read_pools(cluster.status.properties)
    return not report.pools or report.observed_at >= now - longest


class PoolsColumn:
    """Two-dimensional arrays: by row, and by the position of a pool in it."""

    __slots__ = ("_quantities", "_width", "counts", "frozen", "observed_at")

    def __init__(self, size: int, rows: Iterable[MemberCluster | None]) -> None:
        self.frozen = False
        self.counts: Int32Array = np.zeros(size, dtype=np.int32)
        """How many pools each cluster reports."""
        self.observed_at: Int64Array = np.zeros(size, dtype=np.int64)
        self._width = 0
        self._quantities: dict[str, FloatArray] = {}
        """By resource; the last dimension is what is allocatable and what is available."""
        for row, cluster in enumerate(rows):
            report = read_pools(_properties_of(cluster))
            if report is not NO_REPORT:
                self._write(row, report)

    # --- queries ----------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> BoolArray:
        """Which positions hold a pool."""
        exists: BoolArray = np.arange(self._width) < self.counts[:, None]
        return exists

    def of(self, resource: str) -> FloatArray | None:
        """None if no cluster reports the resource by pool."""
        return self._quantities.get(resource)

    # --- upkeep, called by the table only ---------------------------------------------------------------------------

    def differs(self, old: MemberCluster | None, new: MemberCluster | None) -> bool:
        before, after = _properties_of(old), _properties_of(new)
        return before != after and read_pools(before) != read_pools(after)

    def thaw(self) -> PoolsColumn:
        copy = PoolsColumn.__new__(PoolsColumn)
        copy.frozen, copy.counts, copy.observed_at = False, self.counts, self.observed_at
        copy._width, copy._quantities = self._width, self._quantities.copy()
        return copy

    def freeze(self) -> None:
        self.frozen = True
        self.counts.flags.writeable = self.observed_at.flags.writeable = False
        for array in self._quantities.values():
            array.flags.writeable = False

    def put(self, row: int, cluster: MemberCluster | None) -> None:
        for resource, array in list(self._quantities.items()):
            if not np.isnan(array[row]).all():
                self._quantities[resource] = cleared = writable(array)
                cleared[row] = _UNKNOWN
                if np.isnan(cleared).all():
                    del self._quantities[resource]
        self._write(row, read_pools(_properties_of(cluster)))

    def resize(self, size: int) -> None:
        self.counts = enlarge(self.counts, size, 0)
        self.observed_at = enlarge(self.observed_at, size, 0)
        self._reshape(self._width)

    def _write(self, row: int, report: PoolReport) -> None:
        """Into a row that is clear."""
        self.counts, self.observed_at = writable(self.counts), writable(self.observed_at)
        self.counts[row], self.observed_at[row] = len(report.pools), report.observed_at
        if len(report.pools) > self._width:
            self._reshape(len(report.pools))
        for resource, of_pools in report.quantities.items():
            array = self._quantities.get(resource)
            array = self._build_empty() if array is None else writable(array)
            array[row, : len(of_pools)] = of_pools
            self._quantities[resource] = array

    def _reshape(self, width: int) -> None:
        self._width = width
        for resource, array in list(self._quantities.items()):
            self._quantities[resource] = larger = self._build_empty()
            larger[: array.shape[0], : array.shape[1]] = array

    def _build_empty(self) -> FloatArray:
        return np.full((len(self.counts), self._width, 2), _UNKNOWN)


def _properties_of(cluster: MemberCluster | None) -> Mapping[str, PropertyValue] | None:
    return None if cluster is None else cluster.status.properties
