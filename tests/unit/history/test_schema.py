"""Which databases the history uses, which it refuses, and what it then tells people to do."""

from __future__ import annotations

import sqlite3
import sys
import traceback
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql
from alembic.config import Config
from alembic.script import ScriptDirectory

from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.history import History, NewerSchema, PartState, migrate
from fleet.history.storage.database import HistoryDatabase
from fleet.history.storage.schema import REVISIONS
from fleet.history.storage.tables import METADATA, VERSION_TABLE
from tests.databases import recording
from tests.faults.test_history_unavailable import until_available
from tests.unit.history.sources import Fleet, an_attempt, keep

MIGRATIONS = Path(__file__).resolve().parents[3] / "migrations" / "history"


def execute(url: str, *statements: str) -> None:
    database = HistoryDatabase(url)
    with database.writing() as connection:
        for statement in statements:
            connection.execute(sql.text(statement))
    database.close()


def numbers(url: str, query: str) -> int:
    database = HistoryDatabase(url)
    with database.reading() as connection:
        found = connection.execute(sql.text(query)).scalar_one()
    database.close()
    return int(found)


def tables(url: str) -> set[str]:
    database = HistoryDatabase(url)
    with database.reading() as connection:
        found = set(sql.inspect(connection).get_table_names())
    database.close()
    return found


def refusal(url: str) -> str:
    with pytest.raises(ConfigurationError) as refused:
        History.open(url)
    return str(refused.value)


def outage(url: str) -> str:
    """It opens, and is unavailable for this reason; nothing can be read."""
    with closing(History.open(url)) as history:
        reason = history.state().reason
        assert reason
        with pytest.raises(HistoryUnavailable):
            history.attempts("web")
    return reason


def test_every_revision_is_known() -> None:
    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS))
    found = [one.revision for one in ScriptDirectory.from_config(settings).walk_revisions()]
    assert tuple(reversed(found)) == REVISIONS


def test_migrations_make_the_tables_that_queries_name(url: str) -> None:
    migrate(url)
    database = HistoryDatabase(url)
    with database.reading() as connection:
        inspected = sql.inspect(connection)
        made = {
            table: [(one["name"], one["nullable"]) for one in inspected.get_columns(table)]
            for table in inspected.get_table_names()
            if table != VERSION_TABLE
        }
        indexes = {one["name"] for table in made for one in inspected.get_indexes(table)}
    database.close()
    assert made == {
        table.name: [(column.name, bool(column.nullable)) for column in table.columns]
        for table in METADATA.tables.values()
    }
    assert indexes >= {index.name for table in METADATA.tables.values() for index in table.indexes}


def test_migrations_go_up_and_down_and_up_again(url: str) -> None:
    assert migrate(url) == ("base", REVISIONS[-1])
    assert migrate(url, to="base") == (REVISIONS[-1], "base")
    assert tables(url) == {VERSION_TABLE}
    assert migrate(url) == ("base", REVISIONS[-1])
    with recording(url) as history:
        keep(history, an_attempt())
        assert len(history.since(0)) == 1


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_database_of_every_released_revision_opens_once_migrated(url: str, revision: str) -> None:
    migrate(url, to=revision)
    migrate(url)
    History.open(url).close()


def test_migrating_twice_changes_nothing(url: str) -> None:
    with recording(url) as history:
        offered = an_attempt().on(Fleet(a="a"))
        keep(history, offered)
        assert migrate(url) == (REVISIONS[-1], REVISIONS[-1])
        assert history.inputs(offered.told.id) is not None


def test_an_empty_file_is_filled_and_an_empty_server_is_left_to_migrate(url: str, database: str) -> None:
    if database == "sqlite":
        History.open(url).close()
        assert VERSION_TABLE in tables(url)
    else:
        assert "has no tables yet; run: fleet migrate --url" in outage(url)
        assert tables(url) == set()
        History.open(url, may_migrate=True).close()


class BusyCursor(sqlite3.Cursor):
    """Of one that opens a new file at the same moment as another: SQLite answers without waiting."""

    refused = 0

    def execute(self, statement: str, *values: Any) -> Any:
        if "journal_mode" in statement and BusyCursor.refused < 2:
            BusyCursor.refused += 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return super().execute(statement, *values)


class BusyConnection(sqlite3.Connection):
    def cursor(self, factory: Any = BusyCursor) -> Any:
        return super().cursor(factory)


def test_a_new_file_that_another_connection_opens_too_is_opened_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3.dbapi2, "connect", partial(sqlite3.connect, factory=BusyConnection))
    database = HistoryDatabase(f"sqlite:///{tmp_path / 'history.sqlite'}")
    with database.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    database.close()
    assert BusyCursor.refused == 2


def test_the_write_ahead_log_gives_back_what_one_large_transaction_needed(tmp_path: Path) -> None:
    database = HistoryDatabase(f"sqlite:///{tmp_path / 'history.sqlite'}")
    log = tmp_path / "history.sqlite-wal"
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE large (body BLOB)")
        connection.exec_driver_sql("INSERT INTO large VALUES (zeroblob(20000000))")
    assert log.stat().st_size > 20_000_000
    with database.writing() as connection:  # the first commit after a checkpoint begins the log anew
        connection.exec_driver_sql("CREATE TABLE small (body BLOB)")
    assert log.stat().st_size < 5_000_000
    database.close()


def test_a_newer_schema_is_not_touched_and_not_read_until_it_is_gone(url: str) -> None:
    """Decisions go on without it: a rollback must not end them."""
    migrate(url)
    execute(url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with closing(History.open(url)) as history:
        with pytest.raises(HistoryUnavailable, match=r"has revision 9999.*run the version of Fleet that created it"):
            history.attempts("web")
        assert "9999" in history.state().reason
        history.start()
        offered = an_attempt()
        history.offer(offered)
        execute(url, f"UPDATE {VERSION_TABLE} SET version_num = '{REVISIONS[-1]}'")
        assert history.flush(seconds=90)
        until_available(history)
        assert [one.id for one in history.attempts(offered.told.key)] == [offered.told.id]


def test_a_newer_schema_cannot_be_migrated(url: str) -> None:
    migrate(url)
    execute(url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(NewerSchema, match="9999"):
        migrate(url)


def test_an_older_schema_is_refused_until_it_is_migrated(url: str) -> None:
    migrate(url, to="0001")
    assert f"has revision 0001, and this version needs {REVISIONS[-1]}; run: fleet migrate --url" in outage(url)
    migrate(url)
    History.open(url).close()


def test_attempts_from_before_journals_were_by_attempt_lose_what_they_were_decided_on_and_no_more(url: str) -> None:
    with recording(url) as history:
        before = an_attempt().on(Fleet(a="a")).judged().choosing("a")
        keep(history, before)
    light = numbers(url, "SELECT bytes FROM attempts") - numbers(url, "SELECT length(body) FROM attempt_inputs")
    migrate(url, to="0001")
    assert numbers(url, "SELECT bytes FROM attempts") == light
    execute(
        url,
        "UPDATE attempts SET inputs = 'kept', frame_seq = 1, bytes = bytes + 3",
        "INSERT INTO attempt_inputs (seq, body) VALUES (1, 'old')",
        "INSERT INTO sessions (id, started, last_at, dictionary) VALUES ('old', 1, 1, 'old')",
        "INSERT INTO journal (session, seq, cluster, document) VALUES ('old', 1, 'a', 'old')",
    )
    assert migrate(url) == ("0001", REVISIONS[-1])
    assert numbers(url, "SELECT bytes FROM attempts") == light
    with recording(url) as history:
        (found,) = history.since(0)
        assert (found.id, found.inputs, found.columns) == (before.told.id, PartState.EXPIRED, PartState.KEPT)
        assert (history.inputs(found.id), history.columns(found.id)) == (None, before.kept_columns)
        after = an_attempt().on(Fleet(a="a2"))
        keep(history, after)
        recorded = history.inputs(after.told.id)
        assert recorded is not None
        assert recorded.clusters == (b"a2",)


def test_tables_of_something_else_are_refused_and_left_alone(url: str) -> None:
    execute(url, "CREATE TABLE accounts (id INTEGER)")
    assert "contains other tables (accounts)" in outage(url)
    with pytest.raises(ConfigurationError, match="of its own"):
        migrate(url)
    assert tables(url) == {"accounts"}


def test_a_revision_that_fails_leaves_nothing_behind(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(connection: sql.Connection, revision: str) -> None:
        connection.execute(sql.text("CREATE TABLE half (id INTEGER)"))
        raise RuntimeError("the power went")

    monkeypatch.setattr("fleet.history.storage.schema._run", interrupted)
    with pytest.raises(RuntimeError):
        migrate(url)
    assert tables(url) == set()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://fleet:secret@127.0.0.1/history",
        "postgresql://fleet:not/secret@127.0.0.1/history",
        "postgresql://fleet@127.0.0.1/history?password=secret&sslmode=require",
    ],
)
def test_a_password_is_not_shown(url: str) -> None:
    name = HistoryDatabase(url).name
    assert "secret" not in name
    assert "127.0.0.1/history" in name


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("postgresql//fleet:secret@host/x", "is not a URL"),
        ("fleet:secret@host", "is not a URL"),
        ("postgresql://fleet:secret", "is not a URL"),
        ("postgresql://fleet:pass@host:secret/x", "is not a URL"),
        ("postgresql://fleet:my@secret@host/x", "has more than one @; write %40"),
        ("mysql://fleet:secret@host/x", "begins with mysql"),
    ],
)
def test_a_password_in_a_wrong_url_is_not_shown(wrong: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        History.open(wrong)
    told = "".join(traceback.format_exception(refused.value))
    assert "secret" not in told


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("nonsense", "is not a URL; write sqlite:///path/to/file or postgresql://"),
        ("mysql://host/x", "begins with mysql; sqlite and postgresql are supported"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
    ],
)
def test_a_wrong_url_is_told_at_once(wrong: str, said: str) -> None:
    assert said in refusal(wrong)


def test_postgresql_without_its_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "fleet-placement[postgres]" in refusal("postgresql://host/x")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    content = b"not a database, but long enough to be looked at" * 50
    (tmp_path / "x").write_bytes(content)
    assert "not a database" in outage(f"sqlite:///{tmp_path / 'x'}")
    assert (tmp_path / "x").read_bytes() == content


def test_a_folder_that_cannot_be_made_is_an_outage(tmp_path: Path) -> None:
    assert "the file does not exist" in outage("sqlite:////proc/nowhere/x")
    with pytest.raises(HistoryUnavailable, match="the folder /proc/nowhere cannot be made"):
        migrate("sqlite:////proc/nowhere/x")


def test_an_unknown_revision_to_go_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="7777 is not a revision of the history"):
        migrate(f"sqlite:///{tmp_path / 'x'}", to="7777")


def test_migrating_what_cannot_be_reached_says_so() -> None:
    with pytest.raises(HistoryUnavailable, match="cannot be migrated"):
        migrate("postgresql://fleet@127.0.0.1:1/x")


def test_the_file_can_be_read_by_other_programs_while_it_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with recording(f"sqlite:///{path}") as history:
        keep(history, an_attempt())
        with sqlite3.connect(path) as other:
            assert other.execute("SELECT count(*) FROM attempts").fetchone() == (1,)
        other.close()


def test_a_new_file_is_for_its_owner_only_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "history.sqlite"
    migrate(f"sqlite:///{path}")
    for mode in (0o600, 0o640):
        with recording(f"sqlite:///{path}") as history:
            keep(history, an_attempt())
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert modes == dict.fromkeys((path.name, f"{path.name}-wal", f"{path.name}-shm"), mode)
        path.chmod(0o640)  # by an operator, for another account that reads it
    assert path.parent.stat().st_mode & 0o777 == 0o700
