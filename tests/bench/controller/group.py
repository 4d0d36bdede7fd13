"""The figures: what is measured on which sizes, and what is expected of it."""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final

from tests.bench.controller.creating import Created, create_burst
from tests.bench.controller.documents import PICKS
from tests.bench.controller.hubs import EMBEDDED, REAL
from tests.bench.controller.joining import Joined, JoinedTwo, join_two
from tests.bench.controller.placing import is_read, is_write, quantile
from tests.bench.controller.restarting import Restarted
from tests.bench.controller.runs import FORMS, Bursts, Measured, Plan, Size, measure
from tests.bench.figures import Figure, Kind
from tests.bench.measuring import Run

FULL: Final = Plan(sizes=(Size(100, 500), Size(1_000, 200), Size(5_000, 50), Size(10_000, 20)), restarted=1_000)
QUICK: Final = Plan(sizes=(Size(100, 100),), restarted=100, alone=5)
CREATED: Final = Size(100, 200)
CREATED_QUICK: Final = Size(100, 50)
SHARE_OF_SAME: Final = 85.0
LEFT_AT_MEDIAN: Final = 40.0
"""What was begun is finished first: otherwise all placements would be done at the end."""
WAITING: Final = 5_000
WAITING_QUICK: Final = 500

SHARE_OF_LIMIT: Final = 80.0
MEMORY: Final = 300.0
REQUESTS: Final = PICKS + 3
"""The finalizer, the bindings, the status, and an event for whoever asks kubectl."""
_LARGEST: Final = 10_000
_NANOSECONDS: Final = 1e9
_MEGABYTE: Final = 1e6


def controller(run: Run, *, target: str) -> Iterator[Figure]:
    plan = QUICK if run.quick else FULL
    for size in plan.sizes:
        sys.stderr.write(f"measuring: {run.group}, {size}\n")
        yield from placing_figures(run, asyncio.run(measure(target, size, plan)))


def creating(run: Run, *, target: str) -> Iterator[Figure]:
    size = CREATED_QUICK if run.quick else CREATED
    yield from creating_figures(
        run, size, asyncio.run(create_burst(target, clusters=size.clusters, placements=size.placements))
    )


def joining(run: Run) -> Iterator[Figure]:
    placements = WAITING_QUICK if run.quick else WAITING
    yield from joining_figures(run, join_two(placements))
    yield from waking_figures(run, join_two(placements, hints=False))


on_real = partial(controller, target=REAL)
on_embedded = partial(controller, target=EMBEDDED)
creating_on_real = partial(creating, target=REAL)
creating_on_embedded = partial(creating, target=EMBEDDED)


def placing_figures(run: Run, found: Measured) -> Iterator[Figure]:
    yield from _times(run, f"{found.size}, the plain client", found.limit)
    for form in FORMS:
        if form in found.forms:
            yield from _form(run, f"{found.size}, {form}", found.forms[form], found)
    if found.restarted is not None:
        yield from _restart(run, found.size, found.restarted)


def _form(run: Run, case: str, bursts: Bursts, found: Measured) -> Iterator[Figure]:
    yield from _times(run, case, bursts)
    share = 100 * bursts.rate / found.limit.rate
    yield run.number(case, "of the plain client's rate", Kind.PERCENT, share, target=SHARE_OF_LIMIT)
    if bursts.alone:
        alone = statistics.median(bursts.alone) * _NANOSECONDS
        yield run.number(case, "alone", Kind.MILLISECONDS, alone, informal=True)
    peak = bursts.peak_bytes / _MEGABYTE
    target = MEMORY if found.size.clusters == _LARGEST else None
    yield run.number(case, "peak memory", Kind.MEGABYTES, peak, target=target)


def _times(run: Run, case: str, bursts: Bursts) -> Iterator[Figure]:
    """By the clock, and so not to be compared with other days; ratios within the run are."""
    yield run.number(case, "placements", Kind.PER_SECOND, bursts.rate, informal=True)
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        wait = quantile(bursts.waits, share) * _NANOSECONDS
        yield run.number(case, name, Kind.MILLISECONDS, wait, informal=True)
    cpu = bursts.cpu_seconds * _NANOSECONDS
    yield run.number(case, "CPU, each", Kind.MILLISECONDS, cpu, informal=True)
    writes = sum(number for request, number in bursts.requests.items() if is_write(request))
    yield run.number(case, "writes, each", Kind.COUNT, round(writes, 1), target=REQUESTS)
    reads = sum(number for request, number in bursts.requests.items() if is_read(request))
    yield run.number(case, "reads, each", Kind.COUNT, round(reads, 1), target=0)


def _restart(run: Run, size: Size, found: Restarted) -> Iterator[Figure]:
    case = f"{size.clusters:,} clusters, restart with {found.placements:,} placements"
    yield run.number(
        case, "until all are known", Kind.MILLISECONDS, found.seconds * _NANOSECONDS, target=4_000, informal=True
    )
    yield run.number(case, "CPU", Kind.MILLISECONDS, found.cpu_seconds * _NANOSECONDS, informal=True)
    yield run.number(case, "peak memory", Kind.MEGABYTES, found.peak_bytes / _MEGABYTE)
    yield run.number(case, "writes", Kind.COUNT, found.writes, target=0)


def creating_figures(run: Run, size: Size, created: Created) -> Iterator[Figure]:
    case = f"{size}, from their creation"
    yield run.number(case, "writes", Kind.PER_SECOND, created.rate, informal=True)
    yield run.number(case, "writes, each", Kind.COUNT, round(created.writes / created.placements, 1))
    yield run.number(case, "of the plain client's rate", Kind.PERCENT, 100 * created.share, target=SHARE_OF_SAME)
    left = 100 * (1 - created.median_done)
    yield run.number(case, "of the burst's time left at the median", Kind.PERCENT, left, target=LEFT_AT_MEDIAN)


def joining_figures(run: Run, joined: JoinedTwo) -> Iterator[Figure]:
    wait = f"{joined.placements:,} placements wait"
    yield from _joining(run, f"of no use to any, {wait}", joined.useless, attempts=0)
    yield from _joining(run, f"of use to one, {wait}", joined.useful, attempts=1)


def _joining(run: Run, case: str, joined: Joined, *, attempts: int) -> Iterator[Figure]:
    seconds = joined.waking + joined.attempting
    yield run.number(case, "until all is quiet", Kind.MILLISECONDS, seconds * _NANOSECONDS, target=50)
    yield run.number(case, "attempts", Kind.COUNT, joined.attempts, target=attempts)


def waking_figures(run: Run, joined: JoinedTwo) -> Iterator[Figure]:
    case = f"of no use to any, {joined.placements:,} placements wait, queue.hints=false"
    yield run.number(case, "until all are woken", Kind.MILLISECONDS, joined.useless.waking * _NANOSECONDS, target=50)
    yield run.number(case, "until all is quiet", Kind.MILLISECONDS, joined.useless.attempting * _NANOSECONDS)
    yield run.number(case, "attempts", Kind.COUNT, joined.useless.attempts)
