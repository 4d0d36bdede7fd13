"""PreFilter: who is asked, what its answers do to Filter, and what becomes of corrections to what it stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleet.errors import PluginError
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.cycle.runner import Narrowing
from fleet.framework.scalar import ScalarPlugin
from fleet.framework.status import Code, Status, message_of
from fleet.framework.types import Delta
from fleet.snapshot import Frame
from tests.builders import a_frame, a_policy, clusters, names_in
from tests.doubles import (
    Answering,
    Rejecting,
    a_runner,
    chosen,
    decided,
    narrowing_to,
    profile_of,
)


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("a", "b", "c", "d"))


def answering(code: Code, *reasons: str) -> Callable[..., Any]:
    return lambda *_: (None, Status.new(code, *reasons))


def status_of(decision: Decision, cluster: str) -> Status | None:
    assert decision.verdicts is not None
    return decision.verdicts.status_by_name(cluster)


def accepting(*_: object) -> tuple[None, None]:
    return None, None


# --- how often --------------------------------------------------------------------------------------------------------


def test_F3_050_once_without_rounds_and_never_for_named_clusters(frame: Frame) -> None:
    counted = Answering("Counted", pre_filter=accepting)

    decided(frame, a_policy(), profile=profile_of(counted))
    decided(frame, a_policy().pick_fixed("a"), profile=profile_of(counted))

    assert len(counted.calls) == 1


# --- narrowing --------------------------------------------------------------------------------------------------------


def test_F3_051_a_mask_leaves_only_its_rows(frame: Frame) -> None:
    later = Rejecting("Later", ["b"])

    decision = decided(
        frame, a_policy(), profile=profile_of(Answering("Near", pre_filter=narrowing_to("a", "b")), later)
    )

    assert chosen(decision) == ["a"]
    assert later.seen == [{"a", "b"}]
    assert decision.rejectors == ("Later", "Near")


def test_F3_051_a_cluster_left_out_says_which_plugin_left_it_out(frame: Frame) -> None:
    decision = decided(frame, a_policy(), profile=profile_of(Answering("Near", pre_filter=narrowing_to("a"))))

    status = status_of(decision, "c")
    assert status is not None
    assert (status.plugin, status.code) == ("Near", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
    assert message_of(status) == "cluster(s) didn't satisfy plugin(s) [Near]"


def test_F3_051_all_plugins_whose_masks_clash_are_rejectors(frame: Frame) -> None:
    """A change that helps either of them may help the placement."""
    near = Answering("Near", pre_filter=narrowing_to("a"))
    cheap = Answering("Cheap", pre_filter=narrowing_to("b"))

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(near, cheap))

    assert decision.rejectors == ("Cheap", "Near")


def test_F3_051_a_mask_may_be_an_array_of_bools(frame: Frame) -> None:
    array = Answering("Near", pre_filter=lambda ctx, state, req, frame: (frame.valid_mask & False, None))

    assert chosen(decided(frame, a_policy(), profile=profile_of(array))) == []


def test_F3_051_clusters_may_be_named_one_by_one(frame: Frame) -> None:
    class Listed(ScalarPlugin):
        def pre_filter_names(self, ctx: Any, state: Any, placement: Any, clusters: Any) -> Any:
            return [one.name for one in clusters if one.name != "b"] + ["unheard of"], None

    assert chosen(decided(frame, a_policy(), profile=profile_of(Listed()))) == ["a", "c", "d"]


# --- codes ------------------------------------------------------------------------------------------------------------


def test_F3_051_of_two_refusals_the_one_that_cannot_be_helped_counts(frame: Frame) -> None:
    first = Answering("First", pre_filter=answering(Code.UNSCHEDULABLE, "over quota"))
    second = Answering("Second", pre_filter=answering(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "no such volume"))

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(first, second))

    status = status_of(decision, "a")
    assert status is not None
    assert (status.plugin, status.code) == ("Second", Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


def test_F3_051_of_two_refusals_that_may_be_helped_both_are_rejectors(frame: Frame) -> None:
    first = Answering("First", pre_filter=answering(Code.UNSCHEDULABLE, "over quota"))
    second = Answering("Second", pre_filter=answering(Code.UNSCHEDULABLE, "over budget"))

    assert decided(frame, a_policy().pick_n(1), profile=profile_of(first, second)).rejectors == ("First", "Second")


def test_F3_115_a_placement_may_be_pending_because_of_pre_filter(frame: Frame) -> None:
    waiting = Answering("Waiting", pre_filter=answering(Code.PENDING, "volume is being made"))

    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(waiting))

    assert (decision.pending, decision.rejectors) == (("Waiting",), ("Waiting",))


@pytest.mark.parametrize("code", [Code.WAIT, Code.ERROR])
def test_any_other_code_is_an_error_of_the_attempt(frame: Frame, code: Code) -> None:
    decision = decided(frame, profile=profile_of(Answering("Odd", pre_filter=answering(code, "hm"))))

    assert decision.outcome is Outcome.ERROR
    assert decision.error is not None
    assert (decision.error.plugin, decision.targets, decision.operations) == ("Odd", (), ())


def test_F3_076_narrowing_plugins_are_named_with_what_they_left(frame: Frame) -> None:
    near = Answering("Near", pre_filter=narrowing_to("a", "b"))
    profile = profile_of(near, Answering("Idle", pre_filter=accepting))

    narrowing = a_runner(profile, frame).run_pre_filter(frame)

    assert [(name, names_in(frame, mask)) for name, mask in narrowing.masks] == [("Near", {"a", "b"})]
    assert narrowing.refusal is None


def test_F3_094_a_refusal_of_the_placement_fills_every_row_and_every_name(frame: Frame) -> None:
    profile = profile_of(Answering("Quota", pre_filter=answering(Code.UNSCHEDULABLE, "used up")), Rejecting("Later"))
    runner = a_runner(profile, frame)

    verdicts = runner.run_filter(frame, runner.run_pre_filter(frame))

    assert verdicts.rejections == []
    fill = verdicts.fill
    assert fill is not None
    assert all(verdicts.status(row) is fill for row in range(4))
    assert verdicts.status_by_name("nobody knows me") is fill
    assert (verdicts.rejector(0), set(verdicts.codes().tolist()), verdicts.alive) == ("Quota", {Code.UNSCHEDULABLE}, 0)


def test_F3_094_without_a_refusal_an_unlisted_name_has_no_status(frame: Frame) -> None:
    verdicts = a_runner(profile_of(), frame).run_filter(frame, Narrowing())

    assert verdicts.status_by_name("nobody knows me") is None
    assert verdicts.status_by_name("a") is None


# --- corrections ------------------------------------------------------------------------------------------------------

ADDED = (Delta(row=0, placement="web", sign=1),)


def test_F3_052_a_plugin_without_extensions_is_not_asked(frame: Frame) -> None:
    silent = Answering("Silent", pre_filter=accepting, pre_filter_extensions=lambda: None)
    plain = Answering("Plain", pre_filter=accepting)
    runner = a_runner(profile_of(silent, plain), frame)

    runner.run_add_placement(frame, ADDED)
    runner.run_remove_placement(frame, ADDED)

    assert (silent.calls, plain.calls) == (["pre_filter_extensions"] * 2, [])


class Correcting:
    def __init__(self, *answers: Status | None) -> None:
        self.seen: list[tuple[str, list[int]]] = []
        self._answers = list(answers)

    def add(self, ctx: Any, state: Any, req: Any, frame: Frame, deltas: Any) -> Status | None:
        self.seen.append(("add", [one.row for one in deltas]))
        return self._answers.pop(0) if self._answers else None

    def remove(self, ctx: Any, state: Any, req: Any, frame: Frame, deltas: Any) -> Status | None:
        self.seen.append(("remove", [one.row for one in deltas]))
        return self._answers.pop(0) if self._answers else None


def correcting(name: str, extensions: Correcting) -> Answering:
    return Answering(name, pre_filter=accepting, pre_filter_extensions=lambda: extensions)


def test_F3_053_many_rows_are_corrected_in_one_call(frame: Frame) -> None:
    one, other = Correcting(), Correcting()
    runner = a_runner(profile_of(correcting("One", one), correcting("Other", other)), frame)

    runner.run_add_placement(frame, [Delta(0, "web", 1), Delta(2, "db", 1)])
    runner.run_remove_placement(frame, [Delta(2, "db", -1)])

    assert one.seen == other.seen == [("add", [0, 2]), ("remove", [2])]


def test_F3_053_a_plugin_that_skipped_its_filter_has_nothing_to_correct(frame: Frame) -> None:
    extensions = Correcting()
    skipping = Answering("Skipping", pre_filter=answering(Code.SKIP), pre_filter_extensions=lambda: extensions)
    runner = a_runner(profile_of(skipping), frame)
    runner.run_pre_filter(frame)

    runner.run_add_placement(frame, ADDED)

    assert extensions.seen == []


@pytest.mark.parametrize("run", ["run_add_placement", "run_remove_placement"], ids=["F3-078", "F3-079"])
def test_F3_078_F3_079_a_correction_that_fails_is_an_error(frame: Frame, run: str) -> None:
    failing, later = Correcting(Status.new(Code.UNSCHEDULABLE, "cannot count that")), Correcting()
    runner = a_runner(profile_of(correcting("Failing", failing), correcting("Later", later)), frame)

    with pytest.raises(PluginError, match="cannot count that") as caught:
        getattr(runner, run)(frame, ADDED)

    assert (caught.value.plugin, caught.value.hook, later.seen) == ("Failing", "preFilter", [])


def test_F3_078_corrections_may_be_made_cluster_by_cluster(frame: Frame) -> None:
    seen: list[tuple[str, str, str]] = []

    class OneByOne(ScalarPlugin):
        def add_one(self, ctx: Any, state: Any, placement: Any, other: str, cluster: Any) -> Status | None:
            seen.append(("add", other, cluster.name))
            return None

        def remove_one(self, ctx: Any, state: Any, placement: Any, other: str, cluster: Any) -> Status | None:
            seen.append(("remove", other, cluster.name))
            return Status.new(Code.UNSCHEDULABLE, "not there") if cluster.name == "c" else None

        def pre_filter_names(self, ctx: Any, state: Any, placement: Any, clusters: Any) -> Any:
            return None, None

        def pre_filter_extensions(self) -> Any:
            return runner.profile.pre_filter[0].plugin

    runner = a_runner(profile_of(OneByOne()), frame)
    runner.run_add_placement(frame, [Delta(0, "web", 1), Delta(1, "db", 1)])

    with pytest.raises(PluginError, match="not there"):
        runner.run_remove_placement(frame, [Delta(2, "web", -1), Delta(3, "web", -1)])

    assert seen == [("add", "web", "a"), ("add", "db", "b"), ("remove", "web", "c")]
