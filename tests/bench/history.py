"""The cost of recording: throughput of the scheduler, processor time and bytes of a decision, bytes of clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.bench.controller.hubs import EMBEDDED, REAL
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import frame_of
from tests.bench.keeping import keep_clusters, keep_decisions
from tests.bench.measuring import Run
from tests.bench.policies import TIERS, hard_policy, plain_policy, spread_policy
from tests.bench.recording import Kept, Recording, Size, keep_pace, keep_up, record_burst

_POLICIES: Final[dict[str, Callable[[int, int], dict[str, Any]]]] = {
    "plain": plain_policy,
    "spread": spread_policy,
    "hard": hard_policy,
}
_NANOSECONDS: Final = 1e9
_THROUGHPUT_KEPT: Final = 95.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    fleets: tuple[int, ...]
    decisions: int
    rounds: int
    """Of changes of all clusters."""
    bursts: tuple[Size, ...]
    """Whose processor time is told apart."""
    paces: Mapping[str, Size]
    """By hub: placed with a history and without."""
    long: Mapping[str, Size]
    """By hub: placed with a history and without, until all is written."""


FULL: Final = Plan(
    fleets=(1_000, 10_000),
    decisions=301,
    rounds=4,
    bursts=(Size(1_000, 1_000), Size(10_000, 500)),
    paces={REAL: Size(1_000, 300), EMBEDDED: Size(1_000, 1_000)},
    long={REAL: Size(1_000, 600), EMBEDDED: Size(1_000, 2_000)},
)
QUICK: Final = Plan(fleets=(1_000, 10_000), decisions=61, rounds=2, bursts=(), paces={}, long={})


def history(run: Run) -> Iterator[Figure]:
    plan = QUICK if run.quick else FULL
    for clusters in plan.fleets:
        for form in _POLICIES:
            yield from _decisions(run, clusters, form, plan.decisions)
    for clusters in plan.fleets:
        yield from _clusters(run, clusters, plan.rounds)
    for size in plan.bursts:
        yield from _recording(run, size, record_burst(size))
    for hub, size in plan.paces.items():
        yield from _pace(run, _placing(hub, size), keep_pace(hub, size), target=_THROUGHPUT_KEPT)
    for hub, size in plan.long.items():
        yield from _pace(run, f"{_placing(hub, size)}, written", keep_up(hub, size))


def _placing(hub: str, size: Size) -> str:
    return f"{size}, {hub} hub, {size.placements:,} placements"


def _decisions(run: Run, clusters: int, form: str, count: int) -> Iterator[Figure]:
    case = f"{clusters:,} clusters, 10 picks, {form}"
    kept = keep_decisions(frame_of(clusters), [_POLICIES[form](10, tier) for tier in TIERS], count=count)
    yield run.number(case, "a decision", Kind.BYTES, kept.decision)
    yield run.number(case, "of it verdicts and scores", Kind.BYTES, kept.columns)
    yield run.number(case, "CPU of the writer", Kind.MILLISECONDS, kept.cpu_seconds * _NANOSECONDS)


def _clusters(run: Run, clusters: int, rounds: int) -> Iterator[Figure]:
    found = keep_clusters(clusters, rounds=rounds)
    case = f"{clusters:,} clusters, in the journal"
    yield run.number(case, "a cluster at the start", Kind.BYTES, found.known)
    yield run.number(case, "a cluster that changed", Kind.BYTES, found.changed)


def _recording(run: Run, size: Size, found: Recording) -> Iterator[Figure]:
    case = f"{size}, placing"
    yield run.number(case, "CPU of scheduling", Kind.MILLISECONDS, found.scheduling * _NANOSECONDS, informal=True)
    yield run.number(case, "CPU of recording", Kind.MILLISECONDS, found.recording * _NANOSECONDS, informal=True)


def _pace(run: Run, case: str, found: Kept, *, target: float | None = None) -> Iterator[Figure]:
    yield run.number(case, "placed without", Kind.PER_SECOND, found.without, informal=True)
    yield run.number(case, "placed with a history", Kind.PER_SECOND, found.recorded, informal=True)
    informal = target is None
    yield run.number(case, "throughput kept", Kind.PERCENT, found.percent, target=target, informal=informal)
