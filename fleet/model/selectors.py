"""Label selectors over plain label mappings, with the meaning and the rules Kubernetes gives them.

The columnar snapshot has its own evaluation over bitsets; this one is for single objects, and validates selectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fleet.errors import InputError
from fleet.model.labels import is_label_value, is_qualified_name
from fleet.model.views import LabelSelector, SelectorRequirement

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"

_WITH_VALUES: Final = frozenset({IN, NOT_IN})
_WITHOUT_VALUES: Final = frozenset({EXISTS, DOES_NOT_EXIST})
_OPERATORS: Final = _WITH_VALUES | _WITHOUT_VALUES
_SET_OPERATORS: Final = {"in": IN, "notin": NOT_IN}
_TERMS: Final = re.compile(r",(?![^(]*\))")
_TERM: Final = re.compile(
    r"!\s*(?P<absent>[^\s=!(),]+)"
    r"|(?P<key>[^\s=!(),]+)(?:\s*(?P<operator>==|!=|=)\s*(?P<value>[^\s=!(),]*)"
    r"|\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?"
)
_NO_LABELS: Final[Mapping[str, str]] = {}


class SelectorProblem(NamedTuple):
    """One thing wrong with a selector; `field` is the path below the selector."""

    field: str
    value: object
    message: str


def matches(selector: LabelSelector, labels: Mapping[str, str] | None) -> bool:
    """Whether an object with these labels is selected. An operator that does not exist is an InputError."""
    present = _NO_LABELS if labels is None else labels
    wanted = selector.match_labels or _NO_LABELS
    if any(present.get(key) != value for key, value in wanted.items()):
        return False
    return all(holds(requirement, present) for requirement in selector.match_expressions)


def holds(requirement: SelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    raise InputError(_describe_unknown_operator(requirement.operator), field="operator", value=requirement.operator)


def find_selector_problems(selector: LabelSelector) -> list[SelectorProblem]:
    """Everything for which Kubernetes refuses the selector; empty for one that can be evaluated."""
    return [*_find_label_problems(selector.match_labels or _NO_LABELS), *_find_expression_problems(selector)]


def parse_selector(text: str) -> LabelSelector:
    """The syntax of kubectl: `env=prod,tier in (web, api),!legacy`. An InputError where it cannot be read."""
    terms = _TERMS.split(text)
    if not text.strip() or not all(term.strip() for term in terms):
        raise InputError(f"{text!r} has an empty term; write it as env=prod,tier in (web, api)", value=text)
    selector = LabelSelector(match_expressions=tuple(_parse_term(term.strip(), text) for term in terms))
    for problem in find_selector_problems(selector):
        raise InputError(f"{text!r}: {problem.message}", value=text)
    return selector


def _parse_term(term: str, text: str) -> SelectorRequirement:
    match = _TERM.fullmatch(term)
    if match is None:
        raise InputError(f"{text!r}: {term!r} is not env=prod, env!=prod, env in (a, b), env or !env", value=text)
    if match["absent"]:
        return SelectorRequirement(key=match["absent"], operator=DOES_NOT_EXIST)
    if match["set"]:
        values = tuple(value.strip() for value in match["values"].split(","))
        return SelectorRequirement(key=match["key"], operator=_SET_OPERATORS[match["set"]], values=values)
    if match["operator"]:
        operator = NOT_IN if match["operator"] == "!=" else IN
        return SelectorRequirement(key=match["key"], operator=operator, values=(match["value"],))
    return SelectorRequirement(key=match["key"], operator=EXISTS)


def _find_label_problems(wanted: Mapping[str, str]) -> Iterator[SelectorProblem]:
    for key, value in wanted.items():
        if not is_qualified_name(key):
            yield SelectorProblem("matchLabels", key, f"{key!r} is not a valid label key")
        if not is_label_value(value):
            yield SelectorProblem(f"matchLabels[{key}]", value, f"{value!r} is not a valid label value")


def _find_expression_problems(selector: LabelSelector) -> Iterator[SelectorProblem]:
    for position, requirement in enumerate(selector.match_expressions):
        for problem in _find_requirement_problems(requirement):
            yield problem._replace(field=f"matchExpressions[{position}].{problem.field}")


def _find_requirement_problems(requirement: SelectorRequirement) -> Iterator[SelectorProblem]:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if not is_qualified_name(key):
        yield SelectorProblem("key", key, f"{key!r} is not a valid label key")
    if operator in _WITH_VALUES and not values:
        yield SelectorProblem("values", list(values), f"{operator} needs at least one value")
    elif operator in _WITHOUT_VALUES and values:
        yield SelectorProblem("values", list(values), f"{operator} takes no values")
    elif operator not in _OPERATORS:
        yield SelectorProblem("operator", operator, _describe_unknown_operator(operator))
    for index, value in enumerate(values):
        if not is_label_value(value):
            yield SelectorProblem(f"values[{index}]", value, f"{value!r} is not a valid label value")


def _describe_unknown_operator(operator: str) -> str:
    return f"{operator!r} is no operator; use In, NotIn, Exists or DoesNotExist"
