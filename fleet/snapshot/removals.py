"""Removals: bindings that leave rows for the sake of argument, as columns, so that all rows change at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from fleet.snapshot.columns.bitset import BoolArray, Int64Array, Rows
from fleet.snapshot.sidedata import PlacedBinding


class Removals(Mapping[int, tuple[PlacedBinding, ...]]):
    """By row, those that are gone. Each row has its bindings in the same order all the time."""

    def __init__(self, bindings: Mapping[int, Sequence[PlacedBinding]]) -> None:
        """All of them are gone."""
        self.rows: Rows = np.fromiter(bindings, np.intp, len(bindings))
        self.bindings = list(bindings.values())
        lengths = np.fromiter(map(len, self.bindings), np.int64, len(bindings))
        self.gone: BoolArray = np.arange(lengths.max(initial=0)) < lengths[:, None]
        self.gone.flags.writeable = False
        self.amounts = _read_amounts(self.bindings, self.gone)

    def __getitem__(self, row: int) -> tuple[PlacedBinding, ...]:
        (places,) = np.nonzero(self.rows == row)
        if not len(places):
            raise KeyError(row)
        return self._list_gone(int(places[0]))

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows.tolist())

    def __len__(self) -> int:
        return len(self.bindings)

    def to_dict(self) -> dict[int, tuple[PlacedBinding, ...]]:
        return {row: self._list_gone(place) for place, row in enumerate(self.rows.tolist())}

    def select(self, chosen: BoolArray, gone: BoolArray | None = None) -> Removals:
        """Of these rows, with those of `gone` by row and place."""
        part = object.__new__(Removals)
        places = np.flatnonzero(chosen)
        part.rows, part.bindings = self.rows[places], [self.bindings[place] for place in places.tolist()]
        part.gone = (self.gone if gone is None else gone)[places]
        part.amounts = {resource: column[places] for resource, column in self.amounts.items()}
        return part

    def sum_requests(self) -> dict[str, Int64Array]:
        """By resource, what they give back on each of `rows`."""
        return {resource: (column * self.gone).sum(axis=1) for resource, column in self.amounts.items()}

    def _list_gone(self, place: int) -> tuple[PlacedBinding, ...]:
        bindings = self.bindings[place]
        return tuple(bindings[position] for position in np.flatnonzero(self.gone[place]).tolist())


def _read_amounts(bindings: Sequence[Sequence[PlacedBinding]], present: BoolArray) -> dict[str, Int64Array]:
    """Many bindings need the same: each such request is read once."""
    kinds: dict[tuple[tuple[str, int], ...], int] = {}
    flat = [kinds.setdefault(binding.requests, len(kinds)) for each in bindings for binding in each]
    tables = [dict(requests) for requests in kinds]
    amounts: dict[str, Int64Array] = {}
    for resource in {resource for table in tables for resource in table}:
        column = amounts[resource] = np.zeros(present.shape, dtype=np.int64)
        column[present] = np.array([table.get(resource, 0) for table in tables], dtype=np.int64)[flat]
    return amounts
