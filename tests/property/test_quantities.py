"""Quantities against fractions built from the parts of a spelling, never from the text (rows L-quantities)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fleet.errors import QuantityError
from fleet.model.quantity import (
    GREATEST_BINARY,
    GREATEST_FLOAT,
    nearest_float,
    parse_quantity,
    quantity_or_none,
    quantity_to_float,
)

NANO = Fraction(1, 10**9)
DECIMAL_POWERS = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@dataclass(frozen=True)
class Spelling:
    text: str
    value: Fraction


def expected(magnitude: Fraction, *, negative: bool, binary: bool) -> Fraction:
    nanos = magnitude / NANO
    rounded = math.ceil(nanos) * NANO
    capped = min(rounded, Fraction(GREATEST_BINARY)) if binary else rounded
    return -capped if negative else capped


DIGITS = st.text("0123456789", max_size=25)


@st.composite
def spellings(draw: st.DrawFn) -> Spelling:
    whole = draw(DIGITS)
    decimals = draw(st.none() | DIGITS)
    assume(whole or decimals)
    sign = draw(st.sampled_from(["", "+", "-"]))
    number = Fraction(int(whole or "0")) + Fraction(int(decimals or "0"), 10 ** len(decimals or ""))
    point = "" if decimals is None else f".{decimals}"
    suffix, factor, binary = draw(suffixes())
    value = expected(number * factor, negative=sign == "-", binary=binary)
    return Spelling(f"{sign}{whole}{point}{suffix}", value)


@st.composite
def suffixes(draw: st.DrawFn) -> tuple[str, Fraction, bool]:
    form = draw(st.sampled_from(["decimal", "binary", "exponent"]))
    if form == "decimal":
        suffix = draw(st.sampled_from(sorted(DECIMAL_POWERS)))
        return suffix, Fraction(10) ** DECIMAL_POWERS[suffix], False
    if form == "binary":
        suffix = draw(st.sampled_from(sorted(BINARY_POWERS)))
        return suffix, Fraction(2) ** BINARY_POWERS[suffix], True
    power = draw(st.integers(-40, 400))
    letter = draw(st.sampled_from("eE"))
    plus = draw(st.sampled_from(["", "+"])) if power >= 0 else ""
    return f"{letter}{plus}{power}", Fraction(10) ** power, False


@given(spellings())
def test_every_spelling_has_its_exact_value(spelling: Spelling) -> None:
    assert parse_quantity(spelling.text) == spelling.value


@given(spellings())
def test_the_fast_path_for_columns_agrees_with_the_exact_value(spelling: Spelling) -> None:
    assert quantity_to_float(spelling.text) == nearest_float(spelling.value)


@given(spellings(), spellings())
def test_order_of_doubles_never_contradicts_the_exact_order(left: Spelling, right: Spelling) -> None:
    if left.value <= right.value:
        assert quantity_to_float(left.text) <= quantity_to_float(right.text)


@given(st.fractions(min_value=-(10**30), max_value=10**30))
def test_nearest_float_has_no_nearer_neighbour(value: Fraction) -> None:
    chosen = nearest_float(value)
    distance = abs(Fraction(chosen) - value)
    for direction in (math.inf, -math.inf):
        assert distance <= abs(Fraction(math.nextafter(chosen, direction)) - value)


@given(st.integers(0, 10**18))
def test_a_negative_value_mirrors_the_positive_one(number: int) -> None:
    assert parse_quantity(f"-{number}Ki") == -parse_quantity(f"{number}Ki")


@given(st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_quantity_error(text: str) -> None:
    value = quantity_or_none(text)
    column = quantity_to_float(text)
    assert math.isnan(column) if value is None else column == nearest_float(value)


@given(st.text("0123456789.eE+-numkKMGTPi _", max_size=10))
def test_texts_made_of_quantity_letters_never_escape_the_error(text: str) -> None:
    value = quantity_or_none(text)
    column = quantity_to_float(text)
    assert math.isnan(column) if value is None else column == nearest_float(value)


@pytest.mark.parametrize(
    "text, value",
    [
        ("0", Fraction(0)),
        ("12", Fraction(12)),
        ("+7", Fraction(7)),
        ("-3", Fraction(-3)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1500m", Fraction(3, 2)),
        ("0.123", Fraction(123, 1000)),
        ("4Gi", Fraction(4 * 2**30)),
        ("4G", Fraction(4 * 10**9)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1E", Fraction(10**18)),
        ("1E3", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
        ("2e+2", Fraction(200)),
        ("100n", Fraction(100, 10**9)),
        ("7u", Fraction(7, 10**6)),
    ],
)
def test_well_known_spellings(text: str, value: Fraction) -> None:
    assert parse_quantity(text) == value
    assert quantity_to_float(text) == nearest_float(value)


@pytest.mark.parametrize(
    "text, value",
    [
        ("0.1n", NANO),
        ("-0.1n", -NANO),
        ("1.1n", 2 * NANO),
        ("1e-30", NANO),
        ("0.0000000001", NANO),
        ("0e-30", Fraction(0)),
        ("0.00000000001Ki", 11 * NANO),
    ],
)
def test_what_is_finer_than_a_nano_is_rounded_away_from_zero(text: str, value: Fraction) -> None:
    assert parse_quantity(text) == value
    assert quantity_to_float(text) == nearest_float(value)


@pytest.mark.parametrize(
    "text, value",
    [("8Ei", GREATEST_BINARY), ("-8Ei", -GREATEST_BINARY), ("9999999999Gi", GREATEST_BINARY), ("7Ei", 7 * 2**60)],
)
def test_binary_suffixes_saturate_in_both_directions(text: str, value: int) -> None:
    assert parse_quantity(text) == value
    assert quantity_to_float(text) == float(value)


def test_decimal_suffixes_do_not_saturate() -> None:
    assert parse_quantity("100E") == 100 * 10**18


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "+", "-", ".", "-.", "Ki", "e5", "E", ".e1", "NaN", "nan", "Infinity", "-Inf", "inf"],
        *["1_000", "1 Gi", " 1", "1 ", "1\n", "1,5", "0x10", "1e", "1e+", "1e1.5", "1e1Ki", "1.2.3", "--1", "+-1"],
        *["1K", "1g", "1ki", "1KI", "1kb", "1Bi", "1mi", "1ni", "1mm", "True"],
        *["\u0661\u0662", "\uff11", "1\u00b2", "\u00bd", "1.\u0663", "1K\u0456"],
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)
    assert quantity_or_none(text) is None
    assert math.isnan(quantity_to_float(text))


@pytest.mark.parametrize("text", ["1e4097", "1e-4097", "1e999999999999", "0E99999", "1" * 1025, "1e" + "9" * 2000])
def test_absurd_sizes_are_refused_instead_of_computed(text: str) -> None:
    with pytest.raises(QuantityError) as refusal:
        parse_quantity(text)
    assert len(str(refusal.value)) < 150
    assert math.isnan(quantity_to_float(text))


def test_the_greatest_accepted_exponent_saturates_as_a_double() -> None:
    assert parse_quantity("1e4096") == 10**4096
    assert quantity_to_float("1e4096") == GREATEST_FLOAT
    assert quantity_to_float("-1e4096") == -GREATEST_FLOAT


@pytest.mark.parametrize("digits", [299, 300, 301, 308, 309, 310, 1024])
def test_long_integers_are_the_nearest_double_or_saturate(digits: int) -> None:
    text = "9" * digits
    assert quantity_to_float(text) == nearest_float(Fraction(int(text)))


@pytest.mark.parametrize("text", ["0.3", "300m", "300000u", "3e-1", ".3", "0.30"])
def test_equal_quantities_are_one_double_however_they_are_spelled(text: str) -> None:
    assert quantity_to_float(text) == 0.3


@pytest.mark.parametrize("text", ["-0", "-0.0", "-0m", "-0Ki", "-0e1"])
def test_there_is_no_negative_zero(text: str) -> None:
    assert math.copysign(1, quantity_to_float(text)) == 1


@pytest.mark.parametrize("number, value", [(5, 5), (0.5, Fraction(1, 2)), (1e16, 10**16), (0.1, Fraction(1, 10))])
def test_json_numbers_are_read_by_their_digits(number: float, value: Fraction | int) -> None:
    assert parse_quantity(number) == value
    assert quantity_to_float(number) == nearest_float(Fraction(value))


def test_a_boolean_is_no_quantity_even_after_the_number_it_equals() -> None:
    assert quantity_to_float(1) == 1.0
    assert math.isnan(quantity_to_float(True))


def test_the_error_carries_the_value_and_what_to_write_instead() -> None:
    with pytest.raises(QuantityError, match=r"'1 Gi' is no quantity such as 1\.5, 250m or 16Gi") as refusal:
        parse_quantity("1 Gi")
    assert refusal.value.value == "1 Gi"
