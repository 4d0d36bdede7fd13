"""Quantities as doubles, compared as if they were exact."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from fleet.model.quantity import GREATEST_FLOAT, parse_quantity
from fleet.snapshot import Frame
from fleet.snapshot.columns.numbers import OPERATORS, Operator
from tests.builders import a_cluster, a_frame, a_table, names_in

HOLDS = {
    "Eq": lambda value, bound: value == bound,
    "Ne": lambda value, bound: value != bound,
    "Gt": lambda value, bound: value > bound,
    "Ge": lambda value, bound: value >= bound,
    "Lt": lambda value, bound: value < bound,
    "Le": lambda value, bound: value <= bound,
}

# Each line holds values that are different, or equal but written differently, and close enough to share a double.
NEIGHBOURS = [
    pytest.param(["4000000", "4000000.000000001", "3999999.999999999"], id="around four million"),
    pytest.param(["-4000000", "-4000000.000000001", "-3999999.999999999"], id="around minus four million"),
    pytest.param(["4194304", "4194304.000000001", "4194303.999999999"], id="where nanos start to share doubles"),
    pytest.param(["8388608", "8388608.000000001", "8388608.000000002", "8388607.999999999"], id="one binade up"),
    pytest.param(["9007199254740992", "9007199254740993", "9007199254740991"], id="two to the 53"),
    pytest.param(["9007199254740993", "9007199254740993.000000001", "9007199254740994"], id="beyond two to the 53"),
    pytest.param(["9223372036854775807", "9223372036854775808", "8Ei", "9223372036854775806"], id="the binary limit"),
    pytest.param(["1e300", "1e300", "1000000000000000000e282"], id="one large value in two spellings"),
    pytest.param(["1e400", "2e400", "1e308", "-1e400"], id="beyond the greatest double"),
    pytest.param(["0.3", "300m", "300000u", "300000000n", "0.300000001"], id="milli, micro and nano spellings"),
    pytest.param(["1", "1000m", "1e0", "1.0", "0.001k", "1.000000001"], id="one"),
    pytest.param(["0", "-0", "0m", "1n", "-1n"], id="zero"),
    pytest.param(["0.1n", "1n", "1e-30", "2n"], id="finer than a nano"),
    pytest.param(["4Gi", "4G", "4294967296", "4294967296.000000001"], id="binary and decimal giga"),
    pytest.param(["0.1Ki", "102.4", "102400m", "102400000001n"], id="a fraction of a binary suffix"),
]


def measured(values: list[str]) -> Frame:
    return a_frame(*(a_cluster(f"c{row}").measured({"p": value}) for row, value in enumerate(values)))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("values", NEIGHBOURS)
def test_a_comparison_is_exact_where_doubles_cannot_tell(values: list[str], operator: Operator) -> None:
    frame = measured(values)
    column = frame.property("p")

    for bound in map(parse_quantity, values):
        want = {f"c{row}" for row, value in enumerate(values) if HOLDS[operator](parse_quantity(value), bound)}
        assert names_in(frame, column.compare(operator, bound, frame.clusters)) == want


def test_some_of_the_neighbours_do_share_a_double() -> None:
    assert measured(["9007199254740992", "9007199254740993"]).property("p").values.tolist() == [2.0**53] * 2


@pytest.mark.parametrize("operator", OPERATORS)
def test_no_comparison_holds_without_a_readable_value(operator: Operator) -> None:
    frame = a_frame(
        a_cluster("absent"), a_cluster("odd").measured({"p": "v1.31"}), a_cluster("odd2").measured({"p": ""})
    )

    assert frame.property("p").compare(operator, Fraction(0), frame.clusters) == 0


def test_a_text_that_is_no_quantity_is_reported_as_unreadable() -> None:
    frame = a_frame(
        a_cluster("absent"), a_cluster("odd").measured({"p": "NaN"}), a_cluster("fine").measured({"p": "1"})
    )

    assert names_in(frame, frame.property("p").unreadable) == {"odd"}
    assert frame.property("p").present().tolist() == [False, False, True]


def test_bounds_span_all_rows_that_have_a_value() -> None:
    frame = a_frame(
        a_cluster("a").measured({"p": "7"}), a_cluster("b"), a_cluster("c").measured({"p": "-250m"}).leaving()
    )

    assert frame.property("p").bounds() == (-0.25, 7.0)


def test_without_any_value_there_are_no_bounds() -> None:
    assert all(math.isnan(bound) for bound in a_frame(a_cluster("a")).property("p").bounds())


def test_values_beyond_the_range_of_doubles_stay_finite() -> None:
    assert measured(["1e400", "-1e400"]).property("p").values.tolist() == [GREATEST_FLOAT, -GREATEST_FLOAT]


def test_remembered_comparisons_and_bounds_follow_a_change() -> None:
    table = a_table(a_cluster("a").measured({"p": "1"}), a_cluster("b").measured({"p": "5"}))
    frame = table.freeze()
    column = frame.property("p")
    assert names_in(frame, column.compare("Ge", Fraction(5), frame.clusters)) == {"b"}
    assert column.bounds() == (1.0, 5.0)

    table.put(a_cluster("a").measured({"p": "9"}).build())
    table.put(a_cluster("b").measured({"p": "odd"}).build())

    new = table.freeze()
    assert names_in(new, new.property("p").compare("Ge", Fraction(5), new.clusters)) == {"a"}
    assert new.property("p").bounds() == (9.0, 9.0)
    assert names_in(new, new.property("p").unreadable) == {"b"}
    assert column.bounds() == (1.0, 5.0)
    assert column.unreadable == 0


def test_more_comparisons_than_are_remembered_are_answered_alike() -> None:
    frame = measured([str(value) for value in range(10)])
    column = frame.property("p")

    for _ in range(2):
        for bound in range(300):
            assert column.compare("Lt", Fraction(bound), frame.clusters).bit_count() == min(bound, 10)


def test_json_numbers_are_read_by_their_digits() -> None:
    frame = a_frame(
        a_cluster("whole").having(available={"cpu": 4}),
        a_cluster("decimal").having(available={"cpu": 0.1}),
        a_cluster("text").having(available={"cpu": "100m"}),
    )
    column = frame.usage("available", "cpu")

    assert names_in(frame, column.compare("Eq", Fraction(1, 10), frame.clusters)) == {"decimal", "text"}
    assert names_in(frame, column.compare("Eq", Fraction(4), frame.clusters)) == {"whole"}


def test_the_three_kinds_of_usage_are_columns_of_their_own() -> None:
    frame = a_frame(a_cluster("a").having(capacity={"cpu": 8}, allocatable={"cpu": 7}, available={"cpu": 2}))

    kinds = ("capacity", "allocatable", "available")
    assert [frame.usage(kind, "cpu").values.tolist() for kind in kinds] == [[8.0], [7.0], [2.0]]
