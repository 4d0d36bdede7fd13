"""Where text goes: colours on a terminal, plain text anywhere else, and never wider than there is room."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH: Final = 120
"""Of a pipe or a file, which say nothing about their readers."""
NARROWEST: Final = 72
"""Below this the terminal has to wrap."""
_GAP: Final = 2
_PHASES: Final = ((2, 20), (1, 8), (None, 8))
"""Who is narrowed, and how far, until the table fits: how many columns from the right (None: all of them), and what
they keep, which is room for a time at first."""

Cell = str | Text


def write(parts: Iterable[RenderableType], stream: TextIO | None = None) -> None:
    """Parts below each other, to standard output unless told otherwise; no line ends in blanks."""
    stream = sys.stdout if stream is None else stream
    console = Console(file=stream, width=_width(stream), highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    stream.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _width(stream: TextIO) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        return max(int(columns), NARROWEST)
    return max(Console(file=stream).width, NARROWEST) if stream.isatty() else PLAIN_WIDTH


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, numbers: Sequence[str] = ()) -> Padding:
    """Columns under headings; `numbers` names those aligned to the right."""
    return indented(columns(headings, rows, numbers=numbers))


def columns(headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, numbers: Sequence[str] = ()) -> RenderableType:
    """The same, at the margin."""
    return _Columns(headings, rows, numbers)


def indented(content: RenderableType) -> Padding:
    return Padding(content, (0, 0, 0, 2))


@dataclass(frozen=True, slots=True)
class _Columns:
    """A table that loses nothing: what does not fit goes on in the next line of its cell."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
        for heading, width in zip(self.headings, self._widths(options.max_width), strict=True):
            justify: JustifyMethod = "right" if heading in self.numbers else "left"
            found.add_column(heading, justify=justify, overflow="fold", width=width)
        for row in self.rows:
            found.add_row(*row)
        yield found

    def _widths(self, room: int) -> list[int]:
        cells = zip(self.headings, *self.rows, strict=True)
        widths = [max(cell_len(str(cell)) for cell in column) for column in cells]
        room -= _GAP * (len(widths) - 1)
        for columns, floor in _PHASES:
            first = 0 if columns is None else max(len(widths) - columns, 0)
            while sum(widths) > room and max(widths[first:]) > floor:
                widths[_last_widest(widths, first)] -= 1
        return widths


def _last_widest(widths: Sequence[int], first: int) -> int:
    return max(range(first, len(widths)), key=lambda position: (widths[position], position))
