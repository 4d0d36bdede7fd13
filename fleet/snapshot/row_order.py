"""Row order: an ordering of rows, with the position of each, for orders as long as the fleet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fleet.snapshot.columns.bitset import Rows, all_rows, from_bools, to_bools


class RowOrder:
    def __init__(self, rows: Sequence[int] | Rows, size: int) -> None:
        """Rows of a frame of that size, each at most once."""
        self._rows: Rows = np.asarray(rows, dtype=np.intp)
        self._of_row = np.full(size, -1, dtype=np.intp)
        self._of_row[self._rows] = np.arange(len(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def at(self, place: int) -> int:
        return int(self._rows[place])

    def of(self, row: int) -> int | None:
        """Counted from 0; None for a row that is not among them."""
        place = int(self._of_row[row])
        return None if place < 0 else place

    def among(self, rows: int) -> list[int]:
        """The rows that are in a set as well, in this order."""
        size = len(self._of_row)
        wanted = to_bools(rows & all_rows(size), size)
        rows_in_order: list[int] = self._rows[wanted[self._rows]].tolist()
        return rows_in_order

    @property
    def bits(self) -> int:
        return from_bools(self._of_row >= 0)
