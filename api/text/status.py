"""The fleet at a glance as text: a sentence on each part, and tables of what is in trouble, with styles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from api.models import TaintModel
from api.status_models import (
    ClusterPlacements,
    FleetStatus,
    PlacementOnCluster,
    RecentMove,
    TroubledCluster,
    TroubledPlacement,
)
from fleet.model.timestamps import format_elapsed, timestamp_or_none
from fleet.name_lists import join_first
from fleet.text_table import apply_style, render_table

_SCHEDULED: Final = "Scheduled"
_MOST_NAMES: Final = 6
_POLICY: Final = "SchedulingPolicySnapshot"
_GOOD: Final = "green"
_BAD: Final = "red"
_STATES: Final = {
    "there": "there",
    "leaving": "leaving",
    "fits": "fits",
    "rejected": "no",
    "not-named": "no",
    "unknown": "unknown",
}


def render_status(status: FleetStatus, *, width: int | None = None) -> str:
    return "\n\n".join(_render_parts(status, width))


def _render_parts(status: FleetStatus, width: int | None) -> Iterator[str]:
    now = timestamp_or_none(status.at) or 0
    yield f"{_describe_placements(status)}\n{_describe_clusters(status)}"
    if status.trouble:
        rows = [_build_trouble(trouble, now) for trouble in status.trouble]
        yield _render(("PLACEMENT", "READY", "FOR", "WHY"), rows, status.more_trouble, width)
    if status.troubled_clusters:
        clusters = [_build_cluster(cluster, now) for cluster in status.troubled_clusters]
        yield _render(
            ("CLUSTER", "STATE", "HEARD", "PLACEMENTS", "TAINTS"), clusters, status.more_clusters, width, "PLACEMENTS"
        )
    if status.moves:
        moves = [_build_move(move, now) for move in status.moves]
        yield _render(("MOVED", "PLACEMENT", "CLUSTERS", "BECAUSE"), moves, status.more_moves, width)
    elif status.moves_since is None:
        yield "no history here, so recent moves are not known"
    else:
        yield "nothing moved in the last hour"


def _render(head: Sequence[str], rows: Sequence[Sequence[str]], more: int, width: int | None, *numbers: str) -> str:
    table = render_table(head, rows, numbers=numbers, width=width)
    return f"{table}\nand {more} more" if more else table


def _describe_placements(status: FleetStatus) -> str:
    counts = status.placements
    if not counts.total:
        return "no placements"
    if counts.fulfilled == counts.total:
        return apply_style(f"{_count(counts.total, 'placement')}: all have the clusters they want", _GOOD)
    parts = [f"{counts.fulfilled} have the clusters they want"]
    parts += [apply_style(f"{counts.short} short", _BAD)] if counts.short else []
    parts += [f"{counts.undecided} not decided yet"] if counts.undecided else []
    return f"{_count(counts.total, 'placement')}: {', '.join(parts)}"


def _describe_clusters(status: FleetStatus) -> str:
    counts = status.clusters
    hidden = f"; and {counts.redacted} you may not read" if counts.redacted else ""
    out = counts.total - counts.eligible
    state = apply_style(f"{out} cannot take new work", _BAD) if out else "all can take new work"
    tainted = f", {counts.tainted} tainted" if counts.tainted else ""
    return f"{_count(counts.total, 'cluster')}: {state}{tainted}{hidden}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _build_trouble(trouble: TroubledPlacement, now: int) -> tuple[str, ...]:
    wanted = trouble.selected if trouble.wanted is None else trouble.wanted
    words = trouble.why or trouble.reason or "not decided yet"
    prefix = "" if trouble.condition == _SCHEDULED else f"{trouble.condition}: "
    ready = f"{trouble.selected}/{wanted}"
    return trouble.key, apply_style(ready, _BAD), format_elapsed(trouble.since, now), prefix + words


def _build_cluster(cluster: TroubledCluster, now: int) -> tuple[str, ...]:
    state = cluster.state if cluster.eligible else apply_style(cluster.state, _BAD)
    heard = format_elapsed(cluster.last_heartbeat, now)
    return cluster.name, state, heard, str(cluster.placements), _join_taints(cluster.taints)


def _join_taints(taints: Sequence[TaintModel]) -> str:
    return " ".join(f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in taints)


def _build_move(move: RecentMove, now: int) -> tuple[str, ...]:
    names = join_first(
        [*(f"+{name}" for name in move.gained), *(f"-{name}" for name in move.lost)], _MOST_NAMES, separator=" "
    )
    hidden = f" and {move.redacted} you may not read" if move.redacted else ""
    causes = list(dict.fromkeys(map(_shorten_trigger, move.triggers)))
    more = f" and {len(causes) - 1} more" if len(causes) > 1 else ""
    return f"{format_elapsed(move.at, now)} ago", move.key, names + hidden, "".join(causes[:1]) + more


def _shorten_trigger(trigger: str) -> str:
    """`MemberCluster/UpdateHealth+UpdateTaints bom-1` is `UpdateHealth, UpdateTaints bom-1`."""
    kind, _, event = trigger.partition("/")
    if kind.endswith(_POLICY) and event.startswith("Add "):
        return "new policy"
    return (event or trigger).replace("+", ", ")


# --- one cluster ------------------------------------------------------------------------------------------------------


def render_cluster_placements(page: ClusterPlacements, *, width: int | None = None) -> str:
    if not page.items:
        return f"{page.cluster}: there are no placements"
    here = sum(item.state == "there" for item in page.items)
    ordered = sorted(page.items, key=lambda item: (item.state != "there", item.state != "leaving", item.key))
    table = render_table(("PLACEMENT", "THERE", "PLUGIN", "WHY"), [_build_item(item) for item in ordered], width=width)
    more = f"\nmore with cursor={page.next}" if page.next else ""
    return f"{page.cluster} has {here} of {_count(len(page.items), 'placement')}\n\n{table}{more}"


def _build_item(item: PlacementOnCluster) -> tuple[str, ...]:
    state = apply_style(_STATES[item.state], _GOOD if item.state == "there" else _BAD if item.plugin else "dim")
    if item.state == "there":
        why = f"stays, but would not be chosen now: {item.why}" if item.why else ""
    elif item.state == "fits":
        why = "nothing rejects it; others were chosen"
    else:
        why = item.why
    return item.key, state, item.plugin, why
