"""Every test of the history runs on both databases: it asks for `url`, an empty one, or for `history`, one in use."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fleet.history import History, migrate
from fleet.history.history import MonitorTiming, WriterTiming
from tests.postgres import Postgres, postgres

__all__ = ["database", "history", "open_history", "postgres", "url"]

HASTY = WriterTiming(linger=0.0, burst=0.0, retry=0.01)
"""Nobody waits in tests."""
OFTEN = MonitorTiming(interval=0.02)
SOON = 90.0
"""Seconds until a busy machine has surely done it."""

OpenHistory = Callable[..., History]


def fill(url: str) -> str:
    """Migrate an empty database. A new SQLite file is a copy of one that was migrated: most tests take less time than
    the migrations."""
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:") and not path.exists():
        path.write_bytes(_read_migrated())
    else:
        migrate(url)
    return url


@functools.cache
def _read_migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        migrate(f"sqlite:///{path}")
        return path.read_bytes()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database."""
    if database == "sqlite":
        yield f"sqlite:///{tmp_path / 'history.sqlite'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.database() as found:
        yield found


@pytest.fixture
def open_history(url: str) -> Iterator[OpenHistory]:
    """Opens it, as often as wanted, ready to record."""
    opened: list[History] = []
    fill(url)

    def open_it(*, started: bool = True, **options: Any) -> History:
        one = History.open(url, **{"pace": HASTY, **options})
        opened.append(one)
        if started:
            one.start()
        return one

    yield open_it
    for one in opened:
        one.close()


@pytest.fixture
def history(open_history: OpenHistory) -> History:
    return open_history()


@contextmanager
def recording(url: str, **options: Any) -> Iterator[History]:
    """For tests that cannot use fixtures, such as properties."""
    fill(url)
    one = History.open(url, **{"pace": HASTY, **options})
    one.start()
    try:
        yield one
    finally:
        one.close()
