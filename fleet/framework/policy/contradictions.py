"""Contradictions: expressions of one term that no cluster can match together, and values that match all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Final, TypeVar

from fleet.checkpoint import check
from fleet.framework.policy.terms import LabelTest, PropertyTest, Term

_MOST_PAIRED: Final = 64
"""Expressions about one label or property that are compared in pairs; there may be thousands."""

_MOST_NAMED: Final = 20

E = TypeVar("E", LabelTest, PropertyTest)


def find_contradictions(term: Term) -> Iterator[tuple[str, ...]]:
    """For each label and property that no value satisfies: the first two expressions in conflict, or all of them where
    no two are."""
    yield from _find_conflicting(group_labels(term).values(), can_match_labels)
    yield from _find_conflicting(group_properties(term).values(), can_match_properties)


def group_labels(term: Term) -> dict[str, list[LabelTest]]:
    """By key."""
    return _group((test.key, test) for test in term.labels)


def group_properties(term: Term) -> dict[str, list[PropertyTest]]:
    """By name."""
    return _group((check.ref.name, check) for check in term.properties)


def _group(named: Iterable[tuple[str, E]]) -> dict[str, list[E]]:
    groups: dict[str, list[E]] = {}
    for name, expression in named:
        check()
        groups.setdefault(name, []).append(expression)
    return groups


def _find_conflicting(groups: Iterable[list[E]], can_match: Callable[[Sequence[E]], bool]) -> Iterator[tuple[str, ...]]:
    for expressions in groups:
        check()
        if len(expressions) > 1 and not can_match(expressions):
            pairs = (list(pair) for pair in combinations(expressions[:_MOST_PAIRED], 2))
            conflicting = next((pair for pair in pairs if not can_match(pair)), expressions)
            yield tuple(_name(conflicting))


def _name(expressions: Sequence[LabelTest | PropertyTest]) -> Iterator[str]:
    yield from map(str, expressions[:_MOST_NAMED])
    if len(expressions) > _MOST_NAMED:
        yield f"{len(expressions) - _MOST_NAMED} more"


def can_match_labels(tests: Sequence[LabelTest]) -> bool:
    """Whether some value of the label, or its absence, satisfies all tests. They are about one key."""
    operators = {test.operator for test in tests}
    if "DoesNotExist" in operators:
        return operators <= {"DoesNotExist", "NotIn"}
    return not _requires_value(tests) or any(True for _ in _list_common(tests))


def pick_label(tests: Sequence[LabelTest]) -> str | None:
    """A value that satisfies all tests of one key; None if the label may be absent. They do not contradict."""
    if all(test.operator in ("NotIn", "DoesNotExist") for test in tests):
        return None
    if _requires_value(tests):
        return min(_list_common(tests))
    excluded = _list_excluded(tests)
    return next(value for value in ("true", "yes", *map(str, range(len(excluded)))) if value not in excluded)


def _requires_value(tests: Sequence[LabelTest]) -> bool:
    return any(test.operator == "In" for test in tests)


def _list_common(tests: Sequence[LabelTest]) -> Iterator[str]:
    """Values of the first list that all tests allow, one by one: operations on whole sets of a hundred thousand hold
    every other thread."""
    first, *others = (test.values for test in tests if test.operator == "In")
    sets, excluded = [frozenset(values) for values in others], _list_excluded(tests)
    return (value for value in first if value not in excluded and all(value in values for values in sets))


def _list_excluded(tests: Sequence[LabelTest]) -> set[str]:
    return {value for test in tests if test.operator == "NotIn" for value in test.values}


def can_match_properties(tests: Sequence[PropertyTest]) -> bool:
    """Whether some number satisfies all tests. They are about one property."""
    return _Numbers(tests).has_any()


def pick_number(tests: Sequence[PropertyTest]) -> str | None:
    """A quantity that satisfies all tests of one property, next to a bound; None if none of the likely ones does."""
    numbers = _Numbers(tests)
    return next((text for number, text in _list_likely(tests) if number in numbers), None)


def _list_likely(tests: Sequence[PropertyTest]) -> Iterator[tuple[Fraction, str]]:
    for test in tests:
        check()
        yield test.bound, test.text
    for test in tests:
        check()
        if test.bound.denominator == 1:
            yield from ((test.bound + step, str(test.bound + step)) for step in (1, -1))


class _Numbers:
    """Those that satisfy all tests of one property. There may be thousands of tests, so they are read once."""

    def __init__(self, tests: Sequence[PropertyTest]) -> None:
        self._exact, self._excluded = set[Fraction](), set[Fraction]()
        self._lower: tuple[Fraction, bool] | None = None
        """With whether the bound itself is out; of the upper one, whether it is in."""
        self._upper: tuple[Fraction, bool] | None = None
        for test in tests:
            check()
            match test.operator:
                case "Eq":
                    self._exact.add(test.bound)
                case "Ne":
                    self._excluded.add(test.bound)
                case "Gt" | "Ge":
                    bound = test.bound, test.operator == "Gt"
                    self._lower = bound if self._lower is None else max(self._lower, bound)
                case "Lt" | "Le":
                    bound = test.bound, test.operator == "Le"
                    self._upper = bound if self._upper is None else min(self._upper, bound)

    def __contains__(self, number: Fraction) -> bool:
        lower, upper = self._lower, self._upper
        above = lower is None or number > lower[0] or (number == lower[0] and not lower[1])
        below = upper is None or number < upper[0] or (number == upper[0] and upper[1])
        return above and below and number not in self._excluded and self._exact <= {number}

    def has_any(self) -> bool:
        """Between two bounds there is always one that no test excludes."""
        if self._exact:
            return len(self._exact) == 1 and all(number in self for number in self._exact)
        if self._lower is None or self._upper is None or self._lower[0] < self._upper[0]:
            return True
        return self._lower[0] in self
