"""`fleet replay`: has the API decide recorded attempts again, page by page, and merges the reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleet.cli.client.connection import ApiConnection
from fleet.cli.client.requests import ApiRequest, build_mismatch, fetch_json
from fleet.cli.commands.why import NOT_SCHEDULED, SUCCESS
from fleet.cli.input.edits import read_edits
from fleet.cli.output.console import TEXT, write_document
from fleet.clock import SystemClock, epoch_nanoseconds
from fleet.errors import InputError
from fleet.model.timestamps import format_timestamp, parse_duration, timestamp_or_none

_PAGE: Final = 1000
_TIMEOUT: Final = 300.0
"""Seconds per page: decisions of large fleets take time."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of the command line."""

    attempts: Sequence[str] = ()
    """Ids."""
    since: str | None = None
    limit: int | None = None
    edits: Sequence[str] = ()


def replay(connection: ApiConnection, options: ReplayOptions, *, form: str) -> int:
    """Returns 1 if decisions differ from the record, which is a defect of Fleet, not of a placement."""
    report = _merge_pages(_fetch_pages(connection, options))
    if form == TEXT:
        _print(report, connection, is_rehearsal=bool(options.edits))
    else:
        write_document(report, form)
    return NOT_SCHEDULED if report["different"] else SUCCESS


def _fetch_pages(connection: ApiConnection, options: ReplayOptions) -> Iterator[Json]:
    body: Json = {} if not options.edits else {"change": {"edits": read_edits(options.edits)}}
    left, after = options.limit, 0
    while True:
        select = _build_selection(options, after, left)
        page = fetch_json(connection, ApiRequest(path="/v1/replay", body={"select": select, **body}), timeout=_TIMEOUT)
        if not isinstance(page, dict) or not {"attempts", "different", "next"} <= page.keys():
            raise build_mismatch(connection, "its response is not a replay report")
        yield page
        left = None if left is None else left - page["attempts"] - len(page["skipped"])
        if page["next"] is None or page["next"] <= after or (left is not None and left <= 0):
            return
        after = page["next"]


def _build_selection(options: ReplayOptions, after: int, left: int | None) -> Json:
    select: Json = {"limit": _PAGE if left is None else min(left, _PAGE)}
    if options.since is not None:
        select["since"] = resolve_since(options.since)
    if options.attempts:
        select["ids"] = list(options.attempts)
    return select | ({"after": after} if after else {})


def resolve_since(text: str) -> str:
    """`1h` is an hour ago; a time stays as it is."""
    if timestamp_or_none(text) is not None:
        return text
    try:
        return format_timestamp(epoch_nanoseconds(SystemClock()) - parse_duration(text))
    except InputError as error:
        message = f"{text!r} is neither a time such as 2026-01-05T10:00:00Z nor a duration such as 90m or 12h"
        raise InputError(message, field="--since", value=text) from error


def _merge_pages(pages: Iterator[Json]) -> Json:
    total: Json = {"attempts": 0, "same": 0, "different": [], "changed": [], "skipped": [], "summary": None}
    for page in pages:
        for name in ("attempts", "same"):
            total[name] += page[name]
        for name in ("different", "changed", "skipped"):
            total[name] += page.get(name) or []
        total["summary"] = _add_summaries(total["summary"], page.get("summary"))
    return total


def _add_summaries(left: Json | None, other: Json | None) -> Json | None:
    """Merge two summaries: counts by cluster and by outcome, and the number of redacted clusters."""
    if left is None or other is None:
        return left or other
    labels = {"clusters": "cluster", "outcomes": "outcome"}
    counts = {name: _add_counts([*left[name], *other[name]], label) for name, label in labels.items()}
    # Pages do not name redacted clusters, so the maximum is a lower bound of their union.
    return counts | {"redacted": max(left.get("redacted", 0), other.get("redacted", 0))}


def _add_counts(rows: Iterable[Json], label: str) -> list[Json]:
    totals: dict[str, Json] = {}
    for row in rows:
        known = totals.setdefault(row[label], {label: row[label]})
        known |= {name: known.get(name, 0) + count for name, count in row.items() if name != label}
    return list(totals.values())


# --- text -----------------------------------------------------------------------------------------------------------


def _print(report: Json, connection: ApiConnection, *, is_rehearsal: bool) -> None:
    from msgspec import ValidationError

    from fleet.cli.output.console import print_text

    try:
        print_text("\n\n".join(part for part in _render_parts(report, is_rehearsal=is_rehearsal) if part))
    except (ValidationError, KeyError) as error:
        raise build_mismatch(connection, f"{error} in its replay report") from error


def _render_parts(report: Json, *, is_rehearsal: bool) -> Iterator[str]:
    import msgspec

    from fleet.explain.answer.comparisons import render_first, render_moves, render_sums
    from fleet.explain.whatif.diff import DiffSummary, Moved

    changed = f"{len(report['changed'])} would change" if is_rehearsal else f"{len(report['different'])} different"
    skipped = f", {len(report['skipped'])} skipped" if report["skipped"] else ""
    yield f"{report['attempts']} decided again: {report['same']} the same, {changed}{skipped}"
    headings = ("DIFFERENT", "FROM STAGE", "CLUSTER", "RECORDED", "REPLAYED")
    yield render_first(headings, [_list_difference(replayed) for replayed in report["different"]])
    yield render_moves("WOULD CHANGE", msgspec.convert(report["changed"], list[Moved]))
    yield render_first(("SKIPPED", "BECAUSE"), [(skip["id"], skip["because"]) for skip in report["skipped"]])
    yield from render_sums(msgspec.convert(report["summary"] or {}, DiffSummary))


def _list_difference(replayed: Json) -> tuple[str, ...]:
    difference = replayed.get("difference") or {
        "stage": "digest",
        "recorded": replayed["recorded"],
        "replayed": replayed["digest"],
    }
    return (
        replayed["id"],
        difference["stage"],
        difference.get("cluster", ""),
        difference["recorded"],
        difference["replayed"],
    )
