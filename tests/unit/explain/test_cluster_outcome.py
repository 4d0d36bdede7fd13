"""One word for where each cluster stands, and counts that add up."""

from __future__ import annotations

import pytest

from fleet.explain.facts.outcomes import ClusterCounts, count_clusters
from plugins.default_profile import compile_default, default_profile
from tests.builders import PolicyBuilder, a_binding, a_cluster, a_policy, clusters, label
from tests.unit.explain.questions import ask


def test_a_cluster_that_gets_a_new_binding_is_selected() -> None:
    assert ask(clusters("a"), a_policy()).outcomes() == {"a": "selected"}


def test_a_cluster_that_keeps_its_binding_over_a_policy_change_is_refreshed() -> None:
    asked = ask(clusters("a", "b"), a_policy(), a_binding("a").obsolete().bound())

    assert asked.outcomes() == {"a": "refreshed", "b": "selected"}


def test_a_cluster_whose_unscheduled_binding_comes_back_is_revived() -> None:
    assert ask(clusters("a"), a_policy(), a_binding("a").unscheduled()).outcomes() == {"a": "revived"}


@pytest.mark.parametrize(
    "policy", [a_policy(), a_policy().pick_n(2), a_policy().pick_fixed("a")], ids=["all", "n", "fixed"]
)
def test_a_cluster_in_use_is_kept(policy: PolicyBuilder) -> None:
    asked = ask(clusters("a", "b"), policy, a_binding("a"))

    assert asked.outcomes()["a"] == "kept"


def test_a_cluster_that_fits_but_is_not_among_the_best_is_not_picked() -> None:
    fleet = [a_cluster("a").labelled(tier="gold"), a_cluster("b")]
    policy = a_policy().pick_n(1).prefer(10, label("tier", "Exists"))

    assert ask(fleet, policy).outcomes() == {"a": "selected", "b": "not-picked"}


def test_a_cluster_that_a_plugin_refuses_is_filtered() -> None:
    assert ask([a_cluster("a").tainted("gpu")], a_policy()).outcomes() == {"a": "filtered"}


def test_a_listed_cluster_that_is_silent_for_a_moment_retains_its_binding() -> None:
    asked = ask([a_cluster("a").heard(600)], a_policy().pick_fixed("a"), a_binding("a").obsolete())

    assert asked.outcomes() == {"a": "retained"}


def test_a_cluster_that_a_fixed_policy_does_not_name_is_not_listed() -> None:
    assert ask(clusters("a", "b"), a_policy().pick_fixed("a")).outcomes() == {"a": "selected", "b": "not-listed"}


def test_a_cluster_given_up_for_a_smaller_number_is_removed_and_nobody_else_was_asked() -> None:
    asked = ask(clusters("a", "b", "c"), a_policy().pick_n(1), a_binding("a"), a_binding("b"))

    assert asked.outcomes() == {"a": "removed", "b": "kept", "c": "not-evaluated"}


def test_nobody_is_evaluated_while_as_many_as_wanted_are_in_use() -> None:
    asked = ask(clusters("a", "b"), a_policy().pick_n(1), a_binding("a"))

    assert asked.outcomes() == {"a": "kept", "b": "not-evaluated"}


def test_nobody_is_evaluated_for_a_policy_that_makes_no_sense_and_what_is_in_use_stays() -> None:
    asked = ask(clusters("a", "b"), a_policy().require(label("tier", "Like", "gold")), a_binding("a"))

    assert asked.outcomes() == {"a": "kept", "b": "not-evaluated"}


def test_picks_that_are_given_back_because_too_few_others_were_found_still_fit() -> None:
    policy = a_policy().pick_n(3).at_least(3)

    assert ask([*clusters("a", "b"), a_cluster("c").tainted("gpu")], policy).outcomes() == {
        "a": "not-picked",
        "b": "not-picked",
        "c": "filtered",
    }


def test_picks_of_several_rounds_that_are_given_back_still_fit() -> None:
    fleet = [a_cluster(name).labelled(zone=name) for name in ("a", "b")]
    policy = a_policy().pick_n(3).at_least(3).spread("zone")

    assert ask(fleet, policy).outcomes() == {"a": "not-picked", "b": "not-picked"}


def test_a_cluster_outside_the_fleet_that_a_binding_names_is_dangling() -> None:
    asked = ask(clusters("a"), a_policy(), a_binding("gone"))

    assert str(asked.explained("gone").outcome) == "dangling"


def test_a_listed_name_that_no_cluster_has_is_missing() -> None:
    asked = ask(clusters("a"), a_policy().pick_fixed("a", "nowhere"))

    assert str(asked.explained("nowhere").outcome) == "missing"


def test_a_name_that_nobody_mentions_is_unknown() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        ask(clusters("a"), a_policy()).explained("nowhere")


def test_W_05_every_cluster_is_counted_once() -> None:
    fleet = [*clusters("a", "b", "c"), a_cluster("d").tainted("gpu"), a_cluster("e").leaving()]

    asked = ask(fleet, a_policy().pick_n(2), a_binding("a"))

    assert count_clusters(asked.decision) == ClusterCounts(
        total=5, selected=1, fit=1, already_selected=1, rejected=2, not_evaluated=0
    )


def test_W_08_an_empty_fleet_has_counts_too() -> None:
    assert count_clusters(ask([], a_policy().pick_n(2)).decision) == ClusterCounts(0, 0, 0, 0, 0, 0)


def test_settings_of_the_profile_decide_who_is_retained() -> None:
    strict = compile_default(default_profile(args={"ClusterEligibility": {"retention": "0"}}))
    fleet, policy, binding = [a_cluster("a").heard(600)], a_policy().pick_fixed("a"), a_binding("a").obsolete()

    assert ask(fleet, policy, binding, profile=strict).outcomes() == {"a": "filtered"}
