"""Sentences of an answer: one for every outcome of a cluster, and the values behind a rejection."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fleet.explain.answer.answer import build_answer
from fleet.explain.answer.parts import ClusterRow
from fleet.explain.answer.sentences import describe_cluster, describe_details, join_words
from fleet.explain.facts.outcomes import ClusterOutcome
from fleet.framework.operations import build_binding_name
from fleet.model.timestamps import HOUR, MINUTE, SECOND, format_age
from tests.builders import PLACEMENT, UID, BindingBuilder, a_binding, a_cluster, a_policy, clusters, label, measure
from tests.unit.explain.questions import Asked, ask


def sentence(asked: Asked, cluster: str) -> str:
    answer = build_answer(asked.inp, asked.decision, cluster=cluster, everything=True)
    return describe_cluster(answer.attempt.clusters[0], answer.verdict)


def details(asked: Asked, cluster: str) -> list[str]:
    answer = build_answer(asked.inp, asked.decision, cluster=cluster)
    return list(describe_details(answer.attempt.clusters[0].rejections[0], answer))


def in_the_way(cluster: str) -> BindingBuilder:
    """A binding in a state nobody knows, under the name that a new one would get."""
    name = build_binding_name(placement=PLACEMENT, placement_uid=UID, cluster=cluster)
    binding = a_binding(cluster, name=name).build()
    return BindingBuilder(replace(binding, spec=replace(binding.spec, state="Limbo")))


@pytest.mark.parametrize(
    "asked, cluster, want",
    [
        (ask(clusters("a"), a_policy().pick_n(1)), "a", "is chosen"),
        (ask(clusters("a"), a_policy(), a_binding("a").obsolete()), "a", "is chosen again, and its binding is renewed"),
        (
            ask(clusters("a"), a_policy(), a_binding("a").unscheduled()),
            "a",
            "is chosen again, and its binding comes back",
        ),
        (
            ask([a_cluster("a").heard(600)], a_policy(), a_binding("a").obsolete()),
            "a",
            "is chosen again, and its binding is renewed; it would not qualify as a newcomer, but stays over the "
            "policy change",
        ),
        (ask(clusters("a"), a_policy(), a_binding("a")), "a", "is in use, and stays"),
        (ask([a_cluster("a").tainted("gpu")], a_policy().pick_n(1)), "a", "is rejected by TaintToleration"),
        (
            ask([a_cluster("a").heard(600)], a_policy().pick_fixed("a"), a_binding("a").obsolete()),
            "a",
            "is rejected by ClusterEligibility; its binding stays for now",
        ),
        (ask(clusters("a"), a_policy().pick_fixed("b")), "a", "is not named by the policy"),
        (
            ask([a_cluster("a").heard(3600)], a_policy().pick_fixed("b")),
            "a",
            "is not named by the policy, and rejected by ClusterEligibility",
        ),
        (ask(clusters("a"), a_policy().pick_n(0), a_binding("a")), "a", "is given up: fewer clusters are wanted"),
        (
            ask(clusters("a", "b"), a_policy().pick_n(1), a_binding("b")),
            "a",
            "fits, but as many clusters as wanted are in use",
        ),
        (
            ask(clusters("a"), a_policy().require(label("x", "Like"))),
            "a",
            "was not evaluated: the placement has to be edited first",
        ),
        (ask(clusters("a"), a_policy(), in_the_way("a")), "a", "was not evaluated: the decision failed"),
        (ask(clusters("a", "b"), a_policy().pick_n(1)), "a", "fits, but others were chosen"),
        (
            ask(clusters("a"), a_policy().pick_n(3).at_least(3)),
            "a",
            "fits, but too few clusters do: with fewer than minTargets none is taken",
        ),
        (
            ask(clusters("a"), a_policy().pick_fixed("a"), a_binding("gone")),
            "gone",
            "is not in the fleet any more, and its binding is given up",
        ),
        (ask(clusters("a"), a_policy().pick_fixed("x")), "x", "is named by the policy, but no cluster has this name"),
    ],
    ids=[
        "selected", "refreshed", "revived", "spared", "kept", "filtered", "retained", "not listed",
        "not listed, rejected", "removed", "not asked", "no policy", "failed", "not picked", "too few", "dangling",
        "missing",
    ],
)  # fmt: skip
def test_every_outcome_has_its_sentence(asked: Asked, cluster: str, want: str) -> None:
    assert sentence(asked, cluster) == f"{cluster} {want}"


def test_every_outcome_has_words_of_its_own() -> None:
    texts = {describe_cluster(ClusterRow(name="a", outcome="rejected", standing=kind)) for kind in ClusterOutcome}

    assert len(texts) == len(ClusterOutcome)
    assert "a" not in texts


@pytest.mark.parametrize("count, want", [(0, ""), (1, "a"), (2, "a and b"), (3, "a, b and c")])
def test_words_are_joined_as_in_prose(count: int, want: str) -> None:
    assert join_words(["a", "b", "c"][:count]) == want


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
    assert format_age(nanoseconds) == want
