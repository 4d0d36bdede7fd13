"""Retention: removes old records in small transactions, so that writes can proceed.

The newest attempt of every existing placement is kept at any age, because it explains the current placement.
Other attempts are removed when they are too old, or when there are too many, in total or of one placement. The journal
keeps the fleets of retained attempts; its other rows are merged once they outnumber those fleets by two to one.
Profiles are kept as long as an attempt names them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sql

from fleet.history.entries import PartState
from fleet.history.inserts import lock_writers
from fleet.history.storage.database import HistoryDatabase
from fleet.history.storage.journal import IDLE, merge_rows
from fleet.history.storage.rows import NEWEST_FIRST, chunk_parameters
from fleet.history.storage.tables import ATTEMPTS, COLUMNS, INPUTS, JOURNAL, PLACEMENTS, PROFILES, SESSIONS, TARGETS

_HOUR: Final = 3_600 * 10**9
_MIB: Final = 1_048_576
_TOMBSTONE: Final = _HOUR
"""How long a deleted placement is still listed."""
_JOURNAL_OVERHEAD: Final = 80  # bytes of a row without its body
_MAX_ROWS: Final = 2  # journal rows per fleet that a retained attempt needs
_LAST: Final = 2**62
_PAGE_SIZE: Final = 5000
_PASSES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    max_age_hours: int = 720
    max_mib: int = 1024
    max_attempts: int = 200_000
    per_placement: int = 1000
    """Attempts."""
    columns_per_placement: int = 20
    """How many of them keep a verdict for every cluster."""


class Retention:
    def __init__(self, database: HistoryDatabase, limits: RetentionLimits) -> None:
        self._database = database
        self._limits = limits

    def run(self, *, now: int, session: str = "") -> int:
        """Remove expired records and return the number of removed attempts; `session` is being written to."""
        removed = self._remove(ATTEMPTS.c.last_at < now - self._limits.max_age_hours * _HOUR)
        removed += self._remove_surplus()
        self._expire(COLUMNS, "columns", self._select_beyond(self._limits.columns_per_placement))
        self._forget_placements(now)
        self._compact(now, session)
        removed += self._shrink_to_fit(now, session)
        self._remove_unused_profiles()
        self._release_pages()
        return removed

    def size(self) -> int:
        """Bytes of all records. Not the size of the database, which releases space at its own pace."""
        with self._database.reading() as connection:
            attempts = connection.execute(sql.select(sql.func.sum(ATTEMPTS.c.bytes))).scalar()
            length = sql.func.length(JOURNAL.c.body) + _JOURNAL_OVERHEAD
            journal = connection.execute(sql.select(sql.func.sum(length))).scalar()
            sessions = connection.execute(sql.select(sql.func.sum(sql.func.length(SESSIONS.c.dictionary)))).scalar()
            profiles = connection.execute(sql.select(sql.func.sum(sql.func.length(PROFILES.c.body)))).scalar()
        return int(attempts or 0) + int(journal or 0) + int(sessions or 0) + int(profiles or 0)

    # --- selecting ----------------------------------------------------------------------------------------------------

    def _remove(self, condition: Any) -> int:
        """Remove attempts that match a condition, except the newest of each existing placement."""
        removed = 0
        while True:
            query = sql.select(ATTEMPTS.c.seq).where(condition, _exclude_newest()).order_by(ATTEMPTS.c.seq)
            with self._database.reading() as connection:
                seqs = connection.execute(query.limit(_PAGE_SIZE)).scalars().all()
            self._delete(seqs)
            removed += len(seqs)
            if len(seqs) < _PAGE_SIZE:
                return removed

    def _remove_surplus(self) -> int:
        removed = self._remove(ATTEMPTS.c.seq.in_(self._select_beyond(self._limits.per_placement)))
        with self._database.reading() as connection:
            count = connection.execute(sql.select(sql.func.count()).select_from(ATTEMPTS)).scalar_one()
        surplus = count - self._limits.max_attempts
        return removed + (self._remove_oldest(surplus) if surplus > 0 else 0)

    def _remove_oldest(self, count: int) -> int:
        query = sql.select(ATTEMPTS.c.seq).where(_exclude_newest()).order_by(ATTEMPTS.c.seq).limit(count)
        with self._database.reading() as connection:
            seqs = connection.execute(query).scalars().all()
        self._delete(seqs)
        return len(seqs)

    def _select_beyond(self, newest: int) -> sql.Select[Any]:
        """All attempts but the newest few of each placement."""
        place = sql.func.row_number().over(partition_by=ATTEMPTS.c.key, order_by=NEWEST_FIRST)
        ranked = sql.select(ATTEMPTS.c.seq, place.label("place")).subquery()
        return sql.select(ranked.c.seq).where(ranked.c.place > newest)

    def _shrink_to_fit(self, now: int, session: str) -> int:
        """Remove the oldest attempts until the rest fits; if that is not enough, bodies of the remaining ones."""
        removed, most = 0, self._limits.max_mib * _MIB
        for _ in range(_PASSES):
            surplus = self.size() - most
            if surplus <= 0:
                break
            freed = self._remove_oldest(self._count_to_free(surplus))
            if not freed and not self._expire_bodies(surplus):
                break
            removed += freed
            self._compact(now, session)
        return removed

    def _count_to_free(self, surplus: int) -> int:
        query = sql.select(ATTEMPTS.c.bytes).where(_exclude_newest()).order_by(ATTEMPTS.c.seq).limit(_PAGE_SIZE)
        with self._database.reading() as connection:
            return _count_filling(surplus, connection.execute(query).scalars().all())

    def _expire_bodies(self, surplus: int) -> bool:
        for table, name in ((COLUMNS, "columns"), (INPUTS, "inputs")):
            query = sql.select(table.c.seq, sql.func.length(table.c.body)).order_by(table.c.seq).limit(_PAGE_SIZE)
            with self._database.reading() as connection:
                sizes = [length for _, length in connection.execute(query)]
            oldest = sql.select(table.c.seq).order_by(table.c.seq).limit(_count_filling(surplus, sizes))
            if sizes and self._expire(table, name, oldest):
                return True
        return False

    # --- removing -----------------------------------------------------------------------------------------------------

    def _delete(self, seqs: Sequence[int]) -> None:
        for part in chunk_parameters(seqs):
            with self._database.writing() as connection:
                for table in (TARGETS, COLUMNS, INPUTS, ATTEMPTS):
                    connection.execute(sql.delete(table).where(table.c.seq.in_(part)))

    def _expire(self, table: sql.Table, name: str, which: sql.Select[Any]) -> int:
        """Remove a body of attempts that are kept."""
        query = sql.select(table.c.seq, sql.func.length(table.c.body)).where(table.c.seq.in_(which))
        with self._database.reading() as connection:
            bodies = connection.execute(query).all()
        values = {name: str(PartState.EXPIRED), "bytes": ATTEMPTS.c.bytes - sql.bindparam("less")}
        if name == "inputs":
            values["frame_seq"] = sql.null()
        expired = sql.update(ATTEMPTS).where(ATTEMPTS.c.seq == sql.bindparam("of_seq")).values(**values)
        for part in chunk_parameters(bodies):
            with self._database.writing() as connection:
                connection.execute(sql.delete(table).where(table.c.seq.in_([seq for seq, _ in part])))
                connection.execute(expired, [{"of_seq": seq, "less": length} for seq, length in part])
        return len(bodies)

    def _forget_placements(self, now: int) -> None:
        gone = sql.and_(
            PLACEMENTS.c.deleted_at < now - _TOMBSTONE,
            ~sql.exists().where(ATTEMPTS.c.key == PLACEMENTS.c.key),
        )
        with self._database.writing() as connection:
            connection.execute(sql.delete(PLACEMENTS).where(gone))

    def _remove_unused_profiles(self) -> None:
        unused = PROFILES.c.config_hash.not_in(sql.select(ATTEMPTS.c.config_hash).distinct())
        with self._database.reading() as connection:
            if connection.execute(sql.select(PROFILES.c.config_hash).where(unused)).first() is None:
                return
        with self._database.writing() as connection:
            lock_writers(connection)
            connection.execute(sql.delete(PROFILES).where(unused))

    # --- the journal --------------------------------------------------------------------------------------------------

    def _compact(self, now: int, session: str) -> None:
        with self._database.reading() as connection:
            sessions = connection.execute(sql.select(SESSIONS.c.id, SESSIONS.c.last_at)).all()
        for row in sessions:
            in_use = row.id == session or row.last_at >= now - IDLE
            self._compact_session(row.id, in_use=in_use)

    def _compact_session(self, session: str, *, in_use: bool) -> None:
        """The writer of a session in use continues after its last full row, which is left unchanged."""
        query = sql.select(JOURNAL.c.seq).where(JOURNAL.c.session == session, JOURNAL.c.is_whole)
        with self._database.reading() as connection:
            starts = connection.execute(query.order_by(JOURNAL.c.seq)).scalars().all()
        ends = [*starts[1:], *(() if in_use else (_LAST,))]
        for start, end in zip(starts, ends, strict=False):
            self._compact_span(session, start, end - 1)
        if not in_use:
            self._remove_session(session)

    def _compact_span(self, session: str, start: int, last: int) -> None:
        """Merge the rows from one full row to the next if many of them are not needed by any attempt."""
        of_span = sql.and_(JOURNAL.c.session == session, JOURNAL.c.seq.between(start, last))
        decided = sql.and_(ATTEMPTS.c.session == session, ATTEMPTS.c.frame_seq.between(start, last))
        with self._database.reading() as connection:
            frames = set(connection.execute(sql.select(ATTEMPTS.c.frame_seq).where(decided).distinct()).scalars())
            seqs = connection.execute(sql.select(JOURNAL.c.seq).where(of_span)).scalars().all()
        newest = max(frames, default=-1)
        needed = sum(1 for seq in seqs if seq <= newest)
        if needed > _MAX_ROWS * len(frames):
            self._merge_span(session, start, frames, of_span)
        elif needed < len(seqs):
            with self._database.writing() as connection:
                connection.execute(sql.delete(JOURNAL).where(of_span, JOURNAL.c.seq > newest))

    def _merge_span(self, session: str, start: int, frames: Collection[int], of_span: sql.ColumnElement[bool]) -> None:
        with self._database.writing() as connection:
            rows = merge_rows(connection, session, start, frames)
            connection.execute(sql.delete(JOURNAL).where(of_span))
            connection.execute(sql.insert(JOURNAL), rows)

    def _remove_session(self, session: str) -> None:
        empty = ~sql.exists().where(JOURNAL.c.session == session)
        unused = ~sql.exists().where(ATTEMPTS.c.session == session, ATTEMPTS.c.frame_seq.is_not(None))
        with self._database.writing() as connection:
            connection.execute(sql.delete(SESSIONS).where(SESSIONS.c.id == session, empty, unused))

    def _release_pages(self) -> None:
        """SQLite keeps free pages until a vacuum; PostgreSQL vacuums by itself."""
        if not self._database.is_postgres:
            self._database.shrink()


def _count_filling(surplus: int, sizes: Sequence[int]) -> int:
    count = 0
    for size in sizes:
        if surplus <= 0:
            break
        surplus -= size
        count += 1
    return count


def _exclude_newest() -> Any:
    living = sql.select(PLACEMENTS.c.newest).where(PLACEMENTS.c.deleted_at.is_(None))
    return ATTEMPTS.c.seq.not_in(living)
