"""A diff as Markdown, for a comment on a pull request: short, details folded.

All names and messages are in code spans, so that nothing in them is markup, a mention or a link. Values of fields are
left out: the readers of a pull request may not be those of the hub.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from fleet.cli.output.diff_report import DiffReport, count
from fleet.cli.output.diff_text import describe_change, describe_outcomes, find_object, list_changes
from fleet.explain.whatif.moves import ClusterMove, PlacementMoves
from fleet.name_lists import join_first

MOST_ROWS: Final = 20
"""Of a table. A comment has room for 65,536 characters."""
_MOST_NAMES: Final = 5
_LONGEST: Final = 160
_BLANKS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def render_markdown(report: DiffReport) -> str:
    parts = [
        f"### Fleet: {report.summary}",
        _render_placements(report),
        "\n".join(f"- **cannot be decided**: {_code(each.key)}: {_code(each.message)}" for each in report.undecided),
        "\n".join(
            f"- {_code(each.key)}: {_code(remark.message)}" for each in report.remarks for remark in each.remarks
        ),
        _fold("Why, cluster by cluster", _render_reasons(report)),
        _fold("Clusters", _render_clusters(report)),
        _fold("Objects in the files", _render_objects(report)),
        _fold("Notes", "\n".join(f"- {_code(note)}" for note in report.notes[:MOST_ROWS])),
        f"<sub>Compared with {_code(report.base)}: {count(report.cluster_count, 'cluster')}, "
        f"{count(report.placement_count, 'placement')}, as of {report.now}.</sub>",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _render_placements(report: DiffReport) -> str:
    rows = [
        [
            f"{_code(each.key)}{_describe_source(each, report)}",
            describe_outcomes(each),
            _name_all(each.gained),
            _name_all(each.lost),
        ]
        for each in (*report.moved, *report.moving_anyway)
    ]
    return _render_table(["Placement", "Before → after", "Gains", "Loses"], rows)


def _describe_source(placement: PlacementMoves, report: DiffReport) -> str:
    if placement.moves_anyway and placement.is_moved:
        return " (moves without the files, too)"
    return " (not in the files)" if find_object(placement, report) is None else f" ({placement.change})"


def _render_reasons(report: DiffReport) -> str:
    rows = [
        [_code(placement.key), sign, _code(move.cluster), _code(move.why)]
        for placement in report.moved
        for sign, moves in (("gains", placement.gained), ("loses", placement.lost))
        for move in moves
        if move.why
    ]
    return _render_table(["Placement", "", "Cluster", "Why"], rows)


def _render_clusters(report: DiffReport) -> str:
    rows = [
        [_code(each.cluster), _join(map(_code, each.gained)), _join(map(_code, each.lost))] for each in report.clusters
    ]
    return _render_table(["Cluster", "Gains", "Loses"], rows)


def _render_objects(report: DiffReport) -> str:
    rows = [
        [
            _code(f"{change.kind} {change.key}"),
            _code(describe_change(change)),
            _join(_code(field.field) for field in list_changes(change, report)),
        ]
        for change in report.objects
    ]
    return _render_table(["Object", "Change", "Fields"], rows)


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Empty without rows."""
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows[:MOST_ROWS]]
    more = f"\n\n… and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def _fold(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{content}\n\n</details>" if content else ""


def _name_all(moves: Iterable[ClusterMove]) -> str:
    return _join(_code(move.cluster) for move in moves)


def _join(names: Iterable[str]) -> str:
    return join_first(list(names), _MOST_NAMES)


def _code(text: str) -> str:
    """Also inside a table, where a bar ends the cell."""
    plain = _BLANKS.sub(" ", text).replace("`", "'").strip()
    plain = plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…"
    return f"`{plain}`".replace("|", "\\|") if plain else ""
