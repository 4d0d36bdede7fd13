"""Connections to the database of the history: SQLite in a file, or PostgreSQL, by URL and with the same queries.

A wrong URL is an error at once. An unreachable database is not: it may recover.
"""

from __future__ import annotations

import importlib.util
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import sqlalchemy as sql

from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.settings.secrets import redact

_POSTGRES: Final = "postgresql"
_SECONDS_TO_CONNECT: Final = 5
_SESSION: Final = (
    "-c statement_timeout=30000 -c lock_timeout=10000 -c idle_in_transaction_session_timeout=60000 -c timezone=UTC"
)
_HOST_SILENT: Final = 20  # seconds until a connection to an unresponsive host is dropped
_BUSY_MILLISECONDS: Final = 2000
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
        self._engine = _postgres(self.url) if self.is_postgres else _sqlite(self.url)

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A read transaction: all queries see the same state of the database."""
        if self.unreadable:
            raise HistoryUnavailable(self.unreadable)
        options = {"isolation_level": "REPEATABLE READ"} if self.is_postgres else {}
        with (
            self._translate_errors(),
            self._engine.connect().execution_options(**options) as connection,
            connection.begin(),
        ):
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """A write transaction. SQLAlchemy's errors are passed on: the writer distinguishes them."""
        with self._engine.connect().execution_options(**{_IMMEDIATE: True}) as connection, connection.begin():
            yield connection

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
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sql.exc.SQLAlchemyError as error:
            raise HistoryUnavailable(f"the history {self.name} cannot be read: {reason_of(error)}") from error


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


def _sqlite(url: sql.URL) -> sql.Engine:
    _make_folder(Path(str(url.database)))
    engine = sql.create_engine(url, pool_size=4, connect_args={"timeout": _BUSY_MILLISECONDS / 1000})
    sql.event.listen(engine, "connect", _configure)
    sql.event.listen(engine, "begin", _begin)
    return engine


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"history.url: the folder {path.parent} cannot be made: {error.strerror}; choose another"
        ) from error


def _configure(connection: Any, _record: object) -> None:
    """synchronous=NORMAL: a power failure may lose the last transactions, but does not corrupt the file."""
    connection.isolation_level = None  # `_begin` begins transactions, also before DDL statements
    cursor = connection.cursor()
    for pragma in ("auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=NORMAL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: sql.Connection) -> None:
    immediate = connection.get_execution_options().get(_IMMEDIATE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def _postgres(url: sql.URL) -> sql.Engine:
    arguments = {
        "connect_timeout": _SECONDS_TO_CONNECT,
        "options": _SESSION,
        "application_name": "fleet-history",
        "tcp_user_timeout": _HOST_SILENT * 1000,
        "keepalives_idle": _HOST_SILENT,
    }
    given = {name: value for name, value in arguments.items() if name not in url.query}
    return sql.create_engine(url, pool_size=4, pool_pre_ping=True, connect_args=given)
