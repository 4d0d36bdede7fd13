"""Journal of cluster changes, from which the fleet of any retained attempt can be rebuilt.

A writer starts a session with a row of all clusters, and appends a row of the changed clusters for each recorded
attempt before which some changed. The fleet of an attempt is the newest full row up to the attempt's position in the
session, with the later changes applied. To keep this fast, a full row is written again when the changes since the last
one are several times its size.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sql

from fleet.history.entries import ClusterRow
from fleet.history.storage.encoding import DocumentCodec
from fleet.history.storage.tables import JOURNAL, SESSIONS

IDLE: Final = 3_600 * 10**9
"""Nanoseconds without a row after which no writer resumes a session, and unneeded rows of it may be removed."""
_MODELS: Final = 8
"""Documents in the compression dictionary: enough to contain what clusters have in common."""
_WHOLE_AGAIN: Final = 4
"""A full row is due after changes of this many times its bytes: a fifth more to write, at most five times to read."""
_LONGEST: Final = 4_000
"""Maximum number of rows between two full rows, if changes are small."""


@dataclass(frozen=True, slots=True)
class JournalSession:
    id: str
    dictionary: bytes


class ClusterJournal:
    """The session in progress; used by the writer's thread only."""

    def __init__(self) -> None:
        self._used_at = 0
        self.restart()

    def resume(self, now: int) -> None:
        """Call before every use. Starts a new session long before retention may treat the current one as idle."""
        if now - self._used_at > IDLE // 2:
            self.restart()
        self._used_at = now

    def restart(self) -> None:
        """Start a new session, which does not depend on what was lost of the old one."""
        self.id = uuid.uuid4().hex[:12]
        self.seq = 0
        self._documents: DocumentCodec | None = None
        self._whole_bytes = self._bytes_since = self._rows_since = 0

    @property
    def is_new(self) -> bool:
        return self._documents is None

    @property
    def needs_full_fleet(self) -> bool:
        """Whether the next row must contain all clusters."""
        outgrown = self._bytes_since > _WHOLE_AGAIN * self._whole_bytes or self._rows_since >= _LONGEST
        return self.is_new or outgrown

    def begin(self, rows: Sequence[ClusterRow]) -> JournalSession:
        models = [document for _, document in rows if document is not None][:: max(1, len(rows) // _MODELS)]
        self._documents = DocumentCodec(b"".join(models))
        return JournalSession(self.id, self._documents.dictionary)

    def build_rows(self, rows: Sequence[ClusterRow], *, is_whole: bool) -> list[dict[str, Any]]:
        """The row to insert; none if nothing changed."""
        assert self._documents is not None
        if not rows and not is_whole:
            return []
        self.seq += 1
        body = self._documents.pack(rows)
        if is_whole:
            self._whole_bytes, self._bytes_since, self._rows_since = len(body), 0, 0
        else:
            self._bytes_since += len(body)
            self._rows_since += 1
        return [_row(self.id, self.seq, body, is_whole=is_whole)]


def read_fleet(connection: sql.Connection, session: str, frame_seq: int) -> tuple[bytes, ...] | None:
    """All clusters at a position, in the order of their names; None if the session is not kept."""
    documents = _documents_of(connection, session)
    start = connection.execute(
        sql.select(sql.func.max(JOURNAL.c.seq)).where(_within(session, 0, frame_seq), JOURNAL.c.is_whole)
    ).scalar()
    if documents is None or start is None:
        return None
    fleet: dict[str, bytes | None] = {}
    query = sql.select(JOURNAL.c.body).where(_within(session, start, frame_seq)).order_by(JOURNAL.c.seq)
    for body in connection.execute(query).scalars():
        fleet.update(documents.unpack(body))
    # Sorted here, because databases differ in collation.
    return tuple(document for _, document in sorted(fleet.items()) if document is not None)


def merge_rows(connection: sql.Connection, session: str, start: int, frames: Collection[int]) -> list[dict[str, Any]]:
    """The fewest rows, starting with a full one, from which the fleet at each of `frames` can be rebuilt."""
    documents = _documents_of(connection, session)
    assert documents is not None
    query = sql.select(JOURNAL.c.seq, JOURNAL.c.body).where(_within(session, start, max(frames)))
    rows: list[dict[str, Any]] = []
    changes: dict[str, bytes | None] = {}
    for seq, body in connection.execute(query.order_by(JOURNAL.c.seq)):
        changes.update(documents.unpack(body))
        if seq in frames:
            entries = changes.items() if rows else [change for change in changes.items() if change[1] is not None]
            rows.append(_row(session, seq, documents.pack(list(entries)), is_whole=not rows))
            changes = {}
    return rows


def _documents_of(connection: sql.Connection, session: str) -> DocumentCodec | None:
    dictionary = connection.execute(sql.select(SESSIONS.c.dictionary).where(SESSIONS.c.id == session)).scalar()
    return None if dictionary is None else DocumentCodec(dictionary)


def _within(session: str, first: int, last: int) -> sql.ColumnElement[bool]:
    return sql.and_(JOURNAL.c.session == session, JOURNAL.c.seq.between(first, last))


def _row(session: str, seq: int, body: bytes, *, is_whole: bool) -> dict[str, Any]:
    return {"session": session, "seq": seq, "is_whole": is_whole, "body": body}
