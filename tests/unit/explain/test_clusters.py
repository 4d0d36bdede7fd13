"""Everything about one cluster: each plugin's verdict, scores, rank, distance to the last pick, bindings."""

from __future__ import annotations

import pytest

from fleet.explain.facts.clusters import BindingFate, Margin, ScoreParts
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.inspection import explain_all
from fleet.framework.profiles.profile import StatusLimits
from plugins.default_profile import compile_default, default_profile
from tests.builders import BindingBuilder, a_binding, a_cluster, a_policy, clusters, label, sorted_by
from tests.unit.explain.questions import Asked, ask

# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_every_filter_of_the_profile_gives_a_verdict_in_its_order() -> None:
    asked = ask(clusters("a"), a_policy().pick_n(1))

    assert list(asked.verdicts("a")) == [
        "ClusterAffinity",
        "ClusterEligibility",
        "NamespaceAffinity",
        "TaintToleration",
        "SamePlacementAntiAffinity",
        "TopologySpreadConstraints",
    ]


def test_plugins_behind_the_first_refusal_are_asked_as_well() -> None:
    fleet = [a_cluster("a").leaving().tainted("gpu")]
    asked = ask(fleet, a_policy().require(label("tier", "Exists")).in_namespace("shop"))

    assert asked.verdicts("a") == {
        "ClusterAffinity": "reject",
        "ClusterEligibility": "reject",
        "NamespaceAffinity": "pass",
        "TaintToleration": "reject",
        "SamePlacementAntiAffinity": "pass",
        "TopologySpreadConstraints": "skipped",
    }


def test_the_refusal_that_counted_is_the_first() -> None:
    asked = ask([a_cluster("a").leaving().tainted("gpu")], a_policy())

    first = asked.explained("a").first

    assert first is not None
    assert (first.plugin, first.reason, first.message) == ("ClusterEligibility", "Left", "cluster has left the fleet")


def test_a_cluster_that_was_chosen_passed_everything() -> None:
    fleet = [a_cluster(name).labelled(zone="x") for name in ("a", "b")]

    asked = ask(fleet, a_policy().pick_n(2).spread("zone"))

    assert {asked.explained(name).first for name in ("a", "b")} == {None}
    assert {verdict for name in ("a", "b") for verdict in asked.verdicts(name).values()} == {"pass", "skipped"}


def test_a_cluster_in_use_may_be_one_that_would_not_be_chosen_today() -> None:
    asked = ask([a_cluster("a").tainted("gpu")], a_policy(), a_binding("a"))

    verdicts = asked.verdicts("a")

    assert asked.outcomes() == {"a": "kept"}
    assert (verdicts["TaintToleration"], verdicts["SamePlacementAntiAffinity"]) == ("reject", "pass")
    assert [one.reason for one in asked.explained("a").concerns] == ["UntoleratedTaint"]


def test_a_second_cluster_of_a_domain_is_no_concern_about_the_first() -> None:
    fleet = [a_cluster("a").labelled(region="eu"), a_cluster("b").labelled(region="us").heard(3600)]
    asked = ask(fleet, a_policy().pick_n(1).spread("region"), a_binding("a"))

    assert asked.explained("a").concerns == ()


def test_a_fixed_cluster_that_fell_silent_is_retained() -> None:
    asked = ask([a_cluster("a").heard(3600)], a_policy().pick_fixed("a"), a_binding("a"))

    assert asked.outcomes() == {"a": "retained"}
    assert [(fate.name, fate.action) for fate in asked.explained("a").bindings] == [("web-a-b", "none")]


def test_fixed_policies_ask_for_eligibility_only() -> None:
    asked = ask([a_cluster("a").tainted("gpu")], a_policy().pick_fixed("a"))

    assert {name for name, verdict in asked.verdicts("a").items() if verdict != "skipped"} == {"ClusterEligibility"}


def test_a_cluster_that_is_not_listed_is_refused_by_the_policy_itself() -> None:
    asked = ask(clusters("a", "b"), a_policy().pick_fixed("a"))

    assert asked.verdicts("b")["PickFixed"] == "reject"


def test_clusters_nobody_was_asked_about_are_judged_when_somebody_asks() -> None:
    asked = ask([a_cluster("a"), a_cluster("b").tainted("gpu")], a_policy().pick_n(1), a_binding("a"))

    assert asked.outcomes()["b"] == "not-evaluated"
    assert asked.verdicts("b")["TaintToleration"] == "reject"


def test_without_a_policy_that_makes_sense_no_verdict_is_known() -> None:
    asked = ask(clusters("a"), a_policy().require(label("tier", "Like", "gold")))

    assert set(asked.verdicts("a").values()) == {"unknown"}


def test_W_14_the_first_refusal_equals_the_recorded_one() -> None:
    fleet = [a_cluster("a").leaving().tainted("x"), a_cluster("b").tainted("x"), a_cluster("c")]
    asked = ask(fleet, a_policy().require(label("tier", "DoesNotExist")))
    recorded = asked.decision.verdicts
    assert recorded is not None

    for name in ("a", "b", "c"):
        refused = [one for one, verdict in asked.verdicts(name).items() if verdict == "reject"]
        row = asked.decision.frame.row_of(name)
        assert row is not None
        assert refused[:1] == [one for one in [recorded.rejector(row)] if one]


def test_W_14_the_matrix_does_not_count_the_picks_of_pick_all_against_it() -> None:
    asked = ask(clusters("a"), a_policy())

    assert not any(rows for _, rows in explain_all(asked.decision, asked.inp))


def test_W_07_explaining_changes_no_decision() -> None:
    asked = ask([a_cluster("a"), a_cluster("b").tainted("x")], a_policy().pick_n(1))

    asked.outcomes()

    assert decide(asked.inp).digest == asked.decision.digest


# --- details ----------------------------------------------------------------------------------------------------------


def detail(asked: Asked, cluster: str, plugin: str) -> dict[str, object]:
    refused = next(one.refusal for one in asked.explained(cluster).verdicts if one.plugin == plugin)
    assert refused is not None
    return refused.details


def test_affinity_tells_what_it_expected_and_what_it_saw() -> None:
    asked = ask([a_cluster("a").labelled(tier="bronze")], a_policy().require(label("tier", "In", "gold", "silver")))

    assert detail(asked, "a", "ClusterAffinity") == {
        "terms": [{"term": 0, "failed": [{"expected": "tier In [gold, silver]", "observed": "bronze"}]}]
    }


def test_domains_have_their_names() -> None:
    fleet = [a_cluster(name).labelled(zone="x") for name in ("a", "b")] + [a_cluster("c").labelled(zone="y").leaving()]

    found = detail(ask(fleet, a_policy().pick_n(3).spread("zone")), "a", "TopologySpreadConstraints")

    assert found == {"key": "zone", "maxSkew": 1, "domain": "x", "count": 1, "skew": 1, "lowest": ["y"]}


def test_eligibility_tells_the_time_of_the_signal() -> None:
    found = detail(ask([a_cluster("a").heard(3600)], a_policy()), "a", "ClusterEligibility")

    assert found["lastSeen"] == "2026-03-10T08:00:00Z"


def test_a_cluster_that_stays_over_a_policy_change_only_is_marked() -> None:
    asked = ask([a_cluster("a").heard(600)], a_policy(), a_binding("a").obsolete())

    assert (asked.outcomes(), asked.explained("a").retained) == ({"a": "refreshed"}, True)


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_a_chosen_cluster_has_the_scores_and_the_step_of_its_pick() -> None:
    fleet = [a_cluster("a").labelled(zone="x"), a_cluster("b").labelled(zone="y")]

    asked = ask(fleet, a_policy().pick_n(2).spread("zone"))

    first, second = asked.explained("b"), asked.explained("a")
    assert (first.step, first.scores) == (1, ScoreParts(topology=-1, affinity=0))
    assert (second.step, second.scores) == (2, ScoreParts(topology=1, affinity=0))


def test_a_cluster_in_use_has_the_scores_stored_with_its_binding() -> None:
    asked = ask(clusters("a"), a_policy().pick_n(1), a_binding("a").scored(affinity=7, topology=-1))

    assert asked.explained("a").scores == ScoreParts(topology=-1, affinity=7)


def test_a_cluster_that_was_not_picked_has_its_rank_and_the_distance_to_the_last_pick() -> None:
    fleet = [a_cluster("a").labelled(tier="gold"), a_cluster("b"), a_cluster("c")]

    found = ask(fleet, a_policy().pick_n(1).prefer(10, label("tier", "Exists"))).explained("b")

    assert (found.rank, found.ranked) == (3, 3)
    assert found.margin == Margin(to="a", decided_by="affinity", topology=0, affinity=-10, obsolete=0)


def test_among_equals_the_name_decides() -> None:
    found = ask(clusters("a", "b"), a_policy().pick_n(1)).explained("a").margin

    assert found is not None
    assert (found.to, found.decided_by) == ("b", "name")


def test_an_old_binding_decides_before_the_name() -> None:
    found = ask(clusters("a", "b"), a_policy().pick_n(1), a_binding("a").obsolete()).explained("b").margin

    assert found is not None
    assert (found.to, found.decided_by, found.obsolete) == ("a", "obsolete", -1)


def test_every_ranked_cluster_has_a_rank_however_few_are_published() -> None:
    few = compile_default(default_profile(limits=StatusLimits(unselected_budget=1)))
    fleet = [a_cluster(f"c{number:02}").measured({"cost": str(number)}) for number in range(100)]

    asked = ask(fleet, a_policy().pick_n(1).prefer(100, sorted_by("cost", "Ascending")), profile=few)

    ranks = {name: asked.explained(name).rank for name in ("c01", "c50", "c99")}
    assert ranks == {"c01": 2, "c50": 51, "c99": 100}


# --- bindings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "binding, want",
    [
        (a_binding("a"), BindingFate("web-a-b", "Scheduled", "none")),
        (a_binding("a").bound().obsolete(), BindingFate("web-a-b", "Bound", "refresh")),
        (a_binding("a").unscheduled(), BindingFate("web-a-b", "Unscheduled", "revive")),
        (a_binding("a").of_placement("other"), None),
    ],
    ids=["active", "obsolete", "unscheduled", "of another placement"],
)
def test_what_happens_to_a_binding(binding: BindingBuilder, want: BindingFate | None) -> None:
    found = ask(clusters("a"), a_policy().pick_n(1), binding).explained("a").bindings

    assert [one for one in found if one.action != "create"] == ([] if want is None else [want])


def test_a_terminating_binding_loses_its_finalizer_beside_the_new_one() -> None:
    found = ask(clusters("a"), a_policy(), a_binding("a").deleting()).explained("a").bindings

    assert [(one.state, one.action) for one in found] == [("Deleting", "dropFinalizer"), ("", "create")]


def test_a_dangling_binding_is_unscheduled() -> None:
    found = ask(clusters("a"), a_policy(), a_binding("gone").bound()).explained("gone")

    assert found.bindings == (BindingFate("web-gone-b", "Bound", "unschedule"),)
