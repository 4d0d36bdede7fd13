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
        if not can_match(expressions):
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


def pick_number(checks: Sequence[PropertyTest]) -> str | None:
    """A quantity that satisfies all checks of one property, next to a bound; None if none of the likely ones does."""
    bounds = [(check.bound, check.text) for check in checks]
    near = [(bound + step, str(bound + step)) for bound, _ in bounds for step in (1, -1) if bound.denominator == 1]
    return next((text for number, text in (*bounds, *near) if all(_holds(check, number) for check in checks)), None)


def _holds(check: PropertyTest, number: Fraction) -> bool:
    match check.operator:
        case "Eq":
            return number == check.bound
        case "Ne":
            return number != check.bound
        case "Gt":
            return number > check.bound
        case "Ge":
            return number >= check.bound
        case "Lt":
            return number < check.bound
        case "Le":
            return number <= check.bound


def can_match_properties(checks: Sequence[PropertyTest]) -> bool:
    """Whether some number satisfies all checks. They are about one property."""
    exact = {check.bound for check in checks if check.operator == "Eq"}
    excluded = {check.bound for check in checks if check.operator == "Ne"}
    lower = max(
        ((check.bound, check.operator == "Gt") for check in checks if check.operator in ("Gt", "Ge")), default=None
    )
    upper = min(
        ((check.bound, check.operator == "Le") for check in checks if check.operator in ("Lt", "Le")), default=None
    )
    if lower is not None and upper is not None:
        is_open = lower[1] or not upper[1]
        if lower[0] > upper[0] or (lower[0] == upper[0] and is_open):
            return False
        if lower[0] == upper[0]:
            exact = exact | {lower[0]}
    if not exact:
        return True
    if len(exact) > 1:
        return False
    (value,) = exact
    above = lower is None or value > lower[0] or (value == lower[0] and not lower[1])
    below = upper is None or value < upper[0] or (value == upper[0] and upper[1])
    return above and below and value not in excluded
