"""The clusters as they changed, so that the fleet of any retained attempt can be put together again.

A writer begins a session with every cluster, and goes on with those that changed between two recorded attempts: a row
for each attempt before which some did. The fleet of an attempt is the newest row of the whole fleet up to the attempt's
place in its session, with the changes since. So that this never takes long, the whole fleet is written again when the
changes since come to several times its size.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sql

from fleet.history.encoding import Documents
from fleet.history.entries import ClusterRow
from fleet.history.tables import JOURNAL, SESSIONS

IDLE: Final = 3_600 * 10**9
"""Nanoseconds without a row after which nobody goes on with a session, and what no attempt needs of it may go."""
_MODELS: Final = 8
"""Documents in the dictionary: enough to have seen what clusters have in common."""
_WHOLE_AGAIN: Final = 4
"""After changes of as many times its bytes: a fifth more to write, five times as much to read at most."""
_LONGEST: Final = 4_000
"""Rows from one whole fleet to the next, where changes are small."""


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    dictionary: bytes


class Journal:
    """A session in progress; used by the writer's thread only."""

    def __init__(self) -> None:
        self._used_at = 0
        self.restart()

    def resume(self, now: int) -> None:
        """To be called before every use. Begins anew long before others may take the session for an old one."""
        if now - self._used_at > IDLE // 2:
            self.restart()
        self._used_at = now

    def restart(self) -> None:
        """A new session: whatever was lost of the old one is not missed."""
        self.id = uuid.uuid4().hex[:12]
        self.seq = 0
        self._documents: Documents | None = None
        self._whole_bytes = self._bytes_since = self._rows_since = 0

    @property
    def is_new(self) -> bool:
        return self._documents is None

    @property
    def wants_all(self) -> bool:
        """Whether the next row has to be of the whole fleet."""
        outgrown = self._bytes_since > _WHOLE_AGAIN * self._whole_bytes or self._rows_since >= _LONGEST
        return self.is_new or outgrown

    def begin(self, rows: Sequence[ClusterRow]) -> Session:
        models = [document for _, document in rows if document is not None][:: max(1, len(rows) // _MODELS)]
        self._documents = Documents(b"".join(models))
        return Session(self.id, self._documents.dictionary)

    def packed(self, rows: Sequence[ClusterRow], *, is_whole: bool) -> list[dict[str, Any]]:
        """As a row of the table; none where nothing changed."""
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
    """All clusters as they were, in the order of their names; None when the session is not kept."""
    documents = _documents_of(connection, session)
    start = connection.execute(
        sql.select(sql.func.max(JOURNAL.c.seq)).where(_within(session, 0, frame_seq), JOURNAL.c.is_whole)
    ).scalar()
    if documents is None or start is None:
        return None
    fleet: dict[str, bytes | None] = {}
    asked = sql.select(JOURNAL.c.body).where(_within(session, start, frame_seq)).order_by(JOURNAL.c.seq)
    for body in connection.execute(asked).scalars():
        fleet.update(documents.unpack(body))
    # Sorted here: databases differ in how they order texts.
    return tuple(document for _, document in sorted(fleet.items()) if document is not None)


def joined(connection: sql.Connection, session: str, start: int, frames: Collection[int]) -> list[dict[str, Any]]:
    """The rows from one of the whole fleet up to the last of `frames`, as few as tell these frames."""
    documents = _documents_of(connection, session)
    assert documents is not None
    asked = sql.select(JOURNAL.c.seq, JOURNAL.c.body).where(_within(session, start, max(frames)))
    found: list[dict[str, Any]] = []
    changes: dict[str, bytes | None] = {}
    for seq, body in connection.execute(asked.order_by(JOURNAL.c.seq)):
        changes.update(documents.unpack(body))
        if seq in frames:
            told = changes.items() if found else [one for one in changes.items() if one[1] is not None]
            found.append(_row(session, seq, documents.pack(list(told)), is_whole=not found))
            changes = {}
    return found


def _documents_of(connection: sql.Connection, session: str) -> Documents | None:
    dictionary = connection.execute(sql.select(SESSIONS.c.dictionary).where(SESSIONS.c.id == session)).scalar()
    return None if dictionary is None else Documents(dictionary)


def _within(session: str, first: int, last: int) -> sql.ColumnElement[bool]:
    return sql.and_(JOURNAL.c.session == session, JOURNAL.c.seq.between(first, last))


def _row(session: str, seq: int, body: bytes, *, is_whole: bool) -> dict[str, Any]:
    return {"session": session, "seq": seq, "is_whole": is_whole, "body": body}
