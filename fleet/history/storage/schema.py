"""Schema of the history: inspection of a database, and migrations.

An unknown schema is never changed.
"""

from __future__ import annotations

import enum
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sql

from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.history.storage.database import HistoryDatabase, reason_of
from fleet.history.storage.tables import COUNTERS, VERSION_TABLE

REVISIONS: Final = ("0001", "0002", "0003", "0004")
"""Every revision known to this version, in order; a test compares it with the migrations."""

_MIGRATIONS: Final = Path(__file__).resolve().parents[3] / "migrations" / "history"
_ALEMBIC: Final = threading.Lock()
"""Alembic's environment is global, and the start, the writer and the monitor may create tables."""
_VERSION: Final = sql.table(VERSION_TABLE, sql.column("version_num", sql.Text))


class UnusableSchema(ConfigurationError):
    """The database has a schema that this version cannot migrate."""


class NewerSchema(UnusableSchema):
    """The schema was created by a later version of Fleet."""


class SchemaState(enum.Enum):
    CURRENT = "current"
    EMPTY = "empty"
    OLDER = "older"
    NEWER = "newer"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class SchemaInspection:
    standing: SchemaState
    detail: str = ""
    """The revision, or the names of unknown tables."""


def inspect_schema(connection: sql.Connection) -> SchemaInspection:
    tables = sorted(sql.inspect(connection).get_table_names())
    if VERSION_TABLE not in tables:
        return (
            SchemaInspection(SchemaState.FOREIGN, ", ".join(tables[:5]))
            if tables
            else SchemaInspection(SchemaState.EMPTY)
        )
    revision = connection.execute(sql.select(_VERSION.c.version_num)).scalar_one_or_none()
    if revision is None:
        others = [name for name in tables if name != VERSION_TABLE]
        return (
            SchemaInspection(SchemaState.FOREIGN, ", ".join(others[:5]))
            if others
            else SchemaInspection(SchemaState.EMPTY)
        )
    if revision not in REVISIONS:
        return SchemaInspection(SchemaState.NEWER, revision)
    return SchemaInspection(SchemaState.CURRENT if revision == REVISIONS[-1] else SchemaState.OLDER, revision)


def ensure_schema(database: HistoryDatabase, *, may_migrate: bool) -> None:
    """Raises HistoryUnavailable, with the next step, on a schema that cannot be used as it is.

    An empty SQLite file gets its tables here. An empty PostgreSQL database needs `fleet migrate`, because the
    controller need not have the right to create tables.
    """
    with database.writing() as connection:
        inspection = inspect_schema(connection)
        fills = inspection.standing is SchemaState.EMPTY and not database.is_postgres
        if fills or (may_migrate and inspection.standing in (SchemaState.EMPTY, SchemaState.OLDER)):
            _run(connection, REVISIONS[-1])
            inspection = SchemaInspection(SchemaState.CURRENT, REVISIONS[-1])
        _require_current(database, inspection)


def check_schema(database: HistoryDatabase) -> None:
    """The same, without changing anything, in a connection of its own."""
    with database.probing() as connection:
        _require_current(database, inspect_schema(connection))
        connection.execute(sql.select(COUNTERS.c.value))


def _require_current(database: HistoryDatabase, inspection: SchemaInspection) -> None:
    is_current = inspection.standing is SchemaState.CURRENT
    database.unreadable = "" if is_current else _describe_mismatch(database, inspection)
    if not is_current:
        raise HistoryUnavailable(database.unreadable)


def migrate(url: str, *, to: str = "") -> tuple[str, str]:
    """Migrate to a revision, by default the newest; returns the old and the new one. `base` means no tables.

    Raises NewerSchema or another UnusableSchema on an unknown schema, HistoryUnavailable if the database is not
    reachable. A revision that fails half-way leaves the database unchanged.
    """
    if to and to not in (*REVISIONS, "base"):
        raise ConfigurationError(f"{to} is not a revision of the history; known are base, {', '.join(REVISIONS)}")
    database = HistoryDatabase(url)
    try:
        with database.writing() as connection:
            inspection = inspect_schema(connection)
            if inspection.standing is SchemaState.NEWER:
                raise NewerSchema(_describe_mismatch(database, inspection))
            if inspection.standing is SchemaState.FOREIGN:
                raise UnusableSchema(_describe_mismatch(database, inspection))
            _run(connection, to or REVISIONS[-1])
    except (sql.exc.SQLAlchemyError, OSError, HistoryUnavailable) as error:
        raise HistoryUnavailable(f"the history {database.name} cannot be migrated: {reason_of(error)}") from error
    finally:
        database.close()
    return inspection.detail or "base", to or REVISIONS[-1]


def _describe_mismatch(database: HistoryDatabase, inspection: SchemaInspection) -> str:
    match inspection.standing:
        case SchemaState.NEWER:
            return (
                f"the history {database.name} has revision {inspection.detail}, this version supports up to "
                f"{REVISIONS[-1]}; run the version of Fleet that created it, or use another database"
            )
        case SchemaState.FOREIGN:
            return (
                f"the database {database.name} contains other tables ({inspection.detail}); "
                "give the history a database of its own with history.url"
            )
        case SchemaState.OLDER:
            state = f"has revision {inspection.detail}, and this version needs {REVISIONS[-1]}"
        case _:
            state = "has no tables yet"
    return f"the history {database.name} {state}; run: fleet migrate --url '{database.name}'"


def _run(connection: sql.Connection, revision: str) -> None:
    from alembic import command, config  # slow to import and rarely needed

    settings = config.Config()
    settings.set_main_option("script_location", str(_MIGRATIONS))
    settings.attributes["connection"] = connection
    with _ALEMBIC:
        if revision == "base" or _precedes(connection, revision):
            command.downgrade(settings, revision)
        else:
            command.upgrade(settings, revision)


def _precedes(connection: sql.Connection, revision: str) -> bool:
    current = inspect_schema(connection)
    return current.standing in (SchemaState.CURRENT, SchemaState.OLDER) and revision < current.detail
