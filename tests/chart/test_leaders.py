"""Highly available, as documented: two controllers on PostgreSQL, of which one dies in the middle of its work."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from fleet.kube.scopes import CLUSTER_SCOPED
from fleet.model.keys import PARENT_PLACEMENT
from tests.chart.helm import CHART
from tests.chart.pods import Container, Machine
from tests.chart.release import Release, make_restricted
from tests.control_plane.cluster import Cluster
from tests.control_plane.http_client import HttpClient
from tests.e2e.hub import Hub, soon
from tests.e2e.world import World
from tests.postgres import Postgres

PLACEMENTS: Final = tuple(f"web-{number:03}" for number in range(200))
EARLIER: Final = PLACEMENTS[:5]
"""Recorded before the others come: in a burst records wait, and those that wait die with the leader."""
LATER: Final = PLACEMENTS[-50:]
"""They come when the leader is dead."""
CLUSTERS: Final = tuple("abcdef")
WANTED: Final = 3
SETTINGS: Final = (
    # Nobody waits a minute for the other one here; but a machine that is busy must not lose the lease.
    "--set=settings.leaderElection.leaseDuration=20s",
    "--set=settings.leaderElection.renewDeadline=16s",
    "--set=settings.leaderElection.retryPeriod=1s",
    "--set=settings.eligibility.heartbeatTimeout=8760h",
)
SECONDS: Final = 180.0

pytestmark = pytest.mark.timeout(900)


@dataclass(frozen=True)
class Outcome:
    """What is on the hub and in the history when all is quiet."""

    bindings: dict[str, list[str]]
    """By placement, the clusters of its bindings, as often as they occur."""
    recorded_before: list[tuple[Any, ...]]
    """Of each attempt at the earlier placements the placement, its number, and the session of the leader."""
    recorded: list[tuple[Any, ...]]
    """The same of each attempt, by whoever made it."""
    told: dict[str, Any]
    """What the API says of the history of one placement."""
    decided_before: int
    """Placements that were done when the leader died."""


@pytest.fixture(scope="module")
def outcome(cluster: Cluster, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    with postgres.database() as url:
        release = highly_available(cluster, url, tmp_path_factory.mktemp("helm"))
        machine = Machine(release, tmp_path_factory.mktemp("machine"))
        migrate(machine)
        with ExitStack() as running:
            both = [machine.container_of("fleet-controller", replica=number) for number in range(2)]
            for one in both:
                running.enter_context(one.running())
            recorded_before, decided_before = asyncio.run(kill_the_leader_half_way(cluster, both, url))
            bindings = asyncio.run(bindings_on(cluster))
        with machine.container_of("fleet-api").running() as api:
            told = HttpClient(api.api()).get(f"/v1/placements/-/{PLACEMENTS[0]}/history").ok()
        return Outcome(bindings, recorded_before, recorded_in(url), told, decided_before)


def highly_available(cluster: Cluster, url: str, home: Path, *values: str) -> Release:
    release = Release(cluster.access, home)
    make_restricted(release.hub, release.namespace)
    secret = {"metadata": {"name": "fleet-history"}, "data": {"url": b64encode(url.encode()).decode()}}
    release.hub.post(f"/api/v1/namespaces/{release.namespace}/secrets", secret).ok()
    release.install("--values", str(CHART / "ci" / "ha-postgresql.yaml"), *SETTINGS, *values)
    return release


def migrate(machine: Machine) -> None:
    """What the hook of the chart does."""
    (job,) = [
        one for one in machine.release.hooks() if one["metadata"]["name"] == "fleet-migrate" and one["kind"] == "Job"
    ]
    done = machine.container(job).run_to_its_end()
    assert done.returncode == 0, done.stderr


async def kill_the_leader_half_way(
    cluster: Cluster, both: list[Container], url: str
) -> tuple[list[tuple[Any, ...]], int]:
    """What the history had of the earlier placements, and how many placements had their clusters by then."""
    async with Hub("real", cluster.access).connected() as admin:
        world = World(admin)
        await asyncio.gather(*(world.join(name) for name in CLUSTERS))
        leader = await soon(lambda: leading(both), within=SECONDS)
        await place(world, EARLIER)
        recorded = await soon(lambda: are_recorded(EARLIER, url), within=SECONDS, pause=0.2)
        async with asyncio.TaskGroup() as comers:
            comers.create_task(place(world, PLACEMENTS[len(EARLIER) : -len(LATER)]), name="the burst")
            before = await soon(lambda: some_are_decided(world), within=SECONDS, pause=0.2)
            assert leader.process.is_running, leader.process.last_words()
            leader.process.kill()
        await place(world, LATER)
        (standby,) = [one for one in both if one is not leader]
        await soon(lambda: all_are_decided(world, standby), within=SECONDS, pause=0.5)
        await soon(lambda: are_recorded(PLACEMENTS, url), within=SECONDS, pause=0.2)
        return recorded, int(before)


async def place(world: World, names: Sequence[str]) -> None:
    async with asyncio.TaskGroup() as comers:
        for name in names:
            comers.create_task(world.place(name, {"placementType": "PickN", "numberOfClusters": WANTED}), name=name)


async def are_recorded(names: Sequence[str], url: str) -> list[tuple[Any, ...]]:
    """All attempts, once there are some at each of these. A process that ends may be too slow to write what waits."""
    found = await asyncio.to_thread(recorded_in, url)
    return found if {key for key, *_ in found} == set(names) else []


def recorded_in(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as history:
        return history.execute("SELECT key, number, session FROM attempts").fetchall()


async def leading(both: list[Container]) -> Container | None:
    """Who says in its log that it works."""
    found = [
        one for one in both if '"event":"leader: controllers started"' in one.process.log.read_text(encoding="utf-8")
    ]
    return found[0] if found else None


async def some_are_decided(world: World) -> int:
    """Enough of them, and not enough for all."""
    found = Counter(one["metadata"]["labels"][PARENT_PLACEMENT] for one in await world.all(CLUSTER_SCOPED.binding))
    return len(found) if len(found) >= len(PLACEMENTS) // 4 else 0


async def all_are_decided(world: World, standby: Container) -> bool:
    standby.keep_running()
    snapshots = await world.all(CLUSTER_SCOPED.policy_snapshot)
    done = [
        one
        for one in snapshots
        for condition in (one.get("status") or {}).get("conditions", ())
        if condition["type"] == "Scheduled" and condition["status"] == "True"
    ]
    return len(done) == len(PLACEMENTS)


async def bindings_on(cluster: Cluster) -> dict[str, list[str]]:
    async with Hub("real", cluster.access).connected() as admin:
        found: dict[str, list[str]] = {name: [] for name in PLACEMENTS}
        for one in await World(admin).all(CLUSTER_SCOPED.binding):
            found[one["metadata"]["labels"][PARENT_PLACEMENT]].append(one["spec"]["targetCluster"])
        return found


def test_the_leader_died_in_the_middle(outcome: Outcome) -> None:
    assert 0 < outcome.decided_before < len(PLACEMENTS)


def test_every_placement_has_its_clusters_and_none_twice(outcome: Outcome) -> None:
    counts = {name: Counter(clusters) for name, clusters in outcome.bindings.items()}
    wrong = {name: found for name, found in counts.items() if len(found) != WANTED or set(found.values()) != {1}}
    assert wrong == {}


def test_the_history_has_decisions_of_both(outcome: Outcome) -> None:
    (leader,) = {session for _, _, session in outcome.recorded_before}
    assert set(outcome.recorded_before) <= set(outcome.recorded)
    # On a slow machine the other one may lose its short lease, and be a third one after that.
    assert {session for _, _, session in outcome.recorded} - {leader}


def test_every_placement_is_in_the_history_and_no_attempt_twice(outcome: Outcome) -> None:
    numbers = Counter((key, number) for key, number, _ in outcome.recorded)
    assert {key for key, _ in numbers} == set(PLACEMENTS)
    assert set(numbers.values()) == {1}


def test_the_api_tells_from_the_same_history(outcome: Outcome) -> None:
    (first, *_) = told = outcome.told["items"]
    assert first["active"] == WANTED
    assert len(told) == len([key for key, *_ in outcome.recorded if key == PLACEMENTS[0]])
