"""Discovery of the user's running `fleet up`, so that commands need no address.

Each `fleet up` writes a small file under the user's state directory and locks it while it runs. A killed process leaves
the file behind, but not the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO


@dataclass(frozen=True, slots=True, kw_only=True)
class UpInstance:
    api: str
    token_file: str
    kubeconfig: str


@contextlib.contextmanager
def announce(instance: UpInstance, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Make the instance discoverable within this context. If the file cannot be written, it is not discoverable."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(_write_announcement(instance, _folder(environ)))
        yield


def find_latest_up(environ: Mapping[str, str] = os.environ) -> UpInstance | None:
    """The most recently started instance that is still running."""
    return next(list_running(environ), None)


def list_running(environ: Mapping[str, str] = os.environ) -> Iterator[UpInstance]:
    """The instances that are still running, the most recently started first."""
    try:
        files = sorted(_folder(environ).glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    except OSError:
        return
    yield from (instance for path in files if (instance := _read_announcement(path)) is not None)


def _folder(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "fleet" / "up"


@contextlib.contextmanager
def _write_announcement(instance: UpInstance, folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove_stale(folder)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
    path = folder / f"{os.getpid()}.json"
    with os.fdopen(descriptor, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # before the rename: an unlocked file counts as stale
        json.dump(asdict(instance), file)
        file.flush()
        Path(temporary).replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _remove_stale(folder: Path) -> None:
    """Remove the files of killed processes."""
    for path in folder.glob("*.json"):
        with path.open() as file:
            is_held = _is_held(file)
        if not is_held:
            path.unlink(missing_ok=True)


def _read_announcement(path: Path) -> UpInstance | None:
    try:
        with path.open() as file:
            return UpInstance(**json.load(file)) if _is_held(file) else None
    except (OSError, ValueError, TypeError):
        return None


def _is_held(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
