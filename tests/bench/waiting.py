"""What placements that wait cost the others: processor time of `fleet controller` for a placement.

Two schedulers with the same profile, each on an embedded hub of its own; at one of them a thousand placements wait, for
approval, for other placements, or for quota. Bursts take turns, and the medians of many are compared: on a busy machine
single bursts differ by more.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from fleet.kube.scopes import CLUSTER_SCOPED
from tests.bench.controller.documents import SPREAD, names, selector
from tests.bench.controller.hubs import EMBEDDED, serving
from tests.bench.controller.placing import SNAPSHOT, burst, create_placements, create_snapshots, join
from tests.bench.controller.traffic import Traffic, for_each
from tests.bench.controller.workers import Scheduler, scheduler
from tests.bench.figures import Figure, Kind
from tests.bench.measuring import Run

HEAD: Final = "apiVersion: scheduling.fleet.dev/v1\nkind: FleetSchedulerConfiguration\n"
APPROVING: Final = "plugins: {permit: {enabled: [{name: PlacementApproval}]}}"
EXTENDED: Final = "base: ExtendedProfile"
RULE: Final = {"name": "owners", "approvers": {"users": ["olga"]}, "holdSeconds": 900}
NEAR_DB: Final = {"required": [{"placements": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}]}
QUOTA: Final = {
    "metadata": {"name": "waiting"},
    "spec": {"placements": {"matchLabels": {"bench": "waiting"}}, "max": {"cpu": "0"}},
}
_NANOSECONDS: Final = 1e9
_SECONDS_TO_WAIT: Final = 300.0


Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why placements wait."""

    name: str
    profile: str
    options: Json
    """Of each of them."""
    has_quota: bool = False
    kept: float = 90.0
    """Percent of the throughput, at least."""


REASONS: Final = (
    Reason(name="approval", profile=APPROVING, options={"approvals": [RULE]}, kept=95.0),
    Reason(name="others beside them", profile=EXTENDED, options={"affinity": NEAR_DB}),
    Reason(name="quota", profile=EXTENDED, options={"requests": {"cpu": "1"}}, has_quota=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    clusters: int
    waiting: int
    placements: int
    bursts: int


FULL: Final = Size(clusters=1_000, waiting=1_000, placements=100, bursts=20)
QUICK: Final = Size(clusters=100, waiting=200, placements=100, bursts=4)


@dataclass(slots=True)
class Scene:
    name: str
    traffic: Traffic
    worker: Scheduler
    spent: list[float] = field(default_factory=list)
    """Seconds of the scheduler's processor time for a placement, by burst."""

    async def place(self, number: int, count: int) -> None:
        run = f"{self.name}-{number}"
        placements = await create_placements(self.traffic, run, SPREAD, count)
        placed = await burst(self.traffic, self.worker, placements, run=run, form=SPREAD)
        self.spent.append(placed.cpu_seconds / count)


def waiting(run: Run) -> Iterator[Figure]:
    size = QUICK if run.quick else FULL
    for reason in REASONS:
        quiet, beside = asyncio.run(measure(reason, size))
        case = f"{size.clusters:,} clusters, {size.waiting:,} placements wait for {reason.name}"
        yield run.number(case, "CPU, each, while none waits", Kind.MILLISECONDS, quiet * _NANOSECONDS, informal=True)
        yield run.number(case, "CPU, each, beside those", Kind.MILLISECONDS, beside * _NANOSECONDS, informal=True)
        yield run.number(case, "throughput kept", Kind.PERCENT, 100 * quiet / beside, target=reason.kept)


async def measure(reason: Reason, size: Size) -> tuple[float, float]:
    async with _scene("quiet", reason, size) as quiet, _scene("beside", reason, size) as beside:
        await _let_wait(beside.traffic, reason, size.waiting)
        both = (quiet, beside)
        for scene in both:
            await scene.place(0, size.placements)
            scene.spent.clear()
        for number in range(1, size.bursts + 1):
            for scene in both if number % 2 else reversed(both):
                await scene.place(number, size.placements)
        assert await _count_waiting(beside.traffic) == size.waiting
        return statistics.median(quiet.spent), statistics.median(beside.spent)


@asynccontextmanager
async def _scene(name: str, reason: Reason, size: Size) -> AsyncIterator[Scene]:
    with tempfile.TemporaryDirectory(prefix="fleet-bench-waiting-") as folder, serving(EMBEDDED) as hub:
        document = Path(folder) / "fleet.yaml"
        document.write_text(
            f"{HEAD}profiles: [{{schedulerName: DefaultScheduler, {reason.profile}}}]\n", encoding="utf-8"
        )
        async with Traffic.to(hub) as traffic:
            await join(traffic, size.clusters)
            if reason.has_quota:
                await traffic.post(CLUSTER_SCOPED.quota, QUOTA)
            with scheduler(hub, document=document) as worker:
                await worker.ready()
                yield Scene(name, traffic, worker)


async def _let_wait(traffic: Traffic, reason: Reason, count: int) -> None:
    options = [{"metadata": {"name": name}, "spec": reason.options} for name in names("waiting", count)]
    await for_each(options, lambda document: traffic.post(CLUSTER_SCOPED.options, document))
    placements = await create_placements(traffic, "waiting", SPREAD, count)
    await create_snapshots(traffic, placements, "waiting", SPREAD)
    async with asyncio.timeout(_SECONDS_TO_WAIT):
        while await _count_waiting(traffic) < count:
            await asyncio.sleep(1)


async def _count_waiting(traffic: Traffic) -> int:
    """By what the scheduler has written about them: into the options, or that no cluster was found."""
    collections = CLUSTER_SCOPED.options.collection(), f"{SNAPSHOT.collection()}?labelSelector={selector('waiting')}"
    options, snapshots = [msgspec.json.decode(await traffic.send("GET", path))["items"] for path in collections]
    held = sum(bool((item.get("status") or {}).get("waiting")) for item in options)
    return held + sum(map(_is_rejected, snapshots))


def _is_rejected(snapshot: Json) -> bool:
    conditions = (snapshot.get("status") or {}).get("conditions") or ()
    return any((each["type"], each["status"]) == ("Scheduled", "False") for each in conditions)
