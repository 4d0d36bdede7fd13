"""Answers to "why?" at 5,000 clusters: what making one takes, and what `fleet api` gives over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tests.bench.answers import SITUATIONS, times
from tests.bench.asking import AT_ONCE, Answering, Asked, ask
from tests.bench.figures import Figure, Kind
from tests.bench.measuring import Run

_FAST: Final = 50.0
_WITH_EVERYTHING: Final = 1_000.0
_PER_SECOND: Final = 2_000.0
_PER_SECOND_AND_CORE: Final = 1_000.0
_NANOSECONDS: Final = 1e9
_PLAIN: Final = next(iter(SITUATIONS))


@dataclass(frozen=True, slots=True)
class Size:
    clusters: int
    calls: int
    over_http: int = 0


FULL: Final = Size(clusters=5_000, calls=250, over_http=250)
QUICK: Final = Size(clusters=5_000, calls=25)


def api(run: Run) -> Iterator[Figure]:
    size = QUICK if run.quick else FULL
    for situation in SITUATIONS:
        yield from _making(run, size, situation, everything=False)
        yield from _making(run, size, situation, everything=True)
    if size.over_http:
        for situation, found in asyncio.run(ask(size.clusters, calls=size.over_http)).items():
            yield from _over_http(run, situation, found.made)
            yield from _served(run, situation, found)


def _making(run: Run, size: Size, situation: str, *, everything: bool) -> Iterator[Figure]:
    case = f"{situation}, {'500 clusters with all verdicts' if everything else '20 clusters'}"
    found = times(situation, everything=everything, calls=size.calls, clusters=size.clusters)
    target = _WITH_EVERYTHING if everything else _FAST
    yield run.number(case, "median", Kind.MILLISECONDS, float(np.median(found)))
    yield run.number(case, "p99", Kind.MILLISECONDS, float(np.percentile(found, 99)), target=target, informal=True)


def _over_http(run: Run, situation: str, found: Asked) -> Iterator[Figure]:
    """By the clock, except for the server's processor time."""
    case = f"{situation}, over HTTP"
    yield run.number(case, "median", Kind.MILLISECONDS, float(np.median(found.waits)), informal=True)
    worst = float(np.percentile(found.waits, 99))
    yield run.number(case, "p99", Kind.MILLISECONDS, worst, target=_FAST, informal=True)
    yield run.number(case, "CPU of the server", Kind.MILLISECONDS, found.cpu_seconds * _NANOSECONDS)
    yield run.number(case, f"{AT_ONCE} at a time", Kind.PER_SECOND, found.rate, informal=True)
    yield run.number(case, "an answer", Kind.BYTES, found.size, informal=True)


def _served(run: Run, situation: str, found: Answering) -> Iterator[Figure]:
    """From bytes that were made once. The rate is that of a core which does nothing else."""
    case, served = f"{situation}, served again", found.served
    per_core = 1 / served.cpu_seconds if served.cpu_seconds else 0.0
    yield run.number(case, "median", Kind.MILLISECONDS, float(np.median(served.waits)), informal=True)
    yield run.number(case, "CPU of the server", Kind.MILLISECONDS, served.cpu_seconds * _NANOSECONDS)
    yield run.number(case, "per core", Kind.PER_SECOND, per_core, target=_PER_SECOND_AND_CORE)
    target = _PER_SECOND if situation == _PLAIN else None
    yield run.number(case, f"{AT_ONCE} at a time", Kind.PER_SECOND, served.rate, target=target, informal=True)
    ratio = found.made.cpu_seconds / served.cpu_seconds if served.cpu_seconds else 0.0
    yield run.number(case, "than made anew", Kind.TIMES_FASTER, ratio, informal=True)
