"""Packing of columns: distinct values numbered, sets of rows as bits in the order of names."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fleet.snapshot.columns.bitset import Int64Array, Rows
from fleet.snapshot.columns.rows import NameIndex

_COUNTED: Final = 1 << 16
"""Values up to which counting them is quicker than sorting."""
_WIDTHS: Final = ((1, range(-(2**7), 2**7)), (2, range(-(2**15), 2**15)), (4, range(-(2**31), 2**31)))


def number_values(values: Rows) -> tuple[Rows, npt.NDArray[np.unsignedinteger[Any]]]:
    """The values that occur, sorted, and for each place which of them it is. No value is negative."""
    greatest = int(values.max(initial=0))
    if greatest >= _COUNTED:
        known, numbers = np.unique(values, return_inverse=True)
        return known, numbers.astype(_narrow(len(known)))
    occurs = np.zeros(greatest + 1, dtype=bool)
    occurs[values] = True
    known = occurs.nonzero()[0]
    number_of = np.zeros(greatest + 1, dtype=_narrow(len(known)))
    number_of[known] = np.arange(len(known))
    return known, number_of[values]


def _narrow(count: int) -> str:
    return "<u1" if count <= 1 << 8 else "<u2" if count <= 1 << 16 else "<u4"


def in_name_order(names: NameIndex, rows: Rows) -> tuple[bytes, Rows]:
    """A bit per cluster, highest of a byte first: whether it is among the rows. And positions in `rows`, by name."""
    places = names.rank[rows]
    listed = np.zeros(len(names), dtype=bool)
    listed[places] = True
    positions = np.empty(len(names), dtype=np.intp)
    positions[places] = np.arange(len(places))
    return np.packbits(listed).tobytes(), positions[listed]


def width_of(numbers: Int64Array) -> int:
    """Bytes per number: 1, 2, 4 or 8."""
    least, greatest = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    return next((width for width, values in _WIDTHS if least in values and greatest in values), 8)
