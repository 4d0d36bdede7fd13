"""Columns of text, for answers that people read: no colours, nothing cut off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from api.models import BindingPage, ClusterPage, PlacementPage, ProfilePage, ReplayReport, SettingPage
from fleet.explain.whatif.diff import Moved


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(_line(cells, widths) for cells in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip() + "\n"


def _redacted(count: int, what: str) -> str:
    return f"and {count} {what} on clusters you may not read\n" if count else ""


def placements_text(page: PlacementPage) -> str:
    rows = (
        (
            one.key,
            one.type,
            "all" if one.wanted is None else str(one.wanted),
            str(len(one.targets) + one.redacted),
            {True: "yes", False: "no", None: "undecided"}[one.fulfilled],
            ", ".join(one.targets) + (f" and {one.redacted} more" if one.redacted else ""),
        )
        for one in page.items
    )
    return table(("PLACEMENT", "TYPE", "WANTED", "SELECTED", "FULFILLED", "CLUSTERS"), rows) + _more(page.next)


def clusters_text(page: ClusterPage) -> str:
    rows = (
        (
            one.name,
            "leaving" if one.leaving else "yes" if one.eligible else "no",
            one.joined or "-",
            one.healthy or "-",
            one.last_heartbeat or "-",
            ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in one.taints),
        )
        for one in page.items
    )
    text = table(("CLUSTER", "ELIGIBLE", "JOINED", "HEALTHY", "LAST HEARTBEAT", "TAINTS"), rows)
    hidden = f"and {page.redacted} clusters you may not read\n" if page.redacted else ""
    return text + hidden + _more(page.next)


def bindings_text(page: BindingPage) -> str:
    rows = (
        (one.placement, one.cluster, "Deleting" if one.deleting else one.state, one.name, one.resource_snapshot or "-")
        for one in page.items
    )
    text = table(("PLACEMENT", "CLUSTER", "STATE", "BINDING", "RESOURCES"), rows)
    return text + _redacted(page.redacted, "bindings") + _more(page.next)


def profiles_text(page: ProfilePage) -> str:
    rows = (
        (profile.scheduler_name, hook, one.name, one.form, "" if one.weight is None else str(one.weight))
        for profile in page.items
        for hook, plugins in profile.plugins.items()
        for one in plugins
    )
    return table(("PROFILE", "HOOK", "PLUGIN", "FORM", "WEIGHT"), rows)


def settings_text(page: SettingPage) -> str:
    return table(("SETTING", "VALUE", "ORIGIN"), ((one.name, str(one.value), one.origin) for one in page.items))


def _more(cursor: str | None) -> str:
    return f"more with cursor={cursor}\n" if cursor else ""


def _unread(one: Moved) -> str:
    return f"and {one.redacted} you may not read" if one.redacted else ""


def replay_text(report: ReplayReport) -> str:
    lines = [f"{report.attempts} attempts: {report.same} the same, {len(report.skipped)} skipped\n"]
    for one in report.different:
        found = one.difference
        where = f": {found.stage} {found.cluster} {found.recorded} → {found.replayed}" if found else ""
        lines.append(f"DIFFERENT  {one.id}{where}\n")
    rows = [
        (one.placement, one.key, one.cause, " ".join(one.before), " ".join(one.after), _unread(one))
        for one in report.changed
    ]
    if rows:
        lines.append(table(("CHANGED", "ATTEMPT", "CAUSE", "BEFORE", "AFTER", ""), rows))
    lines += [f"SKIPPED    {one.id}: {one.because}\n" for one in report.skipped]
    return "".join(lines) + (f"more after {report.next}\n" if report.next is not None else "")
