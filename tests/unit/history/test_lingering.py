"""How long attempts wait to be written: they share a transaction, and in a burst they leave the processor to those who
decide."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import repeat
from typing import TypeVar

from fleet.history.buffer import AttemptBuffer
from tests.unit.history.sources import an_attempt

T = TypeVar("T")

MOMENT = 0.2
LONGEST = 1.0
BURST = 5.0
MIB = 1 << 20


class Scripted(threading.Condition):
    """Nobody waits in earnest: as much comes in a moment as the test says."""

    def __init__(self, come: Callable[[], object]) -> None:
        super().__init__()
        self._come = come
        self.moments = 0

    def wait_for(self, predicate: Callable[[], T], timeout: float | None = None) -> T:
        assert timeout == MOMENT
        if not predicate():
            self._come()
            self.moments += 1
        return predicate()


class Counting(threading.Condition):
    times = 0

    def notify_all(self) -> None:
        self.times += 1


def lingered(*coming: int, then: int = 0, weight: int = 0, most: int = 100_000) -> tuple[float, int]:
    """For how many seconds, and for how many, where so many come from moment to moment."""
    waiting = AttemptBuffer(memory=100 * MIB, most=most)
    counts = iter((*coming, *repeat(then, 1000)))

    def come() -> None:
        for _ in range(next(counts)):
            waiting.offer(an_attempt().weighing(weight))

    waiting._changed = condition = Scripted(come)
    waiting.linger(quiet=MOMENT, longest=LONGEST, burst=BURST)
    return round(condition.moments * MOMENT, 1), len(waiting)


def test_until_no_more_is_coming() -> None:
    assert lingered(5, 4, 0) == (0.6, 9)


def test_no_longer_than_a_second_where_a_few_keep_coming() -> None:
    assert lingered(then=9) == (LONGEST, 45)


def test_W_09_in_a_burst_until_it_is_over() -> None:
    assert lingered(*repeat(60, 12)) == (2.6, 720)


def test_a_burst_that_thins_out_is_written() -> None:
    assert lingered(*repeat(60, 12), then=3) == (2.6, 723)


def test_W_09_a_burst_that_does_not_end_is_written_after_five_seconds() -> None:
    assert lingered(then=60) == (BURST, 1500)


def test_until_two_thousand_wait() -> None:
    assert lingered(then=500) == (0.8, 2000)


def test_while_less_than_a_quarter_of_the_memory_is_in_use() -> None:
    assert lingered(then=11, weight=MIB) == (0.6, 33)


def test_while_fewer_wait_than_a_quarter_of_what_may_wait_at_all() -> None:
    assert lingered(then=11, most=100) == (0.6, 33)


def test_who_waits_for_something_else_is_not_woken_by_each_that_comes_when_enough_wait() -> None:
    waiting = AttemptBuffer(memory=100 * MIB, most=10)
    waiting._changed = condition = Counting()
    for _ in range(9):
        waiting.offer(an_attempt())

    assert condition.times == 2  # by the first, and by the fourth


def test_not_where_everything_was_waited_for_already() -> None:
    waiting = AttemptBuffer(memory=MIB, most=10)
    waiting.close()
    waiting._changed = condition = Scripted(lambda: None)
    waiting.linger(quiet=MOMENT, longest=LONGEST, burst=BURST)
    assert condition.moments == 0


def test_an_end_that_begins_when_a_pause_is_about_to_begin_cuts_it_short() -> None:
    waiting = AttemptBuffer(memory=100 * MIB, most=100)
    slept: list[float] = []
    waiting._changed = Scripted(lambda: slept.append(MOMENT))

    def measured() -> float:
        waiting.close()
        return MOMENT

    waiting.wait_before_retry(measured)

    assert slept == []
