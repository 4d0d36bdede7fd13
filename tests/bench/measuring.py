"""One run of one group: how much effort it takes, and how samples become its figures."""

from __future__ import annotations

from dataclasses import dataclass

from tests.bench.figures import SENSE, Figure, Kind
from tests.bench.stopwatch import FULL, FULL_SLOW, QUICK, QUICK_SLOW, Effort, Sample


@dataclass(frozen=True, slots=True)
class Run:
    group: str
    quick: bool

    @property
    def effort(self) -> Effort:
        return QUICK if self.quick else FULL

    @property
    def slow_effort(self) -> Effort:
        return QUICK_SLOW if self.quick else FULL_SLOW

    def figure(
        self,
        case: str,
        part: str,
        kind: Kind,
        sample: Sample,
        *,
        target: float | None = None,
        informal: bool = False,
    ) -> Figure:
        """`informal` figures are shown and compared with nothing."""
        sense = SENSE[kind]
        return Figure(
            group=self.group,
            case=case,
            part=part,
            kind=kind,
            median=_rounded(sample.median / sense.per_unit),
            p95=None if sample.p95 is None else _rounded(sample.p95 / sense.per_unit),
            samples=sample.count,
            target=target,
            tolerance=None if informal else sense.tolerance,
        )

    def number(
        self, case: str, part: str, kind: Kind, value: float, *, target: float | None = None, informal: bool = False
    ) -> Figure:
        """What is counted or computed once."""
        return Figure(
            group=self.group,
            case=case,
            part=part,
            kind=kind,
            median=_rounded(value / SENSE[kind].per_unit),
            target=target,
            tolerance=None if informal else SENSE[kind].tolerance,
        )


def _rounded(value: float) -> float:
    """Four digits: more would be noise in every recorded file."""
    return float(f"{value:.4g}")
