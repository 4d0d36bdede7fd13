"""The table of acceptance rows claims nothing that the tests do not hold."""

from __future__ import annotations

import pytest

from docs.acceptance import PAGE, TESTS, Row, ids, reaches_the_product, read_rows, render

TEXT = PAGE.read_text(encoding="utf-8")
ROWS = read_rows(TEXT)


def by_state(*states: str) -> list[Row]:
    return [row for row in ROWS if row.state in states]


def test_every_row_is_there_once_and_in_order() -> None:
    assert sorted(row.id for row in ROWS) == sorted(ids())


def test_states_are_the_four_explained() -> None:
    assert {row.state for row in ROWS} == {"closed", "library", "partly", "open"}


def test_the_tests_of_a_row_are_those_that_carry_its_id() -> None:
    assert render(TEXT) == TEXT, "run `make gen`"


@pytest.mark.parametrize("row", by_state("closed", "library", "partly"), ids=lambda row: row.id)
def test_a_claim_names_tests(row: Row) -> None:
    assert row.files


@pytest.mark.parametrize("row", by_state("closed"), ids=lambda row: row.id)
def test_a_closed_row_is_shown_through_a_door_of_the_product(row: Row) -> None:
    assert any(reaches_the_product(TESTS / file) for file in row.files)


def test_parts_alone_close_nothing() -> None:
    assert not reaches_the_product(TESTS / "unit/framework/test_status.py")


@pytest.mark.parametrize("row", by_state("library", "partly", "open"), ids=lambda row: row.id)
def test_a_row_that_is_not_closed_says_what_is_missing(row: Row) -> None:
    assert row.note.strip("- ")


@pytest.mark.parametrize("row", by_state("open"), ids=lambda row: row.id)
def test_an_open_row_names_no_test(row: Row) -> None:
    assert row.files == []
