"""The verdict of every filter on every cluster as a table: the terminal form of `explain=all`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fleet.explain.answer.parts import Answer, ClusterRow
from fleet.text_table import Page, apply_style, render_table

_MARKS: Final[Mapping[str, str]] = {"pass": "✓", "reject": "✗", "skipped": "·", "unknown": "?"}
_STYLES: Final[Mapping[str, str]] = {"pass": "green", "reject": "red", "skipped": "dim", "unknown": "dim"}
_LEGEND: Final = "✓ pass   ✗ reject   · nothing to check"


def render_verdicts(answer: Answer, page: Page) -> str:
    """Empty for an answer that has only the first rejection of each cluster."""
    rows = [row for row in answer.attempt.clusters if len(row.rejections) > 1]
    if not rows:
        return ""
    plugins = list(dict.fromkeys(verdict.plugin for row in rows for verdict in row.rejections))
    cells = [[row.name, *(_format_mark(row, plugin) for plugin in plugins)] for row in rows]
    return f"{render_table(['VERDICTS', *plugins], cells, width=page.width)}\n{apply_style(_LEGEND, 'dim')}"


def _format_mark(row: ClusterRow, plugin: str) -> str:
    verdict = next((verdict.verdict for verdict in row.rejections if verdict.plugin == plugin), "skipped")
    return apply_style(_MARKS[verdict], _STYLES[verdict])
