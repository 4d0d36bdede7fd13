"""`fleet replay`: recorded decisions, decided again by the API, page after page, and one report of all of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fleet.cli.client.connection import Connection
from fleet.cli.client.requests import Question, Refusal, ask_json
from fleet.cli.commands.why import FINE, NOT_SO, write_json
from fleet.cli.input.edits import read_edits
from fleet.cli.output.diff_tables import counted, listed, moved_rows

if TYPE_CHECKING:
    from rich.console import RenderableType

_PAGE: Final = 1000
_PATIENCE: Final = 300.0
"""Seconds for a page: decisions of large fleets add up."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """As it stands on the command line."""

    attempts: Sequence[str] = ()
    """By id."""
    since: str | None = None
    limit: int | None = None
    edits: Sequence[str] = ()


def replay(connection: Connection, past: Past, *, as_json: bool) -> int:
    """1 where decisions did not come out as recorded: a defect, not a finding about a placement."""
    report = _joined(_pages(connection, past))
    if as_json:
        write_json(report)
    else:
        from fleet.cli.output.console import write

        write(_parts(report, is_rehearsal=bool(past.edits)))
    return NOT_SO if report["different"] else FINE


def _pages(connection: Connection, past: Past) -> Iterator[Json]:
    body: Json = {} if not past.edits else {"change": {"edits": read_edits(past.edits)}}
    left, after = past.limit, 0
    while True:
        select = _selection(past, after, left)
        page = ask_json(connection, Question(path="/v1/replay", body={"select": select, **body}), patience=_PATIENCE)
        if not isinstance(page, dict) or not {"attempts", "different", "next"} <= page.keys():
            raise Refusal(f"{connection.url} does not speak as the API of Fleet does: no report of a replay")
        yield page
        left = None if left is None else left - page["attempts"] - len(page["skipped"])
        if page["next"] is None or page["next"] <= after or (left is not None and left <= 0):
            return
        after = page["next"]


def _selection(past: Past, after: int, left: int | None) -> Json:
    select: Json = {"limit": _PAGE if left is None else min(left, _PAGE)}
    if past.since is not None:
        select["since"] = past.since
    if past.attempts:
        select["ids"] = list(past.attempts)
    return select | ({"after": after} if after else {})


def _joined(pages: Iterator[Json]) -> Json:
    total: Json = {"attempts": 0, "same": 0, "different": [], "changed": [], "skipped": [], "summary": None}
    for page in pages:
        for name in ("attempts", "same"):
            total[name] += page[name]
        for name in ("different", "changed", "skipped"):
            total[name] += page.get(name) or []
        total["summary"] = _summed(total["summary"], page.get("summary"))
    return total


def _summed(one: Json | None, other: Json | None) -> Json | None:
    """Two lists of counts, by cluster and by outcome, as one, and how many clusters are left out of it."""
    if one is None or other is None:
        return one or other
    labels = {"clusters": "cluster", "outcomes": "outcome"}
    counts = {name: _counts([*one[name], *other[name]], label) for name, label in labels.items()}
    # Pages do not say which clusters they count without a name: there are at least as many as in any of them.
    return counts | {"redacted": max(one.get("redacted", 0), other.get("redacted", 0))}


def _counts(rows: Iterable[Json], label: str) -> list[Json]:
    found: dict[str, Json] = {}
    for row in rows:
        known = found.setdefault(row[label], {label: row[label]})
        known |= {name: known.get(name, 0) + count for name, count in row.items() if name != label}
    return list(found.values())


# --- text -----------------------------------------------------------------------------------------------------------


def _parts(report: Json, *, is_rehearsal: bool) -> Iterator[RenderableType]:
    from rich.text import Text

    changed = f"{len(report['changed'])} would change" if is_rehearsal else f"{len(report['different'])} different"
    skipped = f", {len(report['skipped'])} skipped" if report["skipped"] else ""
    yield Text(f"{report['attempts']} decided again: {report['same']} the same, {changed}{skipped}")
    headings = ("DIFFERENT", "FROM STAGE", "CLUSTER", "RECORDED", "REPLAYED")
    yield from listed(headings, [_different(one) for one in report["different"]])
    yield from moved_rows("WOULD CHANGE", report["changed"])
    yield from listed(("SKIPPED", "BECAUSE"), [(one["id"], one["because"]) for one in report["skipped"]])
    yield from counted(report["summary"])


def _different(one: Json) -> tuple[str, ...]:
    found = one.get("difference") or {"stage": "digest", "recorded": one["recorded"], "replayed": one["digest"]}
    return one["id"], found["stage"], found.get("cluster", ""), found["recorded"], found["replayed"]
