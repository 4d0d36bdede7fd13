"""The slow lane: changes of clusters are gathered, and then wake everybody at once."""

from __future__ import annotations

from fleet.scheduler.queue.item import QueuePolicy
from fleet.scheduler.queue.settings import QueueSettings
from tests.unit.scheduler.queue_fakes import Turned

BATCHED = QueueSettings(batch_period=300)


def batched(at: float = 0) -> Turned:
    return Turned(policy=QueuePolicy(), settings=BATCHED, at=at)


def test_keys_of_the_slow_lane_wait_for_the_next_batch() -> None:
    queue = batched().wake("a", "b", batched=True)
    assert queue.counts() == {"batched": 2}
    assert queue.next_due() == 300
    assert queue.at(299.9).popped() is None
    assert queue.at(300).pop_all() == ["a", "b"]
    assert queue.counts() == {"in_flight": 2}


def test_batches_keep_to_their_period() -> None:
    queue = batched(at=299).wake("a", batched=True)
    assert queue.next_due() == 300


def test_a_signal_moves_the_batch_earlier() -> None:
    queue = batched().wake("a", batched=True)
    queue.queue.flush_batch(queue.now)
    assert queue.popped() == "a"
    assert queue.next_due() is None


def test_one_move_takes_twenty_thousand_keys_and_leaves_the_rest_to_the_next() -> None:
    queue = batched().wake(*(f"p{number:05}" for number in range(20_001)), batched=True)
    queue.at(300).tick()
    assert queue.counts() == {"active": 20_000, "batched": 1}
    assert queue.next_due() == 600
    queue.at(600).tick()
    assert queue.counts() == {"active": 20_001}


def test_without_a_period_there_is_no_slow_lane() -> None:
    assert Turned(policy=QueuePolicy()).wake("a", batched=True).counts() == {"active": 1}


def test_an_event_of_the_placement_itself_does_not_wait_for_the_batch_nor_run_it_twice() -> None:
    queue = batched().wake("a", trigger="cluster", batched=True).add("a", trigger="edited")
    assert queue.pop().triggers == ("edited", "cluster")
    assert queue.succeed("a").counts() == {}
    assert queue.at(300).popped() is None


def test_who_is_active_already_does_not_wait_for_the_batch() -> None:
    queue = batched().add("a", trigger="edited").wake("a", trigger="cluster", batched=True)
    assert queue.counts() == {"active": 1}
    assert queue.pop().triggers == ("edited", "cluster")


def test_a_slow_key_in_flight_runs_again_with_the_batch_and_not_before() -> None:
    queue = batched().add("a")
    queue.pop()
    queue.wake("a", batched=True).succeed("a")
    assert queue.counts() == {"batched": 1}
    assert queue.at(300).popped() == "a"


def test_a_slow_key_that_is_still_in_flight_when_the_batch_is_moved_runs_again() -> None:
    queue = batched().add("a")
    queue.pop()
    queue.wake("a", batched=True).at(300).tick()
    assert queue.succeed("a").counts() == {"active": 1}


def test_the_batch_wakes_rejected_and_failed_placements() -> None:
    queue = batched().add("a", "b")
    assert queue.pop_all() == ["a", "b"]
    queue.reject("a", "Taints").fail("b", at_least_seconds=1000)
    queue.wake("a", "b", batched=True).at(300).tick()
    assert queue.counts() == {"active": 2}


def test_Q_46_force_activating_takes_a_key_out_of_the_slow_lane() -> None:
    queue = batched().wake("a", batched=True).activate("a")
    assert queue.popped() == "a"
    assert queue.succeed("a").counts() == {}


def test_Q_47_deleting_takes_a_key_out_of_the_slow_lane() -> None:
    queue = batched().wake("a", batched=True).delete("a")
    assert queue.counts() == {}
    assert queue.next_due() is None
