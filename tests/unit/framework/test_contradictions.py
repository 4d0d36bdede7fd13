"""Numbers that satisfy all tests of a property, against trying each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.framework.policy.contradictions import can_match_properties, pick_number
from fleet.framework.policy.terms import PropertyRef, PropertyTest
from fleet.snapshot.columns.numbers import OPERATORS, Operator
from tests.property.test_snapshot_numbers import HOLDS

QUARTERS = [Fraction(number, 4) for number in range(-20, 21)]
"""Of bounds that are halves, between any two and beyond all."""

PropertyTests = Sequence[PropertyTest]


def build_test(name: Operator, halves: int) -> PropertyTest:
    ref = PropertyRef.parse("example.com/number")
    assert ref is not None
    bound = Fraction(halves, 2)
    return PropertyTest(ref, name, bound, str(bound))


def satisfies(number: Fraction, tests: PropertyTests) -> bool:
    return all(HOLDS[test.operator](number, test.bound) for test in tests)


many = st.lists(st.builds(build_test, st.sampled_from(OPERATORS), st.integers(-6, 6)), min_size=1, max_size=5)


@given(many)
def test_a_property_can_match_if_some_number_satisfies_all_tests(tests: PropertyTests) -> None:
    assert can_match_properties(tests) == any(satisfies(number, tests) for number in QUARTERS)


@given(many)
def test_a_number_is_picked_next_to_a_bound_if_one_satisfies_all_tests(tests: PropertyTests) -> None:
    picked = pick_number(tests)
    steps = [(test.bound, step) for test in tests for step in (0, 1, -1) if step == 0 or test.bound.denominator == 1]

    assert (picked is not None) == any(satisfies(bound + step, tests) for bound, step in steps)
    assert picked is None or satisfies(Fraction(picked), tests)


@pytest.mark.parametrize(
    "bounds, picked",
    [
        ([("Ge", 4), ("Le", 8)], "2"),
        ([("Gt", 4), ("Lt", 8)], "3"),
        ([("Gt", 4), ("Ne", 6), ("Lt", 8)], None),
        ([("Gt", 6), ("Gt", 2)], "4"),
        ([("Lt", 2), ("Lt", 6)], "0"),
        ([("Eq", 3)], "3/2"),
    ],
)
def test_a_bound_itself_comes_before_what_is_next_to_it(bounds: list[tuple[Operator, int]], picked: str | None) -> None:
    assert pick_number([build_test(*bound) for bound in bounds]) == picked
