"""Codes and statuses: what a plugin may say, where it may say it, and how it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fleet.errors import ConfigurationError, PluginError, StaleInputs
from fleet.framework.cycle.decision import Decision, Outcome
from fleet.framework.handle import OfflineHandle
from fleet.framework.profiles.profile import PluginRef, compile_profile
from fleet.framework.status import (
    MAX_TOTAL_SCORE,
    Code,
    Status,
    as_error,
    message_of,
)
from fleet.framework.types import Reason, ReasonTable
from fleet.snapshot import Frame
from tests.builders import a_frame, a_policy, clusters
from tests.doubles import Rejecting, Scoring, chosen, decided
from tests.unit.framework.plugin_fakes import Scripted, a_profile, a_registry, compiled, effects_of, targets

CODES = list(Code)


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("a", "b", "c"))


def deciding(frame: Frame, *plugins: Any, **given: Any) -> Decision:
    return decided(frame, a_policy().pick_n(2), profile=compiled(*plugins, **given))


def error_of(decision: Decision) -> str:
    assert decision.outcome is Outcome.ERROR
    return message_of(decision.error)


# --- scores -----------------------------------------------------------------------------------------------------------


def test_F3_003_weights_whose_total_could_overflow_are_refused() -> None:
    assert MAX_TOTAL_SCORE == 2**63 - 1
    registry = a_registry(Scoring("Heavy"), Scoring("Light"))
    most = MAX_TOTAL_SCORE // 100
    profile = a_profile(score=[PluginRef("Heavy", most), PluginRef("Light", 1)])
    with pytest.raises(ConfigurationError, match=r"^total score of Score plugins could overflow$"):
        compile_profile(registry, profile, OfflineHandle())


def test_F3_003_the_greatest_weight_that_fits_adds_up_without_wrapping(frame: Frame) -> None:
    most = MAX_TOTAL_SCORE // 100
    plugin = Scoring("Heavy", {"a": 100})
    profile = compile_profile(
        a_registry(plugin), a_profile(score=[PluginRef("Heavy", most)], ranking="weighted"), OfflineHandle()
    )
    decision = decided(frame, a_policy().pick_n(1), profile=profile)
    assert decision.round is not None
    assert decision.round.scores.totals().max() == most * 100
    assert chosen(decision) == ["a"]


# --- codes ------------------------------------------------------------------------------------------------------------


def test_F3_005_codes_have_their_numbers() -> None:
    assert [int(code) for code in CODES] == [0, 1, 2, 3, 4, 5, 6]


def test_F3_006_none_from_every_effect_hook_is_success(frame: Frame) -> None:
    silent = Scripted(
        "Silent", reserve=None, unreserve=None, permit=None, pre_bind_preflight=None, pre_bind=None, bind=None
    )
    effects = effects_of(silent, frame=frame)
    chosen_targets = targets("a", "b")
    assert effects.run_reserve(chosen_targets) is None
    assert effects.run_permit(chosen_targets).granted
    assert effects.run_pre_bind(chosen_targets) is None
    assert [effects.run_bind(one) for one in chosen_targets] == [None, None]
    assert effects.violations == []


@pytest.mark.parametrize(
    "method, answer, text",
    [
        ("pre_filter", Status.new(Code.SKIP), "Odd at preFilter: answered Status, not a value and a Status"),
        ("pre_filter", (None, "no"), "Odd at preFilter: answered str, not a Status"),
        ("post_batch", 3, "Odd at postBatch: answered int, not a value and a Status"),
        ("pre_score", True, "Odd at preScore: answered bool, not a Status"),
    ],
)
def test_F3_006_an_answer_of_another_shape_is_an_error_of_the_plugin(
    frame: Frame, method: str, answer: Any, text: str
) -> None:
    assert error_of(deciding(frame, Scripted("Odd", **{method: answer}))) == text


def test_F3_007_an_error_has_no_rejector(frame: Frame) -> None:
    broken = Scripted("Broken", pre_filter=(None, Status.new(Code.ERROR, "disk on fire")))
    decision = deciding(frame, Rejecting("Picky", ["a"]), broken)
    assert error_of(decision) == "Broken at preFilter: disk on fire"
    assert decision.rejectors == ()
    assert decision.pending == ()


@pytest.mark.parametrize(
    "code, asked",
    [(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ["First.pre_filter()"]),
     (Code.UNSCHEDULABLE, ["First.pre_filter()", "Second.pre_filter()"])],
)  # fmt: skip
def test_F3_009_only_unresolvable_keeps_pre_filter_from_asking_on(frame: Frame, code: Code, asked: list[str]) -> None:
    journal: list[str] = []
    first = Scripted("First", journal, pre_filter=(None, Status.new(code, "hopeless")))
    second = Scripted("Second", journal, pre_filter=(None, None))
    decision = deciding(frame, first, second)
    assert journal == asked
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.rejectors == ("First",)


def test_F3_010_wait_as_a_declared_reason_is_refused_at_build() -> None:
    plugin = Rejecting("Patient")
    plugin.REASONS = ReasonTable(Reason("Later", Code.WAIT, "later"))  # type: ignore[misc]
    with pytest.raises(ConfigurationError, match="plugin Patient: invalid code Wait at Filter"):
        compiled(plugin)


@pytest.mark.parametrize(
    "method, answer, hook",
    [
        ("pre_filter", (None, Status.new(Code.WAIT)), "PreFilter"),
        ("post_batch", (1, Status.new(Code.WAIT)), "PostBatch"),
        ("pre_score", Status.new(Code.WAIT), "PreScore"),
    ],
)
def test_F3_010_wait_from_another_decision_hook_is_an_error(frame: Frame, method: str, answer: Any, hook: str) -> None:
    decision = deciding(frame, Scripted("Waits", **{method: answer}))
    assert error_of(decision).endswith(f": invalid code Wait at {hook}")


# --- Skip, in each of its uses ----------------------------------------------------------------------------------------


def test_F3_011_skip_from_bind_leaves_the_target_to_the_next(frame: Frame) -> None:
    journal: list[str] = []
    declining = Scripted("Declining", journal, bind=Status.new(Code.SKIP))
    willing = Scripted("Willing", journal, bind=None)
    (target,) = targets("a")
    assert effects_of(declining, willing, frame=frame).run_bind(target) is None
    assert journal == ["Declining.bind(a)", "Willing.bind(a)"]


def test_F3_011_skip_from_pre_bind_preflight_switches_pre_bind_off_for_the_target(frame: Frame) -> None:
    idle = Scripted("Idle", pre_bind_preflight=Status.new(Code.SKIP), pre_bind=RuntimeError("must not be called"))
    assert effects_of(idle, frame=frame).run_pre_bind(targets("a")) is None


# --- statuses ---------------------------------------------------------------------------------------------------------


def test_F3_012_codes_read_in_camel_case() -> None:
    assert [str(code) for code in CODES] == [
        "Success",
        "Error",
        "Unschedulable",
        "UnschedulableAndUnresolvable",
        "Wait",
        "Skip",
        "Pending",
    ]
    assert f"{Code.UNSCHEDULABLE_AND_UNRESOLVABLE}" == "UnschedulableAndUnresolvable"


@pytest.mark.parametrize(
    "hook, run",
    [
        ("reserve", lambda effects: effects.run_reserve(targets("a"))),
        ("permit", lambda effects: effects.run_permit(targets("a"))),
        ("pre_bind", lambda effects: effects.run_pre_bind(targets("a"))),
    ],
)
def test_F3_013_a_refusal_without_a_reason_is_complained_about(
    frame: Frame, hook: str, run: Callable[[Any], Any]
) -> None:
    refusal = Status.new(Code.UNSCHEDULABLE)
    answer = (refusal, None) if hook == "permit" else refusal
    answers: dict[str, Any] = {hook: answer, "unreserve": None}
    effects = effects_of(Scripted("Curt", **answers), frame=frame)
    run(effects)
    (complaint,) = effects.violations
    assert (complaint.plugin, complaint.target, complaint.text) == ("Curt", "a", "Unschedulable without a reason")


@pytest.mark.parametrize("code", [code for code in CODES if code is not Code.SUCCESS])
def test_F3_015_the_error_reads_like_the_message(code: Code) -> None:
    status = Status(code, ("too small", "too far"), plugin="Fit")
    error = as_error(status)
    assert isinstance(error, PluginError)
    assert str(error) == message_of(status) == "too small, too far"
    assert error.plugin == "Fit"


def test_F3_015_the_error_behind_a_status_is_kept() -> None:
    stale = StaleInputs("read again")
    assert as_error(Status(Code.ERROR, ("read again",), error=stale)) is stale
    cause = ValueError("boom")
    wrapped = as_error(Status(Code.ERROR, ("boom",), error=cause))
    assert wrapped is not None
    assert wrapped.__cause__ is cause


def test_F3_015_a_message_that_says_more_than_the_error_behind_it_wins() -> None:
    status = Status(Code.ERROR, ("Fit at filter: boom",), error=PluginError("boom"))
    assert str(as_error(status)) == "Fit at filter: boom"
