"""What a rejection by required affinity tells, against each expression looked at for each cluster by itself."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from fleet.explain.whatif.scenario import Scenario
from fleet.model.selectors import holds
from fleet.model.views import PolicySnapshot, SelectorRequirement
from plugins.affinity.cluster_affinity import MOST_EXPRESSIONS, MOST_TERMS
from tests.bench.policies import policy_snapshot
from tests.builders import NOW, a_cluster, a_frame
from tests.unit.explain.questions import DEFAULT

KEYS, VALUES = st.sampled_from(["a", "b"]), st.sampled_from(["1", "2", "3"])


@st.composite
def expressions(draw: st.DrawFn) -> dict[str, Any]:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    values = draw(st.lists(VALUES, min_size=1, max_size=2, unique=True)) if operator.endswith("In") else []
    return {"key": draw(KEYS), "operator": operator, **({"values": values} if values else {})}


TERMS = st.lists(
    st.lists(expressions(), min_size=1, max_size=4)
    | st.lists(expressions(), min_size=MOST_EXPRESSIONS - 1, max_size=MOST_EXPRESSIONS + 4),
    min_size=1,
    max_size=3,
) | st.lists(st.lists(expressions(), min_size=1, max_size=1), min_size=MOST_TERMS, max_size=MOST_TERMS + 3)


def describe(terms: list[list[dict[str, Any]]], labels: dict[str, str]) -> dict[str, Any]:
    described = []
    for position, term in enumerate(terms):
        requirements = [msgspec.convert(each, SelectorRequirement) for each in term]
        failed = [_fail(each, labels) for each in requirements if not holds(each, labels)]
        listed = {"term": position, "failed": failed[:MOST_EXPRESSIONS]}
        described.append((len(failed), listed | _count("more", failed[MOST_EXPRESSIONS:])))
    described.sort(key=lambda each: each[0])
    return {"terms": [each for _, each in described[:MOST_TERMS]]} | _count("moreTerms", described[MOST_TERMS:])


def _fail(requirement: SelectorRequirement, labels: dict[str, str]) -> dict[str, Any]:
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    text = f"{requirement.key} {requirement.operator}{values}"
    return {"expected": text, "observed": labels.get(requirement.key)}


def _count(name: str, others: list[Any]) -> dict[str, Any]:
    return {name: len(others)} if others else {}


@given(TERMS, st.lists(st.dictionaries(KEYS, VALUES), min_size=1, max_size=5))
def test_failed_expressions_are_those_that_fail_one_by_one(
    terms: list[list[dict[str, Any]]], fleet: list[dict[str, str]]
) -> None:
    selectors = [{"labelSelector": {"matchExpressions": term}} for term in terms]
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": selectors}}
    policy = {"placementType": "PickAll", "affinity": {"clusterAffinity": affinity}}
    scenario = Scenario.build(
        clusters=a_frame(*(a_cluster(f"c{number}").labelled(**labels) for number, labels in enumerate(fleet))),
        snapshot=msgspec.convert(policy_snapshot("placed", policy), PolicySnapshot),
        bindings=(),
        profile=DEFAULT,
        now=NOW,
    )
    last = scenario.decide().round
    assert last is not None

    for number, labels in enumerate(fleet):
        status = last.verdicts.status_by_name(f"c{number}")
        expected = describe(terms, labels)
        passes = any(not term["failed"] for term in expected["terms"])
        assert (status is None) == passes
        assert status is None or status.details == expected
