"""Reserve and Unreserve: all or nothing, in rank order, and what an attempt does when a target cannot be had."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.framework.cycle.decision import Outcome
from fleet.framework.profiles.adapter import UnreserveOnly
from fleet.framework.runtime.effects import ContractViolation
from fleet.framework.runtime.framework import Framework, with_snapshot_lister
from fleet.framework.runtime.reserve_permit import PermitResult
from fleet.framework.state import CycleState, StateKey
from fleet.framework.status import Code, Status, message_of
from fleet.snapshot import Frame, Table
from tests.builders import (
    NOW,
    BindingBuilder,
    PolicyBuilder,
    a_binding,
    a_cluster,
    a_frame,
    a_policy,
    a_table,
    clusters,
)
from tests.unit.framework.plugin_fakes import (
    NO_BINDINGS,
    Counter,
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

REFUSALS = [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING]


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("c1", "c2", "c3"))


def holder(name: str, journal: list[str], **answers: Any) -> Scripted:
    return Scripted(name, journal, **{"reserve": None, "unreserve": None, **answers})


# --- order ------------------------------------------------------------------------------------------------------------


def test_F3_082_targets_in_rank_order_and_plugins_in_configured_order(frame: Frame) -> None:
    journal: list[str] = []
    effects = effects_of(holder("A", journal), holder("B", journal), frame=frame)
    assert effects.run_reserve(targets("c2", "c1")) is None
    assert journal == ["A.reserve(c2)", "B.reserve(c2)", "A.reserve(c1)", "B.reserve(c1)"]


def test_F3_083_unreserve_is_the_exact_reverse_of_reserve(frame: Frame) -> None:
    journal: list[str] = []
    effects = effects_of(*(holder(name, journal) for name in "ABC"), frame=frame)
    chosen = targets("c1", "c2")
    effects.run_reserve(chosen)
    reserved = journal.copy()
    journal.clear()
    effects.run_unreserve(chosen)
    assert len(journal) == 6
    assert journal == [call.replace("reserve", "unreserve") for call in reversed(reserved)]


def test_F3_082_the_first_failure_stops_and_gives_back_every_target_so_far(frame: Frame) -> None:
    journal: list[str] = []
    second = holder("B", journal, reserve=only_for("c2", no("full")))
    effects = effects_of(holder("A", journal), second, holder("C", journal), frame=frame)
    failure = effects.run_reserve(targets("c1", "c2", "c3"))
    assert failure is not None
    assert (failure.target.cluster, failure.rejector, message_of(failure.status)) == ("c2", "B", "full")
    assert journal == [
        *("A.reserve(c1)", "B.reserve(c1)", "C.reserve(c1)"),
        *("A.reserve(c2)", "B.reserve(c2)"),
        *("C.unreserve(c2)", "B.unreserve(c2)", "A.unreserve(c2)"),
        *("C.unreserve(c1)", "B.unreserve(c1)", "A.unreserve(c1)"),
    ]


def test_F3_082_nothing_to_reserve_is_fine(frame: Frame) -> None:
    assert effects_of(holder("A", []), frame=frame).run_reserve([]) is None


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", REFUSALS)
def test_F3_064_a_refusal_fails_the_attempt_and_names_the_rejector(frame: Frame, code: Code) -> None:
    effects = effects_of(holder("Quota", [], reserve=no("over quota", code)), frame=frame)
    failure = effects.run_reserve(targets("c1"))
    assert failure is not None
    assert failure.status == Status(code, ("over quota",), plugin="Quota")
    assert (failure.internal, failure.rejector, failure.reason) == (False, "Quota", "Unschedulable")


@pytest.mark.parametrize(
    "answer, text",
    [
        (Status.new(Code.ERROR, "ledger unreadable"), "ledger unreadable"),
        (KeyError("c1"), "KeyError: 'c1'"),
        (Status.new(Code.WAIT, "later"), "invalid code Wait at Reserve"),
        (Status.new(Code.SKIP), "invalid code Skip at Reserve"),
        (True, "answered bool, not a Status"),
    ],
    ids=["Error", "exception", "Wait", "Skip", "no Status"],
)
def test_F3_082_what_is_no_refusal_is_an_error_without_a_rejector(frame: Frame, answer: Any, text: str) -> None:
    effects = effects_of(holder("Quota", [], reserve=answer), frame=frame)
    failure = effects.run_reserve(targets("c1"))
    assert failure is not None
    assert (failure.status.code, failure.status.plugin, message_of(failure.status)) == (Code.ERROR, "Quota", text)
    assert (failure.internal, failure.rejector, failure.reason) == (True, "", "SchedulerError")


def test_F3_082_details_of_a_refusal_are_kept(frame: Frame) -> None:
    refusal = Status(Code.UNSCHEDULABLE, ("over quota",), details={"limit": 4})
    failure = effects_of(holder("Quota", [], reserve=refusal), frame=frame).run_reserve(targets("c1"))
    assert failure is not None
    assert failure.status.details == {"limit": 4}


def test_F3_082_every_answer_is_kept_for_the_record(frame: Frame) -> None:
    effects = effects_of(holder("A", []), holder("B", [], reserve=only_for("c2", no("full"))), frame=frame)
    effects.run_reserve(targets("c1", "c2"))
    assert [(one.hook, one.plugin, one.target, one.status.code) for one in effects.results] == [
        ("reserve", "A", "c1", Code.SUCCESS),
        ("reserve", "B", "c1", Code.SUCCESS),
        ("reserve", "A", "c2", Code.SUCCESS),
        ("reserve", "B", "c2", Code.UNSCHEDULABLE),
    ]


def test_F3_082_a_note_of_an_effect_hook_goes_under_its_plugin(frame: Frame) -> None:
    def reserve(ctx: Any, state: Any, placement: Any, target: Any) -> None:
        ctx.note("booked", target.cluster)

    effects = effects_of(holder("Ledger", [], reserve=reserve), frame=frame)
    effects.run_reserve(targets("c1"))
    assert effects.ctx.notes == {"Ledger": {"booked": "c1"}}


# --- unreserve --------------------------------------------------------------------------------------------------------

BOOKED = StateKey("reserve/Ledger")


class Ledger:
    """Books one unit per target, and gives it back once."""

    def __init__(self) -> None:
        self.booked: dict[str, int] = {}

    def name(self) -> str:
        return "Ledger"

    def reserve(self, ctx: Any, state: CycleState, placement: Any, target: Any) -> None:
        self.booked[target.cluster] = self.booked.get(target.cluster, 0) + 1
        state.write(StateKey(f"{BOOKED}/{target.cluster}"), Counter(1))

    def unreserve(self, ctx: Any, state: CycleState, placement: Any, target: Any) -> None:
        key = StateKey(f"{BOOKED}/{target.cluster}")
        if state.read(key, default=None) is not None:
            self.booked[target.cluster] -= 1
            state.delete(key)


def test_F3_066_a_second_unreserve_does_no_harm(frame: Frame) -> None:
    ledger = Ledger()
    effects, chosen = effects_of(ledger, frame=frame), targets("c1", "c2")
    ledger.booked["c1"] = 5  # of other placements
    effects.run_reserve(chosen)
    assert ledger.booked == {"c1": 6, "c2": 1}
    effects.run_unreserve(chosen)
    effects.run_unreserve(chosen)
    assert ledger.booked == {"c1": 5, "c2": 0}


def test_F3_066_a_raising_plugin_does_not_stop_the_rest(frame: Frame) -> None:
    journal: list[str] = []
    error = OSError("gone")
    effects = effects_of(holder("A", journal), holder("B", journal, unreserve=error), holder("C", journal), frame=frame)
    effects.run_unreserve(targets("c1", "c2"))
    assert journal == [f"{name}.unreserve({target})" for target in ("c2", "c1") for name in "CBA"]
    assert effects.violations == [
        ContractViolation("unreserve", "B", target, "OSError: gone", error) for target in ("c2", "c1")
    ]


def test_F3_066_a_raising_unreserve_does_not_hide_why_reserve_failed(frame: Frame) -> None:
    effects = effects_of(holder("A", [], reserve=no("full"), unreserve=OSError("gone")), frame=frame)
    failure = effects.run_reserve(targets("c1"))
    assert failure is not None
    assert message_of(failure.status) == "full"


def test_F3_066_an_answer_of_unreserve_is_ignored_and_complained_about(frame: Frame) -> None:
    effects = effects_of(holder("A", [], unreserve=no()), frame=frame)
    effects.run_unreserve(targets("c1"))
    (complaint,) = effects.violations
    assert (complaint.hook, complaint.plugin, complaint.target) == ("unreserve", "A", "c1")
    assert complaint.text.startswith("its answer is ignored: ")


# --- plugins that only unreserve --------------------------------------------------------------------------------------


def test_F3_065_a_plugin_that_only_unreserves_is_accepted_through_its_adapter(frame: Frame) -> None:
    journal: list[str] = []
    old = Scripted("Old", journal, unreserve=None)
    effects = effects_of(UnreserveOnly(old), holder("New", journal, reserve=no("full")), frame=frame)
    assert effects.run_reserve(targets("c1")) is not None
    assert journal == ["New.reserve(c1)", "New.unreserve(c1)", "Old.unreserve(c1)"]


def test_F3_065_the_adapter_lets_the_other_hooks_of_the_plugin_through() -> None:
    old = Scripted("Old", unreserve=None, pre_filter=(None, None))
    registry = a_registry(Old=lambda raw, handle: UnreserveOnly(old))
    profile = a_profile(reserve=["Old"], preFilter=["Old"])
    framework = Framework.build(registry, profile, with_snapshot_lister(a_table(*clusters("c1")).freeze))
    assert framework.decide(framework.inputs(a_policy().request(), NO_BINDINGS, now=NOW)).outcome is Outcome.SELECTED
    assert old.journal == ["Old.pre_filter()"]


# --- fallback ---------------------------------------------------------------------------------------------------------


def admitted(
    plugin: Scripted, policy: PolicyBuilder, *bindings: BindingBuilder, table: Table, reserve_fallback: bool = False
) -> tuple[PermitResult, Any]:
    """One attempt with one Reserve plugin; clusters are preferred in descending order of names."""
    profile = a_profile(
        reserve=[plugin.name()], filter=["SamePlacementAntiAffinity"], reserve_fallback=reserve_fallback
    )
    framework = Framework.build(a_registry(plugin), profile, with_snapshot_lister(table.freeze))
    state = framework.new_state(1)
    inp = framework.inputs(policy.request(), [one.build() for one in bindings], now=NOW)
    decision = framework.decide(inp, state=state)
    effects = DoneAtOnce(framework.effects(inp, decision, state=state, now=NOW))
    return done(framework.reserve_and_permit(inp, decision, effects.effects)), effects


@pytest.fixture
def table() -> Table:
    return a_table(*clusters("c1", "c2", "c3", "c4"))


def names(admission: PermitResult) -> list[str]:
    return [one.cluster for one in admission.targets]


def test_F3_064_without_fallback_one_refused_target_fails_the_attempt(table: Table) -> None:
    picky = holder("Picky", [], reserve=only_for("c3", no("full")))
    admission, _ = admitted(picky, a_policy().pick_n(3), table=table)
    assert admission.failure is not None
    assert admission.failure.target.cluster == "c3"
    assert names(admission) == []
    assert picky.journal == [
        "Picky.reserve(c4)", "Picky.reserve(c3)", "Picky.unreserve(c3)", "Picky.unreserve(c4)"
    ]  # fmt: skip


def test_F3_064_with_fallback_the_attempt_decides_again_without_the_target(table: Table) -> None:
    picky = holder("Picky", [], reserve=only_for("c3", no("full")))
    admission, _ = admitted(picky, a_policy().pick_n(3), table=table, reserve_fallback=True)
    assert admission.failure is None
    assert names(admission) == ["c4", "c2", "c1"]
    assert admission.decision.outcome is Outcome.SELECTED
    assert picky.journal[-3:] == ["Picky.reserve(c4)", "Picky.reserve(c2)", "Picky.reserve(c1)"]


def test_F3_064_targets_set_aside_add_up(table: Table) -> None:
    def reserve(ctx: Any, state: Any, placement: Any, target: Any) -> Status | None:
        return no("full") if target.cluster in ("c4", "c2") else None

    admission, _ = admitted(
        holder("Picky", [], reserve=reserve), a_policy().pick_n(2), table=table, reserve_fallback=True
    )
    assert names(admission) == ["c3", "c1"]


def test_F3_064_when_nothing_is_left_the_last_refusal_stands(table: Table) -> None:
    admission, _ = admitted(
        holder("Picky", [], reserve=no("full")), a_policy().pick_n(2), table=table, reserve_fallback=True
    )
    assert admission.failure is not None
    assert message_of(admission.failure.status) == "full"
    assert admission.decision.outcome is Outcome.UNSCHEDULABLE
    assert names(admission) == []


def test_F3_064_the_clusters_set_aside_are_explained(table: Table) -> None:
    admission, effects = admitted(
        holder("Picky", [], reserve=only_for("c4", no("full"))),
        a_policy().pick_n(1),
        table=table,
        reserve_fallback=True,
    )
    verdicts = admission.decision.verdicts
    assert verdicts is not None
    assert (
        message_of(verdicts.status_by_name("c4"))
        == "cluster was set aside in this attempt: refused, not asked about, or outside the domain of its group"
    )
    assert [(one.target, one.status.code) for one in effects.results] == [
        ("c4", Code.UNSCHEDULABLE),
        ("c3", Code.SUCCESS),
    ]


def test_F3_064_an_error_is_not_worked_around(table: Table) -> None:
    broken = holder("Broken", [], reserve=only_for("c3", OSError("ledger gone")))
    admission, _ = admitted(broken, a_policy().pick_n(2), table=table, reserve_fallback=True)
    assert admission.failure is not None
    assert admission.failure.internal
    assert "Broken.reserve(c2)" not in broken.journal


def test_F3_064_the_fallback_belongs_to_the_same_attempt(table: Table) -> None:
    states: list[CycleState] = []

    def reserve(ctx: Any, state: CycleState, placement: Any, target: Any) -> Status | None:
        states.append(state)
        return no("full") if target.cluster == "c4" else None

    _, effects = admitted(
        holder("Picky", [], reserve=reserve), a_policy().pick_n(1), table=table, reserve_fallback=True
    )
    assert len(states) == 2
    assert all(state is effects.state for state in states)


def test_F3_064_spread_still_holds_after_a_fallback() -> None:
    zones = {"c1": "x", "c2": "y", "c3": "x", "c4": "x"}
    table = a_table(*(a_cluster(name).labelled(zone=zone) for name, zone in zones.items()))
    registry = a_registry(holder("Picky", [], reserve=only_for("c4", no("full"))))
    profile = a_profile(
        postBatch=["TopologySpreadConstraints"],
        preFilter=["TopologySpreadConstraints"],
        filter=["SamePlacementAntiAffinity", "TopologySpreadConstraints"],
        preScore=["TopologySpreadConstraints"],
        score=["TopologySpreadConstraints"],
        reserve=["Picky"],
        reserve_fallback=True,
    )
    framework = Framework.build(registry, profile, with_snapshot_lister(table.freeze))
    state = framework.new_state(1)
    inp = framework.inputs(a_policy().pick_n(2).spread("zone").request(), NO_BINDINGS, now=NOW)
    decision = framework.decide(inp, state=state)
    assert [one.cluster for one in decision.targets] == ["c4", "c2"]
    effects = DoneAtOnce(framework.effects(inp, decision, state=state, now=NOW))
    assert names(done(framework.reserve_and_permit(inp, decision, effects.effects))) == ["c3", "c2"]


def test_F3_064_a_cluster_the_placement_is_on_already_is_not_reserved_again(table: Table) -> None:
    spy = holder("Spy", [])
    admission, _ = admitted(spy, a_policy().pick_fixed("c1", "c2"), a_binding("c1"), table=table)
    assert spy.journal == ["Spy.reserve(c2)"]
    assert names(admission) == ["c2"]


@pytest.mark.parametrize(
    "policy, want",
    [
        (a_policy(), ["c1", "c2", "c3", "c4"]),
        (a_policy().pick_n(2), ["c4", "c3"]),
        (a_policy().pick_fixed("c3", "c1"), ["c3", "c1"]),
    ],
    ids=["PickAll", "PickN", "PickFixed"],
)
def test_L_06_every_placement_type_reserves(table: Table, policy: PolicyBuilder, want: list[str]) -> None:
    spy = holder("Spy", [])
    admission, _ = admitted(spy, policy, table=table)
    assert spy.journal == [f"Spy.reserve({name})" for name in want]
    assert names(admission) == want
