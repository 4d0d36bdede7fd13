"""Columns of doubles compare as exactly as fractions do, wherever doubles run out of digits."""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
from hypothesis import example, given

from fleet.model.quantity import parse_quantity, quantity_or_none
from fleet.snapshot.columns.numbers import OPERATORS, Operator
from tests.builders import a_cluster, a_frame, a_table, names_in
from tests.vectors.generation.quantities import UNREADABLE

NANO = 10**9
HOLDS: dict[Operator, Callable[[Any, Any], bool]] = {
    "Eq": operator.eq,
    "Ne": operator.ne,
    "Gt": operator.gt,
    "Ge": operator.ge,
    "Lt": operator.lt,
    "Le": operator.le,
}

# Where neighbouring quantities begin to share doubles, and around the limits of the grammar.
LANDMARKS = [0, 1, 4_000_000, 2**22, 2**23, 2**31, 2**53, 2**63 - 1, 10**15, 10**30]


@st.composite
def nanos(draw: st.DrawFn) -> int:
    """A quantity in billionths, within a few steps of a landmark."""
    landmark = draw(st.sampled_from(LANDMARKS)) * NANO
    step = draw(st.sampled_from((1, 1, 10**3, 10**6, NANO)))
    sign = draw(st.sampled_from((1, 1, -1)))
    return sign * (landmark + step * draw(st.integers(-3, 3)))


@st.composite
def spelled(draw: st.DrawFn, number: int) -> str:
    sign, magnitude = ("-", -number) if number < 0 else ("", number)
    match draw(st.sampled_from(("nano", "decimal", "exponent"))):
        case "nano":
            return f"{sign}{magnitude}n"
        case "decimal":
            whole, rest = divmod(magnitude, NANO)
            return f"{sign}{whole}.{rest:09d}".rstrip("0")
    return f"{sign}{magnitude}e-9"


def test_every_spelling_is_of_the_same_quantity() -> None:
    assert {parse_quantity(text) for text in ("1500000000n", "1.500000000", "1.5", "1500000000e-9")} == {Fraction(3, 2)}


texts = st.one_of(nanos().flatmap(spelled), st.sampled_from(UNREADABLE), st.none())


@given(values=st.lists(texts, max_size=12), bound=nanos())
@example(values=["9007199254740993", "9007199254740992"], bound=9007199254740993 * NANO)
@example(values=["4000000.000000001", "4000000"], bound=4_000_000 * NANO)
@example(values=["8388608.000000001", "8388608"], bound=2**23 * NANO)
def test_NumberColumn_compares_as_fractions_do(values: list[str | None], bound: int) -> None:
    members = [a_cluster(f"c{row}").measured({} if value is None else {"p": value}) for row, value in enumerate(values)]
    frame, exact = a_frame(*members), Fraction(bound, NANO)

    for symbol in OPERATORS:
        want = {f"c{row}" for row, value in enumerate(values) if _holds(symbol, value, exact)}
        assert names_in(frame, frame.property("p").compare(symbol, exact, frame.clusters)) == want


def _holds(symbol: Operator, value: str | None, bound: Fraction) -> bool:
    number = None if value is None else quantity_or_none(value)
    return number is not None and HOLDS[symbol](number, bound)


@given(
    before=st.lists(texts, min_size=1, max_size=6), changes=st.lists(st.tuples(st.integers(0, 5), texts)), bound=nanos()
)
def test_so_does_a_column_that_was_corrected(
    before: list[str | None], changes: list[tuple[int, str | None]], bound: int
) -> None:
    values = {f"c{row}": value for row, value in enumerate(before)}
    table, exact = a_table(*(_measured(*item) for item in values.items())), Fraction(bound, NANO)
    for row, value in changes:
        frame = table.freeze()
        frame.property("p").compare("Ge", exact, frame.clusters)
        values[f"c{row}"] = value
        table.put(_measured(f"c{row}", value).build())

    frame = table.freeze()

    for symbol in OPERATORS:
        want = {name for name, value in values.items() if _holds(symbol, value, exact)}
        assert names_in(frame, frame.property("p").compare(symbol, exact, frame.clusters)) == want


def _measured(name: str, value: str | None) -> Any:
    return a_cluster(name).measured({} if value is None else {"p": value})


@given(values=st.lists(nanos(), min_size=2, max_size=8))
def test_rounding_to_doubles_never_reverses_an_order(values: list[int]) -> None:
    ordered = sorted(values)
    frame = a_frame(*(a_cluster(f"c{row}").measured({"p": f"{number}n"}) for row, number in enumerate(ordered)))

    column = frame.property("p").values.tolist()

    assert column == sorted(column)
    assert frame.property("p").bounds() == (column[0], column[-1])
