"""Cells: rows grouped by their values under several topology keys at once.

Within a cell every row is in the same domain of every key, so spreading treats all its rows alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleet.snapshot.columns.bitset import Int32Array, Int64Array
from fleet.snapshot.columns.interned import Domains

_RADIX_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Cells:
    of_row: Int32Array
    domains: tuple[Int32Array, ...]
    """Per key, the domain of each cell; -1 where its rows have no value."""

    @property
    def count(self) -> int:
        return len(self.domains[0])


def group(keys: Sequence[Domains]) -> Cells:
    size = len(keys[0].of_row)
    combined: Int64Array = np.zeros(size, dtype=np.int64)
    radix = 1
    for key in keys:
        if radix * (key.count + 1) >= _RADIX_LIMIT:
            _, combined = np.unique(combined, return_inverse=True)
            radix = size
        combined = combined * (key.count + 1) + (key.of_row + 1)
        radix *= key.count + 1
    _, first, of_row = np.unique(combined, return_index=True, return_inverse=True)
    cells = of_row.astype(np.int32).reshape(size)
    domains = tuple(key.of_row[first] for key in keys)
    for array in (cells, *domains):
        array.flags.writeable = False
    return Cells(of_row=cells, domains=domains)
