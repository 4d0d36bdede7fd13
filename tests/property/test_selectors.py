"""Label selectors against a set-based statement of what Kubernetes says they mean."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fleet.model.selectors import find_selector_problems, matches
from fleet.model.views import LabelSelector, SelectorRequirement

KEYS = st.sampled_from(["region", "tier", "fleet.io/zone"])
VALUES = st.sampled_from(["", "eu", "us", "gold"])
LABELS = st.dictionaries(KEYS, VALUES)


@st.composite
def requirements(draw: st.DrawFn) -> SelectorRequirement:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    values = draw(st.lists(VALUES, min_size=1, max_size=3)) if operator.endswith("In") else []
    return SelectorRequirement(key=draw(KEYS), operator=operator, values=tuple(values))


@st.composite
def selectors(draw: st.DrawFn) -> LabelSelector:
    return LabelSelector(
        match_labels=draw(st.none() | LABELS), match_expressions=tuple(draw(st.lists(requirements(), max_size=4)))
    )


def allowed_values(requirement: SelectorRequirement) -> set[str | None]:
    """The values of the key, None standing for its absence, among which the label must be."""
    universe: set[str | None] = {None, "", "eu", "us", "gold"}
    listed: set[str | None] = set(requirement.values)
    allowed: dict[str, set[str | None]] = {
        "In": listed,
        "NotIn": universe - listed,
        "Exists": universe - {None},
        "DoesNotExist": {None},
    }
    return allowed[requirement.operator]


@given(selectors(), LABELS)
def test_a_selector_matches_when_every_part_allows_the_label(selector: LabelSelector, labels: dict[str, str]) -> None:
    equal = all(labels.get(key) == value for key, value in (selector.match_labels or {}).items())
    allowed = all(labels.get(part.key) in allowed_values(part) for part in selector.match_expressions)
    assert matches(selector, labels) is (equal and allowed)


@given(selectors())
def test_a_well_formed_selector_has_no_problems(selector: LabelSelector) -> None:
    assert find_selector_problems(selector) == []


@given(LABELS)
def test_an_empty_selector_matches_everything(labels: dict[str, str]) -> None:
    assert matches(LabelSelector(), labels)


@given(requirements(), LABELS)
def test_an_operator_and_its_opposite_split_the_objects(part: SelectorRequirement, labels: dict[str, str]) -> None:
    opposite = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}[part.operator]
    other = SelectorRequirement(key=part.key, operator=opposite, values=part.values)
    one = LabelSelector(match_expressions=(part,))
    two = LabelSelector(match_expressions=(other,))
    assert matches(one, labels) is not matches(two, labels)
