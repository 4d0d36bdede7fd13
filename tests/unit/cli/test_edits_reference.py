"""The list of edits: every operation with an example that works, on the terminal and in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.cli.commands.simulation.replay import resolve_since
from fleet.cli.input.edits import read_edits
from fleet.cli.output.edits_reference import insert_table
from fleet.errors import InputError
from fleet.explain.whatif.edits import EXAMPLES, MEANINGS, OPERATIONS, parse_edits
from fleet.model.timestamps import HOUR, SECOND, parse_timestamp
from tests.unit.cli.conftest import Fleet

PAGE = Path(__file__).resolve().parents[3] / "docs" / "cli.md"


def test_every_operation_has_an_example() -> None:
    assert EXAMPLES.keys() == MEANINGS.keys() == OPERATIONS.keys()


@pytest.mark.parametrize("op", EXAMPLES)
def test_an_example_is_read_as_its_operation(op: str) -> None:
    (edit,) = parse_edits(read_edits([EXAMPLES[op]]))

    assert edit.op == op


def test_the_list_is_printed_without_any_other_option(fleet: Fleet) -> None:
    listed = fleet("simulate", "--help-edits")

    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()[1 : len(OPERATIONS) + 1]] == list(OPERATIONS)


def test_the_table_of_the_documentation_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert insert_table(page) == page, "run make gen"
    assert "`--edit 'setCount value=4'`" in page


@pytest.mark.parametrize(
    "op, meant", [("setcount", "setCount"), ("SETCOUNT", "setCount"), ("addtaints", "addTaint"), ("evct", "evict")]
)
def test_a_misspelt_operation_is_met_with_the_nearest_one(op: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"'{op}' is not an operation; did you mean {meant}\\?"):
        parse_edits([{"op": op}])


def test_a_replay_begins_at_a_time_or_a_while_ago() -> None:
    assert resolve_since("2026-03-02T09:00:00Z") == "2026-03-02T09:00:00Z"
    hour, day = parse_timestamp(resolve_since("1h")), parse_timestamp(resolve_since("24h"))
    assert abs(hour - day - 23 * HOUR) <= 2 * SECOND
    with pytest.raises(InputError, match="--since: 'yesterday' is neither a time"):
        resolve_since("yesterday")
