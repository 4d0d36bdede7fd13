"""The answer to "why": complete, adding up, and silent about clusters that may not be named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from fleet.errors import InputError
from fleet.explain.answer.answer import AnswerContext, build_answer, state_of
from fleet.explain.answer.parts import Answer, ClusterRow, HookStatus, PluginScore
from fleet.explain.answer.rendering import render
from fleet.explain.facts.clusters import Margin
from fleet.explain.fixes.fixes import find_fixes
from fleet.explain.whatif.scenario import Scenario
from fleet.framework.context import HookContext
from fleet.framework.profiles.profile import PluginRef
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ClusterView, ScalarPlugin
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.views import ClusterSelectorTerm, LabelSelector, SelectorRequirement
from fleet.snapshot.frame import Frame
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.builders import PolicyBuilder, a_binding, a_cluster, a_policy, clusters, label
from tests.unit.explain.questions import Asked, ask
from tests.unit.explain.scenarios import a_scenario


def why(asked: Asked | Scenario, **options: Any) -> Answer:
    if isinstance(asked, Scenario):
        return build_answer(asked.question, asked.decide(), **options)
    return build_answer(asked.inp, asked.decision, **options)


def row(found: Answer, name: str) -> ClusterRow:
    return next(one for one in found.attempt.clusters if one.name == name)


def names(found: Answer) -> list[str]:
    return [one.name for one in found.attempt.clusters]


def mixed() -> Asked:
    """Wanted are 3: `kept` is there, `a` is chosen, `t` is tainted, `s` is silent."""
    fleet = [a_cluster("kept"), a_cluster("a"), a_cluster("t").tainted("gpu"), a_cluster("s").heard(3600)]
    return ask(fleet, a_policy().pick_n(3), a_binding("kept"))


# --- states -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, state",
    [
        (a_policy().pick_n(1), "Scheduled"),
        (a_policy().pick_n(2), "Partial"),
        (a_policy().pick_n(2).at_least(2), "Unschedulable"),
        (a_policy().require(label("x", "Exists")).pick_n(1), "Unschedulable"),
        (a_policy().require(label("x", "Like", "y")), "InputError"),
        (a_policy(), "Scheduled"),
        (a_policy().pick_fixed("ok", "typo"), "Partial"),
        (a_policy().pick_fixed("typo"), "Unschedulable"),
    ],
    ids=["enough", "too few", "fewer than the least", "none", "no policy", "everywhere", "not all named", "none named"],
)
def test_W_04_the_state_of_a_decision(policy: PolicyBuilder, state: str) -> None:
    asked = ask(clusters("ok"), policy)

    assert (state_of(asked.decision), why(asked).verdict.state) == (state, state)


def test_W_04_a_policy_that_cannot_be_evaluated_is_told_field_by_field() -> None:
    (problem,) = why(ask(clusters("a"), a_policy().require(label("x", "Like", "y")))).verdict.problems

    assert problem.field.endswith("matchExpressions[0].operator")
    assert problem.value == "Like"


def test_W_04_what_the_caller_knows_of_the_queue_goes_before_what_the_decision_says() -> None:
    known = AnswerContext(state="BackingOff", since="2026-03-02T09:14:03Z", number=4, attempt_id="a-4")

    found = why(mixed(), context=known)

    assert (found.verdict.state, found.verdict.since) == ("BackingOff", "2026-03-02T09:14:03Z")
    assert (found.attempt.n, found.attempt.id) == (4, "a-4")


def test_W_16_what_was_evaluated_on_todays_fleet_is_marked() -> None:
    assert why(mixed()).attempt.evaluated_on == "recorded"
    assert why(mixed(), context=AnswerContext(evaluated_on="current")).attempt.evaluated_on == "current"


# --- counts, groups, order --------------------------------------------------------------------------------------------


def test_W_05_every_cluster_is_counted_once() -> None:
    counts = why(mixed()).verdict.counts

    assert (counts.total, counts.selected, counts.already_selected, counts.rejected) == (4, 1, 1, 2)
    assert (counts.fit, counts.not_evaluated) == (0, 0)


def test_clusters_are_listed_targets_first_then_those_in_use_then_by_rank_then_closest_first() -> None:
    fleet = [
        a_cluster("far").tainted("gpu").heard(3600),
        a_cluster("near").tainted("gpu"),
        a_cluster("kept"),
        a_cluster("c").labelled(tier="gold"),
        a_cluster("b"),
        a_cluster("a"),
    ]
    policy = a_policy().pick_n(2).prefer(10, label("tier", "Exists"))

    found = why(ask(fleet, policy, a_binding("kept")))

    assert names(found) == ["c", "kept", "b", "a", "near", "far"]
    assert [(one.outcome, one.rank) for one in found.attempt.clusters] == [
        ("selected", 1),
        ("already-selected", None),
        ("fit-not-selected", 2),
        ("fit-not-selected", 3),
        ("rejected", None),
        ("rejected", None),
    ]


def test_of_clusters_refused_by_affinity_the_one_with_the_fewest_failed_expressions_comes_first() -> None:
    tier = SelectorRequirement("tier", "In", ("gold",))
    term = ClusterSelectorTerm(LabelSelector(match_labels={"env": "prod"}, match_expressions=(tier,)))
    fleet = [a_cluster("a"), a_cluster("b").labelled(env="prod")]

    assert names(why(ask(fleet, a_policy().require(term)))) == ["b", "a"]


def test_groups_have_their_code_and_the_cluster_that_came_closest() -> None:
    (silent, tainted) = why(mixed()).attempt.groups

    assert (silent.plugin, silent.reason, silent.code, silent.count) == (
        "ClusterEligibility",
        "AgentSilent",
        "UnschedulableAndUnresolvable",
        1,
    )
    assert tainted.closest is not None
    assert (tainted.closest.cluster, tainted.closest.lacks) == ("t", "gpu:NoSchedule")


def test_ten_names_of_a_group_are_shown() -> None:
    (group,) = why(ask([a_cluster(f"c{number:02}").leaving() for number in range(13)], a_policy())).attempt.groups

    assert (len(group.clusters), group.more, group.count) == (10, 3, 13)


@pytest.mark.parametrize("fleet", [[], clusters("a"), [a_cluster("a").leaving()]], ids=["none", "one", "one refused"])
def test_W_08_one_cluster_or_none_has_the_same_shape(fleet: Sequence[Any]) -> None:
    shapes = [msgspec.to_builtins(why(one)) for one in (mixed(), ask(fleet, a_policy().pick_n(3)))]

    assert shapes[0].keys() == shapes[1].keys()
    assert shapes[0]["attempt"].keys() == shapes[1]["attempt"].keys()
    assert shapes[0]["verdict"].keys() == shapes[1]["verdict"].keys()


# --- rows -------------------------------------------------------------------------------------------------------------


def test_one_cluster_can_be_asked_for() -> None:
    assert names(why(mixed(), cluster="t")) == ["t"]


def test_a_cluster_nobody_knows_cannot_be_asked_for() -> None:
    with pytest.raises(InputError, match="cluster: no cluster named 'zzz'"):
        why(mixed(), cluster="zzz")


def test_a_name_that_only_the_policy_knows_can_be_asked_for() -> None:
    asked = ask(clusters("a"), a_policy().pick_fixed("a", "typo"))

    assert why(asked, cluster="typo").attempt.clusters[0].standing == "missing"
    assert [one.name for one in why(asked).attempt.strangers] == ["typo"]


def test_a_rejection_has_plugin_code_reason_message_and_details() -> None:
    (rejection,) = row(why(mixed()), "t").rejections

    assert (rejection.plugin, rejection.verdict, rejection.code) == (
        "TaintToleration",
        "reject",
        "UnschedulableAndUnresolvable",
    )
    assert (rejection.reason, rejection.details) == (
        "UntoleratedTaint",
        {"key": "gpu", "value": "", "effect": "NoSchedule"},
    )


def test_with_everything_every_filter_says_pass_reject_or_skipped() -> None:
    fleet = [a_cluster("a").tainted("gpu").heard(3600)]

    (found,) = why(ask(fleet, a_policy()), everything=True).attempt.clusters

    assert {one.plugin: one.verdict for one in found.rejections} == {
        "ClusterAffinity": "skipped",
        "ClusterEligibility": "reject",
        "NamespaceAffinity": "skipped",
        "TaintToleration": "reject",
        "SamePlacementAntiAffinity": "pass",
        "TopologySpreadConstraints": "skipped",
    }
    assert found.first == "ClusterEligibility"


# --- ranks ------------------------------------------------------------------------------------------------------------


def ranked() -> Asked:
    fleet = [a_cluster("a").labelled(tier="gold"), a_cluster("b").labelled(ssd="yes"), a_cluster("c"), a_cluster("d")]
    policy = a_policy().pick_n(1).prefer(10, label("tier", "Exists")).prefer(7, label("ssd", "Exists"))
    return ask(fleet, policy)


def test_W_02_lexicographic_rows_have_a_key_and_no_total() -> None:
    found = row(why(ranked()), "a")

    assert (found.key, found.total, found.rank) == ((0, 10, 0), None, 1)
    assert found.scores == (
        PluginScore("ClusterAffinity", 10, 10, None, 10),
        PluginScore("SamePlacementAntiAffinity", 0, 0, None, 0),
    )


def test_W_02_a_target_has_its_runner_up_and_margin() -> None:
    found = row(why(ranked()), "a")

    assert found.margin == Margin("b", "affinity", topology=0, affinity=3, obsolete=0)
    assert found.margin_to_next == (0, 3, 0)


def test_a_near_miss_is_told_in_words() -> None:
    found = row(why(ranked()), "b")

    assert (found.because, found.short) == ("rank", "3 points of affinity short of the last pick a")


def test_W_02_rows_that_only_the_tie_break_tells_apart_are_marked() -> None:
    found = why(ranked())

    assert {one.name: one.tie for one in found.attempt.clusters} == {"a": False, "b": False, "c": True, "d": True}
    assert found.attempt.tie_break == "nameDescending"


def test_a_tie_with_the_last_pick_is_told_in_words() -> None:
    found = row(why(ask(clusters("a", "b"), a_policy().pick_n(1))), "a")

    assert found.short == "level with the last pick b, the tie-break decides"


def test_W_02_weighted_totals_are_the_sums_of_their_parts() -> None:
    profile = compile_default(default_profile(ranking="weighted"))
    fleet = [a_cluster("a").labelled(tier="gold"), a_cluster("b")]
    found = why(ask(fleet, a_policy().pick_n(1).prefer(10, label("tier", "Exists")), profile=profile))

    for one in found.attempt.clusters:
        assert one.total == sum(score.final for score in one.scores)
        assert (one.key, {score.weight for score in one.scores}) == (None, {1})
    assert row(found, "a").margin_to_next == 100
    assert row(found, "b").short == "100 points short of the last pick a"


def test_rounds_tell_who_was_picked_in_which() -> None:
    fleet = [a_cluster(name).labelled(zone=name) for name in ("x", "y", "z")]

    found = why(ask(fleet, a_policy().pick_n(2).spread("zone")))

    assert [(one.round, one.limit, one.picked) for one in found.attempt.round_detail] == [
        (1, 1, ("z",)),
        (2, 1, ("y",)),
    ]
    assert [one.step for one in found.attempt.clusters[:2]] == [1, 2]


def test_a_pick_of_an_earlier_round_has_the_scores_it_was_picked_for() -> None:
    fleet = [a_cluster(name).labelled(zone=name) for name in ("x", "y", "z")]

    first = row(why(ask(fleet, a_policy().pick_n(2).spread("zone"))), "z")

    assert {one.plugin: one.final for one in first.scores} == {
        "SamePlacementAntiAffinity": 0,
        "TopologySpreadConstraints": first.key[0] if first.key else None,
    }


def test_fewer_than_the_least_is_the_reason_why_a_fitting_cluster_was_not_taken() -> None:
    found = why(ask(clusters("a"), a_policy().pick_n(3).at_least(2)))

    assert [(one.outcome, one.because) for one in found.attempt.clusters] == [("fit-not-selected", "minTargets")]


# --- hooks, notes, names ----------------------------------------------------------------------------------------------


def test_W_01_prefilters_and_prescores_that_ran_are_told_from_those_that_had_nothing_to_do() -> None:
    found = why(ask(clusters("a"), a_policy().pick_n(1).prefer(1, label("x", "Exists")))).attempt

    assert {one.plugin: one.code for one in found.pre_filter} == {
        "ClusterAffinity": "Skip",
        "NamespaceAffinity": "Skip",
        "TopologySpreadConstraints": "Skip",
    }
    assert {one.plugin: one.code for one in found.pre_score} == {
        "ClusterAffinity": "Success",
        "TopologySpreadConstraints": "Skip",
    }
    assert ("TopologySpreadConstraints", "postBatch,filter,score") in [(one.plugin, one.hook) for one in found.skipped]


def test_W_01_what_effect_hooks_said_is_passed_on() -> None:
    said = HookStatus(plugin="Quota", code="Wait", target="a")

    assert why(mixed(), context=AnswerContext(effects={"permit": (said,)})).attempt.permit == (said,)


def test_fixed_policies_tell_invalid_and_missing_names() -> None:
    verdict = why(ask([a_cluster("a").leaving()], a_policy().pick_fixed("a", "typo"))).verdict

    assert [(one.cluster, one.plugin, one.reason) for one in verdict.invalid] == [("a", "ClusterEligibility", "Left")]
    assert verdict.missing == ("typo",)


def test_domains_that_block_are_told() -> None:
    fleet = [a_cluster(name).labelled(zone="x") for name in ("a", "b")] + [a_cluster("c").labelled(zone="y").leaving()]

    (found,) = why(ask(fleet, a_policy().pick_n(2).spread("zone"))).attempt.full_domains

    assert (found.key, found.domain) == ("zone", "y")


def test_of_a_large_domain_ten_clusters_are_told() -> None:
    fleet = [a_cluster(f"y{number:02}").labelled(zone="y").leaving() for number in range(13)]
    fleet += [a_cluster(name).labelled(zone="x") for name in ("a", "b")]

    (found,) = why(ask(fleet, a_policy().pick_n(2).spread("zone")), redact=hide("y00", "y12")).attempt.full_domains

    assert (len(found.clusters), found.more, found.hidden, found.clusters[0].cluster) == (10, 1, 2, "y01")


def blocked_by(count: int) -> Asked:
    """A fleet of that many zones in which nothing can be placed, and one full zone."""
    fleet = [a_cluster(f"gone-{number:02}").labelled(zone=f"z{number:02}").leaving() for number in range(count)]
    fleet += [a_cluster(name).labelled(zone="full") for name in ("a", "b")]
    return ask(fleet, a_policy().pick_n(2).spread("zone"))


def test_of_many_domains_that_block_ten_are_told() -> None:
    found = why(blocked_by(13))

    assert [one.domain for one in found.attempt.full_domains] == [f"z{number:02}" for number in range(10)]
    assert found.attempt.full_domains_left_out == 3
    (refusal,) = row(found, "a").rejections
    assert (len(refusal.details["lowest"]), refusal.details["lowestLeftOut"]) == (10, 3)
    text = render(found)
    assert "z09, 3 more; max skew 1" in text
    assert "  … and 3 more" in text


def test_W_10_domains_of_hidden_clusters_are_counted_and_never_named() -> None:
    found = why(blocked_by(3), redact=hide("gone-00", "gone-02"))

    assert [one.domain for one in found.attempt.full_domains] == ["z01"]
    assert found.attempt.full_domains_left_out == 2
    (refusal,) = row(found, "a").rejections
    assert (refusal.details["lowest"], refusal.details["lowestLeftOut"]) == (["z01"], 2)
    assert "fewest in z01, 2 more; max skew 1" in render(found)


def test_W_10_where_all_domains_that_block_are_hidden_their_number_is_told() -> None:
    text = render(why(blocked_by(2), redact=hide("gone-00", "gone-01")))

    assert "fewest in 2 more; max skew 1" in text
    assert "BLOCKED BY\n  2 domains that are not shown" in text


class Gossip(PluginTraits):
    """Refuses `b` and talks about others."""

    REASONS = ReasonTable(Reason("Gossip", Code.UNSCHEDULABLE, "{who} said so"))

    def name(self) -> str:
        return "Gossip"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        ctx.note("friends", {"c": ["a", "b"]})
        row = frame.row_of("b")
        return Verdict(ok=-1 if row is None else ~(1 << row), explain=lambda row: {"who": "a", "all": ["a", "c"]})


def gossiping() -> Asked:
    registry = in_tree_registry()
    registry.register("Gossip", lambda raw, handle: Gossip())
    hooks = {**DEFAULT_PLUGINS, "filter": (PluginRef("Gossip"), *DEFAULT_PLUGINS["filter"])}
    profile = compile_default(default_profile(plugins=hooks), registry=registry)
    return ask(clusters("a", "b", "c"), a_policy().pick_n(3), profile=profile)


def test_W_13_details_and_notes_of_a_plugin_from_elsewhere_appear_as_they_are() -> None:
    found = why(gossiping())

    (rejection,) = row(found, "b").rejections
    assert (rejection.reason, rejection.message, rejection.details) == (
        "Gossip",
        "a said so",
        {"who": "a", "all": ["a", "c"]},
    )
    assert found.attempt.notes == {"Gossip": {"friends": {"c": ["a", "b"]}}}


class Whisper(ScalarPlugin):
    """The same, cluster by cluster."""

    def name(self) -> str:
        return "Whisper"

    def filter_one(self, ctx: HookContext, state: CycleState, placement: Any, cluster: ClusterView) -> Status | None:
        ctx.note("heard of", cluster.name)
        if cluster.name != "b":
            return None
        return Status(Code.UNSCHEDULABLE, ("nobody likes b",), details={"because": ["a", 7]})


def test_W_13_details_and_notes_of_a_plugin_that_looks_at_single_clusters_appear_as_they_are() -> None:
    registry = in_tree_registry()
    registry.register("Whisper", lambda raw, handle: Whisper())
    hooks = {**DEFAULT_PLUGINS, "filter": (PluginRef("Whisper"), *DEFAULT_PLUGINS["filter"])}
    profile = compile_default(default_profile(plugins=hooks), registry=registry)

    found = why(ask(clusters("a", "b"), a_policy().pick_n(2), profile=profile))

    (rejection,) = row(found, "b").rejections
    assert (rejection.plugin, rejection.message) == ("Whisper", "nobody likes b")
    assert rejection.details == {"because": ["a", 7]}
    assert found.attempt.notes == {"Whisper": {"heard of": "b"}}


# --- pages ------------------------------------------------------------------------------------------------------------


def test_rows_come_in_pages() -> None:
    asked = ask([a_cluster(f"c{number}") for number in range(5)], a_policy())
    pages, cursor = [], ""
    for _ in range(3):
        found = why(asked, limit=2, cursor=cursor)
        pages.append(names(found))
        cursor = found.attempt.next_cursor

    assert pages == [["c0", "c1"], ["c2", "c3"], ["c4"]]
    assert cursor == ""


@pytest.mark.parametrize(
    "cursor, message", [("next", "is not from an answer"), ("2.0123456789ab", "belongs to another decision")]
)
def test_a_cursor_of_something_else_is_refused(cursor: str, message: str) -> None:
    with pytest.raises(InputError, match=f"cursor: this cursor {message}"):
        why(mixed(), cursor=cursor)


# --- names that may not be read ---------------------------------------------------------------------------------------


def hide(*hidden: str) -> Any:
    return lambda name: name in hidden


def test_W_10_hidden_clusters_are_counted_and_never_named() -> None:
    found = why(mixed(), redact=hide("t", "a"))

    assert (found.redacted, found.verdict.counts.total, names(found)) == (2, 4, ["kept", "s"])
    (silent, tainted) = found.attempt.groups
    assert (silent.clusters, silent.hidden) == (("s",), 0)
    assert (tainted.clusters, tainted.hidden, tainted.count, tainted.closest) == ((), 1, 1, None)


def test_W_10_a_hidden_cluster_cannot_be_asked_for() -> None:
    with pytest.raises(InputError, match="no cluster named 't'"):
        why(mixed(), cluster="t", redact=hide("t"))


def test_W_10_a_hidden_last_pick_has_no_name() -> None:
    found = row(why(ranked(), redact=hide("a")), "b")

    assert found.margin is not None
    assert (found.margin.to, found.short) == ("", "3 points of affinity short of the last pick")


def test_W_10_texts_of_plugins_from_elsewhere_are_searched_for_hidden_names() -> None:
    found = why(gossiping(), redact=hide("a"))

    (rejection,) = row(found, "b").rejections
    assert (rejection.message, rejection.details) == ("(hidden) said so", {"who": "(hidden)", "all": ["(hidden)", "c"]})
    assert found.attempt.notes == {"Gossip": {"friends": {"c": ["(hidden)", "b"]}}}


def test_W_10_no_word_goes_because_a_hidden_cluster_is_named_like_it() -> None:
    fleet = [a_cluster("mine").heard(3600)]
    alone, hiding = (
        why(ask(each, a_policy().pick_fixed("mine")), redact=hide("agent", "fleet"))
        for each in (fleet, [*fleet, *clusters("agent", "fleet")])
    )

    assert [one.message for one in hiding.verdict.invalid] == [one.message for one in alone.verdict.invalid]
    assert "1 agent silent" in alone.verdict.summary
    assert "1 agent silent" in hiding.verdict.summary


def test_W_10_a_warning_about_a_binding_on_a_hidden_cluster_does_not_name_it() -> None:
    twice = [a_binding(cluster, name=f"web-{cluster}-{number}") for cluster in ("secret", "mine") for number in (1, 2)]
    found = why(ask(clusters("secret", "mine"), a_policy().pick_n(2), *twice), redact=hide("secret"))

    assert {one.subject for one in found.attempt.warnings} == {"(hidden)", "web-mine-1"}
    assert b"secret" not in msgspec.json.encode(found)


def test_W_10_a_topology_key_named_like_a_hidden_cluster_comes_back_as_it_is() -> None:
    found = why(ask(clusters("zone", "mine"), a_policy().pick_n(1).spread_softly("zone")), redact=hide("zone"))

    assert [(one.kind, one.subject) for one in found.attempt.warnings] == [("MissingTopologyKey", "zone")]


def test_W_10_fixes_about_hidden_clusters_are_left_out() -> None:
    fleet = [a_cluster("ok"), a_cluster("t").tainted("gpu"), a_cluster("u").tainted("gpu")]
    scenario = a_scenario(fleet, a_policy().pick_n(2))
    found = why(scenario, fixes=find_fixes(scenario, scenario.decide()), redact=hide("t", "ok"))

    assert [one.text for one in found.fixes or ()] == [
        "tolerate gpu:NoSchedule",
        "u: remove taint gpu:NoSchedule",
        "count 2 → 1",
    ]
    assert [(one.effect.targets, one.effect.more) for one in found.fixes or ()][::2] == [(("u",), 1), ((), 1)]


def test_W_10_what_another_cluster_would_have_to_be_is_for_those_who_may_read_all() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(3))
    fixes = find_fixes(scenario, scenario.decide())

    assert any(one.adds_clusters for one in why(scenario, fixes=fixes).fixes or ())
    assert not any(one.adds_clusters for one in why(scenario, fixes=fixes, redact=hide("b")).fixes or ())


def test_W_10_a_fix_that_would_tell_a_hidden_name_of_a_fixed_policy_is_left_out() -> None:
    scenario = a_scenario(
        [a_cluster("a"), a_cluster("b").leaving(), a_cluster("c").heard(3600)], a_policy().pick_fixed("a", "b")
    )
    found = find_fixes(scenario, scenario.decide())

    assert [one.text for one in found.fixes] == ["cluster names without b"]
    assert why(scenario, fixes=found, redact=hide("b")).fixes == ()
    assert why(scenario, fixes=found, redact=hide("a")).fixes == ()


def test_W_10_nothing_hidden_is_in_the_whole_answer() -> None:
    fleet = [a_cluster(f"secret-{number}").labelled(zone=f"secret-{number % 2}").tainted("gpu") for number in range(4)]
    fleet += [a_cluster("secret-9").labelled(zone="secret-2").heard(3600)]
    fleet += [a_cluster(name).labelled(zone="z1") for name in ("mine", "mine-too")]
    scenario = a_scenario(fleet, a_policy().pick_n(4).spread("zone"), a_binding("secret-9"))

    found = why(
        scenario,
        redact=lambda name: name.startswith("secret"),
        fixes=find_fixes(scenario, scenario.decide()),
        everything=True,
    )

    assert b"secret" not in msgspec.json.encode(found)
    assert found.redacted == 5


def test_fixes_of_clusters_are_marked_for_those_who_may_not_carry_them_out() -> None:
    scenario = a_scenario([a_cluster("ok"), a_cluster("t").tainted("gpu")], a_policy().pick_n(2))

    found = why(scenario, fixes=find_fixes(scenario, scenario.decide()), may_edit_clusters=False)

    assert {(one.scope, one.needs) for one in found.fixes or ()} == {("placement", ""), ("cluster", "cluster-admin")}


def test_fixes_that_nobody_asked_for_are_told_from_none() -> None:
    scenario = a_scenario(clusters("a"), a_policy().pick_n(1))

    assert why(scenario).fixes is None
    assert why(scenario, fixes=find_fixes(scenario, scenario.decide())).fixes == ()


def test_the_answer_is_camel_case_and_versioned() -> None:
    document = msgspec.to_builtins(why(mixed()))

    assert (document["apiVersion"], document["placement"]["schedulerName"]) == ("fleet/v1", "DefaultScheduler")
    assert {"alreadySelected", "notEvaluated"} < set(document["verdict"]["counts"])
    assert "configHash" in document["attempt"]


def test_the_answer_has_a_schema() -> None:
    schema = msgspec.json.schema(Answer)

    assert "SetCount" in schema["$defs"]
