"""ResourceFit and BalancedAllocation over columns equal one cluster after the other, computed in exact fractions."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Final

import pytest

from fleet.framework.arguments import RawArgs
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext
from fleet.framework.policy.resource_requests import read_requests
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.informers.cache import book_room
from fleet.model.keys import PICK_N
from fleet.snapshot.columns.bitset import as_bits, to_rows
from fleet.snapshot.table import Table
from plugins.capacity.balanced_allocation import BalancedAllocation
from plugins.capacity.resource_fit import ResourceFit
from tests.builders import a_cluster

SEEDS: Final = 200
RESOURCES: Final = ("cpu", "memory", "example.com/gpu")
MILLI: Final = {"cpu": 1000}


class Fleet:
    """Clusters with random room, some of it not reported, some booked."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.requests = {name: str(dice.randint(1, 9)) for name in RESOURCES if dice.random() < 0.7} or {"cpu": "1"}
        self.reported: dict[str, dict[str, tuple[int, int | None]]] = {}
        self.booked: dict[str, dict[str, int]] = {}
        clusters = []
        for number in range(dice.randint(1, 30)):
            name = f"c{number}"
            has = {each: dice.randint(0, 16) for each in RESOURCES if dice.random() < 0.8}
            free = {each: dice.randint(-1, amount) for each, amount in has.items() if dice.random() < 0.9}
            self.reported[name] = {each: (amount, free.get(each)) for each, amount in has.items()}
            self.booked[name] = {
                each: dice.randint(1, 4000) for each in RESOURCES if each in MILLI and dice.random() < 0.4
            }
            written: dict[str, str | int | float] = {each: str(amount) for each, amount in has.items()}
            left: dict[str, str | int | float] = {each: str(amount) for each, amount in free.items()}
            clusters.append(a_cluster(name).having(capacity=written, allocatable=written, available=left).build())
        table = Table(clusters)
        for name, booked in self.booked.items():
            book_room(table, name, booked)
        self.frame = table.freeze()
        self.request = PlacementRequest(placement="web", placement_type=PICK_N, requests=read_requests(self.requests))

    def read_room(self, cluster: str, resource: str) -> tuple[Fraction, Fraction] | None:
        """Room and what is free of it, in whole units; None if it is not reported."""
        known = self.reported[cluster].get(resource)
        if known is None or known[1] is None:
            return None
        scale = MILLI.get(resource, 1)
        has, free = known[0] * scale, known[1] * scale
        return Fraction(has), Fraction(min(free, has) - self.booked[cluster].get(resource, 0))

    def fits(self, cluster: str) -> bool:
        rooms = ((self.read_room(cluster, name), amount) for name, amount in self.request.requests.items())
        return all(room is None or amount <= room[1] for room, amount in rooms)

    def share_left(self, cluster: str, resource: str) -> Fraction:
        room = self.read_room(cluster, resource)
        if room is None or not room[0]:
            return Fraction(0)
        return (room[1] - self.request.requests.get(resource, 0)) / room[0]

    def used_share(self, cluster: str, resource: str) -> float | None:
        room = self.read_room(cluster, resource)
        return None if room is None or not room[0] else float(1 - self.share_left(cluster, resource))


def context() -> HookContext:
    return HookContext(now=0, bindings=PlacementBindings())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_X_15_columns_equal_single_clusters(seed: int) -> None:
    fleet = Fleet(seed)
    frame, names = fleet.frame, [fleet.frame.name(row) for row in to_rows(fleet.frame.valid, fleet.frame.size)]
    plugin = ResourceFit(RawArgs({"resources": list(RESOURCES)}))
    verdict = plugin.filter(context(), CycleState(), fleet.request, frame, frame.valid)

    fitting = as_bits(verdict.ok, frame.valid)
    assert {name for name in names if fleet.fits(name)} == {frame.name(row) for row in to_rows(fitting, frame.size)}
    rows = to_rows(frame.valid, frame.size)
    scores = plugin.score(context(), CycleState(), fleet.request, frame, rows).tolist()
    for name, score in zip(names, scores, strict=True):
        mean = sum((fleet.share_left(name, resource) for resource in RESOURCES), Fraction(0)) / len(RESOURCES) * 100
        assert abs(score - float(min(max(mean, Fraction(0)), Fraction(100)))) <= 0.5 + 1e-9
    balance = BalancedAllocation(RawArgs({"resources": list(RESOURCES)}))
    balanced = balance.score(context(), CycleState(), fleet.request, frame, rows).tolist()
    for name, score in zip(names, balanced, strict=True):
        assert abs(score - balance_of(fleet, name)) <= 0.5 + 1e-9


def balance_of(fleet: Fleet, name: str) -> float:
    shares = [share for each in RESOURCES if (share := fleet.used_share(name, each)) is not None]
    if not shares or any(share > 1 for share in shares):
        return 0.0
    mean = sum(shares) / len(shares)
    deviation = (sum((share - mean) ** 2 for share in shares) / len(shares)) ** 0.5
    return max(0.0, 100 * (1 - float(deviation)))
