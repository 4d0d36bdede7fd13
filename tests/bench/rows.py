"""Rows of docs/acceptance.md that figures answer: the figures say how fast, the page says what each row asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.bench.figures import Figure, Report, shown, target_of
from tests.bench.tables import markdown

ROWS: Final = {
    "P-01": (
        "scheduling / 1,000 clusters / placements",
        "scheduling / 1,000 clusters / attempt, p99",
    ),
    "P-02": ("scheduling / 5,000 clusters / placements",),
    "P-03": ("scheduling / thousands gated, and churn / rate kept",),
    "P-04": ("scheduling / unschedulable ones come / rate kept",),
    "P-05": ("scheduling / preemptors on a slow hub / rate kept",),
    "P-06": ("scheduling / 30 zones with a hard constraint / placements",),
    "P-07": ("scheduling / 5,000 placements are there, terms about them / placements",),
    "P-08": ("scheduling / equal ones, 5,000 clusters / rate of unequal ones",),
    "P-09": (
        "joining / of no use to any, 5,000 placements wait / until all is quiet",
        "joining / of no use to any, 5,000 placements wait / attempts",
    ),
    "P-10": ("upkeep / the same in 10 rows of 5,000 / put and freeze",),
    "P-11": ("scheduling / 1,000 groups of 3 / placements",),
    "P-12": (
        "history / 1,000 clusters, embedded hub, 1,000 placements / throughput kept",
        "history / 1,000 clusters, real hub, 300 placements / throughput kept",
    ),
    "P-14": ("scheduling / restart, 10,000 pending / lease to first binding",),
    "P-16": (
        "decide / 5,000 clusters, 3 picks, plain / decide",
        "decide / 20,000 clusters, 3 picks, plain / decide",
    ),
    "P-17": (
        "adapter / a filter that passes, per row / adapter",
        "adapter / a filter that refuses, per row / adapter",
        "adapter / a score, per row / adapter",
    ),
    "P-18": ("preempting / 500 clusters, 20 bindings on each / decide",),
    "P-19": ("decide / 10,000 clusters, 100 picks, hard / decide",),
    "X-24": (
        "scheduling / options, 10,000 clusters / attempts kept",
        "scheduling / options, 10,000 clusters / requests kept",
        "scheduling / options, 10,000 clusters / memory kept",
    ),
}


def find_figures(report: Report, row: str) -> Iterator[Figure]:
    for figure_id in ROWS[row]:
        figure = report.figure(figure_id)
        if figure is not None:
            yield figure


def rows_table(report: Report) -> str:
    """Empty where nothing was measured that a row asks for."""
    lines = [
        [
            row,
            figure.id,
            target_of(figure),
            shown(figure.median, figure.kind),
            "MISSED" if figure.misses_target else "met",
        ]
        for row in ROWS
        for figure in find_figures(report, row)
    ]
    return markdown([["row", "figure", "target", "measured", ""], *lines]) if lines else ""
