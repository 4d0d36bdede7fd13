"""Questions to the history. Each is answered from one moment of the database; HistoryUnavailable if there is none.

Pages go from the newest to the oldest, except for `since`, which is for those who follow. The cursor of a page is the
`seq` of its last attempt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sql

from fleet.history.database import Database
from fleet.history.encoding import unpack_columns, unpack_inputs
from fleet.history.entries import Attempt, Columns, KnownPlacement, Recorded, Target
from fleet.history.journal import read_fleet
from fleet.history.rows import ALL, attempts_of
from fleet.history.tables import ATTEMPTS, COLUMNS, COUNTERS, INPUTS, PLACEMENTS, TARGETS

_LARGEST_PAGE: Final = 1000


class Queries:
    def __init__(self, database: Database) -> None:
        self._database = database

    # --- placements ---------------------------------------------------------------------------------------------------

    def placements(
        self, *, prefix: str = "", after: str = "", deleted: bool = False, limit: int = 100
    ) -> list[KnownPlacement]:
        """By key, in the order of the database; `after` is the key of the last one of the page before."""
        asked = (
            sql.select(PLACEMENTS, ATTEMPTS.c.ending, ATTEMPTS.c.outcome, ATTEMPTS.c.fulfilled)
            .join(ATTEMPTS, ATTEMPTS.c.seq == PLACEMENTS.c.newest)
            .where(PLACEMENTS.c.key > after)
            .order_by(PLACEMENTS.c.key)
            .limit(_page(limit))
        )
        if prefix:
            asked = asked.where(PLACEMENTS.c.key.startswith(prefix, autoescape=True))
        if not deleted:
            asked = asked.where(PLACEMENTS.c.deleted_at.is_(None))
        with self._database.reading() as connection:
            return [KnownPlacement(**row) for row in connection.execute(asked).mappings()]

    def placement(self, key: str) -> KnownPlacement | None:
        asked = (
            sql.select(PLACEMENTS, ATTEMPTS.c.ending, ATTEMPTS.c.outcome, ATTEMPTS.c.fulfilled)
            .join(ATTEMPTS, ATTEMPTS.c.seq == PLACEMENTS.c.newest)
            .where(PLACEMENTS.c.key == key)
        )
        with self._database.reading() as connection:
            row = connection.execute(asked).mappings().first()
        return None if row is None else KnownPlacement(**row)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def attempts(self, key: str, *, before: int | None = None, limit: int = 20) -> list[Attempt]:
        """Of a placement, the newest first."""
        asked = ALL.where(ATTEMPTS.c.key == key).order_by(ATTEMPTS.c.seq.desc()).limit(_page(limit))
        return self._attempts(asked if before is None else asked.where(ATTEMPTS.c.seq < before))

    def latest(self, key: str) -> Attempt | None:
        return _first(self.attempts(key, limit=1))

    def attempt(self, attempt_id: str) -> Attempt | None:
        return _first(self._attempts(ALL.where(ATTEMPTS.c.id == attempt_id)))

    def numbered(self, key: str, number: int) -> Attempt | None:
        """The record that tells of a placement's n-th attempt, which may be one that it repeated."""
        asked = ALL.where(ATTEMPTS.c.key == key, ATTEMPTS.c.number <= number)
        found = _first(self._attempts(asked.order_by(ATTEMPTS.c.number.desc()).limit(1)))
        return found if found is not None and number <= found.number + found.repeats else None

    def since(self, seq: int, *, key: str | None = None, outcome: str | None = None, limit: int = 100) -> list[Attempt]:
        """What was recorded after an attempt, the oldest first."""
        asked = ALL.where(ATTEMPTS.c.seq > seq).order_by(ATTEMPTS.c.seq).limit(_page(limit))
        if key is not None:
            asked = asked.where(ATTEMPTS.c.key == key)
        if outcome is not None:
            asked = asked.where(ATTEMPTS.c.outcome == outcome)
        return self._attempts(asked)

    def begun_since(self, started: int, *, limit: int = 1000, after: int = 0) -> list[Attempt]:
        """Attempts that began at a time or later, in the order in which they were recorded."""
        asked = ALL.where(ATTEMPTS.c.started >= started, ATTEMPTS.c.seq > after)
        return self._attempts(asked.order_by(ATTEMPTS.c.seq).limit(_page(limit)))

    def last_seq(self) -> int:
        """Where a reader that is only interested in what comes next begins."""
        with self._database.reading() as connection:
            asked = sql.select(COUNTERS.c.value).where(COUNTERS.c.name == "attempts")
            return int(connection.execute(asked).scalar_one())

    # --- what belongs to one ------------------------------------------------------------------------------------------

    def columns(self, attempt_id: str) -> Columns | None:
        """The verdicts for all clusters; None where they are not kept: `Attempt.columns` says why."""
        asked = sql.select(COLUMNS.c.body).join(ATTEMPTS, ATTEMPTS.c.seq == COLUMNS.c.seq)
        with self._database.reading() as connection:
            body = connection.execute(asked.where(ATTEMPTS.c.id == attempt_id)).scalar()
        return None if body is None else unpack_columns(body)

    def inputs(self, attempt_id: str) -> Recorded | None:
        """What an attempt was decided on; None where it is not kept: `Attempt.inputs` says why."""
        asked = sql.select(INPUTS.c.body).join(ATTEMPTS, ATTEMPTS.c.seq == INPUTS.c.seq)
        with self._database.reading() as connection:
            body = connection.execute(asked.where(ATTEMPTS.c.id == attempt_id)).scalar()
            attempt = _first(attempts_of(connection, ALL.where(ATTEMPTS.c.id == attempt_id)))
            if body is None or attempt is None or attempt.frame_seq is None:
                return None
            clusters = read_fleet(connection, attempt.session, attempt.frame_seq)
        if clusters is None:
            return None
        found = unpack_inputs(body)
        return Recorded(
            attempt=attempt,
            clusters=clusters,
            request=found.request,
            placement_uid=found.placement_uid,
            bindings=found.bindings,
            previous=found.previous,
            now=found.now,
            cursor=found.cursor,
        )

    def cluster_names(self, attempt_id: str) -> tuple[str, ...] | None:
        """The clusters that the columns of an attempt are about, in their order; None where nobody knows any more."""
        columns = self.columns(attempt_id)
        if columns is not None and columns.names is not None:
            return columns.names
        recorded = self.inputs(attempt_id)
        return None if recorded is None else tuple(map(_name_of, recorded.clusters))

    def targets_of(self, cluster: str, *, before: int | None = None, limit: int = 100) -> list[tuple[Attempt, Target]]:
        """Attempts that chose a cluster, the newest first."""
        asked = ALL.join(TARGETS, TARGETS.c.seq == ATTEMPTS.c.seq).where(TARGETS.c.cluster == cluster)
        if before is not None:
            asked = asked.where(TARGETS.c.seq < before)
        found = self._attempts(asked.order_by(TARGETS.c.seq.desc()).limit(_page(limit)))
        return [(one, next(target for target in one.targets if target.cluster == cluster)) for one in found]

    def _attempts(self, asked: sql.Select[Any]) -> list[Attempt]:
        with self._database.reading() as connection:
            return attempts_of(connection, asked)


def _page(limit: int) -> int:
    return max(1, min(limit, _LARGEST_PAGE))


def _first(found: Sequence[Attempt]) -> Attempt | None:
    return found[0] if found else None


def _name_of(document: bytes) -> str:
    return msgspec.json.decode(document, type=_Named).metadata.name


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata
