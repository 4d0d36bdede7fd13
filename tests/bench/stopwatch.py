"""Measuring time so that two runs can be compared.

The clock is the thread's processor time. The core waits for nothing, so on an idle machine that is the time that
passes. On a busy one it leaves out the milliseconds in which another process had the core, but not what that did to
the caches.

The garbage collector is the one thing inside the process that strikes at random. It is dealt with as a long-running
controller would: what exists before the measurement is collected once and frozen, then automatic collection stays off
until the last reading. What that hides is measured on its own: a full collection, and what a decision leaves behind.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np

_PRECISE: Final = 1e-6  # seconds; some systems count processor time in ticks, which is of no use here

clock: Final = (
    time.thread_time_ns if time.get_clock_info("thread_time").resolution <= _PRECISE else time.perf_counter_ns
)
"""Nanoseconds. Only differences mean something."""

Step = Callable[[int], Sequence[float]]
"""One repetition, given its number: does the work and says what it measured, one number or several."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to repeat: as often as `seconds` allow, but within bounds, after warming up."""

    warm_up: int
    least: int
    most: int
    seconds: float


FULL: Final = Effort(warm_up=20, least=15, most=2_000, seconds=1.5)
QUICK: Final = Effort(warm_up=5, least=5, most=100, seconds=0.08)
# For steps of tens of milliseconds, most of them preparation.
FULL_SLOW: Final = Effort(warm_up=2, least=20, most=40, seconds=2.0)
QUICK_SLOW: Final = Effort(warm_up=1, least=2, most=3, seconds=0.1)

_ENOUGH_FOR_P95: Final = 20


@dataclass(frozen=True, slots=True)
class Sample:
    median: float
    p95: float | None
    """None where there are too few readings to speak of one in twenty."""
    count: int


def measure(step: Step, effort: Effort) -> tuple[Sample, ...]:
    """A sample per number that `step` says. The first repetitions warm up and do not count."""
    for number in range(effort.warm_up):
        step(number)
    with undisturbed():
        readings = list(_repeat(step, effort))
    return tuple(sample_of(lap) for lap in zip(*readings, strict=True))


def _repeat(step: Step, effort: Effort) -> Iterator[Sequence[float]]:
    deadline = time.monotonic() + effort.seconds
    for number in range(effort.most):
        if number >= effort.least and time.monotonic() > deadline:
            return
        yield step(effort.warm_up + number)


def sample_of(readings: Sequence[float]) -> Sample:
    p95 = float(np.percentile(readings, 95)) if len(readings) >= _ENOUGH_FOR_P95 else None
    return Sample(float(np.median(readings)), p95, len(readings))


@contextmanager
def undisturbed() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
