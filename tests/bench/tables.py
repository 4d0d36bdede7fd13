"""Reports as Markdown tables that read as well on a terminal, and JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from tests.bench.figures import Comparison, Figure, Report, comparisons, shown, target_of, violations
from tests.bench.groups import GROUPS

BEGIN: Final = "<!-- figures -->"
END: Final = "<!-- end of figures -->"


def heading(report: Report) -> str:
    form = "A short run" if report.quick else "A full run"
    return f"{form} of {report.origin}. The picks of {report.picks} policies were checked first."


def tables(report: Report, baseline: Report | None = None) -> str:
    """Every group that was measured, beside the baseline if there is one. Changes are shown where figures compare."""
    known = comparisons(report, baseline)
    blocks = []
    for group in GROUPS:
        figures = [figure for figure in report.figures if figure.group == group.name]
        if figures:
            origin = f"\n\nMeasured on {report.groups[group.name]}." if group.name in report.groups else ""
            table = markdown(list(_rows(figures, known, baseline)))
            blocks.append(f"### {group.title}\n\n{group.note}{origin}\n\n{table}")
    return "\n\n".join(blocks)


def _rows(figures: Sequence[Figure], known: Mapping[str, Comparison], baseline: Report | None) -> Iterator[list[str]]:
    parts = list(dict.fromkeys(figure.part for figure in figures))
    has_targets = any(figure.target is not None for figure in figures)
    yield [
        "case",
        *parts,
        *(["target"] if has_targets else []),
        *(["baseline", "change"] if baseline is not None else []),
    ]
    for case in dict.fromkeys(figure.case for figure in figures):
        by_part = {figure.part: figure for figure in figures if figure.case == case}
        row = [case, *(_cell(by_part[part]) if part in by_part else "" for part in parts)]
        if has_targets:
            row.append(" · ".join(_target(one) for one in by_part.values() if one.target is not None))
        if baseline is not None:
            before = [baseline.figure(one.id) for one in by_part.values()]
            row.append(" · ".join(shown(one.median, one.kind) for one in before if one and one.tolerance is not None))
            found = [known[one.id] for one in by_part.values() if one.id in known]
            row.append(" · ".join(f"{one}{' WORSE' if one.is_worse else ''}" for one in found))
        yield row


def _cell(figure: Figure) -> str:
    median = shown(figure.median, figure.kind)
    return median if figure.p95 is None else f"{median} (p95 {shown(figure.p95, figure.kind).split()[0]})"


def _target(figure: Figure) -> str:
    return f"{target_of(figure)} {'MISSED' if figure.misses_target else 'met'}"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the head; columns are padded to one width."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    rule = "| " + " | ".join("-" * width for width in widths) + " |"
    return "\n".join([lines[0], rule, *lines[1:]])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"


# --- files ----------------------------------------------------------------------------------------------------------


def page_with(page: str, report: Report) -> str:
    """The page with the figures between its two marks renewed."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{heading(report)}\n\n{tables(report)}\n\n{END}{after}"


def as_json(report: Report, baseline: Report | None = None) -> bytes:
    """A report that can be a baseline itself; with one, also how it compares. One figure a line, for diffs."""
    content: dict[str, Any] = msgspec.to_builtins(report)
    figures = content.pop("figures")
    if baseline is not None:
        content["compared"] = {
            figure_id: {"before": one.before.median, "change": one.change, "allowed": one.allowed}
            for figure_id, one in comparisons(report, baseline).items()
        }
    content["complaints"] = list(violations(report, baseline))
    rest = msgspec.json.encode(content).removeprefix(b"{")
    lines = b",\n".join(msgspec.json.encode(figure) for figure in figures)
    return b'{"figures":[\n' + lines + b"\n],\n" + rest + b"\n"


def from_json(content: bytes) -> Report:
    return msgspec.json.decode(content, type=Report)
