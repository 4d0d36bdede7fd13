"""What is kept, and for how long. Removing is done in small transactions, so that writing goes on.

The newest attempt of every placement that still exists stays, whatever its age: it is the answer to "why is it there?".
Everything else goes when it is too old, when there is too much of it, or too many of one placement. The journal keeps
what retained attempts were decided on; rows between are joined once there are twice as many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sql

from fleet.history.database import Database
from fleet.history.entries import Part
from fleet.history.journal import IDLE, joined
from fleet.history.rows import parts_of
from fleet.history.tables import ATTEMPTS, COLUMNS, INPUTS, JOURNAL, PLACEMENTS, SESSIONS, TARGETS

_HOUR: Final = 3_600 * 10**9
_MIB: Final = 1_048_576
_TOMBSTONE: Final = _HOUR
"""How long a placement that is gone is still known."""
_JOURNAL_OVERHEAD: Final = 80  # bytes of a row beside its body
_MOST_ROWS: Final = 2  # of the journal, for each fleet that attempts were decided on
_LAST: Final = 2**62
_SLICE: Final = 5000
_PASSES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    max_age_hours: int = 720
    max_mib: int = 1024
    max_attempts: int = 200_000
    per_placement: int = 1000
    """Attempts."""
    columns_per_placement: int = 20
    """How many of them with a verdict for every cluster."""


class Retention:
    def __init__(self, database: Database, limits: Limits) -> None:
        self._database = database
        self._limits = limits

    def run(self, *, now: int, session: str = "") -> int:
        """Remove what is not to be kept; `session` is being written to. Says how many attempts went."""
        removed = self._remove(ATTEMPTS.c.last_at < now - self._limits.max_age_hours * _HOUR)
        removed += self._remove_surplus()
        self._expire(COLUMNS, "columns", self._beyond(self._limits.columns_per_placement))
        self._forget_placements(now)
        self._compact(now, session)
        removed += self._make_room(now, session)
        self._give_back()
        return removed

    def size(self) -> int:
        """Bytes of all that is kept, as it is counted here: databases give back space when they like."""
        with self._database.reading() as connection:
            attempts = connection.execute(sql.select(sql.func.sum(ATTEMPTS.c.bytes))).scalar()
            length = sql.func.length(JOURNAL.c.body) + _JOURNAL_OVERHEAD
            journal = connection.execute(sql.select(sql.func.sum(length))).scalar()
            sessions = connection.execute(sql.select(sql.func.sum(sql.func.length(SESSIONS.c.dictionary)))).scalar()
        return int(attempts or 0) + int(journal or 0) + int(sessions or 0)

    # --- which attempts go --------------------------------------------------------------------------------------------

    def _remove(self, condition: Any) -> int:
        """Attempts that fulfil a condition, except for the newest of each living placement."""
        removed = 0
        while True:
            asked = sql.select(ATTEMPTS.c.seq).where(condition, _not_the_newest()).order_by(ATTEMPTS.c.seq)
            with self._database.reading() as connection:
                seqs = connection.execute(asked.limit(_SLICE)).scalars().all()
            self._delete(seqs)
            removed += len(seqs)
            if len(seqs) < _SLICE:
                return removed

    def _remove_surplus(self) -> int:
        removed = self._remove(ATTEMPTS.c.seq.in_(self._beyond(self._limits.per_placement)))
        with self._database.reading() as connection:
            count = connection.execute(sql.select(sql.func.count()).select_from(ATTEMPTS)).scalar_one()
        surplus = count - self._limits.max_attempts
        return removed + (self._remove_oldest(surplus) if surplus > 0 else 0)

    def _remove_oldest(self, count: int) -> int:
        asked = sql.select(ATTEMPTS.c.seq).where(_not_the_newest()).order_by(ATTEMPTS.c.seq).limit(count)
        with self._database.reading() as connection:
            seqs = connection.execute(asked).scalars().all()
        self._delete(seqs)
        return len(seqs)

    def _beyond(self, newest: int) -> sql.Select[Any]:
        """All but the newest few of each placement."""
        place = sql.func.row_number().over(partition_by=ATTEMPTS.c.key, order_by=ATTEMPTS.c.seq.desc())
        ranked = sql.select(ATTEMPTS.c.seq, place.label("place")).subquery()
        return sql.select(ranked.c.seq).where(ranked.c.place > newest)

    def _make_room(self, now: int, session: str) -> int:
        """The oldest go until the rest fits; if that is not enough, bodies of those that have to stay."""
        removed, most = 0, self._limits.max_mib * _MIB
        for _ in range(_PASSES):
            surplus = self.size() - most
            if surplus <= 0:
                break
            gone = self._remove_oldest(self._how_many(surplus))
            if not gone and not self._lighten(surplus):
                break
            removed += gone
            self._compact(now, session)
        return removed

    def _how_many(self, surplus: int) -> int:
        asked = sql.select(ATTEMPTS.c.bytes).where(_not_the_newest()).order_by(ATTEMPTS.c.seq).limit(_SLICE)
        with self._database.reading() as connection:
            return _as_many_as_fill(surplus, connection.execute(asked).scalars().all())

    def _lighten(self, surplus: int) -> bool:
        for table, name in ((COLUMNS, "columns"), (INPUTS, "inputs")):
            asked = sql.select(table.c.seq, sql.func.length(table.c.body)).order_by(table.c.seq).limit(_SLICE)
            with self._database.reading() as connection:
                sizes = [length for _, length in connection.execute(asked)]
            oldest = sql.select(table.c.seq).order_by(table.c.seq).limit(_as_many_as_fill(surplus, sizes))
            if sizes and self._expire(table, name, oldest):
                return True
        return False

    # --- removing -----------------------------------------------------------------------------------------------------

    def _delete(self, seqs: Sequence[int]) -> None:
        for part in parts_of(seqs):
            with self._database.writing() as connection:
                for table in (TARGETS, COLUMNS, INPUTS, ATTEMPTS):
                    connection.execute(sql.delete(table).where(table.c.seq.in_(part)))

    def _expire(self, table: sql.Table, name: str, which: sql.Select[Any]) -> int:
        """Remove a body of attempts that stay."""
        asked = sql.select(table.c.seq, sql.func.length(table.c.body)).where(table.c.seq.in_(which))
        with self._database.reading() as connection:
            found = connection.execute(asked).all()
        said = {name: str(Part.EXPIRED), "bytes": ATTEMPTS.c.bytes - sql.bindparam("less")}
        if name == "inputs":
            said["frame_seq"] = sql.null()
        expired = sql.update(ATTEMPTS).where(ATTEMPTS.c.seq == sql.bindparam("of_seq")).values(**said)
        for part in parts_of(found):
            with self._database.writing() as connection:
                connection.execute(sql.delete(table).where(table.c.seq.in_([seq for seq, _ in part])))
                connection.execute(expired, [{"of_seq": seq, "less": length} for seq, length in part])
        return len(found)

    def _forget_placements(self, now: int) -> None:
        gone = sql.and_(
            PLACEMENTS.c.deleted_at < now - _TOMBSTONE,
            ~sql.exists().where(ATTEMPTS.c.key == PLACEMENTS.c.key),
        )
        with self._database.writing() as connection:
            connection.execute(sql.delete(PLACEMENTS).where(gone))

    # --- the journal --------------------------------------------------------------------------------------------------

    def _compact(self, now: int, session: str) -> None:
        with self._database.reading() as connection:
            sessions = connection.execute(sql.select(SESSIONS.c.id, SESSIONS.c.last_at)).all()
        for one in sessions:
            in_use = one.id == session or one.last_at >= now - IDLE
            self._compact_session(one.id, in_use=in_use)

    def _compact_session(self, session: str, *, in_use: bool) -> None:
        """Whoever writes to a session goes on after its last whole fleet, which is left as it is."""
        asked = sql.select(JOURNAL.c.seq).where(JOURNAL.c.session == session, JOURNAL.c.is_whole)
        with self._database.reading() as connection:
            starts = connection.execute(asked.order_by(JOURNAL.c.seq)).scalars().all()
        ends = [*starts[1:], *(() if in_use else (_LAST,))]
        for start, end in zip(starts, ends, strict=False):
            self._compact_span(session, start, end - 1)
        if not in_use:
            self._end_session(session)

    def _compact_span(self, session: str, start: int, last: int) -> None:
        """From a whole fleet to the next: no more rows than attempts are decided on, if there are many more."""
        of_span = sql.and_(JOURNAL.c.session == session, JOURNAL.c.seq.between(start, last))
        decided = sql.and_(ATTEMPTS.c.session == session, ATTEMPTS.c.frame_seq.between(start, last))
        with self._database.reading() as connection:
            frames = set(connection.execute(sql.select(ATTEMPTS.c.frame_seq).where(decided).distinct()).scalars())
            seqs = connection.execute(sql.select(JOURNAL.c.seq).where(of_span)).scalars().all()
        newest = max(frames, default=-1)
        needed = sum(1 for seq in seqs if seq <= newest)
        if needed > _MOST_ROWS * len(frames):
            self._join(session, start, frames, of_span)
        elif needed < len(seqs):
            with self._database.writing() as connection:
                connection.execute(sql.delete(JOURNAL).where(of_span, JOURNAL.c.seq > newest))

    def _join(self, session: str, start: int, frames: Collection[int], of_span: sql.ColumnElement[bool]) -> None:
        with self._database.writing() as connection:
            rows = joined(connection, session, start, frames)
            connection.execute(sql.delete(JOURNAL).where(of_span))
            connection.execute(sql.insert(JOURNAL), rows)

    def _end_session(self, session: str) -> None:
        empty = ~sql.exists().where(JOURNAL.c.session == session)
        unused = ~sql.exists().where(ATTEMPTS.c.session == session, ATTEMPTS.c.frame_seq.is_not(None))
        with self._database.writing() as connection:
            connection.execute(sql.delete(SESSIONS).where(SESSIONS.c.id == session, empty, unused))

    def _give_back(self) -> None:
        """SQLite keeps pages that are free until it is told; PostgreSQL looks after itself."""
        if not self._database.is_postgres:
            self._database.shrink()


def _as_many_as_fill(surplus: int, sizes: Sequence[int]) -> int:
    count = 0
    for size in sizes:
        if surplus <= 0:
            break
        surplus -= size
        count += 1
    return count


def _not_the_newest() -> Any:
    living = sql.select(PLACEMENTS.c.newest).where(PLACEMENTS.c.deleted_at.is_(None))
    return ATTEMPTS.c.seq.not_in(living)
