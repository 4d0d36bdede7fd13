"""Folders that are filled once, whole or not at all, whoever comes first.

Test workers, a developer's shell and CI may all want the same folder at the same moment: one fills it under a lock, in
a temporary folder beside it that is renamed at the end, and the others wait.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """Where built programs live: outside the repository, so that a fresh clone need not build them again."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache") / "fleet" / "assets"


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Holds the lock on a file; the system releases it if the holder dies."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def filled_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Makes the folder by `fill`, unless it exists."""
    if folder.exists():
        return
    with locked(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            _fill(folder, fill)


def _fill(folder: Path, fill: Callable[[Path], None]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        fill(unfinished)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
