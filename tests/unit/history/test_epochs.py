"""What a leader records late, after another one has taken over, is not the newest."""

from __future__ import annotations

from fleet.history import History
from tests.databases import OpenHistory
from tests.unit.history.sources import Fleet, an_attempt, ids, keep


def newest(history: History, key: str = "web") -> str:
    placement = history.placement(key)
    assert placement is not None
    found = next(one for one in history.attempts(key) if one.seq == placement.newest)
    assert history.latest(key) == found
    return found.id


def test_a_late_attempt_is_behind_those_of_the_next_leader(open_history: OpenHistory) -> None:
    deposed, leader = open_history(), open_history()
    first, second, late = an_attempt().led(1), an_attempt().led(2), an_attempt().led(1)
    keep(deposed, first)
    keep(leader, second)
    keep(deposed, late)
    assert [one.id for one in leader.attempts("web")] == ids(second, late, first)
    assert newest(leader) == second.told.id
    assert [one.id for one in leader.since(0)] == ids(first, second, late), "followers get it when it is recorded"


def test_what_the_next_leader_records_after_it_is_the_newest_again(open_history: OpenHistory) -> None:
    deposed, leader = open_history(), open_history()
    first, second, late, third = an_attempt().led(1), an_attempt().led(2), an_attempt().led(1), an_attempt().led(2)
    keep(deposed, first)
    keep(leader, second)
    keep(deposed, late)
    keep(leader, third)
    assert [one.id for one in leader.attempts("web")] == ids(third, second, late, first)
    assert newest(leader) == third.told.id


def test_every_number_is_that_of_one_attempt(open_history: OpenHistory) -> None:
    deposed, leader = open_history(), open_history()
    keep(deposed, an_attempt().led(1))
    keep(leader, an_attempt().led(2).decided("same"), an_attempt().led(2).unchanged().decided("same"))
    late = [an_attempt().led(1).unchanged().decided("same") for _ in range(2)]
    keep(deposed, *late)
    after = an_attempt().led(2).unchanged().decided("same")
    keep(leader, after)
    numbers = sorted((one.number, one.repeats) for one in leader.attempts("web"))
    assert numbers == [(1, 0), (2, 1), (4, 0), (5, 0), (6, 0)]
    found = [leader.find_by_number("web", number) for number in (4, 5, 6)]
    assert [one and one.id for one in found] == ids(*late, after)


def test_pages_are_in_that_order(open_history: OpenHistory) -> None:
    deposed, leader = open_history(), open_history()
    first, second, late = an_attempt().led(1), an_attempt().led(2), an_attempt().led(1)
    keep(deposed, first)
    keep(leader, second)
    keep(deposed, late)
    pages, before = [], None
    while page := leader.attempts("web", before=before, limit=1):
        pages += [one.id for one in page]
        before = page[-1].epoch, page[-1].seq
    assert pages == ids(second, late, first)


def test_a_late_attempt_brings_no_placement_back(open_history: OpenHistory) -> None:
    deposed, leader = open_history(), open_history()
    keep(deposed, an_attempt().led(1))
    keep(leader, an_attempt().led(2).found_gone())
    keep(deposed, an_attempt().led(1))
    placement = leader.placement("web")
    assert placement is not None
    assert placement.deleted_at is not None
    assert leader.placements() == []


def test_a_late_attempt_keeps_what_it_was_decided_on(open_history: OpenHistory) -> None:
    deposed, leader, fleet = open_history(), open_history(), Fleet(a="a0")
    keep(deposed, an_attempt().led(1).on(fleet))
    keep(leader, an_attempt().led(2))
    fleet.change(a="a1")
    late = an_attempt().led(1).on(fleet)
    keep(deposed, late, an_attempt("db").led(1).on(fleet))
    inputs = leader.inputs(late.told.id)
    assert inputs is not None
    assert inputs.clusters == (b"a1",)
    assert deposed.counts().failed == 0


def test_of_one_leadership_the_last_write_is_the_newest(open_history: OpenHistory) -> None:
    """Two processes without leader election, one after the other or side by side."""
    one, other = open_history(), open_history()
    offered = [an_attempt().led(3) for _ in range(3)]
    for history, attempt in zip((one, other, one), offered, strict=True):
        keep(history, attempt)
    assert [found.id for found in one.attempts("web")] == ids(*reversed(offered))
    assert [found.number for found in one.attempts("web")] == [3, 2, 1]


def test_a_record_that_the_next_leader_confirmed_is_of_that_leadership(open_history: OpenHistory) -> None:
    deposed, leader = open_history(), open_history()
    first = an_attempt().led(1).decided("same")
    keep(deposed, first)
    keep(leader, an_attempt().led(2).unchanged().decided("same"))
    keep(deposed, an_attempt().led(1))
    assert newest(leader) == first.told.id
    assert [(one.repeats, one.epoch) for one in leader.attempts("web")] == [(1, 2), (0, 1)]
