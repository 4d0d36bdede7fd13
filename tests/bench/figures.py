"""Figures, and what is expected of them: a target that is fixed, and a baseline that was recorded.

A target is a promise and holds on any machine. A baseline tells whether a change made things worse; how much worse is
tolerated stands with each figure. Times only compare on the machine that recorded them. How steep, how large and how
many times faster compare anywhere.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from tests.bench.machine import Machine


class Kind(enum.StrEnum):
    MILLISECONDS = "ms"
    MICROSECONDS = "µs"
    BYTES = "B"
    MEGABYTES = "MB"
    PER_SECOND = "/s"
    TIMES_FASTER = "times faster"
    EXPONENT = "exponent"
    COUNT = "count"
    PERCENT = "%"


class Sense(NamedTuple):
    """How to read a kind of figure."""

    per_unit: float
    """How much of what is measured (nanoseconds, bytes, …) makes one."""
    portable: bool
    tolerance: float
    """How many times worse than the baseline it may be; of an exponent and a count, how much greater."""
    more_is_better: bool = False


SENSE: Final[Mapping[Kind, Sense]] = {
    Kind.MILLISECONDS: Sense(1e6, portable=False, tolerance=1.5),
    Kind.MICROSECONDS: Sense(1e3, portable=False, tolerance=1.5),
    Kind.BYTES: Sense(1, portable=True, tolerance=1.1),
    Kind.MEGABYTES: Sense(1, portable=True, tolerance=1.2),
    Kind.PER_SECOND: Sense(1, portable=False, tolerance=1.5, more_is_better=True),
    Kind.TIMES_FASTER: Sense(1, portable=True, tolerance=1.6, more_is_better=True),
    Kind.EXPONENT: Sense(1, portable=True, tolerance=0.15),
    Kind.COUNT: Sense(1, portable=True, tolerance=0),
    Kind.PERCENT: Sense(1, portable=True, tolerance=1.2, more_is_better=True),
}
_DIFFERENCES: Final = (Kind.EXPONENT, Kind.COUNT)


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    group: str
    case: str
    """The row of the table."""
    part: str
    """The column of the table."""
    kind: Kind
    median: float
    p95: float | None = None
    samples: int = 1
    target: float | None = None
    """At most; of what is better the more there is of it, at least."""
    tolerance: float | None = None
    """None: told for information, compared with nothing."""

    @property
    def id(self) -> str:
        return f"{self.group} / {self.case} / {self.part}"

    @property
    def misses_target(self) -> bool:
        if self.target is None:
            return False
        return self.median < self.target if SENSE[self.kind].more_is_better else self.median > self.target


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    day: str
    machine: Machine
    load: float
    """Before the first measurement. What else ran then makes figures worse than they are."""

    def __str__(self) -> str:
        return f"{self.day} on {self.machine}; load before it {self.load:g}"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    origin: Origin
    groups: dict[str, Origin] = {}
    """Of those that were recorded apart from the rest."""
    quick: bool
    picks: int
    """Policies whose picks were checked, and right."""
    figures: tuple[Figure, ...]

    def origin_of(self, group: str) -> Origin:
        return self.groups.get(group, self.origin)

    def figure(self, figure_id: str) -> Figure | None:
        return next((one for one in self.figures if one.id == figure_id), None)


@dataclass(frozen=True, slots=True)
class Comparison:
    figure: Figure
    before: Figure
    allowed: float

    @property
    def change(self) -> float:
        """Of an exponent and a count the difference, of the rest how many times worse; less than 1 is better."""
        now, before = self.figure.median, self.before.median
        if self.figure.kind in _DIFFERENCES:
            return round(now - before, 6)
        if SENSE[self.figure.kind].more_is_better:
            now, before = before, now
        return now / before if before else 1.0

    @property
    def is_worse(self) -> bool:
        return self.change > self.allowed

    def __str__(self) -> str:
        if self.figure.kind in _DIFFERENCES:
            return f"{self.change:+.2f} (≤ +{self.allowed:g})"
        return f"{self.change:.2f} times (≤ {self.allowed:g})"


def compared(figure: Figure, report: Report, baseline: Report | None) -> Comparison | None:
    """None where there is nothing to compare with. The baseline's tolerance is the one that counts."""
    before = None if baseline is None else baseline.figure(figure.id)
    if baseline is None or before is None or before.tolerance is None:
        return None
    machines = {each.origin_of(figure.group).machine for each in (report, baseline)}
    if len(machines) > 1 and not SENSE[figure.kind].portable:
        return None
    return Comparison(figure, before, before.tolerance)


def comparisons(report: Report, baseline: Report | None) -> dict[str, Comparison]:
    """By the id of the figure."""
    found = {one.id: compared(one, report, baseline) for one in report.figures}
    return {figure_id: comparison for figure_id, comparison in found.items() if comparison is not None}


def violations(report: Report, baseline: Report | None) -> Iterator[str]:
    """What the run is not to be content with."""
    for figure in report.figures:
        if figure.misses_target:
            side = "under" if SENSE[figure.kind].more_is_better else "over"
            yield f"{figure.id}: {shown(figure.median, figure.kind)} is {side} the target {target_of(figure)}"
    for comparison in comparisons(report, baseline).values():
        if comparison.is_worse:
            now, before = comparison.figure, comparison.before
            yield (
                f"{now.id}: {shown(now.median, now.kind)} against the baseline's {shown(before.median, before.kind)}: "
                f"{comparison}"
            )


def summary_of(figure: Figure) -> str:
    summary = f"{figure.id}: {shown(figure.median, figure.kind)}"
    if figure.target is None:
        return summary
    return f"{summary}, target {target_of(figure)} {'missed' if figure.misses_target else 'met'}"


def target_of(figure: Figure) -> str:
    if figure.target is None:
        return ""
    return f"{'≥' if SENSE[figure.kind].more_is_better else '≤'} {figure.target:,g} {figure.kind}"


def shown(value: float, kind: Kind) -> str:
    match kind:
        case Kind.EXPONENT:
            return f"{value:.2f}"
        case Kind.COUNT:
            return f"{value:g}"
        case Kind.TIMES_FASTER:
            return f"{value:,.0f} times" if value >= 10 else f"{value:.2g} times"
        case Kind.BYTES | Kind.PER_SECOND:
            return f"{value:,.0f} {kind}"
    return f"{value:,.0f} {kind}" if value >= 1_000 else f"{value:.3g} {kind}"
