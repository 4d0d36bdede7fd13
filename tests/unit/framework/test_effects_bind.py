"""PreBind, Bind and PostBind: preparing a target, writing it, and telling whoever wants to know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from fleet.framework.operations import Operation
from fleet.framework.runtime.effects import ContractViolation
from fleet.framework.runtime.framework import Framework, with_snapshot_lister
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status, message_of
from fleet.snapshot import Frame
from plugins.acting.hub_binding_binder import HubBindingBinder
from tests.builders import NOW, a_frame, a_policy, a_table, clusters
from tests.unit.framework.plugin_fakes import (
    NO_BINDINGS,
    DoneAtOnce,
    Scripted,
    a_profile,
    a_registry,
    a_target,
    an_attempt,
    done,
    effects_of,
    no,
    only_for,
    targets,
)

SKIP = Status.new(Code.SKIP)


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("c1", "c2"))


# --- PreBind ----------------------------------------------------------------------------------------------------------


def test_F3_085_targets_in_rank_order_and_plugins_in_configured_order(frame: Frame) -> None:
    journal: list[str] = []
    plugins = [Scripted(name, journal, pre_bind=None) for name in ("A", "B")]
    assert effects_of(*plugins, frame=frame).run_pre_bind(targets("c2", "c1")) is None
    assert journal == ["A.pre_bind(c2)", "B.pre_bind(c2)", "A.pre_bind(c1)", "B.pre_bind(c1)"]


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE])
def test_F3_085_unschedulable_is_a_check_that_failed(frame: Frame, code: Code) -> None:
    failure = effects_of(Scripted("Rights", pre_bind=no("namespace taken", code)), frame=frame).run_pre_bind(
        targets("c1")
    )
    assert failure is not None
    assert (failure.internal, failure.rejector) == (False, "Rights")
    assert failure.status == Status(code, ("namespace taken",), plugin="Rights")


@pytest.mark.parametrize(
    "answer, text",
    [
        (Status.new(Code.ERROR, "timeout"), "timeout"),
        (TimeoutError("30 s"), "TimeoutError: 30 s"),
        (Status.new(Code.PENDING, "soon"), "invalid code Pending at PreBind"),
        (Status.new(Code.WAIT, "soon"), "invalid code Wait at PreBind"),
        (SKIP, "invalid code Skip at PreBind"),
        ("done", "answered str, not a Status"),
    ],
    ids=["Error", "exception", "Pending", "Wait", "Skip", "no Status"],
)
def test_F3_085_anything_else_is_internal(frame: Frame, answer: Any, text: str) -> None:
    failure = effects_of(Scripted("Rights", pre_bind=answer), frame=frame).run_pre_bind(targets("c1"))
    assert failure is not None
    assert (failure.internal, failure.rejector, message_of(failure.status)) == (True, "", text)


@pytest.mark.parametrize("answer", [no("taken"), TimeoutError("30 s")], ids=["check failed", "internal"])
def test_F3_085_both_stop_before_the_next_plugin_and_target(frame: Frame, answer: Any) -> None:
    journal: list[str] = []
    failing, next_one = Scripted("A", journal, pre_bind=answer), Scripted("B", journal, pre_bind=None)
    failure = effects_of(failing, next_one, frame=frame).run_pre_bind(targets("c1", "c2"))
    assert failure is not None
    assert failure.target.cluster == "c1"
    assert journal == ["A.pre_bind(c1)"]


@pytest.mark.parametrize("answer", [no("taken"), TimeoutError("30 s")], ids=["check failed", "internal"])
def test_F3_070_the_reason_of_a_failure_is_not_unschedulable(frame: Frame, answer: Any) -> None:
    failure = effects_of(Scripted("Rights", pre_bind=answer), frame=frame).run_pre_bind(targets("c1"))
    assert failure is not None
    assert (failure.hook, failure.reason) == ("preBind", "BindFailed")


def test_F3_070_nothing_is_prepared_where_preflight_skips(frame: Frame) -> None:
    journal: list[str] = []
    namespaces = Scripted("Namespaces", journal, pre_bind_preflight=only_for("c1", SKIP), pre_bind=None)
    assert effects_of(namespaces, frame=frame).run_pre_bind(targets("c1", "c2")) is None
    assert journal == [
        "Namespaces.pre_bind_preflight(c1)",
        "Namespaces.pre_bind_preflight(c2)",
        "Namespaces.pre_bind(c2)",
    ]


def test_F3_070_a_skip_is_kept_for_the_record(frame: Frame) -> None:
    effects = effects_of(Scripted("Idle", pre_bind_preflight=SKIP, pre_bind=None), frame=frame)
    effects.run_pre_bind(targets("c1"))
    assert [(one.hook, one.plugin, one.status.code) for one in effects.results] == [("preBind", "Idle", Code.SKIP)]


def test_F3_070_whether_there_is_work_is_known_beforehand_and_asked_once(frame: Frame) -> None:
    journal: list[str] = []
    namespaces = Scripted("Namespaces", journal, pre_bind_preflight=only_for("c1", SKIP), pre_bind=None)
    effects, chosen = effects_of(namespaces, frame=frame), targets("c1", "c2")
    assert not effects.needs_pre_bind(chosen[:1])
    assert effects.needs_pre_bind(chosen)
    effects.run_pre_bind(chosen)
    assert journal.count("Namespaces.pre_bind_preflight(c1)") == 1
    assert journal.count("Namespaces.pre_bind_preflight(c2)") == 1


def test_F3_070_a_plugin_without_preflight_always_has_work(frame: Frame) -> None:
    assert effects_of(Scripted("Rights", pre_bind=None), frame=frame).needs_pre_bind(targets("c1"))


def test_F3_070_without_plugins_there_is_no_work(frame: Frame) -> None:
    assert not effects_of(frame=frame).needs_pre_bind(targets("c1"))


@pytest.mark.parametrize(
    "answer, text",
    [
        (no("taken"), "invalid code Unschedulable at PreBindPreflight"),
        (OSError("no route"), "OSError: no route"),
    ],
    ids=["Unschedulable", "exception"],
)
def test_F3_070_a_preflight_can_only_skip(frame: Frame, answer: Any, text: str) -> None:
    journal: list[str] = []
    effects = effects_of(Scripted("Rights", journal, pre_bind_preflight=answer, pre_bind=None), frame=frame)
    failure = effects.run_pre_bind(targets("c1"))
    assert failure is not None
    assert failure.internal
    assert message_of(failure.status) == text
    assert journal == ["Rights.pre_bind_preflight(c1)"]


# --- Bind -------------------------------------------------------------------------------------------------------------


def test_F3_072_the_first_that_does_not_skip_ends_the_chain(frame: Frame) -> None:
    journal: list[str] = []
    plugins = [Scripted(name, journal, bind=answer) for name, answer in (("A", SKIP), ("B", None), ("C", None))]
    assert effects_of(*plugins, frame=frame).run_bind(a_target("c1")) is None
    assert journal == ["A.bind(c1)", "B.bind(c1)"]


@pytest.mark.parametrize("answer", [Status.new(Code.ERROR, "refused"), OSError("refused")], ids=["Error", "exception"])
def test_F3_072_an_error_ends_the_chain_too(frame: Frame, answer: Any) -> None:
    journal: list[str] = []
    plugins = [Scripted("A", journal, bind=answer), Scripted("B", journal, bind=None)]
    failure = effects_of(*plugins, frame=frame).run_bind(a_target("c1"))
    assert failure is not None
    assert (failure.hook, failure.target.cluster, failure.status.plugin) == ("bind", "c1", "A")
    assert failure.reason == "BindFailed"
    assert journal == ["A.bind(c1)"]


@pytest.mark.parametrize("code", [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING, Code.WAIT])
def test_F3_072_a_binder_cannot_reject(frame: Frame, code: Code) -> None:
    failure = effects_of(Scripted("A", bind=no("no", code)), frame=frame).run_bind(a_target("c1"))
    assert failure is not None
    assert failure.internal
    assert message_of(failure.status) == f"invalid code {code} at Bind"


def test_F3_086_all_skipping_is_a_failure(frame: Frame) -> None:
    effects = effects_of(*(Scripted(name, bind=SKIP) for name in ("A", "B")), frame=frame)
    failure = effects.run_bind(a_target("c1"))
    assert failure is not None
    assert (failure.internal, message_of(failure.status)) == (True, "no bind plugin handled")
    assert [(one.plugin, one.status.code) for one in effects.results] == [("A", Code.SKIP), ("B", Code.SKIP)]


def test_F3_086_nobody_to_bind_is_a_failure(frame: Frame) -> None:
    effects = effects_of(frame=frame)
    effects._hooks = {**effects._hooks, "bind": ()}
    failure = effects.run_bind(a_target("c1"))
    assert failure is not None
    assert message_of(failure.status) == "no bind plugin handled"


# --- the default binder -----------------------------------------------------------------------------------------------


class Hub:
    def __init__(self, answer: Status | None = None) -> None:
        self.answer = answer
        self.written: list[Operation] = []

    async def write(self, operation: Operation) -> Status | None:
        self.written.append(operation)
        return self.answer


def bound_on(hub: Hub) -> Any:
    """What binding the targets of one attempt says, on a fleet of two."""
    table = a_table(*clusters("c1", "c2"))
    framework = Framework.build(a_registry(), a_profile(), with_snapshot_lister(table.freeze))
    inp = framework.inputs(a_policy().request(), NO_BINDINGS, now=NOW)
    decision = framework.decide(inp)
    effects = DoneAtOnce(framework.effects(inp, decision, state=framework.new_state(1), now=NOW))
    effects.ctx.write = hub.write
    return decision, [effects.run_bind(target) for target in decision.targets]


def test_F3_071_the_default_binder_writes_the_operation_of_each_target() -> None:
    hub = Hub()
    decision, failures = bound_on(hub)
    assert failures == [None, None]
    assert hub.written == [target.operation for target in decision.targets]


def test_F3_071_a_write_that_fails_is_a_failed_bind() -> None:
    _, failures = bound_on(Hub(Status.new(Code.ERROR, "409 conflict")))
    assert [message_of(one.status) for one in failures] == ["409 conflict", "409 conflict"]
    assert {one.status.plugin for one in failures} == {"HubBindingBinder"}


def test_F3_071_without_a_hub_nothing_is_bound() -> None:
    binder, target = HubBindingBinder(), a_target("c1")
    status = done(binder.bind(an_attempt(), CycleState(), a_policy().request(), target))
    assert (status.code, message_of(status)) == (Code.ERROR, "there is no hub to write to")


def test_F3_071_a_target_that_is_in_place_already_is_not_written() -> None:
    hub, ctx = Hub(), an_attempt()
    ctx.write = hub.write
    in_place = replace(a_target("c1"), operation=None)
    assert done(HubBindingBinder().bind(ctx, CycleState(), a_policy().request(), in_place)) is None
    assert hub.written == []


# --- PostBind ---------------------------------------------------------------------------------------------------------


def test_F3_087_everybody_is_told_even_if_the_first_raises(frame: Frame) -> None:
    journal: list[str] = []
    error = ValueError("boom")
    plugins = [Scripted(name, journal, post_bind=answer) for name, answer in (("A", error), ("B", None), ("C", None))]
    effects = effects_of(*plugins, frame=frame)
    effects.run_post_bind(a_target("c1"))
    assert journal == ["A.post_bind(c1)", "B.post_bind(c1)", "C.post_bind(c1)"]
    assert effects.violations == [ContractViolation("postBind", "A", "c1", "ValueError: boom", error)]


@pytest.mark.parametrize("answer", [no("too late"), Status.new(Code.SUCCESS)], ids=["refusal", "Success"])
def test_F3_073_a_returned_status_is_ignored_with_a_complaint(frame: Frame, answer: Status) -> None:
    journal: list[str] = []
    plugins = [Scripted(name, journal, post_bind=answer) for name in ("A", "B")]
    effects = effects_of(*plugins, frame=frame)
    effects.run_post_bind(a_target("c1"))
    assert journal == ["A.post_bind(c1)", "B.post_bind(c1)"]
    assert [(one.plugin, one.error) for one in effects.violations] == [("A", None), ("B", None)]
    assert all(one.text.startswith("its answer is ignored: ") for one in effects.violations)


def test_F3_074_exceptions_are_kept_for_the_log_and_nothing_else_happens(frame: Frame) -> None:
    error = ValueError("boom")
    effects = effects_of(Scripted("A", post_bind=error), frame=frame)
    effects.run_post_bind(a_target("c1"))
    assert [one.error for one in effects.violations] == [error]
    assert effects.results == []


RUNS: dict[str, Callable[[Any], Any]] = {
    "reserve": lambda effects: effects.run_reserve(targets("c1")),
    "permit": lambda effects: effects.run_permit(targets("c1")),
    "pre_bind": lambda effects: effects.run_pre_bind(targets("c1")),
    "bind": lambda effects: effects.run_bind(a_target("c1")),
    "post_bind": lambda effects: effects.run_post_bind(a_target("c1")),
}


@pytest.mark.parametrize("hook", RUNS)
def test_what_stops_the_process_is_not_swallowed(frame: Frame, hook: str) -> None:
    answers: dict[str, Any] = {hook: KeyboardInterrupt(), "unreserve": None}
    with pytest.raises(KeyboardInterrupt):
        RUNS[hook](effects_of(Scripted("A", **answers), frame=frame))
