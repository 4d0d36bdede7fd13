"""A database that is locked, full or away costs the history its moments, never the scheduler a decision."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sql

from fleet.errors import HistoryUnavailable
from fleet.history import History, migrate, writer
from fleet.history.history import MonitorTiming, WriterTiming
from tests.databases import HASTY, OFTEN, SOON, recording
from tests.postgres import Postgres, postgres
from tests.unit.history.sources import Fleet, an_attempt, ids, keep

__all__ = ["postgres"]

MOMENT = 0.01  # seconds between two looks at something that is about to happen
Trouble = Callable[[], None]


@contextmanager
def locked(path: Path) -> Iterator[Trouble]:
    """Somebody else writes, and does not end. Gives what ends it."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield other.commit
    finally:
        other.close()


@contextmanager
def away(server: Postgres, url: str) -> Iterator[Trouble]:
    """The database is not there. Gives what brings it back."""
    name = url.rpartition("/")[2]
    server.disconnect(name)
    server.execute(f'ALTER DATABASE "{name}" RENAME TO "{name}_away"')
    came_back = []

    def come_back() -> None:
        came_back.append(True)
        server.execute(f'ALTER DATABASE "{name}_away" ALLOW_CONNECTIONS true')
        server.execute(f'ALTER DATABASE "{name}_away" RENAME TO "{name}"')

    try:
        yield come_back
    finally:
        if not came_back:
            come_back()


@contextmanager
def locked_table(url: str) -> Iterator[Trouble]:
    """Somebody else holds what every writer needs. Gives what lets go of it."""
    with psycopg.connect(url) as other:
        other.execute("LOCK TABLE counters IN ACCESS EXCLUSIVE MODE")
        yield other.commit


@contextmanager
def full_server(url: str) -> Iterator[Trouble]:
    """The server refuses new attempts as it does when its disk is full. Gives what makes room."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$"
        )
        other.execute("CREATE TRIGGER full_disk BEFORE INSERT ON attempts EXECUTE FUNCTION no_room()")

        def make_room() -> None:
            other.execute("DROP TRIGGER full_disk ON attempts")

        yield make_room


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


@pytest.fixture
def url(file: Path) -> str:
    return f"sqlite:///{file}"


def until_unavailable(history: History) -> None:
    while history.state().unavailable_since is None:
        history.flush(seconds=MOMENT)


def until_available(history: History) -> None:
    deadline = time.monotonic() + SOON
    while history.state().unavailable_since is not None:
        assert time.monotonic() < deadline, history.state().reason
        history.flush(seconds=MOMENT)
        time.sleep(MOMENT)


def check_recovers(history: History, trouble: Callable[[], Iterator[Trouble]]) -> None:
    """What was offered before, meanwhile and afterwards is there in the end, each once and with its inputs."""
    fleet = Fleet(a="a0")
    offered = [an_attempt("before").on(fleet)]
    keep(history, *offered)
    with contextmanager(trouble)() as end:
        for number in range(3):
            fleet.change(a=f"a{number + 1}")
            offered.append(an_attempt(f"meanwhile-{number}").on(fleet))
            history.offer(offered[-1])
        until_unavailable(history)
        assert history.state().reason
        assert history.counts().waiting == 3
        end()
        assert history.flush(seconds=SOON)
    keep(history, *offered[4:])
    until_available(history)
    assert [one.id for one in history.since(0)] == ids(*offered)
    fleets = [history.inputs(one.told.id) for one in offered]
    assert [one and one.clusters for one in fleets] == [(f"a{number}".encode(),) for number in range(4)]
    assert history.counts().failed == 0


def test_a_locked_file_is_waited_for(url: str, file: Path) -> None:
    with recording(url) as history:

        def trouble() -> Iterator[Trouble]:
            with locked(file) as end:
                yield end

        check_recovers(history, trouble)


def test_a_locked_file_is_noticed_while_there_is_nothing_to_write(url: str, file: Path) -> None:
    with recording(url, looks=MonitorTiming(interval=3600)) as history:
        keep(history, an_attempt("before"))
        with locked(file):
            assert "cannot be written: database is locked" in history._monitor.look().reason
        assert history._monitor.look().unavailable_since is None


def test_questions_are_answered_while_another_process_writes(url: str, file: Path) -> None:
    """A round of retention may take longer than a look waits."""
    before = an_attempt("before")
    with recording(url) as history:
        keep(history, before)
    reading = History.open(url)
    try:
        with locked(file):
            assert reading.state().unavailable_since is None
            assert [each.id for each in reading.since(0)] == ids(before)
    finally:
        reading.close()


def test_a_removed_file_is_missed_by_questions_and_not_made_by_them(url: str, file: Path) -> None:
    with recording(url) as history:
        keep(history, an_attempt("before"))
    reading = History.open(url)
    try:
        for path in file.parent.iterdir():
            path.unlink()
        with pytest.raises(HistoryUnavailable, match="the file does not exist"):
            reading.since(0)
        assert list(file.parent.iterdir()) == []
    finally:
        reading.close()


def test_a_look_that_began_before_the_end_of_an_outage_marks_none(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it failed with is over: a batch was written meanwhile."""
    with recording(url, looks=MonitorTiming(interval=3600)) as history:
        keep(history, an_attempt("before"))
        check, fails = history._database.check_writable, [True]

        def check_after_a_batch() -> None:
            if fails.pop() if fails else False:
                keep(history, an_attempt("meanwhile"))
                raise HistoryUnavailable("locked")
            check()

        monkeypatch.setattr(history._database, "check_writable", check_after_a_batch)
        assert history._monitor.look().unavailable_since is None
        assert not fails


def test_a_full_disk_is_waited_for(url: str) -> None:
    with recording(url) as history:
        limit = ["1000000"]
        engine = history._database._engine

        @sql.event.listens_for(engine, "begin")
        def _only_so_many_pages(connection: sql.Connection) -> None:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {limit[0]}").fetchall()

        def trouble() -> Iterator[Trouble]:
            limit[0] = "1"
            filler = an_attempt("big")
            noise = bytes(range(256)) * 400
            history.offer(filler.on(Fleet(x=noise.hex())))
            until_unavailable(history)
            assert "full" in history.state().reason
            limit[0] = "1000000"
            assert history.flush(seconds=SOON)
            yield lambda: None

        with contextmanager(trouble)() as end:
            end()
        until_available(history)
        assert [one.key for one in history.since(0)] == ["big"]


def test_a_server_that_is_away_is_waited_for(postgres: Postgres) -> None:
    with postgres.database() as url, recording(url) as history:

        def trouble() -> Iterator[Trouble]:
            with away(postgres, url) as end:
                yield end

        check_recovers(history, trouble)


def test_a_locked_table_is_waited_for(postgres: Postgres) -> None:
    with postgres.database() as url, recording(f"{url}?options=-c%20lock_timeout%3D50") as history:

        def trouble() -> Iterator[Trouble]:
            with locked_table(url) as end:
                yield end

        check_recovers(history, trouble)


def test_a_server_whose_disk_is_full_is_waited_for(postgres: Postgres) -> None:
    with postgres.database() as url, recording(url) as history:

        def trouble() -> Iterator[Trouble]:
            with full_server(url) as end:
                yield end

        check_recovers(history, trouble)


def test_questions_say_that_there_is_nobody_to_answer(postgres: Postgres) -> None:
    with postgres.database() as url, recording(url, looks=OFTEN) as history:
        keep(history, an_attempt())
        with away(postgres, url), pytest.raises(HistoryUnavailable, match="cannot be read"):
            history.since(0)
        until_available(history)
        assert len(history.since(0)) == 1


def test_a_server_that_is_away_at_the_start_is_no_reason_not_to_start(postgres: Postgres) -> None:
    with postgres.database() as url:
        migrate(url)
        with away(postgres, url) as come_back:
            history = History.open(url, pace=HASTY)
            assert history.state().unavailable_since is not None
            history.start()
            history.offer(an_attempt())
            come_back()
        assert history.flush(seconds=SOON)
        until_available(history)
        assert len(history.since(0)) == 1
        history.close()


def test_a_server_that_nobody_migrated_while_it_was_away_says_so(postgres: Postgres) -> None:
    with postgres.database() as url:
        with away(postgres, url):
            history = History.open(url, pace=HASTY)
        history.start()
        history.offer(an_attempt())
        while "fleet migrate" not in history.state().reason:
            history.flush(seconds=MOMENT)
        migrate(url)
        assert history.flush(seconds=SOON)
        assert len(history.since(0)) == 1
        history.close()


def test_what_waits_for_a_locked_file_is_shed_and_what_changed_something_is_kept(url: str, file: Path) -> None:
    with recording(url, memory_mib=1) as history:
        loud = [an_attempt(f"loud-{number}").judged().weighing(300_000, 250_000) for number in range(6)]
        quiet = [an_attempt(f"quiet-{number}").unchanged().weighing(300_000, 250_000) for number in range(6)]
        with locked(file) as end:
            history.offer(an_attempt("first"))
            until_unavailable(history)
            for one, other in zip(loud, quiet, strict=True):
                history.offer(one)
                history.offer(other)
            end()
            assert history.flush(seconds=SOON)
        kept = {one.id for one in history.since(0)}
        assert kept >= set(ids(*loud))
        counts = history.counts()
        assert counts.shed_attempts == 13 - len(kept) > 0
        assert counts.offered == counts.written + counts.shed_attempts


def test_the_end_does_not_wait_for_ever(url: str, file: Path) -> None:
    with recording(url) as history, locked(file):
        for number in range(5):
            history.offer(an_attempt(f"p{number}"))
        until_unavailable(history)
        history.close(seconds=0.05)
        assert history.counts().failed == 5


def test_the_end_does_not_keep_the_processor_busy_with_a_database_that_is_away(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refused(*_: object, **__: object) -> None:
        tried.append(history._buffer.is_closed)
        raise sql.exc.OperationalError("SELECT 1", {}, ConnectionRefusedError("nobody there"))

    with recording(url, pace=WriterTiming(linger=0.0, burst=0.0, retry=0.1)) as history:
        monkeypatch.setattr(writer, "ensure_schema", refused)
        history.offer(an_attempt())
        until_unavailable(history)
        history.close(seconds=0.5)
        assert tried.count(True) <= 7
