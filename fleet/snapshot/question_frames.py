"""Frames for questions, whose columns are apart from those of the scheduler's table.

Every change of a cluster looks at all columns of the table. What only a question reads is kept here instead, from one
frame to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fleet.snapshot.frame import Frame

_MOST_COLUMNS: Final = 256
"""Besides those of the table: questions name any label. With more, they are built again."""


class QuestionFrames:
    def __init__(self, read_table: Callable[[], Frame]) -> None:
        self._read_table = read_table
        self._table_frame: Frame | None = None
        self._frame: Frame | None = None

    def frame(self) -> Frame:
        """The present fleet."""
        present, earlier = self._read_table(), self._frame
        if earlier is not None and earlier.count_columns() - present.count_columns() > _MOST_COLUMNS:
            earlier = None
        if earlier is None or present is not self._table_frame:
            earlier = self._frame = present.apart(earlier)
            self._table_frame = present
        return earlier
