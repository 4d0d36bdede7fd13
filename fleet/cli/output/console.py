"""Standard output: its width, and whether it takes colors."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

from fleet.text_table import Page, finish

PLAIN_WIDTH: Final = 120
"""Of a pipe or a file."""
NARROWEST: Final = 72
"""Below this the terminal has to wrap."""


def page_of(stream: TextIO) -> Page:
    is_terminal = stream.isatty()
    color = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Page(width=max(_columns(stream, is_terminal=is_terminal), NARROWEST), color=color)


def _columns(stream: TextIO, *, is_terminal: bool) -> int:
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal():
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns if is_terminal else PLAIN_WIDTH
    except OSError:
        return PLAIN_WIDTH


def print_text(text: str, stream: TextIO | None = None) -> None:
    """To standard output by default."""
    stream = sys.stdout if stream is None else stream
    stream.write(finish(text, page_of(stream)) + "\n")
