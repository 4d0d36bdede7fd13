"""Kubernetes events about mistakes in a policy: one for all of them, once per policy and set of mistakes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleet.explain.remarks import mistakes
from fleet.explain.remarks.mistakes import find_mistakes
from fleet.framework.cycle.decision import Decision
from fleet.kube.events import ObjectReference
from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.placement_key import PlacementKey
from fleet.model.views import (
    ClusterSelectorTerm,
    Condition,
    LabelSelector,
    Metadata,
    PolicySnapshotStatus,
    SelectorRequirement,
)
from fleet.scheduler.telemetry.kubernetes_events import MOST_MISTAKES, POLICY_REMARKED, SchedulingEvents
from tests.builders import PLACEMENT, ClusterBuilder, PolicyBuilder, a_cluster, a_policy, label
from tests.unit.explain.questions import DEFAULT, ask

KINDS = cast(Any, SimpleNamespace(scope=CLUSTER_SCOPED))
WEB = cast(Any, SimpleNamespace(view=SimpleNamespace(metadata=Metadata(name=PLACEMENT))))
FLEET = (a_cluster("a").labelled(env="prod"), a_cluster("b").labelled(env="prod"))
WRONG = a_policy().require(label("Env", "In", "prod")).tolerate("gpu", operator="Exists")


class Sink:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def emit(self, about: ObjectReference, type: str, reason: str, message: str) -> None:
        assert (about.name, type) == (PLACEMENT, "Warning") or reason != POLICY_REMARKED
        if reason == POLICY_REMARKED:
            self.messages.append(message)


def decide(policy: PolicyBuilder, *fleet: ClusterBuilder) -> Decision:
    return ask(fleet or FLEET, policy).decision


def report(events: SchedulingEvents, *decisions: Decision) -> None:
    for decision in decisions:
        found = find_mistakes(decision.request, decision.frame, DEFAULT, most=MOST_MISTAKES)
        events.report_decision(KINDS, WEB, decision, found)


def test_all_mistakes_of_a_policy_are_one_event() -> None:
    sink = Sink()
    report(SchedulingEvents(sink), decide(WRONG))

    assert sink.messages == [
        "no cluster has label Env; did you mean env, which is on 2 of 2? no cluster has taint gpu."
    ]


def test_a_policy_without_mistakes_is_not_remarked() -> None:
    sink = Sink()
    report(SchedulingEvents(sink), decide(a_policy().require(label("env", "In", "prod"))))

    assert sink.messages == []


def test_the_same_mistakes_are_not_repeated_for_the_same_policy() -> None:
    """Names come and go with clusters: each set of mistakes is reported once, whatever came between."""
    sink = Sink()
    events = SchedulingEvents(sink)
    healed = (*FLEET, a_cluster("c").tainted("gpu"))
    for _ in range(3):
        report(events, decide(WRONG), decide(WRONG, *healed))

    assert len(sink.messages) == 2
    assert "gpu" in sink.messages[0]
    assert "gpu" not in sink.messages[1]


def test_sets_of_mistakes_are_reported_up_to_a_limit() -> None:
    sink = Sink()
    events = SchedulingEvents(sink)
    policy = WRONG
    for number in range(20):
        policy = policy.tolerate(f"key-{number}", operator="Exists")
        report(events, decide(policy))

    assert len(sink.messages) == 8


def test_a_new_policy_and_a_new_placement_are_reported_again() -> None:
    sink = Sink()
    events = SchedulingEvents(sink)
    report(events, decide(WRONG), decide(WRONG.pick_n(1)), decide(WRONG.pick_n(1)))
    events.forget(PlacementKey("", PLACEMENT))
    report(events, decide(WRONG.pick_n(1)))

    assert len(sink.messages) == 3


def test_a_new_leader_does_not_repeat_what_was_reported_with_the_decision_it_finds() -> None:
    sink = Sink()
    events = SchedulingEvents(sink)
    condition = Condition("Scheduled", "True", observed_generation=7)
    before = PolicySnapshotStatus(conditions=(condition,))
    report(events, *(replace(decide(WRONG), previous=before) for _ in range(2)))
    assert sink.messages == []
    report(events, replace(decide(WRONG, *FLEET, a_cluster("c").tainted("gpu")), previous=before))
    assert len(sink.messages) == 1, "mistakes that are new"


def test_of_the_mistakes_of_a_large_policy_the_first_thousand_are_compared() -> None:
    sink = Sink()
    events = SchedulingEvents(sink)
    tolerated = [f"key-{number}" for number in range(1_001)]
    for keys in (tolerated, [*tolerated[:-1], "another"], ["another", *tolerated[1:]]):
        policy = a_policy()
        for key in keys:
            policy = policy.tolerate(key, operator="Exists")
        report(events, decide(policy))

    assert len(sink.messages) == 2
    assert sink.messages[0].endswith("… and at least 990 more")


def test_after_the_first_mistakes_no_others_are_looked_for() -> None:
    both = tuple(SelectorRequirement("env", *rest) for rest in (("In", ("prod",)), ("DoesNotExist", ())))
    term = ClusterSelectorTerm(LabelSelector(match_expressions=both))
    policy = a_policy().require(term, term)
    decision = decide(policy.tolerate("nowhere", operator="Exists"))
    first, both_kinds, everything = (
        find_mistakes(decision.request, decision.frame, DEFAULT, most=most) for most in (1, 2, 9)
    )
    assert [mistake.kind for mistake in both_kinds] == ["unknown-taint", "contradiction"]
    assert (first, both_kinds, len(everything)) == (everything[:1], everything[:2], 3)


def test_where_names_suffice_no_contradictions_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("contradictions were looked for")

    decision = decide(WRONG)
    monkeypatch.setattr(mistakes, "find_other_mistakes", refuse)
    assert len(find_mistakes(decision.request, decision.frame, DEFAULT, most=2)) == 2
