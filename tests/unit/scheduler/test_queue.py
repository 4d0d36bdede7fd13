"""The scheduling queue: which placement is tried next. `tests/property/test_scheduler_queue.py` tries everything."""

from __future__ import annotations

import pytest

from fleet.scheduler.queue.item import AND_MORE, ItemState, QueuePolicy
from tests.unit.scheduler.queue_fakes import Gatekeeper, Turned, a_key, pooled

DEFAULT = QueuePolicy()


def test_a_waiting_key_is_not_queued_twice() -> None:
    assert Turned().add("a").add("a").pop_all() == ["a"]


def test_a_key_in_work_is_given_to_nobody_else_and_comes_again_when_done() -> None:
    queue = Turned().add("a")
    queue.pop()
    queue.add("a").add("a")
    assert queue.popped() is None
    assert queue.succeed("a").pop_all() == ["a"]


def test_success_leaves_nothing_behind() -> None:
    queue = Turned().add("a")
    queue.pop()
    queue.succeed("a")
    assert queue.counts() == {}
    assert a_key("a") not in queue.queue


@pytest.mark.parametrize("ending", ["succeed", "reject", "fail"])
def test_an_attempt_ends_once(ending: str) -> None:
    queue = Turned().add("a")
    queue.pop()
    queue.succeed("a")
    with pytest.raises(ValueError, match="'a' is not in flight"):
        getattr(queue, ending)("a")


# --- order ------------------------------------------------------------------------------------------------------------


def test_Q_05_higher_priority_goes_first_and_within_one_whoever_waits_longest() -> None:
    queue = Turned(priorities={"urgent": 5})
    for second, key in enumerate(["b", "a", "urgent", "c"]):
        queue.at(second).add(key)
    assert queue.pop_all() == ["urgent", "b", "a", "c"]


def test_Q_05_the_order_of_those_who_wait_does_not_change_while_others_come_back() -> None:
    queue = Turned().add("first")
    for key in ["b", "c", "d"]:
        queue.later(1).add(key)
    assert str(queue.pop().key) == "first"
    queue.later(1).add("first").succeed("first")
    assert queue.pop_all() == ["b", "c", "d", "first"]


def test_Q_05_a_priority_that_changed_while_waiting_counts_with_the_next_event_of_the_placement() -> None:
    priorities: dict[str, int] = {}
    queue = Turned(priorities=priorities).add("a").later(1).add("b")
    priorities["b"] = 1
    assert queue.add("b").pop_all() == ["b", "a"]


def test_Q_05_a_priority_that_changed_in_flight_counts_when_the_item_is_back() -> None:
    priorities: dict[str, int] = {}
    queue = Turned(priorities=priorities).add("changed")
    queue.pop()
    priorities["changed"] = 1
    queue.add("changed", "other").later(1).reject("changed")
    assert queue.pop_all() == ["changed", "other"]


def test_the_order_is_that_of_the_profiles() -> None:
    queue = Turned(order=lambda item: -len(str(item.key))).add("a", "aaa", "aa")
    assert queue.pop_all() == ["aaa", "aa", "a"]


# --- the default profile ----------------------------------------------------------------------------------------------


def test_a_rejected_placement_of_the_default_profile_waits_for_a_reason_however_long() -> None:
    queue = pooled("a", policy=DEFAULT)
    assert queue.next_due() is None
    queue.later(10 * 24 * 3600).tick()
    assert queue.counts() == {"unschedulable": 1}


def test_a_hit_wakes_a_placement_of_the_default_profile_without_backing_off() -> None:
    queue = pooled("a", policy=DEFAULT)
    for _ in range(5):
        queue.wake("a")
        assert queue.counts() == {"active": 1}
        queue.reject(queue.pop().key, "Taints")


def test_a_hit_wakes_a_placement_that_the_queue_had_no_more_to_do_with() -> None:
    assert Turned(policy=DEFAULT).wake("a").pop_all() == ["a"]


def test_a_hit_in_flight_makes_the_placement_run_again_whatever_comes_of_the_attempt() -> None:
    for ending in ("succeed", "reject", "fail"):
        queue = Turned(policy=DEFAULT).add("a")
        queue.pop()
        queue.wake("a")
        getattr(queue, ending)("a")
        assert queue.counts() == {"active": 1}, ending


def test_a_hit_lets_a_failed_placement_of_the_default_profile_run_earlier() -> None:
    queue = Turned(policy=DEFAULT).add("a")
    queue.pop()
    queue.fail("a", at_least_seconds=60)
    assert queue.wake("a").popped() == "a"


# --- other profiles ---------------------------------------------------------------------------------------------------


def test_a_hit_makes_a_placement_of_another_profile_sit_out_its_back_off() -> None:
    queue = pooled("a")
    queue.wake("a")
    assert queue.counts() == {"backoff": 1}


def test_a_hit_in_flight_counts_as_a_hit_after_the_rejection() -> None:
    queue = Turned().add("a")
    queue.pop()
    queue.wake("a").reject("a", "Taints")
    assert queue.counts() == {"backoff": 1}


def test_a_hit_does_not_shorten_the_wait_of_a_failed_placement_of_another_profile() -> None:
    queue = Turned().add("a")
    queue.pop()
    queue.fail("a", at_least_seconds=60)
    assert queue.wake("a").counts() == {"backoff": 1}


@pytest.mark.parametrize("place", ["backoff", "error", "pool"])
def test_an_event_of_the_placement_itself_ends_every_wait(place: str) -> None:
    queue = waiting_in(place)
    assert queue.add("a").counts() == {"active": 1}


# --- triggers ---------------------------------------------------------------------------------------------------------


def test_an_item_says_what_woke_it_each_thing_once_and_in_order() -> None:
    queue = Turned().add("a", trigger="x").add("a", trigger="y").add("a", trigger="x")
    assert queue.pop().triggers == ("x", "y")


def test_what_comes_in_flight_is_said_next_time() -> None:
    queue = Turned().add("a", trigger="x")
    item = queue.pop()
    queue.add("a", trigger="y")
    assert item.triggers == ("x",)
    assert queue.succeed("a").pop().triggers == ("y",)


def test_an_item_that_comes_back_by_itself_says_so() -> None:
    queue = Turned().add("a", trigger="x")
    queue.pop()
    queue.fail("a")
    assert queue.later(1).pop().triggers == ("Retry",)


def test_thousands_of_triggers_are_not_kept() -> None:
    queue = Turned()
    for number in range(5000):
        queue.add("a", trigger=f"cluster {number}")
    triggers = queue.pop().triggers
    assert len(triggers) == 17
    assert triggers[0] == "cluster 0"
    assert triggers[-1] == AND_MORE


# --- counters ---------------------------------------------------------------------------------------------------------


def test_F3_096_the_timestamp_is_new_each_time_the_item_comes_back() -> None:
    queue = Turned(at=10).rejected("a")
    item = queue.queue.get(a_key("a"))
    assert item is not None
    assert item.timestamp == queue.now
    queue.later(100).wake("a")
    queue.pop()
    queue.later(7).reject("a")
    assert item.timestamp == queue.now


def test_F3_097_attempts_are_counted_when_taken_and_rejections_and_errors_when_they_end() -> None:
    queue = pooled("a")
    queue.later(60).wake("a")
    queue.pop()
    queue.fail("a")
    item = queue.later(60).pop()
    assert (item.attempts, item.unschedulable_count, item.consecutive_errors_count) == (3, 1, 1)


def test_F3_097_success_clears_the_counters() -> None:
    queue = pooled("a").later(60).wake("a")
    queue.pop()
    queue.add("a").succeed("a")
    item = queue.pop()
    assert (item.attempts, item.unschedulable_count) == (1, 0)


def test_F3_098_the_first_chance_is_remembered_and_a_hold_does_not_count() -> None:
    gate = Gatekeeper("a")
    queue = Turned(pre_enqueue=gate).at(5).add("a")
    gate.held.clear()
    queue.at(9).add("a")
    freed = queue.now
    queue.reject(queue.pop().key)
    item = queue.at(100).wake("a").pop()
    assert item.initial_attempt_timestamp == freed


def test_an_item_says_since_when_it_could_have_been_taken() -> None:
    queue = Turned().add("a").later(3)
    item = queue.pop()
    assert (item.active_since, item.popped_at) == (0, queue.now)
    queue.reject("a", "Taints").wake("a").later(0.5).pop()
    assert item.active_since == item.popped_at == queue.now


def test_F3_099_a_copy_of_an_item_goes_its_own_way() -> None:
    queue = Turned().add("a")
    copied = queue.pop().deep_copy()
    queue.fail("a")
    assert copied.consecutive_errors_count == 0
    assert copied.state is ItemState.IN_FLIGHT


# --- insisting and deleting -------------------------------------------------------------------------------------------


def waiting_in(place: str) -> Turned:
    """A queue with `a` in the place."""
    if place == "gated":
        return Turned(pre_enqueue=Gatekeeper("a")).add("a")
    queue = Turned().add("a")
    if place == "active":
        return queue
    queue.pop()
    if place == "error":
        queue.fail("a", at_least_seconds=30)
    if place in ("backoff", "pool"):
        queue.reject("a", "Taints")
    return queue.wake("a") if place == "backoff" else queue


@pytest.mark.parametrize("place", ["active", "backoff", "error", "pool"])
def test_Q_46_force_activating_ends_every_wait(place: str) -> None:
    assert waiting_in(place).activate("a").counts() == {"active": 1}


@pytest.mark.parametrize("ending", ["succeed", "reject", "fail"])
def test_Q_46_force_activating_an_item_in_flight_queues_it_again_when_it_returns(ending: str) -> None:
    queue = waiting_in("flight").activate("a")
    assert queue.counts() == {"in_flight": 1}
    getattr(queue, ending)("a")
    assert queue.counts() == {"active": 1}
    assert queue.pop().triggers == ("ForceActivate",)


def test_Q_46_force_activating_an_unknown_item_does_nothing() -> None:
    assert Turned().activate("a").counts() == {}


def test_Q_46_force_activating_does_not_overrule_a_hold() -> None:
    assert waiting_in("gated").activate("a").counts() == {"gated": 1}


def test_Q_46_force_activating_a_placement_that_was_deleted_in_flight_does_nothing() -> None:
    queue = waiting_in("flight").delete("a").activate("a")
    assert queue.succeed("a").counts() == {}


@pytest.mark.parametrize("place", ["active", "backoff", "error", "pool", "gated"])
def test_Q_47_deleting_a_waiting_item_leaves_no_residue(place: str) -> None:
    queue = waiting_in(place).delete("a")
    assert queue.counts() == {}
    assert queue.queue.count_unschedulable_by_plugin() == {}
    assert queue.next_due() is None
    assert queue.later(1000).tick() == []
    assert queue.popped() is None


@pytest.mark.parametrize("ending", ["succeed", "reject", "fail"])
@pytest.mark.parametrize("permitted", [False, True], ids=["deciding", "waiting for permits"])
def test_Q_47_deleting_an_item_in_flight_leaves_no_residue_when_it_returns(ending: str, *, permitted: bool) -> None:
    queue = waiting_in("flight")
    if permitted:
        queue.queue.mark_permitted(a_key("a"))
    queue.delete("a")
    getattr(queue, ending)("a")
    assert queue.counts() == {}
    assert queue.next_due() is None


def test_what_was_wanted_of_a_placement_before_it_was_deleted_in_flight_is_forgotten() -> None:
    queue = waiting_in("flight").add("a").delete("a")
    assert queue.succeed("a").counts() == {}


def test_a_placement_that_is_created_anew_while_the_old_one_is_in_flight_starts_from_nothing() -> None:
    queue = waiting_in("flight").delete("a").later(1).add("a", trigger="new")
    queue.reject("a", "Taints")
    item = queue.pop()
    assert (item.triggers, item.attempts, item.added_at) == (("new",), 1, queue.now)


def test_deleting_an_unknown_key_does_nothing() -> None:
    assert Turned().delete("a").counts() == {}


# --- what is told -----------------------------------------------------------------------------------------------------


def test_every_move_is_told_with_its_reason() -> None:
    told: list[tuple[str, str]] = []
    queue = Turned(observe=lambda place, reason: told.append((place.value, reason)))
    queue.rejected("a").wake("a")
    queue.later(5).tick()
    queue.pop()
    queue.fail("a")
    assert told == [
        ("active", "created"),
        ("unschedulable", "AttemptRejected"),
        ("backoff", "cluster"),
        ("active", "cluster"),
        ("error", "Retry"),
    ]


def test_rejected_items_are_counted_by_plugin() -> None:
    queue = pooled("a", "b").rejected("c", by="Affinity")
    assert queue.queue.count_unschedulable_by_plugin() == {"Taints": 2, "Affinity": 1}
