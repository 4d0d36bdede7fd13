"""What goes, what stays, and that what stays can still be used."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import sqlalchemy as sql

from fleet.history import History, PartState, RetentionLimits
from fleet.history.entries import Columns
from fleet.history.storage.tables import JOURNAL, PROFILES
from tests.builders import NOW
from tests.databases import OpenHistory
from tests.fake_clock import FakeClock
from tests.unit.history.sources import HOUR, Fleet, Offered, an_attempt, ids, keep

GENEROUS = RetentionLimits()


def kept(history: History) -> list[str]:
    return [one.id for one in history.since(0, limit=1000)]


def journal_rows(history: History) -> int:
    with history._database.reading() as connection:
        return connection.execute(sql.select(sql.func.count()).select_from(JOURNAL)).scalar_one()


def tidied(history: History) -> list[str]:
    history.run_retention()
    return kept(history)


def old(key: str = "web") -> Offered:
    return an_attempt(key).at(NOW - 800 * HOUR)


def heavy(fleet: Fleet) -> Offered:
    """100 KiB that cannot be compressed."""
    return replace(an_attempt().on(fleet), kept_columns=Columns(names_hash="h", verdicts=Random(1).randbytes(102_400)))


def test_what_is_young_and_little_stays(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    offered = [an_attempt().on(Fleet(a="a")).judged() for _ in range(3)]
    keep(history, *offered)
    assert tidied(history) == ids(*offered)
    assert all(history.inputs(one.told.id) for one in offered)


def test_what_grows_by_a_quarter_is_tidied_before_its_time(open_history: OpenHistory) -> None:
    clock, fleet = FakeClock(), Fleet(a="a")
    history = open_history(clock=clock, limits=RetentionLimits(max_mib=1))
    offered = [heavy(fleet) for _ in range(20)]
    for one in offered:
        keep(history, one)
        clock.advance(10)
    assert history.size() < 1.5 * 1_048_576
    assert kept(history) == ids(*offered)[-len(kept(history)) :]


def test_old_attempts_go(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    young = an_attempt()
    keep(history, old(), old(), young)
    assert tidied(history) == ids(young)


def test_an_old_record_that_was_repeated_lately_stays(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    start, again = old().unchanged().decided("same"), an_attempt().unchanged().decided("same")
    keep(history, start, again, an_attempt())
    assert kept(history)[0] == tidied(history)[0] == start.told.id


def test_the_newest_attempt_of_a_living_placement_stays_whatever_its_age(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    web, db = old("web").on(Fleet(a="a")), old("db")
    keep(history, old("web"), web, db)
    assert tidied(history) == ids(web, db)
    assert history.inputs(web.told.id) is not None


def test_of_a_placement_that_is_gone_nothing_has_to_stay(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    keep(history, old(), an_attempt().found_gone().at(NOW - 799 * HOUR))
    assert tidied(history) == []
    assert history.placements(deleted=True) == []


def test_a_tombstone_is_known_for_an_hour(open_history: OpenHistory) -> None:
    clock = FakeClock()
    history = open_history(clock=clock, limits=replace(GENEROUS, max_age_hours=1))
    keep(history, an_attempt().found_gone().at(NOW))
    clock.set(NOW + HOUR // 2)
    history.run_retention()
    assert [one.key for one in history.placements(deleted=True)] == ["web"]


def test_only_so_many_attempts_of_a_placement_stay(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock(), limits=replace(GENEROUS, per_placement=2))
    web, db = [an_attempt("web") for _ in range(4)], [an_attempt("db")]
    keep(history, *web, *db)
    assert tidied(history) == ids(*web[2:], *db)


def test_only_so_many_attempts_stay_in_all(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock(), limits=replace(GENEROUS, max_attempts=3))
    web, db = [an_attempt("web") for _ in range(4)], [an_attempt("db") for _ in range(2)]
    keep(history, *db, *web)
    assert tidied(history) == ids(db[1], *web[2:])


def test_only_the_newest_attempts_of_a_placement_keep_their_columns(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock(), limits=replace(GENEROUS, columns_per_placement=1))
    older, newer = an_attempt().judged(), an_attempt().judged()
    keep(history, older, newer)
    tidied(history)
    assert [one.columns for one in history.since(0)] == [PartState.EXPIRED, PartState.KEPT]
    assert history.columns(older.told.id) is None
    assert history.columns(newer.told.id) is not None


def test_when_it_is_too_much_the_oldest_go(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock(), limits=replace(GENEROUS, max_mib=1))
    fleet = Fleet(a="a")
    offered = [heavy(fleet) for _ in range(15)]
    keep(history, *offered)
    before = history.size()
    found = tidied(history)
    assert before > 1_048_576 >= history.size()
    assert found == ids(*offered)[-len(found) :]
    assert len(found) > 1


def test_what_has_to_stay_gets_lighter_when_it_is_too_much(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock(), limits=replace(GENEROUS, max_mib=1))
    fleet = Fleet(a="a")
    offered = [heavy(fleet).of(f"p{number}") for number in range(15)]
    keep(history, *offered)
    assert tidied(history) == ids(*offered)
    assert history.size() <= 1_048_576
    assert history.since(0)[0].columns is PartState.EXPIRED
    assert history.since(14)[0].columns is PartState.KEPT
    assert history.inputs(offered[0].told.id) is not None


def test_the_journal_keeps_what_retained_attempts_were_decided_on_and_no_more(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    fleet = Fleet(a="a0", b="b")
    first = old("rare").on(fleet)
    keep(history, first)
    for number in range(1, 20):
        fleet.change(a=f"a{number}" * 100)
        keep(history, old("busy").on(fleet))
    last = history.latest("busy")
    size = history.size()
    history.run_retention()
    assert last is not None
    assert [history.inputs(one) for one in (first.told.id, last.id)] != [None, None]
    recorded = [history.inputs(one) for one in (first.told.id, last.id)]
    assert [one and one.clusters for one in recorded] == [(b"a0", b"b"), (b"a19" * 100, b"b")]
    assert history.size() < size / 2


def test_rows_of_the_journal_that_are_not_needed_alone_are_joined(open_history: OpenHistory) -> None:
    clock = FakeClock(NOW - 2 * HOUR)
    first = open_history(clock=clock)
    fleet = Fleet(**{f"c{number}": Random(number).randbytes(500).hex() for number in range(20)})
    expected = {}
    for turn in range(50):
        fleet.change(**{f"c{turn % 23}": f"{turn}" if turn % 5 else None})
        offered = (an_attempt(f"p{turn}") if turn % 10 == 3 else old("busy")).on(fleet)
        keep(first, offered)
        expected[offered.told.id] = tuple(fleet.clusters[name] for name in sorted(fleet.clusters))
    first.close()
    clock.set(NOW)
    second = open_history(clock=clock)
    assert journal_rows(second) == 49
    kept_ids = tidied(second)
    assert len(kept_ids) == 6
    assert journal_rows(second) <= 12
    found = {one: second.inputs(one) for one in kept_ids}
    assert {one: recorded and recorded.clusters for one, recorded in found.items()} == {
        one: expected[one] for one in kept_ids
    }
    rows, size = journal_rows(second), second.size()
    second.run_retention()
    assert (journal_rows(second), second.size()) == (rows, size)


def test_sessions_that_nobody_needs_go_with_their_journal(open_history: OpenHistory) -> None:
    clock = FakeClock(NOW - 2 * HOUR)
    first = open_history(clock=clock)
    keep(first, old().on(Fleet(a="a" * 5000)))
    first.close()
    clock.set(NOW)
    second = open_history(clock=clock)
    keep(second, an_attempt())
    tidied(second)
    assert second.size() < 1000


def test_a_session_in_use_goes_on_after_its_attempts_went(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    fleet = Fleet(a="a", b="b1")
    keep(history, old().on(fleet), an_attempt("web").found_gone().at(NOW - 799 * HOUR))
    assert tidied(history) == []
    fleet.change(b="b2")
    later = an_attempt().on(fleet)
    keep(history, later)
    recorded = history.inputs(later.told.id)
    assert recorded is not None
    assert recorded.clusters == (b"a", b"b2")


def test_seq_is_never_given_twice(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    keep(history, old(), an_attempt("web").found_gone().at(NOW - 799 * HOUR))
    seen = history.last_seq()
    assert tidied(history) == []
    later = an_attempt("db")
    keep(history, later)
    assert [one.id for one in history.since(seen)] == ids(later)


def test_profiles_stay_as_long_as_an_attempt_names_them(open_history: OpenHistory) -> None:
    history = open_history(clock=FakeClock())
    fleet = Fleet(a="a")
    gone = old().on(fleet).by_profile("c1")
    others = [an_attempt().on(fleet).by_profile("c2"), an_attempt().on(fleet).by_profile("c3")]
    keep(history, gone, *others)
    assert profiles(history) == {"c1", "c2", "c3"}
    assert tidied(history) == ids(*others)
    assert profiles(history) == {"c2", "c3"}
    again = an_attempt().on(fleet).by_profile("c1")
    keep(history, again)
    inputs = history.inputs(again.told.id)
    assert inputs is not None
    assert inputs.profile == b"profile c1"


def profiles(history: History) -> set[str]:
    with history._database.reading() as connection:
        return set(connection.execute(sql.select(PROFILES.c.config_hash)).scalars())
