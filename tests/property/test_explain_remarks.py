"""Remarks against a plain reading of fleet and policy: a name is remarked exactly where no cluster has it, and the name
that is suggested is the nearest by definition."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from fleet.explain.facts.redaction import Redaction
from fleet.explain.remarks.nearest import find_nearest
from fleet.explain.remarks.remarks import find_remarks
from fleet.framework.policy.contradictions import can_match_labels
from fleet.framework.policy.terms import LabelTest
from tests.builders import PolicyBuilder, a_cluster, a_frame, a_policy, label, measure
from tests.unit.explain.questions import DEFAULT

KEYS = st.sampled_from(["env", "Env", "region", "zone", "tier"])
VALUES = st.sampled_from(["prod", "prd", "staging", "dev"])
LABELS = st.dictionaries(KEYS, VALUES, max_size=4)
FLEETS = st.lists(st.tuples(LABELS, st.dictionaries(KEYS, st.just("4"), max_size=2), LABELS), min_size=1, max_size=5)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])


@st.composite
def expressions(draw: st.DrawFn) -> tuple[str, str, tuple[str, ...]]:
    operator = draw(OPERATORS)
    with_values = operator in ("In", "NotIn")
    values = draw(st.lists(VALUES, min_size=1, max_size=3, unique=True)) if with_values else []
    return draw(KEYS), operator, tuple(values)


def build(
    wanted: Sequence[tuple[str, str, tuple[str, ...]]], measured: Sequence[str], tolerated: Sequence[tuple[str, str]]
) -> PolicyBuilder:
    policy = a_policy()
    for key, operator, values in wanted:
        policy = policy.require(label(key, operator, *values))
    for name in measured:
        policy = policy.require(measure(name, "Ge", "1"))
    for key, value in tolerated:
        policy = policy.tolerate(key, value)
    return policy


@given(
    FLEETS,
    st.lists(expressions(), max_size=3),
    st.lists(KEYS, max_size=2),
    st.lists(st.tuples(KEYS, VALUES), max_size=2),
    st.sets(st.integers(0, 4)),
)
def test_a_name_is_remarked_exactly_where_no_readable_cluster_has_it(
    fleet: list[tuple[dict[str, str], dict[str, str], dict[str, str]]],
    wanted: list[tuple[str, str, tuple[str, ...]]],
    measured: list[str],
    tolerated: list[tuple[str, str]],
    hidden: set[int],
) -> None:
    built = []
    for place, (labels, properties, taints) in enumerate(fleet):
        cluster = a_cluster(f"c{place}").labelled(labels).measured(properties)
        for key, value in taints.items():
            cluster = cluster.tainted(key, value)
        built.append(cluster)
    frame = a_frame(*built)
    request = build(wanted, measured, tolerated).request()
    remarks = find_remarks(request, frame, DEFAULT, Redaction(frame, {f"c{place}" for place in hidden}.__contains__))
    visible = [each for place, each in enumerate(fleet) if place not in hidden]
    expected: set[tuple[str, str, str]] = set()
    if visible:
        for key, _, values in wanted:
            present = {labels[key] for labels, _, _ in visible if key in labels}
            if not present:
                expected.add(("unknown-label", key, ""))
            else:
                expected |= {("unknown-label-value", key, value) for value in values if value not in present}
        for name in measured:
            if not any(name in properties for _, properties, _ in visible):
                expected.add(("unknown-property", name, ""))
        for key, value in tolerated:
            present = {taints[key] for _, _, taints in visible if key in taints}
            if not present:
                expected.add(("unknown-taint", key, ""))
            elif value not in present:
                expected.add(("unknown-taint-value", key, value))
    assert {(each.kind, each.subject, each.value) for each in remarks} == expected
    there = {word for each in visible for part in each for item in part.items() for word in item}
    assert {each.near for each in remarks} <= there | {""}
    assert {count.value for each in remarks for count in each.counts} <= there


# --- nearest names ----------------------------------------------------------------------------------------------------

WORDS = st.text("ab1-./", min_size=1, max_size=8)


def strip(word: str) -> str:
    return "".join(letter for letter in word.lower() if letter not in "-_.")


def distance(one: str, other: str) -> int:
    """By the textbook's table."""
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, row = row, [place]
        for at, facing in enumerate(other, 1):
            row.append(min(before[at] + 1, row[-1] + 1, before[at - 1] + (letter != facing)))
    return row[-1]


def are_exchanged(one: str, other: str) -> bool:
    """Two neighbouring letters, and nothing else."""
    differing = [place for place, (letter, facing) in enumerate(zip(one, other, strict=False)) if letter != facing]
    return (
        len(one) == len(other)
        and len(differing) == 2
        and differing[1] == differing[0] + 1
        and sorted(one) == sorted(other)
    )


def shortens(short: str, long: str) -> bool:
    """Whether letters can be left out of `long` so that `short` is left, by trying both for each letter."""
    if not short:
        return True
    return bool(long) and ((short[0] == long[0] and shortens(short[1:], long[1:])) or shortens(short, long[1:]))


def degree(word: str, name: str) -> tuple[int, int] | None:
    whole, other = strip(word), strip(name)
    last, other_last = whole.split("/")[-1], other.split("/")[-1]
    if whole == other:
        return 0, 0
    if last == other_last:
        return 1, 0
    apart = 1 if are_exchanged(last, other_last) else distance(last, other_last)
    if apart <= min(max(len(last) // 3, 1), 3) and apart < len(other_last):
        return 2, apart
    short, long = sorted((last, other_last), key=len)
    digits = [each[len(each.rstrip("0123456789")) :] for each in (short, long)]
    if len(short) >= 3 and short[:2] == long[:2] and digits[0] == digits[1] and shortens(short, long):
        return 3, len(long) - len(short)
    return None


@given(WORDS, st.lists(WORDS, max_size=8))
def test_the_nearest_name_is_the_nearest_by_definition(word: str, known: list[str]) -> None:
    degrees = [(near, name) for name in known if (near := degree(word, name)) is not None]
    nearest = find_nearest(word, known)
    if not degrees:
        assert nearest is None
    else:
        assert nearest is not None
        assert degree(word, nearest) == min(degrees)[0]


# --- contradictions ---------------------------------------------------------------------------------------------------


@given(st.lists(expressions(), min_size=1, max_size=4))
def test_labels_exclude_each_other_exactly_where_no_value_fits(given_: list[tuple[str, str, tuple[str, ...]]]) -> None:
    tests = [LabelTest("env", operator, values) for _, operator, values in given_]

    def fits(value: str | None) -> bool:
        return all(
            {
                "In": value in test.values,
                "NotIn": value not in test.values,
                "Exists": value is not None,
                "DoesNotExist": value is None,
            }[test.operator]
            for test in tests
        )

    assert can_match_labels(tests) == any(fits(value) for value in (None, "prod", "prd", "staging", "dev", "another"))
