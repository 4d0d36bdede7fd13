"""A running scheduler on a hub of dictionaries, and what its placements cost: the whole of `fleet controller` but HTTP.

The time is this process's processor time, the hub's part of it included: nothing is waited for, so on an idle machine
that is what passes on the clock.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

from fleet.clock import Clock
from fleet.eventloop import loop_factory, tune_interpreter
from fleet.kube.scopes import CLUSTER_SCOPED, MEMBER_CLUSTERS
from fleet.manager.logs import configure
from fleet.manager.manager import SCHEDULER, Manager
from fleet.model.keys import PARENT_PLACEMENT
from fleet.model.placement_key import PlacementKey
from fleet.scheduler.attempt_record import AttemptRecord, AttemptResult
from fleet.scheduler.queue.item import QueueCounts
from fleet.settings.loading import load_settings
from tests.bench.controller.documents import member_cluster
from tests.bench.controller.workers import SETTINGS
from tests.bench.fleets import name_of
from tests.bench.policies import plain_policy, policy_snapshot
from tests.bench.scheduling.dict_hub import DictHub

Json = dict[str, Any]
PolicyOf = Callable[[int], Json]
T = TypeVar("T")

HEAD: Final = "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
PICKS: Final = 3
_WEIGHTS: Final = 49
_LOOK_EVERY: Final = 0.01
_SETTLING: Final = 0.2
_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Spent:
    """On so many placements, from their policy snapshots to their status."""

    placements: int
    seconds: float
    """Of processor time."""
    attempts: Sequence[float]
    """Seconds that each attempt has a worker for, on the clock."""
    requests: Counter[str]

    @property
    def rate(self) -> float:
        return self.placements / self.seconds


@dataclass(slots=True)
class Tally:
    """A recorder that keeps no attempt."""

    seconds: list[float] = field(default_factory=list)
    short: int = 0
    failed: int = 0
    on_decided: Callable[[PlacementKey], None] = lambda _: None

    def record(self, attempt: AttemptRecord) -> None:
        self.seconds.append(attempt.seconds.get("read", 0.0) + attempt.seconds.get("decide", 0.0))
        self.short += attempt.result is AttemptResult.SHORT
        self.failed += attempt.result.is_failure
        if attempt.result is AttemptResult.DECIDED:
            self.on_decided(attempt.key)


@dataclass(slots=True)
class Stage:
    hub: DictHub
    tally: Tally
    manager: Manager

    def create_placements(self, names: Iterable[str], *, options: Json | None = None, **metadata: Any) -> None:
        """`options` are those of each of them."""
        for name in names:
            if options is not None:
                self.hub.put(CLUSTER_SCOPED.options.item(name), {"metadata": {"name": name}, "spec": options})
            self.hub.put(CLUSTER_SCOPED.placement.item(name), build_placement(name, **metadata))

    def create_snapshots(self, names: Iterable[str], policy_of: PolicyOf) -> None:
        for number, name in enumerate(names):
            snapshot = policy_snapshot(name, policy_of(number))
            self.hub.put(CLUSTER_SCOPED.policy_snapshot.item(snapshot["metadata"]["name"]), snapshot)

    async def place(
        self,
        names: Sequence[str],
        policy_of: PolicyOf,
        *,
        meanwhile: Callable[[], None] = lambda: None,
        every: int = 0,
    ) -> Spent:
        """`meanwhile` is called after every so many placements."""
        await self.settle()
        self.tally.seconds.clear()
        requests, waiting, ended = self.hub.requests.copy(), set(names), asyncio.Event()

        def count(placement: PlacementKey) -> None:
            if placement.name not in waiting:
                return
            waiting.remove(placement.name)
            if every and (len(names) - len(waiting)) % every == 0:
                meanwhile()
            if not waiting:
                ended.set()

        self.tally.on_decided = count
        gc.collect()
        began = time.process_time()
        self.create_snapshots(names, policy_of)
        async with asyncio.timeout(_SECONDS):
            await ended.wait()
        seconds = time.process_time() - began
        self.tally.on_decided = lambda _: None
        await self.settle()
        return Spent(len(names), seconds, tuple(self.tally.seconds), self.hub.requests - requests)

    async def settle(self) -> None:
        """Until everything that was created is known and decided, and events are sent."""
        await asyncio.sleep(_SETTLING)
        await self.until(lambda: not (self.count_items().active or self.count_items().in_flight))
        await asyncio.sleep(_SETTLING)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(_SECONDS):
            while not is_so():
                await asyncio.sleep(_LOOK_EVERY)

    def count_items(self) -> QueueCounts:
        assert self.manager.scheduler is not None
        return self.manager.scheduler.queue.count_items()

    def list_bound(self) -> dict[str, list[str]]:
        """Clusters by placement."""
        bound: dict[str, list[str]] = {}
        for binding in self.hub.list_objects(CLUSTER_SCOPED.binding.collection()):
            placement = binding["metadata"]["labels"][PARENT_PLACEMENT]
            bound.setdefault(placement, []).append(binding["spec"]["targetCluster"])
        return bound


def build_placement(name: str, **metadata: Any) -> Json:
    nothing = {"group": "", "version": "v1", "kind": "Namespace", "name": "nothing-by-this-name"}
    return {"metadata": {"name": name, **metadata}, "spec": {"resourceSelectors": [nothing]}}


def plain(number: int) -> Json:
    """More of them are unequal than rankings are kept."""
    return plain_policy(PICKS, number % 5, weight=20 + number % _WEIGHTS)


def a_hub(clusters: int, **settings: Any) -> DictHub:
    hub = DictHub(**settings)
    for number in range(clusters):
        hub.put(MEMBER_CLUSTERS.item(name_of(number)), member_cluster(number))
    return hub


@asynccontextmanager
async def running(
    hub: DictHub, profiles: str = "", *assignments: str, elects: bool = False, clock: Clock | None = None
) -> AsyncIterator[Stage]:
    """`profiles` is the document without its head."""
    with TemporaryDirectory(prefix="fleet-bench-") as folder:
        file = Path(folder) / "fleet.yaml"
        file.write_text(HEAD + profiles, encoding="utf-8")
        settings = load_settings(file, {}, [*SETTINGS, *assignments]).settings
    tally = Tally()
    manager = Manager(hub, settings, controllers={SCHEDULER}, elects=elects, recorder=tally, clock=clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(manager.run(), name="controller")
        await manager.ready()
        try:
            yield Stage(hub, tally, manager)
        finally:
            manager.stop()


def run(scene: Coroutine[Any, Any, T]) -> T:
    """With the event loop and the collector of `fleet controller`."""
    configure("warning", "json")
    usual = gc.get_threshold()
    tune_interpreter()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(scene)
    finally:
        gc.set_threshold(*usual)
