"""Inserts: fold attempts that changed nothing, number the others, and write a batch in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite

from fleet.history.entries import HistoryAttempt, RecordedTarget
from fleet.history.storage.database import HistoryDatabase
from fleet.history.storage.encoding import pack_facts, pack_profile
from fleet.history.storage.journal import JournalSession
from fleet.history.storage.tables import (
    ATTEMPTS,
    COLUMNS,
    COUNTERS,
    INPUTS,
    JOURNAL,
    PLACEMENTS,
    PROFILES,
    SESSIONS,
    TARGETS,
)

_ROW_OVERHEAD = 200  # bytes of columns and indexes, without the bodies
_TARGET_OVERHEAD = 120

_TAKE_NUMBERS = (
    sql.update(COUNTERS)
    .where(COUNTERS.c.name == "attempts")
    .values(value=COUNTERS.c.value + sql.bindparam("count"))
    .returning(COUNTERS.c.value)
)
_FOLD = (
    sql.update(ATTEMPTS)
    .where(ATTEMPTS.c.seq == sql.bindparam("of_seq"))
    .values(
        repeats=ATTEMPTS.c.repeats + sql.bindparam("more"), last_at=sql.bindparam("at"), epoch=sql.bindparam("of_epoch")
    )
)
_NEWEST = (
    sql.select(ATTEMPTS, PLACEMENTS.c.attempts)
    .join(PLACEMENTS, PLACEMENTS.c.newest == ATTEMPTS.c.seq)
    .where(PLACEMENTS.c.key.in_(sql.bindparam("keys", expanding=True)))
)
_RECORDED = (
    sql.select(PLACEMENTS.c.key, PLACEMENTS.c.attempts)
    .join(ATTEMPTS, PLACEMENTS.c.newest == ATTEMPTS.c.seq)
    .where(PLACEMENTS.c.key.in_(sql.bindparam("keys", expanding=True)))
)
_TOUCH = sql.update(SESSIONS).where(SESSIONS.c.id == sql.bindparam("of_id")).values(last_at=sql.bindparam("at"))


@dataclass(slots=True)
class PendingRow:
    """An attempt that gets a row of its own."""

    attempt: HistoryAttempt
    columns: bytes | None = None
    inputs: bytes | None = None
    repeats: int = 0
    last_at: int = 0
    seq: int = 0


@dataclass(slots=True)
class LatestRecord:
    """The newest record of a placement. Kept small, because there is one for each placement."""

    folding_key: tuple[object, ...]
    """Empty if nothing can be folded into it."""
    epoch: int
    number: int
    """Attempts so far."""
    uid: str
    first_at: int
    last_at: int
    is_end: bool
    seq: int = 0
    recorded: int = 0
    """Attempts so far, without those that are not written yet."""
    entry: PendingRow | None = None
    """The row, until it is written."""


@dataclass(slots=True)
class Fold:
    more: int = 0
    last_at: int = 0
    epoch: int = 0


@dataclass(slots=True)
class Batch:
    entries: list[PendingRow] = field(default_factory=list)
    folds: dict[int, Fold] = field(default_factory=dict)
    """By `seq` of a record already written: its further repeats."""
    latest: dict[str, LatestRecord] = field(default_factory=dict)
    new_sessions: list[JournalSession] = field(default_factory=list)
    journal: list[dict[str, Any]] = field(default_factory=list)
    profiles: dict[str, bytes] = field(default_factory=dict)
    """Documents by hash. Every batch has those of its attempts: retention may have removed one meanwhile."""
    session: str = ""
    at: int = 0

    @property
    def size(self) -> int:
        """Bytes that it adds to those that retention counts, but for a few."""
        bodies = sum(len(entry.columns or b"") + len(entry.inputs or b"") + _ROW_OVERHEAD for entry in self.entries)
        return bodies + sum(len(row["body"]) for row in self.journal)

    @property
    def folded(self) -> int:
        return sum(fold.more for fold in self.folds.values()) + sum(entry.repeats for entry in self.entries)


def folding_key(attempt: HistoryAttempt) -> tuple[object, ...]:
    """An attempt that changed nothing and has the same key as the newest record is folded into it."""
    snapshot = attempt.snapshot and (attempt.snapshot.uid, attempt.snapshot.generation)
    result = (attempt.ending, attempt.error, attempt.outcome, attempt.digest, attempt.is_end)
    return (attempt.placement_uid, snapshot, attempt.config_hash, attempt.generation, *result)


class StaleRecords(Exception):
    """Another process has recorded attempts of the same placements since they were loaded."""


class LatestRecords:
    """The newest record of every placement that was scheduled since the process started."""

    def __init__(self) -> None:
        self._known: dict[str, LatestRecord] = {}

    def unknown(self, keys: Iterable[str]) -> list[str]:
        """The keys whose newest record is not loaded yet."""
        return [key for key in keys if key not in self._known]

    def load(self, connection: sql.Connection, unknown: Collection[str], *, read: Any) -> None:
        """`read` builds an attempt from a row."""
        rows = connection.execute(_NEWEST, {"keys": list(unknown)})
        for row in rows:
            loaded = self._known[row.key] = _latest_of(read(row), seq=row.seq, number=row.attempts)
            loaded.recorded = row.attempts
            if row.attempts != row.number + row.repeats:  # late attempts of an earlier leader have later numbers
                loaded.folding_key = ()

    def get(self, key: str) -> LatestRecord | None:
        return self._known.get(key)

    def set(self, key: str, record: LatestRecord) -> None:
        self._known[key] = record

    def confirm_written(self, batch: Batch) -> None:
        for key, record in batch.latest.items():
            if record.entry is not None:
                record.seq, record.entry = record.entry.seq, None
            record.recorded = record.number
            if record.is_end:
                self._known.pop(key, None)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._known.pop(key, None)


def add_attempt(batch: Batch, attempt: HistoryAttempt, latest: LatestRecords) -> PendingRow | None:
    """Add an attempt to a batch; returns the row to complete, or None if it was folded."""
    record = latest.get(attempt.key)
    if record is not None and attempt.epoch < record.epoch:
        return _add_late(batch, attempt, record)
    if record is not None and attempt.changed_nothing and record.folding_key == folding_key(attempt):
        _fold(batch, attempt, record)
        return None
    number = 1 if record is None else record.number + 1
    entry = PendingRow(msgspec.structs.replace(attempt, number=number), last_at=attempt.started)
    newest = batch.latest[attempt.key] = _latest_of(attempt, number=number, entry=entry)
    if record is not None:
        newest.first_at, newest.recorded = record.first_at, record.recorded
    latest.set(attempt.key, newest)
    batch.entries.append(entry)
    return entry


def _add_late(batch: Batch, attempt: HistoryAttempt, record: LatestRecord) -> PendingRow:
    """An attempt of an earlier leader than that of the newest record, which stays the newest."""
    record.number += 1
    record.folding_key = ()
    batch.latest[attempt.key] = record
    entry = PendingRow(msgspec.structs.replace(attempt, number=record.number), last_at=attempt.started)
    batch.entries.append(entry)
    return entry


def _fold(batch: Batch, attempt: HistoryAttempt, record: LatestRecord) -> None:
    record.number += 1
    record.last_at, record.epoch = attempt.started, attempt.epoch
    if record.entry is None:
        fold = batch.folds.setdefault(record.seq, Fold())
        fold.more, fold.last_at = fold.more + 1, attempt.started
        fold.epoch = attempt.epoch
    else:
        record.entry.repeats += 1
        record.entry.last_at = attempt.started
        record.entry.attempt = msgspec.structs.replace(record.entry.attempt, epoch=attempt.epoch)
    batch.latest[attempt.key] = record


def _latest_of(attempt: HistoryAttempt, *, number: int, seq: int = 0, entry: PendingRow | None = None) -> LatestRecord:
    return LatestRecord(
        folding_key=folding_key(attempt),
        epoch=attempt.epoch,
        number=number,
        uid=attempt.placement_uid,
        first_at=attempt.started,
        last_at=attempt.last_at or attempt.started,
        is_end=attempt.is_end,
        seq=seq,
        entry=entry,
    )


def write_batch(database: HistoryDatabase, batch: Batch) -> None:
    """Raises StaleRecords, without writing, if the batch was built on records that are not the newest any more."""
    with database.writing() as connection:
        _assign_numbers(connection, batch.entries)  # first: it makes other writers wait
        _require_fresh(connection, batch)
        _write_journal(connection, batch)
        if batch.profiles:
            profiles = [{"config_hash": name, "body": pack_profile(body)} for name, body in batch.profiles.items()]
            _run(connection, _insert_missing_profiles(connection.dialect), profiles)
        _write_attempts(connection, batch.entries)
        if batch.folds:
            folds = [
                {"of_seq": seq, "more": fold.more, "at": fold.last_at, "of_epoch": fold.epoch}
                for seq, fold in batch.folds.items()
            ]
            connection.execute(_FOLD, folds)
        if batch.latest:
            placements = [_placement_row(key, record) for key, record in batch.latest.items()]
            _run(connection, _upsert_placements(connection.dialect), placements)


def is_committed(database: HistoryDatabase, batch: Batch) -> bool:
    """Whether a batch is there although its commit was never confirmed."""
    if not batch.entries:
        return False
    with database.reading() as connection:
        query = sql.select(ATTEMPTS.c.seq).where(ATTEMPTS.c.id == batch.entries[0].attempt.id)
        return connection.execute(query).first() is not None


def lock_writers(connection: sql.Connection) -> None:
    """Until the end of the transaction no other process adds attempts."""
    connection.execute(_TAKE_NUMBERS, {"count": 0})


def _assign_numbers(connection: sql.Connection, entries: Sequence[PendingRow]) -> None:
    last = connection.execute(_TAKE_NUMBERS, {"count": len(entries)}).scalar_one()
    for seq, entry in enumerate(entries, last - len(entries) + 1):
        entry.seq = seq


def _require_fresh(connection: sql.Connection, batch: Batch) -> None:
    recorded = {row.key: row.attempts for row in connection.execute(_RECORDED, {"keys": list(batch.latest)})}
    if any(recorded.get(key, 0) != record.recorded for key, record in batch.latest.items()):
        raise StaleRecords


def _write_journal(connection: sql.Connection, batch: Batch) -> None:
    if batch.new_sessions:
        times = {"started": batch.at, "last_at": batch.at}
        new_sessions = [{"id": session.id, "dictionary": session.dictionary, **times} for session in batch.new_sessions]
        connection.execute(sql.insert(SESSIONS), new_sessions)
    if batch.session:
        connection.execute(_TOUCH, [{"of_id": batch.session, "at": batch.at}])
    if batch.journal:
        _run(connection, _insert_statement(JOURNAL, connection.dialect), batch.journal)


def _write_attempts(connection: sql.Connection, entries: Sequence[PendingRow]) -> None:
    rows = {
        ATTEMPTS: [_attempt_row(row) for row in entries],
        TARGETS: [_target_row(row.seq, target) for row in entries for target in row.attempt.targets],
        COLUMNS: [{"seq": row.seq, "body": row.columns} for row in entries if row.columns is not None],
        INPUTS: [{"seq": row.seq, "body": row.inputs} for row in entries if row.inputs is not None],
    }
    for table, several in rows.items():
        if several:
            _run(connection, _insert_statement(table, connection.dialect), several)


def _attempt_row(entry: PendingRow) -> dict[str, Any]:
    attempt, facts = entry.attempt, pack_facts(entry.attempt)
    bodies = len(facts) + len(entry.columns or b"") + len(entry.inputs or b"")
    return {
        "seq": entry.seq,
        "id": attempt.id,
        "key": attempt.key,
        "placement_uid": attempt.placement_uid,
        "number": attempt.number,
        "started": attempt.started,
        "last_at": entry.last_at,
        "repeats": entry.repeats,
        "ending": attempt.ending,
        "outcome": attempt.outcome,
        "fulfilled": attempt.fulfilled,
        "digest": attempt.digest,
        "config_hash": attempt.config_hash,
        "session": attempt.session,
        "frame_seq": attempt.frame_seq,
        "columns": str(attempt.columns),
        "inputs": str(attempt.inputs),
        "facts": facts,
        "bytes": bodies + _ROW_OVERHEAD + _TARGET_OVERHEAD * len(attempt.targets),
        "epoch": attempt.epoch,
    }


def _target_row(seq: int, target: RecordedTarget) -> dict[str, Any]:
    return {
        "seq": seq,
        "rank": target.rank,
        "cluster": target.cluster,
        "action": target.action,
        "binding": target.binding,
        "affinity": target.affinity,
        "topology": target.topology,
        "obsolete": target.obsolete,
        "step": target.step,
    }


def _placement_row(key: str, record: LatestRecord) -> dict[str, Any]:
    return {
        "key": key,
        "uid": record.uid,
        "attempts": record.number,
        "first_at": record.first_at,
        "last_at": record.last_at,
        "newest": record.seq if record.entry is None else record.entry.seq,
        "deleted_at": record.last_at if record.is_end else None,
    }


# --- statements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Statement:
    """SQL text for the driver, because SQLAlchemy's work per row costs more than the insert."""

    text: str
    names: tuple[str, ...] | None
    """Names of positional parameters."""


def _run(connection: sql.Connection, statement: _Statement, rows: Sequence[dict[str, Any]]) -> None:
    names = statement.names
    parameters: Any = rows if names is None else [tuple(map(row.__getitem__, names)) for row in rows]
    connection.exec_driver_sql(statement.text, parameters)


@lru_cache
def _insert_statement(table: sql.Table, dialect: sql.Dialect) -> _Statement:
    return _compile(sql.insert(table), dialect)


@lru_cache
def _upsert_placements(dialect: sql.Dialect) -> _Statement:
    statement = (postgresql if dialect.name == "postgresql" else sqlite).insert(PLACEMENTS)
    renewed = ("uid", "attempts", "last_at", "newest", "deleted_at")
    kept = statement.on_conflict_do_update(
        index_elements=["key"], set_={name: statement.excluded[name] for name in renewed}
    )
    return _compile(kept, dialect)


@lru_cache
def _insert_missing_profiles(dialect: sql.Dialect) -> _Statement:
    statement = (postgresql if dialect.name == "postgresql" else sqlite).insert(PROFILES)
    return _compile(statement.on_conflict_do_nothing(index_elements=["config_hash"]), dialect)


def _compile(statement: sql.Insert, dialect: sql.Dialect) -> _Statement:
    compiled = statement.compile(dialect=dialect)
    return _Statement(str(compiled), tuple(compiled.positiontup) if compiled.positiontup is not None else None)
