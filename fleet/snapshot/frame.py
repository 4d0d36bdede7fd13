"""Frame: an immutable snapshot of the fleet, with every known cluster as a row of read-only columns.

A frame never changes. Frames of successive moments share every column that did not change. Columns are built on
first use, so a fleet pays only for the labels and properties that its policies mention; that is the only change inside
a frame after its creation, and no result depends on it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from typing import Any, Final, cast

import msgspec
import numpy as np

from fleet.model.views import MemberCluster, Taint
from fleet.snapshot.capacity import Capacity, Reported, assumed_ledger, read_reported
from fleet.snapshot.cells import Cells, group
from fleet.snapshot.columns.bitset import BoolArray, Int64Array, Rows, from_rows, to_bools, to_rows
from fleet.snapshot.columns.interned import InternedColumn, LabelColumn, label_reader, namespace_reader, read_taints
from fleet.snapshot.columns.numbers import USAGE_KINDS, NumberColumn, property_reader, usage_reader
from fleet.snapshot.columns.pools import PoolsColumn
from fleet.snapshot.columns.rows import Blocks, NameIndex
from fleet.snapshot.columns.signals import SignalsColumn
from fleet.snapshot.row_log import LogPosition, find_changed
from fleet.snapshot.sidedata import (
    Feed,
    Nomination,
    PlacedBinding,
    Presence,
    ResidentIndex,
    Residents,
    index_residents,
    presence,
)

ColumnKey = tuple[str, ...]
Column = InternedColumn[Any] | NumberColumn | PoolsColumn | SignalsColumn
Change = tuple[int, MemberCluster | None, MemberCluster | None]
"""A row with its cluster before and after."""

SIGNALS: Final[ColumnKey] = ("signals",)
TAINTS: Final[ColumnKey] = ("taints",)
RESIDENTS: Final = "residents"

_DERIVED_CACHED: Final = 64
_EMPTY_BEFORE_INDEX: Final = 64
"""Columns without a value that a frame builds. Before a further one, its name is looked up among those that clusters
have: a policy may read tens of thousands. To list them takes the time of some ten columns."""
_MOST_COLUMNS: Final = 256
"""Besides those of the table: questions name any label. With more, they are built again."""


def build_column(key: ColumnKey, size: int, rows: Iterable[MemberCluster | None]) -> Column:
    """Each column reads its value off a cluster."""
    match key:
        case ("label", name):
            return InternedColumn(size, rows, label_reader(name))
        case ("property", name):
            return NumberColumn(size, rows, property_reader(name))
        case ("usage", kind, resource):
            return NumberColumn(size, rows, usage_reader(kind, resource))
        case ("namespace", name):
            return InternedColumn(size, rows, namespace_reader(name))
        case ("taints",):
            return InternedColumn(size, rows, read_taints)
        case ("signals",):
            return SignalsColumn(size, rows)
        case ("pools",):
            return PoolsColumn(size, rows)
    raise KeyError(key)


def _tell_usages(cluster: MemberCluster) -> Iterator[ColumnKey]:
    usage = cluster.status.resource_usage
    if usage is not None:
        for kind in USAGE_KINDS.values():
            yield from ((kind, resource) for resource in getattr(usage, kind) or ())


_TELL_NAMES: Final[dict[str, Callable[[MemberCluster], Iterable[ColumnKey]]]] = {
    "label": lambda cluster: zip(cluster.metadata.labels or (), strict=True),
    "property": lambda cluster: zip(cluster.status.properties or (), strict=True),
    "usage": _tell_usages,
}


def _has_values(column: Column) -> bool:
    match column:
        case InternedColumn():
            return bool(column.ids.any())
        case NumberColumn():
            return bool(column.present().any())
    return True


@dataclass(slots=True)
class _NewColumns:
    """What a frame has built, besides the columns that it began with."""

    capacities: dict[str, Capacity] = field(default_factory=dict)
    empty: int = 0
    by_kind: dict[str, tuple[frozenset[ColumnKey], Column]] = field(default_factory=dict)
    """Names that clusters have, and one column for all that none has."""
    changed: tuple[LogPosition, Rows | None] | None = None
    """The rows that have changed since the position that was asked for last."""


@dataclass(frozen=True, slots=True)
class Frame:
    names: NameIndex
    clusters: Blocks[MemberCluster | None]
    generation: int
    """Rises with every change a decision could depend on; a heartbeat alone is none."""
    revision: int
    """Rises with every change, heartbeats included."""
    placed: Blocks[tuple[PlacedBinding, ...]]
    """Per row, the known bindings of all placements."""
    residents: Residents
    nominations: tuple[Nomination, ...]
    feeds: Mapping[str, Feed]
    ledgers: Mapping[str, Int64Array]
    excluded: int
    """Rows that must not be chosen, in this frame only."""
    log_position: LogPosition
    """In the log of the rows that its table changed."""
    _columns: dict[ColumnKey, Column]
    _derived: dict[Any, tuple[tuple[object, ...], Any]]
    _new: _NewColumns = field(default_factory=_NewColumns)

    # --- rows ---------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Rows, free ones included: the length of every column."""
        return self.names.size

    @property
    def count(self) -> int:
        """Known clusters."""
        return len(self.names)

    @property
    def valid(self) -> int:
        """The rows that hold a cluster."""
        return self.names.valid

    @property
    def valid_mask(self) -> BoolArray:
        return to_bools(self.names.valid, self.size)

    def name(self, row: int) -> str:
        return self.names.name(row)

    def row_of(self, name: str) -> int | None:
        return self.names.row_of(name)

    def cluster(self, row: int) -> MemberCluster:
        cluster = self.clusters[row]
        if cluster is None:
            raise KeyError(row)
        return cluster

    def sort_by_name(self, rows: int) -> list[int]:
        """A set of rows as a list, in the order of names."""
        members = to_rows(rows, self.size)
        ordered: list[int] = members[self.names.rank[members].argsort()].tolist()
        return ordered

    def find_changed(self, since: LogPosition) -> Rows | None:
        """The rows whose cluster, bindings, bookings or nominations differ from those of another frame, and maybe more;
        None if the two cannot be compared."""
        latest = self._new.changed
        if latest is None or latest[0] != since:
            rows = find_changed(since, self.log_position)
            changed = None if rows is None else np.array(sorted({*rows}), dtype=np.intp)
            latest = self._new.changed = since, changed
        return latest[1]

    def scan_order(self, domain_key: str | None = None) -> Rows:
        """Rows for partial scans: by name, or, with a key, its domains in turn and names inside each."""
        order = self.names.order
        if domain_key is None:
            return order
        domains = self.labels(domain_key).domains()
        of_row = domains.of_row[order]
        turn = np.zeros(len(order), dtype=np.int64)
        for domain in range(-1, domains.count):
            members = np.flatnonzero(of_row == domain)
            turn[members] = np.arange(len(members))
        return order[np.argsort(turn, kind="stable")]

    # --- columns ------------------------------------------------------------------------------------------------

    def labels(self, key: str) -> LabelColumn:
        return cast(LabelColumn, self._column(("label", key)))

    @property
    def taints(self) -> InternedColumn[tuple[Taint, ...]]:
        return cast("InternedColumn[tuple[Taint, ...]]", self._column(TAINTS))

    @property
    def signals(self) -> SignalsColumn:
        return cast(SignalsColumn, self._column(SIGNALS))

    @property
    def pools(self) -> PoolsColumn:
        return cast(PoolsColumn, self._column(("pools",)))

    def namespace(self, name: str) -> InternedColumn[str]:
        return cast("InternedColumn[str]", self._column(("namespace", name)))

    def property(self, name: str) -> NumberColumn:
        return cast(NumberColumn, self._column(("property", name)))

    def usage(self, kind: str, resource: str) -> NumberColumn:
        """`kind` is capacity, allocatable or available."""
        return cast(NumberColumn, self._column(("usage", kind, resource)))

    def pool_room(self, resource: str) -> Reported | None:
        """By row and pool; None if no cluster reports the resource by pool."""
        quantities = self.pools.of(resource)
        if quantities is None:
            return None
        reported = self._derive(
            ("pools", resource),
            (quantities,),
            lambda: read_reported(resource, allocatable=quantities[..., 0], available=quantities[..., 1]),
        )
        return cast(Reported, reported)

    def cells(self, keys: tuple[str, ...]) -> Cells:
        columns = tuple(self.labels(key) for key in keys)
        return cast(Cells, self._derive(keys, columns, lambda: group([column.domains() for column in columns])))

    def resident_index(self) -> ResidentIndex:
        sources = (self.residents, self.names)
        index = self._derive(RESIDENTS, sources, lambda: index_residents(self.residents, self.row_of))
        return cast(ResidentIndex, index)

    def _derive(self, key: object, sources: tuple[object, ...], build: Callable[[], Any]) -> Any:
        """Kept as long as frames have the same sources."""
        known = self._derived.get(key)
        if known is not None and [*map(id, known[0])] == [*map(id, sources)]:
            return known[1]
        built = build()
        if len(self._derived) >= _DERIVED_CACHED:
            self._derived.clear()
        self._derived[key] = (sources, built)
        return built

    def ledger(self, name: str) -> Int64Array:
        """Numbers booked by Reserve; zero for an unwritten ledger."""
        booked = self.ledgers.get(name)
        if booked is None:
            booked = np.zeros(self.size, dtype=np.int64)
            booked.flags.writeable = False
        return booked

    def capacity(self, resource: str) -> Capacity:
        if resource not in self._new.capacities:
            self._new.capacities[resource] = self._find_capacity(resource)
        return self._new.capacities[resource]

    def _find_capacity(self, resource: str) -> Capacity:
        allocatable, available = (self.usage(kind, resource).values for kind in ("allocatable", "available"))
        reported = self._derive(
            ("reported", resource),
            (allocatable, available),
            lambda: read_reported(resource, allocatable=allocatable, available=available),
        )
        rows = ((self.row_of(nomination.cluster), nomination) for nomination in self.nominations)
        return Capacity(
            resource,
            reported=cast(Reported, reported),
            assumed=self.ledger(assumed_ledger(resource)),
            nominations=[(row, nomination) for row, nomination in rows if row is not None],
        )

    def presence(self) -> Presence:
        """Bindings per row, as columns."""
        return presence(self.placed)

    def _column(self, key: ColumnKey) -> Column:
        column = self._columns.get(key)
        if column is None:
            if self._new.empty >= _EMPTY_BEFORE_INDEX and key[0] in _TELL_NAMES:
                names, empty = self._index(key)
                if key[1:] not in names:
                    return empty
            column = build_column(key, self.size, self.clusters)
            column.freeze()
            self._columns[key] = column
            self._new.empty += key[0] in _TELL_NAMES and not _has_values(column)
        return column

    def _index(self, key: ColumnKey) -> tuple[frozenset[ColumnKey], Column]:
        """The names that clusters have, and a column for all others, of which this is one of the first."""
        known = self._new.by_kind.get(key[0])
        if known is None:
            tell = _TELL_NAMES[key[0]]
            names = frozenset(chain.from_iterable(tell(cluster) for cluster in self.clusters if cluster is not None))
            empty = build_column(key, self.size, ())
            empty.freeze()
            known = self._new.by_kind[key[0]] = names, empty
        return known

    # --- other frames -------------------------------------------------------------------------------------------

    def apart(self, earlier: Frame | None = None) -> Frame:
        """The same fleet. Columns built here are not added to the table of this frame. Those that an earlier frame of
        the table has besides are brought up to date."""
        columns = self._columns.copy()
        if earlier is not None and earlier.size == self.size:
            rows = list(self.clusters.changed_since(earlier.clusters))
            changes = [(row, earlier.clusters[row], self.clusters[row]) for row in rows]
            for key, column in list(earlier._columns.items()):
                if key not in columns:
                    columns[key] = _bring_up_to_date(column, changes)
        return replace(self, _columns=columns, _derived=self._derived.copy(), _new=_NewColumns())

    def count_columns(self) -> int:
        return len(self._columns)

    def exclude(self, rows: Iterable[int]) -> Frame:
        """The same fleet with rows that must not be chosen; they still count as members and domains."""
        return replace(self, excluded=self.excluded | from_rows(rows))

    def content_hash(self) -> str:
        """A hash over all clusters, in the order of their names: equal for equal fleets, independent of their rows."""
        content = hashlib.blake2b(digest_size=16)
        for row in self.names.order.tolist():
            content.update(msgspec.json.encode(self.clusters[row], order="sorted"))
        for name in sorted(self.ledgers):
            content.update(name.encode() + self.ledgers[name][self.names.order].tobytes())
        for name in sorted(self.feeds):
            feed = self.feeds[name]
            for column in sorted(feed.columns):
                content.update(f"{name}/{column}".encode() + feed.columns[column][self.names.order].tobytes())
            content.update(feed.sampled_at[self.names.order].tobytes())
        content.update(msgspec.json.encode([self.placed[row] for row in self.names.order.tolist()]))
        content.update(msgspec.json.encode(self.nominations, order="sorted"))
        for alike, on in sorted(self.residents.items(), key=itemgetter(0)):
            content.update(msgspec.json.encode((alike, {cluster: sorted(on[cluster]) for cluster in sorted(on)})))
        return content.hexdigest()


def _bring_up_to_date(column: Column, changes: Iterable[Change]) -> Column:
    for row, before, after in changes:
        if column.differs(before, after):
            column = column.thaw() if column.frozen else column
            column.put(row, after)
    column.freeze()
    return column


class QuestionFrames:
    """Frames for questions, whose columns are apart from those of the table. Every change of a cluster looks at all
    columns of the table. What only a question reads is kept here instead, from one frame to the next."""

    def __init__(self, read_table: Callable[[], Frame]) -> None:
        self._read_table = read_table
        self._table_frame: Frame | None = None
        self._frame: Frame | None = None

    def frame(self) -> Frame:
        """The present fleet."""
        present, earlier = self._read_table(), self._frame
        if earlier is not None and earlier.count_columns() - present.count_columns() > _MOST_COLUMNS:
            earlier = None
        if earlier is None or present is not self._table_frame:
            earlier = self._frame = present.apart(earlier)
            self._table_frame = present
        return earlier
