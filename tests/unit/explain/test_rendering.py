"""Answers as text: whole screens, so that a change of their looks is a change of a test."""

from __future__ import annotations

from typing import Any

import msgspec

from fleet.explain.answer.answer import AnswerContext, build_answer
from fleet.explain.answer.comparisons import render_comparison, render_impact
from fleet.explain.answer.rendering import render, render_cluster, render_simulated
from fleet.explain.answer.simulate import simulate
from fleet.explain.fixes.fixes import find_fixes, find_fixes_for_cluster
from fleet.explain.whatif.compare import compare
from fleet.explain.whatif.diff import ClusterTally, DiffSummary, Moved, OutcomeTally
from fleet.explain.whatif.edits import SetCount, Tolerate
from fleet.explain.whatif.impact import Impact
from fleet.explain.whatif.scenario import Scenario
from fleet.text_table import Page
from plugins.default_profile import compile_default, default_profile
from tests.builders import a_binding, a_cluster, a_policy, clusters, label
from tests.unit.explain.scenarios import a_scenario


def rendered(scenario: Scenario, **options: Any) -> str:
    decision = scenario.decide()
    known = AnswerContext(since="2026-03-02T09:14:03.200Z", number=4)
    found = build_answer(scenario.question, decision, fixes=find_fixes(scenario, decision), context=known, **options)
    return render(found)


def short() -> Scenario:
    fleet = [
        a_cluster("ams-1").labelled(tier="gold"),
        a_cluster("ams-2"),
        a_cluster("mad-1").tainted("dedicated", "batch"),
        a_cluster("mad-2").tainted("dedicated", "batch"),
        a_cluster("osl-1").heard(412),
    ]
    return a_scenario(fleet, a_policy().pick_n(3).prefer(10, label("tier", "Exists")), a_binding("ams-2"))


def test_an_unserved_placement() -> None:
    assert rendered(short()) == (
        "web   Partial since 2026-03-02 09:14:03 UTC   attempt 4   profile DefaultScheduler\n"
        "1/5 clusters selected, need 3: 1 already selected; 2 untolerated taint {dedicated: batch}, 1 agent\n"
        "silent\n"
        "\n"
        "SELECTED  RANK  TOPOLOGY  AFFINITY  BOUND\n"
        "ams-1        1         0        10      0\n"
        "\n"
        "IN USE\n"
        "ams-2\n"
        "\n"
        "REJECTED BY         COUNT  CLOSEST  LACKS                                    OTHERS\n"
        "TaintToleration         2  mad-1    dedicated=batch:NoSchedule               mad-2\n"
        "ClusterEligibility      1  osl-1    agent silent since 2026-03-10T08:53:08Z\n"
        "\n"
        "FIXES (verified)\n"
        "  placement  tolerate dedicated=batch:NoSchedule             SELECTED on ams-1 ams-2 mad-2\n"
        "  cluster    mad-1: remove taint dedicated=batch:NoSchedule  SELECTED on ams-1 mad-1 ams-2\n"
        "  cluster    mad-2: remove taint dedicated=batch:NoSchedule  SELECTED on ams-1 mad-2 ams-2\n"
        "  cluster    osl-1: bring its agent back                     SELECTED on ams-1 osl-1 ams-2\n"
        "  or settle for\n"
        "  placement  count 3 → 2                                     SELECTED on ams-1 ams-2\n"
    )


def test_the_queue_has_the_last_word() -> None:
    scenario = short()
    found = build_answer(scenario.question, scenario.decide())

    assert render(found, next_step="wakes on taints").endswith("\n\nNEXT       wakes on taints\n")


def test_what_comes_next_has_the_width_of_the_terminal_and_breaks_no_name() -> None:
    scenario = short()
    found = build_answer(scenario.question, scenario.decide())
    step = "property kubernetes-fleet.io/node-count of a cluster changes; label topology.kubernetes.io/zone changes"

    def lines(width: int | None) -> list[str]:
        return render(found, next_step=step, page=Page(width=width)).partition("NEXT")[2].splitlines()

    assert [len(lines(width)) for width in (None, 60, 200)] == [2, 3, 1]
    for width in (None, 60, 30):
        assert "kubernetes-fleet.io/node-count" in " ".join(lines(width)).split()


def test_W_08_sections_without_rows_are_left_out() -> None:
    text = rendered(a_scenario([], a_policy().pick_n(1)))

    assert text == (
        "web   Unschedulable since 2026-03-02 09:14:03 UTC   attempt 4   profile DefaultScheduler\n"
        "0/0 clusters selected, need 1\n"
        "\n"
        "FIXES (verified)\n"
        "  cluster  one more eligible cluster  SELECTED on another-1\n"
    )


def test_weighted_scores_have_a_column_for_each_plugin() -> None:
    profile = compile_default(default_profile(ranking="weighted"))
    scenario = a_scenario([a_cluster("a").labelled(x="1"), a_cluster("b")], a_policy().pick_n(1), profile=profile)

    assert "RANK  TOTAL  SamePlacementAntiAffinity" in rendered(scenario)


def test_one_cluster_with_everything_that_is_wrong_with_it() -> None:
    scenario = a_scenario([a_cluster("a").tainted("gpu").heard(3600)], a_policy().require(label("tier", "In", "gold")))
    decision = scenario.decide()
    found = build_answer(
        scenario.question, decision, cluster="a", everything=True, fixes=find_fixes_for_cluster(scenario, decision, "a")
    )

    text = render_cluster(found)

    assert "a is rejected by ClusterAffinity, ClusterEligibility and TaintToleration\n" in text
    assert "ClusterAffinity            reject   cluster does not match" in text
    assert "term 1: tier In [gold] (not set)" in text
    assert "skipped, the policy gives them nothing to check: NamespaceAffinity, " in text


def test_one_cluster_that_fits_tells_how_far_it_is_behind() -> None:
    scenario = a_scenario(
        [a_cluster("a"), a_cluster("b").labelled(x="1")], a_policy().pick_n(1).prefer(3, label("x", "Exists"))
    )
    found = build_answer(scenario.question, scenario.decide(), cluster="a")

    assert "rank 2   topology 0, affinity 0, bound 0\n3 points of affinity short of the last pick b" in render_cluster(
        found
    )


def test_a_fix_that_only_lets_a_cluster_qualify_says_who_is_chosen_all_the_same() -> None:
    fleet = [a_cluster("a").labelled(x="1"), a_cluster("b").tainted("gpu")]
    scenario = a_scenario(fleet, a_policy().pick_n(1).prefer(3, label("x", "Exists")))
    decision = scenario.decide()
    found = build_answer(
        scenario.question, decision, cluster="b", everything=True, fixes=find_fixes_for_cluster(scenario, decision, "b")
    )

    fixes, _, not_enough = render_cluster(found).partition(
        "\n\nNOT ENOUGH (verified: it would fit, and others would be"
    )
    assert "fits, but" not in fixes
    assert "  cluster    b: remove taint gpu:NoSchedule  fits, but the choice is a\n" in not_enough


def test_a_cluster_that_nothing_brings_in_says_so_and_one_in_use_needs_nothing() -> None:
    scenario = a_scenario([a_cluster("a"), a_cluster("b").leaving()], a_policy().pick_n(1))
    decision = scenario.decide()

    def text(cluster: str) -> str:
        tried = find_fixes_for_cluster(scenario, decision, cluster)
        return render_cluster(build_answer(scenario.question, decision, cluster=cluster, everything=True, fixes=tried))

    assert text("b").endswith("\n\nno fix was found\n")
    assert "a is chosen\n" in text("a")
    assert "FIXES" not in text("a")


def test_where_nobody_is_ranked_there_are_names_only() -> None:
    text = rendered(a_scenario(clusters("a", "b"), a_policy()))

    assert "SELECTED\na\nb\n" in text


def test_one_cluster_tells_what_comes_next() -> None:
    scenario = short()

    text = render_cluster(
        build_answer(scenario.question, scenario.decide(), cluster="mad-1"), next_step="wakes on taints"
    )

    assert text.endswith("\n\nNEXT       wakes on taints\n")


def test_rows_beyond_the_page_are_counted() -> None:
    scenario = a_scenario(clusters(*(f"c{number}" for number in range(9))), a_policy())

    assert "… and 7 more" in render(build_answer(scenario.question, scenario.decide(), limit=2))


def test_hidden_clusters_are_told_as_a_number() -> None:
    text = rendered(short(), redact=lambda name: name.startswith("mad"))

    assert "mad" not in text
    assert "clusters you may not read, counted and not named: 2" in text
    assert "2 hidden" in text


def test_blocking_domains_missing_names_and_warnings_are_told() -> None:
    fleet = [a_cluster(name).labelled(zone="x") for name in ("a", "b")] + [a_cluster("c").labelled(zone="y").leaving()]
    spread = rendered(a_scenario([*fleet, a_cluster("d")], a_policy().pick_n(9).spread("zone")))
    fixed = rendered(a_scenario(clusters("a"), a_policy().pick_fixed("a", "typo")))

    assert "BLOCKED BY\n  zone=y has 0 and no cluster left; max skew 1: c left the fleet" in spread
    assert "no label zone, so spreading ignores them: d" in spread
    assert "POLICY\n  no cluster is named typo\n" in fixed


def test_a_comparison() -> None:
    scenario = short()

    text = render_comparison(
        compare(scenario.decide(), scenario.apply([Tolerate("dedicated", value="batch")]).decide())
    )

    assert text == (
        "COMPARED   PARTIAL on 2 → SELECTED on 3\n"
        "gained     mad-2\n"
        "TaintToleration → fits   2\n"
        "  mad-1: dedicated=batch:NoSchedule → fits\n"
        "  mad-2: dedicated=batch:NoSchedule → fits\n"
        "generation: 1 → 2\n"
        "snapshot: web-0 → web-1\n"
        "tolerations: none → dedicated=batch\n"
    )


def test_a_simulation_is_an_answer_and_a_comparison() -> None:
    text = render_simulated(simulate(short(), [SetCount(2)]))

    assert text.startswith("SIMULATED  nothing was changed\n\nweb   Scheduled")
    assert "COMPARED   PARTIAL on 2 → SELECTED on 2" in text


def test_an_impact_stands_below_the_answer_with_what_moves_and_the_sums() -> None:
    moves = [Moved("shop/cart", "filter", ("a", "b"), (), "SELECTED", "UNSCHEDULABLE"), *[MOVED] * 20]
    tally = DiffSummary((ClusterTally("a", 0, 21),), (OutcomeTally("SELECTED", 30, 29),))
    found = Impact(30, 9, tuple(moves), tally, truncated=True)

    text = render_simulated(simulate(short(), [SetCount(2)]), found)

    assert text.partition("\nIMPACT     ")[2] == (
        "30 placements decided: 9 the same, 21 would move; time was up before all were decided\n"
        "\n"
        "WOULD MOVE  BEFORE  AFTER  CAUSE\n"
        "shop/cart   a b     none   filter\n" + "web         a       c      ranking\n" * 19 + "… and 1 more\n"
        "\n"
        "CLUSTER  GAINED  LOST\n"
        "a             0    21\n"
        "\n"
        "OUTCOME   BEFORE  AFTER\n"
        "SELECTED      30     29\n"
    )


def test_an_impact_on_nobody_takes_one_line() -> None:
    assert (
        render_impact(Impact(3, 3, (), DiffSummary())) == "IMPACT     3 placements decided: 3 the same, 0 would move\n"
    )


def test_W_10_an_impact_counts_what_may_not_be_read() -> None:
    moved = msgspec.structs.replace(MOVED, redacted=2)

    text = render_impact(Impact(9, 5, (moved,), DiffSummary(redacted=2), redacted=3))

    assert "9 placements decided: 5 the same, 4 would move, 3 of them you may not read\n" in text
    assert "ranking; 2 more clusters that you may not read\n" in text
    assert text.endswith("\nand 2 clusters you may not read\n")


MOVED = Moved("web", "ranking", ("a",), ("c",), "SELECTED", "SELECTED")


def test_equal_decisions_take_one_line() -> None:
    decision = short().decide()

    assert (
        render_comparison(compare(decision, decision)) == "COMPARED   PARTIAL on 2 → PARTIAL on 2, the same decision\n"
    )


def test_chosen_clusters_that_nobody_may_see_are_told_as_a_number() -> None:
    text = rendered(short(), redact=lambda name: name.startswith("ams"))

    assert "\n\nSELECTED\n… 1 not shown here\n\nIN USE\n… 1 not shown here\n\n" in text


def test_fixes_that_were_tried_on_a_newer_fleet_say_so() -> None:
    scenario = short()
    decision = scenario.decide()
    known = AnswerContext(evaluated_on="recorded", fixes_evaluated_on="current")

    text = render(build_answer(scenario.question, decision, fixes=find_fixes(scenario, decision), context=known))

    assert "\nFIXES (verified on the fleet as it is now)\n" in text
