"""Any recorded attempt gets its own fleet back, however the fleet went on."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import sqlalchemy as sql

from fleet.history import History
from fleet.history.storage.tables import JOURNAL
from tests.builders import NOW
from tests.control_plane.waiting import soon
from tests.databases import OpenHistory
from tests.fake_clock import FakeClock
from tests.unit.history.sources import HOUR, Fleet, Offered, an_attempt, keep


def fleet_of(history: History, offered: Offered) -> list[str] | None:
    found = history.inputs(offered.told.id)
    return None if found is None else [document.decode() for document in found.clusters]


def rows_of(history: History, *conditions: Any) -> list[int]:
    with history._database.reading() as connection:
        asked = sql.select(JOURNAL.c.seq).where(*conditions).order_by(JOURNAL.c.seq)
        return list(connection.execute(asked).scalars())


def test_each_attempt_has_the_clusters_of_its_moment(history: History) -> None:
    fleet = Fleet(a="a1", b="b1")
    first = an_attempt().on(fleet)
    fleet.change(b="b2", c="c1")
    second = an_attempt().on(fleet)
    fleet.change(a=None)
    third = an_attempt().on(fleet)
    fleet.change(a="a3")
    fourth = an_attempt().on(fleet)
    keep(history, first, second)
    keep(history, third, fourth)
    assert [fleet_of(history, one) for one in (first, second, third, fourth)] == [
        ["a1", "b1"],
        ["a1", "b2", "c1"],
        ["b2", "c1"],
        ["a3", "b2", "c1"],
    ]


def test_an_empty_fleet_is_a_fleet(history: History) -> None:
    fleet = Fleet()
    first = an_attempt().on(fleet)
    fleet.change(a="a1")
    second = an_attempt().on(fleet)
    keep(history, first, second)
    assert [fleet_of(history, one) for one in (first, second)] == [[], ["a1"]]


def test_documents_that_share_nothing_come_back_too(history: History) -> None:
    fleet = Fleet(a="", b="x" * 100_000, c="ünïcode")
    offered = an_attempt().on(fleet)
    keep(history, offered)
    assert fleet_of(history, offered) == ["", "x" * 100_000, "ünïcode"]


def test_names_are_in_the_order_that_decisions_use(history: History) -> None:
    fleet = Fleet(**{"b": "b", "B": "B", "a-b": "a-b", "a.b": "a.b", "ab": "ab"})
    offered = an_attempt().on(fleet)
    keep(history, offered)
    assert fleet_of(history, offered) == sorted(fleet.clusters)


def test_unchanged_clusters_are_written_once(history: History) -> None:
    fleet = Fleet(**{f"c{number}": f"cluster {number}" * 30 for number in range(50)})
    keep(history, an_attempt().on(fleet))
    size = history.size()
    keep(history, an_attempt().on(fleet))
    assert history.size() - size < 1000


def test_the_whole_fleet_is_written_again_when_changes_outgrew_it(history: History) -> None:
    fleet = Fleet(**{f"c{number}": f"{number}" for number in range(10)})
    offered, expected = [], []
    for turn in range(60):
        fleet.change(**{f"c{turn % 13}": f"{turn}" * 20 if turn % 7 else None})
        offered.append(an_attempt().on(fleet))
        expected.append([fleet.clusters[name].decode() for name in sorted(fleet.clusters)])
    keep(history, *offered)
    assert [fleet_of(history, one) for one in offered] == expected
    wholes = rows_of(history, JOURNAL.c.is_whole)
    assert 2 < len(wholes) < 10
    assert wholes[0] == 1


def test_where_changes_are_small_the_whole_fleet_is_written_now_and_then(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.history.storage.journal._LONGEST", 10)
    fleet = Fleet(a="x" * 5_000, b=Random(1).randbytes(5_000).hex())
    for turn in range(24):
        fleet.change(a=f"{turn}")
        keep(history, an_attempt().on(fleet))
    assert rows_of(history, JOURNAL.c.is_whole) == [1, 12, 23]


def test_clusters_that_changed_together_share_a_row(history: History) -> None:
    fleet = Fleet(**{f"c{number}": f"cluster {number} of many" * 10 for number in range(1_000)})
    keep(history, an_attempt().on(fleet))
    before = history.size()
    fleet.change(**{f"c{number}": f"cluster {number} of some" * 10 for number in range(1_000)})
    keep(history, an_attempt().on(fleet))
    assert rows_of(history) == [1, 2]
    assert history.size() - before < 60_000


def test_a_writer_that_was_idle_for_long_begins_anew(open_history: OpenHistory) -> None:
    """What no attempt needs of its session may be gone by then."""
    clock = FakeClock()
    one, other = open_history(clock=clock), open_history(clock=clock)
    fleet = Fleet(a="a1", b="b1")
    first = an_attempt("web").on(fleet)
    fleet.change(b="b2")
    gone = an_attempt("db").on(fleet).at(NOW - 800 * HOUR)
    keep(one, first, gone, an_attempt("db").found_gone().at(NOW - 799 * HOUR))
    clock.advance(2 * 3600)
    # A look that was under way counts as one of two hours until it ends.
    soon(lambda: one.known_since is None and other.known_since is None)
    other.run_retention()
    fleet.change(a="a2")
    later = an_attempt("web").on(fleet)
    keep(one, later)
    assert one.inputs(gone.told.id) is None
    assert [fleet_of(one, offered) for offered in (first, later)] == [["a1", "b1"], ["a2", "b2"]]


def test_two_writers_at_once_do_not_mix_their_fleets(open_history: OpenHistory) -> None:
    one, other = open_history(), open_history()
    here, there = Fleet(a="here", b="here"), Fleet(a="there")
    first, second = an_attempt("web").on(here), an_attempt("db").on(there)
    keep(one, first)
    keep(other, second)
    here.change(b=None)
    third = an_attempt("web").on(here)
    keep(one, third)
    assert [fleet_of(one, offered) for offered in (first, second, third)] == [["here", "here"], ["there"], ["here"]]
    assert [attempt.seq for attempt in other.since(0)] == [1, 2, 3]


def test_the_rest_of_the_inputs_comes_back_with_it(history: History) -> None:
    offered = an_attempt().on(Fleet(a="a"), bindings=[b'{"x":1}', b"{}"])
    keep(history, offered)
    found = history.inputs(offered.told.id)
    assert found is not None
    assert found.bindings == (b'{"x":1}', b"{}")
    assert (found.request, found.previous, found.now) == (b'{"spec":{}}', b"{}", offered.told.started)
    assert found.placement_uid == offered.told.placement_uid
    assert found.attempt.id == offered.told.id


def test_nothing_is_made_up_for_an_attempt_without_inputs(history: History) -> None:
    offered = an_attempt()
    keep(history, offered)
    assert history.inputs(offered.told.id) is None
    assert history.inputs("a-nobody-1") is None
