"""How many clusters an attempt looks for, in how many rounds, and which of equals it takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.operations import Action
from fleet.framework.status import Code, Status
from fleet.framework.types import Component, PluginTraits, Reason, ReasonTable, TieBreak, Verdict
from fleet.snapshot import Frame
from fleet.snapshot.columns.bitset import from_rows
from fleet.snapshot.table import overlay
from plugins.default_profile import compile_default
from tests.builders import a_binding, a_cluster, a_frame, a_policy, clusters, label
from tests.doubles import Answering, Rejecting, Scoring, carried_out, chosen, decided, limited_to, profile_of

DEFAULT = compile_default()


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("a", "b", "c", "d", "e"))


def operations(decision: Decision) -> list[tuple[Action, str]]:
    return [(one.action, one.cluster) for one in decision.operations]


# --- the stages -------------------------------------------------------------------------------------------------------


def test_F3_118_plugins_say_how_many_are_wanted_how_many_at_a_time_and_which_go_first(frame: Frame) -> None:
    three = Answering("Three", batch=lambda *_: 3)
    pairs = Answering("Pairs", post_batch=limited_to(2))
    worst = Answering("Worst", sort=lambda ctx, state, req, frame, rows, scores: rows[np.argsort(scores.totals())])
    points = Scoring("Points", {"a": 5, "b": 4, "c": 3, "d": 2, "e": 1})

    decision = decided(frame, a_policy().pick_n(5), profile=profile_of(three, pairs, worst, points, ranking="weighted"))

    assert [(one.cluster, one.step) for one in decision.targets] == [("e", 1), ("d", 1), ("c", 2)]
    assert (three.calls, pairs.calls, worst.calls) == (["batch"], ["post_batch"], ["sort", "sort"])


# --- batch ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wanted, outcome, count",
    [(5, Outcome.SELECTED, 3), (3, Outcome.SELECTED, 1), (2, Outcome.UNCHANGED, 0), (1, Outcome.SHRINK, 0)],
)
def test_L_01_as_many_are_looked_for_as_are_wanted_and_not_there_yet(
    frame: Frame, wanted: int, outcome: Outcome, count: int
) -> None:
    existing = a_binding("a"), a_binding("b").bound()

    decision = decided(frame, a_policy().pick_n(wanted), *existing, profile=DEFAULT)

    assert (decision.outcome, len(decision.targets)) == (outcome, count)


def test_L_01_enough_refreshes_the_status_and_asks_no_plugin(frame: Frame) -> None:
    door = Rejecting("Door")

    decision = decided(frame, a_policy().pick_n(1), a_binding("a"), profile=profile_of(door))

    assert (decision.outcome, decision.operations, door.calls) == (Outcome.UNCHANGED, (), [])
    assert decision.published is not None
    assert [one.cluster_name for one in decision.published.decisions] == ["a"]


def test_L_01_obsolete_bindings_are_given_up_when_enough_are_there(frame: Frame) -> None:
    decision = decided(frame, a_policy().pick_n(1), a_binding("a"), a_binding("b").obsolete(), profile=DEFAULT)

    assert decision.outcome is Outcome.SHRINK
    assert operations(decision) == [(Action.UNSCHEDULE, "b")]


def test_L_01_too_many_lose_obsolete_then_scheduled_then_bound_ones_by_score_and_name(frame: Frame) -> None:
    existing = [
        a_binding("a").bound().scored(affinity=1),
        a_binding("b").scored(topology=1, affinity=-5),
        a_binding("c").scored(affinity=9),
        a_binding("d").scored(affinity=9),
        a_binding("e").obsolete().scored(affinity=99),
    ]

    lost = [
        [cluster for _, cluster in operations(decided(frame, a_policy().pick_n(wanted), *existing, profile=DEFAULT))]
        for wanted in (4, 3, 2, 1, 0)
    ]

    assert lost == [["e"], ["e", "c"], ["e", "c", "d"], ["e", "c", "d", "b"], ["e", "c", "d", "b", "a"]]


@pytest.mark.parametrize("answer", [None, "3", 2.5], ids=repr)
def test_L_01_a_batch_size_is_a_number(frame: Frame, answer: Any) -> None:
    odd = Answering("Odd", batch=lambda *_: answer)

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(odd))

    assert decision.error is not None
    assert decision.error.reasons[0].startswith("Odd at batch: answered ")


# --- limits and rounds ------------------------------------------------------------------------------------------------


def limits(*offers: int) -> list[Answering]:
    return [Answering(f"Limit{number}", post_batch=limited_to(offer)) for number, offer in enumerate(offers)]


@pytest.mark.parametrize(
    "offers, per_round, rounds",
    [
        ((), [4], 1),
        ((2,), [2, 2], 2),
        ((3,), [3, 1], 2),
        ((3, 1, 2), [1, 1, 1, 1], 4),
        ((9,), [4], 1),
        ((-1,), [4], 1),
        ((-1, 2), [2, 2], 2),
        ((0,), [], 1),
        ((0, 3), [], 1),
    ],
)
def test_L_02_the_smallest_limit_counts_and_full_rounds_are_followed_by_another(
    frame: Frame, offers: tuple[int, ...], per_round: list[int], rounds: int
) -> None:
    decision = decided(frame, a_policy().pick_n(4), profile=profile_of(*limits(*offers)))

    steps = Counter(one.step for one in decision.targets)
    assert [steps[step] for step in sorted(steps)] == per_round
    assert decision.round_count == rounds


def test_L_02_a_plugin_that_skips_offers_no_limit(frame: Frame) -> None:
    skipping = Answering("Skipping", post_batch=lambda *_: (1, Status.new(Code.SKIP)))

    decision = decided(frame, a_policy().pick_n(4), profile=profile_of(skipping, *limits(2)))

    assert decision.round_count == 2
    assert decision.skipped == {"postBatch": ("Skipping",)}


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.WAIT, Code.PENDING, Code.ERROR])
def test_L_02_other_codes_are_errors(frame: Frame, code: Code) -> None:
    odd = Answering("Odd", post_batch=lambda *_: (1, Status.new(code, "hm")))

    decision = decided(frame, a_policy().pick_n(4), profile=profile_of(odd))

    assert (decision.outcome, decision.targets) == (Outcome.ERROR, ())
    assert decision.error is not None
    assert decision.error.plugin == "Odd"


def test_L_02_a_round_that_is_not_filled_is_the_last(frame: Frame) -> None:
    decision = decided(frame, a_policy().pick_n(5), profile=profile_of(Rejecting("Door", ["a", "b"]), *limits(2)))

    assert [(one.cluster, one.step) for one in decision.targets] == [("e", 1), ("d", 1), ("c", 2)]
    assert (decision.outcome, decision.round_count) == (Outcome.PARTIAL, 2)


class Alternating(PluginTraits):
    """Allows names with an even letter while an even number is placed, and the others otherwise."""

    REASONS = ReasonTable(Reason("NotYet", Code.UNSCHEDULABLE, "not its turn"))

    def name(self) -> str:
        return "Alternating"

    def filter(self, ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
        turn = ctx.placed.bit_count() % 2
        return Verdict(ok=from_rows(row for row in range(frame.size) if ord(frame.name(row)) % 2 == turn))


def test_L_02_the_next_round_sees_the_earlier_picks(frame: Frame) -> None:
    decision = decided(frame, a_policy().pick_n(4), profile=profile_of(Alternating(), *limits(1)))

    assert chosen(decision) == ["d", "e", "b", "c"]
    assert decision.round is not None
    assert len(decision.rounds) == 2


def test_L_02_a_round_that_picks_nobody_ends_the_attempt(frame: Frame) -> None:
    decision = decided(frame, a_policy().pick_n(5), profile=profile_of(Alternating(), *limits(1)))

    assert chosen(decision) == ["d", "e", "b", "c"]
    assert (decision.round_count, decision.outcome) == (5, Outcome.PARTIAL)
    assert decision.round is not None
    assert decision.round.picked == ()


@pytest.mark.parametrize("least, there, picked", [(3, 0, 0), (2, 0, 2), (1, 0, 2), (3, 1, 2), (5, 2, 0), (4, 2, 2)])
def test_L_02_min_targets_counts_what_is_there_and_holds_across_rounds(
    frame: Frame, least: int, there: int, picked: int
) -> None:
    existing = [a_binding(name) for name in "ab"[:there]]
    door = Rejecting("Door", [name for name in "abcde" if name not in "de"])
    profile = profile_of(door, *limits(1))

    decision = decided(frame, a_policy().pick_n(5).at_least(least), *existing, profile=profile)

    assert len(decision.targets) == picked
    assert [one.action for one in decision.operations] == [Action.CREATE] * picked
    assert decision.active == there + picked


def test_L_02_too_few_for_min_targets_assume_nothing_but_still_tidy_up(frame: Frame) -> None:
    policy = a_policy().pick_n(3).at_least(2)

    decision = decided(
        frame, policy, a_binding("gone"), a_binding("b").obsolete(), profile=profile_of(Rejecting("Door", "abcd"))
    )

    assert (decision.outcome, decision.targets) == (Outcome.UNSCHEDULABLE, ())
    assert operations(decision) == [(Action.UNSCHEDULE, "gone")]


# --- ranking ----------------------------------------------------------------------------------------------------------


def component(name: str, kind: Component, points: dict[str, int]) -> Scoring:
    plugin = Scoring(name, points)
    plugin.SCORE_COMPONENT = kind  # type: ignore[misc]
    return plugin


def test_L_03_lexicographic_ranking_takes_topology_before_affinity_before_obsolete(frame: Frame) -> None:
    plugins = [
        component("Obsolete", Component.OBSOLETE, {"a": 1, "b": 1, "c": 1}),
        component("Affinity", Component.AFFINITY, {"b": 40, "c": 40, "d": 41}),
        component("Topology", Component.TOPOLOGY, {"e": -1000, "c": 1}),
    ]

    assert chosen(decided(frame, a_policy().pick_n(5), profile=profile_of(*plugins))) == ["c", "d", "b", "a", "e"]


def test_L_03_weighted_ranking_takes_the_greatest_sum(frame: Frame) -> None:
    plugins = [Scoring("One", {"a": 50, "b": 40, "c": 10}), Scoring("Two", {"c": 90, "b": 20, "d": 70})]

    plain = profile_of(*plugins, ranking="weighted")
    heavy = profile_of(*plugins, ranking="weighted", weights={"One": 10})

    assert chosen(decided(frame, a_policy().pick_n(4), profile=plain)) == ["c", "d", "b", "a"]
    assert chosen(decided(frame, a_policy().pick_n(4), profile=heavy)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("tie_break, order", [("nameDescending", "edcba"), ("nameAscending", "abcde")])
@pytest.mark.parametrize("ranking", ["lexicographic", "weighted"])
@pytest.mark.parametrize("rows", ["abcde", "dbeac"])
def test_L_03_equals_are_taken_by_name(tie_break: TieBreak, order: str, ranking: Any, rows: str) -> None:
    frame = a_frame(*clusters(*rows))
    profile = profile_of(Scoring("S", {"c": 1}), ranking=ranking, tie_break=tie_break)

    decision = decided(frame, a_policy().pick_n(5), profile=profile)

    assert "".join(chosen(decision)) == "c" + order.replace("c", "")
    assert decision.tie_break == tie_break


def hashed_order(frame: Frame, uid: str) -> list[str]:
    profile = profile_of(Scoring("S"), tie_break="hashed")
    return chosen(decided(frame, a_policy().pick_n(9).of_uid(uid), profile=profile))


@pytest.mark.parametrize("uid, order", [("uid-1", "edbac"), ("uid-2", "abced")])
def test_L_03_hashed_ties_are_the_same_in_every_process(frame: Frame, uid: str, order: str) -> None:
    assert "".join(hashed_order(frame, uid)) == order


def test_L_03_hashed_ties_spread_placements_and_ignore_rows(frame: Frame) -> None:
    winners = Counter(hashed_order(frame, f"uid-{number}")[0] for number in range(200))

    assert set(winners) == set("abcde")
    assert max(winners.values()) < 80
    assert hashed_order(a_frame(*clusters(*"dbeac")), "uid-1") == hashed_order(frame, "uid-1")


def test_L_03_the_rule_for_ties_is_stated_in_every_decision(frame: Frame) -> None:
    for tie_break in ("nameDescending", "nameAscending", "hashed"):
        profile = profile_of(Scoring("S"), tie_break=tie_break)
        for policy in (a_policy(), a_policy().pick_n(1), a_policy().pick_fixed("a")):
            assert decided(frame, policy, profile=profile).tie_break == tie_break


def test_L_03_scores_too_far_apart_for_one_key_are_ranked_all_the_same() -> None:
    frame = a_frame(*clusters(*"abcd"))
    far = {"a": 2**31 - 1, "b": -(2**31), "c": 5}
    plugins = [component(kind.value, kind, far) for kind in Component]

    assert chosen(decided(frame, a_policy().pick_n(4), profile=profile_of(*plugins))) == ["a", "c", "d", "b"]


# --- three types ------------------------------------------------------------------------------------------------------


def test_L_07_one_framework_serves_all_three_types(frame: Frame) -> None:
    door = Rejecting("Door", ["b"])
    door.APPLIES_TO_FIXED = True  # type: ignore[misc]
    profile = profile_of(door, Scoring("S", {"a": 1}))

    everywhere = decided(frame, a_policy(), profile=profile)
    some = decided(frame, a_policy().pick_n(2), profile=profile)
    named = decided(frame, a_policy().pick_fixed("e", "b", "nowhere", "a"), profile=profile)

    assert [chosen(one) for one in (everywhere, some, named)] == [["a", "c", "d", "e"], ["a", "e"], ["e", "a"]]


def test_L_07_named_clusters_are_valid_invalid_or_missing(frame: Frame) -> None:
    frame = overlay(frame, put=[a_cluster("b").never_heard().build()])

    decision = decided(frame, a_policy().pick_fixed("b", "nowhere", "a", "else"), profile=DEFAULT)

    assert (chosen(decision), decision.invalid, decision.missing) == (["a"], ("b",), ("nowhere", "else"))
    assert (decision.outcome, decision.active, decision.fulfilled) == (Outcome.PARTIAL, 1, False)


def test_L_07_only_plugins_that_apply_to_named_clusters_judge_them() -> None:
    frame = a_frame(a_cluster("a").tainted("gpu"), a_cluster("b").leaving())

    decision = decided(frame, a_policy().pick_fixed("a", "b"), profile=DEFAULT)

    assert (chosen(decision), decision.invalid) == (["a"], ("b",))
    assert decision.rejectors == ("ClusterEligibility",)


# --- stability --------------------------------------------------------------------------------------------------------


def test_L_08_the_same_question_again_changes_nothing() -> None:
    frame = a_frame(*(a_cluster(f"c{number}").labelled(region=str(number % 3)) for number in range(9)))
    policy = a_policy().pick_n(4).spread("region").prefer(10, label("region", "In", "1"))
    first = decided(frame, policy, profile=DEFAULT)

    bindings = carried_out((), first)
    second = decided(frame, policy, *bindings, profile=DEFAULT)

    assert len(first.operations) == 4
    assert (second.outcome, second.operations) == (Outcome.UNCHANGED, ())


def test_L_08_losing_one_cluster_replaces_only_that_one() -> None:
    frame = a_frame(*clusters("a", "b", "c", "d"))
    policy = a_policy().pick_n(3)
    bindings = carried_out((), decided(frame, policy, profile=DEFAULT))

    decision = decided(overlay(frame, remove=["c"]), policy, *bindings, profile=DEFAULT)

    assert operations(decision) == [(Action.UNSCHEDULE, "c"), (Action.CREATE, "a")]


def test_L_08_bindings_are_not_moved_by_scores_that_drift() -> None:
    cheap = a_policy().pick_n(1).prefer(100, label("price", "In", "low"))
    frame = a_frame(a_cluster("a").labelled(price="low"), a_cluster("b").labelled(price="high"))
    bindings = carried_out((), decided(frame, cheap, profile=DEFAULT))
    drifted = a_frame(a_cluster("a").labelled(price="high"), a_cluster("b").labelled(price="low"))

    decision = decided(drifted, cheap, *bindings, profile=DEFAULT)

    assert [one.spec.target_cluster for one in bindings] == ["a"]
    assert (decision.outcome, decision.operations) == (Outcome.UNCHANGED, ())


@pytest.mark.parametrize(
    "worse",
    [
        a_cluster("a").tainted("gpu"),
        a_cluster("a").never_heard(),
        a_cluster("a").without_agent(),
        a_cluster("a").labelled(env="test"),
    ],
    ids=["tainted", "silent", "without an agent", "relabelled"],
)
def test_L_08_nor_by_filters_that_would_reject_them_today(worse: Any) -> None:
    policy = a_policy().pick_n(1).require(label("env", "NotIn", "test"))
    bindings = carried_out((), decided(a_frame(a_cluster("a")), policy, profile=DEFAULT))

    decision = decided(a_frame(worse, a_cluster("b")), policy, *bindings, profile=DEFAULT)

    assert decision.operations == ()


# --- skips ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy, skipped",
    [
        (
            a_policy().pick_n(1),
            {
                "postBatch": ("TopologySpreadConstraints",),
                "filter": ("ClusterAffinity", "NamespaceAffinity", "TopologySpreadConstraints"),
                "score": ("ClusterAffinity", "TopologySpreadConstraints"),
            },
        ),
        (
            a_policy().pick_n(1).require(label("env", "Exists")).in_namespace("shop"),
            {
                "postBatch": ("TopologySpreadConstraints",),
                "filter": ("TopologySpreadConstraints",),
                "score": ("ClusterAffinity", "TopologySpreadConstraints"),
            },
        ),
        (
            a_policy().pick_n(1).spread("region"),
            {
                "filter": ("ClusterAffinity", "NamespaceAffinity"),
                "score": ("ClusterAffinity",),
            },
        ),
        (a_policy(), {"filter": ("ClusterAffinity", "NamespaceAffinity", "TopologySpreadConstraints")}),
        (a_policy().pick_fixed("a"), {}),
    ],
    ids=["nothing asked", "required, in a namespace", "spread", "all", "named"],
)
def test_L_09_skips_are_recorded_per_hook(policy: Any, skipped: dict[str, tuple[str, ...]]) -> None:
    frame = a_frame(a_cluster("a").labelled(env="prod", region="eu").with_namespaces("shop"))

    assert decided(frame, policy, profile=DEFAULT).skipped == skipped
