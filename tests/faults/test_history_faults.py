"""Twelve faults of the history, at the start, under way and at the end: none keeps anything else from working."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sql

from fleet.cli.commands.serve.migrate import run_migrate
from fleet.history import History, migrate
from fleet.history.history import MonitorTiming
from fleet.history.storage import database
from fleet.history.storage.schema import REVISIONS
from fleet.recorder.recorder import run_history
from tests.databases import SOON
from tests.e2e.world import configured, soon
from tests.faults.history_stage import staged
from tests.unit.history.sources import an_attempt

pytestmark = pytest.mark.timeout(300)

LOOKS: Final = MonitorTiming(interval=0.05)
IMPATIENT: Final = MonitorTiming(interval=0.05, patience=0.1)
PAGE: Final = "/v1/placements/-/web/history"
EACH_KIND: Final = ("damaged pages", "locked", "full", "unreachable", "hung")
NOT_A_DATABASE: Final = b"a letter to the operator, longer than a header. " * 400


# --- faults -----------------------------------------------------------------------------------------------------------


class Disk:
    """What every transaction of this process meets: in its `mode` there is no room, no right to write, or no answer."""

    def __init__(self) -> None:
        self.mode = ""
        self.answers = threading.Event()
        self.answers.set()

    @contextmanager
    def silent(self) -> Iterator[None]:
        """No transaction begins in here: what happens all the same does not wait for the history."""
        was_set = self.answers.is_set()
        self.answers.clear()
        try:
            yield
        finally:
            if was_set:
                self.answers.set()

    def begin(self, connection: sql.Connection) -> None:
        if self.mode == "slow":
            time.sleep(0.05)
        self.answers.wait()
        is_write = connection.get_execution_options().get(database._IMMEDIATE)
        if self.mode == "full" and is_write:
            raise sql.exc.OperationalError("BEGIN", {}, sqlite3.OperationalError("database or disk is full"))
        BEGIN(connection)
        connection.exec_driver_sql(f"PRAGMA query_only = {int(self.mode == 'read-only')}")


BEGIN: Final = database._begin


@contextmanager
def mode(disk: Disk, _: Path, name: str) -> Iterator[None]:
    disk.mode = name
    try:
        yield
    finally:
        disk.mode = ""


@contextmanager
def hung(disk: Disk, _: Path) -> Iterator[None]:
    disk.answers.clear()
    try:
        yield
    finally:
        disk.answers.set()


@contextmanager
def locked(_: Disk, path: Path) -> Iterator[None]:
    path.parent.mkdir(exist_ok=True)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


@contextmanager
def with_content(content: Callable[[Path], None], path: Path) -> Iterator[None]:
    """The file has other content. To end it, an operator moves it away."""
    settle(path)
    path.parent.mkdir(exist_ok=True)
    content(path)
    yield
    take_away(path.parent)


def settle(path: Path) -> None:
    """What is in the log of the database is in its file."""
    if path.exists():
        other = sqlite3.connect(path, timeout=60)
        while other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            pass
        other.close()


def write_letter(path: Path) -> None:
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(NOT_A_DATABASE)


def write_noise(path: Path) -> None:
    with path.open("r+b" if path.exists() else "wb") as file:
        size = max(file.seek(0, os.SEEK_END), 20_000)
        file.seek(0)
        file.write(os.urandom(size))


def damage_pages(path: Path) -> None:
    """All but the first one."""
    if not path.exists():
        migrate(f"sqlite:///{path}")
        settle(path)
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))


@contextmanager
def removed(_: Disk, path: Path) -> Iterator[None]:
    if path.parent.exists():
        take_away(path.parent)
    yield


def take_away(folder: Path) -> None:
    """In one step, as who looks at it meanwhile makes it again."""
    away = folder.with_name("taken-away")
    folder.rename(away)
    shutil.rmtree(away)


@contextmanager
def unreachable(_: Disk, path: Path) -> Iterator[None]:
    """The volume is gone, and its folder cannot be made."""
    away = path.parent.with_name("away")
    if path.parent.exists():
        path.parent.rename(away)
    path.parent.write_text("in the way")
    try:
        yield
    finally:
        path.parent.unlink()
        while away.exists():
            try:
                away.rename(path.parent)
            except OSError:
                take_away(path.parent)  # which a look has made meanwhile


@contextmanager
def newer(_: Disk, path: Path) -> Iterator[None]:
    if not path.exists():
        migrate(f"sqlite:///{path}")
    revision = REVISIONS[-1]
    set_revision(path, "9999")
    try:
        yield
    finally:
        set_revision(path, revision)


@contextmanager
def foreign(_: Disk, path: Path) -> Iterator[None]:
    with with_content(make_foreign, path):
        yield


def set_revision(path: Path, revision: str) -> None:
    with sqlite3.connect(path, timeout=60) as other:
        other.execute("UPDATE history_version SET version_num = ?", (revision,))
    other.close()


def make_foreign(path: Path) -> None:
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE accounts (id INTEGER)")
    other.close()


@dataclass(frozen=True)
class Fault:
    begin: Callable[[Disk, Path], AbstractContextManager[None]]
    is_told: bool = True
    """Whether it lasts until it is ended, so that it is told meanwhile."""
    looks: MonitorTiming = LOOKS


FAULTS: Final = {
    "not a database": Fault(lambda disk, path: with_content(write_letter, path)),
    "overwritten": Fault(lambda disk, path: with_content(write_noise, path)),
    "damaged pages": Fault(lambda disk, path: with_content(damage_pages, path)),
    "other tables": Fault(foreign),
    "newer": Fault(newer),
    "locked": Fault(locked),
    "full": Fault(lambda disk, path: mode(disk, path, "full")),
    "read-only": Fault(lambda disk, path: mode(disk, path, "read-only")),
    "removed": Fault(removed, is_told=False),
    "unreachable": Fault(unreachable),
    "hung": Fault(hung, looks=IMPATIENT),
    "slow": Fault(lambda disk, path: mode(disk, path, "slow"), is_told=False),
}


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    found, others = Disk(), set(threading.enumerate())
    monkeypatch.setattr(database, "_begin", found.begin)
    monkeypatch.setattr(database, "_BUSY_MILLISECONDS", 50)
    yield found
    found.answers.set()
    for thread in set(threading.enumerate()) - others:
        if not thread.name.startswith(("fleet-history-reader", "evaluations", "decisions")):  # these wait for work
            thread.join(60)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "volume" / "history.sqlite"


@pytest.fixture(params=list(FAULTS))
def fault(request: pytest.FixtureRequest) -> Fault:
    return FAULTS[request.param]


@pytest.fixture(
    params=[name if name in EACH_KIND else pytest.param(name, marks=pytest.mark.servers) for name in FAULTS]
)
def kind_of_fault(request: pytest.FixtureRequest) -> Fault:
    """Wrong content, no right to write, no room, no file, or no answer; with the servers, every fault of each kind."""
    return FAULTS[request.param]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


# --- at the start, under way, at the end ------------------------------------------------------------------------------


def test_a_fault_at_the_start_keeps_nothing_from_starting(kind_of_fault: Fault, disk: Disk, path: Path) -> None:
    fault = kind_of_fault

    async def scene() -> None:
        with fault.begin(disk, path):
            async with staged(f"sqlite:///{path}", fault.looks) as stage:
                with disk.silent():
                    await stage.place("web")
                if fault.is_told:
                    await soon(stage.is_told)
                await stage.answers("web")

    run(scene())


async def is_available(history: History) -> bool:
    return history.state().unavailable_since is None


def test_a_process_starts_before_a_history_that_hangs_is_given_up(disk: Disk, path: Path) -> None:
    async def scene() -> None:
        async with run_history(configured(f"history.url=sqlite:///{path}")) as opened:
            assert opened is not None
            assert opened.state().unavailable_since is None
            disk.answers.set()
            opened.offer(an_attempt())
            assert await asyncio.to_thread(opened.flush, seconds=SOON)
            await soon(lambda: is_available(opened))  # it may have been looked at before it had tables
            assert len(await asyncio.to_thread(opened.since, 0)) == 1

    disk.answers.clear()
    run(scene())


def test_a_fault_under_way_costs_no_decision_and_ends_by_itself(fault: Fault, disk: Disk, path: Path) -> None:
    async def scene() -> None:
        async with staged(f"sqlite:///{path}", fault.looks) as stage:
            await stage.place("before")
            await soon(lambda: stage.is_recorded("before"))
            await soon(stage.is_fine)
            with fault.begin(disk, path):
                with disk.silent():
                    await stage.place("web")
                if fault.is_told:
                    await soon(stage.is_told)
                await stage.answers("web")
            with disk.silent():
                await stage.place("after")
            await soon(lambda: stage.is_recorded("web", "after"))
            await soon(stage.is_fine)
            assert {"web", "after"} <= await asyncio.to_thread(read_keys, path)

    run(scene())


def read_keys(path: Path) -> set[str]:
    """Of the attempts that another process would find."""
    with closing(History.open(f"sqlite:///{path}")) as reader:
        return {attempt.key for attempt in reader.since(0)}


def test_a_page_says_that_it_may_lag_while_decisions_cannot_be_recorded(disk: Disk, path: Path) -> None:
    async def scene() -> None:
        async with staged(f"sqlite:///{path}", LOOKS) as stage:
            await stage.place("web")
            await soon(lambda: stage.is_recorded("web"))
            await soon(stage.is_fine)
            assert not (await stage.get(PAGE)).json()["mayLag"]
            with mode(disk, path, "full"):
                await stage.place("other")
                await soon(stage.is_told)
                page = await stage.get(PAGE)
                assert (page.status_code, page.json()["mayLag"], len(page.json()["items"])) == (200, True, 1)

    run(scene())


def test_a_fault_at_the_end_keeps_nothing_from_ending(kind_of_fault: Fault, disk: Disk, path: Path) -> None:
    fault = kind_of_fault

    async def scene() -> None:
        async with staged(f"sqlite:///{path}", fault.looks) as stage:
            await stage.place("before")
            await soon(lambda: stage.is_recorded("before"))
            with_fault.enter_context(fault.begin(disk, path))
            with disk.silent():
                await stage.place("web")
        assert not stage.controller.is_working

    with ExitStack() as with_fault:
        run(scene())


def test_the_init_container_lets_the_controller_start(
    fault: Fault, disk: Disk, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.cli.commands.serve.migrate._PATIENCE", 0.2)
    with fault.begin(disk, path):
        url = f"sqlite:///{path}"
        assert run_migrate(url=url, to="", unless_newer=False, best_effort=True, config=None, settings=()) == 0
