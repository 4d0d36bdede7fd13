"""Standard output: its width and colors, and plain text, JSON and YAML."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from fleet.text_table import Page, finish, render_table

TEXT: Final = "text"
PLAIN_WIDTH: Final = 120
"""Of a pipe or a file."""
NARROWEST: Final = 72
"""Below this the terminal has to wrap."""
_CONTROLS: Final = {*range(32), *range(127, 160)} - {*map(ord, "\t\n")}
_UNPRINTABLE: Final = dict.fromkeys(_CONTROLS, "\N{REPLACEMENT CHARACTER}")


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


def print_rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table. In a pipe every row is one line, however long."""
    page = page_of(sys.stdout) if sys.stdout.isatty() else Page()
    sys.stdout.write(finish(render_table(head, rows), page) + "\n")


def print_text(text: str, stream: TextIO | None = None) -> None:
    """To standard output by default."""
    stream = sys.stdout if stream is None else stream
    stream.write(finish(text, page_of(stream)) + "\n")


def write_text(text: str) -> None:
    """Control characters from objects are replaced, so that they cannot control the terminal."""
    text = text.translate(_UNPRINTABLE)
    sys.stdout.write(text if text.endswith("\n") or not text else f"{text}\n")
    sys.stdout.flush()


def write_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def write_document(value: Any, form: str) -> None:
    """`json` or `yaml`."""
    write_json(value) if form == "json" else write_yaml(value)


def write_yaml(value: Any) -> None:
    import yaml

    sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
