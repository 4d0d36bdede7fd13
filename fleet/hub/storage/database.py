"""The data directory: one SQLite file, written by one thread.

Writes of many requests share a transaction (group commit): while one is synced to disk, the next batch collects. The
revision counter is written in the same transaction as the objects, so that it never decreases, even after a crash.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Final, NamedTuple

import sqlalchemy as sql
from sqlalchemy.dialects.sqlite import insert

from fleet.errors import ConfigurationError
from fleet.hub.storage.entries import StoredEntry, restore_entry
from fleet.hub.storage.store import StoreChange, durability_error
from fleet.private_files import create_private_directory, create_private_file

_FILE: Final = "hub.sqlite"
_LOCK: Final = "hub.lock"
_LARGEST_BATCH: Final = 1_000  # changes per transaction; limits the wait of the first one
_MIGRATIONS: Final = Path(__file__).resolve().parents[3] / "migrations" / "hub"

METADATA: Final = sql.MetaData()
OBJECTS: Final = sql.Table(
    "objects",
    METADATA,
    sql.Column("resource", sql.Text, primary_key=True),
    sql.Column("namespace", sql.Text, primary_key=True),
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("revision", sql.BigInteger, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
COUNTERS: Final = sql.Table(
    "counters",
    METADATA,
    sql.Column("name", sql.Text, primary_key=True),
    sql.Column("value", sql.BigInteger, nullable=False),
)

_UPSERT: Final = insert(OBJECTS)
_PUT: Final = _UPSERT.on_conflict_do_update(
    index_elements=["resource", "namespace", "name"],
    set_={"revision": _UPSERT.excluded.revision, "body": _UPSERT.excluded.body},
)
_REMOVE: Final = sql.delete(OBJECTS).where(
    OBJECTS.c.resource == sql.bindparam("of_resource"),
    OBJECTS.c.namespace == sql.bindparam("of_namespace"),
    OBJECTS.c.name == sql.bindparam("of_name"),
)
_COUNT: Final = sql.update(COUNTERS).where(COUNTERS.c.name == "revision")


class HubDatabase:
    """The database file, locked for one process."""

    def __init__(self, directory: Path) -> None:
        self.engine = sql.create_engine(f"sqlite:///{directory / _FILE}", hide_parameters=True)
        sql.event.listen(self.engine, "connect", _configure)
        with contextlib.ExitStack() as undo:
            try:
                create_private_directory(directory)
                self._lock = undo.enter_context(_acquire_lock(directory / _LOCK))
                undo.callback(self.engine.dispose)
                create_private_file(directory / _FILE)  # its write-ahead log gets the same mode
                _migrate(self.engine)
            except (OSError, sql.exc.SQLAlchemyError) as error:
                problem = f"{_find_cause(error)}; check its disk and permissions"
                raise ConfigurationError(f"cannot open the data directory {directory}: {problem}") from error
            undo.pop_all()

    def revision(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(sql.select(COUNTERS.c.value)).scalar_one())

    def entries(self) -> Iterator[tuple[str, StoredEntry]]:
        with self.engine.connect() as connection:
            columns = (OBJECTS.c.resource, OBJECTS.c.body, OBJECTS.c.revision)
            for resource, body, revision in connection.execute(sql.select(*columns)):
                yield resource, restore_entry(body, revision)

    def write(self, changes: Sequence[StoreChange]) -> None:
        """Writes changes in one transaction. Only the last change of each object is written."""
        last = {(change.resource, *change.entry.key): change for change in changes}
        kept = [_build_row(change, change.current) for change in last.values() if change.current]
        gone = [_build_removal(change) for change in last.values() if change.current is None]
        with self.engine.begin() as connection:
            if kept:
                connection.execute(_PUT, kept)
            if gone:
                connection.execute(_REMOVE, gone)
            connection.execute(_COUNT, {"value": changes[-1].revision})

    def close(self) -> None:
        self.engine.dispose()
        self._lock.close()


class _PendingWrite(NamedTuple):
    change: StoreChange
    durable: asyncio.Future[None]
    epoch: int


class DatabaseWriter:
    """Writes changes of the store to the database, in a thread of its own."""

    def __init__(
        self, database: HubDatabase, *, apply: Callable[[Sequence[StoreChange]], None], discard: Callable[[], None]
    ):
        self._database = database
        self._apply = apply
        self._discard = discard
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_PendingWrite | None] = SimpleQueue()
        self._epoch = 0  # incremented on the loop after a failure; older writes are based on a lost one
        self._thread = threading.Thread(target=self._run, name="fleet-hub-writer", daemon=True)
        self._thread.start()

    def append(self, change: StoreChange, on_durable: asyncio.Future[None]) -> None:
        self._queue.put(_PendingWrite(change, on_durable, self._epoch))

    def close(self) -> None:
        """Writes all queued changes and stops the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        failed, failure = -1, Exception("an earlier write failed")
        while batch := self._next_batch():
            valid = [write for write in batch if write.epoch > failed]
            stale = [write for write in batch if write.epoch <= failed]
            error: Exception | None = None
            try:
                if valid:
                    self._database.write([write.change for write in valid])
            except Exception as problem:  # a thread that ended would leave all later writes without an answer
                error = failure = problem
                failed = max(write.epoch for write in valid)
            if stale:
                self._loop.call_soon_threadsafe(self._refuse, stale, failure)
            self._report(valid, error)

    def _next_batch(self) -> list[_PendingWrite]:
        """At least one write, plus all others that are queued; empty after close."""
        batch: list[_PendingWrite] = []
        while len(batch) < _LARGEST_BATCH and not (batch and self._queue.empty()):
            write = self._queue.get()
            if write is None:
                if batch:
                    self._queue.put(None)
                break
            batch.append(write)
        return batch

    def _report(self, valid: list[_PendingWrite], error: Exception | None) -> None:
        if error is not None:
            self._loop.call_soon_threadsafe(self._fail, valid, error)
        elif valid:
            self._loop.call_soon_threadsafe(self._acknowledge, valid)

    def _acknowledge(self, writes: Sequence[_PendingWrite]) -> None:
        self._apply([write.change for write in writes])
        for write in writes:
            if not write.durable.done():
                write.durable.set_result(None)

    def _fail(self, writes: Sequence[_PendingWrite], error: Exception) -> None:
        self._epoch += 1
        self._discard()
        self._refuse(writes, error)

    def _refuse(self, writes: Sequence[_PendingWrite], error: Exception) -> None:
        for write in writes:
            if not write.durable.done():
                write.durable.set_exception(durability_error(_find_cause(error)))


def _find_cause(error: Exception) -> Exception:
    """The error of the database itself: that of the library quotes the statement, with objects of other callers."""
    cause = error.orig if isinstance(error, sql.exc.DBAPIError) else None
    return cause if isinstance(cause, Exception) else error


def _build_row(change: StoreChange, entry: StoredEntry) -> dict[str, Any]:
    where = {"resource": change.resource, "namespace": entry.namespace, "name": entry.name}
    return where | {"revision": entry.revision, "body": entry.body}


def _build_removal(change: StoreChange) -> dict[str, str]:
    namespace, name = change.entry.key
    return {"of_resource": change.resource, "of_namespace": namespace, "of_name": name}


def _acquire_lock(path: Path) -> IO[str]:
    create_private_file(path)
    lock = path.open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigurationError(f"{path.parent}: another hub uses this data directory; stop it first") from error
    return lock


def _configure(connection: Any, _record: object) -> None:
    """WAL does not block readers; FULL syncs every commit, so that acknowledged writes are durable."""
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _migrate(engine: sql.Engine) -> None:
    from alembic import command, config  # slow to import, and not needed in memory

    with engine.begin() as connection:
        settings = config.Config()
        settings.set_main_option("script_location", str(_MIGRATIONS))
        settings.attributes["connection"] = connection
        command.upgrade(settings, "head")
