"""Text for people: tables with aligned columns, bold heads and styled cells, folded to the width of a terminal.

Styles are marks within a text. `finish` turns them into escape sequences for a terminal and drops them elsewhere; all
other control characters are dropped, so that names and messages cannot steer a terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

GAP: Final = "  "
_CODES: Final = {"bold": 1, "dim": 2, "red": 31, "green": 32}
_MARKS: Final = {style: chr(0xE001 + position) for position, style in enumerate(_CODES)}
_END: Final = "\ue000"
_CONTROLS: Final = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)])
_PLAIN: Final = {**_CONTROLS, **dict.fromkeys(map(ord, (_END, *_MARKS.values())))}
_COLORED: Final = {
    **_CONTROLS,
    ord(_END): "\x1b[0m",
    **{ord(_MARKS[style]): f"\x1b[{code}m" for style, code in _CODES.items()},
}
_PHASES: Final = ((2, 20), (1, 8), (None, 8))
"""Columns that are narrowed until a table fits: how many from the right (None: all), and the width they keep, which at
first is room for a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The place where a text is shown."""

    width: int | None = None
    """None: lines are as long as they are."""
    color: bool = False


def apply_style(text: str, style: str) -> str:
    return f"{_MARKS[style]}{text}{_END}" if text else text


def finish(text: str, page: Page) -> str:
    if page.width is not None:
        text = "\n".join(part for line in text.split("\n") for part in _fit(line, page.width))
    return text.translate(_COLORED if page.color else _PLAIN)


def _fit(line: str, width: int) -> list[str]:
    """The rest of a long line is indented as its beginning."""
    if _length(line) <= width:
        return [line]
    return _wrap(line, width, indent=line[: len(line) - len(line.lstrip(" "))])


def render_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numbers: Collection[str] = (),
    width: int | None = None,
    indent: str = "",
) -> str:
    """Columns under their heads; those named in `numbers` are flush right. Cells too long for the width are continued
    on the next line, where a word ends."""
    return render_columns(
        [[apply_style(heading, "bold") for heading in head], *rows],
        right=[position for position, heading in enumerate(head) if heading in numbers],
        width=width,
        indent=indent,
    )


def render_columns(
    rows: Sequence[Sequence[str]], *, right: Collection[int] = (), width: int | None = None, indent: str = ""
) -> str:
    return ColumnLayout(right=right, width=width, indent=indent).render(rows)


class ColumnLayout:
    """Columns that grow with the rows, for tables whose rows come one after the other."""

    def __init__(self, *, right: Collection[int] = (), width: int | None = None, indent: str = "") -> None:
        self._right = right
        self._width = width
        self._indent = indent
        self._widths: list[int] = []
        self._longest_words: list[int] = []

    def render(self, rows: Sequence[Sequence[str]]) -> str:
        """These rows, aligned with all earlier ones as far as those were wide enough."""
        widths = self._fit(rows)
        lines = []
        for row in rows:
            cells = [_fold(cell, width) for cell, width in zip(row, widths, strict=True)]
            for number in range(max(map(len, cells))):
                parts = [cell[number] if number < len(cell) else "" for cell in cells]
                padded = [_pad(part, widths[column], right=column in self._right) for column, part in enumerate(parts)]
                lines.append(f"{self._indent}{GAP.join(padded)}".rstrip())
        return "\n".join(lines)

    def _fit(self, rows: Sequence[Sequence[str]]) -> list[int]:
        columns = list(zip(*rows, strict=True))
        widths = [max(map(_length, column)) for column in columns]
        self._widths = [max(pair) for pair in zip(widths, self._widths or widths, strict=True)]
        if self._width is None:
            return self._widths
        words = [max(_length(word) for cell in column for word in cell.split() or [""]) for column in columns]
        self._longest_words = [max(pair) for pair in zip(words, self._longest_words or words, strict=True)]
        fitted = self._widths.copy()
        _narrow(fitted, self._width - len(self._indent) - len(GAP) * (len(fitted) - 1), self._longest_words)
        return fitted


def _narrow(widths: list[int], room: int, longest_words: Sequence[int]) -> None:
    """Names are broken only where a table does not fit otherwise. The last column holds sentences."""
    for words in (longest_words[:-1], ()):
        floors = [*words, *[0] * (len(widths) - len(words))]
        for columns, floor in _PHASES:
            first = 0 if columns is None else max(len(widths) - columns, 0)
            while sum(widths) > room:
                wide = [column for column in range(first, len(widths)) if widths[column] > max(floor, floors[column])]
                if not wide:
                    break
                widths[max(wide, key=lambda column: (widths[column], column))] -= 1


def _fold(cell: str, width: int) -> list[str]:
    """A style is repeated in every line."""
    if _length(cell) <= width:
        return [cell]
    if cell.endswith(_END):
        return [f"{cell[0]}{line}{_END}" for line in _wrap(cell[1:-1], width)]
    return _wrap(cell, width)


def _wrap(text: str, width: int, *, indent: str = "") -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _pad(text: str, width: int, *, right: bool) -> str:
    blanks = " " * (width - _length(text))
    return f"{blanks}{text}" if right else f"{text}{blanks}"


def _length(text: str) -> int:
    return len(text.translate(_PLAIN))
