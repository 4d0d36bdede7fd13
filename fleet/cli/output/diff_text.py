"""A diff as text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from fleet.cli.client.names import CLUSTER_KIND
from fleet.cli.output.diff_report import DiffReport, count
from fleet.explain.whatif.moves import ClusterMove, FieldChange, ObjectChange, PlacementMoves
from fleet.text_table import GAP, Page, apply_style, finish, render_columns, render_table

MOST_ROWS: Final = 20
"""Clusters of one placement, and of the table; JSON and YAML have all."""
_LONGEST_VALUE: Final = 60
_POLICY: Final = "spec.policy"


def render_diff(report: DiffReport, page: Page) -> str:
    parts = [
        "\n".join([apply_style(report.summary, "bold"), apply_style(_describe_base(report), "dim")]),
        *("\n".join(_render_object(change, report)) for change in report.objects if change.kind == CLUSTER_KIND),
        *("\n".join(_render_placement(placement, report, page)) for placement in report.placements),
        _render_clusters(report, page),
        "\n".join(
            f"{apply_style('POLICY', 'bold')}{GAP}{each.key}: {remark.message}"
            for each in report.remarks
            for remark in each.remarks
        ),
        *(f"{apply_style('UNDECIDED', 'red')}  {each.key}: {each.message}" for each in report.undecided),
    ]
    return finish("\n\n".join(part for part in parts if part), page) + "\n"


def _describe_base(report: DiffReport) -> str:
    counts = f"{count(report.cluster_count, 'cluster')}, {count(report.placement_count, 'placement')}"
    return f"compared with {report.base}: {counts}, as of {report.now} ({report.now_from})"


# --- objects ----------------------------------------------------------------------------------------------------------


def _render_object(change: ObjectChange, report: DiffReport) -> Iterator[str]:
    yield f"{apply_style(f'{change.kind} {change.key}', 'bold')}{GAP}{describe_change(change)}"
    yield from map(_render_field, list_changes(change, report))


def describe_change(change: ObjectChange) -> str:
    words = {"same": "no change", "deleted": "deleted"}.get(change.change, change.change)
    return f"{words} ({change.place})" if change.place else words


def list_changes(change: ObjectChange, report: DiffReport) -> list[FieldChange]:
    """The fields; those of a policy as decisions read them, in fewer words."""
    name = (change.kind, change.key)
    inputs = [part for each in report.placements if (each.kind, each.key) == name for part in each.inputs]
    read = [FieldChange(field=part.what, before=part.before, after=part.after) for part in inputs]
    if not read:
        return list(change.fields)
    return [*read, *(field for field in change.fields if not field.field.startswith(_POLICY))]


def _render_field(change: FieldChange) -> str:
    return f"{GAP}{change.field}: {format_value(change.before)} → {format_value(change.after)}"


def format_value(value: Any) -> str:
    if value is None or value in ([], {}, ()):
        return "none"
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return "; ".join(value)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


# --- placements -------------------------------------------------------------------------------------------------------


def _render_placement(placement: PlacementMoves, report: DiffReport, page: Page) -> Iterator[str]:
    change = find_object(placement, report)
    about = "not in the files" if change is None else describe_change(change)
    title = apply_style(f"{placement.kind} {placement.key}", "bold")
    yield f"{title}{GAP}{describe_outcomes(placement)}{GAP}{about}"
    yield from map(_render_field, () if change is None else list_changes(change, report))
    yield from _render_moves(placement, page)
    if placement.is_moved and placement.moves_anyway:
        yield f"{GAP}moves alike without the files, at its next decision"


def find_object(placement: PlacementMoves, report: DiffReport) -> ObjectChange | None:
    """The placement in the files."""
    name = (placement.kind, placement.key)
    return next((change for change in report.objects if (change.kind, change.key) == name), None)


def describe_outcomes(placement: PlacementMoves) -> str:
    """`PARTIAL on 2 → SELECTED on 3`"""
    before = f"{placement.outcome_before} on {len(placement.before)}" if placement.outcome_before else "new"
    after = f"{placement.outcome_after} on {len(placement.after)}" if placement.outcome_after else "deleted"
    return before if before == after else f"{before} → {after}"


def _render_moves(placement: PlacementMoves, page: Page) -> Iterator[str]:
    kept = len(placement.before) - len(placement.lost)
    if not placement.is_moved:
        yield f"{GAP}no move"
        return
    rows = [*_list_rows("+", "green", placement.gained), *_list_rows("-", "red", placement.lost)]
    yield render_columns(rows, width=page.width, indent=GAP)
    if kept:
        yield f"{GAP}{kept} {'stays' if kept == 1 else 'stay'}"


def _list_rows(sign: str, color: str, moves: Sequence[ClusterMove]) -> Iterator[list[str]]:
    for move in moves[:MOST_ROWS]:
        yield [apply_style(f"{sign} {move.cluster}", color), move.why]
    if len(moves) > MOST_ROWS:
        yield [f"{sign} … and {len(moves) - MOST_ROWS} more", ""]


def _render_clusters(report: DiffReport, page: Page) -> str:
    """Where more than one placement moves; else it would repeat what is above."""
    if len(report.moved) + len(report.moving_anyway) < 2:
        return ""
    rows = [[each.cluster, " ".join(each.gained), " ".join(each.lost)] for each in report.clusters]
    more = f"\n… and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return render_table(["CLUSTER", "GAINS", "LOSES"], rows[:MOST_ROWS], width=page.width) + more
