"""The table of acceptance rows says nothing that the tests do not hold."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).resolve().parents[1]
TABLE = TESTS.parent / "docs" / "acceptance.md"
ROW = re.compile(r"^\| ((?:F3|L|W)-\d+) \| (.+?) \| (\w+) \| (.*) \|$", re.MULTILINE)
TEST_FILE = re.compile(r"`([\w/]+/test_\w+\.py)`")


class Row(NamedTuple):
    id: str
    subject: str
    state: str
    rest: str

    @property
    def files(self) -> list[str]:
        return TEST_FILE.findall(self.rest)

    @property
    def note(self) -> str:
        return TEST_FILE.sub("", self.rest).strip(" ,;")


ROWS = [Row(*found) for found in ROW.findall(TABLE.read_text(encoding="utf-8"))]


@cache
def rows_tested_in(file: str) -> frozenset[str]:
    """Ids in the names of a file's tests."""
    names = re.findall(r"^(?:async )?def (test_\w+)", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(one.replace("_", "-") for name in names for one in re.findall(r"(?:F3|L|W)_\d+", name))


def test_every_row_is_there_once_and_in_order() -> None:
    want = [f"F3-{number:03d}" for number in range(1, 141)]
    want += [f"L-{number:02d}" for number in range(1, 10)]
    want += [f"W-{number:02d}" for number in range(1, 20)]
    assert [row.id for row in ROWS] == want


def test_states_are_the_three_explained() -> None:
    assert {row.state for row in ROWS} <= {"closed", "partly", "open"}


@pytest.mark.parametrize("row", [row for row in ROWS if row.state != "open"], ids=lambda row: row.id)
def test_a_claim_is_held_by_a_test_in_each_file_named(row: Row) -> None:
    assert row.files
    assert [file for file in row.files if row.id not in rows_tested_in(file)] == []


@pytest.mark.parametrize("row", [row for row in ROWS if row.state != "closed"], ids=lambda row: row.id)
def test_what_is_not_closed_says_why(row: Row) -> None:
    assert row.note


@pytest.mark.parametrize("row", [row for row in ROWS if row.state == "open"], ids=lambda row: row.id)
def test_an_open_row_names_no_test(row: Row) -> None:
    assert row.files == []
