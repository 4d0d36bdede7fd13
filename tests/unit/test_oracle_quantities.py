"""The oracle reads quantities exactly, on texts whose value is known by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.oracle.affinity import round_half_away
from tests.oracle.quantities import NotAQuantity, parse_quantity
from tests.vectors.generation.dice import Dice
from tests.vectors.generation.quantities import UNREADABLE, a_number, spelled


@pytest.mark.parametrize(
    "text, value",
    [
        ("1", 1),
        (41, 41),
        ("1000m", 1),
        ("4Gi", 4 * 1024**3),
        ("4G", 4 * 10**9),
        ("1E", 10**18),
        ("1E0", 1),
        ("1e-3", Fraction(1, 1000)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("-0.5k", -500),
        ("0.1Ki", Fraction("102.4")),
        ("0.1n", Fraction(1, 10**9)),
        ("-1e-12", Fraction(-1, 10**9)),
        ("16Ei", 2**63 - 1),
        ("-16Ei", 1 - 2**63),
        ("9300000000G", 93 * 10**17),
    ],
)
def test_a_quantity_has_its_exact_value(text: str | int, value: int | Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", UNREADABLE)
def test_anything_else_is_no_quantity(text: str) -> None:
    with pytest.raises(NotAQuantity):
        parse_quantity(text)


def test_all_spellings_of_a_number_are_equal() -> None:
    dice = Dice(1)
    for _ in range(2000):
        thousandths = a_number(dice)
        text = spelled(dice, thousandths)
        assert parse_quantity(text) == Fraction(thousandths, 1000), text


@pytest.mark.parametrize(
    "value, rounded",
    [(0.5, 1), (-0.5, -1), (2.5, 3), (-2.5, -3), (2.4, 2), (-2.6, -3), (0.49999999999999994, 0), (0.0, 0)],
)
def test_halves_round_away_from_zero(value: float, rounded: int) -> None:
    assert round_half_away(value) == rounded
