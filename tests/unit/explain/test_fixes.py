"""What would help: suggestions that were tried, made small, and put in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fleet.explain.fixes.evaluator import EvaluationBudget
from fleet.explain.fixes.fixes import Fixes, find_fixes, find_fixes_for_cluster
from fleet.explain.fixes.newcomers import propose_newcomers
from fleet.explain.whatif.edits import parse_edits
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.context import HookContext
from fleet.framework.explaining import RejectedClusters
from fleet.framework.profiles.profile import CompiledProfile, PluginRef
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.views import ClusterSelectorTerm, LabelSelector
from fleet.snapshot.frame import Frame
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.builders import (
    BindingBuilder,
    ClusterBuilder,
    PolicyBuilder,
    a_binding,
    a_cluster,
    a_policy,
    clusters,
    label,
    measure,
    sorted_by,
)
from tests.unit.explain.scenarios import a_scenario, effect, one_unit_less, targets


def found(scenario: Scenario, **options: Any) -> Fixes:
    return find_fixes(scenario, scenario.decide(), **options)


def listed(fixed: Fixes) -> list[tuple[str, str, str]]:
    return [(one.scope, one.text, one.effect.after) for one in fixed.fixes]


def texts(fixed: Fixes) -> list[str]:
    return [one.text for one in fixed.fixes]


def short_of_one(*fleet: ClusterBuilder, policy: PolicyBuilder | None = None) -> Scenario:
    """Two are wanted, `ok` fits."""
    return a_scenario([a_cluster("ok"), *fleet], (policy or a_policy()).pick_n(2))


# --- what is proposed -------------------------------------------------------------------------------------------------


def test_taints_are_tolerated_or_removed() -> None:
    assert listed(found(short_of_one(a_cluster("b").tainted("dedicated", "batch")))) == [
        ("placement", "tolerate dedicated=batch:NoSchedule", "SELECTED"),
        ("cluster", "b: remove taint dedicated=batch:NoSchedule", "SELECTED"),
        ("placement", "count 2 → 1", "SELECTED"),
    ]


def test_every_taint_of_a_cluster_has_to_be_tolerated() -> None:
    fixed = found(short_of_one(a_cluster("b").tainted("gpu").tainted("batch")))

    assert "tolerate gpu:NoSchedule; tolerate batch:NoSchedule" in texts(fixed)


def test_the_expression_that_is_in_the_way_goes_or_the_cluster_gets_the_label() -> None:
    policy = a_policy().require(label("tier", "In", "gold", "basic"))
    scenario = a_scenario([a_cluster("ok").labelled(tier="gold"), a_cluster("b")], policy.pick_n(2))

    assert texts(found(scenario)) == [
        "affinity term [0] without tier In [gold, basic]",
        "b: label tier=basic",
        "count 2 → 1",
    ]


def test_a_label_that_is_in_the_way_goes() -> None:
    scenario = short_of_one(a_cluster("b").labelled(lab="yes"), policy=a_policy().require(label("lab", "DoesNotExist")))

    assert "b: remove label lab" in texts(found(scenario))


def test_a_silent_agent_is_to_be_heard_again() -> None:
    assert texts(found(short_of_one(a_cluster("b").heard(3600)))) == ["b: bring its agent back", "count 2 → 1"]


def test_a_skew_is_widened_no_further_than_needed() -> None:
    fleet = [a_cluster(f"x{number}").labelled(zone="x") for number in range(6)]
    fleet += [a_cluster("y").labelled(zone="y").leaving()]

    shown = found(a_scenario(fleet, a_policy().pick_n(4).spread("zone"))).fixes

    assert [(one.text, one.effect.selected) for one in shown] == [
        ("spread over zone ScheduleAnyway", 4),
        ("max skew of zone 1 → 4", 4),
        ("count 4 → 1", 1),
    ]


def test_a_skew_far_away_is_found_at_once_and_none_is_tried_where_the_constraint_is_not_to_blame() -> None:
    """By the domains of the clusters in use with the constraint only preferred; halving takes six more."""
    fleet = [a_cluster(f"x{number}").labelled(zone="x", region="r") for number in range(60)]
    fleet += [a_cluster("y").labelled(zone="y", region="r").leaving()]
    policy = a_policy().pick_n(50).spread("zone").spread("region")

    shown = found(a_scenario(fleet, policy))

    assert [one.text for one in shown.fixes] == [
        "spread over zone ScheduleAnyway",
        "max skew of zone 1 → 50",
        "count 50 → 1",
    ]
    assert shown.evaluations == 7


def test_min_targets_is_lowered_no_further_than_to_what_fits() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(4).at_least(4))

    shown = [fix for fix in found(scenario).fixes if fix.text.startswith("minTargets")]

    assert [(fix.text, fix.effect.after, fix.effect.selected, fix.settles) for fix in shown] == [
        ("minTargets 4 → 2", "PARTIAL", 2, True)
    ]


def test_names_that_no_cluster_has_are_dropped() -> None:
    scenario = a_scenario([a_cluster("a"), a_cluster("b").heard(3600)], a_policy().pick_fixed("a", "b", "typo"))

    assert texts(found(scenario)) == ["b: bring its agent back", "cluster names without b, typo"]


def test_an_invalid_cluster_is_repaired() -> None:
    scenario = a_scenario([a_cluster("a"), a_cluster("b").heard(3600)], a_policy().pick_fixed("a", "b"))

    assert "b: bring its agent back" in texts(found(scenario))


def test_a_pick_all_that_is_nowhere_is_helped_as_well() -> None:
    fixed = found(a_scenario([a_cluster("b").tainted("gpu")], a_policy()))

    assert [(one.text, one.effect.selected) for one in fixed.fixes] == [
        ("tolerate gpu:NoSchedule", 1),
        ("b: remove taint gpu:NoSchedule", 1),
    ]


def test_where_nothing_reaches_the_number_whatever_lets_more_qualify_is_shown() -> None:
    fleet = [a_cluster("a").tainted("gpu"), a_cluster("b").tainted("batch")]
    scenario = a_scenario(
        [*fleet, a_cluster("c"), a_cluster("d")], a_policy().pick_n(9).require(label("x", "DoesNotExist"))
    )

    shown = found(scenario).fixes

    assert [(one.text, one.effect.after, one.settles) for one in shown][-1] == ("count 9 → 2", "SELECTED", True)
    assert {(one.effect.after, one.effect.selected > 2) for one in shown[:-1]} == {("PARTIAL", True)}


@pytest.mark.parametrize(
    "scenario",
    [
        a_scenario(clusters("a"), a_policy().pick_n(1)),
        a_scenario(clusters("a"), a_policy()),
        a_scenario(clusters("a"), a_policy().require(label("tier", "Like", "gold")).pick_n(2)),
    ],
    ids=["picked", "everywhere", "no policy"],
)
def test_what_is_served_or_cannot_be_evaluated_needs_no_fix(scenario: Scenario) -> None:
    assert found(scenario) == Fixes()


def test_nobody_who_did_not_ask_waits_for_fixes() -> None:
    assert found(short_of_one(a_cluster("b").tainted("gpu")), mode="none") == Fixes()


# --- what a fix promises ----------------------------------------------------------------------------------------------


def test_W_06_a_fix_does_what_it_says_and_less_does_not() -> None:
    fleet = [a_cluster(f"x{number}").labelled(zone="x") for number in range(6)]
    fleet += [a_cluster("y").labelled(zone="y").tainted("gpu").tainted("batch")]
    scenario = a_scenario(fleet, a_policy().pick_n(3).spread("zone"))

    shown = found(scenario).fixes

    assert shown
    for one in shown:
        assert effect(scenario, one.edits, before=one.effect.before) == one.effect
        assert all(
            effect(scenario, less, before=one.effect.before).after != one.effect.after for less in one_unit_less(one)
        )


def test_what_does_not_help_is_not_shown() -> None:
    fleet = [a_cluster("b").tainted("gpu").heard(3600), a_cluster("ok")]

    assert texts(found(a_scenario(fleet, a_policy().pick_n(2)))) == ["one more eligible cluster", "count 2 → 1"]


def test_the_best_outcome_comes_first_then_what_the_owner_can_do_alone() -> None:
    scenario = a_scenario(
        [a_cluster("a").tainted("x"), a_cluster("b").tainted("x"), a_cluster("c").tainted("y")], a_policy().pick_n(2)
    )

    assert listed(found(scenario)) == [
        ("placement", "tolerate x:NoSchedule", "SELECTED"),
        ("cluster", "a: remove taint x:NoSchedule; b: remove taint x:NoSchedule", "SELECTED"),
        ("placement", "tolerate y:NoSchedule", "PARTIAL"),
        ("cluster", "a: remove taint x:NoSchedule", "PARTIAL"),
        ("cluster", "b: remove taint x:NoSchedule", "PARTIAL"),
        ("cluster", "c: remove taint y:NoSchedule", "PARTIAL"),
    ]


def test_at_most_eight_are_shown() -> None:
    fleet = [a_cluster(f"c{number}").tainted(f"t{number}") for number in range(9)]
    fleet += [a_cluster(f"d{number}").heard(3600) for number in range(9)]

    assert len(found(a_scenario([a_cluster("ok"), *fleet], a_policy().pick_n(2))).fixes) == 8


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_a_search_that_is_cut_short_says_so() -> None:
    scenario = short_of_one(*(a_cluster(f"c{number}").tainted(f"t{number}") for number in range(9)))

    cut = found(scenario, budget=EvaluationBudget(2, work=1000))

    assert (cut.truncated, cut.evaluations, len(cut.fixes)) == (True, 2, 2)


def test_W_03_a_search_ends_when_the_clusters_it_may_look_at_are_used_up() -> None:
    scenario = short_of_one(*(a_cluster(f"c{number}").tainted(f"t{number}") for number in range(9)))

    cut = found(scenario, budget=EvaluationBudget(20, work=21))  # ten clusters, decided in one round each

    assert (cut.truncated, cut.evaluations) == (True, 3)


def test_W_03_every_round_of_picks_looks_at_the_clusters_again() -> None:
    fleet = [a_cluster(f"c{number}").labelled(zone=f"z{number % 2}") for number in range(10)]
    scenario = a_scenario([*fleet, a_cluster("b").tainted("gpu")], a_policy().pick_n(12).spread("zone", 9))

    cut = found(scenario, budget=EvaluationBudget(20, work=100))

    assert (cut.truncated, cut.evaluations) == (True, 1)


def test_W_03_every_evaluation_reads_the_whole_policy_and_all_changes_again() -> None:
    policy = a_policy()
    for number in range(99):
        policy = policy.tolerate(f"unheard-of-{number}")
    scenario = short_of_one(*(a_cluster(f"c{number}").tainted(f"t{number}") for number in range(9)), policy=policy)

    cut = found(scenario, budget=EvaluationBudget(20, work=100_000, parts=200))  # 99 tolerations and one change each

    assert (cut.truncated, cut.evaluations) == (True, 2)


def test_a_search_that_looked_at_everything_is_not_truncated() -> None:
    assert not found(short_of_one(a_cluster("b").tainted("gpu"))).truncated


def test_a_deep_search_tries_a_change_for_each_of_two_plugins() -> None:
    fleet = [a_cluster("a").tainted("gpu").heard(3600)]
    scenario = a_scenario(fleet, a_policy().pick_n(1))

    assert texts(found(scenario)) == ["one more eligible cluster"]
    assert texts(found(scenario, mode="deep")) == [
        "a: bring its agent back; a: remove taint gpu:NoSchedule",
        "a: bring its agent back; tolerate gpu:NoSchedule",
    ]


# --- another cluster --------------------------------------------------------------------------------------------------

PROD = (a_cluster("us-1").labelled(region="us", env="prod"), a_cluster("us-2").labelled(region="us", env="prod"))


def test_where_only_another_cluster_would_do_it_is_described_by_the_least_it_must_have() -> None:
    policy = a_policy().require(label("env", "In", "prod"), measure("example.com/rating", "Gt", "4"))

    assert texts(found(a_scenario(PROD, policy.pick_n(3)))) == [
        "one more eligible cluster with env=prod",
        "one more eligible cluster with example.com/rating 5",
        "count 3 → 2",
    ]


def test_another_cluster_is_not_tried_where_something_else_does_all() -> None:
    blocked = a_scenario([*PROD, a_cluster("us-3").tainted("x")], a_policy().pick_n(3))

    fixes = found(blocked)

    assert texts(fixes) == ["tolerate x:NoSchedule", "us-3: remove taint x:NoSchedule", "count 3 → 2"]
    assert fixes.evaluations == 3


def test_as_many_more_as_are_missing() -> None:
    (more, settled) = found(a_scenario(PROD, a_policy().pick_n(4))).fixes

    assert (more.text, more.effect.selected) == ("2 more eligible clusters", 4)
    assert (more.adds_clusters, more.settles, settled.settles) == (True, False, True)


def test_one_more_than_nothing_is_offered_where_too_many_are_missing() -> None:
    (more, _) = found(a_scenario(PROD, a_policy().pick_n(40))).fixes

    assert (more.text, more.effect.after, more.effect.selected) == ("one more eligible cluster", "PARTIAL", 3)


def test_a_spread_names_the_domain_where_it_has_to_be() -> None:
    fleet = [*PROD, a_cluster("eu-1").labelled(region="eu", env="prod").leaving()]
    strict = compile_default(default_profile(args={"TopologySpreadConstraints": {"missingKey": "Exclude"}}))
    scenario = a_scenario(fleet, a_policy().pick_n(2).spread("region").require(label("env", "Exists")), profile=strict)

    added = [fix.edits for fix in find_fixes(scenario, scenario.decide()).fixes if fix.adds_clusters]
    ways = list(propose_newcomers(scenario.decide(), strict, need=1))

    assert added == []  # a wider skew does as well
    assert [candidate.text for candidate in ways] == ["one more eligible cluster with env=true, region=eu"]
    assert sorted(targets(scenario, *ways[0].edits)) == ["another-1", "us-2"]


def test_terms_that_contradict_themselves_are_met_by_no_cluster() -> None:
    term = label("env", "In", "prod")
    both = LabelSelector(match_labels={"env": "lab"}, match_expressions=term.label_selector.match_expressions)  # type: ignore[union-attr]
    scenario = a_scenario(PROD, a_policy().pick_n(3).require(ClusterSelectorTerm(both)))

    assert not any(fix.adds_clusters for fix in found(scenario).fixes)


def test_labels_that_would_help_are_marked_as_facts_about_a_cluster() -> None:
    scenario = a_scenario([*PROD, a_cluster("eu-1")], a_policy().pick_n(3).require(label("env", "In", "prod")))

    assert [(fix.text, fix.changes_facts) for fix in found(scenario).fixes] == [
        ("affinity term [0] without env In [prod]", False),
        ("eu-1: label env=prod", True),
        ("count 3 → 2", False),
    ]


def test_partial_improvements_are_shown_before_what_asks_for_less() -> None:
    fleet = [*PROD, a_cluster("us-3").labelled(region="us"), a_cluster("eu-1").labelled(region="eu").tainted("gpu")]
    scenario = a_scenario(fleet, a_policy().pick_n(4).spread("region").require(label("region", "In", "us")))

    shown = [(fix.text, fix.effect.after, fix.effect.selected) for fix in found(scenario).fixes]

    assert ("spread over region ScheduleAnyway", "PARTIAL", 3) in shown
    assert ("max skew of region 1 → 3", "PARTIAL", 3) in shown
    assert shown[-1] == ("count 4 → 1", "SELECTED", 1)


# --- one cluster ------------------------------------------------------------------------------------------------------


def for_cluster(scenario: Scenario, name: str) -> list[tuple[str, str]]:
    fixed = find_fixes_for_cluster(scenario, scenario.decide(), name)
    return [(one.text, one.effect.after) for one in fixed.fixes]


def test_a_cluster_that_was_not_picked_gets_in_when_more_are_wanted() -> None:
    assert for_cluster(a_scenario(clusters("a", "b", "c"), a_policy().pick_n(1)), "a") == [("count 1 → 3", "selected")]


def test_the_count_is_raised_by_a_hundred_at_most() -> None:
    fleet = clusters(*(f"c{number:03d}" for number in range(120)))
    scenario = a_scenario(fleet, a_policy().pick_n(10))

    assert for_cluster(scenario, "c010") == [("count 10 → 110", "selected")]
    assert for_cluster(scenario, "c009") == []


def test_a_cluster_that_begins_to_qualify_gets_in_when_one_more_is_wanted() -> None:
    scenario = a_scenario([a_cluster("a"), a_cluster("b").tainted("gpu")], a_policy().pick_n(1), a_binding("a"))

    assert for_cluster(scenario, "b") == [
        ("tolerate gpu:NoSchedule; count 1 → 2", "selected"),
        ("b: remove taint gpu:NoSchedule; count 1 → 2", "selected"),
        ("tolerate gpu:NoSchedule", "fit-not-selected"),
    ]


def test_a_cluster_that_was_not_picked_gets_in_by_weight() -> None:
    fleet = [a_cluster("a").labelled(tier="gold"), a_cluster("b").labelled(ssd="yes"), a_cluster("c")]
    policy = a_policy().pick_n(1).prefer(10, label("ssd", "Exists")).prefer(5, label("tier", "Exists"))

    assert for_cluster(a_scenario(fleet, policy), "a") == [
        ("weight of preference 1 10 → 4", "selected"),
        ("count 1 → 2", "selected"),
        ("weight of preference 2 5 → 11", "selected"),
    ]


def test_a_sorter_can_be_turned_around() -> None:
    fleet = [a_cluster(name).measured({"cost": cost}) for name, cost in (("a", "1"), ("b", "5"))]
    policy = a_policy().pick_n(1).prefer(10, sorted_by("cost", "Descending"))

    assert ("weight of preference 1 10 → -1", "selected") in for_cluster(a_scenario(fleet, policy), "a")


def test_a_refused_cluster_needs_a_change_for_every_plugin() -> None:
    scenario = a_scenario([a_cluster("a").tainted("gpu").heard(3600)], a_policy())

    assert for_cluster(scenario, "a") == [
        ("a: bring its agent back; a: remove taint gpu:NoSchedule", "selected"),
        ("a: bring its agent back; tolerate gpu:NoSchedule", "selected"),
    ]


def test_W_06_a_cluster_that_a_spread_keeps_out_as_well_gets_in_by_a_wider_one() -> None:
    fleet = [a_cluster(name).labelled(zone=zone) for name, zone in (("a", "x"), ("b", "y"), ("c", "x"))]
    fleet[2] = fleet[2].tainted("gpu")
    scenario = a_scenario(fleet, a_policy().pick_n(3).spread("zone"), a_binding("a"))
    decision = scenario.apply(parse_edits([{"op": "setReady", "cluster": "b", "value": False}]))

    found = find_fixes_for_cluster(decision, decision.decide(), "c")

    assert texts(found)[0] == "tolerate gpu:NoSchedule; max skew of zone 1 → 2"
    for fix in found.fixes:
        for less in one_unit_less(fix):
            assert "c" not in effect(decision, less, before=fix.effect.before).targets


def test_a_cluster_that_only_ranked_too_low_is_not_offered_to_rank_too_low() -> None:
    """Now that all that were wanted are bound nobody ranks the others, which does not mean that they are rejected."""
    policy = a_policy().pick_n(1).prefer(60, label("tier", "In", "silver")).prefer(20, label("tier", "In", "gold"))
    fleet = [a_cluster("a").labelled(tier="silver"), a_cluster("b").labelled(tier="gold")]
    then, now = a_scenario(fleet, policy), a_scenario(fleet, policy, a_binding("a"))

    found = find_fixes_for_cluster(now, now.decide(), "b", earlier=(then, then.decide()))

    assert texts(found)
    assert {(fix.effect.before, fix.effect.after) for fix in found.fixes} == {("fit-not-selected", "selected")}


def test_a_cluster_that_was_picked_then_and_is_not_in_use_now_is_offered_to_be_picked_again() -> None:
    """Somebody gave its binding to another one: what was decided then is no reason to call it chosen."""
    fleet, policy = clusters("a", "b"), a_policy().pick_n(1)
    then = a_scenario(fleet, policy)
    (picked,), (other,) = targets(then), set("ab") - set(targets(then))
    now = a_scenario(fleet, policy, a_binding(other))

    found = find_fixes_for_cluster(now, now.decide(), picked, earlier=(then, then.decide()))

    assert [(fix.text, fix.effect.before, fix.effect.after) for fix in found.fixes] == [
        ("count 1 → 2", "fit-not-selected", "selected")
    ]


def test_what_stands_in_the_way_of_a_cluster_is_what_refuses_it_now() -> None:
    """Taints come and go after the decision that tells why another cluster was chosen."""
    policy, free = a_policy().pick_n(1).prefer(10, label("tier", "In", "gold")), a_cluster("b")
    chosen, tainted = a_cluster("a").labelled(tier="gold"), a_cluster("b").tainted("gpu")

    def offered(then: ClusterBuilder, now: ClusterBuilder) -> set[tuple[str, str]]:
        told, scenario = a_scenario([chosen, then], policy), a_scenario([chosen, now], policy, a_binding("a"))
        found = find_fixes_for_cluster(scenario, scenario.decide(), "b", earlier=(told, told.decide()))
        return {(fix.effect.before, fix.effect.after) for fix in found.fixes}

    assert offered(free, tainted) == {("rejected", "fit-not-selected"), ("rejected", "selected")}
    assert offered(tainted, free) == {("fit-not-selected", "selected")}


def test_a_cluster_that_a_fixed_policy_does_not_name_is_named() -> None:
    assert for_cluster(a_scenario(clusters("a", "b"), a_policy().pick_fixed("a")), "b") == [
        ("cluster names with b", "selected")
    ]


def test_a_cluster_that_nobody_looked_at_gets_in_when_more_are_wanted() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1), a_binding("b"))

    assert for_cluster(scenario, "a") == [("count 1 → 2", "selected")]


@pytest.mark.parametrize("name", ["b", "nobody"])
def test_there_is_nothing_to_fix_for_a_cluster_in_use_or_out_of_reach(name: str) -> None:
    assert for_cluster(a_scenario(clusters("a", "b"), a_policy().pick_n(1)), name) == []


# --- plugins from elsewhere -------------------------------------------------------------------------------------------


class Curfew(PluginTraits):
    """Refuses every cluster without the label `open`."""

    ROW_LOCAL = True
    REASONS = ReasonTable(Reason("Closed", Code.UNSCHEDULABLE, "closed"))

    def __init__(self, suggested: object) -> None:
        self.suggested = suggested

    def name(self) -> str:
        return "Curfew"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        return Verdict(ok=frame.labels("open").exists())

    def suggest(self, rejected: RejectedClusters) -> object:
        if isinstance(self.suggested, Exception):
            raise self.suggested
        return self.suggested


def with_curfew(suggested: object) -> CompiledProfile:
    registry = in_tree_registry()
    registry.register("Curfew", lambda raw, handle: Curfew(suggested))
    hooks: Mapping[str, tuple[PluginRef, ...]] = {
        **DEFAULT_PLUGINS,
        "filter": (PluginRef("Curfew"), *DEFAULT_PLUGINS["filter"]),
    }
    return compile_default(default_profile(plugins=hooks), registry=registry)


def test_W_13_a_plugin_from_elsewhere_suggests_edits_of_its_own() -> None:
    suggested = [{"op": "labelCluster", "cluster": "a", "key": "open", "value": "yes"}]
    scenario = a_scenario(clusters("a"), a_policy().pick_n(1), profile=with_curfew(suggested))

    assert texts(found(scenario)) == ["a: label open=yes"]


def test_a_suggestion_that_cannot_be_read_costs_no_other_one() -> None:
    suggested = [{"op": "sing"}, {"op": "labelCluster", "cluster": "a", "key": "open", "value": "yes"}]
    scenario = a_scenario(clusters("a"), a_policy().pick_n(1), profile=with_curfew(suggested))

    assert texts(found(scenario)) == ["a: label open=yes"]


@pytest.mark.parametrize(
    "suggested", [RuntimeError("broken"), [{"op": "sing"}], None, [{"op": "removeCluster", "cluster": "nobody"}]]
)
def test_a_plugin_whose_suggestions_are_useless_does_no_harm(suggested: object) -> None:
    scenario = a_scenario(
        [a_cluster("a"), a_cluster("b").labelled(open="yes")], a_policy().pick_n(2), profile=with_curfew(suggested)
    )

    assert texts(found(scenario)) == ["count 2 → 1"]


def test_a_fix_as_a_document_has_edits_that_anybody_can_send() -> None:
    *_, last = found(short_of_one(a_cluster("b").tainted("gpu"))).fixes

    document = msgspec.to_builtins(last)

    assert parse_edits(document["edits"]) == last.edits
    assert (document["verified"], document["turned"]) == (True, {"field": "count", "start": 2, "value": 1})


def test_bindings_of_an_earlier_policy_do_not_stand_in_the_way() -> None:
    old: BindingBuilder = a_binding("ok").obsolete()
    scenario = a_scenario([a_cluster("ok"), a_cluster("b").tainted("gpu")], a_policy().pick_n(2), old)

    assert "tolerate gpu:NoSchedule" in texts(found(scenario))
