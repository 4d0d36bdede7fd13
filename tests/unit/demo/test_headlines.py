"""Decisions in words."""

from __future__ import annotations

from typing import Any

from fleet.demo.headlines import Headline, Headlines, join_names
from fleet.framework.cycle.decision import Decision
from fleet.framework.operations import Target, TargetScores
from fleet.framework.runtime.effects import Failure
from fleet.framework.status import Code, Status
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from tests.builders import BindingBuilder, ClusterBuilder, PolicyBuilder, a_binding, a_cluster, a_policy, clusters
from tests.fake_clock import FakeClock
from tests.faults.virtual import EPOCH
from tests.unit.explain.questions import ask


def decided(policy: PolicyBuilder, fleet: list[ClusterBuilder], *bindings: BindingBuilder) -> Decision:
    return ask(fleet, policy, *bindings).decision


def an_attempt(decision: Decision | None = None, **given: Any) -> AttemptRecord:
    return AttemptRecord(key=PlacementKey.parse("web"), decision=decision, **given)


def told(*attempts: AttemptRecord) -> list[str]:
    headlines = Headlines(FakeClock(EPOCH))
    for attempt in attempts:
        headlines.record(attempt)
    return [one.text for one in headlines.latest(100)]


def test_new_clusters_are_named_and_counted() -> None:
    decision = decided(a_policy().pick_n(2), clusters("a", "b", "c"))

    assert told(an_attempt(decision)) == ["places on b, c; 2 of 2 clusters"]


def test_what_no_plugin_permitted_is_not_told_as_done() -> None:
    decision = decided(a_policy().pick_n(2), clusters("a", "b"))
    refusal = Failure(
        "permit", Target("a", 0, None, TargetScores()), Status(Code.PENDING, ("owners: waits for an approval",))
    )

    assert told(an_attempt(decision, result=AttemptResult.REJECTED, failed=refusal)) == [
        "not placed: owners: waits for an approval"
    ]
    assert told(an_attempt(decision, result=AttemptResult.WAITING)) == ["waits, with its clusters reserved"]


def test_pick_all_counts_what_it_found() -> None:
    assert told(an_attempt(decided(a_policy(), clusters("a")))) == ["places on a; 1 cluster"]


def test_clusters_that_are_given_up_are_named() -> None:
    decision = decided(a_policy().pick_n(1), clusters("a", "b"), a_binding("a"), a_binding("b"))

    assert told(an_attempt(decision)) == ["gives up a; 1 of 1 clusters"]


def test_what_is_missing_comes_with_what_stands_in_the_way() -> None:
    decision = decided(a_policy().pick_n(2), [a_cluster("a"), a_cluster("b").tainted("gpu")])

    assert told(an_attempt(decision, result=AttemptResult.SHORT)) == [
        "places on a; 1 of 2 clusters: 1 untolerated taint {gpu}"
    ]


def test_what_woke_the_placement_is_named() -> None:
    decision = decided(a_policy().pick_n(1), clusters("a"))
    triggers = ("MemberCluster/Add a", "StartUp", "MemberCluster/UpdateLabels b")

    assert told(an_attempt(decision, triggers=triggers)) == [
        "places on a; 1 of 1 clusters [MemberCluster/Add a and 2 more]"
    ]


def test_a_decision_that_only_confirms_the_last_one_is_no_news() -> None:
    first = decided(a_policy().pick_n(1), clusters("a"))
    again = decided(a_policy().pick_n(1), clusters("a"), a_binding("a"))

    assert told(an_attempt(first), an_attempt(again), an_attempt(again)) == ["places on a; 1 of 1 clusters"]


def test_other_reasons_for_the_same_number_of_clusters_are_no_news() -> None:
    first = decided(a_policy().pick_n(1), [a_cluster("a").tainted("gpu")])
    then = decided(a_policy().pick_n(1), [a_cluster("a").tainted("disk")])

    assert told(an_attempt(first, result=AttemptResult.SHORT), an_attempt(then, result=AttemptResult.SHORT)) == [
        "0 of 1 clusters: 1 untolerated taint {gpu}"
    ]


def test_a_failure_is_told_once_and_again_after_a_success() -> None:
    failed = an_attempt(None, result=AttemptResult.TRANSIENT, error=ConnectionError("no hub"))
    fine = an_attempt(decided(a_policy().pick_n(1), clusters("a"), a_binding("a")))

    assert told(failed, failed, fine, failed) == [
        "cannot be scheduled: no hub",
        "1 of 1 clusters",
        "cannot be scheduled: no hub",
    ]


def test_what_is_wrong_with_a_policy_is_told() -> None:
    decision = decided(a_policy().pick_n(-1), clusters("a"))

    (text,) = told(an_attempt(decision, result=AttemptResult.BAD_INPUT))

    (problem,) = decision.request.problems
    assert text == f"cannot be scheduled: {problem}"


def test_waiting_for_the_placement_controller_is_no_news() -> None:
    assert told(an_attempt(None, result=AttemptResult.NO_SNAPSHOT)) == []


def test_a_placement_that_is_created_again_starts_over() -> None:
    fine = an_attempt(decided(a_policy().pick_n(1), clusters("a"), a_binding("a")))
    deleted = an_attempt(None, result=AttemptResult.CLEANED_UP)

    assert told(fine, deleted, deleted, fine) == [
        "1 of 1 clusters",
        "is being deleted, and its bindings with it",
        "1 of 1 clusters",
    ]


def test_headlines_are_published_as_they_come_and_the_latest_are_kept() -> None:
    published: list[Headline] = []
    headlines = Headlines(FakeClock(EPOCH), publish=published.append)
    for number in range(300):
        headlines.announce("cluster iad-1", f"number {number}")

    assert len(published) == 300
    assert [one.text for one in headlines.latest(2)] == ["number 298", "number 299"]
    assert len(headlines.latest(1000)) == 200
    assert str(published[0]) == "00:00:00  cluster iad-1: number 0"


def test_long_lists_are_cut_and_counted() -> None:
    assert join_names(["a", "b"]) == "a, b"
    assert join_names(list("abcdefgh")) == "a, b, c, d, e, f and 2 more"
