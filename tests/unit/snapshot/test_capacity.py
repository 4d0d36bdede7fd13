"""Room on clusters: whole units, what is left for whom, and who is where."""

from __future__ import annotations

from typing import cast

import msgspec
import numpy as np
import pytest

from fleet.model.views import MemberCluster
from fleet.snapshot import Frame, Table
from fleet.snapshot.capacity import assumed_ledger
from fleet.snapshot.columns.bitset import Int64Array
from fleet.snapshot.sidedata import Nomination, PlacedBinding
from fleet.snapshot.table import overlay


def a_member(name: str, *, allocatable: dict[str, str], available: dict[str, str] | None = None) -> MemberCluster:
    usage = {"allocatable": allocatable, "available": allocatable if available is None else available}
    return msgspec.convert({"metadata": {"name": name}, "status": {"resourceUsage": usage}}, MemberCluster)


def free(frame: Frame, resource: str, cluster: str, *, priority: int = 0) -> int:
    row = frame.row_of(cluster)
    assert row is not None
    return int(frame.capacity(resource).free(priority=priority)[row])


@pytest.mark.parametrize(
    "allocatable, available, want_alloc, want_used",
    [
        ("1.1", "0.3", 1100, 800),
        ("100.3", "100.1", 100_300, 200),
        ("1500m", "1", 1500, 500),
        ("2", "3", 2000, 0),
    ],
)
def test_cpu_is_counted_in_thousandths(allocatable: str, available: str, want_alloc: int, want_used: int) -> None:
    frame = Table([a_member("c1", allocatable={"cpu": allocatable}, available={"cpu": available})]).freeze()

    cpu = frame.capacity("cpu")

    assert (cpu.alloc.tolist(), cpu.used.tolist()) == ([want_alloc], [want_used])


def test_memory_is_counted_in_bytes_and_what_nobody_reports_is_unknown() -> None:
    clusters = [
        a_member("c1", allocatable={"memory": "3Gi"}, available={"memory": "1Gi"}),
        a_member("c2", allocatable={}),
    ]
    memory = Table(clusters).freeze().capacity("memory")

    assert memory.known.tolist() == [True, False]
    assert memory.alloc.tolist() == [3 << 30, 0]
    assert memory.free(priority=0).tolist() == [1 << 30, 0]


def test_without_what_is_available_nothing_is_known() -> None:
    """Else its reports would end bookings, and never show what took their place."""
    cpu = Table([a_member("c1", allocatable={"cpu": "4"}, available={})]).freeze().capacity("cpu")

    assert (cpu.known.tolist(), cpu.alloc.tolist()) == ([False], [0])


def test_reservations_reduce_what_is_free_and_giving_back_restores_it() -> None:
    table = Table([a_member("c1", allocatable={"cpu": "4"})])
    before = table.freeze()
    table.book(assumed_ledger("cpu"), "c1", 1500)
    booked = table.freeze()
    table.book(assumed_ledger("cpu"), "c1", -1500)

    assert [free(frame, "cpu", "c1") for frame in (before, booked, table.freeze())] == [4000, 2500, 4000]


def test_nominated_room_is_taken_for_equal_and_lower_priorities_only() -> None:
    table = Table([a_member("c1", allocatable={"cpu": "4"})])
    table.nominate([Nomination("c1", "team/web", priority=10, requests={"cpu": 3000})])
    frame = table.freeze()

    assert [free(frame, "cpu", "c1", priority=priority) for priority in (0, 10, 11)] == [1000, 1000, 4000]


def test_a_nomination_for_an_unknown_cluster_is_harmless() -> None:
    table = Table([a_member("c1", allocatable={"cpu": "4"})])
    table.nominate([Nomination("gone", "team/web", priority=10, requests={"cpu": 3000})])

    assert free(table.freeze(), "cpu", "c1") == 4000


def test_what_is_free_follows_each_change_between_frames_that_were_read() -> None:
    table = Table([a_member("c1", allocatable={"cpu": "4"}), a_member("c2", allocatable={"cpu": "4"})])
    assert free(table.freeze(), "cpu", "c2") == 4000

    table.book(assumed_ledger("cpu"), "c2", 500)
    assert free(table.freeze(), "cpu", "c2") == 3500

    table.nominate([Nomination("c2", "team/web", priority=0, requests={"cpu": 1000})])
    assert free(table.freeze(), "cpu", "c2") == 2500

    table.put(a_member("c2", allocatable={"cpu": "8"}))
    assert free(table.freeze(), "cpu", "c2") == 6500


def test_room_on_rows_is_that_of_whoever_asks() -> None:
    table = Table([a_member("c1", allocatable={"cpu": "4"}), a_member("c2", allocatable={})])
    table.nominate([Nomination("c1", "web", priority=10, requests={"cpu": 3000})])
    cpu, both, first = table.freeze().capacity("cpu"), np.array([0, 1]), np.array([0])

    asked = [(both, 0, "web"), (both, 0, "db"), (both, 11, "db"), (first, 11, "db")]
    rooms = [cpu.room_on(rows, priority=priority, placement=name) for rows, priority, name in asked]

    assert [room.free.tolist() for room in rooms] == [[4000, 0], [1000, 0], [4000, 0], [4000]]
    assert [None if room.some is None else room.some.tolist() for room in rooms] == [*3 * [[True, False]], [True]]
    assert rooms[0].divisor.tolist() == [4000, 1]


def test_two_threads_that_ask_first_at_once_have_each_what_is_free_to_them() -> None:
    table = Table([a_member("c1", allocatable={"cpu": "4"})])
    table.nominate([Nomination("c1", "web", priority=10, requests={"cpu": 3000})])
    cpu = table.freeze().capacity("cpu")

    class Unbooked:
        """While it is read, another thread asks."""

        def __sub__(self, assumed: Int64Array) -> Int64Array:
            cpu._unbooked = cpu.alloc - cpu.used
            others.append(cpu.free(priority=0, placement="db"))
            return cpu._unbooked - assumed

    others: list[Int64Array] = []
    cpu._unbooked = cast(Int64Array, Unbooked())
    assert cpu.free(priority=0, placement="db").tolist() == others[0].tolist() == [1000]
    assert cpu.free(priority=0, placement="web").tolist() == [4000]


def test_room_of_rows_that_are_read_alone_is_that_of_all() -> None:
    table = Table([a_member("c1", allocatable={"cpu": "4"}), a_member("c2", allocatable={"cpu": "2"})])
    table.book(assumed_ledger("cpu"), "c2", 500)
    cpu = table.freeze().capacity("cpu")

    assert cpu.room_on(np.array([1]), priority=0).free.tolist() == [1500]
    assert cpu.free(priority=0).tolist() == [4000, 1500]
    assert cpu.room_on(slice(None), priority=0).free.tolist() == [4000, 1500]
    assert cpu.room_on(np.array([0]), priority=0).some is None


def test_presence_lists_who_is_where_in_row_order() -> None:
    table = Table([a_member("c1", allocatable={}), a_member("c2", allocatable={})])
    table.place("c2", PlacedBinding("web", priority=5, started=7, state="Bound"))
    table.place("c2", PlacedBinding("db"))
    table.place("c2", PlacedBinding("web", priority=6, started=8, state="Bound"))

    presence = table.freeze().presence()

    assert presence.pointers.tolist() == [0, 0, 2]
    assert presence.placements == ("db", "web")
    assert presence.priorities.tolist() == [0, 6]
    assert presence.started.tolist() == [0, 8]
    assert presence.states == ("", "Bound")


def test_an_overlay_assumes_and_displaces_without_touching_its_base() -> None:
    table = Table([a_member("c1", allocatable={})])
    table.place("c1", PlacedBinding("web"))
    base = table.freeze()

    changed = overlay(base, place=[("c1", PlacedBinding("db"))], displace=[("c1", "web")])

    assert changed.presence().placements == ("db",)
    assert base.presence().placements == ("web",)
    assert changed.generation > base.generation


def test_displacing_what_is_not_there_changes_nothing() -> None:
    base = Table([a_member("c1", allocatable={})]).freeze()

    assert overlay(base, displace=[("c1", "web")]) is base


def test_a_cluster_that_leaves_takes_its_bindings_along() -> None:
    table = Table([a_member("c1", allocatable={})])
    table.place("c1", PlacedBinding("web"))
    table.remove("c1")
    table.put(a_member("c2", allocatable={}))

    assert table.freeze().presence().placements == ()


def test_placing_on_an_unknown_cluster_names_it() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        Table().place("nowhere", PlacedBinding("web"))
