"""What there is to measure, and the fresh process each part is measured in.

A process of its own keeps one group's heap, caches and warm processor out of the next one's figures.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from tests.bench.adapter import adapter
from tests.bench.affinity import affinity
from tests.bench.api import api
from tests.bench.building import building
from tests.bench.controller.group import creating_on_embedded, creating_on_real, joining, on_embedded, on_real
from tests.bench.decisions import decisions, other_decisions
from tests.bench.figures import Figure, summary_of
from tests.bench.growth import by_clusters, by_picks
from tests.bench.history import history
from tests.bench.hooks import hook_times
from tests.bench.hostile import hostile
from tests.bench.hub import hub
from tests.bench.kube import kube
from tests.bench.meanwhile import meanwhile
from tests.bench.measuring import Run
from tests.bench.memory import memory
from tests.bench.naive import naive
from tests.bench.preempting import preempting
from tests.bench.room import room
from tests.bench.scheduling.group import scheduling
from tests.bench.upkeep import upkeep
from tests.bench.waiting import waiting

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    title: str
    note: str
    measure: Callable[[Run], Iterator[Figure]]
    quick: bool = False
    """Part of a short run unless others are named: the groups with targets."""


_SCHEDULING: Final = (
    "Bursts of placements of 10 picks, from the snapshot to Scheduled, by the clock; the plain client makes the same "
    "writes to the same hub without deciding. All processes share the machine."
)
_CREATING: Final = (
    "A burst of placements of 10 picks, from their creation to the condition Scheduled, with placement controller and "
    "scheduler in one process and default settings; the plain client makes the same writes without deciding. By the "
    "clock, on one machine."
)

GROUPS: Final = (
    Group(
        "decide",
        "One decision",
        "Warm: columns and masks are in use, the placement is new. Status and digest are computed on demand; "
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
        "room",
        "Room",
        "A placement that requests cpu and memory, decided by the default profile with ResourceFit, and with QuotaFit, "
        "after a booking, beside the default profile alone. Speed kept is the share of the decisions per second. The "
        "ledger holds a binding for each booking, on 10,000 clusters.",
        room,
        quick=True,
    ),
    Group(
        "affinity",
        "Other placements",
        "A placement with terms about others, decided by the default profile with PlacementAffinity, on 5,000 clusters "
        "with as many placements, after each of which another one came. Placements of one kind have equal labels.",
        affinity,
        quick=True,
    ),
    Group(
        "preempting",
        "Preemption",
        "A placement finds every cluster of 5,000 full; a tenth of them is searched for bindings to evict, by filters "
        "that judge each cluster by itself. The whole decision.",
        preempting,
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
    Group(
        "kube",
        "Lists and watches",
        "10,000 MemberClusters of 2 kB through reflector and store, from a process that serves prepared bytes. Rates "
        "are per second of the client's processor time. The package is given the same bytes in the same run.",
        kube,
        quick=True,
    ),
    Group(
        "scheduling",
        "The scheduler on a hub in its own process",
        "The whole scheduler with its informers, queue and writes, and a hub of dictionaries, in one process: "
        "placements of 3 picks per second of processor time, the hub's part included. Rate kept is the rate beside "
        "something else against that of a second scheduler in the same run, five disturbances at a time in which 690 "
        "are placed. Kept with options is the default profile's part of what a placement with options costs.",
        scheduling,
    ),
    Group(
        "hub",
        "The embedded hub",
        "Over HTTP, by the clock: requests on 32 connections, 8 under way on each, from a client on the same machine.",
        hub,
        quick=True,
    ),
    Group(
        "controller-real",
        "The scheduler on a real API server",
        f"{_SCHEDULING} etcd and kube-apiserver, over TLS.",
        on_real,
    ),
    Group(
        "controller-embedded",
        "The scheduler on the embedded hub",
        f"{_SCHEDULING} The hub is in memory and without TLS.",
        on_embedded,
    ),
    Group(
        "creating-real",
        "From creation to Scheduled on a real API server",
        _CREATING,
        creating_on_real,
    ),
    Group(
        "creating-embedded",
        "From creation to Scheduled on the embedded hub",
        _CREATING,
        creating_on_embedded,
    ),
    Group(
        "history",
        "The decision history",
        "SQLite. A decision with its inputs, verdicts and scores; its clusters are in the journal. Processor time "
        "is that of a burst on the embedded hub; throughput kept is the rate with a history against that without, in "
        "alternating bursts.",
        history,
        quick=True,
    ),
    Group(
        "api",
        "Answers to why",
        "5,000 clusters, from the current state, with fast fixes. Making one, up to its bytes, by processor time; over "
        "HTTP by the clock, from `fleet api` in a separate process, without a history. Served again: the same few "
        "answers, from bytes that were made once; per core by the processor time of the server.",
        api,
        quick=True,
    ),
    Group(
        "meanwhile",
        "API requests while placements wait",
        "1,000 clusters, bursts of placements of 10 picks, and eight callers that request 500 clusters with all "
        "verdicts in a loop. Throughput kept is that with callers against that without; of `fleet api` in a separate "
        "process, against that while they call the API of another hub, which keeps the machine as busy. The "
        "processor time is the scheduler's, for one placement.",
        meanwhile,
    ),
    Group(
        "hostile",
        "Questions about large policies",
        "All questions about policies in growing sizes: each list that has no bound, `fleet controller` "
        "and `fleet api`. By the clock: `/livez` of both, and small questions of another caller, which are compared "
        "with those of a quiet moment before. The slowest question may be cut at its deadline.",
        hostile,
    ),
    Group(
        "joining",
        "A cluster joins",
        "1,000 clusters, and placements with a policy each that wait for one more: processor time without a hub. Two "
        "clusters join: one of no use to any placement, and one that a single placement can use.",
        joining,
        quick=True,
    ),
    Group(
        "waiting",
        "Placements that wait",
        "Bursts of 100 placements of 10 picks on the embedded hub, beside placements that wait and beside none, in "
        "turns. Processor time of `fleet controller` for a placement, the median of twenty bursts; throughput kept is "
        "what it leaves of the rate per core.",
        waiting,
    ),
)
NAMES: Final = tuple(group.name for group in GROUPS)
QUICK_NAMES: Final = tuple(group.name for group in GROUPS if group.quick)


def measured(name: str, *, quick: bool) -> list[Figure]:
    """The figures of a group, from a process of its own."""
    return in_fresh_process(_measure, name, quick)


def _measure(name: str, quick: bool) -> list[Figure]:  # noqa: FBT001 - crosses to the other process
    group = next(one for one in GROUPS if one.name == name)
    figures = []
    for figure in group.measure(Run(name, quick)):
        sys.stderr.write(f"  {summary_of(figure)}\n")
        figures.append(figure)
    return figures


def in_fresh_process(call: Callable[..., T], *args: object) -> T:
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(call, *args).result()
