"""The forms of a scheduler's work: many placements, and many while something else goes on."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from fleet.clock import Clock
from fleet.kube.api import Method, Request
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.model.keys import SCHEDULER_CLEANUP
from fleet.scheduler.dispatch.call_queue import CallType
from tests.bench.controller import documents
from tests.bench.fleets import cluster_document, name_of
from tests.bench.policies import plain_policy, policy_snapshot
from tests.bench.scheduling.dict_hub import DictHub
from tests.bench.scheduling.stage import PICKS, Json, PolicyOf, Spent, Stage, a_hub, build_placement, plain, running

OTHER_ZONES: Final = 30
LATENCY: Final = 2.0
"""Seconds that the hub takes for a write about a victim."""
MEMBERS: Final = 3
WARMING: Final = 1_000
POOL: Final = "pool"
_IN_A_ROW: Final = 250
"""Attempts that are compared: a machine may be slow for a while."""

EVICTING: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: DefaultPreemption}]}}
"""
NEIGHBOURLY: Final = """
profiles:
- schedulerName: DefaultScheduler
  plugins:
    preFilter: {enabled: [{name: PlacementAffinity}]}
    filter: {enabled: [{name: PlacementAffinity}]}
    preScore: {enabled: [{name: PlacementAffinity}]}
    score: {enabled: [{name: PlacementAffinity}]}
"""
GROUPED: Final = """
profiles:
- schedulerName: DefaultScheduler
  base: ExtendedProfile
  plugins: {multiPoint: {enabled: [{name: GangPlacement}]}}
"""
EXTENDED: Final = "profiles: [{schedulerName: DefaultScheduler, base: ExtendedProfile}]\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    clusters: int
    placements: int
    bursts: int = 1
    """Of so many placements each, after one of at most `WARMING` that does not count."""
    others: int = 0
    """Objects that are there beside them."""
    every: int = 136
    """Placements between two disturbances: 5 a second at 680 placements a second."""

    def count_placements(self, number: int) -> int:
        """Of a burst."""
        return self.placements if number else min(self.placements, WARMING)


def list_names(prefix: str, number: int, size: int) -> list[str]:
    return [f"{prefix}{number}-{each:05d}" for each in range(size)]


# --- placements and nothing else --------------------------------------------------------------------------------------


async def place_plain(size: Size, *, policy_of: PolicyOf = plain, clock: Clock | None = None) -> list[Spent]:
    hub = a_hub(size.clusters)
    async with running(hub, clock=clock) as stage:
        return await _place_bursts(stage, size, policy_of)


async def place_equal(size: Size, *, clock: Clock | None = None) -> tuple[list[Spent], list[Spent]]:
    """Bursts of unequal placements, and of equal ones, in turns."""
    spent: tuple[list[Spent], list[Spent]] = ([], [])
    async with running(a_hub(size.clusters), clock=clock) as stage:
        for number in range(2 * (size.bursts + 1)):
            names = list_names("p", number, size.count_placements(number // 2))
            stage.create_placements(names)
            spent[number % 2].append(await stage.place(names, _always_the_same if number % 2 else plain))
    return spent[0][1:], spent[1][1:]


def _always_the_same(number: int) -> Json:
    del number
    return plain(0)


async def place_over_zones(size: Size, *, clock: Clock | None = None) -> list[Spent]:
    """Of 30 zones none may have two more than another."""
    hub = a_hub(size.clusters)
    for number in range(size.clusters):
        document = documents.member_cluster(number)
        document["metadata"]["labels"]["zone"] = f"z{number % OTHER_ZONES}"
        hub.put(MEMBER_CLUSTERS.item(name_of(number)), document)
    async with running(hub, clock=clock) as stage:
        return await _place_bursts(stage, size, spread_over_zones)


def spread_over_zones(number: int) -> Json:
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    return {**plain(number), "topologySpreadConstraints": [constraint]}


async def place_near_others(size: Size, *, clock: Clock | None = None) -> list[Spent]:
    """Each keeps away from some of the placements that are there, and prefers the regions of others."""
    hub = a_hub(size.clusters)
    for number in range(size.others):
        app = "busy" if number % 48 == 5 else "web"
        put_placed(hub, f"there-{number:05d}", [name_of(number % size.clusters)], labels={"app": app})
    terms = {
        "required": [{"placements": {"matchLabels": {"app": "busy"}}, "topologyKey": "zone", "anti": True}],
        "preferred": [{"placements": {"matchLabels": {"app": "web"}}, "topologyKey": "region", "weight": 10}],
    }
    async with running(hub, NEIGHBOURLY, clock=clock) as stage:
        return await _place_bursts(stage, size, plain, options={"affinity": terms}, labels={"app": "web"})


async def _place_bursts(
    stage: Stage, size: Size, policy_of: PolicyOf, *, options: Json | None = None, **metadata: Any
) -> list[Spent]:
    """The first one warms up."""
    spent = []
    for number in range(size.bursts + 1):
        names = list_names("p", number, size.count_placements(number))
        stage.create_placements(names, options=options, **metadata)
        spent.append(await stage.place(names, policy_of))
    return spent[1:]


def put_placed(hub: DictHub, name: str, clusters: Sequence[str], **metadata: Any) -> None:
    """A placement that was scheduled long ago."""
    placement = build_placement(name, finalizers=[SCHEDULER_CLEANUP], **metadata)
    hub.put(CLUSTER_SCOPED.placement.item(name), placement)
    snapshot = policy_snapshot(name, plain_policy(len(clusters), 0))
    status = documents.status()
    snapshot["status"] = {**status, "targetClusters": [documents.build_selected(each) for each in clusters]}
    hub.put(CLUSTER_SCOPED.policy_snapshot.item(snapshot["metadata"]["name"]), snapshot)
    for cluster in clusters:
        binding = documents.binding(name, cluster)
        binding["spec"]["state"] = "Bound"
        hub.put(CLUSTER_SCOPED.binding.item(binding["metadata"]["name"]), binding)


# --- beside something else --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compared:
    """Bursts at two schedulers in turns, of which one is disturbed."""

    quiet: list[Spent]
    disturbed: list[Spent]
    stage: Stage
    """The disturbed one."""

    @property
    def percent(self) -> float:
        """Of the quiet rate, by the fastest burst of each: what else the machine does only slows them."""
        return 100 * max(each.rate for each in self.disturbed) / max(each.rate for each in self.quiet)


async def _compare(
    size: Size,
    disturb: Callable[[Stage], Callable[[], None]],
    *,
    profiles: str = "",
    prepare: Callable[[DictHub], None] = lambda _: None,
    clock: Clock | None = None,
) -> Compared:
    async with AsyncExitStack() as stack:
        disturbed_hub = a_hub(size.clusters, delay_of=find_delay)
        prepare(disturbed_hub)
        quiet = await stack.enter_async_context(running(a_hub(size.clusters), profiles, clock=clock))
        stage = await stack.enter_async_context(running(disturbed_hub, profiles, clock=clock))
        meanwhile = disturb(stage)
        spent: dict[bool, list[Spent]] = {False: [], True: []}
        for number in range(size.bursts + 1):
            for is_disturbed in (False, True) if number % 2 else (True, False):
                names = list_names("p", number, size.placements)
                on = stage if is_disturbed else quiet
                on.create_placements(names)
                act = meanwhile if is_disturbed else _do_nothing
                spent[is_disturbed].append(await on.place(names, plain, meanwhile=act, every=size.every))
        return Compared(spent[False][1:], spent[True][1:], stage)


def _do_nothing() -> None: ...


async def place_beside_gated(size: Size, *, clock: Clock | None = None) -> Compared:
    """Thousands are gated; all the while one of them goes, another comes, and a cluster changes and reports."""
    gates = {"gates": [{"name": "example.com/budget"}]}

    def prepare(hub: DictHub) -> None:
        """Watches are not ordered among each other: options and placements must be known before a snapshot comes."""
        coming = (size.bursts + 1) * size.placements // size.every
        for number in range(size.others + coming):
            _put_waiting(hub, f"gated-{number:05d}", plain(number) if number < size.others else None, gates)

    def disturb(stage: Stage) -> Callable[[], None]:
        numbers = count()

        def churn() -> None:
            number = next(numbers)
            stage.hub.remove(CLUSTER_SCOPED.policy_snapshot.item(f"gated-{number:05d}-0"))
            stage.hub.remove(CLUSTER_SCOPED.placement.item(f"gated-{number:05d}"))
            put_snapshot(stage.hub, f"gated-{size.others + number:05d}", plain(number))
            cluster = number % size.clusters
            document = documents.member_cluster(cluster)
            document["metadata"]["labels"]["churn"] = str(number)
            stage.hub.put(MEMBER_CLUSTERS.item(name_of(cluster)), document)

        return churn

    return await _compare(size, disturb, prepare=prepare, clock=clock)


async def place_beside_unschedulable(size: Size, *, clock: Clock | None = None) -> Compared:
    def disturb(stage: Stage) -> Callable[[], None]:
        numbers = count()

        def inject() -> None:
            _put_waiting(stage.hub, f"nowhere-{next(numbers)}", only_in_pool(PICKS, "none"))

        return inject

    return await _compare(size, disturb, clock=clock)


async def place_beside_preemptors(size: Size, *, clock: Clock | None = None) -> Compared:
    """Each preemptor has a cluster of its own, which another placement fills."""

    def prepare(hub: DictHub) -> None:
        for number in range(size.others):
            document = cluster_document(size.clusters + number, labels={"env": "full", POOL: f"full-{number}"})
            document["status"]["resourceUsage"] = {
                **document["status"]["resourceUsage"],
                "allocatable": {"cpu": "4"},
                "available": {"cpu": "4"},
            }
            name = document["metadata"]["name"]
            hub.put(MEMBER_CLUSTERS.item(name), _report_now(document))
            put_options(hub, f"victim-{number}", {"priority": 0, "requests": {"cpu": "4"}})
            put_placed(hub, f"victim-{number}", [name])

    def disturb(stage: Stage) -> Callable[[], None]:
        numbers = count()
        stage.hub.on_write = lambda request: _roll_out(stage.hub, request)

        options = {"priority": 100, "requests": {"cpu": "3"}}

        def inject() -> None:
            number = next(numbers)
            _put_waiting(stage.hub, f"vip-{number}", only_in_pool(1, f"full-{number}"))
            put_options(stage.hub, f"vip-{number + 1}", options)

        put_options(stage.hub, "vip-0", options)
        return inject

    return await _compare(size, disturb, profiles=EVICTING, prepare=prepare, clock=clock)


def find_delay(request: Request) -> float:
    return LATENCY if request.call_class == CallType.EVICT.call_class else 0.0


def _roll_out(hub: DictHub, request: Request) -> None:
    """What KubeFleet does with bindings that were given up: it deletes them."""
    if request.method is Method.PATCH and b'"Unscheduled"' in (request.body or b""):
        hub.remove(request.path)


def _report_now(document: Json) -> Json:
    document["status"]["agentStatus"] = documents.member_cluster(0)["status"]["agentStatus"]
    return document


def only_in_pool(picks: int, pool: str) -> Json:
    policy = plain_policy(picks, 0)
    required = policy["affinity"]["clusterAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["clusterSelectorTerms"] = [{"labelSelector": {"matchLabels": {POOL: pool}}}]
    return policy


def put_options(hub: DictHub, name: str, spec: Json) -> None:
    hub.put(CLUSTER_SCOPED.options.item(name), {"metadata": {"name": name}, "spec": spec})


def put_snapshot(hub: DictHub, name: str, policy: Json) -> None:
    snapshot = policy_snapshot(name, policy)
    hub.put(CLUSTER_SCOPED.policy_snapshot.item(snapshot["metadata"]["name"]), snapshot)


def _put_waiting(hub: DictHub, name: str, policy: Json | None, options: Json | None = None) -> None:
    """Without a snapshot where the policy is None."""
    if options is not None:
        put_options(hub, name, options)
    hub.put(CLUSTER_SCOPED.placement.item(name), build_placement(name))
    if policy is not None:
        put_snapshot(hub, name, policy)


# --- groups -----------------------------------------------------------------------------------------------------------


async def place_groups(size: Size, *, clock: Clock | None = None) -> tuple[list[Spent], dict[str, list[str]]]:
    """Also the clusters of all members."""
    async with running(a_hub(size.clusters), GROUPED, clock=clock) as stage:
        spent = []
        for number in range(size.bursts + 1):
            names = []
            for group in list_names("g", number, size.count_placements(number) // MEMBERS):
                stage.hub.put(CLUSTER_SCOPED.group.item(group), {"metadata": {"name": group}, "spec": {}})
                members = [f"{group}-{each}" for each in range(MEMBERS)]
                stage.create_placements(members, options={"group": group})
                names += members
            spent.append(await stage.place(names, plain))
        return spent[1:], stage.list_bound()


# --- a restart --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Restarted:
    """Seconds of processor time."""

    until_lease: float
    until_bound: float
    """From the lease to the first binding."""
    stage: Stage


async def restart(size: Size, *, clock: Clock | None = None) -> Restarted:
    """Placements are pending, and `others` are placed on three clusters each."""
    hub = a_hub(size.clusters)
    for number in range(size.others):
        put_placed(hub, f"placed-{number:05d}", [name_of((number + each) % size.clusters) for each in range(PICKS)])
    for number in range(size.placements):
        _put_waiting(hub, f"pending-{number:05d}", plain(number))
    moments: dict[str, float] = {}

    def note(request: Request) -> None:
        moments.setdefault("lease" if request.path.endswith("/leases") else "", time.process_time())
        if request.method is Method.POST and request.path == CLUSTER_SCOPED.binding.collection():
            moments.setdefault("bound", time.process_time())

    hub.on_write = note
    began = time.process_time()
    async with running(hub, elects=True, clock=clock) as stage:
        await stage.until(lambda: "bound" in moments)
        return Restarted(moments["lease"] - began, moments["bound"] - moments["lease"], stage)


# --- options ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a placement."""

    attempt: float
    """Median of those that are the fastest in a row, in seconds."""
    requests: float
    resident: float
    """Bytes that the process grew by, without what the hub keeps."""


async def place_with_options(size: Size, *, has_options: bool, clock: Clock | None = None) -> tuple[Cost, Stage]:
    hub = a_hub(size.clusters)
    options: Any = {"priority": 10, "requests": {"cpu": "10m", "memory": "16Mi"}, "minTargets": 1}
    if has_options:
        limits = {"cpu": "1000", "memory": "2Ti", "clusters": "100000"}
        hub.put(CLUSTER_SCOPED.quota.item("all"), {"metadata": {"name": "all"}, "spec": {"max": limits}})
    async with running(hub, EXTENDED if has_options else "", clock=clock) as stage:
        warming = list_names("warm", 0, 50)
        stage.create_placements(warming, options=options if has_options else None)
        await stage.place(warming, plain)
        before, kept = _resident_bytes(), hub.count_bytes()
        names = list_names("p", 0, size.placements)
        stage.create_placements(names, options=options if has_options else None)
        spent = await stage.place(names, plain)
        grown = _resident_bytes() - before - (hub.count_bytes() - kept)
        requests = sum(n for what, n in spent.requests.items() if not what.startswith(("WATCH", "LIST")))
        starts = range(0, len(spent.attempts), _IN_A_ROW)
        attempt = min(statistics.median(spent.attempts[start : start + _IN_A_ROW]) for start in starts)
        return Cost(attempt, requests / len(names), max(0, grown) / len(names)), stage


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
