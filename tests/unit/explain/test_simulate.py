"""What if, for one placement and for everybody."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fleet.errors import InputError
from fleet.explain.answer.simulate import simulate
from fleet.explain.facts.redaction import Redaction
from fleet.explain.facts.summary import summarize
from fleet.explain.whatif.compare import ClusterChange, compare
from fleet.explain.whatif.diff import ClusterTally, OutcomeTally
from fleet.explain.whatif.edits import AddCluster, AddTaint, RemoveCluster, SetCount, SetReady
from fleet.explain.whatif.impact import compute_impact, redact_impact
from fleet.framework.context import HookContext
from fleet.framework.profiles.profile import CompiledProfile, PluginRef
from fleet.framework.scalar import ClusterView, ScalarPlugin
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from plugins import in_tree_registry
from plugins.default_profile import DEFAULT_PLUGINS, compile_default, default_profile
from tests.builders import NOW, PolicyBuilder, a_binding, a_cluster, a_frame, a_policy, clusters
from tests.unit.explain.questions import ask
from tests.unit.explain.scenarios import a_scenario

# --- one placement ----------------------------------------------------------------------------------------------------


def test_a_simulation_answers_for_the_edited_world() -> None:
    scenario = a_scenario(clusters("a"), a_policy().pick_n(1))

    found = simulate(scenario, [AddCluster("b", "a"), SetCount(3)])

    assert (found.answer.verdict.state, found.answer.verdict.counts.selected) == ("Partial", 2)
    assert found.compare is not None
    assert found.compare.gained == ("b",)


def test_a_comparison_is_made_for_those_who_ask() -> None:
    assert simulate(a_scenario(clusters("a"), a_policy()), [], with_comparison=False).compare is None


def test_no_effect_hook_is_named_because_nothing_runs_them() -> None:
    scenario = a_scenario(clusters("a", "b"), a_policy().pick_n(1), a_binding("a"))

    assert simulate(scenario, []).would_run == ()
    assert simulate(scenario, [SetCount(2)]).would_run == ()


def test_options_of_the_answer_can_be_given() -> None:
    found = simulate(a_scenario(clusters("a", "b"), a_policy()), [], cluster="a", everything=True)

    assert [one.name for one in found.answer.attempt.clusters] == ["a"]


def test_W_10_a_comparison_names_no_hidden_cluster() -> None:
    fleet = [a_cluster("secret-a"), a_cluster("secret-b"), a_cluster("c")]
    scenario = a_scenario(fleet, a_policy().pick_n(1))

    found = simulate(scenario, [AddTaint("secret-b", "x"), SetCount(2)], redact=lambda name: name.startswith("secret"))

    assert b"secret" not in msgspec.json.encode(found)
    assert found.compare is not None
    assert [(one.count, one.more) for one in found.compare.transitions] == [(1, 1)]


class Feud(ScalarPlugin):
    """Refuses `c`, and says because of whom."""

    def name(self) -> str:
        return "Feud"

    def filter_one(self, ctx: HookContext, state: CycleState, placement: Any, cluster: ClusterView) -> Status | None:
        return Status(Code.UNSCHEDULABLE, ("not beside secret",)) if cluster.name == "c" else None


def feuding() -> CompiledProfile:
    registry = in_tree_registry()
    registry.register("Feud", lambda raw, handle: Feud())
    hooks = {**DEFAULT_PLUGINS, "filter": (PluginRef("Feud"), *DEFAULT_PLUGINS["filter"])}
    return compile_default(default_profile(plugins=hooks), registry=registry)


def test_W_10_a_text_about_a_cluster_that_has_left_does_not_name_it() -> None:
    before = ask(clusters("secret", "c"), a_policy(), profile=feuding())
    after = ask(clusters("c"), a_policy())

    found = compare(before.decision, after.decision, redact={"secret"}.__contains__)

    told = {one.before: one.clusters for one in found.transitions}
    assert told["Feud"] == (ClusterChange("c", "not beside (hidden)", "fits"),)


def test_W_10_a_sentence_with_words_of_a_plugin_from_elsewhere_names_no_hidden_cluster() -> None:
    decision = ask(clusters("secret", "c"), a_policy(), profile=feuding()).decision

    said = summarize(decision, Redaction(decision.frame, {"secret"}.__contains__))

    assert said == "1/2 clusters selected: 1 not beside (hidden)"


def test_W_10_what_the_caller_calls_a_taint_comes_back_as_it_is() -> None:
    """A word that vanishes because a hidden cluster has that name would tell that there is one."""
    scenario = a_scenario(clusters("secret", "a"), a_policy())

    found = simulate(scenario, [AddTaint("a", "secret")], redact={"secret"}.__contains__)

    assert found.answer.verdict.summary == "1/2 clusters selected: 1 untolerated taint {secret}"
    assert found.compare is not None
    assert [one.clusters for one in found.compare.transitions] == [(ClusterChange("a", "fits", "secret:NoSchedule"),)]


def test_an_edit_that_makes_no_sense_ends_the_simulation() -> None:
    with pytest.raises(InputError, match=r"edits\[0\]\.cluster"):
        simulate(a_scenario(clusters("a"), a_policy()), [RemoveCluster("b")])


# --- the whole fleet --------------------------------------------------------------------------------------------------

FLEET = [a_cluster("a"), a_cluster("b"), a_cluster("c").labelled(tier="gold")]
POLICIES: tuple[PolicyBuilder, ...] = (a_policy(), a_policy().pick_n(1), a_policy().pick_fixed("a"))


def test_the_impact_of_a_lost_cluster() -> None:
    frame = a_frame(*FLEET)
    questions = [ask(FLEET, policy).inp for policy in POLICIES]

    found = compute_impact(frame, questions, [SetReady("c", value=False)], now=NOW)

    assert (found.placements, found.same) == (3, 1)
    assert [(one.cause, one.before, one.after) for one in found.moved] == [
        ("filter", ("a", "b", "c"), ("a", "b")),
        ("filter", ("c",), ("b",)),
    ]
    assert found.summary.clusters == (ClusterTally("c", 0, 2), ClusterTally("b", 1, 0))
    assert found.summary.outcomes == (OutcomeTally("SELECTED", 3, 3),)


def test_W_10_an_impact_counts_clusters_and_placements_that_may_not_be_read() -> None:
    questions = [ask(FLEET, policy).inp for policy in POLICIES]
    found = compute_impact(a_frame(*FLEET), questions, [SetReady("c", value=False)], now=NOW)

    seen = redact_impact(found, hides_cluster={"c"}.__contains__, hides_placement=lambda key: False)
    unseen = redact_impact(found, hides_cluster={"c"}.__contains__, hides_placement=lambda key: True)

    assert [(one.before, one.after, one.redacted) for one in seen.moved] == [
        (("a", "b"), ("a", "b"), 1),
        ((), ("b",), 1),
    ]
    assert (seen.summary.clusters, seen.summary.redacted, seen.redacted) == ((ClusterTally("b", 1, 0),), 1, 0)
    assert (unseen.moved, unseen.redacted, unseen.placements, unseen.same) == ((), 2, 3, 1)


def test_an_impact_may_be_on_the_outcome_alone() -> None:
    question = ask(clusters("a"), a_policy().pick_fixed("a", "b")).inp

    found = compute_impact(a_frame(*clusters("a")), [question], [AddCluster("b", "a")], now=NOW)

    assert found.summary.outcomes == (OutcomeTally("PARTIAL", 1, 0), OutcomeTally("SELECTED", 0, 1))


def test_what_is_in_use_already_does_not_move_for_a_taint() -> None:
    question = ask(FLEET, a_policy().pick_n(1), a_binding("c")).inp

    found = compute_impact(a_frame(*FLEET), [question], [AddTaint("c", "gpu")], now=NOW)

    assert (found.same, found.moved) == (1, ())


def test_an_impact_whose_time_is_up_says_how_far_it_came() -> None:
    questions = [ask(FLEET, policy).inp for policy in POLICIES]
    asked = iter([False, True])

    found = compute_impact(a_frame(*FLEET), questions, [RemoveCluster("c")], now=NOW, expired=lambda: next(asked))

    assert (found.placements, found.truncated) == (1, True)


def test_only_clusters_have_an_impact_on_everybody() -> None:
    with pytest.raises(InputError, match="setCount is about one placement"):
        compute_impact(a_frame(*FLEET), [], [SetCount(1)], now=NOW)
