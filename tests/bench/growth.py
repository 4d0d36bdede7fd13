"""How the time of a decision grows with the fleet and with the number of picks.

The exponent of a power law through the measured points: 1 is "twice the clusters, twice the time". Over the whole range
it flatters, because small fleets pay mostly the fixed cost of a decision; so the last decade is fitted as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fleet.snapshot import Frame
from plugins.default_profile import compile_default
from tests.bench.decisions import time_decisions
from tests.bench.figures import Figure, Kind
from tests.bench.fleets import frame_of
from tests.bench.measuring import Run
from tests.bench.policies import plain_policy, spread_policy

Points = list[tuple[int, float]]

_FORMS: Final = {"plain": plain_policy, "spread": spread_policy}
_CLUSTERS: Final = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
_PICKS: Final = (1, 3, 10, 30, 100, 300, 1_000)
_QUICK_CLUSTERS: Final = (100, 1_000, 10_000)
_QUICK_PICKS: Final = (1, 10, 100)
_FLEET: Final = 10_000
_PICKED: Final = 10


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """Of the power law that fits best, all points counting alike on logarithmic scales."""
    x, y = np.log(np.array(points, dtype=np.float64)).T
    away = x - x.mean()
    return float((away * (y - y.mean())).sum() / (away * away).sum())


def last_decade(points: Points) -> Points:
    """The points from a tenth of the greatest on."""
    return [(size, time) for size, time in points if size * 10 >= points[-1][0]]


def by_clusters(run: Run) -> Iterator[Figure]:
    points: dict[str, Points] = {form: [] for form in _FORMS}
    for size in _QUICK_CLUSTERS if run.quick else _CLUSTERS:
        yield from _measured(run, frame_of(size), size=size, picks=_PICKED, case=f"{size:,} clusters", points=points)
    yield from _exponents(run, points, "clusters")


def by_picks(run: Run) -> Iterator[Figure]:
    points: dict[str, Points] = {form: [] for form in _FORMS}
    frame = frame_of(_FLEET)
    for picks in _QUICK_PICKS if run.quick else _PICKS:
        yield from _measured(
            run, frame, size=picks, picks=picks, case=f"{picks:,} pick{'s' if picks > 1 else ''}", points=points
        )
    yield from _exponents(run, points, "picks")


def _measured(
    run: Run, frame: Frame, *, size: int, picks: int, case: str, points: dict[str, Points]
) -> Iterator[Figure]:
    profile = compile_default()
    for form, policy in _FORMS.items():
        decided, _, _ = time_decisions(run, frame, policy, picks=picks, profile=profile)
        points[form].append((size, decided.median))
        yield run.figure(case, form, Kind.MILLISECONDS, decided)


def _exponents(run: Run, points: dict[str, Points], unit: str) -> Iterator[Figure]:
    for fitted in (list, last_decade):
        for form, measured in points.items():
            chosen = fitted(measured)
            case = f"exponent, {chosen[0][0]:,} … {chosen[-1][0]:,} {unit}"
            yield run.number(case, form, Kind.EXPONENT, exponent(chosen))
