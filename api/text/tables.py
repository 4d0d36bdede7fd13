"""Tables of plain text: no colours, no truncation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from api.models import BindingPage, ClusterPage, PlacementPage, ReplayReport, SettingPage
from fleet.explain.whatif.diff import Moved
from fleet.scheduler.profiles.description import ProfilePage
from fleet.text_table import Page, finish, render_table


def render_plain_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return finish(render_table(head, list(rows)), Page()) + "\n"


def _describe_redacted(count: int, what: str) -> str:
    return f"and {count} {what} on clusters you may not read\n" if count else ""


def render_placements(page: PlacementPage) -> str:
    rows = (
        (
            placement.key,
            placement.type,
            "all" if placement.wanted is None else str(placement.wanted),
            str(len(placement.targets) + placement.redacted),
            {True: "yes", False: "no", None: "undecided"}[placement.fulfilled],
            ", ".join(placement.targets) + (f" and {placement.redacted} more" if placement.redacted else ""),
        )
        for placement in page.items
    )
    return render_plain_table(
        ("PLACEMENT", "TYPE", "WANTED", "SELECTED", "FULFILLED", "CLUSTERS"), rows
    ) + _describe_more(page.next)


def render_clusters(page: ClusterPage) -> str:
    rows = (
        (
            cluster.name,
            "leaving" if cluster.leaving else "yes" if cluster.eligible else "no",
            cluster.joined or "-",
            cluster.healthy or "-",
            cluster.last_heartbeat or "-",
            ", ".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in cluster.taints),
        )
        for cluster in page.items
    )
    text = render_plain_table(("CLUSTER", "ELIGIBLE", "JOINED", "HEALTHY", "LAST HEARTBEAT", "TAINTS"), rows)
    hidden = f"and {page.redacted} clusters you may not read\n" if page.redacted else ""
    return text + hidden + _describe_more(page.next)


def render_bindings(page: BindingPage) -> str:
    rows = (
        (
            binding.placement,
            binding.cluster,
            "Deleting" if binding.deleting else binding.state,
            binding.name,
            binding.resource_snapshot or "-",
        )
        for binding in page.items
    )
    text = render_plain_table(("PLACEMENT", "CLUSTER", "STATE", "BINDING", "RESOURCES"), rows)
    return text + _describe_redacted(page.redacted, "bindings") + _describe_more(page.next)


def render_profiles(page: ProfilePage) -> str:
    rows = (
        (profile.scheduler_name, hook, plugin.name, plugin.form, "" if plugin.weight is None else str(plugin.weight))
        for profile in page.items
        for hook, plugins in profile.plugins.items()
        for plugin in plugins
    )
    return render_plain_table(("PROFILE", "HOOK", "PLUGIN", "FORM", "WEIGHT"), rows)


def render_settings(page: SettingPage) -> str:
    return render_plain_table(
        ("SETTING", "VALUE", "ORIGIN", "NOTE"),
        ((setting.name, str(setting.value), setting.origin, setting.note) for setting in page.items),
    )


def _describe_more(cursor: str | None) -> str:
    return f"more with cursor={cursor}\n" if cursor else ""


def _describe_unread(diff: Moved) -> str:
    return f"and {diff.redacted} you may not read" if diff.redacted else ""


def render_replay(report: ReplayReport) -> str:
    lines = [f"{report.attempts} attempts: {report.same} the same, {len(report.skipped)} skipped\n"]
    for replayed in report.different:
        difference = replayed.difference
        where = (
            f": {difference.stage} {difference.cluster} {difference.recorded} → {difference.replayed}"
            if difference
            else ""
        )
        lines.append(f"DIFFERENT  {replayed.id}{where}\n")
    rows = [
        (diff.placement, diff.key, diff.cause, " ".join(diff.before), " ".join(diff.after), _describe_unread(diff))
        for diff in report.changed
    ]
    if rows:
        lines.append(render_plain_table(("CHANGED", "ATTEMPT", "CAUSE", "BEFORE", "AFTER", ""), rows))
    lines += [f"SKIPPED    {skipped.id}: {skipped.because}\n" for skipped in report.skipped]
    return "".join(lines) + (f"more after {report.next}\n" if report.next is not None else "")
