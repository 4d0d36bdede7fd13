"""From attempts to rows: folding those that changed nothing, numbering the others, and one transaction for a batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite

from fleet.history.database import Database
from fleet.history.encoding import pack_facts
from fleet.history.entries import Attempt, Target
from fleet.history.journal import Session
from fleet.history.tables import ATTEMPTS, COLUMNS, COUNTERS, INPUTS, JOURNAL, PLACEMENTS, SESSIONS, TARGETS

_ROW_OVERHEAD = 200  # bytes of columns and indexes beside the bodies
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
    .values(repeats=ATTEMPTS.c.repeats + sql.bindparam("more"), last_at=sql.bindparam("at"))
)
_NEWEST = (
    sql.select(ATTEMPTS, PLACEMENTS.c.attempts)
    .join(PLACEMENTS, PLACEMENTS.c.newest == ATTEMPTS.c.seq)
    .where(PLACEMENTS.c.key.in_(sql.bindparam("keys", expanding=True)))
)
_TOUCH = sql.update(SESSIONS).where(SESSIONS.c.id == sql.bindparam("of_id")).values(last_at=sql.bindparam("at"))


@dataclass(slots=True)
class Entry:
    """An attempt that gets a row of its own."""

    attempt: Attempt
    columns: bytes | None = None
    inputs: bytes | None = None
    repeats: int = 0
    last_at: int = 0
    seq: int = 0


@dataclass(slots=True)
class Head:
    """The newest record of a placement; it must not hold on to more of it, because there is one for each."""

    likeness: tuple[object, ...]
    number: int
    """Attempts so far."""
    uid: str
    first_at: int
    last_at: int
    is_end: bool
    seq: int = 0
    entry: Entry | None = None
    """As long as the record is not written."""


@dataclass(slots=True)
class Fold:
    more: int = 0
    last_at: int = 0


@dataclass(slots=True)
class Batch:
    entries: list[Entry] = field(default_factory=list)
    folds: dict[int, Fold] = field(default_factory=dict)
    """By `seq` of a record that is written already: how often it was repeated."""
    heads: dict[str, Head] = field(default_factory=dict)
    begun: list[Session] = field(default_factory=list)
    journal: list[dict[str, Any]] = field(default_factory=list)
    session: str = ""
    at: int = 0

    @property
    def folded(self) -> int:
        return sum(fold.more for fold in self.folds.values()) + sum(entry.repeats for entry in self.entries)


def likeness(attempt: Attempt) -> tuple[object, ...]:
    """What has to be equal for an attempt that changed nothing to count as a repetition."""
    snapshot = attempt.snapshot and (attempt.snapshot.uid, attempt.snapshot.generation)
    told = (attempt.ending, attempt.error, attempt.outcome, attempt.digest, attempt.is_end)
    return (attempt.placement_uid, snapshot, attempt.config_hash, attempt.generation, *told)


class Heads:
    """The newest record of every placement that was decided on since this process began."""

    def __init__(self) -> None:
        self._known: dict[str, Head] = {}

    def unknown(self, keys: Iterable[str]) -> list[str]:
        """Of placements not heard of yet."""
        return [key for key in keys if key not in self._known]

    def load(self, connection: sql.Connection, unknown: Collection[str], *, read: Any) -> None:
        """`read` makes an attempt of a row."""
        rows = connection.execute(_NEWEST, {"keys": list(unknown)})
        for row in rows:
            self._known[row.key] = _head_of(read(row), seq=row.seq, number=row.attempts)

    def of(self, key: str) -> Head | None:
        return self._known.get(key)

    def put(self, key: str, head: Head) -> None:
        self._known[key] = head

    def written(self, batch: Batch) -> None:
        for key, head in batch.heads.items():
            if head.entry is not None:
                head.seq, head.entry = head.entry.seq, None
            if head.is_end:
                self._known.pop(key, None)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._known.pop(key, None)


def add(batch: Batch, attempt: Attempt, heads: Heads) -> Entry | None:
    """Put an attempt into a batch; the entry to be completed, or None where it was folded."""
    head = heads.of(attempt.key)
    if head is not None and attempt.changed_nothing and head.likeness == likeness(attempt):
        _fold(batch, attempt, head)
        return None
    number = 1 if head is None else head.number + 1
    entry = Entry(msgspec.structs.replace(attempt, number=number), last_at=attempt.started)
    newest = batch.heads[attempt.key] = _head_of(attempt, number=number, entry=entry)
    newest.first_at = attempt.started if head is None else head.first_at
    heads.put(attempt.key, newest)
    batch.entries.append(entry)
    return entry


def _fold(batch: Batch, attempt: Attempt, head: Head) -> None:
    head.number += 1
    head.last_at = attempt.started
    if head.entry is None:
        fold = batch.folds.setdefault(head.seq, Fold())
        fold.more, fold.last_at = fold.more + 1, attempt.started
    else:
        head.entry.repeats += 1
        head.entry.last_at = attempt.started
    batch.heads[attempt.key] = head


def _head_of(attempt: Attempt, *, number: int, seq: int = 0, entry: Entry | None = None) -> Head:
    return Head(
        likeness=likeness(attempt),
        number=number,
        uid=attempt.placement_uid,
        first_at=attempt.started,
        last_at=attempt.last_at or attempt.started,
        is_end=attempt.is_end,
        seq=seq,
        entry=entry,
    )


def write(database: Database, batch: Batch) -> None:
    with database.writing() as connection:
        _number(connection, batch.entries)
        _write_journal(connection, batch)
        _write_attempts(connection, batch.entries)
        if batch.folds:
            folds = [{"of_seq": seq, "more": one.more, "at": one.last_at} for seq, one in batch.folds.items()]
            connection.execute(_FOLD, folds)
        if batch.heads:
            placements = [_placement_row(key, head) for key, head in batch.heads.items()]
            _run(connection, _keeping_placements(connection.dialect), placements)


def was_written(database: Database, batch: Batch) -> bool:
    """Whether a batch whose commit was never confirmed is there nevertheless."""
    if not batch.entries:
        return False
    with database.reading() as connection:
        asked = sql.select(ATTEMPTS.c.seq).where(ATTEMPTS.c.id == batch.entries[0].attempt.id)
        return connection.execute(asked).first() is not None


def _number(connection: sql.Connection, entries: Sequence[Entry]) -> None:
    last = connection.execute(_TAKE_NUMBERS, {"count": len(entries)}).scalar_one()
    for seq, entry in enumerate(entries, last - len(entries) + 1):
        entry.seq = seq


def _write_journal(connection: sql.Connection, batch: Batch) -> None:
    if batch.begun:
        times = {"started": batch.at, "last_at": batch.at}
        begun = [{"id": one.id, "dictionary": one.dictionary, **times} for one in batch.begun]
        connection.execute(sql.insert(SESSIONS), begun)
    if batch.session:
        connection.execute(_TOUCH, [{"of_id": batch.session, "at": batch.at}])
    if batch.journal:
        _run(connection, _inserting(JOURNAL, connection.dialect), batch.journal)


def _write_attempts(connection: sql.Connection, entries: Sequence[Entry]) -> None:
    rows = {
        ATTEMPTS: [_attempt_row(one) for one in entries],
        TARGETS: [_target_row(one.seq, target) for one in entries for target in one.attempt.targets],
        COLUMNS: [{"seq": one.seq, "body": one.columns} for one in entries if one.columns is not None],
        INPUTS: [{"seq": one.seq, "body": one.inputs} for one in entries if one.inputs is not None],
    }
    for table, several in rows.items():
        if several:
            _run(connection, _inserting(table, connection.dialect), several)


def _attempt_row(entry: Entry) -> dict[str, Any]:
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
    }


def _target_row(seq: int, target: Target) -> dict[str, Any]:
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


def _placement_row(key: str, head: Head) -> dict[str, Any]:
    return {
        "key": key,
        "uid": head.uid,
        "attempts": head.number,
        "first_at": head.first_at,
        "last_at": head.last_at,
        "newest": head.seq if head.entry is None else head.entry.seq,
        "deleted_at": head.last_at if head.is_end else None,
    }


# --- statements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Statement:
    """As the driver takes it: what SQLAlchemy does for each row costs more than writing it."""

    text: str
    names: tuple[str, ...] | None
    """Of parameters, where they go by position."""


def _run(connection: sql.Connection, statement: _Statement, rows: Sequence[dict[str, Any]]) -> None:
    names = statement.names
    parameters: Any = rows if names is None else [tuple(map(row.__getitem__, names)) for row in rows]
    connection.exec_driver_sql(statement.text, parameters)


@lru_cache
def _inserting(table: sql.Table, dialect: sql.Dialect) -> _Statement:
    return _compiled(sql.insert(table), dialect)


@lru_cache
def _keeping_placements(dialect: sql.Dialect) -> _Statement:
    statement = (postgresql if dialect.name == "postgresql" else sqlite).insert(PLACEMENTS)
    renewed = ("uid", "attempts", "last_at", "newest", "deleted_at")
    kept = statement.on_conflict_do_update(
        index_elements=["key"], set_={name: statement.excluded[name] for name in renewed}
    )
    return _compiled(kept, dialect)


def _compiled(statement: sql.Insert, dialect: sql.Dialect) -> _Statement:
    compiled = statement.compile(dialect=dialect)
    return _Statement(str(compiled), tuple(compiled.positiontup) if compiled.positiontup is not None else None)
