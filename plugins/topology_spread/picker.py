"""All picks under spread constraints in one pass.

Rows are grouped into cells: within a cell all rows are in the same domains, so spreading gives them the same points,
and their order by everything else never changes. A cell is therefore a sorted run with a cursor. A pick looks at the
heads of the cells and costs O(cells), not O(clusters). The picks, their points, and the verdict of the last step on
every other row are exactly those of one round per pick.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fleet.framework.types import Candidates
from fleet.snapshot.cells import Cells
from fleet.snapshot.columns.bitset import BoolArray, Int32Array, Int64Array, Rows
from plugins.topology_spread.levels import VIOLATED, Level

# Up to here a loop over cells is quicker than a handful of array operations.
_FEW_CELLS: Final = 96
_FORBIDDEN: Final = VIOLATED // 2
_EMPTY: Final = -1


@dataclass(frozen=True, slots=True)
class Done:
    rows: list[int]
    scores: list[int]
    last: Int64Array
    """Points of every candidate at the last step."""
    violated: BoolArray
    """Candidates that the last step forbade."""
    levels: list[Level]
    """As they were at the last step."""


def pick_in_cells(levels: list[Level], cells: Cells, candidates: Candidates, *, unlabelled_excluded: bool) -> Done:
    runs = _Runs(levels, cells, candidates, unlabelled_excluded=unlabelled_excluded)
    points = runs.step_few if len(runs.heads) <= _FEW_CELLS else runs.step_many
    rows: list[int] = []
    scores: list[int] = []
    while True:
        worth, best = points()
        if best < 0:
            break
        rows.append(runs.take(best))
        scores.append(int(worth[best]))
        if len(rows) == candidates.desired:
            break
        runs.count(best)
    last = np.asarray(worth, dtype=np.int64)[runs.cell_of]
    return Done(rows=rows, scores=scores, last=last, violated=last <= _FORBIDDEN, levels=levels)


class _Runs:
    """The cells that hold candidates, each a run of rows from best to worst."""

    def __init__(self, levels: list[Level], cells: Cells, candidates: Candidates, *, unlabelled_excluded: bool) -> None:
        self.levels = levels
        best_first = np.argsort(candidates.keys)[::-1]
        present, self.cell_of = _dense(cells.of_row[candidates.rows], cells.count)
        order = best_first[np.argsort(self.cell_of[best_first], kind="stable")]
        self._keys: Int64Array = candidates.keys[order]
        self._rows: Rows = candidates.rows[order]
        sizes = np.bincount(self.cell_of, minlength=len(present))
        self._ends: list[int] = np.cumsum(sizes).tolist()
        self._cursors: list[int] = (np.cumsum(sizes) - sizes).tolist()
        self.domains: list[Int32Array] = [of_cell[present] for of_cell in cells.domains]
        self._domain_lists: list[list[int]] = [of_cell.tolist() for of_cell in self.domains]
        self.heads: list[int] = self._keys[self._cursors].tolist()
        self._head_array: Int64Array = np.array(self.heads, dtype=np.int64)
        self._counts: list[list[int]] = [level.counts.tolist() for level in levels]
        self._penalty = self._unlabelled_penalty() if unlabelled_excluded else None

    def _unlabelled_penalty(self) -> Int64Array:
        penalty = np.zeros(len(self.heads), dtype=np.int64)
        for level, of_cell in zip(self.levels, self.domains, strict=True):
            if level.constraint.hard:
                penalty[of_cell < 0] += VIOLATED
        return penalty

    def step_few(self) -> tuple[Sequence[int] | Int64Array, int]:
        worth = [0] * len(self.heads) if self._penalty is None else self._penalty.tolist()
        for level, domains, counts in zip(self.levels, self._domain_lists, self._counts, strict=True):
            lowest, highest, between = level.points()
            low, high = level.low, level.high
            for cell, domain in enumerate(domains):
                if domain >= 0:
                    count = counts[domain]
                    worth[cell] += lowest if count == low else highest if count == high else between
        best, best_rank = -1, (_FORBIDDEN, _EMPTY)
        for cell, head in enumerate(self.heads):
            if head != _EMPTY and (worth[cell], head) > best_rank:
                best, best_rank = cell, (worth[cell], head)
        return worth, best

    def step_many(self) -> tuple[Sequence[int] | Int64Array, int]:
        worth = np.zeros(len(self.heads), dtype=np.int64) if self._penalty is None else self._penalty.copy()
        for level, of_cell in zip(self.levels, self.domains, strict=True):
            worth += level.by_domain()[of_cell]
        open_cells = (self._head_array != _EMPTY) & (worth > _FORBIDDEN)
        if not open_cells.any():
            return worth, -1
        top = open_cells & (worth == worth[open_cells].max())
        return worth, int(np.where(top, self._head_array, _EMPTY).argmax())

    def take(self, cell: int) -> int:
        """The best row of a cell; the next one becomes its head."""
        place = self._cursors[cell]
        self._cursors[cell] = place + 1
        head = int(self._keys[place + 1]) if place + 1 < self._ends[cell] else _EMPTY
        self.heads[cell] = self._head_array[cell] = head
        return int(self._rows[place])

    def count(self, cell: int) -> None:
        """Update the levels after a pick from this cell."""
        for level, domains, counts in zip(self.levels, self._domain_lists, self._counts, strict=True):
            domain = domains[cell]
            level.add(domain)
            if domain >= 0:
                counts[domain] = int(level.counts[domain])


def _dense(cell_of: Int32Array, count: int) -> tuple[Rows, npt.NDArray[np.unsignedinteger[Any]]]:
    """The cells that occur, and each row's cell as a position among them, in the narrowest type: it sorts fastest."""
    present = np.flatnonzero(np.bincount(cell_of, minlength=count))
    narrow = np.uint16 if len(present) < 1 << 16 else np.uint32
    position: npt.NDArray[np.unsignedinteger[Any]] = np.zeros(count, dtype=narrow)
    position[present] = np.arange(len(present))
    return present, position[cell_of]
