from __future__ import annotations

import pytest

from fleet.errors import InputError
from fleet.model.selectors import find_selector_problems, matches
from fleet.model.views import LabelSelector, SelectorRequirement


def a_requirement(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(SelectorRequirement(key=key, operator=operator, values=values),))


@pytest.mark.parametrize("operator", ["NotIn", "DoesNotExist"])
def test_a_missing_key_satisfies_the_negative_operators(operator: str) -> None:
    values = ("eu",) if operator == "NotIn" else ()
    assert matches(a_requirement("region", operator, *values), {})


@pytest.mark.parametrize("operator", ["In", "Exists"])
def test_a_missing_key_fails_the_positive_operators(operator: str) -> None:
    values = ("eu",) if operator == "In" else ()
    assert not matches(a_requirement("region", operator, *values), {"tier": "gold"})


def test_absent_labels_are_no_labels() -> None:
    assert matches(LabelSelector(), None)
    assert not matches(LabelSelector(match_labels={"region": "eu"}), None)


def test_labels_and_expressions_are_both_needed() -> None:
    selector = LabelSelector(
        match_labels={"region": "eu"},
        match_expressions=(SelectorRequirement(key="tier", operator="Exists"),),
    )
    assert matches(selector, {"region": "eu", "tier": "gold"})
    assert not matches(selector, {"region": "eu"})
    assert not matches(selector, {"tier": "gold"})


def test_an_unknown_operator_is_an_input_error_when_it_is_evaluated() -> None:
    with pytest.raises(InputError, match="operator: 'Near' is no operator; use In, NotIn, Exists or DoesNotExist"):
        matches(a_requirement("region", "Near", "eu"), {"region": "eu"})


@pytest.mark.parametrize(
    "selector, field, message",
    [
        (a_requirement("region", "Near"), "operator", "'Near' is no operator; use In, NotIn, Exists or DoesNotExist"),
        (a_requirement("region", "In"), "values", "In needs at least one value"),
        (a_requirement("region", "NotIn"), "values", "NotIn needs at least one value"),
        (a_requirement("region", "Exists", "eu"), "values", "Exists takes no values"),
        (a_requirement("region", "DoesNotExist", "eu"), "values", "DoesNotExist takes no values"),
        (a_requirement("", "Exists"), "key", "'' is not a valid label key"),
        (a_requirement("a/b/c", "Exists"), "key", "'a/b/c' is not a valid label key"),
        (a_requirement("region", "In", "eu", "-"), "values[1]", "'-' is not a valid label value"),
    ],
)
def test_a_requirement_that_kubernetes_refuses_is_named(selector: LabelSelector, field: str, message: str) -> None:
    (problem,) = find_selector_problems(selector)
    assert problem.field == f"matchExpressions[0].{field}"
    assert problem.message == message


def test_wrong_match_labels_are_named_by_key_and_value() -> None:
    problems = find_selector_problems(LabelSelector(match_labels={"UPPER.io/x": "ok", "tier": "a" * 64}))
    assert [problem.field for problem in problems] == ["matchLabels", "matchLabels[tier]"]


def test_all_problems_are_returned_together() -> None:
    selector = LabelSelector(
        match_labels={"!": "!"},
        match_expressions=(
            SelectorRequirement(key="region", operator="In"),
            SelectorRequirement(key="tier", operator="Close"),
        ),
    )
    fields = [problem.field for problem in find_selector_problems(selector)]
    assert fields == ["matchLabels", "matchLabels[!]", "matchExpressions[0].values", "matchExpressions[1].operator"]
