"""How fast the client lists and watches, alone and against the `kubernetes` package, which is served the same bytes.

Rates are per second of the client's processor time; beside them stands what passed on the clock. On an idle machine the
two are nearly the same; on a busy one the latter measures the neighbours. Only the longest stall of the event loop can
be had from the clock alone.

The collector is treated as a controller does: what was imported is frozen, thresholds are raised, it stays on.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from fleet.clock import SystemClock
from fleet.kube.cache.reflector import Reflector
from fleet.kube.cache.store import Store, build_codec
from fleet.kube.client.transport import Transport
from fleet.model.views import MemberCluster, Observed, Placement
from tests.bench.figures import Figure, Kind
from tests.bench.measuring import Run
from tests.bench.prepared import CLUSTERS, PAGE, SHORT_WATCH, Size, served

FULL: Final = Size(objects=10_000, events=100_000, events_of_a_short_watch=10_000)
QUICK: Final = Size(objects=10_000, events=20_000, events_of_a_short_watch=2_000)

View = type[MemberCluster] | type[Placement]
VIEWS: Final[tuple[tuple[View, str], ...]] = (
    (Placement, "spec and status left raw"),
    (MemberCluster, "every field read"),
)


def kube(run: Run) -> Iterator[Figure]:
    """Targets are for objects whose spec and status are read when they are needed, as a controller's caches do it."""
    size, repetitions = (QUICK, 1) if run.quick else (FULL, 5)
    with served(size) as port, patient_collector():
        theirs = [laps(lambda: package_laps(port, size)) for _ in range(min(repetitions, 2))]
        for view, about in VIEWS:
            ours = [laps(lambda view=view: own_laps(port, size, view)) for _ in range(repetitions)]  # type: ignore[misc]
            memory = asyncio.run(bytes_per_object(port, size, view))
            yield from _figures(run, about, ours, theirs, memory, promised=view is Placement)
        for lap in ("list", "watch"):
            yield from _rates(run, f"{lap}, the kubernetes package", [one[lap] for one in theirs], informal=True)


# --- laps -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    clock: float
    cpu: float

    @classmethod
    def now(cls) -> Moment:
        return cls(time.perf_counter(), time.process_time())


@dataclass(frozen=True, slots=True)
class Lap:
    """So many objects or events, from one moment to another."""

    count: int
    begun: Moment
    ended: Moment
    stall: float = 0.0
    """Seconds; of the event loop, at worst."""

    @property
    def rate(self) -> float:
        return self.count / (self.ended.cpu - self.begun.cpu)

    @property
    def rate_on_the_clock(self) -> float:
        return self.count / (self.ended.clock - self.begun.clock)


Laps = dict[str, Lap]


def laps(run: Callable[[], Coroutine[Any, Any, Laps]]) -> Laps:
    gc.collect()
    gc.freeze()
    try:
        return asyncio.run(run())
    finally:
        gc.unfreeze()


@contextmanager
def patient_collector() -> Iterator[None]:
    usual = gc.get_threshold()
    gc.set_threshold(10_000, 100, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


# --- figures ----------------------------------------------------------------------------------------------------------


def _figures(
    run: Run, about: str, ours: list[Laps], theirs: list[Laps], memory: float, *, promised: bool
) -> Iterator[Figure]:
    for lap, target in (("list", 60_000), ("watch", 100_000)):
        found = [one[lap] for one in ours]
        yield from _rates(run, f"{lap}, {about}", found, target=target if promised else None)
        ratio = _median_rate(found) / _median_rate([one[lap] for one in theirs])
        yield run.number(f"{lap}, {about}", "against the package", Kind.TIMES_FASTER, ratio)
    stall = statistics.median(one["list"].stall for one in ours)
    yield run.number(f"longest stall during the list, {about}", "time", Kind.MILLISECONDS, stall * 1e9, target=20)
    yield run.number(f"cached object, {about}", "size", Kind.BYTES, memory, target=4096 if promised else None)


def _rates(
    run: Run, case: str, found: list[Lap], *, target: float | None = None, informal: bool = False
) -> Iterator[Figure]:
    on_the_clock = statistics.median(lap.rate_on_the_clock for lap in found)
    yield run.number(case, "rate", Kind.PER_SECOND, _median_rate(found), target=target, informal=informal)
    yield run.number(case, "on the clock", Kind.PER_SECOND, on_the_clock, informal=True)


def _median_rate(found: list[Lap]) -> float:
    return statistics.median(lap.rate for lap in found)


# --- ours -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def reflecting(port: int, store: Store[Observed[Any]]) -> AsyncIterator[Reflector[Observed[Any]]]:
    """Ends as soon as nobody looks any more."""
    from kubernetes.aio.client import Configuration

    async def load() -> Configuration:
        return Configuration(host=f"http://127.0.0.1:{port}")

    async with await Transport.connect(load, clock=SystemClock()) as transport, asyncio.TaskGroup() as group:
        reflector = Reflector(transport, CLUSTERS, store, clock=SystemClock(), jitter=lambda: 0.0)
        running = group.create_task(reflector.run(), name="reflector")
        yield reflector
        running.cancel()


async def own_laps(port: int, size: Size, view: View) -> Laps:
    store: Store[Observed[Any]] = Store(build_codec(view))
    async with asyncio.TaskGroup() as group, reflecting(port, store) as reflector:
        begun = Moment.now()
        with longest_stall(group) as stall:
            await reflector.wait_for_sync()
        listed = Moment.now()
        while store.version != size.last_version:
            await asyncio.sleep(0.01)
        watched = Moment.now()
    assert len(store) == size.objects
    return {"list": Lap(size.objects, begun, listed, stall()), "watch": Lap(size.events, listed, watched)}


@contextmanager
def longest_stall(group: asyncio.TaskGroup) -> Iterator[Callable[[], float]]:
    """Wakes up every millisecond and notes how late it was at worst."""
    worst = 0.0

    async def beat() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - before - 0.001)

    task = group.create_task(beat(), name="heartbeat")
    yield lambda: worst
    task.cancel()


async def bytes_per_object(port: int, size: Size, view: View) -> float:
    store: Store[Observed[Any]] = Store(build_codec(view))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        async with reflecting(port, store) as reflector:
            await reflector.wait_for_sync()
        del reflector
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / size.objects


# --- the package's ----------------------------------------------------------------------------------------------------


async def package_laps(port: int, size: Size) -> Laps:
    """As its documentation shows it, with everything kept in a dictionary."""
    from kubernetes.aio.client import ApiClient, Configuration, CustomObjectsApi

    held: dict[str, Any] = {}
    async with ApiClient(Configuration(host=f"http://127.0.0.1:{port}")) as client:
        api = CustomObjectsApi(client)
        begun = Moment.now()
        await _list(api, held)
        listed = Moment.now()
        await _watch(api, held, size.events_of_a_short_watch)
        watched = Moment.now()
    assert len(held) == size.objects
    return {
        "list": Lap(size.objects, begun, listed),
        "watch": Lap(size.events_of_a_short_watch, listed, watched),
    }


async def _list(api: Any, held: dict[str, Any]) -> None:
    after = "0"
    while after:
        page: Any = await api.list_cluster_custom_object(
            CLUSTERS.group, CLUSTERS.version, CLUSTERS.plural, limit=PAGE, _continue=after
        )
        held |= {one["metadata"]["name"]: one for one in page["items"]}
        after = page["metadata"]["continue"]


async def _watch(api: Any, held: dict[str, Any], count: int) -> None:
    from kubernetes.aio import watch

    asked = {"label_selector": SHORT_WATCH}
    stream = watch.Watch().stream(  # type: ignore[no-untyped-call]
        api.list_cluster_custom_object, CLUSTERS.group, CLUSTERS.version, CLUSTERS.plural, **asked
    )
    async with stream as events:
        async for event in events:
            held[event["object"]["metadata"]["name"]] = event["object"]
            count -= 1
            if not count:
                return
