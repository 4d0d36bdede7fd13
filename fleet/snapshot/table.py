"""Table: the mutable fleet, and the one writer behind all frames.

`put` and `remove` change one row and touch only the columns whose value differs. A column that a frame holds is
copied before its first write (its arrays are read-only from the moment of `freeze`), everything else is written in
place. `freeze` returns the current state at almost no cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fleet.model.views import MemberCluster, MemberClusterStatus
from fleet.snapshot.capacity import assumed_ledger
from fleet.snapshot.columns.bitset import FloatArray, Int64Array, enlarge, from_rows, writable
from fleet.snapshot.columns.rows import Blocks, NameIndex
from fleet.snapshot.columns.signals import signals_of
from fleet.snapshot.frame import Column, ColumnKey, Frame
from fleet.snapshot.removals import Removals
from fleet.snapshot.row_log import LogPosition, RowLog
from fleet.snapshot.sidedata import NO_RESIDENTS, Feed, Nomination, PlacedBinding, Residents

_GROWTH = 16
_MOST_COLUMNS = 2048
"""Columns are built for any key that a policy names, and every change of a cluster looks at all of them. With more of
them, those that are still read are built again."""


class Table:
    def __init__(self, clusters: Iterable[MemberCluster] = ()) -> None:
        by_name = {cluster.metadata.name: cluster for cluster in clusters}
        self._names = NameIndex(list(by_name))
        self._clusters: Blocks[MemberCluster | None] = Blocks(by_name.values())
        self._columns: dict[ColumnKey, Column] = {}
        self._derived: dict[Any, tuple[tuple[object, ...], Any]] = {}
        self._placed: Blocks[tuple[PlacedBinding, ...]] = Blocks(() for _ in by_name)
        self._residents = NO_RESIDENTS
        self._nominations: tuple[Nomination, ...] = ()
        self._feeds: dict[str, Feed] = {}
        self._ledgers: dict[str, Int64Array] = {}
        self._free = self._excluded = 0
        self._generation = self._revision = 1
        self._log = RowLog()
        self._frozen: Frame | None = None

    @classmethod
    def fork(cls, frame: Frame) -> Table:
        """An independent table to edit, for a what-if. Its changes do not reach the frame."""
        table = cls.__new__(cls)
        table._names, table._clusters = frame.names, frame.clusters
        table._columns, table._derived = frame._columns, dict(frame._derived)
        table._placed, table._nominations = frame.placed, frame.nominations
        table._residents = frame.residents
        table._feeds, table._ledgers = dict(frame.feeds), dict(frame.ledgers)
        table._free, table._excluded = ((1 << frame.size) - 1) & ~frame.valid, frame.excluded
        table._generation, table._revision = frame.generation, frame.revision
        table._log = RowLog(frame.log_position)
        table._frozen = frame
        return table

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def get(self, name: str) -> MemberCluster | None:
        row = self._names.row_of(name)
        return None if row is None else self._clusters[row]

    def freeze(self) -> Frame:
        if self._frozen is None:
            for column in self._columns.values():
                if not column.frozen:
                    column.freeze()
            for ledger in self._ledgers.values():
                ledger.flags.writeable = False
            self._frozen = Frame(
                names=self._names,
                clusters=self._clusters,
                generation=self._generation,
                revision=self._revision,
                placed=self._placed,
                residents=self._residents,
                nominations=self._nominations,
                feeds=self._feeds,
                ledgers=self._ledgers,
                excluded=self._excluded,
                log_position=LogPosition(self._log, len(self._log.rows)),
                _columns=self._columns,
                _derived=self._derived,
            )
        return self._frozen

    # --- one row ----------------------------------------------------------------------------------------------------

    def put(self, cluster: MemberCluster) -> None:
        """Add or replace a cluster. After an error the table is as it was before."""
        self._thaw()
        row = self._names.row_of(cluster.metadata.name)
        if row is not None:
            self._replace(row, cluster)
            return
        row = self._take_row()
        before = self._names
        self._names = before.with_name(cluster.metadata.name, row)
        try:
            self._replace(row, cluster)
        except BaseException:
            self._names = before
            self._free |= 1 << row
            raise

    def remove(self, name: str) -> bool:
        """Remove a cluster; False if it is unknown."""
        row = self._names.row_of(name)
        if row is None:
            return False
        self._thaw()
        self._names = self._names.without_name(name)
        self._replace(row, None)
        self._free |= 1 << row
        self._excluded &= ~(1 << row)
        self._placed = self._placed.put(row, ())
        for ledger, booked in self._ledgers.items():
            if booked[row]:
                self._ledgers[ledger] = booked = writable(booked)
                booked[row] = 0
        self._forget_feeds(row)
        return True

    def _replace(self, row: int, cluster: MemberCluster | None) -> None:
        before = self._clusters[row]
        try:
            for key, column in list(self._columns.items()):
                if column.differs(before, cluster):
                    self._writable(key, column).put(row, cluster)
        except BaseException:
            self._columns = {}  # some are written, some are not: all are built again from the clusters on next use
            raise
        self._clusters = self._clusters.put(row, cluster)
        self._log_rows((row,))
        self._revision += 1
        if differ_beyond_heartbeat(before, cluster):
            self._generation += 1

    def _writable(self, key: ColumnKey, column: Column) -> Column:
        if column.frozen:
            column = self._columns[key] = column.thaw()
        return column

    def _take_row(self) -> int:
        if not self._free:
            self._grow()
        row = (self._free & -self._free).bit_length() - 1
        self._free &= self._free - 1
        return row

    def _grow(self) -> None:
        old = self._names.size
        size = old + max(_GROWTH, old // 8)
        self._names = self._names.with_size(size)
        self._clusters = self._clusters.grow(size, None)
        self._placed = self._placed.grow(size, ())
        for key, column in list(self._columns.items()):
            self._writable(key, column).resize(size)
        self._ledgers = {name: enlarge(booked, size, 0) for name, booked in self._ledgers.items()}
        self._feeds = {name: _grown_feed(feed, size) for name, feed in self._feeds.items()}
        self._free = from_rows(range(old, size))
        self._log = RowLog()

    def _thaw(self) -> None:
        """Detach from the last frame: its dictionaries stay as they are."""
        if self._frozen is not None:
            self._frozen = None
            self._columns = self._columns.copy() if len(self._columns) <= _MOST_COLUMNS else {}
            self._feeds, self._ledgers = self._feeds.copy(), self._ledgers.copy()

    # --- bindings ---------------------------------------------------------------------------------------------------

    def place(self, cluster: str, binding: PlacedBinding) -> None:
        """Set a placement's binding on a cluster, actual or assumed."""
        row = self._row(cluster)
        others = (other for other in self._placed[row] if other.placement != binding.placement)
        self._set_placed(row, (*others, binding))

    def displace(self, cluster: str, placement: str) -> None:
        """Remove a placement's binding from a cluster, actually or hypothetically."""
        row = self._row(cluster)
        self._set_placed(row, tuple(binding for binding in self._placed[row] if binding.placement != placement))

    def set_placed(self, cluster: str, bindings: Iterable[PlacedBinding]) -> None:
        """All bindings on a cluster."""
        self._set_placed(self._row(cluster), tuple(bindings))

    def give_back(self, removed: Removals) -> None:
        """Take the room of some bindings away hypothetically; they stay in their column."""
        self._log_rows(removed)
        for resource, given in removed.sum_requests().items():
            booked = self._begin_booking(assumed_ledger(resource))
            booked[removed.rows] -= given
            self._end_booking(assumed_ledger(resource), booked)

    def leave_out(self, removed: Mapping[int, Collection[PlacedBinding]]) -> None:
        """Take the bindings themselves away, too."""
        for row, bindings in removed.items():
            self._set_placed(row, tuple(binding for binding in self._placed[row] if binding not in bindings))

    def nominate(self, nominations: Iterable[Nomination]) -> None:
        """Replace all nominations."""
        self._thaw()
        before, self._nominations = self._nominations, tuple(nominations)
        rows = (self._names.row_of(each.cluster) for each in (*before, *self._nominations))
        self._log_rows(row for row in rows if row is not None)
        self._bump_versions()

    def settle(self, residents: Residents) -> None:
        """Replace all residents."""
        if residents is not self._residents:
            self._thaw()
            self._residents = residents
            self._bump_versions()

    def _set_placed(self, row: int, bindings: tuple[PlacedBinding, ...]) -> None:
        if bindings != self._placed[row]:
            self._thaw()
            self._placed = self._placed.put(row, bindings)
            self._log_rows((row,))
            self._bump_versions()

    def _row(self, cluster: str) -> int:
        row = self._names.row_of(cluster)
        if row is None:
            raise KeyError(cluster)
        return row

    def _log_rows(self, rows: Iterable[int]) -> None:
        if self._log.is_full:
            self._log = RowLog()
        self._log.rows.extend(rows)

    def _bump_versions(self) -> None:
        self._generation += 1
        self._revision += 1

    # --- side data --------------------------------------------------------------------------------------------------

    def book(self, ledger: str, name: str, amount: int) -> None:
        """Add to what a plugin has reserved on a cluster; negative amounts give back."""
        row = self._row(name)
        booked = self._begin_booking(ledger)
        booked[row] += amount
        self._log_rows((row,))
        self._end_booking(ledger, booked, has_some=bool(booked[row]))

    def _begin_booking(self, ledger: str) -> Int64Array:
        self._thaw()
        booked = self._ledgers.get(ledger)
        return np.zeros(self._names.size, dtype=np.int64) if booked is None else writable(booked)

    def _end_booking(self, ledger: str, booked: Int64Array, *, has_some: bool = False) -> None:
        if has_some or booked.any():
            self._ledgers[ledger] = booked
        else:
            self._ledgers.pop(ledger, None)
        self._bump_versions()

    def feed(
        self,
        name: str,
        samples: Mapping[str, Mapping[str, float]],
        *,
        sampled_at: Mapping[str, int],
        max_age: int = 0,
        error: str = "",
    ) -> None:
        """Replace a feed: per column the value of each cluster, and when each cluster was sampled."""
        self._thaw()
        columns = {column: self._by_row(values) for column, values in samples.items()}
        times = np.zeros(self._names.size, dtype=np.int64)
        for cluster, moment in sampled_at.items():
            row = self._names.row_of(cluster)
            if row is not None:
                times[row] = moment
        times.flags.writeable = False
        self._feeds[name] = Feed(columns=columns, sampled_at=times, max_age=max_age, error=error)
        self._bump_versions()

    def _by_row(self, values: Mapping[str, float]) -> FloatArray:
        column = np.full(self._names.size, np.nan)
        for cluster, value in values.items():
            row = self._names.row_of(cluster)
            if row is not None:
                column[row] = value
        column.flags.writeable = False
        return column

    def _forget_feeds(self, row: int) -> None:
        for name, feed in self._feeds.items():
            columns = {key: column.copy() for key, column in feed.columns.items()}
            times = feed.sampled_at.copy()
            times[row] = 0
            for column in columns.values():
                column[row] = np.nan
                column.flags.writeable = False
            times.flags.writeable = False
            self._feeds[name] = replace(feed, columns=columns, sampled_at=times)


def overlay(
    frame: Frame,
    *,
    put: Iterable[MemberCluster] = (),
    remove: Iterable[str] = (),
    place: Iterable[tuple[str, PlacedBinding]] = (),
    displace: Iterable[tuple[str, str]] = (),
) -> Frame:
    """The frame with clusters replaced, added or removed, and bindings assumed or taken away.

    `place` and `displace` are (cluster, binding) and (cluster, placement). Without changes it is the very same frame.
    """
    table = Table.fork(frame)
    for cluster in put:
        table.put(cluster)
    for name in remove:
        table.remove(name)
    for name, binding in place:
        table.place(name, binding)
    for name, placement in displace:
        table.displace(name, placement)
    return table.freeze()


def _grown_feed(feed: Feed, size: int) -> Feed:
    columns = {key: enlarge(column, size, np.nan) for key, column in feed.columns.items()}
    times = enlarge(feed.sampled_at, size, 0)
    for array in (*columns.values(), times):
        array.flags.writeable = False
    return replace(feed, columns=columns, sampled_at=times)


def differ_beyond_heartbeat(before: MemberCluster | None, after: MemberCluster | None) -> bool:
    """Whether decisions could depend on the difference, beyond the time of the last heartbeat."""
    if before is None or after is None:
        return before is not after
    old, new = before.status, after.status
    return (
        before.metadata.labels != after.metadata.labels
        or before.metadata.deletion_timestamp != after.metadata.deletion_timestamp
        or before.spec != after.spec
        or _quantities(old) != _quantities(new)
        or old.namespaces != new.namespaces
        or _values(old) != _values(new)
        or _judgements(old) != _judgements(new)
        or signals_of(before)._replace(last_seen=0) != signals_of(after)._replace(last_seen=0)
    )


def _values(status: MemberClusterStatus) -> dict[str, str]:
    """Property values without the time of their observation."""
    return {name: value.value for name, value in (status.properties or {}).items()}


def _quantities(status: MemberClusterStatus) -> object:
    return None if status.resource_usage is None else status.resource_usage.quantities


def _judgements(status: MemberClusterStatus) -> list[tuple[str, str]]:
    return [(condition.type, condition.status) for condition in status.conditions]
