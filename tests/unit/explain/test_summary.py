"""One sentence per decision."""

from __future__ import annotations

import re

import pytest

from fleet.explain.facts.outcomes import count_clusters
from fleet.explain.facts.summary import summarize
from fleet.framework.cycle.inspection import consider_newcomers
from tests.builders import ClusterBuilder, PolicyBuilder, a_binding, a_cluster, a_policy, clusters, label
from tests.unit.explain.questions import ask


def said(*fleet: ClusterBuilder, policy: PolicyBuilder) -> str:
    return summarize(ask(fleet, policy).decision)


def test_everything_went_well() -> None:
    assert said(*clusters("a", "b"), policy=a_policy().pick_n(2)) == "2/2 clusters selected, need 2"


def test_pick_all_needs_no_number() -> None:
    assert said(*clusters("a", "b"), policy=a_policy()) == "2/2 clusters selected"


def test_those_who_fit_come_before_those_who_do_not() -> None:
    fleet = [*clusters("a", "b"), a_cluster("c").tainted("gpu")]

    assert (
        said(*fleet, policy=a_policy().pick_n(1)) == "1/3 clusters selected, need 1: 1 fit; 1 untolerated taint {gpu}"
    )


def test_what_was_selected_before_is_named_as_such() -> None:
    asked = ask(clusters("a", "b"), a_policy().pick_n(2), a_binding("a"))

    assert summarize(asked.decision) == "1/2 clusters selected, need 2: 1 already selected"


def test_who_was_not_asked_is_named_as_such() -> None:
    asked = ask(clusters("a", "b", "c"), a_policy().pick_n(1), a_binding("a"))

    assert summarize(asked.decision) == "1 of 1 wanted cluster in use; 2 not evaluated"


def test_clusters_in_use_come_first_and_the_others_are_judged_as_newcomers() -> None:
    fleet = [*clusters("a", "b", "c"), a_cluster("d").tainted("gpu")]
    asked = ask(fleet, a_policy().pick_n(1), a_binding("a"))

    considered, _ = consider_newcomers(asked.decision, asked.inp)

    assert summarize(considered) == "1 of 1 wanted cluster in use; 2 others fit, 1 cannot: 1 untolerated taint {gpu}"


def test_all_clusters_in_use_are_summed_up_without_others() -> None:
    asked = ask(clusters("a", "b"), a_policy(), a_binding("a"), a_binding("b"))

    assert summarize(asked.decision) == "2 clusters in use"


def test_a_list_that_is_in_use_is_called_a_list() -> None:
    asked = ask(clusters("a", "b"), a_policy().pick_fixed("a"), a_binding("a"))

    assert summarize(asked.decision) == "1 of 1 listed cluster in use; 1 not listed"


def test_frequent_reasons_come_first_and_equal_ones_by_text() -> None:
    fleet = [
        a_cluster("a").tainted("gpu", "a100"),
        a_cluster("b").leaving(),
        a_cluster("c").heard(3600),
        a_cluster("d").heard(7200),
    ]

    assert said(*fleet, policy=a_policy().pick_n(1)) == (
        "0/4 clusters selected, need 1: 2 agent silent, 1 left the fleet, 1 untolerated taint {gpu: a100}"
    )


@pytest.mark.parametrize(
    "cluster, policy, want",
    [
        (a_cluster("a"), a_policy().require(label("tier", "Exists")), "1 no affinity term matched"),
        (a_cluster("a").without_agent(), a_policy(), "1 agent missing"),
        (a_cluster("a").joined("False"), a_policy(), "1 agent not joined"),
        (a_cluster("a").healthy("False", since_seconds=900), a_policy(), "1 unhealthy"),
        (a_cluster("a").with_namespaces("x"), a_policy().in_namespace("shop"), "1 namespace shop missing"),
        (a_cluster("a"), a_policy().pick_fixed(), "1 not listed"),
        (a_cluster("a"), a_policy().pick_fixed("b"), "1 not listed; 1 listed but not in the fleet"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_each_reason_has_its_phrase(cluster: ClusterBuilder, policy: PolicyBuilder, want: str) -> None:
    assert said(cluster, policy=policy).partition(": ")[2] == want


def test_a_full_domain_has_its_phrase() -> None:
    fleet = [a_cluster(name).labelled(zone="x") for name in ("a", "b")] + [a_cluster("c").labelled(zone="y").leaving()]

    said_of_it = said(*fleet, policy=a_policy().pick_n(3).spread("zone"))

    assert said_of_it == "1/3 clusters selected, need 3: 1 left the fleet, 1 max skew of zone exceeded"


def test_W_05_the_numbers_of_the_summary_are_the_counts() -> None:
    fleet = [*clusters("a", "b", "c"), a_cluster("d").tainted("gpu"), a_cluster("e").leaving()]
    asked = ask(fleet, a_policy().pick_n(2), a_binding("a"))

    selected, total, _need, *others = map(int, re.findall(r"\d+", summarize(asked.decision)))

    assert (selected, total) == (count_clusters(asked.decision).selected, count_clusters(asked.decision).total)
    assert selected + sum(others) == total


def test_a_long_summary_is_cut_between_two_reasons() -> None:
    fleet = [a_cluster(f"c{number}").tainted(f"key-{number}-{'x' * 40}") for number in range(40)]

    text = said(*fleet, policy=a_policy())

    assert len(text) <= 1024
    assert re.search(r"\d+ untolerated taint \{key-\d+-x{40}\} \.\.\.$", text)


def test_the_same_facts_in_another_order_give_the_same_summary() -> None:
    fleet = [a_cluster("a").tainted("gpu"), a_cluster("b").leaving(), a_cluster("c")]

    assert said(*fleet, policy=a_policy().pick_n(2)) == said(*reversed(fleet), policy=a_policy().pick_n(2))
