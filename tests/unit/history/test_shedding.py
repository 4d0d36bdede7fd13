"""A history that cannot follow gives up details, then inputs, and what changed something last of all; and says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet.history import PartState
from fleet.history.buffer import AttemptBuffer
from fleet.history.history import WriterTiming
from tests.databases import OpenHistory
from tests.unit.history.sources import Fleet, Offered, an_attempt, ids, keep

KIB = 1024


def a_queue(*, memory: int = 100 * KIB, most: int = 10) -> AttemptBuffer:
    return AttemptBuffer(memory=memory, most=most)


def full() -> Offered:
    return an_attempt().on(Fleet(a="a")).judged()


def parts(queue: AttemptBuffer) -> list[tuple[bool, bool]]:
    """Of what waits: whether it has its columns, and its inputs."""
    return [(one.columns(with_names=False) is not None, one.inputs() is not None) for one in queue.take_batch()]


def test_with_room_everything_waits_as_it_is() -> None:
    queue = a_queue()
    queue.offer(full().weighing(50 * KIB, 1 * KIB))
    assert parts(queue) == [(True, True)]
    assert queue.read_counts().shed_columns == 0


def test_from_half_of_the_memory_on_columns_are_given_up() -> None:
    queue = a_queue()
    queue.offer(full().weighing(40 * KIB, 1 * KIB))
    queue.offer(full().weighing(20 * KIB, 1 * KIB))
    assert parts(queue) == [(True, True), (False, True)]
    assert (queue.read_counts().shed_columns, queue.read_counts().shed_inputs) == (1, 0)


def test_from_three_quarters_on_inputs_are_given_up_too() -> None:
    queue = a_queue()
    queue.offer(full().weighing(80 * KIB, 70 * KIB))
    queue.offer(full().weighing(80 * KIB, 70 * KIB))
    assert parts(queue) == [(False, True), (False, False)]
    assert (queue.read_counts().shed_columns, queue.read_counts().shed_inputs) == (2, 1)


def test_without_room_only_what_changed_something_waits() -> None:
    queue = a_queue()
    loud, quiet = full().weighing(99 * KIB, 99 * KIB), full().unchanged().weighing(99 * KIB, 99 * KIB)
    queue.offer(loud)
    queue.offer(quiet)
    assert [one.attempt().id for one in queue.take_batch()] == ids(loud)
    assert queue.read_counts().shed_attempts == 1


def test_of_too_many_the_oldest_is_given_up() -> None:
    queue = a_queue(most=3)
    offered = [an_attempt() for _ in range(5)]
    for one in offered:
        queue.offer(one)
    assert [one.attempt().id for one in queue.take_batch()] == ids(*offered[2:])
    assert queue.read_counts().shed_attempts == 2


def test_what_was_written_makes_room() -> None:
    queue = a_queue()
    for _ in range(3):
        queue.offer(full().weighing(40 * KIB, 40 * KIB))
        assert parts(queue) == [(True, True)]
        queue.finish_batch()


def test_what_is_being_written_makes_no_room_yet() -> None:
    queue = a_queue()
    queue.offer(full().weighing(70 * KIB, 70 * KIB))
    queue.offer(full().weighing(70 * KIB, 70 * KIB))
    assert parts(queue) == [(False, True), (False, False)]
    queue.offer(full().weighing(10 * KIB, 10 * KIB))
    assert parts(queue) == [(False, False)]


def test_when_what_was_decided_fills_the_memory_the_oldest_is_given_up() -> None:
    queue = a_queue(memory=100 * KIB, most=1_000)
    offered = [full().weighing(100 * KIB, 100 * KIB) for _ in range(500)]
    for one in offered:
        queue.offer(one)
    kept = [one.attempt().id for one in queue.take_batch()]
    assert 50 < len(kept) < 200
    assert kept == ids(*offered)[-len(kept) :]
    assert queue.read_counts().shed_attempts == 500 - len(kept)


def test_what_was_decided_says_all_that_it_said_before() -> None:
    queue = a_queue()
    offered = full().choosing("c1", "c2").weighing(100 * KIB, 100 * KIB)
    queue.offer(offered)
    (kept,) = queue.take_batch()
    assert kept.attempt() == offered.told
    assert (kept.key, kept.changed, kept.shed) == ("web", True, frozenset({"columns", "inputs"}))


def test_who_waits_for_the_history_need_not_wait_for_company(open_history: OpenHistory) -> None:
    history = open_history(pace=WriterTiming(linger=3600.0, quiet=3600.0, burst=3600.0))
    offered = an_attempt()
    keep(history, offered)
    assert [one.id for one in history.since(0)] == ids(offered)


def test_everything_offered_is_accounted_for() -> None:
    queue = a_queue(most=3)
    for _ in range(20):
        queue.offer(full().weighing(30 * KIB, 10 * KIB))
    counted = queue.read_counts()
    assert counted.offered == counted.waiting + counted.shed_attempts == 20


@pytest.mark.parametrize(
    "lighten, columns, inputs",
    [
        (Offered.without_columns, PartState.SHED, PartState.KEPT),
        (Offered.without_inputs, PartState.SHED, PartState.SHED),
    ],
    ids=["columns", "inputs"],
)
def test_the_record_says_what_was_shed(
    open_history: OpenHistory, lighten: Callable[[Offered], Offered], columns: PartState, inputs: PartState
) -> None:
    history = open_history()
    keep(history, lighten(full()))
    (found,) = history.since(0)
    assert (found.columns, found.inputs) == (columns, inputs)
