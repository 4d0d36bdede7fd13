"""Side data of a frame as bytes: what of its feeds, ledgers and residents a replay needs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from fleet.snapshot.frame import Frame
from fleet.snapshot.sidedata import NO_RESIDENTS, Nomination, PlacedBinding, ResidentGroup, Residents
from fleet.snapshot.table import Table


class _RecordedFeed(msgspec.Struct, frozen=True, array_like=True):
    """Columns in the order of names."""

    columns: dict[str, bytes]
    sampled_at: bytes
    max_age: int
    error: str = ""


class _RecordedResidents(msgspec.Struct, frozen=True, array_like=True):
    group: ResidentGroup
    by_cluster: dict[str, list[str]]


class _RecordedSideData(msgspec.Struct, frozen=True, array_like=True):
    feeds: dict[str, _RecordedFeed]
    ledgers: dict[str, dict[str, int]]
    """By cluster; those without an amount are left out."""
    residents: list[_RecordedResidents] = []
    nominations: tuple[Nomination, ...] = ()
    placed: dict[str, tuple[PlacedBinding, ...]] = {}
    """By cluster."""


def encode_sidedata(
    frame: Frame, *, feeds: bool, ledgers: bool, residents: Residents = NO_RESIDENTS, placed: bool = False
) -> bytes:
    """Empty without any. `residents` are those that the decision read; nominations belong to the ledgers."""
    recorded = _RecordedSideData(
        {name: _record_feed(frame, name) for name in sorted(frame.feeds)} if feeds else {},
        {name: booked for name in sorted(frame.ledgers) if (booked := _list_booked(frame, name))} if ledgers else {},
        [_record_residents(group, residents[group]) for group in sorted(residents)],
        frame.nominations if ledgers else (),
        {frame.name(row): bindings for row, bindings in enumerate(frame.placed) if bindings} if placed else {},
    )
    is_empty = recorded == _RecordedSideData({}, {})
    return b"" if is_empty else msgspec.msgpack.encode(recorded)


def _record_residents(group: ResidentGroup, by_cluster: Mapping[str, frozenset[str]]) -> _RecordedResidents:
    return _RecordedResidents(group, {cluster: sorted(by_cluster[cluster]) for cluster in sorted(by_cluster)})


def _record_feed(frame: Frame, name: str) -> _RecordedFeed:
    feed, order = frame.feeds[name], frame.names.order
    return _RecordedFeed(
        {column: values[order].astype("<f8").tobytes() for column, values in feed.columns.items()},
        feed.sampled_at[order].astype("<i8").tobytes(),
        feed.max_age,
        feed.error,
    )


def _list_booked(frame: Frame, ledger: str) -> dict[str, int]:
    booked = frame.ledgers[ledger]
    return {frame.name(row): int(booked[row]) for row in np.flatnonzero(booked).tolist()}


def restore_sidedata(table: Table, encoded: bytes) -> None:
    """Into a table with the same clusters."""
    if not encoded:
        return
    names = table.freeze().names.ordered
    recorded = msgspec.msgpack.decode(encoded, type=_RecordedSideData)
    for name, feed in recorded.feeds.items():
        columns = {
            column: dict(zip(names, np.frombuffer(values, "<f8").tolist(), strict=True))
            for column, values in feed.columns.items()
        }
        times = dict(zip(names, np.frombuffer(feed.sampled_at, "<i8").tolist(), strict=True))
        table.feed(name, columns, sampled_at=times, max_age=feed.max_age, error=feed.error)
    for ledger, booked in recorded.ledgers.items():
        for cluster, amount in booked.items():
            table.book(ledger, cluster, amount)
    if recorded.residents:
        table.settle(
            {
                each.group: {cluster: frozenset(placements) for cluster, placements in each.by_cluster.items()}
                for each in recorded.residents
            }
        )
    for cluster, bindings in recorded.placed.items():
        table.set_placed(cluster, bindings)
    if recorded.nominations:
        table.nominate(recorded.nominations)
