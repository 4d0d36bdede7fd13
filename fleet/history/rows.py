"""Attempts out of rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sql

from fleet.history.encoding import unpack_facts
from fleet.history.entries import Attempt, Part, Target
from fleet.history.tables import ATTEMPTS, TARGETS

_PLAIN = (
    "seq", "id", "key", "placement_uid", "number", "started", "last_at", "repeats", "ending", "outcome", "fulfilled",
    "digest", "config_hash", "session", "frame_seq",
)  # fmt: skip
_MOST_PARAMETERS = 500

T = TypeVar("T")


def attempt_of(row: Any, targets: Sequence[Target] = ()) -> Attempt:
    columns = {name: getattr(row, name) for name in _PLAIN}
    parts: dict[str, Any] = {"columns": Part(row.columns), "inputs": Part(row.inputs)}
    return Attempt(**columns, **parts, **unpack_facts(row.facts), targets=tuple(targets))


def attempts_of(connection: sql.Connection, asked: sql.Select[Any]) -> list[Attempt]:
    """Of a query for rows of ATTEMPTS, with their targets."""
    rows = connection.execute(asked).all()
    targets = _targets(connection, [row.seq for row in rows])
    return [attempt_of(row, targets.get(row.seq, ())) for row in rows]


def _targets(connection: sql.Connection, seqs: Sequence[int]) -> dict[int, list[Target]]:
    found: dict[int, list[Target]] = {}
    for part in parts_of(seqs):
        asked = sql.select(TARGETS).where(TARGETS.c.seq.in_(part)).order_by(TARGETS.c.seq, TARGETS.c.rank)
        for row in connection.execute(asked).mappings():
            values = dict(row)
            found.setdefault(values.pop("seq"), []).append(Target(**values))
    return found


def parts_of(seqs: Sequence[T]) -> Iterable[Sequence[T]]:
    """No database takes any number of parameters at once."""
    return (seqs[start : start + _MOST_PARAMETERS] for start in range(0, len(seqs), _MOST_PARAMETERS))


ALL = sql.select(ATTEMPTS)
