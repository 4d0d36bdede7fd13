"""What there is to measure, and the fresh process each part is measured in.

A process of its own keeps one group's heap, caches and warm processor out of the next one's figures.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from tests.bench.adapter import adapter
from tests.bench.building import building
from tests.bench.decisions import decisions, other_decisions
from tests.bench.figures import Figure
from tests.bench.growth import by_clusters, by_picks
from tests.bench.hooks import hook_times
from tests.bench.measuring import Run
from tests.bench.memory import memory
from tests.bench.naive import naive
from tests.bench.upkeep import upkeep

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    title: str
    note: str
    measure: Callable[[Run], Iterator[Figure]]
    quick: bool = False
    """Part of a short run unless others are named: the groups with targets."""


GROUPS: Final = (
    Group(
        "decide",
        "One decision",
        "Warm: columns and masks are in use, the placement is new. Status and digest are made only when asked for; "
        "each column includes the ones before it. The target is for the decision alone.",
        decisions,
        quick=True,
    ),
    Group(
        "situations",
        "Other situations",
        "10,000 clusters. After a change, the decision is the first one on its frame.",
        other_decisions,
    ),
    Group(
        "hooks",
        "Where a decision spends its time",
        "10,000 clusters, by the probe, which costs a little itself. Compared with nothing.",
        hook_times,
    ),
    Group(
        "upkeep",
        "Keeping the frame true",
        "10,000 clusters with all columns in use, up to and including the new frame.",
        upkeep,
        quick=True,
    ),
    Group(
        "build",
        "Starting up",
        "10,000 clusters. First decisions pay for the columns, masks and cells they are the first to ask for.",
        building,
        quick=True,
    ),
    Group(
        "memory",
        "Memory",
        "10,000 clusters, all columns, masks and cells of the measured policies in use. A frame refers to the decoded "
        "objects; they are there once, however many frames there are.",
        memory,
        quick=True,
    ),
    Group(
        "adapter",
        "Plugins written for one cluster at a time",
        "The adapter's share is what remains after the author's code, called in a bare loop, is taken off.",
        adapter,
        quick=True,
    ),
    Group(
        "fleet-growth",
        "Growth with the fleet",
        "10 picks. An exponent of 1 means twice the clusters, twice the time.",
        by_clusters,
    ),
    Group(
        "picks-growth",
        "Growth with the picks",
        "Picks among 10,000 clusters.",
        by_picks,
    ),
    Group(
        "naive",
        "Against the naive oracle",
        "The oracle looks at every object again for every pick, as the contract is worded. Both up to the published "
        "status; the oracle from documents, Fleet from a frame in use.",
        naive,
    ),
)
NAMES: Final = tuple(group.name for group in GROUPS)
QUICK_NAMES: Final = tuple(group.name for group in GROUPS if group.quick)


def measured(name: str, *, quick: bool) -> list[Figure]:
    """The figures of a group, from a process of its own."""
    return in_fresh_process(_measure, name, quick)


def _measure(name: str, quick: bool) -> list[Figure]:  # noqa: FBT001 - crosses to the other process
    group = next(one for one in GROUPS if one.name == name)
    return list(group.measure(Run(name, quick)))


def in_fresh_process(call: Callable[..., T], *args: object) -> T:
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(call, *args).result()
