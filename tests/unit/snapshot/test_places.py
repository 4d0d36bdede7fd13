"""Orders of rows, and places in them."""

from __future__ import annotations

import pytest

from fleet.snapshot.columns.rows import RowOrder

PLACES = RowOrder([7, 2, 5], 9)


@pytest.mark.parametrize("row,place", [(7, 0), (2, 1), (5, 2), (0, None), (8, None)])
def test_a_row_has_the_place_it_was_given(row: int, place: int | None) -> None:
    assert PLACES.of(row) == place


def test_places_are_counted_from_the_first_row() -> None:
    assert [PLACES.at(place) for place in range(len(PLACES))] == [7, 2, 5]


def test_rows_of_a_set_keep_their_order() -> None:
    assert PLACES.among(1 << 5 | 1 << 7 | 1 << 8) == [7, 5]


def test_a_complement_means_all_other_rows() -> None:
    assert PLACES.among(~(1 << 7)) == [2, 5]


def test_the_rows_as_a_set() -> None:
    assert PLACES.bits == 1 << 7 | 1 << 2 | 1 << 5


def test_nobody_has_a_place_in_an_empty_fleet() -> None:
    assert (len(RowOrder((), 0)), RowOrder((), 0).among(~0), RowOrder((), 0).bits) == (0, [], 0)
