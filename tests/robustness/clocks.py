"""Times of day that jump: `python -m tests.robustness.clocks FILE MODULE …` runs a module by a clock of its own.

FILE has the seconds by which the clock is wrong. Monotonic time is left alone, as it is where an operator or a time
service sets the clock of a machine.
"""

from __future__ import annotations

import runpy
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.control_plane.process import ServerProcess


def give_clock(process: ServerProcess) -> ServerProcess:
    """The process, before its first start, with a clock that `set_clock` sets."""
    python, _, *module = process.command
    process.command = [python, "-m", __name__, str(_file_of(process)), *module]
    return process


def set_clock(process: ServerProcess, *, ahead: float) -> None:
    """By so many seconds, from now on."""
    _file_of(process).write_text(str(ahead), encoding="utf-8")


def _file_of(process: ServerProcess) -> Path:
    return process.log.with_suffix(".clock")


def _run(file: Path, module: str) -> None:
    from fleet.clock import SystemClock

    real = time.time

    def read_error() -> float:
        try:
            return float(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not set yet, or being set
            return 0.0

    def read_clock(self: SystemClock) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=read_error())

    time.time = lambda: real() + read_error()
    SystemClock.now = read_clock  # type: ignore[method-assign]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    first, name, *sys.argv[1:] = sys.argv[1:]
    _run(Path(first), name)
