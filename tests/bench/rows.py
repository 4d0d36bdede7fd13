"""Rows of docs/acceptance.md that figures answer: the figures say how fast, the page says what each row asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.bench.figures import Figure, Report, shown, target_of
from tests.bench.tables import markdown

ROWS: Final = {
    "P-09": (
        "joining / of no use to any, 5,000 placements wait / until all is quiet",
        "joining / of no use to any, 5,000 placements wait / attempts",
    ),
    "P-10": ("upkeep / the same in 10 rows of 5,000 / put and freeze",),
    "P-12": (
        "history / 1,000 clusters, embedded hub, 1,000 placements / throughput kept",
        "history / 1,000 clusters, real hub, 300 placements / throughput kept",
    ),
    "P-16": (
        "decide / 5,000 clusters, 3 picks, plain / decide",
        "decide / 20,000 clusters, 3 picks, plain / decide",
    ),
    "P-17": (
        "adapter / a filter that passes, per row / adapter",
        "adapter / a filter that refuses, per row / adapter",
        "adapter / a score, per row / adapter",
    ),
    "P-19": ("decide / 10,000 clusters, 100 picks, hard / decide",),
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
