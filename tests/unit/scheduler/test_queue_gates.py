"""Placements that may not be queued yet: who holds them, what lets them go, and when their owner hears of it."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.scheduler.queue.hints import EventKind, EventRegistration, QueueEvent, QueueingHints
from fleet.scheduler.queue.item import QueueItem
from tests.unit.scheduler.queue_fakes import Gatekeeper, Turned, cluster_added, wildcard

CLEARED = EventKind("Approval", "Recorded")
HINTS = QueueingHints({"Approval": [EventRegistration(CLEARED)], "Taints": []})


def held(*keys: str, **more: Any) -> tuple[Turned, Gatekeeper]:
    gate = Gatekeeper(*keys)
    return Turned(hints=HINTS, pre_enqueue=gate, **more).add(*keys), gate


def test_F3_112_a_held_placement_is_not_queued() -> None:
    queue, _ = held("a")
    assert queue.counts() == {"gated": 1}
    assert queue.popped() is None
    assert queue.queue.count_unschedulable_by_plugin() == {"Approval": 1}


def test_Q_14_unrelated_events_do_not_ask_about_a_held_placement() -> None:
    queue, gate = held("a")
    gate.held.clear()
    queue.happened(cluster_added()).wake("a")
    assert gate.asked == 1
    assert queue.counts() == {"gated": 1}


def test_Q_14_the_event_that_its_gate_registered_for_activates_it_once() -> None:
    queue, gate = held("a")
    gate.held.clear()
    queue.happened(QueueEvent(CLEARED)).happened(QueueEvent(CLEARED))
    assert queue.pop_all() == ["a"]
    assert gate.asked == 2


def test_Q_14_an_event_after_which_the_gate_still_holds_changes_nothing() -> None:
    queue, gate = held("a")
    assert queue.happened(QueueEvent(CLEARED)).counts() == {"gated": 1}
    assert gate.asked == 2


def test_an_event_of_the_placement_itself_asks_again() -> None:
    queue, gate = held("a")
    gate.held.clear()
    assert queue.add("a").counts() == {"active": 1}


def test_a_wildcard_asks_again() -> None:
    queue, gate = held("a")
    gate.held.clear()
    assert queue.happened(wildcard("ConfigReload")).counts() == {"active": 1}


def test_the_search_for_leftovers_asks_again_each_time() -> None:
    queue, gate = held("a")
    queue.at(330).tick()
    assert (queue.counts(), gate.asked) == ({"gated": 1}, 2)
    assert queue.next_due() == 660
    gate.held.clear()
    queue.at(660).tick()
    assert queue.counts() == {"active": 1}


def test_a_plugin_that_rejected_the_attempt_before_cannot_let_it_go() -> None:
    gate = Gatekeeper()
    queue = Turned(hints=HINTS, pre_enqueue=gate).rejected("a", by="Taints")
    gate.held.add("a")
    queue.add("a")
    gate.held.clear()
    assert queue.happened(cluster_added()).counts() == {"gated": 1}


def test_letting_go_is_no_reason_to_skip_the_back_off() -> None:
    gate = Gatekeeper()
    queue = Turned(hints=HINTS, pre_enqueue=gate).add("a")
    queue.pop()
    queue.reject("a", pending=("Approval",))
    gate.held.add("a")
    queue.add("a")
    gate.held.clear()
    assert queue.happened(QueueEvent(CLEARED)).counts() == {"backoff": 1}


def test_F3_112_a_placement_is_asked_about_before_it_backs_off_and_not_after() -> None:
    gate = Gatekeeper()
    queue = Turned(hints=HINTS, pre_enqueue=gate).rejected("a", by="Taints")
    asked = gate.asked
    queue.happened(cluster_added())
    assert (queue.counts(), gate.asked) == ({"backoff": 1}, asked + 1)
    queue.at(3).tick()
    assert (queue.counts(), gate.asked) == ({"active": 1}, asked + 1)


@pytest.mark.parametrize("place", ["active", "backoff"])
def test_F3_112_a_change_of_the_placement_itself_may_hold_it_wherever_it_is(place: str) -> None:
    gate = Gatekeeper()
    queue = Turned(hints=HINTS, pre_enqueue=gate)
    queue = queue.add("a") if place == "active" else queue.rejected("a", by="Taints").happened(cluster_added())
    assert queue.counts() == {place: 1}
    gate.held.add("a")
    assert queue.add("a").counts() == {"gated": 1}
    gate.held.clear()
    assert queue.add("a").counts() == {"active": 1}


def test_F3_112_a_failed_placement_is_asked_about_before_it_waits() -> None:
    gate = Gatekeeper()
    queue = Turned(pre_enqueue=gate).add("a")
    queue.pop()
    gate.held.add("a")
    queue.fail("a")
    assert queue.counts() == {"gated": 1}


# --- when the owner hears of it ---------------------------------------------------------------------------------------


def reported(queue: Turned) -> list[tuple[str, str]]:
    def told(item: QueueItem) -> tuple[str, str]:
        assert item.gate is not None
        return str(item.key), item.gate.message

    return [told(item) for item in queue.tick()]


def test_Q_15_a_hold_shorter_than_five_seconds_is_not_reported() -> None:
    queue, gate = held("a")
    assert reported(queue.at(4.9)) == []
    gate.held.clear()
    queue.happened(QueueEvent(CLEARED))
    assert reported(queue.at(10)) == []


def test_Q_15_a_longer_hold_is_reported_once_with_its_message() -> None:
    queue, _ = held("a")
    assert queue.next_due() == 5
    assert reported(queue.at(5)) == [("a", "waits for approval")]
    assert reported(queue.at(20)) == []


def test_Q_15_asking_again_in_vain_does_not_put_the_report_off() -> None:
    queue, _ = held("a")
    queue.at(4).happened(QueueEvent(CLEARED)).add("a")
    assert reported(queue.at(5)) == [("a", "waits for approval")]


def test_Q_15_another_message_is_reported_after_five_more_seconds() -> None:
    messages = iter(["first", "second"])
    gate = Gatekeeper("a", message=lambda: next(messages))
    queue = Turned(hints=HINTS, pre_enqueue=gate).add("a")
    queue.at(3).happened(QueueEvent(CLEARED))
    assert reported(queue.at(7.9)) == []
    assert reported(queue.at(8)) == [("a", "second")]


def test_a_deleted_placement_is_not_reported() -> None:
    queue, _ = held("a")
    assert reported(queue.delete("a").at(10)) == []
