"""Rows of clusters: their names, both ways, one object per row, and orders of rows.

Rows are stable slots: a cluster keeps its row for life, and a freed row is given to the next newcomer. No outcome may
depend on which row a cluster has, so everything that orders clusters goes through `rank`: the order of names, which
breaks every tie.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fleet.snapshot.columns.bitset import Int32Array, Int64Array, Rows, all_rows, from_bools, to_bools

T = TypeVar("T")

_BITS: Final = 7
_BLOCK: Final = 1 << _BITS
_MASK: Final = _BLOCK - 1


class NameIndex:
    """Immutable: `with_name` and `without_name` return a new index."""

    __slots__ = ("_ascending", "_hash", "_names", "_row_of", "_sorted", "order", "rank", "size", "valid")

    def __init__(self, names: Sequence[str]) -> None:
        row_of = {name: row for row, name in enumerate(names)}
        ordered = sorted(names)
        order = np.fromiter((row_of[name] for name in ordered), dtype=np.intp, count=len(ordered))
        self._set(names=tuple(names), row_of=row_of, ordered=ordered, order=order)

    def _set(self, *, names: tuple[str, ...], row_of: dict[str, int], ordered: list[str], order: Rows) -> None:
        self.size, self._names, self._row_of, self._sorted = len(names), names, row_of, ordered
        self._hash: npt.NDArray[np.uint64] | None = None
        self._ascending: Int64Array | None = None
        self.order: Rows = order
        self.rank: Int32Array = np.full(self.size, -1, dtype=np.int32)
        self.rank[order] = np.arange(len(order), dtype=np.int32)
        self.order.flags.writeable = self.rank.flags.writeable = False
        self.valid = all_rows(self.size) if len(order) == self.size else _rows_in(order)

    def __len__(self) -> int:
        return len(self._sorted)

    def __contains__(self, name: str) -> bool:
        return name in self._row_of

    def name(self, row: int) -> str:
        return self._names[row]

    def row_of(self, name: str) -> int | None:
        return self._row_of.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """By row; free rows hold an empty text."""
        return self._names

    @property
    def ordered(self) -> Sequence[str]:
        return self._sorted

    @property
    def hash(self) -> npt.NDArray[np.uint64]:
        """A 64-bit hash of each name, the same in every process."""
        if self._hash is None:
            digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in self._names)
            self._hash = np.frombuffer(digests, dtype="<u8").astype(np.uint64, copy=False)
            self._hash.flags.writeable = False
        return self._hash

    @property
    def ascending(self) -> Int64Array:
        """By row, ranks of which the greatest is the first name. Values of free rows have no meaning."""
        if self._ascending is None:
            self._ascending = self.size - 1 - self.rank.astype(np.int64)
            self._ascending.flags.writeable = False
        return self._ascending

    def with_name(self, name: str, row: int) -> NameIndex:
        names = [*self._names, *([""] * (row + 1 - self.size))]
        names[row] = name
        place = bisect_left(self._sorted, name)
        ordered = [*self._sorted[:place], name, *self._sorted[place:]]
        return _index(names, {**self._row_of, name: row}, ordered, np.insert(self.order, place, row))

    def without_name(self, name: str) -> NameIndex:
        row_of = self._row_of.copy()
        names = list(self._names)
        names[row_of.pop(name)] = ""
        place = bisect_left(self._sorted, name)
        ordered = [*self._sorted[:place], *self._sorted[place + 1 :]]
        return _index(names, row_of, ordered, np.delete(self.order, place))

    def with_size(self, size: int) -> NameIndex:
        names = [*self._names, *([""] * (size - self.size))]
        return _index(names, self._row_of, self._sorted, self.order)


def _index(names: list[str], row_of: dict[str, int], ordered: list[str], order: Rows) -> NameIndex:
    index = NameIndex.__new__(NameIndex)
    index._set(names=tuple(names), row_of=row_of, ordered=ordered, order=order)
    return index


def _rows_in(rows: Rows) -> int:
    present = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.bool_)
    present[rows] = True
    return int.from_bytes(np.packbits(present, bitorder="little").tobytes(), "little")


class Blocks(Generic[T]):
    """One object per row, shared between frames in blocks: changing a row copies a block and not the fleet.

    A persistent list: `put` and `grow` return a new one and leave the old one as it was.
    """

    __slots__ = ("_blocks", "size")

    def __init__(self, items: Iterable[T]) -> None:
        flat = tuple(items)
        self.size = len(flat)
        self._blocks = [flat[start : start + _BLOCK] for start in range(0, len(flat), _BLOCK)]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, row: int) -> T:
        return self._blocks[row >> _BITS][row & _MASK]

    def __iter__(self) -> Iterator[T]:
        for block in self._blocks:
            yield from block

    def put(self, row: int, item: T) -> Blocks[T]:
        changed: Blocks[T] = Blocks.__new__(Blocks)
        changed.size = self.size
        changed._blocks = self._blocks.copy()
        block, place = row >> _BITS, row & _MASK
        old = changed._blocks[block]
        changed._blocks[block] = (*old[:place], item, *old[place + 1 :])
        return changed

    def grow(self, size: int, fill: T) -> Blocks[T]:
        whole = self.size >> _BITS
        grown: Blocks[T] = Blocks((*chain(*self._blocks[whole:]), *repeat(fill, size - self.size)))
        grown.size, grown._blocks = size, [*self._blocks[:whole], *grown._blocks]
        return grown

    def changed_since(self, earlier: Blocks[T]) -> Iterator[int]:
        """Rows that hold another object than they did, and rows that were not there; in ascending order."""
        for number, block in enumerate(self._blocks):
            before = earlier._blocks[number] if number < len(earlier._blocks) else ()
            if block is not before:
                start = number << _BITS
                for place, item in enumerate(block):
                    if place >= len(before) or item is not before[place]:
                        yield start + place


class RowOrder:
    """An ordering of rows, with the position of each, for orders as long as the fleet."""

    def __init__(self, rows: Sequence[int] | Rows, size: int) -> None:
        """Rows of a frame of that size, each at most once."""
        self._rows: Rows = np.asarray(rows, dtype=np.intp)
        self._of_row = np.full(size, -1, dtype=np.intp)
        self._of_row[self._rows] = np.arange(len(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def at(self, place: int) -> int:
        return int(self._rows[place])

    def of(self, row: int) -> int | None:
        """Counted from 0; None for a row that is not among them."""
        place = int(self._of_row[row])
        return None if place < 0 else place

    def among(self, rows: int) -> list[int]:
        """The rows that are in a set as well, in this order."""
        size = len(self._of_row)
        wanted = to_bools(rows & all_rows(size), size)
        rows_in_order: list[int] = self._rows[wanted[self._rows]].tolist()
        return rows_in_order

    @property
    def bits(self) -> int:
        return from_bools(self._of_row >= 0)
