"""Large policies: what a question about them costs, counted in calls of functions and never in seconds.

A computation in a thread ends at its next checkpoint, so that no author of a policy may put much between two of them.
The work of all of it grows with the policy, not with its square.
"""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import msgspec
import pytest

from fleet.checkpoint import interruptible
from fleet.explain.answer.answer import Answer, build_answer
from fleet.explain.answer.rendering import PROBLEMS_SHOWN, render
from fleet.explain.fixes.evaluator import DEEP
from fleet.explain.fixes.fixes import Fixes, Mode, find_fixes, find_fixes_for_cluster
from fleet.explain.remarks.mistakes import Mistake, find_unknown_names
from fleet.explain.remarks.nearest import find_nearest
from fleet.explain.remarks.remarks import MOST_REMARKS
from fleet.explain.whatif.edits import AddCluster, LabelCluster, RelaxAffinity
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.cycle.decision import Decision
from fleet.framework.explaining import MOST_CHANGES
from fleet.framework.policy.contradictions import can_match_labels, pick_label
from fleet.framework.policy.terms import VALUES_SHOWN, LabelTest
from fleet.model.views import PolicySnapshot
from fleet.snapshot.frame import Frame
from plugins.affinity.cluster_affinity import MOST_EXPRESSIONS, MOST_TERMS
from tests.bench.policies import policy_snapshot
from tests.builders import NOW, ClusterBuilder, a_cluster, a_frame
from tests.unit.explain.questions import DEFAULT

CALLS_ALWAYS, CALLS_OF_A_PART = 20_000, 25
"""Between two checkpoints: some milliseconds, and less than one pass over the policy."""

Json = dict[str, Any]


def expression(number: int) -> Json:
    return {"key": f"example.com/key-{number}", "operator": "In", "values": [f"value-{number}"]}


def required(size: int, *, terms: int = 1) -> Json:
    selectors = [
        {"labelSelector": {"matchExpressions": [expression(term * size + number) for number in range(size)]}}
        for term in range(terms)
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": selectors}}


def preferred(size: int) -> Json:
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"labelSelector": {"matchExpressions": [expression(number)]}}}
            for number in range(size)
        ]
    }


def of_values(size: int, *, terms: int = 1, expressions: int = 1) -> Json:
    """Of `size` values in all."""
    values = [f"value-{number}" for number in range(size // terms // expressions)]
    selectors = [
        {
            "labelSelector": {
                "matchExpressions": [
                    {"key": f"key-{term}-{number}" if terms > 1 else "zone", "operator": "In", "values": values}
                    for number in range(expressions)
                ]
            }
        }
        for term in range(terms)
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": selectors}}


def measured(*bounds: tuple[str, str]) -> Json:
    """By property."""
    expressions = [{"name": name, "operator": "Gt", "values": [bound]} for name, bound in bounds]
    selector = {"propertySelector": {"matchExpressions": expressions}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [selector]}}


def pick_three(affinity: Json, **further: Any) -> Json:
    return {"placementType": "PickN", "numberOfClusters": 3, "affinity": {"clusterAffinity": affinity}, **further}


POLICIES: dict[str, Callable[[int], Json]] = {
    "expressions": lambda size: pick_three(required(size)),
    "terms": lambda size: pick_three(required(1, terms=size)),
    "preferences": lambda size: pick_three({**required(1), **preferred(size)}),
    "tolerations": lambda size: pick_three(
        required(1), tolerations=[{"key": f"key-{number}", "operator": "Exists"} for number in range(size)]
    ),
    "values": lambda size: pick_three(of_values(size)),
    "names": lambda size: {"placementType": "PickFixed", "clusterNames": [f"cluster-{n}" for n in range(size)]},
    "properties": lambda size: pick_three(measured(*((f"example.com/number-{n}", "1") for n in range(size)))),
    "one property": lambda size: pick_three(measured(*(("example.com/number", str(n)) for n in range(size)))),
    "one key": lambda size: pick_three(
        {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "clusterSelectorTerms": [
                    {
                        "labelSelector": {
                            "matchExpressions": [
                                {"key": "zone", "operator": "NotIn", "values": [str(number)]} for number in range(size)
                            ]
                        }
                    }
                ]
            }
        }
    ),
}


def a_scenario_with(policy: Json, fleet: Sequence[ClusterBuilder] = ()) -> Scenario:
    fleet = fleet or [
        a_cluster(f"c{number}").labelled(zone=str(number)).tainted(f"taint-{number}") for number in range(6)
    ]
    return Scenario.build(
        clusters=a_frame(*fleet),
        snapshot=msgspec.convert(policy_snapshot("large", policy), PolicySnapshot),
        bindings=(),
        profile=DEFAULT,
        now=NOW,
    )


@dataclass
class Meter:
    """Counts the calls of functions, in all and since the last checkpoint."""

    calls: int = 0
    most: int = 0
    _since: int = 0

    def count(self, frame: FrameType, event: str, argument: Any) -> None:
        del frame, argument
        if event in ("call", "c_call"):
            self.calls += 1
            self._since += 1

    def pass_checkpoint(self) -> None:
        self.most = max(self.most, self._since)
        self._since = 0

    def measure(self, function: Callable[[], Any]) -> None:
        with interruptible(self.pass_checkpoint):
            sys.setprofile(self.count)
            try:
                function()
            finally:
                sys.setprofile(None)
        self.pass_checkpoint()


def explain(policy: Json, *, mode: Mode = "fast", cluster: str = "") -> tuple[Answer, Fixes]:
    scenario = a_scenario_with(policy)
    decision = scenario.decide()
    if cluster:
        fixes = find_fixes_for_cluster(scenario, decision, cluster, mode=mode)
    else:
        fixes = find_fixes(scenario, decision, mode=mode)
    return build_answer(scenario.question, decision, fixes=fixes, limit=20), fixes


def measure(policy: Json, *, mode: Mode = "fast", cluster: str = "") -> Meter:
    meter = Meter()
    meter.measure(lambda: explain(policy, mode=mode, cluster=cluster))
    return meter


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("cluster", ["", "c1"])
def test_the_work_of_a_question_grows_with_the_policy_and_not_with_its_square(kind: str, cluster: str) -> None:
    small, large = (measure(POLICIES[kind](size), cluster=cluster).calls for size in (150, 600))

    assert large < 8 * small


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("size", [10, 1_000, pytest.param(2_500, marks=pytest.mark.long)])
def test_there_is_less_than_one_pass_over_the_policy_between_two_checkpoints(kind: str, size: int) -> None:
    assert measure(POLICIES[kind](size)).most < CALLS_ALWAYS + CALLS_OF_A_PART * size


def test_each_pass_over_the_properties_of_a_policy_has_a_checkpoint_for_each() -> None:
    """They are read by PreFilter and by Filter."""
    scenario, passed = a_scenario_with(POLICIES["properties"](100)), Counter[str]()
    with interruptible(lambda: passed.update(["checkpoint"])):
        scenario.decide()
    assert passed["checkpoint"] >= 200


def test_a_deep_search_over_thousands_of_preferences_is_cut_and_says_so() -> None:
    by_zone = [
        {
            "weight": 1,
            "preference": {
                "labelSelector": {
                    "matchExpressions": [{"key": "zone", "operator": "In", "values": [str(number % 6), f"x{number}"]}]
                }
            },
        }
        for number in range(1_500)
    ]
    fleet = [a_cluster(f"c{number}").labelled(zone=str(number)) for number in range(6)]
    scenario = a_scenario_with(pick_three({"preferredDuringSchedulingIgnoredDuringExecution": by_zone}), fleet)
    decision = scenario.decide()
    tenth = replace(DEEP, parts=DEEP.parts // 10)  # all of it takes ten seconds, whatever the policy
    fixes = find_fixes_for_cluster(scenario, decision, find_unpicked(decision), mode="deep", budget=tenth)

    assert fixes.truncated
    assert fixes.evaluations < 5


def find_unpicked(decision: Decision) -> str:
    picked = {target.cluster for target in decision.targets}
    return next(name for name in decision.frame.names.ordered if name not in picked)


def test_a_suggestion_of_hundreds_of_labels_is_none() -> None:
    _, fixes = explain(POLICIES["expressions"](300))
    changes = [edit for fix in fixes.fixes for edit in fix.edits if isinstance(edit, LabelCluster | AddCluster)]

    assert fixes.truncated
    assert len(changes) <= MOST_CHANGES
    assert not any(isinstance(edit, AddCluster) and len(edit.labels) > MOST_CHANGES for edit in changes)


def test_of_thousands_of_values_the_smallest_is_suggested() -> None:
    values = [f"{number:05}" for number in range(1_500, 0, -1)]
    by_tier = {"labelSelector": {"matchExpressions": [{"key": "tier", "operator": "In", "values": values}]}}
    policy = pick_three({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [by_tier]}})
    scenario = a_scenario_with(policy, [a_cluster(f"c{number}") for number in range(3)])
    fixes = find_fixes_for_cluster(scenario, scenario.decide(), "c0")

    assert [LabelCluster("c0", "tier", "00001")] in [list(fix.edits) for fix in fixes.fixes]


@pytest.mark.parametrize("kind, more", [("expressions", '"more":'), ("terms", '"moreTerms":')])
def test_the_details_of_a_cluster_list_the_first_failures_and_count_the_others(kind: str, more: str) -> None:
    answer, _ = explain(POLICIES[kind](1_000))
    encoded = msgspec.json.encode(answer.attempt).decode()

    assert f"{more}{1_000 - (MOST_EXPRESSIONS if kind == 'expressions' else MOST_TERMS)}" in encoded
    assert len(encoded) < 300_000


BROAD: dict[str, Callable[[int], Json]] = {
    **{kind: policy for kind, policy in POLICIES.items() if kind != "names"},  # the hub takes a hundred
    "values of many terms": lambda size: pick_three(of_values(size, terms=4, expressions=4)),
    "a long property": lambda size: pick_three(measured(("x" * size, "1"))),
    "a long quantity": lambda size: pick_three(measured(("cpu", f"{'0' * size}1"))),
    "a long taint": lambda size: pick_three({}, tolerations=[{"key": "x" * size, "operator": "Exists"}]),
    "spread constraints": lambda size: pick_three(
        {},
        topologySpreadConstraints=[
            {"topologyKey": f"zone-{number}", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            for number in range(size)
        ],
    ),
    "mistakes": lambda size: pick_three(required(size) | preferred(size)),
}
MANY = tuple(a_cluster(f"c{number}").labelled(zone=str(number)) for number in range(30))
ROOM_FOR_A_PAGE, SHARE_OF_THE_POLICY = 400_000, 8
"""An answer tells a part of the policy a few times, and never once for each cluster."""


@pytest.mark.parametrize("kind", BROAD)
def test_an_answer_has_no_more_bytes_than_a_page_of_its_clusters_and_the_policy_a_few_times(kind: str) -> None:
    policy = BROAD[kind](20_000 if kind.startswith("a long") else 2_000)
    scenario = a_scenario_with(policy, MANY)
    decision = scenario.decide()
    answer = build_answer(scenario.question, decision, fixes=find_fixes(scenario, decision, mode="fast"), limit=500)

    assert len(msgspec.json.encode(answer)) < ROOM_FOR_A_PAGE + SHARE_OF_THE_POLICY * len(msgspec.json.encode(policy))
    assert len(render(answer)) < ROOM_FOR_A_PAGE


def a_long_expression(number: int) -> Json:
    return {"key": f"key-{number}", "operator": "In", "values": [f"{'x' * 60}{n}" for n in range(20)]}


LONG_LINES = pick_three(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"labelSelector": {"matchExpressions": [*map(a_long_expression, range(20))]}}] * 20
        }
    }
)
"""Of which as much fails on every cluster as is listed."""


def test_a_page_of_clusters_ends_early_and_the_next_ones_have_the_others() -> None:
    scenario = a_scenario_with(LONG_LINES, MANY)
    decision, cursor = scenario.decide(), ""
    pages: list[list[str]] = []
    while cursor or not pages:
        answer = build_answer(scenario.question, decision, limit=500, cursor=cursor)
        pages.append([row.name for row in answer.attempt.clusters])
        cursor = answer.attempt.next_cursor
        assert len(msgspec.json.encode(answer)) < 6_000_000

    assert len(pages) > 1
    assert sorted(name for page in pages for name in page) == sorted(decision.frame.names.ordered)


def test_without_a_limit_an_answer_has_all_clusters() -> None:
    scenario = a_scenario_with(LONG_LINES, MANY)
    answer = build_answer(scenario.question, scenario.decide(), limit=None)

    assert len(answer.attempt.clusters) == len(MANY)
    assert answer.attempt.next_cursor == ""


def test_a_page_for_a_policy_of_thousands_of_expressions_has_fewer_clusters() -> None:
    """Each of them is looked at for each cluster."""
    fleet = [a_cluster(f"c{number}").labelled(zone=str(number)) for number in range(450)]
    scenario = a_scenario_with(pick_three(required(2_500)), fleet)
    answer = build_answer(scenario.question, scenario.decide(), limit=500)

    assert len(answer.attempt.clusters) == 400
    assert answer.attempt.next_cursor


def test_remarks_on_thousands_of_names_are_the_first_and_the_number_of_the_others() -> None:
    answer, _ = explain(POLICIES["values"](1_000))

    assert len(answer.remarks) == MOST_REMARKS + 1
    assert (answer.remarks[-1].kind, answer.remarks[-1].more) == ("further", 1_000 - MOST_REMARKS)
    assert f"… and {1_000 - 20} more" in render(answer)


def test_problems_of_a_policy_with_thousands_are_the_first_and_the_number_of_the_others() -> None:
    terms = [{"labelSelector": {"matchExpressions": [{"key": "zone", "operator": "Like"}]}} for _ in range(1_000)]
    answer, _ = explain(pick_three({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}))

    assert (len(answer.verdict.problems), answer.verdict.more_problems) == (200, 800)
    assert f"… and {1_000 - PROBLEMS_SHOWN} more" in render(answer)


def test_what_excludes_everything_is_among_the_remarks_however_many_names_are_unknown() -> None:
    both = [{"key": "zone", "operator": operator, "values": ["1"]} for operator in ("In", "NotIn")]
    unknown = [{"key": f"unheard-of-{number}", "operator": "Exists"} for number in range(MOST_REMARKS + 1)]
    selectors = [{"labelSelector": {"matchExpressions": [*unknown, *both]}}]
    answer, _ = explain(
        pick_three({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": selectors}})
    )

    assert [remark.kind for remark in answer.remarks if not remark.kind.startswith("unknown")] == [
        "contradiction",
        "further",
    ]
    assert answer.remarks[-1].more == 2


@pytest.mark.parametrize("written", ["as answers write it", "in full"])
def test_an_expression_of_many_values_is_relaxed_by_what_answers_call_it_and_by_its_text(written: str) -> None:
    values = tuple(f"value-{number}" for number in range(VALUES_SHOWN + 5))
    scenario = a_scenario_with(pick_three(of_values(len(values))), MANY)
    answer = build_answer(scenario.question, scenario.decide(), limit=1)
    short = answer.attempt.clusters[0].rejections[0].details["terms"][0]["failed"][0]["expected"]
    text = short if written == "as answers write it" else f"zone In [{', '.join(values)}]"

    assert short == f"zone In [{', '.join(values[:VALUES_SHOWN])}, and 5 more]" == str(LabelTest("zone", "In", values))
    assert scenario.apply([RelaxAffinity(term=0, expression=text)]).decide().targets


def test_to_relax_an_expression_as_answers_write_it_none_is_written_in_full() -> None:
    def write_in_full(_: LabelTest) -> str:
        raise AssertionError("tens of thousands of values hold all other threads while they are written")

    values = tuple(f"value-{number}" for number in range(VALUES_SHOWN + 5))
    scenario = a_scenario_with(pick_three(of_values(len(values))), MANY)
    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(LabelTest, "full", property(write_in_full))
        relaxed = RelaxAffinity(term=0, expression=str(LabelTest("zone", "In", values)))
        assert scenario.apply([relaxed]).decide().targets


class HashedText(str):
    """Counts, because operations on whole sets hold all other threads until they are done."""

    __slots__ = ()
    hashes = 0

    def __hash__(self) -> int:
        HashedText.hashes += 1
        return super().__hash__()


def test_whether_one_list_of_values_can_match_is_seen_from_its_first() -> None:
    before = HashedText.hashes
    values = tuple(HashedText(f"value-{number}") for number in range(1_000))

    assert can_match_labels([LabelTest("zone", "In", values)])
    assert HashedText.hashes - before < 10


def test_names_that_are_missing_are_compared_by_name_only(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Mistake] = []

    def hash_it(mistake: Mistake) -> int:
        hashed.append(mistake)
        return 0

    monkeypatch.setattr(Mistake, "__hash__", hash_it)
    answer, _ = explain(pick_three(of_values(1_000)))

    assert answer.remarks[-1].more == 1_000 - MOST_REMARKS
    assert len(hashed) < 100


def test_each_thousand_values_has_a_checkpoint_where_their_names_are_looked_for() -> None:
    scenario, passed = a_scenario_with(POLICIES["values"](10_000)), Counter[str]()
    with interruptible(lambda: passed.update(["checkpoint"])):
        asked = scenario.question
        mistakes = list(find_unknown_names(asked.request, asked.frame, asked.profile))
    assert len(mistakes) == 10_000
    assert passed["checkpoint"] >= 10


@pytest.mark.parametrize("kind", ["expressions", "terms", "one key", "values"])
def test_an_expression_is_looked_at_as_often_for_many_clusters_as_for_few(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, rows = list[str](), LabelTest.rows

    def look(test: LabelTest, frame: Frame) -> int:
        looked.append(test.key)
        return rows(test, frame)

    monkeypatch.setattr(LabelTest, "rows", look)
    times = []
    for size in (2, 40):
        looked.clear()
        fleet = [a_cluster(f"c{number}").labelled(zone=str(number)) for number in range(size)]
        published = a_scenario_with(POLICIES[kind](50), fleet).decide().published
        assert published is not None
        assert len(published.decisions) == min(size, 20)
        times.append(len(looked))

    assert times[0] == times[1]


def peak_of(function: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_word_of_any_length_is_compared_without_memory_for_its_square() -> None:
    word = "".join(chr(ord("a") + number * number % 26) for number in range(8_000))

    assert peak_of(lambda: find_nearest(word, ["tier", "zone"])) < 1_000_000


def test_a_value_is_picked_from_a_list_without_a_set_of_all() -> None:
    tests = [LabelTest("zone", "In", tuple(f"value-{number}" for number in range(10_000)))]

    assert peak_of(lambda: pick_label(tests)) < 100_000


def test_an_expression_of_thousands_is_taken_out_without_copies_of_all_others() -> None:
    size = 3_000
    scenario = a_scenario_with(POLICIES["one key"](size))
    edit = RelaxAffinity(term=0, expression=f"zone NotIn [{size - 1}]")

    assert peak_of(lambda: scenario.apply([edit])) < 20_000_000
