"""Values by row that are kept from one decision to the next, for plugins that judge each cluster by itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from fleet.snapshot.columns.bitset import Rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.row_log import LogPosition

_Value = TypeVar("_Value", bound=np.generic)

ALL_ROWS: Final = slice(None)
"""One object for all who ask: what a frame has read for the first serves the others."""
_FEW: Final = 4
"""One of so many rows is few."""
_FEWEST: Final = 8
"""Rows of a fleet for which anything is kept: a change of a cluster is judged in a frame of that cluster alone, with
the plugins of the whole fleet."""
_MOST_SIGNATURES: Final = 8


class _Kept(NamedTuple):
    position: LogPosition
    values: npt.NDArray[Any]


class RowMemo(Generic[_Value]):
    """Of values that depend on the cluster of a row, its bindings, bookings and nominations, and on the signature of a
    request. What else they depend on is part of the signature: other rows, feeds, residents and time are not looked at.

    Requests with one signature share the values: from one frame to the next, only those of rows that changed are
    computed anew. Those of rows with nominations always are, since a nomination counts for some placements and not for
    others.

    Threads may ask side by side: what is kept never changes.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def column(
        self, signature: Hashable, frame: Frame, compute: Callable[[Rows | slice], npt.NDArray[_Value]]
    ) -> npt.NDArray[_Value]:
        """The values of all rows. Read-only."""
        if frame.size < _FEWEST:
            return compute(ALL_ROWS)
        nominated = [row for each in frame.nominations if (row := frame.row_of(each.cluster)) is not None]
        kept = self._kept.get(signature)
        values = None if kept is None else _bring_up_to_date(kept, frame, nominated, compute)
        if values is None:
            values = compute(ALL_ROWS)
        values.flags.writeable = False
        if kept is None and len(self._kept) >= _MOST_SIGNATURES:
            self._kept.clear()
        self._kept[signature] = _Kept(frame.log_position, values)
        return values

    def at(
        self, rows: Rows, signature: Hashable, frame: Frame, compute: Callable[[Rows | slice], npt.NDArray[_Value]]
    ) -> npt.NDArray[_Value]:
        """The values of some rows."""
        if len(rows) * _FEW <= frame.size:
            return compute(rows)
        return self.column(signature, frame, compute).take(rows, mode="clip")  # faster than with a check of each row


def _bring_up_to_date(
    kept: _Kept, frame: Frame, nominated: Sequence[int], compute: Callable[[Rows | slice], npt.NDArray[_Value]]
) -> npt.NDArray[_Value] | None:
    """None where it takes as long to compute all."""
    changed = frame.find_changed(kept.position)
    if changed is None:
        return None
    rows = changed
    if nominated:
        rows = np.array(sorted({*changed.tolist(), *nominated}), dtype=np.intp)
    if len(rows) * _FEW > frame.size:
        return None
    if not len(rows):
        return kept.values
    values = kept.values.copy()
    values[rows] = compute(rows)
    return values
