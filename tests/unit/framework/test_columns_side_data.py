"""What reaches a plugin from outside: feeds, ledgers, answers, time. All of it is an input, frozen with the frame."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest

from fleet.framework.context import HookContext
from fleet.framework.cycle.cycle import decide
from fleet.framework.cycle.decision import Outcome
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.framework.status import Code, Status
from fleet.framework.types import ExternalQuery, ExternalResult, PluginTraits, Reason, ReasonTable, Verdict
from fleet.model.timestamps import MINUTE
from fleet.snapshot import Frame
from fleet.snapshot.columns.bitset import from_bools
from tests.builders import NOW, a_frame, a_policy, a_table, clusters
from tests.doubles import Rejecting, Scoring, chosen, decided, inputs, profile_of

# --- ledgers ----------------------------------------------------------------------------------------------------------


class Room(PluginTraits):
    """Three placements fit on a cluster; what was reserved is read from the ledger."""

    REASONS = ReasonTable(Reason("Full", Code.UNSCHEDULABLE, "{booked} of 3 places are booked"))

    def name(self) -> str:
        return "Room"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        return Verdict(ok=from_bools(frame.ledger("room") < 3))

    def explain_row(self, req: PlacementRequest, frame: Frame, row: int, reason: int) -> dict[str, object]:
        return {"booked": int(frame.ledger("room")[row])}


def test_F3_136_what_is_booked_is_seen_by_the_next_decision() -> None:
    table, profile = a_table(*clusters("a", "b")), profile_of(Room())
    picks = []

    for _ in range(6):
        decision = decided(table.freeze(), a_policy().pick_n(1), profile=profile)
        picks += chosen(decision)
        for cluster in chosen(decision):
            table.book("room", cluster, 1)

    assert picks == ["b", "b", "b", "a", "a", "a"]
    full = decided(table.freeze(), a_policy().pick_n(1), profile=profile)
    status = full.verdicts and full.verdicts.status_by_name("a")
    assert isinstance(status, Status)
    assert status.reasons == ("3 of 3 places are booked",)


def test_F3_136_giving_back_makes_room_and_the_earlier_frame_does_not_know() -> None:
    table, profile = a_table(*clusters("a")), profile_of(Room())
    table.book("room", "a", 3)
    full = table.freeze()

    table.book("room", "a", -1)

    assert chosen(decided(full, a_policy().pick_n(1), profile=profile)) == []
    assert chosen(decided(table.freeze(), a_policy().pick_n(1), profile=profile)) == ["a"]


# --- feeds ------------------------------------------------------------------------------------------------------------


class Calm(PluginTraits):
    """Clusters with little load, as far as a sample of the last five minutes says so."""

    REASONS = ReasonTable(
        Reason("Busy", Code.UNSCHEDULABLE, "too busy"), Reason("Unknown", Code.UNSCHEDULABLE, "load is not known")
    )

    def name(self) -> str:
        return "Calm"

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        feed = frame.feeds["load"]
        stale = feed.sampled_at < ctx.now - 5 * MINUTE
        busy = ~(feed.columns["cpu"] <= 0.5)
        return Verdict(ok=from_bools(~(busy | stale)), reason=np.where(stale, 2, 1).astype(np.uint16))


def test_F3_137_values_and_sample_times_are_frozen_with_the_frame() -> None:
    table, profile = a_table(*clusters("a", "b", "c")), profile_of(Calm())
    fresh = dict.fromkeys("abc", NOW)
    table.feed("load", {"cpu": {"a": 0.2, "b": 0.9}}, sampled_at=fresh)
    before = table.freeze()
    first = decided(before, a_policy(), profile=profile)

    table.feed("load", {"cpu": {"a": 0.9, "b": 0.2}}, sampled_at=fresh)

    assert chosen(first) == ["a"]
    assert decided(before, a_policy(), profile=profile).digest == first.digest
    assert chosen(decided(table.freeze(), a_policy(), profile=profile)) == ["b"]


@pytest.mark.parametrize("age, known", [(0, True), (5 * MINUTE, True), (5 * MINUTE + 1, False)])
def test_F3_137_staleness_is_judged_against_the_moment_of_the_decision(age: int, *, known: bool) -> None:
    table = a_table(*clusters("a"))
    table.feed("load", {"cpu": {"a": 0.1}}, sampled_at={"a": NOW})

    decision = decided(table.freeze(), a_policy(), profile=profile_of(Calm()), now=NOW + age)

    assert chosen(decision) == (["a"] if known else [])


def test_F3_137_a_cluster_that_was_never_sampled_is_unknown() -> None:
    table = a_table(*clusters("a"))
    table.feed("load", {"cpu": {}}, sampled_at={})

    decision = decided(table.freeze(), a_policy(), profile=profile_of(Calm()))

    assert decision.verdicts is not None
    assert decision.verdicts.counts() == {("Calm", "Unknown"): 1}


# --- questions --------------------------------------------------------------------------------------------------------


class Consulting(PluginTraits):
    """An extender: its owner keeps the list of allowed clusters in a service."""

    REASONS = ReasonTable(Reason("NotAllowed", Code.UNSCHEDULABLE, "not allowed"))

    def __init__(self, name: str = "Consulting") -> None:
        self._name = name

    def name(self) -> str:
        return self._name

    def filter(self, ctx: HookContext, state: CycleState, req: PlacementRequest, frame: Frame, alive: int) -> Verdict:
        answer = ctx.query(ExternalQuery(f"{self._name}/allowed", {"placement": req.key}))
        names = frame.names.names
        return Verdict(ok=from_bools(np.array([name in answer.value for name in names], dtype=np.bool_)))


ALLOWED = {"Consulting/allowed": ExternalResult(value=["a", "c"])}


@pytest.fixture
def frame() -> Frame:
    return a_frame(*clusters("a", "b", "c"))


def test_F3_135_a_question_comes_first_and_the_answer_completes_the_decision(frame: Frame) -> None:
    profile = profile_of(Consulting(), Scoring("S", {"a": 1}))

    asking = decided(frame, a_policy().pick_n(1), profile=profile)
    answered = decided(frame, a_policy().pick_n(1), profile=profile, query_results=ALLOWED)

    assert (asking.outcome, asking.targets, asking.operations) == (Outcome.NEEDS_ANSWER, (), ())
    assert asking.pending_query == ExternalQuery("Consulting/allowed", {"placement": "web"})
    assert (answered.outcome, answered.pending_query, chosen(answered)) == (Outcome.SELECTED, None, ["a"])


def test_F3_135_an_unanswered_decision_publishes_nothing_and_leaves_bindings_alone(frame: Frame) -> None:
    decision = decided(frame, a_policy().pick_n(1), profile=profile_of(Consulting()))

    assert decision.published is None
    assert decision.operations == ()


def test_F3_135_several_questions_are_asked_one_run_after_the_other(frame: Frame) -> None:
    profile = profile_of(Consulting(), Consulting("Second"))

    second = decided(frame, profile=profile, query_results=ALLOWED)
    done = decided(frame, profile=profile, query_results={**ALLOWED, "Second/allowed": ExternalResult(value=["c"])})

    assert second.pending_query is not None
    assert second.pending_query.key == "Second/allowed"
    assert chosen(done) == ["c"]


def test_F3_135_a_replay_with_the_recorded_answer_needs_no_network(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("the network is down")

    inp = inputs(frame, a_policy().pick_n(2), profile=profile_of(Consulting()), query_results=ALLOWED)
    first = decide(inp)
    monkeypatch.setattr(socket, "socket", unreachable)
    monkeypatch.setattr(socket, "create_connection", unreachable)

    assert decide(inp).digest == first.digest
    assert chosen(first) == ["c", "a"]


def test_F3_135_an_answer_nobody_asked_for_changes_nothing(frame: Frame) -> None:
    profile = profile_of(Rejecting("Door", ["a"]))

    plain, told = decided(frame, profile=profile), decided(frame, profile=profile, query_results=ALLOWED)

    assert plain.digest == told.digest


# --- notes ------------------------------------------------------------------------------------------------------------


class Noting(PluginTraits):
    def name(self) -> str:
        return "Noting"

    def filter(self, ctx: Any, state: Any, req: Any, frame: Frame, alive: int) -> Verdict:
        ctx.note("looked at", alive.bit_count())
        return Verdict(ok=-1)


def test_a_note_travels_with_the_decision_under_the_name_of_its_plugin(frame: Frame) -> None:
    decision = decided(frame, profile=profile_of(Rejecting("Door", ["b"]), Noting()))

    assert decision.notes == {"Noting": {"looked at": 2}}
