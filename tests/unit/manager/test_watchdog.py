"""A process that hangs where nobody can cut it off."""

from __future__ import annotations

import os
import subprocess
import sys

HANGING = """
import asyncio, threading
from fleet.manager.watchdog import start_watchdog

async def main():
    start_watchdog({seconds})
    {hangs}

asyncio.run(main())
"""


def ended(hangs: str, *, seconds: float = 0.2) -> subprocess.CompletedProcess[str]:
    script = HANGING.format(hangs=hangs, seconds=seconds)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=90, check=False)


def test_a_loop_that_does_not_turn_is_ended() -> None:
    process = ended("threading.Event().wait()")
    assert process.returncode == 1
    assert "terminating the process" in process.stdout


def test_a_thread_that_the_loop_waits_for_is_ended() -> None:
    process = ended("asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)")
    assert process.returncode == 1


def test_a_process_whose_output_is_read_no_more_is_ended() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    script = HANGING.format(hangs="threading.Event().wait()", seconds=0.2)
    try:
        assert subprocess.run([sys.executable, "-c", script], stdout=writer, timeout=90, check=False).returncode == 1
    finally:
        os.close(writer)


def test_a_process_that_ends_in_time_ends_on_its_own() -> None:
    assert ended("pass", seconds=3600).returncode == 0
