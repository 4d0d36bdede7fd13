"""One cluster in words: a sentence for every way a cluster can stand, and what plugins looked at."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fleet.cli.input.simulation import Moment
from fleet.cli.output.why_text import age_text, detail_lines, outcome_text
from fleet.model.binding_names import build_binding_name
from fleet.model.timestamps import HOUR, MINUTE, SECOND
from tests.builders import NOW, PLACEMENT, UID, BindingBuilder, a_binding, a_cluster, a_policy, clusters, label, measure
from tests.unit.explain.questions import Asked, ask


def sentence(asked: Asked, cluster: str) -> str:
    return outcome_text(asked.explained(cluster), asked.decision)


def details(asked: Asked, cluster: str) -> list[str]:
    first = asked.explained(cluster).first
    assert first is not None
    return list(detail_lines(first, asked.decision, Moment(NOW, "--now")))


# --- outcomes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked, want",
    [
        (ask(clusters("a"), a_policy()), "selected"),
        (ask(clusters("a"), a_policy().pick_n(1)), "selected (topology 0, affinity 0)"),
        (ask(clusters("a"), a_policy(), a_binding("a").obsolete()), "refreshed"),
        (
            ask(clusters("a"), a_policy().pick_n(1), a_binding("a").obsolete()),
            "refreshed (topology 0, affinity 0, held a binding already)",
        ),
        (ask(clusters("a"), a_policy(), a_binding("a").unscheduled()), "revived"),
        (
            ask([a_cluster("a").heard(600)], a_policy(), a_binding("a").obsolete()),
            "refreshed; it would not qualify as a newcomer, but stays over the policy change",
        ),
        (ask(clusters("a"), a_policy(), a_binding("a")), "in use, and stays"),
        (
            ask(clusters("a"), a_policy().pick_n(1), a_binding("a").scored(affinity=7)),
            "in use, and stays (topology 0, affinity 7)",
        ),
        (ask([a_cluster("a").tainted("gpu")], a_policy()), "rejected by TaintToleration: untolerated taint {gpu}"),
        (
            ask([a_cluster("a").heard(600)], a_policy().pick_fixed("a"), a_binding("a").obsolete()),
            "not selected (ClusterEligibility: agent silent), but its binding stays for now",
        ),
        (ask(clusters("a"), a_policy().pick_fixed("b")), "not selected: the policy does not name it"),
        (ask(clusters("a"), a_policy().pick_n(0), a_binding("a")), "given up: fewer clusters are wanted"),
        (
            ask(clusters("a", "b"), a_policy().pick_n(1), a_binding("b")),
            "not evaluated: as many clusters as wanted are in use",
        ),
        (
            ask(clusters("a"), a_policy().require(label("x", "Like"))),
            "not evaluated: the policy cannot be evaluated",
        ),
    ],
    ids=[
        "selected", "selected and ranked", "refreshed", "refreshed and ranked", "revived", "spared", "kept",
        "kept and ranked", "filtered", "retained", "not listed", "removed", "not asked", "no policy",
    ],
)  # fmt: skip
def test_every_outcome_has_its_sentence(asked: Asked, want: str) -> None:
    assert sentence(asked, "a") == want


def test_the_step_of_a_pick_is_told_where_there_are_several() -> None:
    fleet = [a_cluster("a").labelled(zone="x"), a_cluster("b").labelled(zone="y")]

    assert (
        sentence(ask(fleet, a_policy().pick_n(2).spread("zone")), "a") == "selected in step 2 (topology 1, affinity 0)"
    )


def in_the_way(cluster: str) -> BindingBuilder:
    """A binding in a state nobody knows, under the name that a new one would get."""
    name = build_binding_name(placement=PLACEMENT, placement_uid=UID, cluster=cluster)
    binding = a_binding(cluster, name=name).build()
    return BindingBuilder(replace(binding, spec=replace(binding.spec, state="Limbo")))


def test_a_decision_that_failed_has_asked_nobody() -> None:
    asked = ask(clusters("a"), a_policy(), in_the_way("a"))

    assert sentence(asked, "a") == "not evaluated: the decision failed"


@pytest.mark.parametrize(
    "name, want",
    [
        ("gone", "not in the fleet any more: its binding is given up"),
        ("nowhere", "listed by the policy, but no cluster of the fleet has this name"),
    ],
)
def test_names_outside_the_fleet_have_their_sentences(name: str, want: str) -> None:
    asked = ask(clusters("a"), a_policy().pick_fixed("a", "nowhere"), a_binding("gone"))

    assert sentence(asked, name) == want


def test_a_cluster_that_was_not_picked_learns_how_far_it_is_behind() -> None:
    fleet = [a_cluster("a").labelled(tier="gold"), a_cluster("b")]

    asked = ask(fleet, a_policy().pick_n(1).prefer(10, label("tier", "Exists")))

    assert sentence(asked, "b") == (
        "fits, but is not picked (topology 0, affinity 0): rank 2 of 2 when the last cluster was picked, "
        "behind a by 10 in affinity"
    )


def test_a_cluster_that_lost_by_its_name_learns_it() -> None:
    assert sentence(ask(clusters("a", "b"), a_policy().pick_n(1)), "a").endswith("behind b by name only")


def test_a_cluster_that_lost_against_an_old_binding_learns_it() -> None:
    asked = ask(clusters("a", "b"), a_policy().pick_n(1), a_binding("a").obsolete())

    assert sentence(asked, "b").endswith("behind a, which holds a binding already")


def test_a_cluster_that_fits_a_placement_with_too_few_others_is_not_ranked_against_anyone() -> None:
    asked = ask(clusters("a"), a_policy().pick_n(3).at_least(3))

    assert sentence(asked, "a").startswith("fits, but is not picked")


# --- details ----------------------------------------------------------------------------------------------------------


def test_every_term_shows_what_it_expected_and_saw_the_closest_first() -> None:
    policy = a_policy().require(label("tier", "In", "gold"), measure("nodes", "Ge", "5"))

    assert details(ask([a_cluster("a").measured({"nodes": "3"})], policy), "a") == [
        "term 1: tier In [gold] (not set)",
        "term 2: nodes Ge 5 (is 3)",
    ]


def test_silence_is_measured_from_the_moment_of_the_decision() -> None:
    assert details(ask([a_cluster("a").heard(2540)], a_policy()), "a") == [
        "last heartbeat 2026-03-10T08:17:40Z, 42m20s before this decision"
    ]


def test_ill_health_is_measured_from_the_moment_of_the_decision() -> None:
    asked = ask([a_cluster("a").healthy("False", since_seconds=7260)], a_policy())

    assert details(asked, "a") == ["unhealthy since 2026-03-10T06:59:00Z, 2h1m before this decision"]


def test_a_cluster_never_heard_of_has_no_times() -> None:
    assert details(ask([a_cluster("a").never_heard()], a_policy()), "a") == []


def test_skew_names_domains_and_the_clusters_that_hold_them_up() -> None:
    fleet = [a_cluster(name).labelled(zone="x") for name in ("a", "b")] + [a_cluster("c").labelled(zone="y").leaving()]

    assert details(ask(fleet, a_policy().pick_n(3).spread("zone")), "a") == [
        "zone=x has 1; fewest in y; max skew 1",
        "zone=y has no cluster left: c left the fleet",
    ]


@pytest.mark.parametrize(
    "nanoseconds, want",
    [
        (0, "0s"),
        (-5, "0s"),
        (59 * SECOND, "59s"),
        (HOUR, "1h"),
        (25 * HOUR + 7 * MINUTE, "1d1h"),
        (61 * SECOND, "1m1s"),
    ],
)
def test_ages_show_two_units(nanoseconds: int, want: str) -> None:
    assert age_text(nanoseconds) == want
