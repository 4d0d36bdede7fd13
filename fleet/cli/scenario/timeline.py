"""The timeline of a scenario, as text and as a report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fleet.cli.scenario.document import API_VERSION
from fleet.cli.scenario.player import PlayedStep, Timeline
from fleet.text_table import Page, apply_style, finish, render_table

_HEAD: Final = ("AT", "STEP", "ATTEMPTS", "PLACED", "REMOVED", "SHORT")
_MOVES: Final = ("AT", "PLACEMENT", "PLACED ON", "REMOVED FROM")


def render_timeline(timeline: Timeline, page: Page) -> str:
    steps = timeline.steps
    lines = [f"from {timeline.start:%Y-%m-%dT%H:%M:%SZ}, in virtual time", ""]
    lines.append(render_table(_HEAD, [_build_row(step) for step in steps], numbers=_HEAD[2:5], width=page.width))
    moves = [row for step in steps for row in _build_moves(step)]
    if moves:
        lines += ["", render_table(_MOVES, moves, width=page.width)]
    unmet = [f"{step.at}  {line}" for step in steps for line in step.unmet]
    if unmet:
        lines += ["", apply_style("NOT AS EXPECTED", "bold"), *unmet]
    lines += [] if not timeline.not_run else [""]
    lines += [f"not run, since it may act on the real world: {each}" for each in list_not_run(timeline)]
    if timeline.cut:
        lines += ["", f"cut short before its end: {timeline.cut}"]
    return finish("\n".join(lines), page) + "\n"


def list_not_run(timeline: Timeline) -> list[str]:
    return [f"{plugin} ({', '.join(hooks)})" for plugin, hooks in timeline.not_run.items()]


def build_timeline_report(timeline: Timeline) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "FleetScenarioReport",
        "start": f"{timeline.start:%Y-%m-%dT%H:%M:%SZ}",
        "holds": timeline.holds,
        **({"cut": timeline.cut} if timeline.cut else {}),
        "ignored": dict(timeline.ignored),
        "notRun": {plugin: list(hooks) for plugin, hooks in timeline.not_run.items()},
        "steps": [_build_step(step) for step in timeline.steps],
    }


def _build_row(step: PlayedStep) -> tuple[str, ...]:
    title = step.title if step.fits is None else f"{step.title}: {step.fits} fit"
    counts = (len(step.attempts), len(step.placed), len(step.removed))
    return (step.at, title, *map(str, counts), ", ".join(step.short) or "-")


def _build_moves(step: PlayedStep) -> Iterator[tuple[str, ...]]:
    for placement in sorted({move.placement for move in (*step.placed, *step.removed)}):
        on, off = (
            " ".join(move.cluster for move in moves if move.placement == placement) or "-"
            for moves in (step.placed, step.removed)
        )
        yield step.at, placement, on, off


def _build_step(step: PlayedStep) -> dict[str, Any]:
    return {
        "at": step.at,
        "step": step.title,
        "attempts": [
            {
                "after": f"{attempt.after:.3f}s",
                "placement": attempt.placement,
                "triggers": list(attempt.triggers),
                "result": attempt.result,
                "digest": attempt.digest,
                **({"error": attempt.error} if attempt.error else {}),
            }
            for attempt in step.attempts
        ],
        "placed": [{"placement": move.placement, "cluster": move.cluster} for move in step.placed],
        "removed": [{"placement": move.placement, "cluster": move.cluster} for move in step.removed],
        "short": step.short,
        "unmet": step.unmet,
        **({} if step.fits is None else {"fits": step.fits}),
    }
