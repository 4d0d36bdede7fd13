"""Permit: asked after everything is reserved, never blocking; one no beats every wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fleet.framework.handle import MAX_PERMIT_WAIT
from fleet.framework.runtime.framework import Framework, with_max_permit_wait, with_snapshot_lister
from fleet.framework.status import Code, Status, message_of
from fleet.snapshot import Frame
from tests.builders import NOW, a_frame, a_policy, a_table, clusters
from tests.unit.framework.plugin_fakes import (
    NO_BINDINGS,
    DoneAtOnce,
    Scripted,
    a_profile,
    a_registry,
    done,
    effects_of,
    no,
    only_for,
    targets,
)

SECOND = 1_000_000_000
WAIT = Status.new(Code.WAIT, "ask the owner")
SOON = timedelta(seconds=30)


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("c1", "c2"))


def waiting(name: str, timeout: Any = SOON, journal: list[str] | None = None) -> Scripted:
    return Scripted(name, journal, permit=(WAIT, timeout))


# --- order ------------------------------------------------------------------------------------------------------------


def test_F3_067_permission_is_asked_after_all_targets_are_reserved() -> None:
    journal: list[str] = []
    framework, admission = admitted(
        Scripted("Guard", journal, permit=None), Scripted("Holder", journal, reserve=None, unreserve=None)
    )
    assert framework.scheduler_name == "test"
    assert admission.failure is None
    assert journal == ["Holder.reserve(c1)", "Holder.reserve(c2)", "Guard.permit(c1)", "Guard.permit(c2)"]


def test_F3_067_a_denial_gives_everything_back_in_reverse() -> None:
    journal: list[str] = []
    guard = Scripted("Guard", journal, permit=only_for("c2", (no("not there"), None)))
    _, admission = admitted(guard, Scripted("Holder", journal, reserve=None, unreserve=None))
    assert admission.failure is not None
    assert (admission.failure.hook, admission.failure.rejector) == ("permit", "Guard")
    assert admission.targets == ()
    assert admission.pending == {}
    assert journal[-2:] == ["Holder.unreserve(c2)", "Holder.unreserve(c1)"]


def test_F3_067_permission_is_not_asked_for_what_could_not_be_reserved() -> None:
    journal: list[str] = []
    holder = Scripted("Holder", journal, reserve=no("full"), unreserve=None)
    _, admission = admitted(Scripted("Guard", journal, permit=None), holder)
    assert admission.failure is not None
    assert journal == ["Holder.reserve(c1)", "Holder.unreserve(c1)"]


def test_F3_067_whoever_waits_stays_reserved() -> None:
    journal: list[str] = []
    _, admission = admitted(waiting("Guard"), Scripted("Holder", journal, reserve=None, unreserve=None))
    assert [one.cluster for one in admission.targets] == ["c1", "c2"]
    assert admission.pending == {name: {"Guard": NOW + 30 * SECOND} for name in ("c1", "c2")}
    assert journal == ["Holder.reserve(c1)", "Holder.reserve(c2)"]


def admitted(guard: Scripted, holder: Scripted) -> Any:
    registry, table = a_registry(guard, holder), a_table(*clusters("c1", "c2"))
    profile = a_profile(reserve=[holder.name()], permit=[guard.name()])
    framework = Framework.build(registry, profile, with_snapshot_lister(table.freeze))
    state = framework.new_state(1)
    inp = framework.inputs(a_policy().request(), NO_BINDINGS, now=NOW)
    decision = framework.decide(inp, state=state)
    return framework, done(
        framework.reserve_and_permit(inp, decision, framework.effects(inp, decision, state=state, now=NOW))
    )


# --- answers ----------------------------------------------------------------------------------------------------------


def test_F3_084_nobody_waits_and_nobody_objects(frame: Frame) -> None:
    journal: list[str] = []
    guards = [Scripted(name, journal, permit=(None, None)) for name in ("A", "B")]
    permission = effects_of(*guards, frame=frame).run_permit(targets("c1", "c2"))
    assert permission.granted
    assert journal == ["A.permit(c1)", "B.permit(c1)", "A.permit(c2)", "B.permit(c2)"]


def test_F3_084_without_plugins_permission_is_granted(frame: Frame) -> None:
    assert effects_of(frame=frame).run_permit(targets("c1")).granted


def test_F3_084_waits_are_collected_per_target_and_plugin(frame: Frame) -> None:
    choosy = Scripted("Choosy", permit=only_for("c2", (WAIT, timedelta(minutes=2))))
    permission = effects_of(waiting("Slow"), choosy, frame=frame).run_permit(targets("c1", "c2"))
    assert not permission.granted
    assert permission.denial is None
    assert permission.pending == {
        "c1": {"Slow": NOW + 30 * SECOND},
        "c2": {"Slow": NOW + 30 * SECOND, "Choosy": NOW + 120 * SECOND},
    }


def test_F3_068_a_wait_and_a_later_denial_are_a_denial_at_once(frame: Frame) -> None:
    journal: list[str] = []
    effects = effects_of(
        waiting("Slow", journal=journal),
        Scripted("Strict", journal, permit=only_for("c1", (no("forbidden"), None))),
        frame=frame,
    )
    permission = effects.run_permit(targets("c1", "c2"))
    assert permission.denial is not None
    assert (permission.denial.rejector, message_of(permission.denial.status)) == ("Strict", "forbidden")
    assert permission.pending == {}
    assert not permission.granted
    assert journal == ["Slow.permit(c1)", "Strict.permit(c1)"]


@pytest.mark.parametrize(
    "asked, granted",
    [
        (timedelta(seconds=1.5), 1_500_000_000),
        (timedelta(minutes=15), MAX_PERMIT_WAIT),
        (timedelta(minutes=15, microseconds=1), MAX_PERMIT_WAIT),
        (timedelta(days=4), MAX_PERMIT_WAIT),
        (timedelta(0), 0),
        (timedelta(seconds=-5), 0),
    ],
    ids=["seconds", "the longest", "a little more", "days", "nothing", "less than nothing"],
)
def test_F3_068_the_timeout_is_clamped(frame: Frame, asked: timedelta, granted: int) -> None:
    assert MAX_PERMIT_WAIT == 900 * SECOND
    permission = effects_of(waiting("Slow", asked), frame=frame).run_permit(targets("c1"))
    assert permission.pending == {"c1": {"Slow": NOW + granted}}


def test_F3_068_the_longest_wait_can_be_configured() -> None:
    table = a_table(*clusters("c1"))
    options = (with_snapshot_lister(table.freeze), with_max_permit_wait(20 * SECOND))
    framework = Framework.build(a_registry(waiting("Slow")), a_profile(permit=["Slow"]), *options)
    inp = framework.inputs(a_policy().request(), NO_BINDINGS, now=NOW)
    decision = framework.decide(inp)
    effects = DoneAtOnce(framework.effects(inp, decision, state=framework.new_state(1), now=NOW))
    assert effects.run_permit(decision.targets).pending == {"c1": {"Slow": NOW + 20 * SECOND}}


def test_F3_068_deadlines_count_from_the_moment_the_attempt_is_told(frame: Frame) -> None:
    effects = effects_of(waiting("Slow"), frame=frame, now=NOW + 7)
    assert effects.run_permit(targets("c1")).pending == {"c1": {"Slow": NOW + 7 + 30 * SECOND}}


def test_F3_068_the_deadline_is_kept_for_the_record(frame: Frame) -> None:
    effects = effects_of(waiting("Slow"), frame=frame)
    effects.run_permit(targets("c1"))
    (answer,) = effects.results
    assert (answer.hook, answer.plugin, answer.target) == ("permit", "Slow", "c1")
    assert (answer.status.code, answer.deadline) == (Code.WAIT, NOW + 30 * SECOND)


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING])
def test_F3_068_whoever_says_no_is_the_rejector(frame: Frame, code: Code) -> None:
    permission = effects_of(Scripted("Strict", permit=(no("closed", code), None)), frame=frame).run_permit(
        targets("c1")
    )
    assert permission.denial is not None
    assert permission.denial.status == Status(code, ("closed",), plugin="Strict")
    assert permission.denial.reason == "Unschedulable"


@pytest.mark.parametrize(
    "answer, text",
    [
        ((Status.new(Code.SKIP), None), "invalid code Skip at Permit"),
        (RuntimeError("no route"), "RuntimeError: no route"),
        (WAIT, "answered Status, not (Status, timeout)"),
        ((WAIT, 30), "asked to wait for 30, not for a timedelta"),
        ((WAIT, None), "asked to wait for None, not for a timedelta"),
    ],
    ids=["Skip", "exception", "no pair", "seconds", "no timeout"],
)
def test_F3_084_anything_else_is_an_error_of_the_plugin(frame: Frame, answer: Any, text: str) -> None:
    permission = effects_of(Scripted("Odd", permit=answer), frame=frame).run_permit(targets("c1"))
    assert permission.denial is not None
    assert permission.denial.internal
    assert permission.denial.reason == "SchedulerError"
    assert message_of(permission.denial.status) == text
    assert permission.pending == {}
