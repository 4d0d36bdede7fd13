"""Tables of what would be elsewhere, for replays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_ROWS: Final = 20
_COUNTS: Final = (("clusters", ("CLUSTER", "GAINED", "LOST")), ("outcomes", ("OUTCOME", "BEFORE", "AFTER")))


def listed(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[RenderableType]:
    """The first rows after an empty line; nothing where there are none."""
    from rich.text import Text

    from fleet.cli.output.console import columns

    if rows:
        yield Text()
        yield columns(headings, rows[:_MOST_ROWS])
    if len(rows) > _MOST_ROWS:
        yield Text(f"and {len(rows) - _MOST_ROWS} more; -o json lists all", style="dim")


def moved_rows(heading: str, moved: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    rows = [(_whose(one), _names(one["before"]), _names(one["after"]), _cause(one)) for one in moved]
    yield from listed((heading, "BEFORE", "AFTER", "CAUSE"), rows)


def counted(summary: Mapping[str, Any] | None) -> Iterator[RenderableType]:
    """How many each cluster would gain and lose, and how outcomes would change."""
    for name, headings in _COUNTS:
        rows = [[str(one[heading.lower()]) for heading in headings] for one in (summary or {}).get(name) or ()]
        yield from listed(headings, rows)


def _whose(moved: Mapping[str, Any]) -> str:
    """The placement, and the attempt if it is about one."""
    return " ".join(name for name in (moved.get("placement"), moved["key"]) if name)


def _cause(moved: Mapping[str, Any]) -> str:
    hidden = moved.get("redacted")
    return f"{moved['cause']}; {hidden} more clusters that you may not read" if hidden else str(moved["cause"])


def _names(names: Sequence[str]) -> str:
    return " ".join(names) or "none"
