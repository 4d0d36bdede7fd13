"""Power failures: a process ends, and with it every write to its files that was not synced.

What a file held before is kept by `power.c`, which is compiled where there is a C compiler and glibc. Files that are
made or removed are taken to be synced.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_suffix(".c")
_RECORD: Final = struct.Struct("=qqq")
_UNDO: Final = ".undo"
IS_POSSIBLE: Final = sys.platform == "linux" and shutil.which("cc") is not None


def make_environment(folder: Path, library: Path) -> Mapping[str, str]:
    """For a process whose files in the folder are to lose what is not synced."""
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, _SOURCE, "-ldl"], check=True, timeout=120)
    return {**os.environ, "LD_PRELOAD": str(library), "POWER_FOLDER": str(folder.resolve())}


def lose_unsynced_writes(folder: Path) -> int:
    """After the process has ended. Returns how many writes were lost."""
    lost = 0
    for undo in folder.rglob(f"*{_UNDO}"):
        lost += _undo_writes(undo.with_name(undo.name.removesuffix(_UNDO)), undo.read_bytes())
        undo.unlink()
    for shared in folder.rglob("*-shm"):  # memory of the processes that had the database open
        shared.unlink()
    return lost


def _undo_writes(path: Path, content: bytes) -> int:
    """The last one first."""
    records: list[tuple[int, bytes, int]] = []
    at = 0
    while at + _RECORD.size <= len(content):
        offset, length, size = _RECORD.unpack_from(content, at)
        at += _RECORD.size + length
        if at <= len(content):  # else the process was killed before it wrote
            records.append((offset, content[at - length : at], size))
    if records and path.exists():
        with path.open("r+b") as file:
            for offset, before, size in reversed(records):
                file.seek(offset)
                file.write(before)
                file.truncate(size)
    return len(records)
