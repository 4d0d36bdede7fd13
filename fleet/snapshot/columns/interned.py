"""A column of few distinct values: label values, taint sets, namespace states.

Each distinct value has a small id; a row holds the id, 0 where the cluster has none. Queries return bitsets
of rows, cached per value and, when one row changes, corrected by flipping two bits. Ids are never reused while a
column lives, so frames of different moments share one value table; a column that has seen far more values than it has
rows is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np

from fleet.model.keys import NAMESPACE_COLLECTION_SUCCEEDED
from fleet.model.views import MemberCluster, Taint
from fleet.snapshot.columns.bitset import Int32Array, Int64Array, enlarge, from_bools, writable

T = TypeVar("T", bound=Hashable)

_CACHED: Final = 512
_SPARE_VALUES: Final = 64

# States of one namespace on a cluster.
NAMESPACE_PRESENT: Final = "present"
NAMESPACE_MISSING: Final = "missing"
NAMESPACES_UNREPORTED: Final = "unreported"
NAMESPACE_UNCONFIRMED: Final = "unconfirmed"


@dataclass(frozen=True, slots=True)
class Domains:
    """The distinct values of a column, numbered densely; -1 marks rows without a value."""

    of_row: Int32Array
    ids: Int64Array
    count: int


class InternedColumn(Generic[T]):
    __slots__ = ("_bits", "_domains", "_ids_of", "_values", "frozen", "ids", "read")

    def __init__(
        self, size: int, rows: Iterable[MemberCluster | None], read: Callable[[MemberCluster], T | None]
    ) -> None:
        self.read = read
        self.frozen = False
        self._ids_of: dict[T, int] = {}
        self._values: list[T | None] = [None]
        self._bits: dict[int, int] = {}
        self._domains: Domains | None = None
        self.ids: Int32Array = np.zeros(size, dtype=np.int32)
        ids = [0 if cluster is None else self._intern(read(cluster)) for cluster in rows]
        self.ids[: len(ids)] = ids

    # --- queries ----------------------------------------------------------------------------------------------------

    def value(self, row: int) -> T | None:
        return self._values[int(self.ids[row])]

    def eq(self, value: T) -> int:
        known = self._ids_of.get(value)
        return 0 if known is None else self._rows_with(known)

    def isin(self, values: Iterable[T]) -> int:
        bits = 0
        for value in values:
            bits |= self.eq(value)
        return bits

    def exists(self) -> int:
        return self._rows_with(0)

    def distinct(self) -> list[tuple[T, int]]:
        """Every value some row holds, with the rows that hold it."""
        values = []
        for value_id in self.domains().ids.tolist():
            value = self._values[value_id]
            assert value is not None
            values.append((value, self._rows_with(value_id)))
        return values

    def domains(self) -> Domains:
        if self._domains is None:
            population = np.bincount(self.ids, minlength=len(self._values))
            population[0] = 0
            live = np.flatnonzero(population)
            dense = np.full(len(self._values), -1, dtype=np.int32)
            dense[live] = np.arange(len(live), dtype=np.int32)
            of_row = dense[self.ids]
            of_row.flags.writeable = live.flags.writeable = False
            self._domains = Domains(of_row=of_row, ids=live, count=len(live))
        return self._domains

    def domain_value(self, domain: int) -> T | None:
        return self._values[int(self.domains().ids[domain])]

    def _rows_with(self, value_id: int) -> int:
        bits = self._bits.get(value_id)
        if bits is None:
            if len(self._bits) >= _CACHED:
                self._bits.clear()
            bits = from_bools(self.ids == value_id if value_id else self.ids != 0)
            self._bits[value_id] = bits
        return bits

    # --- upkeep, called by the table only ---------------------------------------------------------------------------

    def differs(self, old: MemberCluster | None, new: MemberCluster | None) -> bool:
        before = None if old is None else self.read(old)
        after = None if new is None else self.read(new)
        return before != after

    def thaw(self) -> InternedColumn[T]:
        copy: InternedColumn[T] = InternedColumn.__new__(InternedColumn)
        copy.read, copy.frozen = self.read, False
        copy._ids_of, copy._values = self._ids_of, self._values
        copy._bits, copy._domains, copy.ids = self._bits.copy(), self._domains, self.ids
        return copy

    def freeze(self) -> None:
        self.frozen = True
        self.ids.flags.writeable = False

    def put(self, row: int, cluster: MemberCluster | None) -> None:
        if len(self._values) > 2 * len(self.ids) + _SPARE_VALUES:
            self._forget_unused_values()
        self.ids = writable(self.ids)
        before = int(self.ids[row])
        after = 0 if cluster is None else self._intern(self.read(cluster))
        self.ids[row] = after
        self._domains = None
        bit = 1 << row
        for value_id in {before, after} - {0}:
            if value_id in self._bits:
                self._bits[value_id] ^= bit
        if (before == 0) != (after == 0) and 0 in self._bits:
            self._bits[0] ^= bit

    def resize(self, size: int) -> None:
        self.ids = enlarge(self.ids, size, 0)
        self._domains = None

    def _intern(self, value: T | None) -> int:
        if value is None:
            return 0
        known = self._ids_of.get(value)
        if known is None:
            known = self._ids_of[value] = len(self._values)
            self._values.append(value)
        return known

    def _forget_unused_values(self) -> None:
        old_values, old_ids = self._values, self.ids
        self._ids_of, self._values, self._bits = {}, [None], {}
        renumbered = np.zeros(len(old_values), dtype=np.int32)
        for old_id in np.unique(old_ids).tolist():
            renumbered[old_id] = self._intern(old_values[old_id])
        self.ids = renumbered[old_ids]


LabelColumn = InternedColumn[str]


# --- values of a cluster ----------------------------------------------------------------------------------------------


def label_reader(key: str) -> Callable[[MemberCluster], str | None]:
    def read(cluster: MemberCluster) -> str | None:
        labels = cluster.metadata.labels
        return None if labels is None else labels.get(key)

    return read


def read_taints(cluster: MemberCluster) -> tuple[Taint, ...] | None:
    return cluster.spec.taints or None


def namespace_reader(name: str) -> Callable[[MemberCluster], str | None]:
    def read(cluster: MemberCluster) -> str | None:
        collected = next((c for c in cluster.status.conditions if c.type == NAMESPACE_COLLECTION_SUCCEEDED), None)
        if collected is None:
            return None
        namespaces = cluster.status.namespaces
        if namespaces is not None and name in namespaces:
            return NAMESPACE_PRESENT
        if collected.status != "True":
            return NAMESPACE_UNCONFIRMED
        return NAMESPACES_UNREPORTED if namespaces is None else NAMESPACE_MISSING

    return read
