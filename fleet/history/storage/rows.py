"""Conversion of rows to attempts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sql

from fleet.history.entries import HistoryAttempt, PartState, RecordedTarget
from fleet.history.storage.encoding import unpack_facts
from fleet.history.storage.tables import ATTEMPTS, TARGETS

_PLAIN = (
    "seq", "id", "key", "placement_uid", "number", "started", "last_at", "repeats", "ending", "outcome", "fulfilled",
    "digest", "config_hash", "session", "frame_seq", "epoch",
)  # fmt: skip
_MOST_PARAMETERS = 500

T = TypeVar("T")


def build_attempt(row: Any, targets: Sequence[RecordedTarget] = ()) -> HistoryAttempt:
    columns = {name: getattr(row, name) for name in _PLAIN}
    parts: dict[str, Any] = {"columns": PartState(row.columns), "inputs": PartState(row.inputs)}
    return HistoryAttempt(**columns, **parts, **unpack_facts(row.facts), targets=tuple(targets))


def load_attempts(connection: sql.Connection, query: sql.Select[Any]) -> list[HistoryAttempt]:
    """The attempts of a query on ATTEMPTS, with their targets."""
    rows = connection.execute(query).all()
    targets = _targets(connection, [row.seq for row in rows])
    return [build_attempt(row, targets.get(row.seq, ())) for row in rows]


def _targets(connection: sql.Connection, seqs: Sequence[int]) -> dict[int, list[RecordedTarget]]:
    targets: dict[int, list[RecordedTarget]] = {}
    for part in chunk_parameters(seqs):
        query = sql.select(TARGETS).where(TARGETS.c.seq.in_(part)).order_by(TARGETS.c.seq, TARGETS.c.rank)
        for row in connection.execute(query).mappings():
            values = dict(row)
            targets.setdefault(values.pop("seq"), []).append(RecordedTarget(**values))
    return targets


def chunk_parameters(seqs: Sequence[T]) -> Iterable[Sequence[T]]:
    """Databases limit the number of parameters of a statement."""
    return (seqs[start : start + _MOST_PARAMETERS] for start in range(0, len(seqs), _MOST_PARAMETERS))


ALL = sql.select(ATTEMPTS)
NEWEST_FIRST = (ATTEMPTS.c.epoch.desc(), ATTEMPTS.c.seq.desc())
"""Of the attempts of one placement."""
