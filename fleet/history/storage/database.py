"""Connections to the database of the history: SQLite in a file, or PostgreSQL, by URL and with the same queries.

A wrong URL is an error at once. An unreachable database is not: it may recover. A SQLite file that was removed or
replaced is noticed when a connection is used, and reading never creates one.
"""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import sqlalchemy as sql

from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.private_files import create_private_directory, create_private_file
from fleet.settings.secrets import redact

T = TypeVar("T")

_POSTGRES: Final = "postgresql"
_SECONDS_TO_CONNECT: Final = 5
_SESSION: Final = (
    "-c statement_timeout=30000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=60000 -c timezone=UTC"
)
_HOST_SILENT: Final = 20  # seconds until a connection to an unresponsive host is dropped
_BUSY_MILLISECONDS: Final = 2000
_LARGEST_WAL: Final = 4 * 1024 * 1024
"""Bytes that the write-ahead log keeps after a checkpoint: a round of retention may need more for a moment."""
_BUSY_PAUSE: Final = 0.01
_INCREMENTAL: Final = 2
_IMMEDIATE: Final = "fleet_immediate"
_NO_URL: Final = (
    "history.url is not a URL; write sqlite:///path/to/file or postgresql://user@host:5432/database, and %3A, "
    "%2F and %40 for each :, / and @ in a password"
)
_UNAVAILABLE: Final = (
    sql.exc.DBAPIError,
    sql.exc.TimeoutError,
    HistoryUnavailable,
    OSError,
    ConfigurationError,  # the schema is unknown
)


class HistoryDatabase:
    def __init__(self, url: str) -> None:
        """Does not connect. Raises ConfigurationError on a URL that cannot be used."""
        self.url = _parse_url(url)
        self.is_postgres = self.url.get_backend_name() == _POSTGRES
        plain = self.url.set(drivername=self.url.get_backend_name())
        self.name = str(redact("", plain.render_as_string(hide_password=True)))
        """For messages."""
        self.unreadable = ""
        """If not empty, why reads are refused: tables of another revision may have another meaning."""
        self.generation = 0
        """Differs after a SQLite file was replaced by another one."""
        self._file: tuple[int, int] | None = None
        self._engine = self._create_engine()
        self._probes = self._create_engine(poolclass=sql.NullPool)

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A read transaction: all queries see the same state of the database."""
        if self.unreadable:
            raise HistoryUnavailable(self.unreadable)
        with self._open_read(self._engine) as connection:
            yield connection

    @contextmanager
    def probing(self) -> Iterator[sql.Connection]:
        """A read transaction in a connection of its own, which sees the file and the server as they are now. Any schema
        is accepted."""
        with self._open_read(self._probes) as connection:
            yield connection

    @contextmanager
    def _open_read(self, engine: sql.Engine) -> Iterator[sql.Connection]:
        options = {"isolation_level": "REPEATABLE READ"} if self.is_postgres else {}
        with self._translate_errors():
            self._require_file()
            with engine.connect().execution_options(**options) as connection, connection.begin():
                yield connection

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """A write transaction. SQLAlchemy's errors are passed on: the writer distinguishes them."""
        with self._engine.connect().execution_options(**{_IMMEDIATE: True}) as connection, connection.begin():
            yield connection

    def check_writable(self) -> None:
        """Raises HistoryUnavailable if a write transaction cannot begin: another one does not end, or nothing may be
        written."""
        with (
            self._translate_errors("written"),
            self._probes.connect().execution_options(**{_IMMEDIATE: True}) as connection,
            connection.begin(),
        ):
            if self.is_postgres and connection.exec_driver_sql("SHOW transaction_read_only").scalar() == "on":
                raise HistoryUnavailable(f"the history {self.name} cannot be written: the server is read-only")

    def shrink(self) -> None:
        """Give free pages of a SQLite file back to the disk."""
        connection = self._engine.raw_connection()
        try:
            cast(sqlite3.Cursor, connection.cursor()).executescript(
                "PRAGMA incremental_vacuum"
            )  # a script runs to its end, page by page
        finally:
            connection.close()

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _translate_errors(self, verb: str = "read") -> Iterator[None]:
        try:
            yield
        except (sql.exc.SQLAlchemyError, OSError) as error:
            raise HistoryUnavailable(f"the history {self.name} cannot be {verb}: {reason_of(error)}") from error

    def _create_engine(self, **options: Any) -> sql.Engine:
        if self.is_postgres:
            return _postgres(self.url, **options)
        engine = _sqlite(self.url, **options)
        sql.event.listen(engine, "connect", self._note_file)
        sql.event.listen(engine, "checkout", self._check_file)
        return engine

    # --- the SQLite file ----------------------------------------------------------------------------------------------

    @property
    def _path(self) -> Path:
        return Path(str(self.url.database))

    def _require_file(self) -> None:
        if not self.is_postgres and not self._path.exists():
            raise HistoryUnavailable(f"the history {self.name} cannot be read: the file does not exist")

    def _note_file(self, _connection: object, record: Any) -> None:
        file = record.info["file"] = self._identify_file()
        if file != self._file:
            self.generation += self._file is not None
            self._file = file

    def _check_file(self, _connection: object, record: Any, _proxy: object) -> None:
        """A connection to a file that was removed or replaced writes where it is lost."""
        if record.info.get("file") != self._identify_file():
            raise sql.exc.InvalidatePoolError

    def _identify_file(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino


def call_within(seconds: float, work: Callable[[], T]) -> T:
    """Calls it in a thread of its own, which is abandoned if it takes longer: a file on a disk that hangs cannot be
    given up in any other way."""
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(work())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="fleet-history-call", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise HistoryUnavailable(f"the history has not answered for {seconds:g} s")
    return results[0]


def reason_of(error: BaseException) -> str:
    """The error message of the database, on one line and without the statement."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split()) or type(cause).__name__


def is_unavailable(error: BaseException) -> bool:
    """Whether the database, and not the data to be written, caused the error."""
    if isinstance(error, sql.exc.IntegrityError | sql.exc.DataError):
        return False
    return isinstance(error, _UNAVAILABLE)


def _parse_url(url: str) -> sql.URL:
    """No error contains the URL, because a password could be anywhere in it."""
    try:
        read = sql.make_url(url)
    except (sql.exc.ArgumentError, ValueError):
        raise ConfigurationError(_NO_URL) from None
    if "@" in (read.host or ""):
        raise ConfigurationError("history.url has more than one @; write %40 for each in the user's name or password")
    backend = read.get_backend_name()
    if backend == _POSTGRES:
        if importlib.util.find_spec("psycopg") is None:
            raise ConfigurationError(
                "history.url names a PostgreSQL database, and psycopg is not installed; "
                "install it with: pip install 'fleet-placement[postgres]'"
            )
        return read.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ConfigurationError(f"history.url begins with {backend}; sqlite and postgresql are supported")
    if read.database in (None, "", ":memory:"):
        raise ConfigurationError("history.url names no file; write sqlite:///path/to/file")
    return read


# --- SQLite -----------------------------------------------------------------------------------------------------------


def _sqlite(url: sql.URL, **options: Any) -> sql.Engine:
    pool = options or {"pool_size": 4}
    engine = sql.create_engine(url, connect_args={"timeout": _BUSY_MILLISECONDS / 1000}, **pool)
    sql.event.listen(engine, "do_connect", lambda *_: _prepare_file(Path(str(url.database))))
    sql.event.listen(engine, "connect", _configure)
    sql.event.listen(engine, "begin", _begin)
    return engine


def _prepare_file(path: Path) -> None:
    """A new file is for its owner only, and so are its log and its shared memory, which get the same mode."""
    try:
        create_private_directory(path.parent)
    except OSError as error:
        raise HistoryUnavailable(
            f"history.url: the folder {path.parent} cannot be made: {error.strerror}; choose another"
        ) from error
    if not path.exists():
        with suppress(OSError):  # SQLite has the better error
            create_private_file(path)


def _configure(connection: Any, _record: object) -> None:
    """synchronous=NORMAL: a power failure may lose the last transactions, but does not corrupt the file."""
    connection.isolation_level = None  # `_begin` begins transactions, also before DDL statements
    cursor = connection.cursor()
    if cursor.execute("PRAGMA auto_vacuum").fetchone() != (_INCREMENTAL,):
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")  # waits for other writers, whatever it was before
    _enable_wal(cursor)
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute(f"PRAGMA journal_size_limit={_LARGEST_WAL}")
    cursor.close()


def _enable_wal(cursor: sqlite3.Cursor) -> None:
    """SQLite does not wait where two connections to a new file do this at the same time: one of them fails at once."""
    until = time.monotonic() + _BUSY_MILLISECONDS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
            time.sleep(_BUSY_PAUSE)


def _begin(connection: sql.Connection) -> None:
    immediate = connection.get_execution_options().get(_IMMEDIATE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def _postgres(url: sql.URL, **options: Any) -> sql.Engine:
    arguments = {
        "connect_timeout": _SECONDS_TO_CONNECT,
        "options": _SESSION,
        "application_name": "fleet-history",
        "tcp_user_timeout": _HOST_SILENT * 1000,
        "keepalives_idle": _HOST_SILENT,
    }
    given = {name: value for name, value in arguments.items() if name not in url.query}
    pool = options or {"pool_size": 4, "pool_pre_ping": True}
    engine = sql.create_engine(url, connect_args=given, **pool)
    sql.event.listen(engine, "do_connect", _connect_with_deadline)
    return engine


def _connect_with_deadline(_dialect: object, _record: object, arguments: Any, options: Any) -> object:
    from fleet.history.storage.postgres import DeadlineConnection  # psycopg is an optional dependency

    return DeadlineConnection.connect(*arguments, **options)
