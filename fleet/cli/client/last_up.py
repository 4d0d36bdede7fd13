"""Which `fleet up` of this user is alive, and how to get into it, so that questions need no address.

Each of them leaves a small file under the user's state directory and holds a lock on it for as long as it lives: a
process that was killed cannot tidy up, but it cannot hold a lock either.
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
class Announced:
    api: str
    token_file: str
    kubeconfig: str


@contextlib.contextmanager
def announced(one: Announced, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Others find it within this context. Where nothing can be written they have to be told the address."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(_written(one, _folder(environ)))
        yield


def latest(environ: Mapping[str, str] = os.environ) -> Announced | None:
    """The one that was started last among those that are alive."""
    try:
        files = sorted(_folder(environ).glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    except OSError:
        return None
    return next((found for path in files if (found := _read(path)) is not None), None)


def _folder(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path.home() / ".local" / "state") / "fleet" / "up"


@contextlib.contextmanager
def _written(one: Announced, folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _sweep(folder)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
    path = folder / f"{os.getpid()}.json"
    with os.fdopen(descriptor, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # before it gets its name: whoever finds it unlocked takes it for a left-over
        json.dump(asdict(one), file)
        file.flush()
        Path(temporary).replace(path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """What killed processes left behind."""
    for path in folder.glob("*.json"):
        with path.open() as file:
            is_held = _is_held(file)
        if not is_held:
            path.unlink(missing_ok=True)


def _read(path: Path) -> Announced | None:
    try:
        with path.open() as file:
            return Announced(**json.load(file)) if _is_held(file) else None
    except (OSError, ValueError, TypeError):
        return None


def _is_held(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
