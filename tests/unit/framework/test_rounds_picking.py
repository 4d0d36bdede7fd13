"""How many clusters an attempt looks for, in how many rounds, and which of equals it takes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.operations import Action
from fleet.framework.types import Component, TieBreak
from fleet.snapshot import Frame
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


def test_L_01_enough_refreshes_the_status_and_asks_no_plugin(frame: Frame) -> None:
    door = Rejecting("Door")

    decision = decided(frame, a_policy().pick_n(1), a_binding("a"), profile=profile_of(door))

    assert (decision.outcome, decision.operations, door.calls) == (Outcome.UNCHANGED, (), [])
    assert decision.published is not None
    assert [one.cluster_name for one in decision.published.decisions] == ["a"]


@pytest.mark.parametrize("answer", [None, "3", 2.5], ids=repr)
def test_L_01_a_batch_size_is_a_number(frame: Frame, answer: Any) -> None:
    odd = Answering("Odd", batch=lambda *_: answer)

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(odd))

    assert decision.error is not None
    assert decision.error.reasons[0].startswith("Odd at batch: answered ")


# --- limits and rounds ------------------------------------------------------------------------------------------------


def limits(*offers: int) -> list[Answering]:
    return [Answering(f"Limit{number}", post_batch=limited_to(offer)) for number, offer in enumerate(offers)]


def test_L_02_a_round_that_is_not_filled_is_the_last(frame: Frame) -> None:
    decision = decided(frame, a_policy().pick_n(5), profile=profile_of(Rejecting("Door", ["a", "b"]), *limits(2)))

    assert [(one.cluster, one.step) for one in decision.targets] == [("e", 1), ("d", 1), ("c", 2)]
    assert (decision.outcome, decision.round_count) == (Outcome.PARTIAL, 2)


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


def test_L_07_only_plugins_that_apply_to_named_clusters_judge_them() -> None:
    frame = a_frame(a_cluster("a").tainted("gpu"), a_cluster("b").leaving())

    decision = decided(frame, a_policy().pick_fixed("a", "b"), profile=DEFAULT)

    assert (chosen(decision), decision.invalid) == (["a"], ("b",))
    assert decision.rejectors == ("ClusterEligibility",)


# --- stability --------------------------------------------------------------------------------------------------------


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
