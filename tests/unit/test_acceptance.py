"""The table of acceptance rows claims nothing that the tests do not hold."""

from __future__ import annotations

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


def test_a_claim_names_tests() -> None:
    assert [row.id for row in by_state("closed", "library", "partly") if not row.files] == []


def test_a_closed_row_is_shown_through_a_door_of_the_product() -> None:
    closed = by_state("closed")
    doors = {file: reaches_the_product(TESTS / file) for file in {file for row in closed for file in row.files}}
    assert [row.id for row in closed if not any(doors[file] for file in row.files)] == []


def test_parts_alone_close_nothing() -> None:
    assert not reaches_the_product(TESTS / "unit/framework/test_status.py")


def test_a_row_that_is_not_closed_says_what_is_missing() -> None:
    assert [row.id for row in by_state("library", "partly", "open") if not row.note.strip("- ")] == []


def test_an_open_row_names_no_test() -> None:
    assert [row.id for row in by_state("open") if row.files] == []
