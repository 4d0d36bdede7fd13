"""Terminal view of the fleet: clusters, placements and the latest decisions, as much as fits."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fleet.demo.headlines import Headline, join_names
from fleet.demo.status_rows import ClusterStatusRow, PlacementStatusRow, State

_STYLES: Final = {
    State.CONNECTED: "green",
    State.JOINING: "cyan",
    State.LEAVING: "magenta",
    State.LATE: "yellow",
    State.SILENT: "red",
}
_FRAME: Final = 2
_SIDES: Final = 4
"""Columns of a frame and its padding."""
_HEADING: Final = 1
_INDENT: Final = " " * 10
"""Below the text of a headline, which begins with its time."""
_LOW: Final = 32
"""Lines of a terminal below which the commands to try make room for the tables."""
_CLUSTERS_WIDTH: Final = 58
_NARROW: Final = 110
"""Terminal width below which clusters and placements are stacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The content of the view at one moment."""

    title: str
    clusters: Sequence[ClusterStatusRow] = ()
    placements: Sequence[PlacementStatusRow] = ()
    headlines: Sequence[Headline] = field(default=())
    commands: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _build_layout(self, width=options.max_width, height=options.height or console.height)


@dataclass(frozen=True, slots=True)
class LiveScreen:
    """Builds a new screen each time it is drawn."""

    take: Callable[[], Screen]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self.take().__rich_console__(console, options)


def _build_layout(picture: Screen, *, width: int, height: int) -> Layout:
    """A low terminal shows one line of the head, all placements, and decisions; of the clusters what is left."""
    is_low = height < _LOW
    header = Text(picture.title, style="bold", no_wrap=True, overflow="ellipsis") if is_low else _build_header(picture)
    head = 1 if is_low else len(picture.commands) + _FRAME
    tables = Layout(name="tables", ratio=3)
    left = Layout(name="clusters", size=_CLUSTERS_WIDTH) if width >= _NARROW else Layout(name="clusters")
    rows = len(picture.placements) + _FRAME + _HEADING
    right = Layout(name="placements", size=rows if is_low and width < _NARROW and rows < height / 2 else None)
    split = tables.split_row if width >= _NARROW else tables.split_column
    split(left, right)
    whole = Layout()
    whole.split_column(Layout(header, size=head), tables, Layout(name="news", ratio=2))
    left.update(_Fitting(lambda room, _: _build_clusters_panel(picture.clusters, room)))
    right.update(_Fitting(lambda room, _: _build_placements_panel(picture.placements, room)))
    whole["news"].update(_Fitting(lambda room, width: _build_decisions_panel(picture.headlines, room, width)))
    return whole


@dataclass(frozen=True, slots=True)
class _Fitting:
    """A panel that is built when its height is known."""

    make: Callable[[int, int], Panel]
    """Of the lines and columns within its frame."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = options.height or console.height
        yield self.make(max(height - _FRAME, _HEADING), max(options.max_width - _SIDES, 1))


def _build_header(picture: Screen) -> Panel:
    return Panel(Text("\n".join(picture.commands), style="bold"), title=Text(picture.title), title_align="left")


def _build_clusters_panel(rows: Sequence[ClusterStatusRow], room: int) -> Panel:
    table = _build_table("CLUSTER", "REGION", "HEARD", "STATE")
    shown = room - _HEADING
    for row in rows[:shown]:
        table.add_row(Text(row.name), Text(row.region), age_text(row.age), _build_state_text(row))
    return _build_panel(table, f"{len(rows)} clusters", rows[shown:])


def _build_state_text(row: ClusterStatusRow) -> Text:
    text = Text(row.state.value, style=_STYLES[row.state])
    return text.append(f" ({row.taints})", style="dim") if row.taints else text


def _build_placements_panel(rows: Sequence[PlacementStatusRow], room: int) -> Panel:
    table = _build_table("PLACEMENT", "TYPE", "WANTED", "STATUS", "CLUSTERS")
    shown = room - _HEADING
    for row in rows[:shown]:
        status = Text(row.status, style="green" if row.is_settled else "yellow")
        selected = f"{len(row.selected)}: {join_names(row.selected)}" if row.selected else "0"
        table.add_row(Text(row.key), Text(row.type), row.wanted, status, Text(selected))
    return _build_panel(table, f"{len(rows)} placements", rows[shown:])


def _build_decisions_panel(headlines: Sequence[Headline], room: int, width: int) -> Panel:
    """The newest that fit. The reason is at the end of a line, so long ones are continued."""
    lines = [line for headline in headlines[-room:] for line in _wrap_headline(str(headline), width)]
    texts = [Text(line, no_wrap=True, overflow="ellipsis") for line in lines[-room:]]
    return Panel(Group(*texts), title="decisions", title_align="left", border_style="dim")


def _wrap_headline(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent=_INDENT, break_on_hyphens=False) or [""]


def _build_table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold", show_edge=False, expand=True)
    for heading in headings:  # the last column takes the remaining width
        table.add_column(heading, no_wrap=True, overflow="ellipsis", ratio=1 if heading == headings[-1] else None)
    return table


def _build_panel(table: Table, title: str, left_out: Sequence[object]) -> Panel:
    more = f"and {len(left_out)} more" if left_out else None
    return Panel(table, title=title, title_align="left", subtitle=more, subtitle_align="left", border_style="dim")


def age_text(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    if seconds < 60:
        return f"{seconds:.0f}s ago"
    minutes = int(seconds // 60)
    return f"{minutes}m ago" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m ago"
