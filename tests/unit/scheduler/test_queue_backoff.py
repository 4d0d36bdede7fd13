"""How long rejected and failed placements wait, and who may be taken early."""

from __future__ import annotations

import pytest

from fleet.scheduler.queue.settings import QueueSettings
from tests.unit.scheduler.queue_fakes import Turned, pooled

PATIENT = QueueSettings(early_pop=False)


def wait_of(queue: Turned, key: str) -> float:
    """Seconds until the key can be taken, found by trying every millisecond that matters."""
    start = queue.seconds
    while (due := queue.next_due()) is not None:
        queue.at(due - 1e-9)
        assert queue.popped() is None
        queue.at(due)
        if queue.popped() == key:
            return queue.seconds - start
    raise AssertionError(f"{key} never comes")


# --- rejected ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0.0, 0.25, 7.999])
def test_Q_01_the_wait_after_rejections_doubles_up_to_the_limit_and_ends_with_a_second(start: float) -> None:
    queue = Turned(settings=PATIENT, at=start).add("a")
    queue.pop()
    for want in (1, 2, 4, 8, 10, 10):
        queue.reject("a", "Taints").wake("a")
        waited = wait_of(queue, "a")
        assert want < waited <= want + 1
        assert queue.seconds % 1 == 0


def test_Q_01_the_waits_are_settings() -> None:
    queue = pooled("a", settings=QueueSettings(initial_backoff=3, max_backoff=5, early_pop=False)).wake("a")
    assert wait_of(queue, "a") == 4


def test_Q_02_time_in_the_pool_counts_as_back_off() -> None:
    queue = pooled("a", settings=PATIENT).later(2).wake("a")
    assert queue.counts() == {"active": 1}


def test_Q_02_a_back_off_that_ended_within_this_second_is_waited_for_to_the_end_of_the_second() -> None:
    queue = pooled("a", settings=PATIENT).later(1.5).wake("a")
    assert wait_of(queue, "a") == 0.5


def test_Q_02_only_the_rest_of_the_back_off_is_waited_for() -> None:
    queue = pooled("a", settings=QueueSettings(initial_backoff=10, early_pop=False)).later(9).wake("a")
    assert wait_of(queue, "a") == 2


def test_Q_03_a_rejection_ends_a_row_of_errors_and_the_wait_counts_rejections_only() -> None:
    queue = Turned(settings=PATIENT).add("a")
    for _ in range(3):
        queue.later(1).pop()
        queue.fail("a")
    item = queue.later(1).pop()
    assert item.consecutive_errors_count == 3
    queue.reject("a", "Taints").wake("a")
    assert (item.consecutive_errors_count, item.unschedulable_count) == (0, 1)
    assert 1 < wait_of(queue, "a") <= 2


def test_an_error_forgets_who_rejected_the_attempt_before() -> None:
    queue = pooled("a").later(60).wake("a")
    item = queue.pop()
    queue.fail("a")
    assert item.rejectors == frozenset()


# --- leftovers --------------------------------------------------------------------------------------------------------


def test_Q_04_an_item_that_nobody_wakes_leaves_the_pool_with_the_first_search_after_five_minutes() -> None:
    queue = pooled("a")
    assert queue.next_due() == 330
    queue.at(329.9).tick()
    assert queue.counts() == {"unschedulable": 1}
    queue.at(330).tick()
    assert queue.pop().triggers == ("UnschedulableTimeout",)


def test_Q_04_exactly_five_minutes_are_not_more_than_five_minutes() -> None:
    queue = pooled("a", at=30).at(330)
    assert queue.popped() is None
    assert queue.at(360).popped() == "a"


def test_Q_04_the_duration_is_a_setting() -> None:
    queue = pooled("a", settings=QueueSettings(max_in_unschedulable=45)).at(59)
    assert queue.popped() is None
    assert queue.at(60).popped() == "a"


def test_Q_04_zero_switches_the_search_off() -> None:
    queue = pooled("a", settings=QueueSettings(max_in_unschedulable=0))
    assert queue.next_due() is None
    assert queue.at(100_000).popped() is None


def test_Q_04_the_time_starts_again_with_every_attempt() -> None:
    queue = pooled("a").at(200).wake("a")
    queue.reject(queue.pop().key, "Taints")
    assert queue.next_due() == 510


# --- taken early ------------------------------------------------------------------------------------------------------


def test_Q_16_an_idle_worker_takes_a_rejected_item_before_its_back_off_ends() -> None:
    item = pooled("a").wake("a").pop()
    assert (str(item.key), item.attempts) == ("a", 2)


def test_Q_16_a_failed_item_is_never_taken_early() -> None:
    queue = Turned().add("a")
    queue.pop()
    queue.fail("a", at_least_seconds=1)
    assert queue.popped() is None
    assert queue.later(1).popped() == "a"


def test_Q_16_whoever_is_active_goes_first() -> None:
    assert pooled("a").wake("a").add("b").pop_all() == ["b", "a"]


@pytest.mark.parametrize("early_pop", [True, False], ids=["early", "in time"])
def test_Q_17_two_items_of_one_window_are_taken_by_priority(*, early_pop: bool) -> None:
    queue = Turned(priorities={"b": 1}, settings=QueueSettings(early_pop=early_pop)).add("a", "b")
    assert queue.pop_all() == ["b", "a"]
    queue.at(0.1).reject("a").at(0.9).reject("b").wake("a", "b")
    if not early_pop:
        queue.at(2)
    assert queue.pop_all() == ["b", "a"]


def test_Q_17_items_of_different_windows_are_taken_by_the_end_of_their_back_off() -> None:
    queue = Turned(priorities={"b": 1}).add("a", "b")
    assert queue.pop_all() == ["b", "a"]
    queue.at(0.9).reject("a").at(1.1).reject("b").wake("a", "b")
    assert queue.pop_all() == ["a", "b"]


def test_Q_18_without_early_popping_nobody_is_taken_before_the_flush() -> None:
    queue = pooled("a", settings=PATIENT).wake("a")
    assert queue.next_due() == 2
    assert queue.at(1.999).popped() is None
    assert queue.at(2).popped() == "a"


# --- failed -----------------------------------------------------------------------------------------------------------


def test_the_wait_after_failures_doubles_from_five_milliseconds_to_a_minute() -> None:
    queue = Turned().add("a")
    waits = []
    for _ in range(16):
        queue.later(100).pop()
        waits.append(queue.fail("a"))
    assert waits[:4] == [0.005, 0.01, 0.02, 0.04]
    assert waits[13:] == [40.96, 60, 60]


def test_a_failed_item_comes_back_exactly_in_time() -> None:
    queue = Turned().add("a")
    queue.pop()
    queue.fail("a")
    assert queue.next_due() == 0.005
    assert queue.at(0.004999).popped() is None
    assert queue.at(0.005).popped() == "a"


def test_failed_items_share_a_budget_of_ten_per_second_with_a_burst_of_a_hundred() -> None:
    keys = [f"p{number}" for number in range(120)]
    queue = Turned().add(*keys)
    for _ in keys:
        queue.pop()
    waits = [queue.fail(key) for key in keys]
    assert waits[:100] == [0.005] * 100
    assert waits[100:] == pytest.approx([0.1 * number for number in range(1, 21)])


def test_the_budget_fills_up_again() -> None:
    queue = Turned(settings=QueueSettings(rate=1, burst=2)).add("a", "b", "c")
    assert queue.pop_all() == ["a", "b", "c"]
    assert [queue.fail(key) for key in "abc"] == [0.005, 0.005, 1]
    queue.later(10)
    assert sorted(queue.pop_all()) == ["a", "b", "c"]
    assert [queue.fail(key) for key in "abc"] == [0.01, 0.01, 1]


def test_wrong_input_waits_at_least_as_long_as_it_is_told_to() -> None:
    queue = Turned().add("a")
    queue.pop()
    assert queue.fail("a", at_least_seconds=60) == 60
    assert queue.at(59.9).popped() is None
    assert queue.at(60).popped() == "a"


def test_success_ends_a_row_of_failures() -> None:
    queue = Turned()
    for _ in range(5):
        queue.later(1).add("a").pop()
        queue.fail("a")
    queue.later(1).pop()
    queue.succeed("a").add("a").pop()
    assert queue.fail("a") == 0.005
