"""Filter: plugins in configured order, the first rejection of every cluster, and what is told of it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from fleet.framework.context import HookContext
from fleet.framework.cycle.decision import Outcome
from fleet.framework.cycle.inspection import explain_all, judge_all
from fleet.framework.cycle.runner import Narrowing
from fleet.framework.request import PlacementRequest
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status, published_text
from fleet.framework.types import PluginTraits, Reason, ReasonTable, Verdict
from fleet.framework.verdicts import ALIVE, Verdicts
from fleet.snapshot import Frame
from fleet.snapshot.columns.bitset import from_bools
from fleet.snapshot.sidedata import PlacedBinding
from fleet.snapshot.table import overlay
from plugins import IN_TREE
from plugins.default_profile import compile_default
from tests.builders import a_binding, a_cluster, a_frame, a_policy, clusters, label, names_in
from tests.doubles import (
    Answering,
    Rejecting,
    RejectingOneByOne,
    Scoring,
    a_runner,
    chosen,
    decided,
    inputs,
    profile_of,
)
from tests.strategies import random_scenario
from tests.vectors.engine import decision_input


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("a", "b", "c", "d"))


def verdicts_of(frame: Frame, *plugins: Any) -> Verdicts:
    return a_runner(profile_of(*plugins), frame).run_filter(frame, Narrowing())


# --- order ------------------------------------------------------------------------------------------------------------


def test_F3_055_when_nobody_is_alive_nobody_else_is_asked(frame: Frame) -> None:
    last = Rejecting("Last")

    decided(frame, profile=profile_of(Rejecting("All", "abcd"), last))

    assert last.calls == []


def test_F3_055_a_per_cluster_filter_sees_live_clusters_only_and_by_name() -> None:
    frame = a_frame(*clusters("d", "b", "a", "c"))
    scalar = RejectingOneByOne("Scalar")

    decided(frame, profile=profile_of(Rejecting("First", ["b"]), scalar))

    assert scalar.judged == ["a", "c", "d"]


@pytest.mark.parametrize("seed", range(10))
def test_F3_131_first_is_the_first_rejecting_plugin(seed: int) -> None:
    dice = random.Random(seed)
    names = dice.sample([f"c{number}" for number in range(99)], dice.randrange(30))
    frame = a_frame(*clusters(*names))
    plugins = [
        Rejecting(f"P{number}", {name: dice.choice((1, 2, 3)) for name in names if dice.random() < 0.3})
        for number in range(dice.randrange(5))
    ]

    verdicts = verdicts_of(frame, *plugins)

    for row, name in enumerate(names):
        first = next((place for place, one in enumerate(plugins) if name in one.rejected), ALIVE)
        assert verdicts.first[row] == first
        assert verdicts.reason[row] == (0 if first == ALIVE else plugins[first].rejected[name])
        assert verdicts.rejector(row) == (None if first == ALIVE else f"P{first}")
        assert bool(verdicts.alive >> row & 1) == (first == ALIVE)


# --- frames -----------------------------------------------------------------------------------------------------------


class OnePerCluster(PluginTraits):
    """Rejects clusters on which anybody is."""

    REASONS = ReasonTable(Reason("Taken", Code.UNSCHEDULABLE, "somebody is there"))

    def name(self) -> str:
        return "OnePerCluster"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        pointers = frame.presence().pointers
        return Verdict(ok=from_bools(pointers[1:] == pointers[:-1]))


def test_F3_056_an_overlay_without_the_victim_passes_where_the_base_fails(frame: Frame) -> None:
    base = overlay(frame, place=[("a", PlacedBinding("victim")), ("b", PlacedBinding("other"))])
    without = overlay(base, displace=[("a", "victim")])
    runner = a_runner(profile_of(OnePerCluster()), base)

    passed = [names_in(one, runner.run_filter(one, Narrowing()).alive) for one in (base, without, base)]

    assert passed == [{"c", "d"}, {"a", "c", "d"}, {"c", "d"}]


def test_F3_056_a_peer_assumed_on_an_overlay_counts(frame: Frame) -> None:
    assumed = overlay(frame, place=[("c", PlacedBinding("peer"))])

    assert chosen(decided(assumed, profile=profile_of(OnePerCluster()))) == ["a", "b", "d"]


def test_rows_set_aside_are_rejected_by_the_framework_and_not_shown_to_plugins(frame: Frame) -> None:
    plugin = Rejecting("Plugin")

    decision = decided(frame.exclude([1, 3]), profile=profile_of(plugin))

    assert plugin.seen == [{"a", "c"}]
    assert decision.rejectors == ("Framework",)
    assert chosen(decision) == ["a", "c"]


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer, text",
    [
        (lambda *_: Status.new(Code.SKIP), "invalid code Skip at Filter"),
        (lambda *_: Verdict(ok=0, reason=np.ones(4, dtype=np.int64)), "reasons should be uint16[4], not int64[4]"),
        (lambda *_: None, "answered NoneType, not a Verdict"),
        (lambda *_: dict[str, Any]()["absent"], "KeyError: 'absent'"),
    ],
    ids=["skip", "reason dtype", "nothing", "exception"],
)
def test_F3_125_F3_077_a_wrong_answer_aborts_the_attempt_and_names_plugin_and_hook(
    frame: Frame, answer: Any, text: str
) -> None:
    decision = decided(frame, a_policy().pick_n(2), profile=profile_of(Answering("Odd", filter=answer)))

    assert (decision.outcome, decision.targets, decision.operations) == (Outcome.ERROR, (), ())
    assert decision.error is not None
    assert decision.error.code is Code.ERROR
    assert (decision.error.plugin, decision.rejectors) == ("Odd", ())
    assert "Odd at filter" in decision.error.reasons[0]
    assert text in decision.error.reasons[0]


@pytest.mark.parametrize("code", [Code.WAIT, Code.SKIP, Code.ERROR])
def test_F3_077_so_does_an_illegal_code_for_one_cluster(frame: Frame, code: Code) -> None:
    class Odd(ScalarPlugin):
        def filter_one(self, ctx: Any, state: Any, placement: Any, cluster: Any) -> Status | None:
            return Status.new(code, "hm") if cluster.name == "c" else None

    decision = decided(frame, profile=profile_of(Odd()))

    assert decision.error is not None
    assert "cluster c" in decision.error.reasons[0]


def test_F3_133_an_undeclared_reason_of_a_dead_row_is_nobodys_business(frame: Frame) -> None:
    numbers = np.array([9, 1, 0, 0], dtype=np.uint16)
    second = Answering(
        "Second", filter=lambda *_: Verdict(ok=0b1100, reason=numbers), traits={"REASONS": Rejecting.REASONS}
    )

    verdicts = verdicts_of(frame, Rejecting("First", ["a"]), second)

    assert verdicts.first.tolist() == [0, 1, ALIVE, ALIVE]


@pytest.mark.parametrize("reason", [0, 4])
def test_F3_133_an_undeclared_reason_of_a_live_row_is_an_error(frame: Frame, reason: int) -> None:
    numbers = np.array([1, 1, reason, 1], dtype=np.uint16)
    plugin = Answering("Odd", filter=lambda *_: Verdict(ok=0, reason=numbers), traits={"REASONS": Rejecting.REASONS})

    decision = decided(frame, profile=profile_of(plugin))

    assert decision.error is not None
    assert f"undeclared reason {reason} (it declares 3)" in decision.error.reasons[0]


# --- telling ----------------------------------------------------------------------------------------------------------


def test_a_rejection_is_told_with_plugin_code_and_message(frame: Frame) -> None:
    verdicts = verdicts_of(frame, Rejecting("Door", {"a": 1, "b": 2, "c": 3}))

    told = [verdicts.status(row) for row in range(4)]

    assert [one and (one.plugin, one.code, one.reasons) for one in told] == [
        ("Door", Code.UNSCHEDULABLE, ("refused by Door",)),
        ("Door", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("forbidden by Door",)),
        ("Door", Code.PENDING, ("Door is waiting",)),
        None,
    ]
    assert verdicts.codes().tolist() == [2, 3, 6, 0]


@pytest.mark.parametrize("kind", [Rejecting, RejectingOneByOne], ids=["vector", "scalar"])
def test_equal_rejections_share_one_status(frame: Frame, kind: Any) -> None:
    verdicts = verdicts_of(frame, kind("Door", ["a", "b"]))

    assert verdicts.status(0) is verdicts.status(1)
    assert verdicts.status(0) is verdicts.status(0)


def test_rejections_are_counted_by_plugin_and_reason(frame: Frame) -> None:
    verdicts = verdicts_of(frame, Rejecting("One", {"a": 2}), Rejecting("Two", {"a": 1, "b": 1, "c": 1}))

    assert verdicts.counts() == {("One", "Forbidden"): 1, ("Two", "Refused"): 2}
    assert sum(verdicts.counts().values()) == np.count_nonzero(verdicts.first != ALIVE)


def test_F3_115_plugins_that_wait_are_pending_and_rejectors(frame: Frame) -> None:
    decision = decided(frame, profile=profile_of(Rejecting("Waiting", {"a": 3}), Rejecting("Strict", {"b": 1})))

    assert (decision.pending, decision.rejectors) == (("Waiting",), ("Strict", "Waiting"))


def test_an_already_selected_cluster_is_no_rejection() -> None:
    frame = a_frame(*clusters("a", "b", "c"))

    decision = decided(frame, a_policy().pick_n(2), a_binding("a"), profile=compile_default())

    verdicts = decision.verdicts
    assert verdicts is not None
    assert names_in(frame, verdicts.already_selected()) == {"a"}
    assert decision.rejectors == ()


def test_L_05_already_selected_is_a_detail_of_an_ordinary_rejection() -> None:
    frame = a_frame(*clusters("a", "b"))

    decision = decided(frame, a_policy().pick_n(2), a_binding("a"), profile=compile_default())

    status = decision.verdicts and decision.verdicts.status(0)
    assert isinstance(status, Status)
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE, ("cluster is already selected",))
    assert status.details == {"alreadySelected": True}
    assert decision.verdicts is not None
    assert decision.verdicts.counts() == {("SamePlacementAntiAffinity", "AlreadySelected"): 1}


def test_one_cluster_one_binding_also_without_a_plugin_that_says_so(frame: Frame) -> None:
    decision = decided(frame, a_policy().pick_n(2), a_binding("d"), profile=profile_of(Scoring("S", {"d": 9, "a": 5})))

    assert chosen(decision) == ["a"]
    assert decision.active == 2


# --- everybody's opinion ----------------------------------------------------------------------------------------------


def test_F3_132_all_asks_every_filter_about_every_row(frame: Frame) -> None:
    inp = inputs(frame, profile=profile_of(Rejecting("One", ["a", "b"]), Rejecting("Two", ["b", "c"])))
    decision = decided(frame, profile=inp.profile)

    matrix = {name: names_in(frame, rows) for name, rows in explain_all(decision, inp)}

    assert matrix == {"One": {"a", "b"}, "Two": {"b", "c"}}


def test_F3_077_F3_132_asking_all_leaves_the_decision_and_its_digest() -> None:
    for seed in range(30):
        inp = decision_input(random_scenario(seed))
        decision = decided(inp.frame, inp.request, *inp.bindings, profile=inp.profile, now=inp.now)
        digest, rounds = decision.digest, [one.verdicts.first.tolist() for one in decision.rounds]

        judge_all(decision, inp)

        again = decided(inp.frame, inp.request, *inp.bindings, profile=inp.profile, now=inp.now)
        assert digest == decision.digest == again.digest
        assert [one.verdicts.first.tolist() for one in decision.rounds] == rounds


def test_F3_132_the_first_rejection_is_always_recorded(frame: Frame) -> None:
    """There is no faster mode without it: the columns come with every decision."""
    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(Rejecting("One", ["a"]), Scoring("S")))

    assert decision.verdicts is not None
    assert decision.verdicts.first.tolist() == [0, ALIVE, ALIVE, ALIVE]


def test_F3_132_a_filter_that_was_skipped_has_no_opinion(frame: Frame) -> None:
    skipping = Rejecting("Skipping", ["a"])
    skipping.pre_filter = lambda *_: (None, Status.new(Code.SKIP))  # type: ignore[attr-defined]
    inp = inputs(frame, profile=profile_of(skipping, Rejecting("One", ["b"])))

    matrix = {name: names_in(frame, rows) for name, rows in explain_all(decided(frame, profile=inp.profile), inp)}

    assert matrix == {"One": {"b"}}


@pytest.fixture
def _without_explanations(monkeypatch: pytest.MonkeyPatch) -> None:
    def explaining(*_: object) -> None:
        raise AssertionError("a row was explained")

    for _, plugin in IN_TREE:
        for name in ("explain_row", "build_row_explainer"):
            if hasattr(plugin, name):
                monkeypatch.setattr(plugin, name, explaining)


@pytest.mark.usefixtures("_without_explanations")
@pytest.mark.parametrize("seed", range(8))
def test_F3_133_nobody_is_asked_to_explain_while_deciding(seed: int) -> None:
    inp = decision_input(random_scenario(seed))

    decision = decided(inp.frame, inp.request, *inp.bindings, profile=inp.profile, now=inp.now)

    assert len(decision.digest) == 32


@pytest.mark.usefixtures("_without_explanations")
def test_a_status_is_explained_for_its_text_only_where_the_text_has_details() -> None:
    fleet = a_frame(a_cluster("a").labelled(env="test"), a_cluster("b").tainted("gpu"))
    decision = decided(fleet, a_policy().pick_n(1).require(label("env", "In", "prod")), profile=compile_default())
    assert decision.published is not None
    assert len(decision.published.decisions) == 2
    assert decision.verdicts is not None
    with pytest.raises(AssertionError, match="explained"):
        decision.verdicts.status(0)


@pytest.mark.usefixtures("_without_explanations")
def test_a_fixed_cluster_is_not_explained_for_a_text_without_details() -> None:
    fleet = a_frame(a_cluster("a").leaving())
    decision = decided(fleet, a_policy().pick_fixed("a"), profile=compile_default())
    assert decision.published is not None
    assert "left the fleet" in decision.published.decisions[0].reason


@pytest.mark.parametrize(
    "form, mentions",
    [
        ("no", False),
        ("{plugin} says no", False),
        ("{plugin:>9}, {{a}}", False),
        ("{a}", True),
        ("{a.b!r}", True),
        ("{plugin.a}", True),
        ("{plugin:{a}}", True),
    ],
)
def test_the_details_that_a_message_mentions(form: str, *, mentions: bool) -> None:
    assert Reason("No", Code.UNSCHEDULABLE, form).mentions_details is mentions


@pytest.mark.parametrize("seed", range(30))
def test_a_brief_status_has_the_text_of_the_full_one(seed: int) -> None:
    inp = decision_input(random_scenario(seed))
    decision = decided(inp.frame, inp.request, *inp.bindings, profile=inp.profile, now=inp.now)
    for each in decision.rounds:
        for name in inp.frame.names.ordered:
            brief = each.verdicts.status_by_name(name, is_brief=True)
            full = each.verdicts.status_by_name(name)
            assert (brief and published_text(brief)) == (full and published_text(full))


# --- nobody filters ---------------------------------------------------------------------------------------------------


def test_F3_088_without_filters_every_row_passes_without_a_scan(frame: Frame) -> None:
    verdicts = verdicts_of(frame, Scoring("S"))

    assert (names_in(frame, verdicts.alive), verdicts.rejections) == ({"a", "b", "c", "d"}, [])


@pytest.mark.parametrize(
    "cursor, wanted, picked, next_cursor",
    [
        (0, 2, ["a", "b"], 2),
        (1, 2, ["b", "c"], 3),
        (3, 3, ["d", "a", "b"], 6),
        (6, 1, ["c"], 7),
        (0, 9, list("abcd"), 4),
    ],
)
def test_F3_088_without_filters_and_scores_clusters_are_taken_in_turn_from_the_cursor(
    cursor: int, wanted: int, picked: list[str], next_cursor: int
) -> None:
    frame = a_frame(*clusters("c", "a", "d", "b"))

    decision = decided(frame, a_policy().pick_n(wanted), profile=profile_of(), cursor=cursor)

    assert chosen(decision) == picked
    assert decision.next_cursor == next_cursor


def test_F3_088_in_turn_means_domains_in_turn_where_the_profile_says_so() -> None:
    zones = {"a": "1", "b": "1", "c": "1", "d": "2"}
    frame = a_frame(*(a_cluster(name).labelled(zone=zone) for name, zone in zones.items()))

    decision = decided(frame, a_policy().pick_n(3), profile=profile_of(scan_domain_key="zone"))

    assert chosen(decision) == ["a", "d", "b"]


def test_F3_088_a_cluster_that_is_in_use_is_not_taken_again() -> None:
    frame = a_frame(*clusters("a", "b", "c"))

    decision = decided(frame, a_policy().pick_n(2), a_binding("a"), profile=profile_of())

    assert chosen(decision) == ["b"]
