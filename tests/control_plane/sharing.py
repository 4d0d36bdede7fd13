"""One control plane for all workers of a test run, kept by a process of its own.

Nobody knows which worker ends last, so none of them owns the servers. The first one starts a keeper; each holds a
shared lock on a file for as long as it lives; the keeper waits for the exclusive lock, which it gets when all of them
are gone, however they went, and then stops the servers.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.control_plane.access import Access
from tests.control_plane.cache import locked
from tests.control_plane.failures import NeverReady
from tests.control_plane.instance import ControlPlane

ROOT: Final = Path(__file__).resolve().parents[2]


@contextmanager
def shared_control_plane(folder: Path, *, programs: Path) -> Iterator[Access]:
    """The control plane of this folder, started if we are the first to ask."""
    folder.mkdir(parents=True, exist_ok=True)
    with _lease(folder).open("a") as lease:
        with locked(folder / "starting"):
            # Blocks while a keeper is stopping; then its note is gone, and we start another.
            fcntl.flock(lease, fcntl.LOCK_SH)
            if not _note(folder).exists():
                _start_keeper(folder, programs)
        yield Access.from_json(_note(folder).read_text(encoding="utf-8"))


def _lease(folder: Path) -> Path:
    return folder / "in-use"


def _note(folder: Path) -> Path:
    """Exists while the keeper keeps the control plane running."""
    return folder / "access.json"


def _start_keeper(folder: Path, programs: Path) -> None:
    """Returns when the control plane is ready; the keeper stays."""
    command = [sys.executable, "-m", __name__, str(folder), str(programs)]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise NeverReady(f"no control plane: {_diary(folder).read_text(encoding='utf-8')}")


def _diary(folder: Path) -> Path:
    return folder / "keeper.log"


def main(folder: Path, programs: Path) -> None:
    """Leaves a keeper behind, and ends when it has a control plane or has failed."""
    ours, keepers = os.pipe()
    if os.fork():
        os.close(keepers)
        with open(ours, "rb") as news:
            sys.exit(0 if news.read() == b"ready" else 1)
    os.close(ours)
    os.setsid()
    _write_into(_diary(folder))
    with ControlPlane(folder, programs=programs) as control_plane:
        _note(folder).write_text(control_plane.access.to_json(), encoding="utf-8")
        os.write(keepers, b"ready")
        os.close(keepers)
        _wait_until_unused(folder)


def _write_into(diary: Path) -> None:
    """What would be seen by nobody goes into a file; and nobody waits for us to close their terminal."""
    with diary.open("w") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())


def _wait_until_unused(folder: Path) -> None:
    """Keeps the lock until this process ends, so that whoever comes now waits and then starts afresh."""
    lease = os.open(_lease(folder), os.O_RDONLY)
    fcntl.flock(lease, fcntl.LOCK_EX)
    _note(folder).unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
