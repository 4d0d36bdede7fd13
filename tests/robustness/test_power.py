"""Power failures lose what was not synced, and nothing else."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.robustness import power

pytestmark = pytest.mark.skipif(not power.IS_POSSIBLE, reason="needs Linux and a C compiler")

WRITER: Final = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
for pragma in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=20"):
    connection.execute(f"PRAGMA {pragma}")
connection.execute("CREATE TABLE t (number)")
for number in range(200):
    connection.execute("INSERT INTO t VALUES (?)", (number,))
connection.execute(f"PRAGMA synchronous={sys.argv[2]}")
for number in range(200, 210):
    connection.execute("INSERT INTO t VALUES (?)", (number,))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("synchronous, kept", [("FULL", 210), ("OFF", 200)])
def test_what_was_not_synced_is_lost_and_nothing_else(tmp_path: Path, synchronous: str, kept: int) -> None:
    data = tmp_path / "data"
    data.mkdir()
    environment = power.make_environment(data, tmp_path / "power.so")
    command = [sys.executable, "-c", WRITER, str(data / "x.sqlite"), synchronous]
    subprocess.run(command, env=environment, check=False, timeout=60)
    lost = power.lose_unsynced_writes(data)
    assert (lost > 0) == (kept < 210)
    with sqlite3.connect(data / "x.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*), max(number) FROM t").fetchone() == (kept, kept - 1)
