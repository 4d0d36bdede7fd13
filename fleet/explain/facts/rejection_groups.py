"""Rejected clusters by plugin and reason, with the closest one of each group."""

from __future__ import annotations

import msgspec

from fleet.explain.facts.cluster_outcome import ClusterOutcomes
from fleet.explain.facts.nearness import sort_by_name, split_by_failures
from fleet.explain.facts.phrases import describe_lack
from fleet.explain.facts.rejections import RejectionGroup, find_first_rejection, group_rejections
from fleet.framework.cycle.decision import Decision

NAMES_SHOWN = 10
AFFINITY = "ClusterAffinity"


class Closest(msgspec.Struct, frozen=True, rename="camel"):
    cluster: str
    lacks: str
    """What keeps it out, in a few words."""


class GroupSummary(msgspec.Struct, frozen=True, rename="camel"):
    plugin: str
    reason: str
    count: int
    clusters: tuple[str, ...]
    """The first names, sorted."""
    more: int
    """How many names are left out."""
    closest: Closest


def build_groups(decision: Decision) -> tuple[GroupSummary, ...]:
    """Largest first; the counts add up to the number of rejected clusters."""
    outcomes = ClusterOutcomes(decision)
    summaries = [_build_group(outcomes, group) for group in group_rejections(outcomes)]
    return tuple(sorted(summaries, key=lambda summary: (-summary.count, summary.plugin, summary.reason)))


def _build_group(outcomes: ClusterOutcomes, group: RejectionGroup) -> GroupSummary:
    in_order = sort_by_name(outcomes.frame, group.rows)
    return GroupSummary(
        plugin=group.plugin,
        reason=group.reason,
        count=len(in_order),
        clusters=tuple(outcomes.frame.name(row) for row in in_order[:NAMES_SHOWN]),
        more=max(len(in_order) - NAMES_SHOWN, 0),
        closest=_find_closest(outcomes, group),
    )


def _find_closest(outcomes: ClusterOutcomes, group: RejectionGroup) -> Closest:
    """The cluster with the fewest failed expressions; the first by name for plugins without expressions."""
    row = find_closest_row(outcomes, group)
    rejection = find_first_rejection(outcomes, row)
    assert rejection is not None
    return Closest(outcomes.frame.name(row), describe_lack(rejection))


def find_closest_row(outcomes: ClusterOutcomes, group: RejectionGroup) -> int:
    frame, rows = outcomes.frame, group.rows
    if group.plugin == AFFINITY:
        divided = split_by_failures(outcomes.decision.request, frame, rows)
        rows = next(members for members in divided if members)
    return sort_by_name(frame, rows)[0]
