"""Selectors that exclude each other, compared with all labels that there may be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from fleet.model.selectors import matches, parse_selector
from fleet.model.views import LabelSelector, SelectorRequirement
from fleet.operator.partitions import are_disjoint, format_selector

KEYS, VALUES = ("pool", "env"), ("a", "b", "c")
LABELS = [
    {key: value for key, value in zip(KEYS, values, strict=True) if value}
    for values in product((*VALUES, ""), repeat=len(KEYS))
]
SETS = st.lists(st.sampled_from(VALUES), min_size=1, unique=True).map(tuple)
REQUIREMENTS = st.one_of(
    st.builds(SelectorRequirement, key=st.sampled_from(KEYS), operator=st.sampled_from(("In", "NotIn")), values=SETS),
    st.builds(SelectorRequirement, key=st.sampled_from(KEYS), operator=st.sampled_from(("Exists", "DoesNotExist"))),
)
SELECTORS = st.builds(
    LabelSelector,
    match_labels=st.one_of(st.none(), st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))),
    match_expressions=st.lists(REQUIREMENTS, max_size=2).map(tuple),
)


@given(SELECTORS, SELECTORS)
def test_O_17_no_labels_match_two_selectors_that_exclude_each_other(one: LabelSelector, other: LabelSelector) -> None:
    assert are_disjoint(one, other) == are_disjoint(other, one)
    if are_disjoint(one, other):
        assert not [labels for labels in LABELS if matches(one, labels) and matches(other, labels)]


def list_requirements() -> Iterator[SelectorRequirement]:
    """All that there are of one key."""
    for operator in ("Exists", "DoesNotExist"):
        yield SelectorRequirement(key="pool", operator=operator)
    for operator, count in product(("In", "NotIn"), (1, 2, 3)):
        for values in combinations(VALUES, count):
            yield SelectorRequirement(key="pool", operator=operator, values=values)


def test_O_17_two_requirements_exclude_each_other_if_and_only_if_no_value_fits_both() -> None:
    values = [{}, *({"pool": value} for value in (*VALUES, "another"))]
    for pair in product(list_requirements(), repeat=2):
        one, other = (LabelSelector(match_expressions=(requirement,)) for requirement in pair)
        fitting = [labels for labels in values if matches(one, labels) and matches(other, labels)]
        assert are_disjoint(one, other) == (not fitting), pair


@given(SELECTORS)
def test_a_selector_is_written_as_it_is_read(selector: LabelSelector) -> None:
    text = format_selector(selector)
    if text:
        read = parse_selector(text)
        assert [matches(read, labels) for labels in LABELS] == [matches(selector, labels) for labels in LABELS]


def test_O_17_different_values_of_a_label_exclude_each_other() -> None:
    pairs = {
        ("pool=a", "pool=b"): True,
        ("pool=a", "pool!=a"): True,
        ("pool", "!pool"): True,
        ("pool in (a,b)", "pool in (b,c)"): False,
        ("pool=a", "env=b"): False,
        ("pool=a", "pool=a,env=b"): False,
    }
    assert {pair: are_disjoint(*map(parse_selector, pair)) for pair in pairs} == pairs
