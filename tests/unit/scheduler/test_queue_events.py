"""Events that come while an item is in flight, and what many events cost."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import pytest

from fleet.scheduler.queue.hints import EventRegistration, QueueEvent, QueueingHints
from fleet.scheduler.queue.item import QueueItem
from tests.unit.scheduler.queue_fakes import (
    CLUSTER_ADDED,
    CLUSTER_TAINTS,
    HEARTBEAT,
    Turned,
    a_key,
    cluster_added,
    pooled,
    wildcard,
)

LISTENING = QueueingHints(
    {
        "Taints": [
            EventRegistration(CLUSTER_ADDED),
            EventRegistration(CLUSTER_TAINTS, lambda event, item: bool(event.new)),
        ],
        "Group": [EventRegistration(CLUSTER_ADDED)],
    }
)


def in_flight(*keys: str) -> Turned:
    queue = Turned(hints=LISTENING).add(*keys)
    queue.pop_all()
    return queue


def test_Q_11_a_cluster_added_between_pop_and_rejection_keeps_the_item_out_of_the_pool() -> None:
    queue = in_flight("a").happened(cluster_added()).reject("a", "Taints")
    assert queue.counts() == {"backoff": 1}
    assert queue.pop().triggers == ("MemberCluster/Add",)


def test_Q_11_a_pending_plugin_that_hears_of_what_was_missed_wakes_at_once() -> None:
    queue = in_flight("a").happened(cluster_added()).reject("a", "Taints", pending=("Group",))
    assert queue.counts() == {"active": 1}


def test_an_event_of_before_the_pop_is_not_replayed() -> None:
    queue = Turned(hints=LISTENING).add("a").happened(cluster_added())
    queue.pop()
    assert queue.reject("a", "Taints").counts() == {"unschedulable": 1}


def test_an_event_that_does_not_help_lets_the_item_go_to_the_pool() -> None:
    queue = in_flight("a").happened(QueueEvent(CLUSTER_TAINTS, new=False)).reject("a", "Taints")
    assert queue.counts() == {"unschedulable": 1}


def test_an_event_for_plugins_that_did_not_reject_lets_the_item_go_to_the_pool() -> None:
    assert in_flight("a").happened(cluster_added()).reject("a", "Other").counts() == {"unschedulable": 1}


def test_the_space_that_a_placement_gave_up_helps_others_only() -> None:
    queue = in_flight("a", "b").happened(cluster_added(excluding="a"))
    queue.reject("a", "Taints").reject("b", "Taints")
    assert queue.counts() == {"unschedulable": 1, "backoff": 1}


def test_a_wildcard_that_was_missed_wakes_after_the_back_off() -> None:
    assert in_flight("a").happened(wildcard("ConfigReload")).reject("a", "Other").counts() == {"backoff": 1}


@pytest.mark.parametrize("plugins, again", [(None, {"active": 1}), ({"Gang"}, {})])
def test_what_an_index_selected_runs_once_more_unless_only_rejections_of_a_plugin_are_concerned(
    plugins: set[str] | None, again: dict[str, int]
) -> None:
    queue = in_flight("a").happened(cluster_added(among=frozenset({a_key("a")}), plugins=plugins))
    assert queue.succeed("a").counts() == again


def test_everybody_gets_what_came_since_it_was_taken() -> None:
    queue = in_flight("a").happened(cluster_added()).add("b")
    queue.pop()
    queue.reject("b", "Taints")
    assert queue.counts() == {"unschedulable": 1, "in_flight": 1}
    queue.reject("a", "Taints")
    assert queue.counts() == {"unschedulable": 1, "backoff": 1}


def test_events_are_kept_for_the_oldest_in_flight_only() -> None:
    queue = in_flight("a")
    for _ in range(3):
        queue.happened(cluster_added())
    queue.add("b").pop()
    queue.happened(cluster_added())
    assert len(queue.queue.recorded_events) == 4
    queue.succeed("a")
    assert len(queue.queue.recorded_events) == 1
    queue.succeed("b")
    assert len(queue.queue.recorded_events) == 0


def test_an_item_whose_clusters_are_settled_keeps_no_events_and_comes_back_after_its_back_off() -> None:
    queue = in_flight("a")
    queue.queue.mark_permitted(a_key("a"))
    queue.happened(cluster_added())
    assert len(queue.queue.recorded_events) == 0
    assert queue.reject("a", "Other").counts() == {"backoff": 1}


def test_events_that_nobody_registered_for_are_not_kept() -> None:
    queue = in_flight("a")
    for _ in range(100):
        queue.happened(QueueEvent(HEARTBEAT))
    assert len(queue.queue.recorded_events) == 0


@pytest.mark.parametrize("ending", ["succeed", "reject", "fail"])
def test_Q_12_after_ten_thousand_attempts_with_events_nothing_is_left(ending: str) -> None:
    queue = Turned(hints=LISTENING)
    sizes = []
    for number in range(10_000):
        queue.later(0.3).add("a", "b")
        queue.pop()
        queue.happened(cluster_added())
        second = str(queue.pop().key)
        queue.happened(cluster_added())
        getattr(queue, ending)("b" if second == "a" else "a")
        getattr(queue, ending)(second)
        if number in (1_000, 9_999):
            sizes.append(size_of(queue))
    assert len(queue.queue.recorded_events) == 0
    assert sizes[1] <= 2 * sizes[0]
    assert queue.delete("a").delete("b").counts() == {}


def size_of(queue: Turned) -> int:
    """Bytes of every container in the queue."""
    sizes: dict[int, int] = {}
    todo: list[Any] = [queue.queue]
    while todo:
        one = todo.pop()
        if id(one) in sizes:
            continue
        sizes[id(one)] = sys.getsizeof(one)
        todo += vars(one).values() if hasattr(one, "__dict__") else ()
        todo += one.values() if isinstance(one, dict) else one if isinstance(one, list | tuple | deque) else ()
    return sum(sizes.values())


def test_Q_13_heartbeats_of_five_thousand_clusters_move_nobody() -> None:
    moves: list[object] = []
    asked: list[str] = []

    def hint(event: QueueEvent, item: QueueItem) -> bool:
        asked.append(str(item.key))
        return True

    queue = pooled(
        *(f"p{number}" for number in range(50)),
        hints=QueueingHints({"Taints": [EventRegistration(CLUSTER_ADDED, hint)]}),
        observe=lambda place, reason: moves.append(place),
    )
    before = len(moves)
    for _ in range(3):
        queue.later(10)
        for number in range(5000):
            queue.happened(QueueEvent(HEARTBEAT, new=number))
    assert (len(moves), asked) == (before, [])
    assert queue.counts() == {"unschedulable": 50}
