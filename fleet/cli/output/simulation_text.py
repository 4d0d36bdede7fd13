"""Text of a simulation: the answers of all placements, or of each placement about some clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from fleet.cli.input.simulation import Simulation
from fleet.errors import InputError
from fleet.explain.answer.rendering import render, render_cluster
from fleet.model.timestamps import format_timestamp
from fleet.text_table import Page, apply_style, finish

MOST_ROWS: Final = 20
"""Clusters in one section; JSON and YAML have all of them."""


def render_simulation(simulation: Simulation, clusters: Sequence[str], page: Page) -> str:
    return "\n".join([_render_heading(simulation, page), *_render_answers(simulation, clusters, page)])


def _render_heading(simulation: Simulation, page: Page) -> str:
    clusters, placements = len(simulation.clusters), len(simulation.results)
    moment = f"as of {format_timestamp(simulation.moment.nanoseconds)} ({simulation.moment.source})"
    text = f"{_count(clusters, 'cluster')}, {_count(placements, 'placement')}, {moment}"
    return finish(apply_style(text, "dim"), page) + "\n"


def _render_answers(simulation: Simulation, clusters: Sequence[str], page: Page) -> Iterator[str]:
    if not clusters:
        yield from (render(result.explain(), page=page, most_rows=MOST_ROWS) for result in simulation.results)
    for cluster in clusters:
        yield finish(apply_style(cluster, "bold"), page) + "\n"
        for result in simulation.results:
            try:
                yield render_cluster(result.explain(cluster=cluster, everything=True), page=page)
            except InputError:
                continue  # a name outside the fleet that this placement does not mention


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
