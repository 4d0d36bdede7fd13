"""The line of progress, with a clock that ticks when the test says so."""

from __future__ import annotations

import io
from threading import Event

import pytest

from fleet.cli.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ticks:
    """Waits end as often as the test says, then only when the work is done."""

    def __init__(self, count: int) -> None:
        self.are_over = Event()
        self._left = count

    def __call__(self, done: Event, seconds: float) -> bool:
        assert seconds == 1
        self._left -= 1
        if self._left >= 0:
            return False
        self.are_over.set()
        return done.wait()


def run(stream: io.StringIO, ticks: Ticks) -> str:
    with show_progress("deciding", stream=stream, wait=ticks):
        if stream.isatty():
            assert ticks.are_over.wait(60)
    return stream.getvalue()


def test_what_takes_seconds_is_counted_on_one_line_which_is_erased() -> None:
    shown = run(Terminal(), Ticks(2))

    assert shown == "\r\x1b[Kdeciding … 1 s\r\x1b[Kdeciding … 2 s\r\x1b[K"


def test_what_is_done_within_a_second_shows_nothing() -> None:
    assert run(Terminal(), Ticks(0)) == ""


def test_a_pipe_or_a_file_gets_no_progress_and_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.cli.progress.Thread", None)

    with show_progress("deciding", stream=(file := io.StringIO())):
        pass

    assert file.getvalue() == ""


def test_it_ends_with_an_error_too() -> None:
    stream, ticks = Terminal(), Ticks(1)

    try:
        with show_progress("deciding", stream=stream, wait=ticks):
            assert ticks.are_over.wait(60)
            raise ValueError
    except ValueError:
        pass

    assert stream.getvalue().endswith("\r\x1b[K")
