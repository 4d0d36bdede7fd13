"""What is different between two decisions."""

from __future__ import annotations

from fleet.explain.whatif.compare import DecisionComparison, compare
from fleet.explain.whatif.edits import (
    AddCluster,
    AddTaint,
    Edit,
    LabelCluster,
    RemoveCluster,
    RemoveTaint,
    SetCount,
    SetReady,
    Tolerate,
)
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.profiles.profile import StatusLimits
from plugins.default_profile import compile_default, default_profile
from tests.builders import a_binding, a_cluster, a_policy, clusters, label
from tests.unit.explain.questions import ask
from tests.unit.explain.scenarios import a_scenario


def compared(scenario: Scenario, *edits: Edit) -> DecisionComparison:
    return compare(scenario.decide(), scenario.apply(edits).decide())


def transitions(found: DecisionComparison) -> list[tuple[str, str, list[str]]]:
    return [(one.before, one.after, [each.cluster for each in one.clusters]) for one in found.transitions]


def test_W_15_equal_decisions_are_the_same() -> None:
    found = compared(a_scenario(clusters("a", "b"), a_policy().pick_n(1)))

    assert (found.same, found.gained, found.lost, found.transitions, found.changes) == (True, (), (), (), ())


def test_targets_that_were_gained_and_lost() -> None:
    fleet = [a_cluster("a"), a_cluster("b")]

    found = compared(a_scenario(fleet, a_policy().pick_n(1)), AddTaint("b", "gpu"))

    assert (found.gained, found.lost, found.same) == (("a",), ("b",), False)


def test_W_15_clusters_are_grouped_by_how_their_first_refusal_changed() -> None:
    fleet = [a_cluster("a").tainted("gpu"), a_cluster("b").tainted("gpu"), a_cluster("c"), a_cluster("d").leaving()]

    found = compared(
        a_scenario(fleet, a_policy()), RemoveTaint("a", "gpu"), SetReady("b", value=False), SetReady("c", value=False)
    )

    assert transitions(found) == [
        ("TaintToleration", "ClusterEligibility", ["b"]),
        ("TaintToleration", "fits", ["a"]),
        ("fits", "ClusterEligibility", ["c"]),
    ]


def test_the_facts_behind_a_change_are_told() -> None:
    found = compared(a_scenario([a_cluster("a").tainted("gpu", "yes")], a_policy()), Tolerate("gpu", value="yes"))

    ((number,),) = (one.clusters for one in found.transitions)
    assert (number.cluster, number.before, number.after) == ("a", "gpu=yes:NoSchedule", "fits")


def test_clusters_that_come_and_go_are_absent_on_one_side() -> None:
    found = compared(a_scenario(clusters("a", "b"), a_policy()), RemoveCluster("a"), AddCluster("c", "b"))

    assert transitions(found) == [("absent", "fits", ["c"]), ("fits", "absent", ["a"])]


def test_clusters_that_one_of_the_two_never_looked_at_are_counted_only() -> None:
    fleet = [a_cluster("a"), a_cluster("b").tainted("gpu"), a_cluster("c")]

    found = compared(a_scenario(fleet, a_policy().pick_n(1), a_binding("a")), SetCount(2))

    assert (found.gained, found.transitions, found.not_compared) == (("c",), (), 2)


def test_at_most_ten_clusters_of_a_change_are_named() -> None:
    fleet = [a_cluster(f"c{number:02}").tainted("gpu") for number in range(13)]

    (found,) = compared(a_scenario(fleet, a_policy()), Tolerate("gpu")).transitions

    assert (found.count, len(found.clusters), found.more) == (13, 10, 3)


def test_scores_of_targets_that_moved_by_more_than_a_point_are_told() -> None:
    fleet = [a_cluster("a"), a_cluster("b")]
    policy = a_policy().pick_n(2).prefer(1, label("x", "Exists")).prefer(9, label("y", "Exists"))

    found = compared(a_scenario(fleet, policy), LabelCluster("a", "x", "1"), LabelCluster("b", "y", "1"))

    assert [(one.cluster, one.before, one.after) for one in found.scores] == [("b", (0, 0, 0), (0, 9, 0))]


def test_what_the_two_were_decided_with_is_compared() -> None:
    found = compared(a_scenario(clusters("a"), a_policy().pick_n(1)), SetCount(3))

    assert [(one.what, one.before, one.after) for one in found.changes] == [("generation", 1, 2), ("wanted", 1, 3)]


def test_another_configuration_is_told_by_its_hash() -> None:
    other = compile_default(default_profile(limits=StatusLimits(unselected_budget=1)))
    one, two = (ask(clusters("a"), a_policy(), profile=profile) for profile in (compile_default(), other))

    found = compare(one.decision, two.decision)

    assert [one.what for one in found.changes] == ["configHash"]
    assert found.same


def test_outcomes_and_numbers_of_both_sides_are_told() -> None:
    found = compared(a_scenario(clusters("a", "b"), a_policy().pick_n(3)), SetCount(2))

    assert (found.before.outcome, found.before.selected) == ("PARTIAL", 2)
    assert (found.after.outcome, found.after.selected) == ("SELECTED", 2)
