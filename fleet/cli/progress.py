"""One line on standard error while something takes more than a second, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final, TextIO

_EVERY: Final = 1.0
"""Seconds."""
_ERASE: Final = "\r\x1b[K"

Wait = Callable[[Event, float], bool]


@contextmanager
def show_progress(activity: str, *, stream: TextIO | None = None, wait: Wait = Event.wait) -> Iterator[None]:
    """`deciding … 3 s`, erased at the end. Nothing else may be printed meanwhile."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield
        return
    done = Event()
    thread = Thread(target=_report, args=(activity, stream, done, wait), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _report(activity: str, stream: TextIO, done: Event, wait: Wait) -> None:
    seconds = 0
    while not wait(done, _EVERY):
        seconds += 1
        stream.write(f"{_ERASE}{activity} … {seconds} s")
        stream.flush()
    if seconds:
        stream.write(_ERASE)
        stream.flush()
