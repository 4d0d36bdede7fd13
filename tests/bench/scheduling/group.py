"""The figures of the group `scheduling`: rates of placements, and what is left of them beside something else."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Final, ParamSpec, TypeVar

from tests.bench.figures import Figure, Kind
from tests.bench.measuring import Run
from tests.bench.scheduling import forms
from tests.bench.scheduling.forms import Compared, Cost, Size
from tests.bench.scheduling.stage import Spent, run

P = ParamSpec("P")
T = TypeVar("T")

RATE: Final = "placements"
_NANOSECONDS: Final = 1e9
_P99: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    plain: Size
    large: Size
    equal: Size
    zones: Size
    near: Size
    gated: Size
    unschedulable: Size
    preemptors: Size
    groups: Size
    restart: Size
    options: Size


FULL: Final = Plan(
    plain=Size(clusters=1_000, placements=10_000),
    large=Size(clusters=5_000, placements=10_000),
    equal=Size(clusters=5_000, placements=1_000, bursts=5),
    zones=Size(clusters=5_000, placements=1_000, bursts=3),
    near=Size(clusters=5_000, placements=300, bursts=3, others=5_000),
    gated=Size(clusters=5_000, placements=690, bursts=5, others=10_000),
    unschedulable=Size(clusters=5_000, placements=690, bursts=5),
    preemptors=Size(clusters=5_000, placements=690, bursts=5, others=100),
    groups=Size(clusters=1_000, placements=3_000),
    restart=Size(clusters=5_000, placements=10_000, others=16_667),
    options=Size(clusters=10_000, placements=5_000),
)
QUICK: Final = Plan(
    plain=Size(clusters=1_000, placements=200, bursts=3),
    large=Size(clusters=5_000, placements=200, bursts=3),
    equal=Size(clusters=5_000, placements=200, bursts=3),
    zones=Size(clusters=5_000, placements=200, bursts=3),
    near=Size(clusters=5_000, placements=100, bursts=3, others=5_000),
    gated=Size(clusters=5_000, placements=280, bursts=3, others=2_000),
    unschedulable=Size(clusters=5_000, placements=280, bursts=3),
    preemptors=Size(clusters=5_000, placements=280, bursts=3, others=20),
    groups=Size(clusters=1_000, placements=150, bursts=2),
    restart=Size(clusters=1_000, placements=1_000, others=1_667),
    options=Size(clusters=10_000, placements=200),
)


def scheduling(measuring: Run) -> Iterator[Figure]:
    plan = QUICK if measuring.quick else FULL
    yield from _plain(measuring, plan)
    yield from _equal(measuring, plan.equal)
    for case, place, size, target in (
        ("30 zones with a hard constraint", forms.place_over_zones, plan.zones, 460),
        (f"{plan.near.others:,} placements are there, terms about them", forms.place_near_others, plan.near, 90),
    ):
        yield measuring.number(case, RATE, Kind.PER_SECOND, _rate_of(run(place(size))), target=target)
    yield from _beside(measuring, "thousands gated, and churn", forms.place_beside_gated, plan.gated, 90)
    yield from _beside(measuring, "unschedulable ones come", forms.place_beside_unschedulable, plan.unschedulable, 85)
    yield from _beside(measuring, "preemptors on a slow hub", forms.place_beside_preemptors, plan.preemptors, 80)
    spent, _ = run(forms.place_groups(plan.groups))
    case = f"{plan.groups.placements // forms.MEMBERS:,} groups of {forms.MEMBERS}"
    yield measuring.number(case, RATE, Kind.PER_SECOND, _rate_of(spent), target=500)
    until_bound = _apart(_restart, plan.restart)
    case = f"restart, {plan.restart.placements:,} pending"
    yield measuring.number(case, "lease to first binding", Kind.MILLISECONDS, _in_ns(until_bound), target=5_000)
    yield from _options(measuring, plan.options)


def _plain(measuring: Run, plan: Plan) -> Iterator[Figure]:
    for size, target, longest in ((plan.plain, 1_000, 10), (plan.large, 680, None)):
        spent, case = run(forms.place_plain(size)), f"{size.clusters:,} clusters"
        yield measuring.number(case, RATE, Kind.PER_SECOND, _rate_of(spent), target=target)
        attempts = sorted(seconds for each in spent for seconds in each.attempts)
        p99 = attempts[int(_P99 * len(attempts))]
        yield measuring.number(case, "attempt, p99", Kind.MILLISECONDS, _in_ns(p99), target=longest)


def _equal(measuring: Run, size: Size) -> Iterator[Figure]:
    unequal, equal = run(forms.place_equal(size))
    case = f"equal ones, {size.clusters:,} clusters"
    yield measuring.number(case, RATE, Kind.PER_SECOND, _rate_of(equal), informal=True)
    times = max(each.rate for each in equal) / max(each.rate for each in unequal)
    yield measuring.number(case, "rate of unequal ones", Kind.PERCENT, 100 * times, target=300)


def _beside(
    measuring: Run, case: str, place: Callable[[Size], Coroutine[Any, Any, Compared]], size: Size, target: float
) -> Iterator[Figure]:
    compared = run(place(size))
    yield measuring.number(case, RATE, Kind.PER_SECOND, _rate_of(compared.disturbed), informal=True)
    yield measuring.number(case, "rate kept", Kind.PERCENT, compared.percent, target=target)


def _options(measuring: Run, size: Size) -> Iterator[Figure]:
    without, with_options = (_apart(_place_with_options, size, has_options) for has_options in (False, True))
    case = f"options, {size.clusters:,} clusters"
    for part, kept in (
        ("attempts kept", without.attempt / with_options.attempt),
        ("requests kept", without.requests / with_options.requests),
        ("memory kept", (without.resident or 1) / (with_options.resident or 1)),
    ):
        yield measuring.number(case, part, Kind.PERCENT, 100 * kept, target=50)


def _apart(form: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """In a process of its own: what earlier forms have left would be collected within a restart, and memory that they
    have given back would not show as growth."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(form, *args, **named).result()


def _restart(size: Size) -> float:
    return run(forms.restart(size)).until_bound


def _place_with_options(size: Size, has_options: bool) -> Cost:  # noqa: FBT001 - crosses to the other process
    return run(forms.place_with_options(size, has_options=has_options))[0]


def _rate_of(spent: Sequence[Spent]) -> float:
    return statistics.median(each.rate for each in spent)


def _in_ns(seconds: float) -> float:
    return seconds * _NANOSECONDS
