"""Queries of the history. Each sees one state of the database; HistoryUnavailable if it cannot be read.

Pages go from the newest to the oldest attempt, except for `since`, which serves followers. The cursor of a page is the
`seq` of its last attempt; of a placement's attempts, its epoch and `seq`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import msgspec
import sqlalchemy as sql

from fleet.history.entries import Columns, HistoryAttempt, KnownPlacement, RecordedTarget, ReplayInputs
from fleet.history.storage.database import HistoryDatabase
from fleet.history.storage.encoding import unpack_columns, unpack_inputs, unpack_profile
from fleet.history.storage.journal import read_fleet
from fleet.history.storage.rows import ALL, NEWEST_FIRST, load_attempts
from fleet.history.storage.tables import ATTEMPTS, COLUMNS, COUNTERS, INPUTS, PLACEMENTS, PROFILES, TARGETS

_LARGEST_PAGE: Final = 1000


class Queries:
    def __init__(
        self, database: HistoryDatabase, *, guard: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        """`guard` is entered for every query, and may refuse it."""
        self._database = database
        self._guard = guard

    @contextmanager
    def _reading(self) -> Iterator[sql.Connection]:
        with self._guard(), self._database.reading() as connection:
            yield connection

    # --- placements ---------------------------------------------------------------------------------------------------

    def placements(
        self, *, prefix: str = "", after: str = "", deleted: bool = False, limit: int = 100
    ) -> list[KnownPlacement]:
        """In the order of their keys; `after` is the last key of the previous page."""
        query = (
            sql.select(PLACEMENTS, ATTEMPTS.c.ending, ATTEMPTS.c.outcome, ATTEMPTS.c.fulfilled)
            .join(ATTEMPTS, ATTEMPTS.c.seq == PLACEMENTS.c.newest)
            .where(PLACEMENTS.c.key > after)
            .order_by(PLACEMENTS.c.key)
            .limit(_page(limit))
        )
        if prefix:
            query = query.where(PLACEMENTS.c.key.startswith(prefix, autoescape=True))
        if not deleted:
            query = query.where(PLACEMENTS.c.deleted_at.is_(None))
        with self._reading() as connection:
            return [KnownPlacement(**row) for row in connection.execute(query).mappings()]

    def placement(self, key: str) -> KnownPlacement | None:
        query = (
            sql.select(PLACEMENTS, ATTEMPTS.c.ending, ATTEMPTS.c.outcome, ATTEMPTS.c.fulfilled)
            .join(ATTEMPTS, ATTEMPTS.c.seq == PLACEMENTS.c.newest)
            .where(PLACEMENTS.c.key == key)
        )
        with self._reading() as connection:
            row = connection.execute(query).mappings().first()
        return None if row is None else KnownPlacement(**row)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def attempts(self, key: str, *, before: tuple[int, int] | None = None, limit: int = 20) -> list[HistoryAttempt]:
        """Attempts of a placement, the newest first; `before` is an epoch and a `seq`."""
        query = ALL.where(ATTEMPTS.c.key == key).order_by(*NEWEST_FIRST).limit(_page(limit))
        if before is not None:
            query = query.where(sql.tuple_(ATTEMPTS.c.epoch, ATTEMPTS.c.seq) < sql.tuple_(*before))
        return self._attempts(query)

    def latest(self, key: str) -> HistoryAttempt | None:
        return _first(self.attempts(key, limit=1))

    def list_latest(self, keys: Collection[str]) -> dict[str, HistoryAttempt]:
        """The newest attempt of each placement that has one, by its key."""
        ordered = sorted(keys)
        pages = (ordered[start : start + _LARGEST_PAGE] for start in range(0, len(ordered), _LARGEST_PAGE))
        newest = ALL.join(PLACEMENTS, PLACEMENTS.c.newest == ATTEMPTS.c.seq)
        attempts = (each for page in pages for each in self._attempts(newest.where(PLACEMENTS.c.key.in_(page))))
        return {attempt.key: attempt for attempt in attempts}

    def attempt(self, attempt_id: str) -> HistoryAttempt | None:
        return _first(self._attempts(ALL.where(ATTEMPTS.c.id == attempt_id)))

    def find_by_number(self, key: str, number: int) -> HistoryAttempt | None:
        """The record of a placement's n-th attempt, into which it may have been folded."""
        query = ALL.where(ATTEMPTS.c.key == key, ATTEMPTS.c.number <= number)
        attempt = _first(self._attempts(query.order_by(ATTEMPTS.c.number.desc()).limit(1)))
        return attempt if attempt is not None and number <= attempt.number + attempt.repeats else None

    def since(
        self, seq: int, *, key: str | None = None, outcome: str | None = None, limit: int = 100
    ) -> list[HistoryAttempt]:
        """Attempts recorded after `seq`, the oldest first."""
        query = ALL.where(ATTEMPTS.c.seq > seq).order_by(ATTEMPTS.c.seq).limit(_page(limit))
        if key is not None:
            query = query.where(ATTEMPTS.c.key == key)
        if outcome is not None:
            query = query.where(ATTEMPTS.c.outcome == outcome)
        return self._attempts(query)

    def started_since(self, started: int, *, limit: int = 1000, after: int = 0) -> list[HistoryAttempt]:
        """Attempts that started at a time or later, in the order in which they were recorded."""
        query = ALL.where(ATTEMPTS.c.started >= started, ATTEMPTS.c.seq > after)
        return self._attempts(query.order_by(ATTEMPTS.c.seq).limit(_page(limit)))

    def last_seq(self) -> int:
        """The start for a reader that follows new attempts only."""
        with self._reading() as connection:
            query = sql.select(COUNTERS.c.value).where(COUNTERS.c.name == "attempts")
            return int(connection.execute(query).scalar_one())

    # --- parts of an attempt ------------------------------------------------------------------------------------------

    def columns(self, attempt_id: str) -> Columns | None:
        """The verdicts for all clusters; None if not kept: `HistoryAttempt.columns` has the reason."""
        query = sql.select(COLUMNS.c.body).join(ATTEMPTS, ATTEMPTS.c.seq == COLUMNS.c.seq)
        with self._reading() as connection:
            body = connection.execute(query.where(ATTEMPTS.c.id == attempt_id)).scalar()
        return None if body is None else unpack_columns(body)

    def inputs(self, attempt_id: str) -> ReplayInputs | None:
        """The inputs of an attempt; None if not kept: `HistoryAttempt.inputs` has the reason."""
        query = sql.select(INPUTS.c.body).join(ATTEMPTS, ATTEMPTS.c.seq == INPUTS.c.seq)
        with self._reading() as connection:
            body = connection.execute(query.where(ATTEMPTS.c.id == attempt_id)).scalar()
            attempt = _first(load_attempts(connection, ALL.where(ATTEMPTS.c.id == attempt_id)))
            if body is None or attempt is None or attempt.frame_seq is None:
                return None
            clusters = read_fleet(connection, attempt.session, attempt.frame_seq)
            profile = _read_profile(connection, attempt.config_hash)
        if clusters is None:
            return None
        inputs = unpack_inputs(body)
        return ReplayInputs(
            attempt=attempt,
            clusters=clusters,
            request=inputs.request,
            placement_uid=inputs.placement_uid,
            bindings=inputs.bindings,
            previous=inputs.previous,
            now=inputs.now,
            cursor=inputs.cursor,
            results=inputs.results,
            sidedata=inputs.sidedata,
            nominated=inputs.nominated,
            set_aside=inputs.set_aside,
            profile=profile,
        )

    def cluster_names(self, attempt_id: str) -> tuple[str, ...] | None:
        """The cluster names of an attempt's columns, in their order; None if they are no longer known."""
        columns = self.columns(attempt_id)
        if columns is not None and columns.names is not None:
            return columns.names
        recorded = self.inputs(attempt_id)
        return None if recorded is None else tuple(map(_name_of, recorded.clusters))

    def targets_of(
        self, cluster: str, *, before: int | None = None, limit: int = 100
    ) -> list[tuple[HistoryAttempt, RecordedTarget]]:
        """Attempts that selected a cluster, the newest first."""
        query = ALL.join(TARGETS, TARGETS.c.seq == ATTEMPTS.c.seq).where(TARGETS.c.cluster == cluster)
        if before is not None:
            query = query.where(TARGETS.c.seq < before)
        attempts = self._attempts(query.order_by(TARGETS.c.seq.desc()).limit(_page(limit)))
        return [
            (attempt, next(target for target in attempt.targets if target.cluster == cluster)) for attempt in attempts
        ]

    def _attempts(self, query: sql.Select[Any]) -> list[HistoryAttempt]:
        with self._reading() as connection:
            return load_attempts(connection, query)


def _read_profile(connection: sql.Connection, config_hash: str) -> bytes:
    body = connection.execute(sql.select(PROFILES.c.body).where(PROFILES.c.config_hash == config_hash)).scalar()
    return b"" if body is None else unpack_profile(body)


def _page(limit: int) -> int:
    return max(1, min(limit, _LARGEST_PAGE))


def _first(attempts: Sequence[HistoryAttempt]) -> HistoryAttempt | None:
    return attempts[0] if attempts else None


def _name_of(document: bytes) -> str:
    return msgspec.json.decode(document, type=_Named).metadata.name


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata
