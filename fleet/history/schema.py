"""Which tables a database has, and what has to happen before the history can use it.

A schema that this version does not know is never touched: whoever made it knows more about it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sql

from fleet.errors import ConfigurationError, HistoryUnavailable
from fleet.history.database import Database, reason_of
from fleet.history.tables import VERSION_TABLE

REVISIONS: Final = ("0001", "0002")
"""Every revision that this version knows, in order; a test holds it to the migrations."""

_MIGRATIONS: Final = Path(__file__).resolve().parents[2] / "migrations" / "history"
_VERSION: Final = sql.table(VERSION_TABLE, sql.column("version_num", sql.Text))


class NewerSchema(ConfigurationError):
    """A later version of Fleet made it."""


class Standing(enum.Enum):
    CURRENT = "current"
    EMPTY = "empty"
    OLDER = "older"
    NEWER = "newer"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Found:
    standing: Standing
    detail: str = ""
    """The revision, or the tables nobody knows."""


def examine(connection: sql.Connection) -> Found:
    tables = sorted(sql.inspect(connection).get_table_names())
    if VERSION_TABLE not in tables:
        return Found(Standing.FOREIGN, ", ".join(tables[:5])) if tables else Found(Standing.EMPTY)
    revision = connection.execute(sql.select(_VERSION.c.version_num)).scalar_one_or_none()
    if revision is None:
        others = [name for name in tables if name != VERSION_TABLE]
        return Found(Standing.FOREIGN, ", ".join(others[:5])) if others else Found(Standing.EMPTY)
    if revision not in REVISIONS:
        return Found(Standing.NEWER, revision)
    return Found(Standing.CURRENT if revision == REVISIONS[-1] else Standing.OLDER, revision)


def ensure(database: Database, *, may_migrate: bool) -> None:
    """Raises ConfigurationError, with the next step, on a schema that cannot be used as it is; HistoryUnavailable on a
    newer one: that is no mistake of whoever starts us but a version that was rolled back, and may go away again.

    An empty SQLite file is filled. An empty PostgreSQL database is left to `fleet migrate`: whoever runs decisions
    need not have the right to make tables.
    """
    with _telling_files_apart(database), database.writing() as connection:
        found = examine(connection)
        database.unreadable = ""
        if found.standing is Standing.CURRENT:
            return
        if found.standing is Standing.NEWER:
            database.unreadable = _refusal(database, found)
            raise HistoryUnavailable(database.unreadable)
        fills = found.standing is Standing.EMPTY and not database.is_postgres
        if not fills and not (may_migrate and found.standing in (Standing.EMPTY, Standing.OLDER)):
            raise ConfigurationError(_refusal(database, found))
        _run(connection, REVISIONS[-1])


def migrate(url: str, *, to: str = "") -> tuple[str, str]:
    """Bring a database to a revision, the newest unless given, and say from where to where; `base` is no table at all.

    Raises NewerSchema or another ConfigurationError on a schema nobody here knows, HistoryUnavailable when it cannot be
    reached. A revision that fails half-way leaves the database as it was.
    """
    if to and to not in (*REVISIONS, "base"):
        raise ConfigurationError(f"{to} is no revision of the history; known are base, {', '.join(REVISIONS)}")
    database = Database(url)
    try:
        with _telling_files_apart(database), database.writing() as connection:
            found = examine(connection)
            if found.standing is Standing.NEWER:
                raise NewerSchema(_refusal(database, found))
            if found.standing is Standing.FOREIGN:
                raise ConfigurationError(_refusal(database, found))
            _run(connection, to or REVISIONS[-1])
    except sql.exc.SQLAlchemyError as error:
        raise HistoryUnavailable(f"the history {database.name} cannot be migrated: {reason_of(error)}") from error
    finally:
        database.close()
    return found.detail or "base", to or REVISIONS[-1]


@contextmanager
def _telling_files_apart(database: Database) -> Iterator[None]:
    try:
        yield
    except sql.exc.DatabaseError as error:
        if "not a database" in reason_of(error):
            raise ConfigurationError(
                f"the file of {database.name} is not a database; name another with history.url"
            ) from error
        raise


def _refusal(database: Database, found: Found) -> str:
    match found.standing:
        case Standing.NEWER:
            return (
                f"the history {database.name} is of revision {found.detail}, this version knows up to "
                f"{REVISIONS[-1]}; run the version of Fleet that made it, or use another database"
            )
        case Standing.FOREIGN:
            return (
                f"the database {database.name} holds tables of something else ({found.detail}); "
                "give the history a database of its own with history.url"
            )
        case Standing.OLDER:
            was = f"is of revision {found.detail}, and this version needs {REVISIONS[-1]}"
        case _:
            was = "has no tables yet"
    return f"the history {database.name} {was}; run: fleet migrate --url '{database.name}'"


def _run(connection: sql.Connection, revision: str) -> None:
    from alembic import command, config  # slow to import, and hardly ever needed

    settings = config.Config()
    settings.set_main_option("script_location", str(_MIGRATIONS))
    settings.attributes["connection"] = connection
    if revision == "base" or _precedes(connection, revision):
        command.downgrade(settings, revision)
    else:
        command.upgrade(settings, revision)


def _precedes(connection: sql.Connection, revision: str) -> bool:
    current = examine(connection)
    return current.standing in (Standing.CURRENT, Standing.OLDER) and revision < current.detail
