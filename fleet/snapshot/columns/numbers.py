"""A column of quantities: cluster properties and resource usage.

Rows hold the double nearest to the exact value, NaN where the cluster has no readable value. Comparisons stay exact:
rounding never reverses an order, so only rows whose double *equals* the bound's double can be in doubt, and those are
compared again as fractions. Quantities are multiples of 1e-9, so below `_DISTINCT` no two of them share a double and
there is no doubt at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Final, Literal

import numpy as np

from fleet.model.quantity import nearest_float, quantity_or_none, quantity_to_float
from fleet.model.views import MemberCluster
from fleet.snapshot.columns.bitset import BoolArray, FloatArray, enlarge, from_bools, writable
from fleet.snapshot.columns.rows import Blocks

Operator = Literal["Eq", "Ne", "Gt", "Ge", "Lt", "Le"]
OPERATORS: Final[tuple[Operator, ...]] = ("Eq", "Ne", "Gt", "Ge", "Lt", "Le")

USAGE_KINDS: Final = {"total": "capacity", "allocatable": "allocatable", "available": "available"}

_DISTINCT: Final = 4_000_000.0
_CACHED: Final = 128
_NAN: Final = float("nan")


class NumberColumn:
    __slots__ = ("_bits", "_range", "_unreadable", "frozen", "read", "values")

    def __init__(
        self, size: int, rows: Iterable[MemberCluster | None], read: Callable[[MemberCluster], str | None]
    ) -> None:
        self.read = read
        self.frozen = False
        self.values: FloatArray = np.full(size, _NAN)
        self._bits: dict[tuple[Operator, Fraction], int] = {}
        self._range: tuple[float, float] | None = None
        self._unreadable = 0
        numbers = []
        for row, cluster in enumerate(rows):
            text = None if cluster is None else read(cluster)
            number = _NAN if text is None else quantity_to_float(text)
            if text is not None and number != number:
                self._unreadable |= 1 << row
            numbers.append(number)
        self.values[: len(numbers)] = numbers

    # --- queries ----------------------------------------------------------------------------------------------------

    @property
    def unreadable(self) -> int:
        """Rows whose value is present but not a quantity."""
        return self._unreadable

    def present(self) -> BoolArray:
        known: BoolArray = self.values == self.values
        return known

    def bounds(self) -> tuple[float, float]:
        """Smallest and greatest value over all rows that have one; two NaNs where none has."""
        if self._range is None:
            known = self.values[self.present()]
            self._range = (float(known.min()), float(known.max())) if len(known) else (_NAN, _NAN)
        return self._range

    def exact(self, cluster: MemberCluster) -> Fraction | None:
        text = self.read(cluster)
        return None if text is None else quantity_or_none(text)

    def compare(self, operator: Operator, bound: Fraction, rows: Blocks[MemberCluster | None]) -> int:
        """Rows where `value operator bound` holds; a row without a readable value never does."""
        key = (operator, bound)
        bits = self._bits.get(key)
        if bits is None:
            if len(self._bits) >= _CACHED:
                self._bits.clear()
            bits = self._bits[key] = from_bools(self._compare(operator, bound, rows))
        return bits

    def _compare(self, operator: Operator, bound: Fraction, rows: Blocks[MemberCluster | None]) -> BoolArray:
        nearest = nearest_float(bound)
        less, equal = self.values < nearest, self.values == nearest
        if not -_DISTINCT < nearest < _DISTINCT:
            for row in np.flatnonzero(equal).tolist():
                cluster = rows[row]
                value = None if cluster is None else self.exact(cluster)
                assert value is not None
                equal[row], less[row] = value == bound, value < bound
        holds: BoolArray
        match operator:
            case "Eq":
                holds = equal
            case "Lt":
                holds = less
            case "Le":
                holds = less | equal
            case "Ne":
                holds = ~equal & self.present()
            case "Gt":
                holds = ~(less | equal) & self.present()
            case "Ge":
                holds = ~less & self.present()
        return holds

    # --- upkeep, called by the table only ---------------------------------------------------------------------------

    def differs(self, old: MemberCluster | None, new: MemberCluster | None) -> bool:
        before = None if old is None else self.read(old)
        after = None if new is None else self.read(new)
        return before != after

    def thaw(self) -> NumberColumn:
        copy: NumberColumn = NumberColumn.__new__(NumberColumn)
        copy.read, copy.frozen, copy.values = self.read, False, self.values
        copy._bits, copy._range, copy._unreadable = {}, None, self._unreadable
        return copy

    def freeze(self) -> None:
        self.frozen = True
        self.values.flags.writeable = False

    def put(self, row: int, cluster: MemberCluster | None) -> None:
        self.values = writable(self.values)
        text = None if cluster is None else self.read(cluster)
        number = _NAN if text is None else quantity_to_float(text)
        self.values[row] = number
        self._unreadable &= ~(1 << row)
        if text is not None and number != number:
            self._unreadable |= 1 << row
        self._bits.clear()
        self._range = None

    def resize(self, size: int) -> None:
        self.values = enlarge(self.values, size, _NAN)
        self._bits.clear()


# --- values of a cluster ----------------------------------------------------------------------------------------------


def property_reader(name: str) -> Callable[[MemberCluster], str | None]:
    def read(cluster: MemberCluster) -> str | None:
        properties = cluster.status.properties
        value = None if properties is None else properties.get(name)
        return None if value is None else value.value

    return read


def usage_reader(kind: str, resource: str) -> Callable[[MemberCluster], str | None]:
    def read(cluster: MemberCluster) -> str | None:
        usage = cluster.status.resource_usage
        quantities = None if usage is None else getattr(usage, kind)
        quantity = None if quantities is None else quantities.get(resource)
        return None if quantity is None else str(quantity)

    return read
