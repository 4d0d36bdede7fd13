"""What is kept by row from one decision to the next equals what is computed anew, on tables and on what-ifs of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest

from fleet.framework.arguments import RawArgs
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext
from fleet.framework.policy.resource_requests import read_requests
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.informers.cache import book_room
from fleet.model.keys import NODE_COUNT, PICK_N
from fleet.model.views import MemberCluster
from fleet.snapshot.columns.bitset import Rows, to_rows
from fleet.snapshot.frame import Frame
from fleet.snapshot.removals import Removals
from fleet.snapshot.row_memo import RowMemo
from fleet.snapshot.sidedata import Nomination, PlacedBinding
from fleet.snapshot.table import Table, overlay
from plugins.capacity.balanced_allocation import BalancedAllocation
from plugins.capacity.resource_fit import ResourceFit
from tests.builders import a_cluster

SEEDS: Final = 60
STEPS: Final = 40
CLUSTERS: Final = 24
REQUESTS: Final = (
    PlacementRequest(placement="web", placement_type=PICK_N, requests=read_requests({"cpu": "2", "memory": "1"})),
    PlacementRequest(placement="db", placement_type=PICK_N, requests=read_requests({"cpu": "5"}), priority=3),
    PlacementRequest(placement="gpu", placement_type=PICK_N, requests=read_requests({"gpu": "1"}), priority=9),
    PlacementRequest(placement="agent", placement_type=PICK_N, node_requests=read_requests({"cpu": "1"})),
)


def context() -> HookContext:
    return HookContext(now=0, bindings=PlacementBindings())


def a_member(dice: random.Random, number: int) -> MemberCluster:
    has: dict[str, str | int | float] = {each: dice.randint(0, 9) for each in ("cpu", "memory", "gpu")}
    reported: dict[str, str | int | float] = {name: amount for name, amount in has.items() if dice.random() < 0.8}
    left: dict[str, str | int | float] = {name: dice.randint(0, int(amount)) for name, amount in reported.items()}
    cluster = a_cluster(f"c{number}").measured({NODE_COUNT: str(dice.randint(1, 3))})
    return cluster.having(capacity=reported, allocatable=reported, available=left).build()


def change(table: Table, dice: random.Random) -> None:
    names = sorted(name for name in (f"c{number}" for number in range(CLUSTERS)) if name in table)
    one, what = dice.choice(names), dice.randrange(10)
    if what < 5:
        book_room(table, one, {"cpu": dice.choice((-1000, 1000, 2000))})
    elif what < 7:
        table.put(a_member(dice, dice.randrange(CLUSTERS)))
    elif what == 7 and len(names) > CLUSTERS // 2:
        table.remove(one)
    elif what == 8:
        priority, placement = dice.choice((0, 5)), dice.choice(("web", "db", "other"))
        table.nominate([Nomination(one, placement, priority, requests={"cpu": 2000})] if dice.random() < 0.7 else [])
    else:
        table.place(one, PlacedBinding("web", requests=(("cpu", 1000), ("memory", 1))))


def take_away(table: Table, frame: Frame, dice: random.Random) -> None:
    """What preemption tries."""
    there = {row: bindings for row, bindings in enumerate(frame.placed) if bindings}
    chosen = {row: there[row] for row in dice.sample(sorted(there), min(len(there), 3))}
    table.give_back(Removals(chosen))
    if dice.random() < 0.5:
        table.leave_out(chosen)


def list_frames(seed: int, *, grows: bool = False) -> Iterator[tuple[random.Random, Frame]]:
    """Of a table that goes on, and of forks of it and of forks of those."""
    dice = random.Random(seed)
    table = Table(a_member(dice, number) for number in range(CLUSTERS))
    for step in range(STEPS):
        for _ in range(dice.choice((0, 1, 1, 3))):
            change(table, dice)
        if grows and step == STEPS // 2:
            table.put(a_member(dice, CLUSTERS))
        yield dice, (frame := table.freeze())
        while dice.random() < 0.3:
            fork = Table.fork(frame)
            (change(fork, dice) if dice.random() < 0.5 else take_away(fork, frame, dice))
            frame = fork.freeze().exclude([dice.randrange(CLUSTERS)]) if dice.random() < 0.2 else fork.freeze()
            yield dice, (frame := frame.apart() if dice.random() < 0.2 else frame)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_what_is_kept_equals_what_is_computed_anew(seed: int) -> None:
    def build() -> tuple[ResourceFit | BalancedAllocation, ...]:
        strict = RawArgs({"unknown": "Reject", "strategy": "MostAllocated", "resources": ["cpu", "gpu"]})
        return ResourceFit(), ResourceFit(strict), BalancedAllocation()

    lasting = build()
    for dice, frame in list_frames(seed, grows=True):
        request, rows = dice.choice(REQUESTS), to_rows(frame.valid, frame.size)
        for kept, new in zip(lasting, build(), strict=True):
            if isinstance(kept, ResourceFit) and isinstance(new, ResourceFit):
                judged, anew = (
                    each.filter(context(), CycleState(), request, frame, frame.valid) for each in (kept, new)
                )
                assert judged.ok == anew.ok
                assert np.array_equal(judged.reason, anew.reason)
            scores = kept.score(context(), CycleState(), request, frame, rows)
            assert scores.tolist() == new.score(context(), CycleState(), request, frame, rows).tolist()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rows_that_differ_between_two_frames_are_found(seed: int) -> None:
    frames = [frame for _, frame in list_frames(seed)]
    dice = random.Random(seed)
    for _ in range(100):
        one, other = dice.choice(frames), dice.choice(frames)
        found = other.find_changed(one.log_position)
        if found is not None:
            assert set(list_differing(one, other)) <= set(found)
    assert all(later.find_changed(first.log_position) is not None for first, later in pairwise(frames))


def list_differing(one: Frame, other: Frame) -> Iterator[int]:
    assert one.size == other.size
    for row in range(one.size):
        booked = [frame.ledger("assumed/cpu")[row] for frame in (one, other)]
        nominated = [
            [each for each in frame.nominations if frame.row_of(each.cluster) == row] for frame in (one, other)
        ]
        if (
            one.clusters[row] is not other.clusters[row]
            or one.placed[row] != other.placed[row]
            or booked[0] != booked[1]
            or nominated[0] != nominated[1]
        ):
            yield row


class Counting:
    """Computes the number of bindings, and notes for how many rows."""

    def __init__(self) -> None:
        self.memo = RowMemo[np.int64]()
        self.computed: list[int] = []

    def read(self, frame: Frame, signature: str = "") -> list[int]:
        def compute(rows: Rows | slice) -> npt.NDArray[np.int64]:
            counts = np.array([len(bindings) for bindings in frame.placed], dtype=np.int64)[rows]
            self.computed.append(len(counts))
            return counts

        counts: list[int] = self.memo.column(signature, frame, compute).tolist()
        return counts


def test_only_rows_that_changed_are_computed_anew() -> None:
    table, counting = Table(a_cluster(f"c{number:02d}").build() for number in range(20)), Counting()
    first = table.freeze()
    counting.read(first)
    table.place("c03", PlacedBinding("web"))
    table.place("c05", PlacedBinding("web"))
    second = table.freeze()
    assert sum(counting.read(second)) == 2
    assert counting.read(second) == counting.read(second)
    what_if = overlay(second, place=[("c07", PlacedBinding("db"))])
    assert sum(counting.read(what_if)) == 3
    assert sum(counting.read(first)) == 0
    assert sum(counting.read(second, "another signature")) == 2
    assert counting.computed == [20, 2, 1, 3, 20]


def test_rows_with_nominations_are_computed_for_each_request_and_once_more_afterwards() -> None:
    table, counting = Table(a_cluster(f"c{number:02d}").build() for number in range(20)), Counting()
    counting.read(table.freeze())
    table.nominate([Nomination("c02", "web", priority=1, requests={"cpu": 1})])
    counting.read(table.freeze())
    counting.read(table.freeze())
    table.nominate([])
    counting.read(table.freeze())
    counting.read(table.freeze())
    assert counting.computed == [20, 1, 1, 1]


def test_nothing_is_kept_of_a_few_clusters() -> None:
    """A change of a cluster is judged in a frame of that cluster alone, with the plugins of the fleet."""
    table, counting = Table(a_cluster(f"c{number:02d}").build() for number in range(20)), Counting()
    counting.read(table.freeze())
    counting.read(Table([a_cluster("c01").build()]).freeze())
    counting.read(table.freeze())
    assert counting.computed == [20, 1]


def test_a_fleet_that_grows_or_changes_in_most_places_is_computed_anew() -> None:
    table, counting = Table(a_cluster(f"c{number:02d}").build() for number in range(20)), Counting()
    counting.read(table.freeze())
    for number in range(6):
        table.place(f"c{number:02d}", PlacedBinding("web"))
    assert sum(counting.read(table.freeze())) == 6
    table.put(a_cluster("c99").build())
    assert sum(counting.read(table.freeze())) == 6
    assert counting.computed == [20, 20, table.freeze().size]


def test_signatures_and_changes_that_are_kept_are_bounded() -> None:
    table, counting = Table(a_cluster(f"c{number:02d}").build() for number in range(2000)), Counting()
    for number in range(20):
        counting.read(table.freeze(), f"signature {number}")
    assert len(counting.memo._kept) <= 8
    for number in range(10_000):
        table.put(a_cluster("c01").labelled({"number": str(number)}).build())
    assert len(table.freeze().log_position.log.rows) <= 1024
    frame = table.freeze()
    for _ in range(200):
        frame = overlay(frame, place=[("c01", PlacedBinding("web"))])
        frame = overlay(frame, displace=[("c01", "web")])
    assert frame.log_position.log.depth <= 64
