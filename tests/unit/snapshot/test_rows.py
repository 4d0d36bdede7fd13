"""Sets of rows in their two forms, names and their order, and the persistent list of clusters."""

from __future__ import annotations

import numpy as np
import pytest

from fleet.snapshot.columns.bitset import all_rows, as_bits, each_row, from_bools, from_rows, to_bools, to_rows
from fleet.snapshot.columns.rows import Blocks, NameIndex

SIZES = [0, 1, 7, 8, 9, 64, 65, 300]


@pytest.mark.parametrize("size", SIZES)
def test_bits_arrays_and_rows_say_the_same(size: int) -> None:
    rows = [row for row in range(size) if row % 3 != 1]
    bits = from_rows(rows)

    assert to_rows(bits, size).tolist() == list(each_row(bits)) == rows
    assert to_bools(bits, size).tolist() == [row in rows for row in range(size)]
    assert from_bools(to_bools(bits, size)) == bits


@pytest.mark.parametrize("size", SIZES)
def test_all_rows_are_as_many_as_there_are(size: int) -> None:
    assert all_rows(size).bit_count() == size
    assert from_bools(np.ones(size, dtype=np.bool_)) == all_rows(size)


def test_a_complement_means_all_other_rows() -> None:
    assert as_bits(~0b0110, 0b1111) == 0b1001


def test_a_mask_in_either_form_is_cut_to_what_is_valid() -> None:
    assert as_bits(np.array([True, True, False, True]), 0b1001) == as_bits(0b1011, 0b1001) == 0b1001


# --- names ------------------------------------------------------------------------------------------------------------


def test_names_are_ranked_whatever_their_rows() -> None:
    index = NameIndex(["b", "c", "a"])

    assert index.ordered == ["a", "b", "c"]
    assert (index.order.tolist(), index.rank.tolist()) == ([2, 0, 1], [1, 2, 0])


def test_joining_and_leaving_leave_the_index_as_it_was() -> None:
    index = NameIndex(["b", "d"])

    changed = index.with_name("c", 2).without_name("b").with_name("a", 0)

    assert (changed.ordered, changed.names) == (["a", "c", "d"], ("a", "d", "c"))
    assert (changed.order.tolist(), changed.rank.tolist(), changed.valid) == ([0, 2, 1], [0, 2, 1], 0b111)
    assert (index.ordered, index.names, index.valid) == (["b", "d"], ("b", "d"), 0b11)
    assert "c" not in index


def test_a_row_left_has_no_name_and_no_rank() -> None:
    index = NameIndex(["a", "b", "c"]).without_name("b")

    assert (index.name(1), index.rank[1], index.valid, len(index), index.size) == ("", -1, 0b101, 2, 3)


def test_the_hash_of_a_name_is_its_own_in_every_index() -> None:
    one, other = NameIndex(["a", "b"]), NameIndex(["c", "b", "a"])

    assert one.hash[[0, 1]].tolist() == other.hash[[2, 1]].tolist()
    assert len(set(other.hash.tolist())) == 3


def test_the_hash_of_a_name_is_the_same_in_every_process() -> None:
    assert NameIndex(["cluster-1"]).hash.tolist() == [16853010023052065099]


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_changing_a_block_leaves_the_old_list_as_it_was() -> None:
    before = Blocks(range(300))

    after = before.put(0, -1).put(128, -1).put(299, -1)

    assert list(before) == list(range(300))
    assert [after[row] for row in (0, 1, 127, 128, 129, 299)] == [-1, 1, 127, -1, 129, -1]
    assert len(after) == 300


def test_a_longer_list_is_filled_up() -> None:
    before: Blocks[str] = Blocks(["a"])

    after = before.grow(130, "new")

    assert (list(after), len(before)) == (["a", *["new"] * 129], 1)
