"""PoolTopologyMatch over columns equals one cluster after the other, computed in exact fractions."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Final

import numpy as np
import pytest

from fleet.framework.arguments import RawArgs
from fleet.framework.bindings import PlacementBindings
from fleet.framework.context import HookContext
from fleet.framework.policy.resource_requests import read_requests
from fleet.framework.request import PlacementRequest
from fleet.framework.state import CycleState
from fleet.informers.cache import book_room
from fleet.model.keys import PICK_N
from fleet.model.views import MemberCluster
from fleet.snapshot.columns.bitset import as_bits, to_rows
from fleet.snapshot.columns.pools import PoolsColumn
from fleet.snapshot.table import Table
from plugins.capacity.pool_topology import PoolTopologyMatch
from tests.builders import a_cluster

SEEDS: Final = 200
RESOURCES: Final = ("cpu", "memory", "example.com/gpu")
NOW: Final = 1_000_000 * 1_000_000_000
MAX_AGE: Final = 300
STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "BalancedAllocation")

Pools = dict[str, dict[str, tuple[int, int]]]
"""By pool and resource: what is allocatable and available, in whole units."""


def build_cluster(dice: random.Random, name: str) -> tuple[MemberCluster, Pools, int]:
    pools: Pools = {}
    for number in range(dice.choice((0, 1, 2, 3, 7))):
        resources = {each: dice.randint(0, 16) for each in RESOURCES if dice.random() < 0.8}
        pools[f"p{number}"] = {each: (has, dice.randint(0, has)) for each, has in resources.items()}
    age = dice.choice((0, MAX_AGE, MAX_AGE + 1))
    written = np.datetime_as_string(np.datetime64((NOW // 10**9) - age, "s"))
    cluster = a_cluster(name).pooled(pools, f"{written}Z").build()
    return cluster, {pool: resources for pool, resources in pools.items() if resources}, age


class Fleet:
    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        requests = {name: str(dice.randint(0, 9)) for name in RESOURCES if dice.random() < 0.7} or {"cpu": "1"}
        self.request = PlacementRequest(placement="web", placement_type=PICK_N, requests=read_requests(requests))
        made = [build_cluster(dice, f"c{number}") for number in range(dice.randint(1, 20))]
        self.pools = {cluster.metadata.name: pools for cluster, pools, _ in made}
        self.ages = {cluster.metadata.name: age for cluster, _, age in made}
        self.booked = {
            name: {each: dice.randint(1, 4) * scale(each) for each in RESOURCES if dice.random() < 0.3}
            for name in self.pools
        }
        table = Table(cluster for cluster, _, _ in made)
        for name, booked in self.booked.items():
            book_room(table, name, booked)
        self.frame = table.freeze()

    def is_stale(self, name: str) -> bool:
        return bool(self.pools[name]) and self.ages[name] > MAX_AGE

    def list_fitting(self, name: str) -> list[str]:
        return [pool for pool in self.pools[name] if all(self.fits(name, pool, each) for each in self.request.requests)]

    def fits(self, name: str, pool: str, resource: str) -> bool:
        if not any(resource in resources for resources in self.pools[name].values()):
            return True
        _, available = self.pools[name][pool].get(resource, (0, -(10**6)))
        free = available * scale(resource) - self.booked[name].get(resource, 0)
        return free >= self.request.requests[resource]

    def score(self, name: str, strategy: str) -> float:
        if self.is_stale(name):
            return 0.0
        return min((self.score_pool(name, pool, strategy) for pool in self.list_fitting(name)), default=0.0)

    def score_pool(self, name: str, pool: str, strategy: str) -> float:
        shares = []
        for resource, amount in self.request.requests.items():
            has, available = (value * scale(resource) for value in self.pools[name][pool].get(resource, (0, 0)))
            if has:
                shares.append(Fraction(has - available + self.booked[name].get(resource, 0) + amount, has))
        if not shares:
            return math.inf
        mean = sum(shares, Fraction(0)) / len(shares)
        if strategy == "BalancedAllocation":
            variance = sum(((share - mean) ** 2 for share in shares), Fraction(0)) / len(shares)
            return 100 * (1 - math.sqrt(variance))
        return float(100 * (mean if strategy == "MostAllocated" else 1 - mean))


def scale(resource: str) -> int:
    return 1000 if resource == "cpu" else 1


@pytest.mark.parametrize("seed", range(SEEDS))
def test_T_12_columns_equal_single_clusters(seed: int) -> None:
    fleet = Fleet(seed)
    frame, strategy = fleet.frame, STRATEGIES[seed % 3]
    plugin = PoolTopologyMatch(RawArgs({"strategy": strategy, "maxAgeSeconds": MAX_AGE}))
    ctx = HookContext(now=NOW, bindings=PlacementBindings())
    verdict = plugin.filter(ctx, CycleState(), fleet.request, frame, frame.valid)
    accepted = {frame.name(row) for row in to_rows(as_bits(verdict.ok, frame.valid), frame.size)}

    assert accepted == {
        name
        for name, pools in fleet.pools.items()
        if not pools or (fleet.list_fitting(name) and not fleet.is_stale(name))
    }
    rows = to_rows(frame.valid, frame.size)
    scores = plugin.score(ctx, CycleState(), fleet.request, frame, rows).tolist()
    for row, score in zip(rows.tolist(), scores, strict=True):
        expected = fleet.score(frame.name(row), strategy)
        assert abs(score - (0.0 if math.isinf(expected) else expected)) <= 0.5 + 1e-6
    for row in rows.tolist():
        if frame.name(row) not in accepted and not fleet.is_stale(frame.name(row)):
            assert verdict.explain is not None
            details = verdict.explain(row)
            assert len(details["pools"]) == len(fleet.pools[frame.name(row)])
            assert details["short"]


@pytest.mark.parametrize("seed", range(50))
def test_a_column_of_pools_that_is_kept_up_equals_a_new_one(seed: int) -> None:
    dice = random.Random(seed)
    names = [f"c{number}" for number in range(6)]
    table = Table(build_cluster(dice, name)[0] for name in names[:3])
    for _ in range(12):
        earlier = table.freeze()
        before = read_all(earlier.pools, earlier.size)
        name = dice.choice(names)
        if dice.random() < 0.2:
            table.remove(name)
        else:
            table.put(build_cluster(dice, name)[0])
        frame = table.freeze()
        assert read_all(frame.pools, frame.size) == read_all(PoolsColumn(frame.size, frame.clusters), frame.size)
        assert read_all(earlier.pools, earlier.size) == before


def read_all(column: PoolsColumn, size: int) -> list[object]:
    """Of each row how many pools it has, when they were reported, and their quantities."""
    rows: list[object] = []
    for row in range(size):
        count = int(column.counts[row])
        quantities = {
            resource: np.nan_to_num(array[row, :count], nan=-1).tolist()
            for resource in RESOURCES
            if (array := column.of(resource)) is not None and not np.isnan(array[row]).all()
        }
        rows.append((count, int(column.observed_at[row]), quantities))
    return rows
