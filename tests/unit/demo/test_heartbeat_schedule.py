"""Heartbeats are spread evenly, whoever joins or leaves."""

from __future__ import annotations

import math

import pytest

from fleet.demo.heartbeat_schedule import HeartbeatSchedule

INTERVAL = 20.0
TICK = 0.2


def due_per_tick(timetable: HeartbeatSchedule, *, begin: float, until: float) -> list[int]:
    ticks = round((until - begin) / TICK)
    return [len(timetable.due(begin + TICK * tick)) for tick in range(1, ticks + 1)]


def a_timetable(members: int) -> HeartbeatSchedule:
    timetable = HeartbeatSchedule(INTERVAL)
    for number in range(members):
        timetable.add(f"c{number}", 0.0)
    return timetable


def test_a_newcomer_is_due_at_once() -> None:
    timetable = a_timetable(1)

    assert timetable.due(0.0) == ["c0"]
    assert timetable.due(0.0) == []


@pytest.mark.parametrize("members", [12, 1000, 1234])
def test_everybody_is_due_once_in_every_interval(members: int) -> None:
    timetable = a_timetable(members)
    timetable.due(0.0)
    due_per_tick(timetable, begin=0.0, until=INTERVAL)

    assert sum(due_per_tick(timetable, begin=INTERVAL, until=2 * INTERVAL)) == members


def test_a_thousand_members_are_spread_evenly_over_the_interval() -> None:
    timetable = a_timetable(1000)
    timetable.due(0.0)

    per_tick = due_per_tick(timetable, begin=INTERVAL, until=3 * INTERVAL)[100:]

    assert min(per_tick) >= 8
    assert max(per_tick) <= 12


def test_the_spread_stays_even_when_half_of_them_leave() -> None:
    timetable = a_timetable(2000)
    timetable.due(0.0)
    for number in range(1000):
        timetable.remove(f"c{number}")

    per_tick = due_per_tick(timetable, begin=INTERVAL, until=3 * INTERVAL)[100:]

    assert len(timetable) == 1000
    assert min(per_tick) >= 8
    assert max(per_tick) <= 12


def test_beats_that_were_missed_are_not_made_up_for() -> None:
    timetable = a_timetable(3)

    assert sorted(timetable.due(100 * INTERVAL)) == ["c0", "c1", "c2"]
    assert timetable.due(100 * INTERVAL) == []


def test_whoever_was_removed_is_never_due_again_and_may_come_back() -> None:
    timetable = a_timetable(2)
    timetable.remove("c0")

    assert timetable.due(0.0) == ["c1"]
    timetable.add("c0", 1.0)
    assert timetable.due(1.0) == ["c0"]


def test_the_wait_ends_when_the_next_one_is_due() -> None:
    timetable = HeartbeatSchedule(INTERVAL)
    assert timetable.wait(3.0) == math.inf

    timetable.add("c0", 3.0)
    assert timetable.wait(3.0) == 0.0
    timetable.due(3.0)
    assert timetable.due(3.0 + timetable.wait(3.0)) == ["c0"]
